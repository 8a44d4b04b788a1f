"""Quantised modules, computed in float32 on the grid of representable values.

A quantised tensor is held as the float numbers that its integers stand for, ``(q - zero_point) * scale``: every value
lies exactly on the grid, so results equal those of integer arithmetic with the same rounding (half to even).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, cast

import numpy as np

from pnnx_fast._types import Array
from pnnx_fast.errors import ParameterError
from pnnx_fast.ops._checks import real_number
from pnnx_fast.ops._window import Padding
from pnnx_fast.ops.convolution import convolution, epilogue_fields
from pnnx_fast.ops.elementwise import intermediate, lower_expression
from pnnx_fast.ops.linear import linear
from pnnx_fast.ops.onnx_integers import of_channels
from pnnx_fast.ops.registry import Ints, operator
from pnnx_fast.ops.shape import axis_of, concatenate, listed
from pnnx_fast.ops.symbolic import Builder, Tensor

RANGES: dict[Any, tuple[int, int]] = {
    "torch.qint8": (-128, 127),
    "torch.quint8": (0, 255),
    "torch.qint32": (-(2**31), 2**31 - 1),
    12: (-128, 127),
    13: (0, 255),
    14: (-(2**31), 2**31 - 1),
}
"""Smallest and largest integer of PyTorch's quantised types, by name and by number."""


def to_grid(
    b: Builder, x: Tensor, scale: float, zero_point: int, limits: tuple[int, int], exact: bool = False
) -> Tensor:
    """Round to the grid and clamp to its ends; ``exact``: by a multiply-add, as PyTorch rounds what no layer made."""
    # PyTorch multiplies by the reciprocal in float32; dividing would round some ties differently.
    with np.errstate(all="ignore"):
        inverse, step = np.float32(1.0) / np.float32(scale), np.float32(scale)
    if exact:
        wide = intermediate(b, "add(mul(@0,@1),@2)", b.cast(x, np.float64), float(inverse), float(zero_point))
        values = [b.cast(wide, np.float32), zero_point, *limits, float(step)]
        return cast(Tensor, lower_expression(b, "mul(sub(clamp(round(@0),@2,@3),@1),@4)", values))
    numbers = (float(inverse), zero_point, *limits, float(step))
    text = "mul(sub(clamp(add(round(mul(@0,@1)),@2),@3,@4),@2),@5)"
    return cast(Tensor, lower_expression(b, text, [b.cast(x, np.float32), *numbers]))


def activation_range(zero_point: int) -> tuple[int, int]:
    """Limits of activations: unsigned, as PyTorch's quantised modules require, unless the zero point says signed."""
    return RANGES["torch.quint8"] if zero_point >= 0 else RANGES["torch.qint8"]


@operator("nn.quantized.Quantize")
def quantize(b: Builder, input: Tensor, *, scale: float, zero_point: int, dtype: Any = None) -> Tensor:
    """Quantise to unsigned 8 bits. torch.ao.nn.quantized.Quantize."""
    return to_grid(b, input, scale, zero_point, activation_range(zero_point), exact=True)


@operator("torch.quantize_per_tensor")
def quantize_per_tensor(
    b: Builder,
    input: Tensor,
    input_scale: Any = None,
    input_zero_point: Any = None,
    *,
    scale: Any = None,
    zero_point: Any = None,
    dtype: Any = "torch.quint8",
) -> Tensor:
    """Quantise with one scale. torch.quantize_per_tensor."""
    step = real_number(input_scale if scale is None else scale, "scale")
    zero = real_number(input_zero_point if zero_point is None else zero_point, "zero_point")
    if not isinstance(dtype, str) or dtype not in RANGES:
        raise ParameterError(f"unknown quantised dtype {dtype!r}", parameter="dtype")
    if not math.isfinite(zero):
        raise ParameterError(f"zero_point must be finite, not {zero}", parameter="zero_point")
    return to_grid(b, input, step, int(zero), RANGES[dtype], exact=True)


@operator("aten::quantize_per_channel")
def quantize_per_channel(b: Builder, input: Tensor, scales: Tensor, zero_points: Tensor, axis: int, dtype: Any) -> Any:
    """Quantise with a scale for each entry of a dimension. torch.quantize_per_channel."""
    if dtype not in RANGES:
        raise ParameterError(f"unknown quantised dtype {dtype!r}", parameter="dtype")
    step, zero = (
        b.cast(of_channels(b, input, v, axis, name), np.float32)
        for v, name in ((scales, "scales"), (zero_points, "zero_points"))
    )
    # Unlike one tensor's grid this one has the sum with the zero point rounded to float32 before it becomes whole.
    text = "mul(sub(clamp(round(add(mul(@0,div(1,@1)),@2)),@3,@4),@2),@1)"
    return lower_expression(b, text, [b.cast(input, np.float32), step, zero, *RANGES[dtype]])


