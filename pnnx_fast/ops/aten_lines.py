"""Rarer TorchScript operators about lines, made of steps that others have: areas, means, covariances, signs.

Arguments by position, as in :mod:`pnnx_fast.ops.aten_composed`, whose rules hold here, too.
"""

from __future__ import annotations

import math
from typing import Any, cast

import numpy as np

from pnnx_fast.errors import ShapeError
from pnnx_fast.expression.types import TensorType, element_type, promote
from pnnx_fast.ops import array_functions as fn
from pnnx_fast.ops import matrix_functions as mx
from pnnx_fast.ops import reduction as reductions
from pnnx_fast.ops._checks import require_dims
from pnnx_fast.ops.aten import diagonal
from pnnx_fast.ops.aten_composed import composed
from pnnx_fast.ops.aten_numpy import numpy_step
from pnnx_fast.ops.elementwise import intermediate, lower_expression
from pnnx_fast.ops.linear import product
from pnnx_fast.ops.registry import operator
from pnnx_fast.ops.shape import axes_or_all, axis_of
from pnnx_fast.ops.symbolic import Builder, Tensor, Value

COUNTED = 1 << 24
"""Entries that float32 counts."""

# -- areas -------------------------------------------------------------------------------------------------------------


def _spacing(b: Builder, y: Tensor, x: Tensor, axis: int) -> Tensor:
    """Distances of places along an axis, given for all lines or for each."""
    if x.ndim == 1:
        if x.size != y.shape[axis]:
            raise ShapeError("one place an entry", operand="x", expected=[y.shape[axis]], actual=x.shape)
        x = b.reshape(x, [x.size if d == axis else 1 for d in range(y.ndim)])
    x = b.reshape(x, (*[1] * (y.ndim - x.ndim), *x.shape))
    return intermediate(b, "sub(@1,@0)", *_neighbours(x, axis))


def _neighbours(y: Tensor, axis: int) -> list[Tensor]:
    """Each place but the last along an axis, and each but the first."""
    count = max(y.shape[axis] - 1, 0)
    return [y.narrow(axis, 0, count), y.narrow(axis, min(1, y.shape[axis]), count)]


def _check_numbers(y: Tensor, x: Any) -> None:
    """Raise for what has no area under it."""
    require_dims(y, 1)
    for v in (y, x):
        if isinstance(v, Tensor) and v.dtype == np.bool_:
            raise ShapeError("truth values have no area under them", actual=v.dtype)


@operator("aten::trapezoid", "aten::trapz")
def trapezoid(b: Builder, y: Tensor, x: Any = 1.0, dim: int = -1) -> Value:
    """Area of trapezoids; distances and their products are formed in the types of the tensors. torch.trapezoid."""
    _check_numbers(y, x)
    axis = axis_of(dim, y.ndim)
    n = y.shape[axis]
    if not n:
        shape = (*y.shape[:axis], *y.shape[axis + 1 :])
        return b.contiguous(b.constant(np.zeros((), y.dtype)).expand(shape))
    if isinstance(x, Tensor):
        areas = intermediate(b, "mul(add(@0,@1),@2)", *_neighbours(y, axis), _spacing(b, y, x, axis))
        return lower_expression(b, "div(@0,2)", [reductions.summed(b, areas, [axis])])
    ends = [y.select(axis, 0), y.select(axis, n - 1)]
    text = "mul(sub(@0,mul(add(@1,@2),0.5)),@3)"
    return lower_expression(b, text, [reductions.summed(b, y, [axis]), *ends, float(x)])


@operator("aten::cumulative_trapezoid")
def cumulative_trapezoid(b: Builder, y: Tensor, x: Any = 1.0, dim: int = -1) -> Value:
    """Running areas of trapezoids, in the same types. torch.cumulative_trapezoid."""
    _check_numbers(y, x)
    axis = axis_of(dim, y.ndim)
    if not isinstance(x, Tensor):
        areas = intermediate(b, "mul(@2,add(@0,@1))", *_neighbours(y, axis), float(x) / 2)
        return cast(Value, reductions.cumsum(b, areas, dim=axis))
    areas = intermediate(b, "mul(@2,add(@0,@1))", *_neighbours(y, axis), _spacing(b, y, x, axis))
    return lower_expression(b, "div(@0,2)", [reductions.cumsum(b, areas, dim=axis)])


# -- statistics --------------------------------------------------------------------------------------------------------


