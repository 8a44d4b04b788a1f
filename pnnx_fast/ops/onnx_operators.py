"""Operators of ONNX that the converter leaves under their ONNX names, as in files of PyTorch's newer exporter.

Inputs, attributes and their defaults are those of the ONNX operators. What an ONNX model gives as a constant tensor
arrives as a tensor, a number or a list, or as a parameter of that name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pnnx_fast._types import Array
from pnnx_fast.errors import ParameterError, ShapeError
from pnnx_fast.ops.array_functions import check
from pnnx_fast.ops.aten import tril, triu
from pnnx_fast.ops.elementwise import intermediate, lower_expression
from pnnx_fast.ops.index import index_tensors, named_along, take
from pnnx_fast.ops.losses import MEAN, NONE, SUM, nll_loss
from pnnx_fast.ops.ordering import sort
from pnnx_fast.ops.reduction import amax, amin, argmax, argmin, cumsum
from pnnx_fast.ops.registry import Ints, operator
from pnnx_fast.ops.scatter import index_put, scatter, scatter_reduce
from pnnx_fast.ops.shape import axis_of
from pnnx_fast.ops.softmax import emit_softmax
from pnnx_fast.ops.symbolic import Builder, Results, Tensor, Value

# -- reductions --------------------------------------------------------------------------------------------------


def _extreme(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def extreme(
        b: Builder,
        data: Tensor,
        axes: Ints | None = None,
        *,
        keepdims: bool = True,
        noop_with_empty_axes: bool = False,
    ) -> Tensor:
        return data if noop_with_empty_axes and axes in (None, ()) else function(b, data, dim=axes, keepdim=keepdims)

    return extreme


operator("ReduceMax")(reduce_max := _extreme(amax))
reduce_max.__doc__ = "Maximum over dimensions, which stay as ones unless keepdims is 0. ONNX, torch.amax."
operator("ReduceMin")(reduce_min := _extreme(amin))
reduce_min.__doc__ = "Minimum over dimensions, which stay as ones unless keepdims is 0. ONNX, torch.amin."


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


# -- order and running sums --------------------------------------------------------------------------------------


@operator("TopK")
def largest_entries(
    b: Builder, X: Tensor, K: int, *, axis: int = -1, largest: bool = True, sorted: bool = True
) -> Value:
    """The largest or smallest entries and their places, of equal ones the first. ONNX, torch.topk."""
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


# -- indices -----------------------------------------------------------------------------------------------------


def _from_the_front(b: Builder, index: Tensor, size: int) -> Tensor:
    """An index in which negative entries, which count from the end, are replaced."""
    if index.is_constant and not (index.numpy() < 0).any():
        return index
    return intermediate(b, "where(lt(@0,0),add(@0,@1),@0)", index, size)


@operator("Gather")
def gather_entries(b: Builder, data: Tensor, indices: Any, *, axis: int = 0) -> Tensor:
    """Entries of one dimension; the dimensions of the indices take its place. ONNX, torch.index_select."""
    if not data.ndim:
        raise ShapeError("a tensor without dimensions has no entries", operand="data", actual=list(data.shape))
    index = indices if isinstance(indices, Tensor) else b.constant(np.array(indices, np.int64))
    return take(b, data, index, axis_of(axis, data.ndim), wrap=True)


@operator("GatherElements")
def gather_elements(b: Builder, data: Tensor, indices: Tensor, *, axis: int = 0) -> Tensor:
    """Elements that an index names along one dimension. ONNX, torch.gather."""
    along = axis_of(axis, data.ndim)
    if indices.ndim != data.ndim:
        raise ShapeError("index needs as many dimensions", operand="indices", expected=data.ndim, actual=indices.shape)
    return named_along(b, data, _from_the_front(b, indices, data.shape[along]), along)


def _tuples(b: Builder, data: Tensor, indices: Tensor, batch_dims: int = 0) -> list[Tensor]:
    """An index tensor for each of the first dimensions, from the last dimension of the indices."""
    if not indices.ndim or not 0 <= batch_dims < indices.ndim:
        raise ShapeError("the indices have too few dimensions", operand="indices", actual=indices.shape)
    if batch_dims + indices.shape[-1] > data.ndim:
        raise ShapeError("too many indices", operand="indices", expected=data.ndim, actual=indices.shape[-1])
    found = []
    for d in range(batch_dims):
        places = np.arange(data.shape[d]).reshape([-1 if i == d else 1 for i in range(indices.ndim - 1)])
        found.append(b.constant(places))
    return found + [indices.select(indices.ndim - 1, i) for i in range(indices.shape[-1])]


@operator("GatherND")
def gather_tuples(b: Builder, data: Tensor, indices: Tensor, *, batch_dims: int = 0) -> Value:
    """Slices that tuples of indices name, tuples along the last dimension. ONNX."""
    return index_tensors(b, data, _tuples(b, data, indices, batch_dims))


REDUCED = {"add": "sum", "mul": "prod", "max": "amax", "min": "amin"}
"""PyTorch's names of ONNX's reductions at indices."""


def _check_reduction(reduction: str) -> None:
    if reduction not in ("none", *REDUCED):
        raise ParameterError(f"unknown reduction {reduction!r}", parameter="reduction")


@operator("ScatterElements")
def scatter_elements(
    b: Builder, data: Tensor, indices: Tensor, updates: Tensor, *, axis: int = 0, reduction: str = "none"
) -> Tensor:
    """Entries written or reduced at the places that an index names along a dimension. ONNX, torch.scatter_reduce."""
    _check_reduction(reduction)
    along = axis_of(axis, data.ndim)
    places = _from_the_front(b, indices, data.shape[along])
    if reduction == "none":
        return scatter(b, data, along, places, updates)
    return scatter_reduce(b, data, along, places, updates, REDUCED[reduction])


@operator("ScatterND")
def scatter_tuples(b: Builder, data: Tensor, indices: Tensor, updates: Tensor, *, reduction: str = "none") -> Tensor:
    """Slices written or reduced at the places that tuples of indices name. ONNX, torch.index_put."""
    _check_reduction(reduction)
    entries = _tuples(b, data, indices)
    if reduction in ("none", "add"):
        return index_put(b, data, entries, updates, accumulate=reduction == "add")
    function: Any = {"mul": np.multiply, "max": np.maximum, "min": np.minimum}[reduction]

    def run(x: Array, i: Array, values: Array) -> Array:
        y, places = x.copy(), tuple(np.moveaxis(i, -1, 0))
        for place, size in zip(places, x.shape, strict=False):
            check(place, size)
        function.at(y, places, values)
        return y

    return b.host(run, [data, indices, updates], [(data.shape, data.dtype)])[0]


@operator("NonZero", native=False)
def places_of_truth(b: Builder, X: Tensor) -> Value:
    """Positions of elements that are not zero, a row for each dimension. ONNX, torch.nonzero."""
    return b.dynamic(lambda x: np.asarray(np.nonzero(np.atleast_1d(x))), [X])


@operator("Unique", native=False)
def distinct(b: Builder, X: Tensor, *, axis: int | None = None, sorted: bool = True) -> Value:
    """Distinct entries or slices, where each is first, which each was, and how many there are. ONNX, torch.unique."""
    along = None if axis is None else axis_of(axis, X.ndim)

    def run(x: Array) -> Results:
        x = x.reshape(-1) if along is None else x
        y, first, back, count = np.unique(x, True, True, True, axis=along or 0)
        order = np.arange(len(first)) if sorted else np.argsort(first)
        place = np.empty_like(order)
        place[order] = np.arange(len(order))
        return Results((np.take(y, order, along or 0), first[order], place[back.reshape(-1)], count[order]))

    return b.dynamic(run, [X])


# -- losses ------------------------------------------------------------------------------------------------------

REDUCTIONS = {"none": NONE, "mean": MEAN, "sum": SUM}

NEVER = -1 << 63
"""Stands for a class that is ignored where there is none."""


@operator("NegativeLogLikelihoodLoss")
def likelihood_loss(
    b: Builder,
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    *,
    ignore_index: int | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Minus the log-probability of each row's class. ONNX, torch.nn.functional.nll_loss."""
    if reduction not in REDUCTIONS:
        raise ParameterError(f"unknown reduction {reduction!r}", parameter="reduction")
    return nll_loss(b, input, target, weight, REDUCTIONS[reduction], NEVER if ignore_index is None else ignore_index)