@operator("nn.quantized.DeQuantize", "torch.dequantize")
def dequantize(b: Builder, input: Tensor) -> Tensor:
    """The float values of a quantised tensor, which it holds already. torch.dequantize."""
    return input


def real_weight(b: Builder, weight: Tensor, scales: Tensor | None, zero_points: Tensor | None, axis: int) -> Tensor:
    """Float weights: integers by their scales, floats as they are."""
    values = weight.numpy()
    if values.dtype.kind == "f":
        return weight
    if scales is None:
        raise ParameterError("integer weights need 'weight.q_per_channel_scales'", parameter="weight")
    shape = [1] * values.ndim
    shape[axis] = -1
    zero = np.zeros(1) if zero_points is None else zero_points.numpy()

    def make() -> Array:
        return ((values - zero.reshape(shape)) * scales.numpy().reshape(shape)).astype(np.float32)

    origins = [None if t is None else t.identity for t in (weight, scales, zero_points)]
    return b.cached(("dequantized", axis, *origins), make)


@operator("nn.quantized.Conv2d")
def quantized_conv2d(
    b: Builder,
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    weight_q_per_channel_scales: Tensor | None = None,
    weight_q_per_channel_zero_points: Tensor | None = None,
    *,
    scale: float,
    zero_point: int,
    stride: Ints = 1,
    padding: Padding = 0,
    dilation: Ints = 1,
    groups: int = 1,
    padding_mode: str = "zeros",
    in_channels: int | None = None,
    out_channels: int | None = None,
    kernel_size: Ints | None = None,
    weight_q_per_channel_axis: int = 0,
) -> Tensor:
    """Convolution of quantised tensors. torch.ao.nn.quantized.Conv2d."""
    w = real_weight(b, weight, weight_q_per_channel_scales, weight_q_per_channel_zero_points, weight_q_per_channel_axis)
    act = epilogue_fields("none", ())
    y = convolution(b, 2, input, w, bias, None, stride, padding, dilation, groups, padding_mode, act)
    return to_grid(b, y, scale, zero_point, activation_range(zero_point))


@operator("nn.quantized.Linear")
def quantized_linear(
    b: Builder,
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    weight_q_per_channel_scales: Tensor | None = None,
    weight_q_per_channel_zero_points: Tensor | None = None,
    *,
    scale: float,
    zero_point: int,
    in_features: int | None = None,
    out_features: int | None = None,
    weight_q_per_channel_axis: int = 0,
) -> Tensor:
    """Linear layer over quantised tensors. torch.ao.nn.quantized.Linear."""
    w = real_weight(b, weight, weight_q_per_channel_scales, weight_q_per_channel_zero_points, weight_q_per_channel_axis)
    return to_grid(b, linear(b, input, w, bias), scale, zero_point, activation_range(zero_point))


def _with_relu(layer: Callable[..., Tensor], doc: str) -> Callable[..., Tensor]:
    """The layer and a ReLU: on the grid zero is the zero point, where PyTorch's fused layers cut off, too."""

    @functools.wraps(layer)
    def fused(b: Builder, *tensors: Any, **parameters: Any) -> Tensor:
        return cast(Tensor, lower_expression(b, "relu(@0)", [layer(b, *tensors, **parameters)]))

    fused.__doc__ = doc
    return fused


operator("nn.intrinsic.quantized.ConvReLU2d")(
    _with_relu(
        quantized_conv2d, "Convolution of quantised tensors and ReLU. torch.ao.nn.intrinsic.quantized.ConvReLU2d."
    )
)
operator("nn.intrinsic.quantized.LinearReLU")(
    _with_relu(
        quantized_linear, "Linear layer over quantised tensors and ReLU. torch.ao.nn.intrinsic.quantized.LinearReLU."
    )
)


@operator("nn.quantized.cat")
def quantized_cat(b: Builder, *tensors: Any, dim: int = 0, scale: float, zero_point: int) -> Tensor:
    """Join quantised tensors and quantise anew. torch.ao.nn.quantized.QFunctional.cat."""
    parts = listed(tensors)
    joined = concatenate(b, parts, axis_of(dim, parts[0].ndim))
    return to_grid(b, joined, scale, zero_point, activation_range(zero_point))
