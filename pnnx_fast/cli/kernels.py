"""Times single kernels at given shapes: every algorithm that could serve, against what the machine can do.

Used by ``pnnx-fast bench --kernels`` and by the benchmarks beside the package. An operator is lowered as in a model;
a convolution is also lowered to the kernels that the dispatcher did not choose. Knows no models and no files.
"""

from __future__ import annotations

import functools
import math
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from pnnx_fast._core import program as core
from pnnx_fast._memory import aligned_bytes
from pnnx_fast._types import Array
from pnnx_fast.cli.kernel_shapes import Shape
from pnnx_fast.ops import load_all, registry
from pnnx_fast.ops._conv_choice import Choice, candidates, is_stem
from pnnx_fast.ops.symbolic import Buffer, Tensor
from pnnx_fast.runtime.constants import Constants
from pnnx_fast.runtime.lower import HostStep, KernelStep, Lowering
from pnnx_fast.runtime.program import Program

__all__ = ["Timing", "peak", "time_shape"]

ROUNDS = 5
"""Algorithms of a shape take turns so often."""

PROBE_ROUNDS = 20_000
LANES = 16
"""Floats that each thread of a probe may store: the widest vector."""


class Timing(NamedTuple):
    """One algorithm at one shape: seconds of the fastest round, FLOPs of the plain algorithm, bytes touched."""

    shape: str
    kernel: str
    label: str
    chosen: bool
    seconds: float
    flops: int
    nbytes: int

    @property
    def algorithm(self) -> str:
        """Kernel and tile in a few words."""
        name = self.kernel.removesuffix("_f32").removeprefix("conv_")
        return self.label if self.label.startswith(name) else f"{name} {self.label}".strip()


# -- what the machine can do -----------------------------------------------------------------------------------


@functools.cache
def peak(isa: str, threads: int) -> float:
    """Most FLOP/s that the threads reach together at an ISA level: multiply-adds that stay in registers."""
    y = np.ones(LANES * threads, np.float32)
    arguments = {"y": (0, y.__array_interface__["data"][0]), "count": PROBE_ROUNDS}
    program = core.Program(isa, [("probe_fma_f32", arguments, False, False)], 0, threads)
    best = math.inf
    for _ in range(200):
        stamps = program.run((), timed=True)
        assert stamps is not None
        best = min(best, (stamps[1] - stamps[0]) * 1e-9)
    lanes = {"generic": 4, "avx2": 8}.get(isa, 16)
    return 24 * lanes * PROBE_ROUNDS * threads / best


# -- lowering --------------------------------------------------------------------------------------------------


class _Bench:
    """A builder with random constants, and the inputs of what is lowered on it."""

    def __init__(self, isa: str, threads: int) -> None:
        self.builder = Lowering(isa, threads, Constants(seed=0))
        self.inputs: list[Tensor] = []
        self._random = np.random.default_rng(0)

    def input(self, *shape: int, channels_last: bool = False) -> Tensor:
        """A tensor that the caller of the program hands over."""
        buffer = Buffer("input", 4 * math.prod(shape), None, len(self.inputs))
        kept = Tensor(buffer, shape, np.dtype(np.float32))
        self.inputs.append(kept)
        if not channels_last:
            return kept
        _, c, h, w = shape
        return Tensor(buffer, shape, kept.dtype, (h * w * c, 1, w * c, c))

    def weight(self, *shape: int) -> Tensor:
        """A constant whose outputs are about as large as its inputs."""
        scale = math.sqrt(math.prod(shape[1:]))
        return self.builder.constant((self._random.standard_normal(shape) / scale).astype(np.float32))

    def lower(self, type: str, *tensors: Tensor, **parameters: Any) -> Tensor:
        """Lower one operator."""
        load_all()
        result: Tensor = registry.require(type).function(self.builder, *tensors, **parameters)
        return result

    def executable(self) -> Program:
        """The program so far; results stay where kernels leave them, for handing them over would cost a copy."""
        b = self.builder
        return Program(b.steps, self.inputs, [], b.isa, b.nthreads, b.constants)

    def arrays(self) -> list[Array]:
        """Random inputs, aligned as activations inside of a model are."""
        found = []
        for t in self.inputs:
            array = aligned_bytes(4 * t.size).view(np.float32).reshape(t.shape)
            array[...] = self._random.standard_normal(t.shape)
            found.append(array)
        return found


