"""Operators that write where index tensors say: scatter, index_copy, index_put and their kin, and what they share.

All are a copy of the input and one kernel, which checks the indices and lets the last of several writes win.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from pnnx_fast._core.program import codes
from pnnx_fast._memory import check_numbers
from pnnx_fast._types import Array, DType
from pnnx_fast.errors import IndexRangeError, ParameterError, ShapeError
from pnnx_fast.ops import index_functions
from pnnx_fast.ops.array_functions import check, reduce_at
from pnnx_fast.ops.elementwise import lower_expression
from pnnx_fast.ops.index import (
    check_constant,
    check_index,
    fields_along,
    index_tensor,
    merge_indices,
    normal_form,
    numpy_key,
    standing,
)
from pnnx_fast.ops.registry import operator
from pnnx_fast.ops.shape import axis_of
from pnnx_fast.ops.symbolic import Builder, Tensor

CODES = codes("scatter")
"""Operation codes of the scatter kernel."""

JOINED = {
    name: code for name, code in codes("dtype").items() if name in ("float16", "float32", "float64", "int32", "int64")
}
"""Codes of the types whose elements the scatter kernel adds and compares."""

WIDER = dict.fromkeys(("bool", "uint8", "int8", "int16"), "int32")
"""Types that are added and compared in another one."""


def computed_in(dtype: DType, op: str) -> DType | None:
    """Type in which the kernel does an operation on elements of a type; None: it cannot."""
    if op == "put":
        return dtype
    if dtype == np.float16 and op in ("amax", "amin"):
        return np.dtype(np.float32)
    wide = np.dtype(WIDER.get(dtype.name, dtype))
    return wide if wide.name in JOINED else None


def emit_scatter(b: Builder, y: Tensor, index: Tensor, src: Tensor, axis: int, op: str, wrap: bool = False) -> None:
    """Emit writes into ``y``, whose type the kernel knows, at the places that an index names along an axis."""
    if not index.size:
        return
    index = index_tensor(b, index)
    fields = fields_along(y, index, axis, "wrap" if wrap else "fault")
    fields |= {"op": CODES[op], "type": JOINED.get(y.dtype.name, 0)}
    b.step(
        "scatter", flops=2 * index.size, x=src, index=index, y=y, xs=src.strides, ys=standing(y.strides, axis), **fields
    )


def scattered(
    b: Builder,
    input: Tensor,
    index: Tensor,
    src: Tensor,
    axis: int,
    *ops: tuple[str, Tensor | None],
    wrap: bool = False,
    temporary: bool = False,
) -> Tensor:
    """Copy of the input with operations done one after another at the places of an index.

    Each is given with what it takes, ``src`` for None. All shapes fit; the type of the input has a kernel for them.
    ``temporary``: what it gives is not the result of the operator that is being lowered.
    """
    if input.ndim == 0:
        one = [b.reshape(t, (1,)) for t in (input, index, src)]
        return b.reshape(scattered(b, one[0], one[1], one[2], 0, *ops, wrap=wrap, temporary=True), ())
    check_constant(index, input.shape[axis], wrap)
    wide = cast(DType, computed_in(input.dtype, ops[-1][0]))
    y = (b.result if wide == input.dtype and not temporary else b.empty)(input.shape, wide)
    b.copy(b.cast(input, wide), y)
    for op, taken in ops:
        given = b.cast(src if taken is None else taken, wide)
        emit_scatter(b, y, index, given if given.shape == index.shape else given.expand(index.shape), axis, op, wrap)
    return b.cast(y, input.dtype)


def _part(src: Tensor, index: Tensor) -> Tensor:
    """Entries of a source that the entries of an index of the same rank meet."""
    return src.as_strided(index.shape, src.strides)


def _fit(b: Builder, x: Tensor, index: Tensor, src: Tensor, axis: int) -> Tensor:
    """The part of a source that an index meets, once all shapes are known to fit."""
    if x.ndim == 0:
        return src
    if index.size:
        check_index(x, index, axis, (src,) if src.ndim else ())
    return _part(src, index) if src.ndim and index.size else b.reshape(src, ()) if src.size == 1 else src


@operator("aten::scatter")
def scatter(b: Builder, input: Tensor, dim: int, index: Tensor, src: Any, reduce: str | None = None) -> Tensor:
    """Entries written, added or multiplied at the places that an index names along a dimension. torch.scatter."""
    axis = axis_of(dim, input.ndim)
    source = src if isinstance(src, Tensor) else b.constant(np.asarray(src).astype(input.dtype))
    if reduce not in (None, "add", "multiply"):
        raise ParameterError(f"unknown reduction {reduce!r}", parameter="reduce")
    if not index.size:
        return input
    op = reduce or "put"
    if computed_in(input.dtype, op) is None:

        def run(x: Array, i: Array, s: Array) -> Array:
            return index_functions.scatter(x, axis, i, s, reduce)

        return b.host(run, [input, index, source], [(input.shape, input.dtype)])[0]
    return scattered(b, input, index, _fit(b, input, index, source, axis), axis, (op, None))


_REDUCTIONS = {"sum": ("add", 0), "prod": ("multiply", 1), "amax": ("amax", None), "amin": ("amin", None)}
"""Operation and the value that changes nothing; None: the end of the type's range."""