@composed("nanmean", fn.on_lines(fn.nanmean))
def nanmean(b: Builder, input: Tensor, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Value:
    """Mean of the entries that are numbers. torch.nanmean."""
    axes = axes_or_all(dim, input.ndim)
    if dtype is not None or input.dtype == np.float16 or math.prod(input.shape[a] for a in axes) > COUNTED:
        return numpy_step(fn.on_lines(fn.nanmean), False)(b, input, dim, keepdim, dtype)
    total = reductions.emit_reduce(b, input, axes, keepdim, "nansum", temporary=True)
    present = intermediate(b, "where(isnan(@0),@1,@2)", input, *(b.constant(np.array(v, input.dtype)) for v in (0, 1)))
    count = reductions.emit_reduce(b, present, axes, keepdim, "sum", temporary=True)
    return lower_expression(b, "div(@0,@1)", [total, count])


@composed("cov", mx.cov)
def cov(b: Builder, input: Tensor, correction: int = 1, fweights: Any = None, aweights: Any = None) -> Value:
    """Covariance of the rows. torch.cov."""
    weighted = fweights is not None or aweights is not None
    if weighted or not input.size or input.ndim not in (1, 2) or input.dtype == np.float16:
        return numpy_step(mx.cov, False)(b, input, correction, fweights, aweights)
    return lower_expression(b, "positive(@0)", [_covariance(b, input, correction)])


def _covariance(b: Builder, x: Tensor, correction: int) -> Tensor:
    rows = x.unsqueeze(0) if x.ndim == 1 else x
    n = rows.shape[1]
    mean = reductions.emit_reduce(b, rows, [1], True, "sum", scale=1.0 / n, temporary=True)
    off = intermediate(b, "sub(@0,@1)", rows, mean)
    squares = intermediate(b, "div(@0,@1)", product(b, off, off.permute([1, 0])), float(max(n - correction, 0)))
    return squares.squeeze([0, 1]) if len(rows.shape) == 2 and rows.shape[0] == 1 else squares


@composed("corrcoef", mx.corrcoef)
def corrcoef(b: Builder, input: Tensor) -> Value:
    """Correlation of the rows. torch.corrcoef."""
    if not input.size or input.ndim not in (1, 2) or input.dtype == np.float16:
        return numpy_step(mx.corrcoef, False)(b, input)
    y = _covariance(b, input, 1)
    if not y.ndim:
        return lower_expression(b, "div(@0,@0)", [y])
    spread = intermediate(b, "sqrt(@0)", diagonal(b, y))
    return lower_expression(b, "clamp(div(div(@0,@1),@2),-1,1)", [y, spread.unsqueeze(1), spread])


# -- element by element ------------------------------------------------------------------------------------------------


@composed("polar", fn.polar)
def polar(b: Builder, abs: Tensor, angle: Tensor) -> Value:
    """Complex numbers from size and angle. torch.polar."""
    return lower_expression(b, "complex(mul(@0,cos(@1)),mul(@0,sin(@1)))", [abs, angle])


@composed("heaviside", fn.heaviside)
def heaviside(b: Builder, input: Tensor, values: Any) -> Value:
    """1 above zero, 0 below it, and at zero the second argument. torch.heaviside."""
    numbers = [b.constant(np.asarray(v, input.dtype)) for v in (1, 0)]
    at = values if isinstance(values, Tensor) else b.constant(np.asarray(values, input.dtype))
    return lower_expression(b, "where(eq(@0,0),@1,where(gt(@0,0),@2,@3))", [input, b.cast(at, input.dtype), *numbers])


_BITS = {"float16": "int16", "float32": "int32", "float64": "int64"}
"""Integers with the same sign bit."""


@composed("copysign", fn.copysign, "fiub")
def copysign(b: Builder, input: Tensor, other: Any) -> Value:
    """Size of the first argument with the sign of the second, also that of zeros and NaN. torch.copysign."""
    given = [TensorType(v.dtype, v.shape) if isinstance(v, Tensor) else float(v) for v in (input, other)]
    common = promote([element_type(v) for v in given], True)
    common = common if common.kind == "f" else np.dtype(np.float32)
    x = b.cast(input, common)
    if not isinstance(other, Tensor):
        return lower_expression(b, "neg(abs(@0))" if math.copysign(1.0, other) < 0 else "abs(@0)", [x])
    sign = b.cast(other, common)
    bits = Tensor(sign.buffer, sign.shape, np.dtype(_BITS[common.name]), sign.strides, sign.offset)
    return lower_expression(b, "where(lt(@0,0),neg(abs(@1)),abs(@1))", [bits, x])
