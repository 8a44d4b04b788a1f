"""Lowered steps become a program: strips, packed weights, planned memory, packed arguments."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pnnx_fast._core import program as core
from pnnx_fast._types import Array
from pnnx_fast.errors import ShapeError
from pnnx_fast.ops import registry
from pnnx_fast.ops.symbolic import Buffer, Tensor, Value, map_leaves, tensors_in
from pnnx_fast.runtime.constants import Constants
from pnnx_fast.runtime.executable import Executable, Segment, Slot
from pnnx_fast.runtime.lower import HostStep, KernelStep, Lowering
from pnnx_fast.runtime.plan import lifetimes, plan_arena
from pnnx_fast.runtime.returned import as_array, computed
from pnnx_fast.runtime.strips import fuse_strips

if TYPE_CHECKING:
    from pnnx_fast.runtime.records import StepRecord

__all__ = ["Program", "evaluate", "pack_values", "weights_ahead"]

ANY_ALIGNMENT = {"gather_rows": "x"}
"""Operands that a kernel reads byte by byte, so that an embedding can stay where the file is mapped."""

AHEAD_LEAST, AHEAD_MOST = 16 << 10, 256 << 10
"""Bytes of weights that are worth fetching before their step begins, and the most for each thread."""

MOST_DIMS: int = getattr(np, "MAXDIMS", 64)
"""Dimensions that an array of numpy may have; versions before 2 name the number."""

Reference = Callable[[Tensor, bool], tuple[int, int]]
"""Gives the base and offset of a tensor; the flag says whether its elements must be aligned."""


class Program(Executable):
    """An executable made of lowered steps, which it keeps.

    Parameters
    ----------
    steps : sequence of KernelStep or HostStep
    inputs : sequence of Tensor
        Tensors over ``input`` buffers, C-contiguous.
    outputs : sequence of Value
        Results; tensors among them become arrays, other values are returned as they are.
    """

    def __init__(
        self,
        steps: Sequence[KernelStep | HostStep],
        inputs: Sequence[Tensor],
        outputs: Sequence[Value],
        isa: str,
        nthreads: int,
        constants: Constants,
    ) -> None:
        builder = Lowering(isa, nthreads, constants)
        builder.steps = list(steps)
        slots = itertools.count()
        self.structure = map_leaves(lambda v: Slot(next(slots)) if isinstance(v, Tensor) else v, list(outputs))
        written = [_as_output(builder, t, i) for i, t in enumerate(tensors_in(outputs))]
        self._constants, self.ninputs = constants, len(inputs)
        self._used: set[Buffer] = set()
        self.steps = _fuse(builder.steps, isa, nthreads)
        self._offsets, arena_bytes = _plan(self.steps)
        packed, segments = self._pack()
        ahead = {i: (self.reference(t)[1], nbytes) for i, (t, nbytes) in weights_ahead(self.steps, nthreads).items()}
        native = core.Program(isa, packed, 1 + len(inputs) + len(written), nthreads, ahead=ahead)
        constants.pack(nthreads)
        super().__init__(
            native,
            isa,
            nthreads,
            segments=segments,
            structure=self.structure,
            output_types=[(t.shape, t.dtype) for t in written],
            arena_bytes=arena_bytes,
            arenas=constants.arenas,
        )

    def reference(self, t: Tensor, aligned: bool = True) -> tuple[int, int]:
        """Base and offset of a tensor; constants are named by their address, and stay as long as the program."""
        kind = t.buffer.kind
        if kind == "const":
            self._used.add(t.buffer)
            return 0, self._constants.address(t, aligned)
        if kind == "arena":
            return 1, self._offsets[t.buffer] + t.offset
        return (2 if kind == "input" else 2 + self.ninputs) + t.buffer.index, t.offset

    def _pack(self) -> tuple[list[tuple[str, dict[str, Any], bool, bool]], list[Segment]]:
        """Arguments of all kernel steps, which make one native program, and its ranges between host steps."""
        packed: list[tuple[str, dict[str, Any], bool, bool]] = []
        segments: list[Segment] = []
        begin = 0
        for step in self.steps:
            if isinstance(step, HostStep):
                for t in step.inputs:
                    if t.is_constant:
                        self._constants.settle(t.buffer)
                if len(packed) > begin:
                    segments.append((begin, len(packed)))
                segments.append(_HostCall(step, self._offsets))
                begin = len(packed)
            else:
                packed.append((step.kernel, pack_values(step, self.reference), step.serial, False))
        if len(packed) > begin:
            segments.append((begin, len(packed)))
        return packed, segments

    def records(self) -> list[StepRecord]:
        """Describe all steps in the order of the clock."""
        from pnnx_fast.runtime.records import StepRecord

        return [StepRecord(*_row(step)) for step in self.steps]


def _fuse(steps: Sequence[KernelStep | HostStep], isa: str, nthreads: int) -> list[KernelStep | HostStep]:
    """Replace steps that others can do as well."""
    kernels = {step.kernel for step in steps if isinstance(step, KernelStep)}
    if "attention_f32" in kernels and "copy" in kernels:
        from pnnx_fast.runtime.originals import read_originals

        steps = read_originals(steps)
    fused = fuse_strips(steps, nthreads)
    if "channel_affine" not in kernels:
        return fused
    from pnnx_fast.runtime.affine import fuse_affine

    return fuse_affine(fused, isa, nthreads)


def weights_ahead(steps: Sequence[KernelStep | HostStep], nthreads: int) -> dict[int, tuple[Tensor, int]]:
    """For each kernel step, the weights that are read next after it, and how many bytes of them are worth fetching."""
    ahead: dict[int, tuple[Tensor, int]] = {}
    later: tuple[Tensor, int] | None = None
    kernels = [step for step in steps if isinstance(step, KernelStep)]
    for i in reversed(range(len(kernels))):
        if later is not None:
            ahead[i] = later
        w = kernels[i].fields.get("w")
        if isinstance(w, Tensor) and w.buffer.kind == "const" and w.nbytes >= AHEAD_LEAST:
            later = w, min(w.nbytes, AHEAD_MOST * nthreads)
    return ahead


def pack_values(step: KernelStep, reference: Reference) -> dict[str, Any]:
    """Return the fields of a step with references in place of tensors."""
    free = ANY_ALIGNMENT.get(step.kernel)
    return {
        key: value if value.__class__ is int else _pack_value(value, reference, key != free)
        for key, value in step.fields.items()
    }


def _pack_value(value: Any, reference: Reference, aligned: bool = True) -> Any:
    if isinstance(value, Tensor):
        return reference(value, aligned)
    if isinstance(value, (tuple, list)):
        return tuple([v if v.__class__ is int else _pack_value(v, reference) for v in value])
    if isinstance(value, dict):
        return {k: v if v.__class__ is int else _pack_value(v, reference) for k, v in value.items()}
    return value


def _as_output(builder: Lowering, t: Tensor, index: int) -> Tensor:
    """Let the buffer of a result be the caller's array itself where possible, else copy at the end."""
    if t.ndim > MOST_DIMS:
        raise ShapeError(f"a result has more than {MOST_DIMS} dimensions", actual=list(t.shape))
    if t.buffer.kind == "arena" and t.is_contiguous and t.offset == 0 and t.nbytes == t.buffer.nbytes and t.size:
        t.buffer.kind, t.buffer.index = "output", index
        return t
    y = Tensor(Buffer("output", t.nbytes, None, index), t.shape, t.dtype)
    builder.copy(t, y)
    return y


