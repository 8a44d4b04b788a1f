"""Chains of convolutions, pools and changes of layout become one step that computes them strip by strip, so that
tensors between them that are larger than the cache of a core never leave it. Works on the steps of a lowered program;
the step itself is ``exec/strips.c``.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from pnnx_fast._core import program as core
from pnnx_fast.ops.symbolic import Buffer, Tensor
from pnnx_fast.runtime.lower import HostStep, KernelStep

__all__ = ["fuse_strips"]

KERNELS = {"conv_f32", "conv_depthwise_f32", "conv_stem_f32", "conv_grouped_f32", "gate_f32"}
"""Convolutions, and gates like them, that can be stages: their threads claim their work, so one thread can run a call
alone."""

NEAR_BYTES = 1 << 20
"""Size of a second-level cache from which on strips in it pay for all that leaves it."""


def _cache_bytes(level: int, unknown: int) -> int:
    """Size of a cache of a core, where the system tells it."""
    try:
        with open(f"/sys/devices/system/cpu/cpu0/cache/index{level}/size", "rb") as file:
            return int(file.read().rstrip(b"K\n")) << 10
    except (OSError, ValueError):
        return unknown


def _worth_bytes(second: int, third: int) -> int:
    """Return the size of tensors that are kept in strips. A small cache holds few lines of all stages: short runs of
    kernels then cost more than what is spared, as long as the tensor stays in the third-level cache.
    """
    return second if second >= NEAR_BYTES else max(second, third // 8)


CACHE_BYTES = min(max(_cache_bytes(2, 1 << 20), 1 << 18), 1 << 21)
"""Size of the second-level cache of a core."""

WORTH_BYTES = _worth_bytes(CACHE_BYTES, _cache_bytes(3, 0))
"""Size from which a tensor between two convolutions is kept in strips."""

LIGHT = {"conv_depthwise_f32": 3, "max_pool": 3, "gate_f32": 3, "copy": 1}
"""Quarters of that size that are enough next to stages that do little work for what they read and write, because input
and result of a stage want the cache together. A change of layout does none."""

STRIP_BYTES = CACHE_BYTES // 8 * 5
"""What the lines of all stages of a strip take of the cache of a core."""

WEIGHT_BYTES = CACHE_BYTES // 8 * 3
"""What the weights of all stages may take of it besides."""

LEAST_LINES = 2
"""Lines of a strip, so that calls of kernels do not outweigh their work."""

BANDS = 2
"""Most parts of the work for each thread: they even out delays, and cost lines that are computed twice where another
thread takes one. More of them gained nothing."""

BAND_LINES = 12
"""Lines of a part, if each thread is to get more than one."""

LINE_FLOATS = 16
"""Pixels between stages begin on cache lines."""


def fuse_strips(steps: Sequence[KernelStep | HostStep], nthreads: int) -> list[KernelStep | HostStep]:
    """Replace chains of convolutions where that saves memory traffic."""
    users = Counter(t.buffer for step in steps for t in step.tensors)
    fused: list[KernelStep | HostStep] = []
    chain: list[KernelStep] = []
    for step in (*steps, None):
        if chain and isinstance(step, KernelStep) and _linked(chain[-1], step, users) and _fits([*chain, step]):
            chain.append(step)
            continue
        fused += chain if len(chain) < 2 else [_merge(chain, nthreads)]
        chain = [step] if isinstance(step, KernelStep) else []
        fused += [step] if isinstance(step, HostStep) else []
    return fused


def _linked(first: KernelStep, second: KernelStep, users: Counter[Buffer]) -> bool:
    """Whether the second step alone reads what the first writes, and that is large."""
    if not (_can_be_stage(first) and _can_be_stage(second)):
        return False
    y, x = first.fields["y"], second.fields["x"]
    least = WORTH_BYTES // 4 * min(LIGHT.get(first.kernel, 4), LIGHT.get(second.kernel, 4))
    if first.fields.get("sums") is not None:
        return False  # bands compute some lines of all stages but the last twice, at the same time
    if y.buffer is not x.buffer or y.buffer.kind != "arena" or users[y.buffer] != 2 or y.nbytes < least:
        return False
    return bool((y.offset, y.shape, y.strides) == (x.offset, x.shape, x.strides) and x.ndim == 4 and x.strides[1] == 1)


def _can_be_stage(step: KernelStep) -> bool:
    f = step.fields
    if step.kernel == "max_pool":
        return f["x"].ndim == 4 and f["index"] is None and not f["adaptive"] and f["y"].strides[1] == 1 < f["c"]
    if step.kernel == "copy":
        return f["x"].ndim == 4 and f["x"].dtype == np.float32 and _from_planes(step) != _to_planes(step)
    return step.kernel in KERNELS and not step.serial


def _from_planes(step: KernelStep) -> bool:
    """Whether a copy makes channels lie side by side, as many as fill a cache line."""
    x, y = step.fields["x"], step.fields["y"]
    return bool(x.strides[3] == 1 and y.strides[1] == 1 and y.shape[1] >= LINE_FLOATS)


def _to_planes(step: KernelStep) -> bool:
    return bool(step.fields["x"].strides[1] == 1 and step.fields["y"].is_contiguous)


def _copy_of_lines(step: KernelStep) -> dict[str, Any]:
    """Fields of a copy whose dimensions are image, channels of planes, line, pixel and channels of pixels."""
    n, c, h, w = step.fields["y"].shape
    planar = _to_planes(step)

    def order(t: Tensor) -> tuple[int, ...]:
        image, channel, line, pixel = t.strides
        return (image, channel, line, pixel, 0) if planar else (image, 0, line, pixel, channel)

    shape = (n, c, h, w, 1) if planar else (n, 1, h, w, c)
    return {"rank": len(shape), "shape": shape, "xs": order(step.fields["x"]), "ys": order(step.fields["y"])}


def _windows(step: KernelStep) -> tuple[int, int]:
    """Lines from one window to the next, and of a window."""
    f = step.fields
    if step.kernel == "copy":
        return 1, 1
    if step.kernel == "max_pool":
        return f["stride"][1], (f["window"][1] - 1) * f["dilation"][1] + 1
    return f["stride_h"], (f["kh"] - 1) * f["dil_h"] + 1


def _line(step: KernelStep) -> tuple[int, int]:
    """Floats of a pixel and of a line of a stage's result in a buffer."""
    _, channels, _, width = step.fields["y"].shape
    pixel = -(-channels // LINE_FLOATS) * LINE_FLOATS
    return pixel, pixel * width


def _placed(step: KernelStep, name: str, pixel: int, line: int) -> dict[str, Any]:
    """Fields of a stage that reads (x) or writes (y) a buffer."""
    if step.kernel == "max_pool":
        return {name: None, f"{name}s": (0, 1, 0, line, pixel)}
    if step.kernel == "copy":
        return {name: None, f"{name}s": (0, 1, line, pixel, 1)}
    return {name: None, f"{name}sn": 0, f"{name}sh": line, f"{name}sw": pixel}


def _fits(stages: Sequence[KernelStep]) -> bool:
    """Whether the weights of all stages and strips of some lines stay in the cache together."""
    weights = sum(step.fields["w"].nbytes for step in stages if "w" in step.fields)
    return len(stages) <= core.STRIP_STAGES and weights <= WEIGHT_BYTES and _strip_lines(stages) >= LEAST_LINES


def _line_counts(stages: Sequence[KernelStep], lines: int) -> list[int]:
    """Lines of each stage's result but the last that a strip of so many lines needs at once."""
    counts = []
    for step in reversed(stages[1:]):
        stride, extent = _windows(step)
        lines = (lines - 1) * stride + max(extent, stride)
        counts.append(lines)
    return counts[::-1]


def _buffer_bytes(stages: Sequence[KernelStep], lines: int) -> list[int]:
    """Size of each buffer of lines."""
    counts = _line_counts(stages, lines)
    return [n * _line(step)[1] * 4 for n, step in zip(counts, stages, strict=False)]


def _strip_lines(stages: Sequence[KernelStep]) -> int:
    """Lines of the last result in the highest strip that the cache holds."""
    one, two = (sum(_buffer_bytes(stages, lines)) for lines in (1, 2))
    return int(min(stages[-1].fields["y"].shape[2], 1 + (STRIP_BYTES - one) // (two - one)))


def _bands(height: int, nthreads: int) -> int:
    """Parts of an image for all threads: as many for each, and high ones."""
    return min(height, nthreads * max(1, min(BANDS, height // (nthreads * BAND_LINES))))


def _merge(stages: Sequence[KernelStep], nthreads: int) -> KernelStep:
    last = stages[-1]
    images, _, height, _ = last.fields["y"].shape
    bands = 1 if nthreads == 1 else min(_bands(height, nthreads), -(-BANDS * nthreads // images))
    strips = -(-height // (bands * _strip_lines(stages)))
    lines = -(-height // (bands * strips))
    counts, sizes = _line_counts(stages, lines), _buffer_bytes(stages, lines)
    fields = [step.fields | (_copy_of_lines(step) if step.kernel == "copy" else {}) for step in stages]
    for i, (step, after) in enumerate(itertools.pairwise(stages)):
        pixel, line = _line(step)
        fields[i].update(_placed(step, "y", pixel, line))
        fields[i + 1].update(_placed(after, "x", pixel, line))
    offsets = itertools.accumulate(sizes, initial=0)
    kernels = [step.kernel for step in stages]
    nbytes = sum(sizes)
    chain = {
        "scratch": Tensor(Buffer("arena", nbytes * nthreads), (nbytes * nthreads,), np.dtype(np.uint8)),
        "thread_bytes": nbytes,
        "lines": lines,
        "bands": bands,
        "stages": tuple(zip(kernels, fields, (*counts, 0), offsets, strict=True)),
    }
    label, flops = f"{len(stages)} x {lines}", sum(step.flops for step in stages)
    named = next(step for step in reversed(stages) if step.kernel != "copy")
    return KernelStep("strips", chain, named.operator, named.type, flops, label, last.inplace)
