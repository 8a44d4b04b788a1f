"""Reads and writes at indices of ONNX that the converter leaves under their ONNX names; see `onnx_layers`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pnnx_fast._types import Array
from pnnx_fast.errors import ParameterError, ShapeError
from pnnx_fast.ops.array_functions import check, reduce_at
from pnnx_fast.ops.array_functions import nonzero as places
from pnnx_fast.ops.elementwise import intermediate
from pnnx_fast.ops.index import index_tensors, named_along, take
from pnnx_fast.ops.registry import operator
from pnnx_fast.ops.scatter import index_put, scatter, scatter_reduce
from pnnx_fast.ops.shape import axis_of
from pnnx_fast.ops.symbolic import Builder, Results, Tensor, Value


def _from_the_front(b: Builder, index: Tensor, size: int) -> Tensor:
    """An index in which negative entries, which count from the end, are replaced."""
    if index.is_constant and not (index.numpy() < 0).any():
        return index
    return intermediate(b, "where(lt(@0,0),add(@0,@1),@0)", index, size)


def _whole(b: Builder, x: Tensor, rank: int) -> Tensor:
    """What the converter writes as a number where it has one entry, with its dimensions."""
    return x if x.ndim else b.reshape(x, (1,) * rank)


@operator("Gather")
def gather_entries(b: Builder, data: Tensor, indices: Any, *, axis: int = 0) -> Tensor:
    """Entries of one dimension; the dimensions of the indices take its place. ONNX, torch.index_select."""
    if not data.ndim:
        raise ShapeError("a tensor without dimensions has no entries", operand="data", actual=list(data.shape))
    index = indices if isinstance(indices, Tensor) else b.constant(np.array(indices, np.int64))
    return take(b, data, index, axis_of(axis, data.ndim), "wrap")


@operator("GatherElements")
def gather_elements(b: Builder, data: Tensor, indices: Tensor, *, axis: int = 0) -> Tensor:
    """Elements that an index names along one dimension. ONNX, torch.gather."""
    along, indices = axis_of(axis, data.ndim), _whole(b, indices, data.ndim)
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


@operator("ScatterElements", "Scatter")
def scatter_elements(
    b: Builder, data: Tensor, indices: Tensor, updates: Tensor, *, axis: int = 0, reduction: str = "none"
) -> Tensor:
    """Entries written or reduced at the places that an index names along a dimension. ONNX, torch.scatter_reduce."""
    _check_reduction(reduction)
    along, indices, updates = axis_of(axis, data.ndim), _whole(b, indices, data.ndim), _whole(b, updates, data.ndim)
    places = _from_the_front(b, indices, data.shape[along])
    if reduction == "none":
        return scatter(b, data, along, places, updates)
    return scatter_reduce(b, data, along, places, updates, REDUCED[reduction])


@operator("ScatterND")
def scatter_tuples(b: Builder, data: Tensor, indices: Tensor, updates: Tensor, *, reduction: str = "none") -> Tensor:
    """Slices written or reduced at the places that tuples of indices name. ONNX, torch.index_put."""
    _check_reduction(reduction)
    indices = _whole(b, indices, max(updates.ndim - data.ndim, 0) + 2)
    entries = _tuples(b, data, indices)
    slices = indices.shape[:-1] + data.shape[indices.shape[-1] :]
    if math.prod(slices) == 1:
        updates = _whole(b, updates, len(slices))
    if updates.shape != slices:
        raise ShapeError("updates are a slice for each tuple", operand="updates", expected=slices, actual=updates.shape)
    if reduction in ("none", "add"):
        return index_put(b, data, entries, updates, accumulate=reduction == "add")
    function: Any = {"mul": np.multiply, "max": np.maximum, "min": np.minimum}[reduction]

    def run(x: Array, i: Array, values: Array) -> Array:
        y, places = x.copy(), tuple(np.moveaxis(i, -1, 0))
        for place, size in zip(places, x.shape, strict=False):
            check(place, size)
        reduce_at(function, y, places, values)
        return y

    return b.host(run, [data, indices, updates], [(data.shape, data.dtype)])[0]


@operator("NonZero", native=False)
def places_of_truth(b: Builder, X: Tensor) -> Value:
    """Positions of elements that are not zero, a row for each dimension. ONNX, torch.nonzero."""
    return b.dynamic(lambda x: np.asarray(places(np.atleast_1d(x))), [X])


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
