"""Reductions, norms, order and running sums that the converter leaves under their ONNX names; see `onnx_layers`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pnnx_fast._types import Array
from pnnx_fast.errors import ParameterError, ShapeError
from pnnx_fast.ops.elementwise import intermediate, lower_expression
from pnnx_fast.ops.ordering import sort
from pnnx_fast.ops.reduction import amax, amin, argmax, argmin, cumsum, mean, norm, total
from pnnx_fast.ops.registry import Ints, operator
from pnnx_fast.ops.shape import axis_of
from pnnx_fast.ops.symbolic import Builder, Results, Tensor, Value

# -- reductions ----------------------------------------------------------------------------------------------------


def _over_axes(function: Callable[..., Any], before: str = "", after: str = "") -> Callable[..., Value]:
    """A reduction, of an expression of the entries, perhaps within another one."""

    def reduced(
        b: Builder,
        data: Tensor,
        axes: Ints | None = None,
        *,
        keepdims: bool = True,
        noop_with_empty_axes: bool = False,
    ) -> Value:
        x: Value = lower_expression(b, before, [data], temporary=True) if before else data
        if not noop_with_empty_axes or axes not in (None, ()):
            x = function(b, x, dim=axes, keepdim=keepdims)
        return lower_expression(b, after, [x]) if after else x

    return reduced


def _sum(b: Builder, x: Tensor, **where: Any) -> Tensor:
    added: Tensor = total(b, x, **where, dtype=f"torch.{x.dtype.name}")
    return added


operator("ReduceMax")(reduce_max := _over_axes(amax))
reduce_max.__doc__ = "Maximum over dimensions, which stay as ones unless keepdims is 0. ONNX, torch.amax."
operator("ReduceMin")(reduce_min := _over_axes(amin))
reduce_min.__doc__ = "Minimum over dimensions, which stay as ones unless keepdims is 0. ONNX, torch.amin."
operator("ReduceLogSum")(reduce_log_sum := _over_axes(_sum, after="log(@0)"))
reduce_log_sum.__doc__ = "Logarithm of the sum over dimensions, which stay as ones unless keepdims is 0. ONNX."
operator("ReduceSumSquare")(reduce_sum_square := _over_axes(_sum, before="square(@0)"))
reduce_sum_square.__doc__ = "Sum of squares over dimensions, which stay as ones unless keepdims is 0. ONNX."


def _place(found_by: Callable[..., Tensor], of_array: Callable[..., Any]) -> Callable[..., Tensor]:
    def place(
        b: Builder, data: Tensor, *, axis: int = 0, keepdims: bool = True, select_last_index: bool = False
    ) -> Tensor:
        if not select_last_index:
            return found_by(b, data, dim=axis, keepdim=keepdims)
        along = axis_of(axis, data.ndim)
        last = data.shape[along] - 1
        if last < 0:
            raise ShapeError("no extreme of an empty dimension", actual=list(data.shape))

        def run(x: Array) -> Array:
            return np.asarray(last - of_array(np.flip(x, along), along, keepdims=keepdims), np.int64)

        kept = [1] if keepdims else []
        return b.host(run, [data], [((*data.shape[:along], *kept, *data.shape[along + 1 :]), np.dtype(np.int64))])[0]

    return place


operator("ArgMax")(arg_max := _place(argmax, np.argmax))
arg_max.__doc__ = "First or last place of the maximum along a dimension. ONNX, torch.argmax."
operator("ArgMin")(arg_min := _place(argmin, np.argmin))
arg_min.__doc__ = "First or last place of the minimum along a dimension. ONNX, torch.argmin."


# -- order and running sums ----------------------------------------------------------------------------------------


@operator("TopK")
def largest_entries(
    b: Builder,
    X: Tensor,
    K: int | None = None,
    *,
    k: int | None = None,
    axis: int = -1,
    largest: bool = True,
    sorted: bool = True,
) -> Value:
    """The largest or smallest entries and their places, of equal ones the first. ONNX, torch.topk."""
    K = k if K is None else K
    if K is None:
        raise ParameterError("the number of entries is missing", parameter="K")
    along = axis_of(axis, X.ndim)
    if not 0 <= K <= X.shape[along]:
        raise ParameterError(f"K must be between 0 and {X.shape[along]}, not {K}", parameter="K")
    # torch.topk leaves the order of equal entries open, a stable sort does not.
    found: Any = sort(b, X, dim=along, descending=largest)
    return Results(t.narrow(along, 0, K) for t in found)


@operator("CumSum")
def running_sum(b: Builder, x: Tensor, axis: int, *, exclusive: bool = False, reverse: bool = False) -> Tensor:
    """Running sum along a dimension, perhaps without the entry itself, perhaps from the end. ONNX, torch.cumsum."""
    along = axis_of(axis, x.ndim)
    if not exclusive and not reverse:
        sums: Tensor = cumsum(b, x, dim=along, dtype=f"torch.{x.dtype.name}")
        return sums

    def run(x: Array) -> Array:
        turned = np.flip(x, along) if reverse else x
        y = np.cumsum(turned, along, x.dtype)
        if exclusive:
            y = np.roll(y, 1, along)
            np.moveaxis(y, along, 0)[:1] = 0
        return np.ascontiguousarray(np.flip(y, along) if reverse else y)

    return b.host(run, [x], [(x.shape, x.dtype)])[0]


# -- norms ---------------------------------------------------------------------------------------------------------


@operator("LpNormalization")
def normalized(b: Builder, input: Tensor, *, axis: int = -1, p: int = 2) -> Value:
    """The input divided by its norm along a dimension; where that is 0, 0. ONNX, torch.nn.functional.normalize."""
    size = norm(b, input, p=p, dim=axis, keepdim=True)
    return lower_expression(b, "where(eq(@1,0),0,div(@0,@1))", [input, size])


@operator("MeanVarianceNormalization")
def standardized(b: Builder, X: Tensor, *, axes: Ints = (0, 2, 3)) -> Value:
    """The input less its mean, divided by its standard deviation and 1e-9 more. ONNX."""
    centred = intermediate(b, "sub(@0,@1)", X, mean(b, X, dim=axes, keepdim=True))
    variance = mean(b, intermediate(b, "square(@0)", centred), dim=axes, keepdim=True)
    return lower_expression(b, "div(@0,add(sqrt(@1),1e-9))", [centred, variance])


@operator("GlobalLpPool")
def global_norm(b: Builder, X: Tensor, *, p: int = 2) -> Tensor:
    """Norm of each channel, whose sizes become ones. ONNX, torch.linalg.vector_norm."""
    if X.ndim < 3:
        raise ShapeError("the input is (batch, channels, …)", operand="X", actual=list(X.shape))
    return norm(b, X, p=p, dim=tuple(range(2, X.ndim)), keepdim=True)


@operator("Hardmax", native=False)
def hardmax(b: Builder, input: Tensor, *, axis: int = -1) -> Tensor:
    """One at the first maximum along a dimension, zeros elsewhere. ONNX."""
    along = axis_of(axis, input.ndim)
    if not input.shape[along]:
        raise ShapeError("no maximum of an empty dimension", actual=list(input.shape))

    def run(x: Array) -> Array:
        y = np.zeros_like(x)
        np.put_along_axis(y, np.expand_dims(x.argmax(along), along), 1, along)
        return y

    return b.host(run, [input], [(input.shape, input.dtype)])[0]