def _neutral(dtype: DType, reduce: str) -> Array:
    value: Any = _REDUCTIONS[reduce][1]
    if value is None and dtype.kind == "f":
        value = -np.inf if reduce == "amax" else np.inf
    elif value is None:
        value = (
            reduce == "amin"
            if dtype == np.bool_
            else getattr(np.iinfo(cast(Any, dtype)), "min" if reduce == "amax" else "max")
        )
    return np.asarray(value, dtype)


@operator("aten::scatter_reduce")
def scatter_reduce(
    b: Builder, input: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str, include_self: bool = True
) -> Tensor:
    """Entries reduced into the places that an index names along a dimension. torch.scatter_reduce."""
    axis = axis_of(dim, input.ndim)
    if reduce not in (*_REDUCTIONS, "mean"):
        raise ParameterError(f"unknown reduction {reduce!r}", parameter="reduce")
    if not index.size:
        return input
    part = _fit(b, input, index, src, axis)
    if reduce == "mean" and input.dtype in (np.float32, np.float64):
        return _averaged(b, input, index, part, axis, include_self)
    if reduce == "mean" or computed_in(input.dtype, _REDUCTIONS[reduce][0]) is None:

        def run(x: Array, i: Array, s: Array) -> Array:
            return index_functions.scatter_reduce(x, axis, i, s, reduce, include_self)

        return b.host(run, [input, index, src], [(input.shape, input.dtype)])[0]
    op = (_REDUCTIONS[reduce][0], None)
    if include_self:
        return scattered(b, input, index, part, axis, op)
    return scattered(b, input, index, part, axis, ("put", b.constant(_neutral(input.dtype, reduce))), op)


def _averaged(b: Builder, x: Tensor, index: Tensor, src: Tensor, axis: int, include_self: bool) -> Tensor:
    """Means of what meets at the places that an index names."""
    zero, one = (b.constant(np.asarray(v, x.dtype)) for v in (0, 1))
    begin: list[tuple[str, Tensor | None]] = [] if include_self else [("put", zero)]
    total = scattered(b, x, index, src, axis, *begin, ("add", None), temporary=True)
    start = (one if include_self else zero).expand(x.shape)
    count = scattered(b, start, index, one, axis, ("add", None), temporary=True)
    return cast(Tensor, lower_expression(b, "div(@0,maximum(@1,1))", [total, count]))