@operator("SoftmaxCrossEntropyLoss")
def class_loss(
    b: Builder,
    scores: Tensor,
    labels: Tensor,
    weights: Tensor | None = None,
    *,
    ignore_index: int | None = None,
    reduction: str = "mean",
) -> Value:
    """Minus the log-probability of each row's class, by scores, and the logarithms. ONNX, torch cross_entropy."""
    if scores.ndim < 2:
        raise ShapeError("scores are (batch, classes, …)", operand="scores", actual=list(scores.shape))
    logs = emit_softmax(b, scores, 1, logarithm=True)
    return Results((likelihood_loss(b, logs, labels, weights, ignore_index=ignore_index, reduction=reduction), logs))


# -- matrices ----------------------------------------------------------------------------------------------------


@operator("Det", native=False)
def determinant(b: Builder, X: Tensor) -> Tensor:
    """Determinants of matrices. ONNX, torch.det."""
    if X.ndim < 2 or X.shape[-1] != X.shape[-2]:
        raise ShapeError("only square matrices have a determinant", operand="X", actual=list(X.shape))
    return b.host(lambda x: np.asarray(np.linalg.det(x), x.dtype), [X], [(X.shape[:-2], X.dtype)])[0]


# -- element by element ------------------------------------------------------------------------------------------