def _conv(bench: _Bench, s: Shape, channels_last: bool = True) -> Tensor:
    c, h, w = s.sizes
    x = bench.input(s["n"], c, h, w, channels_last=channels_last)
    weight, bias = bench.weight(s["oc"], c // s["g"], s["k"], s["k"]), bench.weight(s["oc"])
    window = {"stride": s["s"], "padding": s["p"], "dilation": s["d"], "groups": s["g"]}
    return bench.lower("fused.Conv2d", x, weight, bias, **window, activation="relu")


def _transposed(bench: _Bench, s: Shape) -> Tensor:
    c, h, w = s.sizes
    x = bench.input(s["n"], c, h, w, channels_last=True)
    weight, bias = bench.weight(c, s["oc"] // s["g"], s["k"], s["k"]), bench.weight(s["oc"])
    return bench.lower("nn.ConvTranspose2d", x, weight, bias, stride=s["s"], padding=s["p"], groups=s["g"])


def _linear(bench: _Bench, s: Shape) -> Tensor:
    return bench.lower("nn.Linear", bench.input(*s.sizes), bench.weight(s["oc"], s.sizes[1]), bench.weight(s["oc"]))


def _matmul(bench: _Bench, s: Shape) -> Tensor:
    batch, _, depth = s.sizes
    return bench.lower("torch.matmul", bench.input(*s.sizes), bench.input(batch, depth, s["n"]))


def _attention(bench: _Bench, s: Shape) -> Tensor:
    heads, rows, width = s.sizes
    q, k, v = (bench.input(1, heads, n, width) for n in (rows, s["keys"], s["keys"]))
    return bench.lower("F.scaled_dot_product_attention", q, k, v)


def _layer_norm(bench: _Bench, s: Shape) -> Tensor:
    n = s.sizes[-1]
    return bench.lower("nn.LayerNorm", bench.input(*s.sizes), bench.weight(n), bench.weight(n), normalized_shape=(n,))


def _max_pool(bench: _Bench, s: Shape) -> Tensor:
    x = bench.input(s["n"], *s.sizes, channels_last=True)
    return bench.lower("nn.MaxPool2d", x, kernel_size=s["k"], stride=s["s"], padding=s["p"])


_LOWER: dict[str, Callable[[_Bench, Shape], Tensor]] = {
    "conv": _conv,
    "transposed": _transposed,
    "linear": _linear,
    "matmul": _matmul,
    "attention": _attention,
    "layer_norm": _layer_norm,
    "softmax": lambda bench, s: bench.lower("F.softmax", bench.input(*s.sizes), dim=-1),
    "gelu": lambda bench, s: bench.lower("nn.GELU", bench.input(*s.sizes)),
    "max_pool": _max_pool,
}


# -- algorithms ------------------------------------------------------------------------------------------------


def _programs(isa: str, threads: int, shape: Shape) -> Iterator[tuple[_Bench, bool]]:
    """Programs for a shape: the dispatcher's first, then those with the kernels that it passed over."""
    bench = _Bench(isa, threads)
    stem = shape.kind == "conv" and is_stem(shape.sizes[0], (shape["k"],), (1, shape["d"]), shape["g"])
    if stem:
        _conv(bench, shape, channels_last=False)
    else:
        _LOWER[shape.kind](bench, shape)
    steps = list(bench.builder.steps)
    yield bench, True
    if shape.kind not in ("conv", "linear") or len(steps) != 1 or not isinstance(steps[0], KernelStep):
        return
    taken = steps[0].kernel, steps[0].fields.get("variant")
    geometry = {name: value for name, value in steps[0].fields.items() if not isinstance(value, Tensor)}
    for choice in candidates(isa, geometry):
        if choice.kernel != taken[0] or choice.variant not in (-1, taken[1]):
            yield _forced(isa, threads, shape, choice), False


def _forced(isa: str, threads: int, shape: Shape, choice: Choice) -> _Bench:
    """The shape lowered to the kernel of a choice."""
    bench = _Bench(isa, threads)
    _LOWER[shape.kind](bench, shape)
    (step,) = bench.builder.steps
    assert isinstance(step, KernelStep)
    fields = {name: value for name, value in step.fields.items() if name not in ("xsc", "chunks")}
    plan = bench.builder.plan(choice.kernel, **{**fields, "variant": choice.variant})
    weight = _given_weight(bench, shape)
    size = {"oc": weight.shape[0], "ic": fields["ic"], "kh": fields["kh"], "kw": fields["kw"]}
    size |= {"groups": fields["groups"], "variant": plan.variant}
    fields["w"] = bench.builder.pack(choice.pack, weight, plan.packed_bytes, **size)
    fields |= {"scratch": bench.builder.scratch(plan.scratch_bytes), **plan.chosen}
    bench.builder.steps = []
    bench.builder.step(choice.kernel, flops=step.flops, label=plan.label, serial=step.serial, **fields)
    return bench


def _given_weight(bench: _Bench, shape: Shape) -> Tensor:
    """A weight in PyTorch's order, for packing."""
    if shape.kind == "linear":
        return bench.weight(shape["oc"], shape.sizes[1], 1, 1)
    return bench.weight(shape["oc"], shape.sizes[0] // shape["g"], shape["k"], shape["k"])


# -- timing ----------------------------------------------------------------------------------------------------


def _burst(program: Program, arrays: Sequence[Array], seconds: float) -> float:
    """Median time inside the kernels, of calls for a while."""
    times: list[int] = []
    end = time.perf_counter() + seconds
    while len(times) < 3 or time.perf_counter() < end:
        clock: list[tuple[int, int]] = []
        program.run(arrays, clock)
        times.append(sum(ns for _, ns in clock))
    return statistics.median(times) * 1e-9


def time_shape(isa: str, threads: int, shape: Shape, seconds: float = 0.1) -> list[Timing]:
    """Time all algorithms for a shape in turn, the dispatcher's choice first; ``seconds`` for each."""
    made = list(_programs(isa, threads, shape))
    runs = [(bench.executable(), bench.arrays()) for bench, _ in made]
    best = [math.inf] * len(runs)
    for program, arrays in runs:
        program.run(arrays)
    for _ in range(ROUNDS):
        for number, (program, arrays) in enumerate(runs):
            best[number] = min(best[number], _burst(program, arrays, seconds / ROUNDS))
    found = []
    for (program, _), (_, chosen), took in zip(runs, made, best, strict=True):
        steps = program.steps
        main = max(steps, key=lambda step: step.flops)
        kernel, label = (main.kernel, main.label) if isinstance(main, KernelStep) else ("numpy", "")
        if len(steps) > 1:
            label = f"{label} × {len(steps)}".strip()
        flops = sum(step.flops for step in steps) if shape.multiplies else 0
        found.append(Timing(shape.text, kernel, label, chosen, took, flops, _touched(steps)))
    return found


def _touched(steps: Sequence[KernelStep | HostStep]) -> int:
    """Bytes of all tensors that steps read or write, scratch aside."""
    total = 0
    for step in steps:
        scratch = step.fields.get("scratch") if isinstance(step, KernelStep) else None
        total += sum(t.nbytes for t in step.tensors if t is not scratch)
    return total