@operator("torch.scatter_add")
def scatter_add(b: Builder, input: Tensor, index: Tensor, src: Tensor, *, dim: int) -> Tensor:
    """Input plus sources added at the places that an index names along one dimension. torch.scatter_add."""
    if src.dtype != input.dtype:
        raise ShapeError("src must have the dtype of the input", operand="src", expected=input.dtype, actual=src.dtype)
    return scatter_reduce(b, input, dim, index, src, "sum")


# -- whole slices ------------------------------------------------------------------------------------------------


def _slices(b: Builder, input: Tensor, axis: int, index: Tensor) -> Tensor:
    """An index of slices as one of elements."""
    if index.ndim > 1:
        raise ShapeError("index must have one dimension", operand="index", actual=index.shape)
    if input.ndim == 0:
        return b.reshape(index, (index.size,))
    line = b.reshape(index, [index.size if d == axis else 1 for d in range(input.ndim)])
    return line.expand([index.size if d == axis else n for d, n in enumerate(input.shape)])


@operator("aten::index_reduce")
def index_reduce(
    b: Builder, input: Tensor, dim: int, index: Tensor, source: Tensor, reduce: str, include_self: bool = True
) -> Tensor:
    """Slices reduced into the entries of a dimension that an index names. torch.index_reduce."""
    places = _slices(b, input, axis_of(dim, input.ndim), index)
    expected = places.shape if input.ndim else ()
    if source.shape != expected or source.size != places.size:
        raise ShapeError("the slices do not fit", operand="source", expected=expected, actual=source.shape)
    return scatter_reduce(b, input, dim, places, b.reshape(source, places.shape), reduce, include_self)


