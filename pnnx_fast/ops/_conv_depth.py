"""Convolutions in three dimensions by kernels for two (depthwise, grouped, Winograd), where those beat the implicit
GEMM, which takes any number of dimensions. A window along the depth alone is a line of another image. Other
convolutions are sums over the depth of the filter: each tap in depth is a convolution in two dimensions of all planes
that adds to what the taps before it left in the output.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pnnx_fast._types import Protocol
from pnnx_fast.ops._conv_choice import DIRECT, choose
from pnnx_fast.ops.symbolic import Builder, Tensor

__all__ = ["convolve_along_depth", "convolve_by_depth"]


class Convolve(Protocol):
    """Emits one convolution in two dimensions."""

    def __call__(
        self,
        b: Builder,
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
    ) -> None: ...


def convolve_by_depth(
    b: Builder,
    convolve: Convolve,
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    y: Tensor,
    *,
    stride: Sequence[int],
    before: Sequence[int],
    dilation: Sequence[int],
    groups: int,
    act: Mapping[str, Any],
) -> bool:
    """Emit a convolution of channels-last x (n, c, d, h, w) into ``y`` tap by tap; False where that does not pay.

    Needs a tap that meets the input for every plane of the output: the last one, after which the activation comes.
    """
    reach = [planes(x.shape[2], y.shape[2], stride[0], before[0], k * dilation[0]) for k in range(weight.shape[2])]
    order = sorted(range(len(reach)), key=lambda k: len(reach[k]))
    if len(reach[order[-1]]) < y.shape[2]:
        return False
    n, oc, depth, oh, ow = y.shape
    if not _pays(b, weight, weight.shape[3:], (n * depth, oc, oh, ow), stride[1:], dilation[1:], groups):
        return False
    for image in range(x.shape[0]):
        inputs, outputs = (t.select(0, image).permute([1, 0, 2, 3]) for t in (x, y))
        done = [False] * y.shape[2]
        for k in order:
            last = k == order[-1]
            start = k * dilation[0] - before[0]
            for first, count, begun in runs(reach[k], done):
                part = outputs.narrow(0, first, count)
                convolve(
                    b, inputs.narrow(0, start + first * stride[0], count, stride[0]), weight.select(2, k),
                    bias if last else None, part if begun else None, part,
                    stride=stride[1:], before=before[1:], dilation=dilation[1:], groups=groups,
                    act=act if last else {**act, "act": 0},
                )  # fmt: skip
            for plane in reach[k]:
                done[plane] = True
    return True


def convolve_along_depth(
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
    """Emit a convolution of channels-last x (n, c, d, h, w) along the depth alone as one in two dimensions.

    Its lines run along the depth and its rows are the pixels of a plane, which all kernels for lines take as addresses.
    False where that does not pay, the window is no such line, or lines of pixels have gaps between them.
    """
    depth, *plane = weight.shape[2:]
    if depth == 1 or plane != [1, 1] or tuple(stride[1:]) != (1, 1) or any(before[1:]) or x.shape[3:] != y.shape[3:]:
        return False
    n, oc, planes_out, h, w = y.shape
    if not _pays(b, weight, (1, depth), (n, oc, h * w, planes_out), (1, stride[0]), (1, dilation[0]), groups):
        return False
    z = None if residual is None else b.channels_last(residual.expand(y.shape))
    source, target, other = pixels_by_depth(x), pixels_by_depth(y), None if z is None else pixels_by_depth(z)
    if source is None or target is None or (z is not None and other is None):
        return False
    convolve(
        b, source, weight.squeeze([3]).permute([0, 1, 3, 2]), bias, other, target,
        stride=(1, stride[0]), before=(0, before[0]), dilation=(1, dilation[0]), groups=groups, act=act,
    )  # fmt: skip
    return True


def pixels_by_depth(x: Tensor) -> Tensor | None:
    """View (n, c, h * w, d) of a tensor (n, c, d, h, w), or None where its lines do not lie one behind the other."""
    n, c, d, h, w = x.shape
    if h > 1 and w > 1 and x.strides[3] != w * x.strides[4]:
        return None
    sn, sc, sd, sh, sw = x.strides
    return x.as_strided((n, c, h * w, d), (sn, sc, sw if w > 1 else sh, sd))


def planes(size: int, out: int, stride: int, before: int, tap: int) -> range:
    """Output planes that meet the input at a tap ``tap`` planes into the window."""
    first = max(0, -(-(before - tap) // stride))
    return range(first, max(first, min(out, (size - 1 + before - tap) // stride + 1)))


def runs(reached: range, done: Sequence[bool]) -> Iterator[tuple[int, int, bool]]:
    """Runs (first, count, begun) of planes that earlier taps have all begun, or none of them."""
    for begun, group in itertools.groupby(reached, done.__getitem__):
        members = list(group)
        yield members[0], len(members), begun


def _pays(
    b: Builder,
    weight: Tensor,
    kernel: Sequence[int],
    out: Sequence[int],
    stride: Sequence[int],
    dilation: Sequence[int],
    groups: int,
) -> bool:
    """Whether another kernel than the implicit GEMM serves a convolution in two dimensions."""
    fields: dict[str, Any] = {"ic": weight.shape[1] * groups, "groups": groups}
    fields |= zip(("n", "oc", "oh", "ow"), out, strict=True)
    for names, values in ((("kh", "kw"), kernel), (("stride_h", "stride_w"), stride), (("dil_h", "dil_w"), dilation)):
        fields |= zip(names, values, strict=True)
    return choose(b.isa, b.nthreads, fields, weight.is_constant) != DIRECT
