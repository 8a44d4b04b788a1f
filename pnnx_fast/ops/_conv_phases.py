"""Convolutions over one dimension with a dilation, phase by phase: inputs and outputs whose places have the same
remainder belong together, so that the line becomes an image with a column for each phase and the window a column
without dilation. Used where the kernels for such windows (Winograd's) beat the implicit GEMM, which takes any dilation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pnnx_fast.ops._conv_choice import choose
from pnnx_fast.ops._conv_depth import Convolve
from pnnx_fast.ops.symbolic import Builder, Tensor

__all__ = ["convolve_by_phases"]


def convolve_by_phases(
    b: Builder,
    convolve: Convolve,
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    residual: Tensor | None,
    y: Tensor,
    *,
    stride: Sequence[int],
    before: Sequence[int],
    dilation: Sequence[int],
    groups: int,
    act: Mapping[str, Any],
) -> bool:
    """Emit a convolution of channels-last x (n, c, 1, w) into ``y``; False where that does not pay.

    Where the dilation does not divide the lengths, the first phases have one place more than the others.
    """
    d, length = dilation[1], y.shape[3]
    line = x.shape[2] == y.shape[2] == weight.shape[2] == 1
    if not line or stride[1] != 1 or before[1] % d or (x.shape[3] - length) % d or not 1 < d <= min(length, x.shape[3]):
        return False
    parts = [part for part in ((0, length % d), (length % d, d - length % d)) if part[1]]
    window = {"stride_h": 1, "stride_w": 1, "dil_h": 1, "dil_w": 1, "kh": weight.shape[3], "kw": 1, "groups": groups}
    for first, count in parts:
        size = {"n": x.shape[0], "ic": x.shape[1], "oc": y.shape[1], "oh": -(-(length - first) // d), "ow": count}
        if choose(b.isa, b.nthreads, {**window, **size}, weight.is_constant).kernel != "conv_winograd_f32":
            return False
    column = weight.permute([0, 1, 3, 2])
    for first, count in parts:
        image, target = (_phases(t, first, count, d) for t in (x, y))
        other = None if residual is None else _phases(residual.expand(y.shape), first, count, d)
        convolve(
            b, image, column, bias, other, target,
            stride=(1, 1), before=(before[1] // d, 0), dilation=(1, 1), groups=groups, act=act,
        )  # fmt: skip
    return True


def _phases(x: Tensor, first: int, count: int, d: int) -> Tensor:
    """View (n, c, lines, count) of the places of x (n, c, 1, w) that leave a remainder from ``first`` on."""
    lines = -(-(x.shape[3] - first) // d)
    step = x.strides[3]
    return x.as_strided((*x.shape[:2], lines, count), (*x.strides[:2], d * step, step), first * step)
