"""Chains of convolutions become one step that computes them strip by strip, so that tensors between them that are
larger than the cache of a core never leave it. Works on the steps of a lowered program; the step itself is
``exec/strips.c``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from pnnx_fast.ops.symbolic import Buffer, Tensor
from pnnx_fast.runtime.lower import HostStep, KernelStep

__all__ = ["fuse_strips"]

KERNELS = {"conv_f32", "conv_depthwise_f32", "conv_stem_f32", "conv_grouped_f32"}
"""Kernels that can be stages: their threads claim their work, so one thread can run a call alone."""

MOST_STAGES = 8

WORTH_BYTES = 1 << 20
"""Size from which a tensor between two convolutions is kept in strips."""

STRIP_BYTES = 640 << 10
"""What the lines of all stages of a strip take of the cache of a core."""

WEIGHT_BYTES = 384 << 10
"""What the weights of all stages may take of it besides."""

LEAST_LINES = 2
"""Lines of a strip, so that calls of kernels do not outweigh their work."""

BANDS = 2
"""Parts of the work for each thread; more of them even out delays, but compute more lines twice."""

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
    if first.kernel not in KERNELS or second.kernel not in KERNELS or first.serial or second.serial:
        return False
    y, x = first.fields["y"], second.fields["x"]
    if y.buffer is not x.buffer or y.buffer.kind != "arena" or users[y.buffer] != 2 or y.nbytes < WORTH_BYTES:
        return False
    return bool((y.offset, y.shape, y.strides) == (x.offset, x.shape, x.strides) and x.ndim == 4 and x.strides[1] == 1)


def _pixel(step: KernelStep) -> int:
    """Floats of a pixel of a stage's result."""
    return -(-int(step.fields["oc"]) // LINE_FLOATS) * LINE_FLOATS


def _fits(stages: Sequence[KernelStep]) -> bool:
    """Whether the weights of all stages and strips of some lines stay in the cache together."""
    weights = sum(step.fields["w"].nbytes for step in stages)
    return len(stages) <= MOST_STAGES and weights <= WEIGHT_BYTES and _strip_lines(stages) >= LEAST_LINES


def _line_counts(stages: Sequence[KernelStep], lines: int) -> list[int]:
    """Lines of each stage's result but the last that a strip of so many lines needs at once."""
    counts = []
    for step in reversed(stages[1:]):
        f = step.fields
        lines = (lines - 1) * f["stride_h"] + max((f["kh"] - 1) * f["dil_h"] + 1, f["stride_h"])
        counts.append(lines)
    return counts[::-1]


def _buffer_bytes(stages: Sequence[KernelStep], lines: int) -> list[int]:
    """Size of each buffer of lines."""
    counts = _line_counts(stages, lines)
    return [n * step.fields["ow"] * _pixel(step) * 4 for n, step in zip(counts, stages, strict=False)]


def _strip_lines(stages: Sequence[KernelStep]) -> int:
    """Lines of the last result in the highest strip that the cache holds."""
    one, two = (sum(_buffer_bytes(stages, lines)) for lines in (1, 2))
    return int(min(stages[-1].fields["oh"], 1 + (STRIP_BYTES - one) // (two - one)))


def _merge(stages: Sequence[KernelStep], nthreads: int) -> KernelStep:
    last = stages[-1]
    images, height = last.fields["n"], last.fields["oh"]
    bands = 1 if nthreads == 1 else min(-(-BANDS * nthreads // images), height)
    strips = -(-height // (bands * _strip_lines(stages)))
    lines = -(-height // (bands * strips))
    counts, sizes = _line_counts(stages, lines), _buffer_bytes(stages, lines)
    packed: list[tuple[str, dict[str, Any], int, int]] = []
    before: dict[str, Any] = {}
    for i, step in enumerate(stages[:-1]):
        pixel = _pixel(step)
        line = pixel * step.fields["ow"]
        fields = {**step.fields, **before, "y": None, "ysw": pixel, "ysh": line, "ysn": 0}
        before = {"x": None, "xsw": pixel, "xsh": line, "xsn": 0}
        packed.append((step.kernel, fields, counts[i], sum(sizes[:i])))
    packed.append((last.kernel, {**last.fields, **before}, 0, 0))
    nbytes = sum(sizes)
    chain = {
        "scratch": Tensor(Buffer("arena", nbytes * nthreads), (nbytes * nthreads,), np.dtype(np.uint8)),
        "thread_bytes": nbytes,
        "lines": lines,
        "bands": bands,
        "stages": tuple(packed),
    }
    label, flops = f"{len(stages)} x {lines}", sum(step.flops for step in stages)
    return KernelStep("strips", chain, last.operator, last.type, flops, label, last.inplace)
