"""Operators that read or write where index tensors say: embedding, gather, indexing, repetition.

Indices that are constants are checked while lowering, others by the kernels, which report those out of range.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from pnnx_fast._core.program import MAX_RANK, codes
from pnnx_fast._memory import check_numbers
from pnnx_fast._types import Array
from pnnx_fast.errors import IndexRangeError, ParameterError, ShapeError
from pnnx_fast.ops._checks import common_shape
from pnnx_fast.ops.array_functions import argwhere
from pnnx_fast.ops.array_functions import nonzero as places
from pnnx_fast.ops.axis import without
from pnnx_fast.ops.elementwise import intermediate, lower_expression
from pnnx_fast.ops.registry import operator
from pnnx_fast.ops.shape import axis_of, integers
from pnnx_fast.ops.symbolic import Builder, Tensor, Value


def index_tensor(b: Builder, index: Tensor) -> Tensor:
    """Index tensor of a type that the kernels read."""
    if index.dtype.kind not in "iu":
        raise ShapeError("indices must be integers", operand="index", actual=index.dtype)
    return index if index.dtype in (np.int32, np.int64) else b.cast(index, np.int64)


def check_constant(index: Tensor, size: int, wrap: bool) -> None:
    """Raise at once when a constant index is out of range."""
    if index.is_constant and index.size:
        values = index.numpy()
        for value in (int(values.min()), int(values.max())):
            if not (-size if wrap else 0) <= value < size:
                raise IndexRangeError(value, size)


OUTSIDE = codes("outside")
"""What becomes of indices outside: a "fault", a negative one may "wrap", or the "nearest" place is taken."""


def take(b: Builder, x: Tensor, index: Tensor, axis: int, outside: str = "fault", *, temporary: bool = False) -> Tensor:
    """Emit the selection of entries of one dimension; the index's dimensions take its place.

    ``temporary``: what it gives is not the result of the operator that is being lowered.
    """
    if outside != "nearest" or not x.shape[axis]:
        check_constant(index, x.shape[axis], outside == "wrap")
    shape = (*x.shape[:axis], *index.shape, *x.shape[axis + 1 :])
    y = (b.empty if temporary else b.result)(shape, x.dtype)
    x, index = b.contiguous(x), b.contiguous(index_tensor(b, index))
    outer, size = math.prod(x.shape[:axis]), x.shape[axis]
    inner = math.prod(x.shape[axis + 1 :]) * x.dtype.itemsize
    b.step(
        "gather_rows", x=x, index=index, y=y, index_size=index.dtype.itemsize, outer=outer, count=index.size,
        size=size, wrap=OUTSIDE[outside], inner=inner, xso=size * inner, xsr=inner, yso=index.size * inner, ysr=inner,
    )  # fmt: skip
    return y


@operator("nn.Embedding", "F.embedding")
def embedding(
    b: Builder,
    input: Tensor,
    weight: Tensor,
    *,
    num_embeddings: int | None = None,
    embedding_dim: int | None = None,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    """Rows of a table. torch.nn.Embedding."""
    if max_norm is not None:
        raise ParameterError("max_norm changes the table, a matter of training", parameter="max_norm")
    if weight.ndim != 2:
        raise ShapeError("an embedding table is a matrix", operand="weight", actual=weight.shape)
    return take(b, weight, input, 0)


@operator("ncnn.Embed")
def embed(b: Builder, input: Tensor, weight: Tensor) -> Tensor:
    """Rows of a table; an index outside takes the nearest row."""
    return take(b, weight, input, 0, "nearest")


@operator("torch.index_select")
def index_select(b: Builder, input: Tensor, index: Tensor, *, dim: int) -> Tensor:
    """Entries of one dimension. torch.index_select."""
    if index.ndim > 1:
        raise ShapeError("index must have one dimension", operand="index", actual=index.shape)
    axis = axis_of(dim, input.ndim)
    if input.ndim == 0:
        return b.reshape(take(b, input.unsqueeze(0), b.reshape(index, (index.size,)), 0), ())
    regular = _regular(index)
    if regular is not None and input.shape[axis]:
        check_constant(index, input.shape[axis], False)
        return input.narrow(axis, *regular)
    return take(b, input, b.reshape(index, (index.size,)), axis)


def _regular(index: Tensor) -> tuple[int, int, int] | None:
    """Start, length and step of a constant index that a slice stands for."""
    if not index.is_constant or index.ndim != 1 or not index.size:
        return None
    values = index.numpy()
    start, step = int(values[0]), int(values[1]) - int(values[0]) if index.size > 1 else 1
    if start < 0 or step < 1 or not np.array_equal(np.diff(values), np.full(index.size - 1, step)):
        return None
    return start, index.size, step


def fields_along(x: Tensor, index: Tensor, axis: int, outside: str = "fault") -> dict[str, Any]:
    """Fields that name elements of ``x`` by an index along one dimension."""
    if index.ndim > MAX_RANK:
        raise ShapeError(f"an index has up to {MAX_RANK} dimensions", operand="index", actual=index.shape)
    return {
        "rank": index.ndim, "dim": axis, "size": x.shape[axis], "stride": x.strides[axis], "wrap": OUTSIDE[outside],
        "itemsize": x.dtype.itemsize, "index_size": index.dtype.itemsize, "shape": index.shape, "js": index.strides,
    }  # fmt: skip


def standing(strides: Sequence[int], axis: int) -> tuple[int, ...]:
    """Strides with that of an axis as zero: an index says where along it."""
    return tuple(0 if d == axis else s for d, s in enumerate(strides))


def check_index(x: Tensor, index: Tensor, axis: int, inside: Sequence[Tensor]) -> None:
    """Raise unless the index has the rank of ``x`` and fits into it and into all of ``inside``."""
    _check_fit(x, index, axis, inside)
    check_constant(index, x.shape[axis], False)


def _check_fit(x: Tensor, index: Tensor, axis: int, inside: Sequence[Tensor]) -> None:
    for t in (x, *inside):
        fits = t.ndim == index.ndim and all(
            n <= m or (t is x and d == axis) for d, (n, m) in enumerate(zip(index.shape, t.shape, strict=False))
        )
        if not fits:
            raise ShapeError("index does not fit", operand="index", expected=t.shape, actual=index.shape)


def named_along(b: Builder, x: Tensor, index: Tensor, axis: int, *, temporary: bool = False) -> Tensor:
    """Emit the choice of elements of ``x`` that an index of the same rank names along one dimension.

    ``temporary``: what it gives is not the result of the operator that is being lowered.
    """
    if index.size:
        _check_fit(x, index, axis, ())
    index = index_tensor(b, index)
    y = (b.empty if temporary else b.result)(index.shape, x.dtype)
    b.step("gather", x=x, index=index, y=y, xs=standing(x.strides, axis), ys=y.strides, **fields_along(x, index, axis))
    return y


@operator("torch.gather")
def gather(b: Builder, input: Tensor, index: Tensor, *, dim: int, sparse_grad: bool = False) -> Tensor:
    """Elements that an index names along one dimension. torch.gather."""
    axis = axis_of(dim, input.ndim)
    if input.ndim == 0 or index.ndim == 0:
        flat = gather(b, b.reshape(input, (input.size,)), b.reshape(index, (index.size,)), dim=0)
        return b.reshape(flat, index.shape)
    if index.size:
        check_constant(index, input.shape[axis], False)
    return named_along(b, input, index, axis)


@operator("aten::take")
def take_flat(b: Builder, input: Tensor, index: Tensor) -> Tensor:
    """Entries of the flat tensor. torch.take."""
    return take(b, b.reshape(input, (input.size,)), index, 0, "wrap")


@operator("aten::take_along_dim")
def take_along_dim(b: Builder, input: Tensor, index: Tensor, dim: int | None = None) -> Tensor:
    """Entries that an index, taken modulo the size, names along a dimension, broadcast. torch.take_along_dim."""
    if dim is None:
        return gather(b, b.reshape(input, (input.size,)), b.reshape(index, (index.size,)), dim=0)
    axis = axis_of(dim, input.ndim)
    if input.ndim != index.ndim:
        raise ShapeError("index does not fit", operand="index", expected=input.shape, actual=index.shape)
    shape = common_shape(without(input.shape, axis), without(index.shape, axis))
    sizes = [(*shape[:axis], t.shape[axis], *shape[axis:]) if t.ndim else () for t in (input, index)]
    if input.ndim and input.shape[axis]:
        index = intermediate(b, "remainder(@0,@1)", index, input.shape[axis])
    return gather(b, input.expand(sizes[0]), index.expand(sizes[1]), dim=dim)


# -- advanced indexing ---------------------------------------------------------------------------------------------


def read_indices(text: str) -> list[Array | None]:
    """Entries of an expression such as ``[None,[True,False],[[1,0]]]``: None or arrays."""
    import json  # few models have such an index

    plain = text.replace("None", "null").replace("True", "true").replace("False", "false")
    try:
        arrays = [e if e is None else np.array(e) for e in json.loads(plain)]
    except (ValueError, TypeError, RecursionError) as error:
        raise ParameterError(f"cannot read the indices {text[:80]!r}", parameter="expr") from error
    if any(a is not None and a.dtype.kind not in "ib" and a.size for a in arrays):
        raise ParameterError(f"indices must be integers or truth values: {text[:80]!r}", parameter="expr")
    return [a if a is None or a.size else a.astype(np.int64) for a in arrays]


def normal_form(b: Builder, x: Tensor, indices: Sequence[Any]) -> list[Any]:
    """One entry a dimension of ``x``: None or an integer tensor; constant masks become integers."""
    result: list[Any] = []
    for entry in indices:
        if isinstance(entry, (list, int)):
            entry = b.constant(np.array(entry))
        if isinstance(entry, Tensor) and entry.dtype == np.uint8:
            entry = b.cast(entry, np.bool_)
        if isinstance(entry, Tensor) and entry.dtype == np.bool_ and entry.is_constant:
            if entry.shape != x.shape[len(result) : len(result) + entry.ndim]:
                raise ShapeError("the mask does not fit", operand="indices", expected=x.shape, actual=entry.shape)
            result += [b.constant(i) for i in np.nonzero(entry.numpy())]
        else:
            result.append(entry)
            # A mask whose values are unknown stands for as many indices as it has dimensions.
            result += [...] * (entry.ndim - 1 if isinstance(entry, Tensor) and entry.dtype == np.bool_ else 0)
    if len(result) > x.ndim:
        raise ShapeError("too many indices", operand="indices", expected=x.ndim, actual=len(result))
    return result + [None] * (x.ndim - len(result))


def numpy_key(entries: Sequence[Any], arrays: Sequence[Array]) -> tuple[Any, ...]:
    """What numpy is indexed with: arrays in the places of the tensors."""
    given = iter(arrays)
    return tuple(slice(None) if e is None else next(given) for e in entries if e is not ...)


def merge_indices(b: Builder, indices: Sequence[Tensor], sizes: Sequence[int]) -> Tensor:
    """Index into neighbouring dimensions seen as one; what it is made of is checked."""
    shape = common_shape(*(t.shape for t in indices))
    if all(t.is_constant for t in indices):
        total = np.zeros((), np.int64)
        for index, size in zip(indices, sizes, strict=True):
            check_constant(index, size, True)
            values = index.numpy().astype(np.int64)
            total = total * size + np.where(values < 0, values + size, values)
        return b.constant(np.ascontiguousarray(total))
    parts = []
    for d, (index, size) in enumerate(zip(indices, sizes, strict=True)):
        # How far each place of the dimension lies behind the first one.
        check_numbers(size)
        distances = b.constant(np.arange(size, dtype=np.int64) * math.prod(sizes[d + 1 :]))
        parts.append(take(b, distances, index, 0, "wrap", temporary=True).expand(shape))
    whole = parts[0]
    for part in parts[1:]:
        whole = lower_expression(b, "add(@0,@1)", [whole, part], temporary=True)
    return whole


def _across(b: Builder, x: Tensor, entries: Sequence[Any], axes: Sequence[int]) -> Tensor | None:
    """Entries that indices name around whole dimensions, which become indices, too; None where that takes longer."""
    first, last = axes[0], axes[-1] + 1
    between = [d for d in range(first, last) if d not in axes]
    shape = common_shape(*(entries[d].shape for d in axes))
    count = math.prod(shape) * math.prod(x.shape[d] for d in between)
    if count >= math.prod(x.shape[first:last]):
        return None
    indices = []
    for d in range(first, last):
        e = b.constant(np.arange(x.shape[d])) if d in between else entries[d]
        behind = len(between) - 1 - between.index(d) if d in between else len(between)
        indices.append(b.reshape(e, (*e.shape, *[1] * behind)))
    sizes = x.shape[first:last]
    merged = b.reshape(x, (*x.shape[:first], math.prod(sizes), *x.shape[last:]))
    y = take(b, merged, merge_indices(b, indices, sizes), first, temporary=first > 0)
    order = [*range(first, first + len(shape)), *range(first), *range(first + len(shape), y.ndim)]
    return y.permute(order)


def index_tensors(b: Builder, x: Tensor, indices: Sequence[Any]) -> Value:
    """``x[indices]`` with None for whole dimensions and integer or boolean tensors."""
    entries = normal_form(b, x, indices)
    tensors = [e for e in entries if isinstance(e, Tensor)]
    axes = [d for d, e in enumerate(entries) if isinstance(e, Tensor)]
    if not tensors:
        return x
    if any(t.dtype == np.bool_ for t in tensors):
        return b.dynamic(lambda a, *i: a[numpy_key(entries, i)], [x, *tensors])
    if axes[-1] - axes[0] >= len(axes) and (found := _across(b, x, entries, axes)) is not None:
        return found
    if axes[-1] - axes[0] >= len(axes):  # None between indices: their dimensions come first
        order = [*axes, *(d for d in range(x.ndim) if d not in axes)]
        x, axes = x.permute(order), list(range(len(axes)))
    first, last = axes[0], axes[-1] + 1
    if len(tensors) == 1:
        return take(b, x, tensors[0], first, "wrap")
    sizes = x.shape[first:last]
    merged = b.reshape(x, (*x.shape[:first], math.prod(sizes), *x.shape[last:]))
    return take(b, merged, merge_indices(b, tensors, sizes), first)


@operator("Tensor.index")
def index(b: Builder, input: Tensor, indices: Any = None, *, expr: Any = None) -> Value:
    """Indexing with lists, masks and tensors. torch.Tensor.__getitem__."""
    if indices is None and expr is None:
        raise ParameterError("indices are missing", parameter="expr")
    given = expr if indices is None else indices
    entries = given
    if isinstance(given, str):
        entries = [a if a is None else b.constant(a) for a in read_indices(given)]
    return index_tensors(b, input, entries if isinstance(entries, (list, tuple)) else [entries])


@operator("torch.masked_select", native=False)
def masked_select(b: Builder, input: Tensor, mask: Tensor) -> Value:
    """Elements where a mask holds; their number depends on the data. torch.masked_select."""
    shape = common_shape(input.shape, mask.shape)
    return b.dynamic(lambda x, m: np.broadcast_to(x, shape)[np.broadcast_to(m, shape)], [input, mask])


@operator("torch.nonzero", native=False)
def nonzero(b: Builder, input: Tensor, *, as_tuple: bool = False) -> Value:
    """Positions of elements that are not zero; their number depends on the data. torch.nonzero."""
    if as_tuple:
        return b.dynamic(places, [input])
    return b.dynamic(argwhere, [input])


@operator("torch.repeat_interleave")
def repeat_interleave(
    b: Builder, input: Tensor, repeats: Any = None, *, dim: int | None = None, output_size: int | None = None
) -> Value:
    """Every entry of a dimension (of the flat tensor without one) several times. torch.repeat_interleave.

    Of one input, which says how often, every place as often.
    """
    if repeats is None:
        if input.ndim != 1 or input.dtype.kind != "i":
            raise ShapeError("repeats alone are a line of integers", actual=input)
        input, repeats = b.constant(np.arange(input.size, dtype=input.dtype)), input
    if dim is None:
        input, dim = b.reshape(input, (input.size,)), 0
    axis = axis_of(dim, input.ndim)
    if isinstance(repeats, (list, tuple)) and len(repeats) == 1:
        repeats = repeats[0]
    if not isinstance(repeats, Tensor) or (repeats.size == 1 and repeats.is_constant):
        counts = integers(repeats, "repeats")
        repeats = counts[0] if len(counts) == 1 else b.constant(np.array(counts, np.int64))
    if isinstance(repeats, int):
        if repeats < 0:
            raise ParameterError("repeats must not be negative", parameter="repeats")
        wide = input.unsqueeze(axis + 1)
        spread = wide.expand((*wide.shape[: axis + 1], repeats, *wide.shape[axis + 2 :]))
        return b.reshape(spread, (*input.shape[:axis], input.shape[axis] * repeats, *input.shape[axis + 1 :]))
    if repeats.ndim > 1 or repeats.size not in (1, input.shape[axis]):
        raise ShapeError("one repeat an entry", operand="repeats", expected=input.shape[axis], actual=repeats.shape)
    if repeats.is_constant:
        each = repeats.numpy()
        if each.min(initial=0) < 0:
            raise ParameterError("repeats must not be negative", parameter="repeats")
        return take(b, input, b.constant(np.repeat(np.arange(input.shape[axis]), each)), axis)
    return b.dynamic(lambda x, r: np.repeat(x, r, axis), [input, repeats])
