"""Quantised integers of ONNX that the converter leaves under their ONNX names.

Files lose zero points that are single 8-bit numbers: they write None, which is refused. Those of channels are there.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pnnx_fast._types import Array
from pnnx_fast.errors import ParameterError, ShapeError
from pnnx_fast.ops.elementwise import lower_expression
from pnnx_fast.ops.registry import operator
from pnnx_fast.ops.shape import axis_of
from pnnx_fast.ops.symbolic import Builder, Results, Tensor, Value

LEFT_OUT = 0
"""The zero point where there is none."""


def of_channels(b: Builder, x: Tensor, value: Any, axis: int, name: str) -> Tensor:
    """A scale or a zero point, one or one a channel, so that it broadcasts to the input."""
    if value is None:
        raise ParameterError("files do not hold a single 8-bit number", parameter=name)
    given = value if isinstance(value, Tensor) else b.constant(np.asarray(value))
    if given.size == 1:
        return b.reshape(given, ())
    along = axis_of(axis, x.ndim)
    if given.shape != (x.shape[along],):
        raise ShapeError("one value, or one a channel", operand=name, expected=x.shape[along], actual=list(given.shape))
    return b.reshape(given, [given.size if d == along else 1 for d in range(x.ndim)])


@operator("QuantizeLinear")
def to_integers(
    b: Builder, x: Tensor, y_scale: Any, y_zero_point: Any = LEFT_OUT, *, axis: int = 1, saturate: bool = True
) -> Value:
    """The input by a scale, rounded to 8-bit integers about a zero point. ONNX, torch.quantize_per_channel."""
    scale = b.cast(of_channels(b, x, y_scale, axis, "y_scale"), np.float32)
    zero = of_channels(b, x, y_zero_point, axis, "y_zero_point")
    dtype = zero.dtype if isinstance(y_zero_point, Tensor) else np.dtype(np.uint8)
    if dtype.name not in ("uint8", "int8", "uint16", "int16"):
        raise ParameterError(f"no quantised integers of type {dtype}", parameter="y_zero_point")
    ends = np.iinfo(dtype)
    text = f"clamp(add(round(div(@0,@1)),@2),{ends.min},{ends.max})"
    y = lower_expression(b, text, [b.cast(x, np.float32), scale, b.cast(zero, np.float32)], temporary=True)
    return b.cast(y, dtype)


@operator("DequantizeLinear")
def of_integers(b: Builder, x: Tensor, x_scale: Any, x_zero_point: Any = LEFT_OUT, *, axis: int = 1) -> Value:
    """What quantised integers stand for: their distance from the zero point times a scale. ONNX, torch.dequantize."""
    scale = b.cast(of_channels(b, x, x_scale, axis, "x_scale"), np.float32)
    zero = b.cast(of_channels(b, x, x_zero_point, axis, "x_zero_point"), np.int32)
    return lower_expression(b, "mul(@0,@1)", [_as_float(b, x, zero), scale])


def _as_float(b: Builder, x: Tensor, zero: Tensor) -> Tensor:
    steps: Tensor = lower_expression(b, "sub(@0,@1)", [b.cast(x, np.int32), zero], temporary=True)
    return b.cast(steps, np.float32)


@operator("DynamicQuantizeLinear", native=False)
def to_bytes(b: Builder, x: Tensor) -> Value:
    """The input as bytes, with a scale and a zero point that fit its range and 0. ONNX."""

    def run(x: Array) -> tuple[Array, ...]:
        low, high = np.minimum(x.min(initial=0), np.float32(0)), np.maximum(x.max(initial=0), np.float32(0))
        scale = np.float32((high - low) / np.float32(255)) if high > low else np.float32(1)
        zero = np.rint(np.clip(-low / scale, 0, 255))
        return np.clip(np.rint(x / scale) + zero, 0, 255).astype(np.uint8), np.asarray(scale), zero.astype(np.uint8)

    return Results(b.host(run, [b.cast(x, np.float32)], [(x.shape, np.uint8), ((), np.float32), ((), np.uint8)]))
