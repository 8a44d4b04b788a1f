"""Sliding windows of ONNX that the converter leaves under their ONNX names: convolutions and pools with uneven paddings
or those that ONNX names, norms of windows, maxima that go back to their places, and moved windows.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pnnx_fast._types import Shape
from pnnx_fast.errors import ParameterError, ShapeError
from pnnx_fast.ops._window import per_axis, same_padding
from pnnx_fast.ops.convolution import convolution, epilogue_fields
from pnnx_fast.ops.convolution_transpose import convolution_transpose
from pnnx_fast.ops.elementwise import lower_expression
from pnnx_fast.ops.padding import pad_sides
from pnnx_fast.ops.pooling import fixed_window, pool, unpool
from pnnx_fast.ops.registry import Ints, operator
from pnnx_fast.ops.shape import integers
from pnnx_fast.ops.symbolic import Builder, Tensor, Value
from pnnx_fast.ops.vision import deform_conv2d


class _Slide:
    """Windows over the dimensions of space: sizes, strides, dilations, and borders before and behind."""

    def __init__(
        self, spatial: Shape, kernel: Ints, strides: Ints, dilations: Ints, pads: Ints, auto_pad: str,
        ceil_mode: bool = False,
    ) -> None:  # fmt: skip
        axes = len(spatial)
        if not 1 <= axes <= 3:
            raise ShapeError("windows have one to three dimensions", actual=list(spatial))
        self.kernel, self.stride = per_axis(kernel, axes, "kernel_shape"), per_axis(strides, axes, "strides")
        self.dilation, both = per_axis(dilations, axes, "dilations"), per_axis(pads, 2 * axes, "pads")
        if min(*self.kernel, *self.stride, *self.dilation) < 1 or min(both) < 0:
            raise ParameterError("sizes, strides and dilations are positive, pads not negative", parameter="pads")
        spans = [d * (k - 1) + 1 for k, d in zip(self.kernel, self.dilation, strict=True)]
        if auto_pad in ("SAME_UPPER", "SAME_LOWER"):
            both = shares(same_padding(spatial, self.kernel, self.stride, self.dilation), auto_pad)
        elif auto_pad == "VALID":
            both = (0,) * 2 * axes
        elif auto_pad != "NOTSET":
            raise ParameterError(f"unknown padding {auto_pad!r}", parameter="auto_pad")
        self.before, self.behind = list(both[:axes]), list(both[axes:])
        self.beyond = [0] * axes
        """What the last window needs beyond the border."""
        for k, (n, s, span) in enumerate(zip(spatial, self.stride, spans, strict=True)):
            whole = n + self.before[k] + self.behind[k]
            if whole < span:
                raise ShapeError("the window is larger than the input", expected=span, actual=whole)
            more = -(whole - span) % s
            if ceil_mode and more and (whole - span) // s * s + s < n + self.before[k]:
                self.beyond[k] = more


def shares(total: list[int], auto_pad: str) -> Shape:
    """Paddings before and behind each dimension; of an odd number the larger share is behind, or before if lower."""
    less, more = tuple(t // 2 for t in total), tuple(t - t // 2 for t in total)
    return less + more if auto_pad == "SAME_UPPER" else more + less


@operator("Conv")
def convolved(
    b: Builder,
    X: Tensor,
    W: Tensor,
    B: Tensor | None = None,
    *,
    kernel_shape: Ints | None = None,
    auto_pad: str = "NOTSET",
    dilations: Ints = 1,
    group: int = 1,
    pads: Ints = 0,
    strides: Ints = 1,
) -> Tensor:
    """Convolution over one to three dimensions. ONNX, torch.nn.Conv2d."""
    slide = _Slide(X.shape[2:], W.shape[2:], strides, dilations, pads, auto_pad)
    sides, act = [*slide.before, *slide.behind], epilogue_fields("none", ())
    return convolution(b, X.ndim - 2, X, W, B, None, slide.stride, sides, slide.dilation, group, "zeros", act)


@operator("ConvTranspose")
def convolved_back(
    b: Builder,
    X: Tensor,
    W: Tensor,
    B: Tensor | None = None,
    *,
    kernel_shape: Ints | None = None,
    auto_pad: str = "NOTSET",
    dilations: Ints = 1,
    group: int = 1,
    output_padding: Ints = 0,
    output_shape: Ints | None = None,
    pads: Ints = 0,
    strides: Ints = 1,
) -> Tensor:
    """Transposed convolution, of whose result the paddings are cut off. ONNX, torch.nn.ConvTranspose2d."""
    axes = X.ndim - 2
    slide = _Slide(W.shape[2:], W.shape[2:], strides, 1, pads, "VALID")
    skip, more = per_axis(dilations, axes, "dilations"), per_axis(output_padding, axes, "output_padding")
    spans = [d * (k - 1) + 1 for k, d in zip(slide.kernel, skip, strict=True)]
    whole = [(n - 1) * s + span + e for n, s, span, e in zip(X.shape[2:], slide.stride, spans, more, strict=True)]
    both = per_axis(pads, 2 * axes, "pads")
    if auto_pad in ("SAME_UPPER", "SAME_LOWER") or output_shape is not None:
        steps = zip(X.shape[2:], slide.stride, strict=True)
        wanted = integers(output_shape, "output_shape") if output_shape is not None else [n * s for n, s in steps]
        if len(wanted) != axes:
            raise ParameterError(f"{axes} dimensions have as many sizes", parameter="output_shape")
        both = shares([n - m for n, m in zip(whole, wanted, strict=True)], auto_pad)
    elif auto_pad not in ("NOTSET", "VALID"):
        raise ParameterError(f"unknown padding {auto_pad!r}", parameter="auto_pad")
    before, behind = both[:axes], both[axes:]
    if min(both) < 0:
        raise ParameterError("the result is larger than what the input reaches", parameter="output_shape")
    act, same = epilogue_fields("none", ()), before == behind
    y = convolution_transpose(b, axes, X, W, B, slide.stride, before if same else 0, more, skip, group, act)
    return y if same else pad_sides(b, y, [0, 0, *(-p for p in before)], [0, 0, *(-p for p in behind)])


@operator("AveragePool")
def window_means(
    b: Builder,
    X: Tensor,
    *,
    kernel_shape: Ints,
    pads: Ints = 0,
    strides: Ints = 1,
    dilations: Ints = 1,
    auto_pad: str = "NOTSET",
    ceil_mode: bool = False,
    count_include_pad: bool = False,
) -> Value:
    """Means of windows, of the input alone or of its borders, too. ONNX, torch.nn.AvgPool2d."""
    slide = _Slide(X.shape[2:], kernel_shape, strides, dilations, pads, auto_pad, ceil_mode)
    sums = _pooled(b, "avg", X, slide, divisor=1)
    counts = []
    for k, size in enumerate(sums.shape[2:]):
        first, step = np.arange(size) * slide.stride[k] - slide.before[k], slide.dilation[k]
        low, high = (-slide.before[k], slide.behind[k]) if count_include_pad else (0, 0)
        ends = [np.clip(-((first - end) // step), 0, slide.kernel[k]) for end in (low, X.shape[2 + k] + high)]
        counts.append(ends[1] - ends[0])
    number = math.prod(np.ix_(*counts))
    return lower_expression(b, "div(@0,@1)", [sums, b.constant(np.asarray(number, X.dtype))])


def _pooled(b: Builder, mode: str, x: Tensor, slide: _Slide, **options: Any) -> Tensor:
    """Pool of the input with zeros around it."""
    behind = [p + q for p, q in zip(slide.behind, slide.beyond, strict=True)]
    if any(slide.before) or any(behind):
        x = pad_sides(b, x, [0, 0, *slide.before], [0, 0, *behind], temporary=True)
    window = fixed_window(x.shape[2:], slide.kernel, slide.stride, 0, slide.dilation, False)
    y: Tensor = pool(b, mode, x, window, include_pad=True, **options)
    return y


@operator("LpPool")
def window_norms(
    b: Builder,
    X: Tensor,
    *,
    kernel_shape: Ints,
    p: int = 2,
    pads: Ints = 0,
    strides: Ints = 1,
    dilations: Ints = 1,
    auto_pad: str = "NOTSET",
    ceil_mode: bool = False,
) -> Value:
    """Norms of the magnitudes in windows. ONNX, torch.nn.LPPool2d."""
    if p < 1:
        raise ParameterError(f"p must be at least 1, not {p}", parameter="p")
    slide = _Slide(X.shape[2:], kernel_shape, strides, dilations, pads, auto_pad, ceil_mode)
    x: Value = lower_expression(b, "abs(@0)", [X], temporary=True) if p % 2 else X
    return _pooled(b, "lp", x, slide, norm=float(p))


@operator("MaxUnpool", native=False)
def unpooled(
    b: Builder,
    X: Tensor,
    I: Tensor,
    output_shape: Ints | None = None,
    *,
    kernel_shape: Ints,
    pads: Ints = 0,
    strides: Ints = 1,
) -> Tensor:
    """Maxima back at the places that they came from, zeros elsewhere. ONNX, torch.nn.MaxUnpool2d."""
    axes = X.ndim - 2
    if axes < 1:
        raise ShapeError("windows have one dimension or more", operand="X", actual=X.shape)
    kernel, step = per_axis(kernel_shape, axes, "kernel_shape"), per_axis(strides, axes, "strides")
    both = per_axis(pads, 2 * axes, "pads")
    numbers = zip(X.shape[2:], kernel, step, both[:axes], both[axes:], strict=True)
    least = (*X.shape[:2], *((n - 1) * s + k - p - q for n, k, s, p, q in numbers))
    shape = least if output_shape is None else tuple(integers(output_shape, "output_shape"))
    if len(shape) != X.ndim or min(shape) < 0:
        raise ShapeError("the result does not fit", operand="output_shape", expected=list(least), actual=list(shape))
    return unpool(b, X, I, shape, X.ndim)


@operator("DeformConv")
def moved_windows(
    b: Builder,
    X: Tensor,
    W: Tensor,
    offset: Tensor,
    B: Tensor | None = None,
    mask: Tensor | None = None,
    *,
    dilations: Ints = 1,
    group: int = 1,
    kernel_shape: Ints | None = None,
    offset_group: int = 1,
    pads: Ints = 0,
    strides: Ints = 1,
) -> Tensor:
    """Convolution whose taps are moved by learned offsets. ONNX, torchvision.ops.DeformConv2d."""
    if B is not None and B.ndim > 1 and mask is None:
        B, mask = None, B  # files say nothing of an input that is left out
    if W.ndim != 4 or offset.ndim != 4 or offset.shape[1] != 2 * offset_group * W.shape[2] * W.shape[3]:
        raise ShapeError("offsets do not fit", operand="offset", expected=offset_group, actual=list(offset.shape))
    return deform_conv2d(b, X, offset, mask, W, B, stride=strides, padding=pads, dilation=dilations, groups=group)
