"""Convolutions as others: of views of the same tensors, by kernels for two dimensions without gaps in their windows
(depthwise, grouped, Winograd), where those beat the implicit GEMM, which takes any window.

In three dimensions, a window along the depth alone is a line of another image; other windows are sums over their depth:
each tap is a convolution in two dimensions of all planes that adds to what the taps before it left in the output.
Where channels are few, the pixels of a line of the window are the channels of one. In
one dimension with a dilation, places with the same remainder belong together, so that the line becomes an image with a
column for each phase and the window a column without dilation.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from pnnx_fast.expression.activations import activation_fields
from pnnx_fast.ops._conv_choice import DIRECT, PAIRS, Choice, choose
from pnnx_fast.ops.padding import pad_sides
from pnnx_fast.ops.symbolic import Builder, Tensor

__all__ = ["Convolution", "parts_of"]


FEW_CHANNELS, FEW_IN_WIDE_WINDOWS = 4, 16
"""Most channels of windows in three dimensions whose lines become channels: of up to three columns, and of more."""

MOST_PLANES = 1 << 16
"""Planes of the output, counted once a tap, that sums over the taps are made of: no net has so many, but a file may."""


class Convolution(NamedTuple):
    """What is computed, of x (n, c, h, w) or (n, c, d, h, w); see ``convolution.convolve``."""

    x: Tensor
    weight: Tensor
    bias: Tensor | None
    residual: Tensor | None
    y: Tensor
    stride: Sequence[int]
    before: Sequence[int]
    dilation: Sequence[int]
    groups: int
    act: Mapping[str, Any]


def parts_of(b: Builder, c: Convolution) -> list[Convolution]:
    """Convolutions to emit one after another in the place of one; none where that does not pay."""
    if c.x.ndim == 4:
        return _phases(b, c)
    return _along_depth(b, c) or _lines_as_channels(b, c) or _taps_in_depth(b, c)


# ---- three dimensions ----


def _along_depth(b: Builder, c: Convolution) -> list[Convolution]:
    """A window along the depth alone: lines run along the depth, the rows are the pixels of a plane.

    All kernels for lines take them as addresses, unless there are gaps between lines of pixels.
    """
    depth, *plane = c.weight.shape[2:]
    steps = tuple(c.stride[1:]) == (1, 1) and not any(c.before[1:])
    if depth == 1 or plane != [1, 1] or not steps or c.x.shape[3:] != c.y.shape[3:]:
        return []
    stride, before, dilation = (1, c.stride[0]), (0, c.before[0]), (1, c.dilation[0])
    n, oc, planes_out, h, w = c.y.shape
    if _choice(b, c, (1, depth), (n, oc, h * w, planes_out), stride, dilation) is DIRECT:
        return []
    x, y, residual = _pixels_by_depth(c.x), _pixels_by_depth(c.y), None
    if x is None or y is None:
        return []
    if c.residual is not None:
        residual = _pixels_by_depth(b.channels_last(c.residual.expand(c.y.shape)))
        if residual is None:
            return []
    weight = c.weight.squeeze([3]).permute([0, 1, 3, 2])
    return [Convolution(x, weight, c.bias, residual, y, stride, before, dilation, c.groups, c.act)]


def _pixels_by_depth(x: Tensor) -> Tensor | None:
    """View (n, c, h * w, d) of a tensor (n, c, d, h, w), or None where its lines do not lie one behind the other."""
    n, c, d, h, w = x.shape
    if h > 1 and w > 1 and x.strides[3] != w * x.strides[4]:
        return None
    sn, sc, sd, sh, sw = x.strides
    return x.as_strided((n, c, h * w, d), (sn, sc, sw if w > 1 else sh, sd))


def _lines_as_channels(b: Builder, c: Convolution) -> list[Convolution]:
    """Of few channels: pixels that overlap, each as long as a line of the window, so that sums have no short runs.

    The sides of the lines are padded before, since a pixel is all there or all missing.
    """
    n, channels, depth, height, width = c.x.shape
    step, columns = c.stride[2], c.weight.shape[4]
    most = FEW_CHANNELS if columns <= 3 else FEW_IN_WIDE_WINDOWS
    if channels > most or columns == 1 or c.groups > 1 or c.dilation[2] > 1:
        return []
    count, left = c.y.shape[4], c.before[2]
    right = (count - 1) * step + columns - left - width
    padded = b.channels_last(pad_sides(b, c.x, (0, 0, 0, 0, left), (0, 0, 0, 0, right), temporary=True))
    if channels == 1:  # which is channels last with any distance of pixels
        padded = b.contiguous(padded)
    sn, _, sd, sh, sw = padded.strides
    if sw != channels:
        return []
    x = padded.as_strided((n, columns * channels, depth, height, count), (sn, 1, sd, sh, step * sw))
    kernel = c.weight.shape[2:4]
    weight = b.reshape(c.weight.permute([0, 4, 1, 2, 3]), (c.y.shape[1], columns * channels, *kernel, 1))
    strides, before, dilation = (*c.stride[:2], 1), (*c.before[:2], 0), (*c.dilation[:2], 1)
    return [Convolution(x, weight, c.bias, c.residual, c.y, strides, before, dilation, 1, c.act)]


def _taps_in_depth(b: Builder, c: Convolution) -> list[Convolution]:
    """A sum over the taps in depth.

    Needs a tap that meets the input for every plane of the output: the last one, after which the activation comes.
    Where there is none, planes of zeros are put around the input.
    """
    (stride, *strides), (before, *befores), (dilation, *dilations) = c.stride, c.before, c.dilation
    n, oc, depth, oh, ow = c.y.shape
    if n * depth * c.weight.shape[2] > MOST_PLANES:
        return []
    reach = [planes(c.x.shape[2], depth, stride, before, k * dilation) for k in range(c.weight.shape[2])]
    order = sorted(range(len(reach)), key=lambda k: len(reach[k]))
    if c.residual is not None or not reach[order[-1]]:
        return []
    if _choice(b, c, c.weight.shape[3:], (n * depth, oc, oh, ow), strides, dilations) in (DIRECT, PAIRS):
        return []
    if len(reach[order[-1]]) < depth:
        behind = (depth - 1) * stride + (len(reach) - 1) * dilation + 1 - before - c.x.shape[2]
        padded = pad_sides(b, c.x, (0, 0, before, 0, 0), (0, 0, behind, 0, 0), temporary=True)
        return _taps_in_depth(b, c._replace(x=b.channels_last(padded), before=(0, *befores)))
    parts = []
    for image in range(n):
        inputs, outputs = (t.select(0, image).permute([1, 0, 2, 3]) for t in (c.x, c.y))
        done = [False] * depth
        for k in order:
            last, start = k == order[-1], k * dilation - before
            bias, act = (c.bias, c.act) if last else (None, activation_fields("none"))
            for first, count, begun in runs(reach[k], done):
                x, y = inputs.narrow(0, start + first * stride, count, stride), outputs.narrow(0, first, count)
                sums, weight = y if begun else None, c.weight.select(2, k)
                parts.append(Convolution(x, weight, bias, sums, y, strides, befores, dilations, c.groups, act))
            for plane in reach[k]:
                done[plane] = True
    return parts


def planes(size: int, out: int, stride: int, before: int, tap: int) -> range:
    """Output planes that meet the input at a tap ``tap`` planes into the window."""
    first = max(0, -(-(before - tap) // stride))
    return range(first, max(first, min(out, (size - 1 + before - tap) // stride + 1)))


def runs(reached: range, done: Sequence[bool]) -> Iterator[tuple[int, int, bool]]:
    """Runs (first, count, begun) of planes that earlier taps have all begun, or none of them."""
    for begun, group in itertools.groupby(reached, done.__getitem__):
        members = list(group)
        yield members[0], len(members), begun


# ---- one dimension ----


def _phases(b: Builder, c: Convolution) -> list[Convolution]:
    """Phases of x (n, c, 1, w); where the dilation does not divide the lengths, the first have one place more."""
    d, size, length, taps = c.dilation[1], c.x.shape[3], c.y.shape[3], c.weight.shape[3]
    line = c.x.shape[2] == c.y.shape[2] == c.weight.shape[2] == 1 == c.stride[1]
    if not line or c.before[1] % d or (size - length) % d or not 1 < d <= min(length, size):
        return []
    cuts = [(first, count) for first, count in ((0, length % d), (length % d, d - length % d)) if count]
    for first, count in cuts:
        out = (*c.y.shape[:2], -(-(length - first) // d), count)
        if _choice(b, c, (taps, 1), out, (1, 1), (1, 1)).kernel != "conv_winograd_f32":
            return []
    weight, before = c.weight.permute([0, 1, 3, 2]), (c.before[1] // d, 0)
    residual = None if c.residual is None else c.residual.expand(c.y.shape)
    parts = []
    for first, count in cuts:
        x, y = _columns(c.x, first, count, d), _columns(c.y, first, count, d)
        other = None if residual is None else _columns(residual, first, count, d)
        parts.append(Convolution(x, weight, c.bias, other, y, (1, 1), before, (1, 1), c.groups, c.act))
    return parts


def _columns(x: Tensor, first: int, count: int, d: int) -> Tensor:
    """View (n, c, lines, count) of the places of x (n, c, 1, w) that leave a remainder from ``first`` on."""
    lines = -(-(x.shape[3] - first) // d)
    step = x.strides[3]
    return x.as_strided((*x.shape[:2], lines, count), (*x.strides[:2], d * step, step), first * step)


def _choice(
    b: Builder,
    c: Convolution,
    kernel: Sequence[int],
    out: Sequence[int],
    stride: Sequence[int],
    dilation: Sequence[int],
) -> Choice:
    """The kernel that would serve a convolution in two dimensions with the channels of ``c``."""
    fields: dict[str, Any] = {"ic": c.x.shape[1], "groups": c.groups}
    fields |= zip(("n", "oc", "oh", "ow"), out, strict=True)
    for names, values in ((("kh", "kw"), kernel), (("stride_h", "stride_w"), stride), (("dil_h", "dil_w"), dilation)):
        fields |= zip(names, values, strict=True)
    return choose(b.isa, b.nthreads, fields, c.weight.is_constant, b.weights_bytes)