@operator("IsNaN")
def is_nan(b: Builder, X: Tensor) -> Value:
    """Whether an entry is not a number. ONNX, torch.isnan."""
    return lower_expression(b, "isnan(@0)", [X])


@operator("IsInf")
def is_infinite(b: Builder, X: Tensor, *, detect_negative: bool = True, detect_positive: bool = True) -> Value:
    """Whether an entry is infinite, perhaps of one sign only. ONNX, torch.isinf."""
    if detect_negative and detect_positive:
        return lower_expression(b, "isinf(@0)", [X])
    if not detect_negative and not detect_positive:
        return b.contiguous(b.constant(np.zeros((), np.bool_)).expand(X.shape))
    return lower_expression(b, "eq(@0,@1)", [X, np.inf if detect_positive else -np.inf])


@operator("Mod")
def modulo(b: Builder, A: Any, B: Any, *, fmod: bool = False) -> Value:
    """Remainder with the sign of the divisor, of the dividend with fmod. ONNX, torch.remainder, torch.fmod."""
    return lower_expression(b, "fmod(@0,@1)" if fmod else "remainder(@0,@1)", [A, B])


@operator("BitShift")
def shift_bits(b: Builder, X: Any, Y: Any, *, direction: str) -> Value:
    """Bits moved to the left or the right. ONNX, torch.bitwise_left_shift, torch.bitwise_right_shift."""
    if direction not in ("LEFT", "RIGHT"):
        raise ParameterError(f"unknown direction {direction!r}", parameter="direction")
    return lower_expression(b, f"bitwise_{direction.lower()}_shift(@0,@1)", [X, Y])


@operator("Trilu")
def triangle(b: Builder, input: Tensor, k: int = 0, *, upper: bool = True) -> Value:
    """The part of matrices on one side of a diagonal, zeros on the other. ONNX, torch.triu, torch.tril."""
    return (triu if upper else tril)(b, input, k)
