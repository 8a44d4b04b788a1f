"""Sums over the lines of a convolution's result, from the step that makes it: averages over images start from them.

Used by the lowering; the kernels are those of ``csrc/kernels/conv_lines.h``.
"""

from __future__ import annotations

import numpy as np

from pnnx_fast.ops.symbolic import Tensor
from pnnx_fast.runtime.lower import HostStep, KernelStep, Lowering

__all__ = ["line_sums"]

KERNELS = frozenset({"conv_depthwise_f32", "conv_grouped_f32"})
"""Kernels that can add up the lines of their result."""

LEAST_WIDTH = 4
"""Shortest lines whose sums are worth it."""


def line_sums(b: Lowering, x: Tensor) -> Tensor | None:
    """Return the sums of ``x`` (n, c, h, w) over w, which keeps size one, or None where no step can leave them."""
    for step in reversed(b.steps):
        if isinstance(step, HostStep) or step.kernel == "native":
            if any(t.buffer is x.buffer for t in step.tensors):
                return None
        elif any(t.buffer is x.buffer for t in step.written):
            return _sums_of(b, step, x)
    return None


def _sums_of(b: Lowering, step: KernelStep, x: Tensor) -> Tensor | None:
    """Have the convolution that makes ``x`` add up its lines, if it can."""
    y = step.fields["y"] if step.kernel in KERNELS else None
    if y is None or (y.offset, y.shape, y.strides) != (x.offset, x.shape, x.strides) or x.shape[3] < LEAST_WIDTH:
        return None
    n, c, h, _ = x.shape
    sums: Tensor | None = step.fields.get("sums")
    if sums is None:
        sums = step.fields["sums"] = b.empty((n, h, c), np.float32)
        step.tensors.append(sums)
    return sums.permute((0, 2, 1)).unsqueeze(3)