def _plan(steps: Sequence[KernelStep | HostStep]) -> tuple[dict[Buffer, int], int]:
    uses = [{t.buffer for t in step.tensors} for step in steps]
    pairs = []
    for i, step in enumerate(steps):
        if isinstance(step, KernelStep) and step.inplace is not None:
            out, source = step.inplace
            # A tensor that the kernel also reads elsewhere must not change while it runs.
            readers = sum(t.buffer is source.buffer for t in step.tensors)
            if readers == 1 and _is_whole(out) and _is_whole(source) and out.strides == source.strides:
                pairs.append((i, out.buffer, source.buffer))
    return plan_arena(lifetimes(uses), pairs)


def _is_whole(t: Tensor) -> bool:
    return t.buffer.kind == "arena" and t.offset == 0 and t.is_dense and t.nbytes == t.buffer.nbytes


class _HostCall:
    """A numpy step with its place in memory."""

    def __init__(self, step: HostStep, offsets: dict[Buffer, int]) -> None:
        self._step, self._offsets = step, offsets

    def __call__(self, arena: Array, inputs: Sequence[Array], results: Sequence[Array]) -> None:
        # Odd values give infinities and NaN, as they do in kernels, and no warnings of numpy.
        with np.errstate(all="ignore"):
            self._run({"arena": [arena], "input": inputs, "output": results})

    def _run(self, memory: Mapping[str, Sequence[Array]]) -> None:
        step = self._step

        def view(t: Tensor) -> Array:
            return self._view(t, memory[t.buffer.kind][t.buffer.index])

        where = f"{step.type} {step.operator}"
        given = [t.numpy() if t.is_constant else view(t) for t in step.inputs]
        for array in given:
            array.flags.writeable = False  # others read them, too: the caller among them
        parts = computed(step.function, given, where)
        if len(parts) != len(step.outputs):
            raise ShapeError(
                "the numpy function gives another number of arrays than announced",
                operator=where,
                expected=len(step.outputs),
                actual=len(parts),
            )
        for t, part in zip(step.outputs, parts, strict=True):
            array = as_array(part, where)
            if array.shape != t.shape:
                raise ShapeError(
                    "the numpy function gives another shape than announced",
                    operator=where,
                    expected=t.shape,
                    actual=array.shape,
                )
            same = array.dtype == t.dtype or np.can_cast(array.dtype, t.dtype, "same_kind")
            if not same and registry.users_own([step.type]):
                raise ShapeError(
                    "the numpy function gives another dtype than announced",
                    operator=where,
                    expected=t.dtype,
                    actual=array.dtype,
                )
            np.copyto(view(t), array, casting="unsafe")

    def _view(self, t: Tensor, memory: Array) -> Array:
        raw = memory.reshape(-1).view(np.uint8)
        offset = t.offset + (self._offsets[t.buffer] if t.buffer.kind == "arena" else 0)
        strides = tuple(s * t.dtype.itemsize for s in t.strides)
        if t.size == 0:
            return np.empty(t.shape, t.dtype)
        view: Array = np.ndarray(t.shape, t.dtype, raw.data, offset, strides)
        return view


def evaluate(steps: Sequence[KernelStep | HostStep], produced: Value, builder: Lowering) -> Value:
    """Run steps that depend on constants only and return ``produced`` with constant tensors."""
    program = Program(steps, [], [produced], builder.isa, builder.nthreads, builder.constants)
    return map_leaves(lambda v: builder.constant(v) if isinstance(v, np.ndarray) else v, program.run([])[0])


def _row(step: KernelStep | HostStep) -> tuple[Any, ...]:
    """Fields of a step's record."""
    nbytes = sum(t.nbytes for t in step.tensors)
    if isinstance(step, HostStep):
        return "numpy", "", step.operator, step.type, step.flops, nbytes, True
    return step.kernel, step.label, step.operator, step.type, step.flops, nbytes, step.serial