@operator("aten::index_copy")
def index_copy(b: Builder, input: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    """Slices written at the entries of a dimension that an index names. torch.index_copy."""
    axis = axis_of(dim, input.ndim)
    places = _slices(b, input, axis, index)
    source = b.reshape(source, places.shape) if source.size == places.size == 1 else source
    if source.shape != places.shape:
        raise ShapeError("the slices do not fit", operand="source", expected=places.shape, actual=source.shape)
    return scattered(b, input, places, source, axis, ("put", None)) if places.size else input


@operator("aten::index_fill")
def index_fill(b: Builder, input: Tensor, dim: int, index: Tensor, value: Any) -> Tensor:
    """One value written into the entries of a dimension that an index names. torch.index_fill."""
    axis = axis_of(dim, input.ndim)
    places = _slices(b, input, axis, index)
    source = value if isinstance(value, Tensor) else b.constant(np.asarray(value).astype(input.dtype))
    if source.ndim:
        raise ShapeError("one value is filled in", operand="value", actual=source.shape)
    return scattered(b, input, places, source, axis, ("put", None), wrap=True) if places.size else input


@operator("aten::put")
def put(b: Builder, input: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> Tensor:
    """Elements of the flat tensor written or added. torch.put."""
    op = "add" if accumulate else "put"
    if source.size != index.size:
        raise ShapeError("one value an index", operand="source", expected=index.shape, actual=source.shape)
    if computed_in(input.dtype, op) is None:

        def run(x: Array, i: Array, s: Array) -> Array:
            return index_functions.put(x, i, s, accumulate)

        return b.host(run, [input, index, source], [(input.shape, input.dtype)])[0]
    flat, places, values = (b.reshape(t, (t.size,)) for t in (input, index, source))
    return b.reshape(scattered(b, flat, places, values, 0, (op, None), wrap=True), input.shape)


@operator("aten::one_hot")
def one_hot(b: Builder, input: Tensor, classes: int = -1) -> Tensor:
    """Ones where classes say. torch.nn.functional.one_hot."""
    if classes < 0:
        result: Tensor = b.dynamic(_one_hot, [input])
        return result
    zeros = b.constant(np.zeros((), np.int64)).expand((*input.shape, classes))
    places = b.reshape(input, (*input.shape, 1))
    if not places.size:
        return b.contiguous(zeros)
    return scattered(b, zeros, places, b.constant(np.ones((), np.int64)), input.ndim, ("put", None))


def _one_hot(x: Array) -> Array:
    """Ones where classes say, of which there are as many as the largest one needs."""
    if not x.size:
        raise ShapeError("no entry says how many classes there are", actual=list(x.shape))
    classes = int(x.max()) + 1
    check_numbers(x.size * classes)
    check(x, classes, wrap=False)
    return np.asarray(x[..., None] == np.arange(classes), np.int64)


# -- by several indices --------------------------------------------------------------------------------------------


def _index_put(b: Builder, x: Tensor, entries: Sequence[Any], value: Tensor, accumulate: bool) -> Tensor | None:
    """What is put by integers into neighbouring dimensions, or by a mask of the first ones; None for anything else."""
    tensors = [e for e in entries if isinstance(e, Tensor)]
    axes = [d for d, e in enumerate(entries) if isinstance(e, Tensor)]
    op = "add" if accumulate else "put"
    if value.dtype != x.dtype or computed_in(x.dtype, op) is None or not tensors:
        return None
    if any(t.dtype == np.bool_ for t in tensors):
        if len(tensors) > 1 or axes[0] or value.size != 1 or accumulate or not tensors[0].ndim:
            return None
        mask = b.reshape(tensors[0], (*tensors[0].shape, *[1] * (x.ndim - tensors[0].ndim)))
        if tensors[0].shape != x.shape[: tensors[0].ndim]:
            raise ShapeError("the mask does not fit", operand="indices", expected=x.shape, actual=tensors[0].shape)
        return cast(Tensor, lower_expression(b, "where(@0,@1,@2)", [mask, b.reshape(value, ()), x]))
    if axes[-1] - axes[0] >= len(axes):
        return None
    first, last = axes[0], axes[-1] + 1
    outer, sizes, inner = x.shape[:first], x.shape[first:last], x.shape[last:]
    index = tensors[0] if len(tensors) == 1 else merge_indices(b, tensors, sizes)
    shape = (*outer, *index.shape, *inner)
    if value.ndim > len(shape) or any(n not in (1, m) for n, m in zip(value.shape[::-1], shape[::-1], strict=False)):
        return None  # numpy drops leading dimensions, and refuses what does not fit when the model runs
    flat = (math.prod(outer), index.size, math.prod(inner))
    if not math.prod(flat):
        return x
    if 0 in sizes:
        raise IndexRangeError(0, 0)
    values = b.reshape(value.expand(shape), flat)
    places = b.reshape(index, (1, index.size, 1)).expand(flat)
    whole = b.reshape(x, (flat[0], math.prod(sizes), flat[2]))
    return b.reshape(scattered(b, whole, places, values, 1, (op, None), wrap=True), x.shape)


@operator("Tensor.index_put")
def index_put(b: Builder, input: Tensor, indices: Any, values: Any, *, accumulate: bool = False) -> Tensor:
    """Copy of the input with values put or added where indices say. torch.Tensor.index_put."""
    listed = list(indices) if isinstance(indices, (list, tuple)) else [indices]
    entries = normal_form(b, input, listed)
    tensors = [e for e in entries if isinstance(e, Tensor)]
    if values is None and input.dtype != np.bool_:
        raise ParameterError("the file does not tell the number that is written", parameter="values")
    value = values if isinstance(values, Tensor) else b.constant(np.asarray(values).astype(input.dtype))
    found = _index_put(b, input, entries, value, accumulate)
    if found is not None:
        return found

    def put(x: Array, value: Array, *arrays: Array) -> Array:
        y = x.copy()
        for axis, e in enumerate(entries):
            if isinstance(e, Tensor) and e.dtype != np.bool_:
                check(arrays[sum(isinstance(o, Tensor) for o in entries[:axis])], x.shape[axis])
        key = numpy_key(entries, arrays)
        if accumulate:
            reduce_at(np.add, y, key, value)
        else:
            y[key] = value
        return y

    return b.host(put, [input, value, *tensors], [(input.shape, input.dtype)])[0]
