"""Operators that cut tensors and write into parts of them: split, select, slice, slice_copy and what they share.

Cutting makes views. Writing makes a copy with a part replaced, as values never change once they are computed.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from pnnx_fast._types import Array
from pnnx_fast.errors import ParameterError, ShapeError
from pnnx_fast.ir.parameter import OPEN_END
from pnnx_fast.ops._checks import require_dims
from pnnx_fast.ops.registry import Ints, operator
from pnnx_fast.ops.shape import axis_inside, axis_of, integers
from pnnx_fast.ops.symbolic import Buffer, Builder, Tensor, Value

MOST_PARTS = 1 << 16
"""Parts that a tensor can be cut into; more is taken for a mistake."""


def _require_few(parts: int) -> None:
    if parts > MOST_PARTS:
        raise ShapeError(f"a tensor is cut into up to {MOST_PARTS} parts", actual=parts)


def _cuts(input: Tensor, axis: int, sizes: Sequence[int]) -> tuple[Tensor, ...]:
    if sum(sizes) != input.shape[axis] or min(sizes, default=0) < 0:
        raise ShapeError("split sizes do not add up", expected=input.shape[axis], actual=list(sizes))
    starts = np.cumsum([0, *sizes]).tolist()
    return tuple(input.narrow(axis, s, n) for s, n in zip(starts, sizes, strict=False))


@operator("torch.chunk", rows=axis_inside("dim"))
def chunk(b: Builder, input: Tensor, *, chunks: int, dim: int = 0) -> Value:
    """Cut into at most ``chunks`` parts of equal size, the last one smaller. torch.chunk."""
    require_dims(input, 1)
    axis = axis_of(dim, input.ndim)
    if chunks < 1:
        raise ParameterError(f"chunks must be positive, not {chunks}", parameter="chunks")
    n = input.shape[axis]
    if not n:
        return tuple(input.narrow(axis, *part) for part in _ranges(0, (), chunks))
    size = -(-n // chunks)
    _require_few(-(-n // size))
    return _cuts(input, axis, [min(size, n - s) for s in range(0, n, size)])


@operator("torch.split", rows=axis_inside("dim"))
def split(b: Builder, tensor: Tensor, *, split_size_or_sections: Ints, dim: int = 0) -> Value:
    """Cut into parts of one size or of given sizes, of ONNX's Split also into as many as there are. torch.split."""
    require_dims(tensor, 1)
    axis = axis_of(dim, tensor.ndim)
    n, size = tensor.shape[axis], split_size_or_sections
    if size == ():
        size = -(-n // max(b.output_count, 1)) or 1
    if not isinstance(size, int):
        return _cuts(tensor, axis, list(size))
    if size < 1:
        raise ParameterError(f"the split size must be positive, not {size}", parameter="split_size_or_sections")
    _require_few(-(-n // size))
    return _cuts(tensor, axis, [min(size, n - s) for s in range(0, max(n, 1), size)])


@operator("torch.tensor_split")
def tensor_split(b: Builder, input: Tensor, *, indices: Any = None, sections: int | None = None, dim: int = 0) -> Value:
    """Cut into nearly equal parts or at given indices. torch.tensor_split."""
    require_dims(input, 1)
    axis = axis_of(dim, input.ndim)
    n = input.shape[axis]
    if isinstance(indices, Tensor) and not indices.is_constant:

        def cut(x: Array, found: Array) -> list[Array]:
            ranges = _ranges(n, found.tolist(), None) if found.ndim else _ranges(n, (), int(found))
            return [np.take(x, range(start, start + length), axis) for start, length in ranges]

        return b.dynamic(cut, [input, indices])
    if isinstance(indices, Tensor) and not indices.ndim:
        indices, sections = None, int(indices.numpy())
    given = () if indices is None and sections is not None else integers(indices, "indices")
    return tuple(input.narrow(axis, *part) for part in _ranges(n, given, None if given else sections))


def _ranges(n: int, indices: Sequence[int], sections: int | None) -> list[tuple[int, int]]:
    """(start, length) of the parts of a dimension that is cut into so many sections or else at indices."""
    if sections is not None:
        if not 0 < sections <= MOST_PARTS:
            raise ParameterError(f"sections must be in 1 … {MOST_PARTS}, not {sections}", parameter="sections")
        sizes = [n // sections + (i < n % sections) for i in range(sections)]
        return list(zip(np.cumsum([0, *sizes]).tolist(), sizes, strict=False))
    points = [min(max(i + n if i < 0 else i, 0), n) for i in indices]
    return [(a, max(e - a, 0)) for a, e in itertools.pairwise([0, *points, n])]


@operator("torch.unbind")
def unbind(b: Builder, input: Tensor, *, dim: int = 0) -> Value:
    """Take a dimension apart. torch.unbind."""
    axis = axis_of(dim, input.ndim)
    _require_few(input.shape[axis])
    return tuple(input.select(axis, i) for i in range(input.shape[axis]))


@operator("Tensor.select", rows=axis_inside("dim"))
def select(b: Builder, input: Tensor, *, dim: int, index: int | Tensor) -> Tensor:
    """One entry of a dimension. torch.select."""
    if isinstance(index, Tensor):
        part: Tensor = slice_tensor(b, input, dim=dim, select=index)
        return part
    axis = axis_of(dim, input.ndim)
    n = input.shape[axis] if input.ndim else 0
    if not -n <= index < n:
        raise ShapeError("index out of range", expected=f"[{-n}, {n - 1}]", actual=index)
    return input.select(axis, index % n)


@operator("torch.narrow")
def narrow(b: Builder, input: Tensor, *, dim: int, start: int | Tensor, length: int) -> Tensor:
    """A range of a dimension, whose start may be computed by the model. torch.narrow."""
    axis = axis_of(dim, input.ndim)
    n = input.shape[axis] if input.ndim else 0
    if isinstance(start, Tensor) and start.is_constant:
        start = int(start.numpy().reshape(()))
    if not isinstance(start, Tensor):
        return input.narrow(axis, _start_of_range(n, start, length), length)
    if start.size != 1 or start.dtype.kind not in "iu":
        raise ShapeError("the start is one integer", operand="start", actual=start)
    _start_of_range(n, 0, length)

    def run(x: Array, found: Array) -> Array:
        first = _start_of_range(n, int(found.reshape(())), length)
        return x[(slice(None),) * axis + (slice(first, first + length),)]

    shape = (*input.shape[:axis], length, *input.shape[axis + 1 :])
    return b.host(run, [input, start], [(shape, input.dtype)])[0]


def _start_of_range(n: int, start: int, length: int) -> int:
    """Start of a range of a dimension, counted from the front."""
    first = start + n if start < 0 else start
    if not 0 <= first <= first + length <= n:
        raise ShapeError("range outside of the dimension", expected=n, actual=(start, length))
    return first


def clip_slice(n: int, start: int | None, end: int | None, step: int | None) -> tuple[int, int, int]:
    """(start, length, step) of a Python slice, perhaps backwards, with open ends as None or PNNX's large number."""
    if step == 0:
        raise ParameterError("slice step must not be zero", parameter="step")
    entries = range(n)[slice(start, None if end == OPEN_END else end, step)]
    return entries.start, len(entries), entries.step


def _slice_fields(values: Any, count: int, default: int | None) -> list[Any]:
    if values is None:
        return [default] * count
    return list(values) if isinstance(values, (list, tuple)) else [values] * count


def _integer(value: Any, what: str) -> int:
    found = integers(value, what)
    if len(found) != 1:
        raise ParameterError(f"{what} must be an integer, not {value!r}", parameter=what)
    return found[0]


def slice_view(input: Tensor, given: dict[str, Any]) -> Tensor:
    """The view that Tensor.slice names in either of its forms (dim, start … or dims, starts …, selects)."""
    if given.get("dims") is None:
        dims = [0 if given.get("dim") is None else given["dim"]]
        columns = [[given.get(k)] for k in ("start", "end", "step")]
        columns.append([OPEN_END if given.get("select") is None else given["select"]])
    else:
        dims = list(integers(given["dims"], "dims"))
        columns = [_slice_fields(given.get(k), len(dims), None) for k in ("starts", "ends", "steps")]
        columns.append(_slice_fields(given.get("selects"), len(dims), OPEN_END))
    drop = []
    for dim, start, end, step, index in zip(dims, *columns, strict=True):
        axis = axis_of(dim, input.ndim)
        start, end, step, index = (None if v is None else _integer(v, "slice") for v in (start, end, step, index))
        n = input.shape[axis]
        if index is not None and index != OPEN_END:
            if not -n <= index < n:
                raise ShapeError("index out of range", expected=f"[{-n}, {n - 1}]", actual=index)
            input = input.narrow(axis, index % n, 1)
            drop.append(axis)
        else:
            input = _part(input, axis, *clip_slice(n, start, end, step))
    return input.squeeze(drop)


def _part(input: Tensor, axis: int, start: int, length: int, step: int) -> Tensor:
    """View of a range of one dimension, which may go backwards."""
    if step > 0 or not length:
        return input.narrow(axis, start if length else 0, length, max(step, 1))
    x = input.narrow(axis, start + (length - 1) * step, length, -step)
    strides = [-s if d == axis else s for d, s in enumerate(x.strides)]
    return x.as_strided(x.shape, strides, (length - 1) * x.strides[axis])


def _bounds_in_data(given: dict[str, Any]) -> list[Tensor]:
    """Bounds of a slice that are known when the model runs."""
    entries = [e for v in given.values() for e in (v if isinstance(v, (list, tuple)) else [v])]
    return [e for e in entries if isinstance(e, Tensor) and not e.is_constant]


def _with_bounds(given: dict[str, Any], found: Sequence[Array]) -> dict[str, Any]:
    """The bounds with what was found in place of data."""
    values = iter(found)

    def known(entry: Any) -> Any:
        if isinstance(entry, (list, tuple)):
            return [known(e) for e in entry]
        return int(next(values).reshape(())) if isinstance(entry, Tensor) and not entry.is_constant else entry

    return {key: known(value) for key, value in given.items()}


def _held(x: Array) -> Tensor:
    """An array in C order as a tensor, so that what is said of tensors is said of it."""
    return Tensor(Buffer("const", x.nbytes, x), x.shape, x.dtype)


@operator("Tensor.slice", rows=axis_inside("dim"))
def slice_tensor(
    b: Builder,
    input: Tensor,
    *,
    dim: Any = None,
    start: Any = None,
    end: Any = None,
    step: Any = None,
    select: Any = None,
    dims: Any = None,
    starts: Any = None,
    ends: Any = None,
    steps: Any = None,
    selects: Any = None,
) -> Tensor:
    """Part of a tensor by ranges and single indices. Tensor.__getitem__ with slices and integers."""
    given = {
        "dim": dim, "start": start, "end": end, "step": step, "select": select,
        "dims": dims, "starts": starts, "ends": ends, "steps": steps, "selects": selects,
    }  # fmt: skip
    bounds = _bounds_in_data(given)
    if bounds:
        result: Tensor = b.dynamic(
            lambda x, *found: slice_view(_held(np.asarray(x, order="C")), _with_bounds(given, found)).numpy().copy(),
            [input, *bounds],
        )
        return result
    part = slice_view(input, given)
    # Only copies take strides below zero.
    return b.contiguous(part) if min(part.strides, default=0) < 0 else part


@operator("Tensor.slice_copy")
def slice_copy(
    b: Builder,
    input: Tensor,
    src: Any,
    *,
    dim: Any = None,
    start: Any = None,
    end: Any = None,
    step: Any = None,
    select: Any = None,
    dims: Any = None,
    starts: Any = None,
    ends: Any = None,
    steps: Any = None,
    selects: Any = None,
) -> Tensor:
    """Copy of the input with a part replaced by ``src``. ``x[...] = src``."""
    given = {
        "dim": dim, "start": start, "end": end, "step": step, "select": select,
        "dims": dims, "starts": starts, "ends": ends, "steps": steps, "selects": selects,
    }  # fmt: skip
    source = src if isinstance(src, Tensor) else b.constant(np.array(src))
    bounds = _bounds_in_data(given)
    if bounds:

        def compute(x: Array, values: Array, *found: Array) -> Array:
            y = x.copy()
            part = slice_view(_held(y), _with_bounds(given, found)).numpy()
            np.copyto(part, values, casting="unsafe")
            return y

        return b.host(compute, [input, source, *bounds], [(input.shape, input.dtype)])[0]
    y = b.result(input.shape, input.dtype, "plain")
    b.copy(input, y)
    part = slice_view(y, given)
    b.copy(b.cast(source, input.dtype).expand(part.shape), part)
    return y


@operator("torch.slice_scatter")
def slice_scatter(
    b: Builder,
    input: Tensor,
    src: Tensor,
    *,
    dim: int = 0,
    start: int | None = None,
    end: int | None = None,
    step: int = 1,
) -> Tensor:
    """Copy of the input with a range of one dimension replaced. torch.slice_scatter."""
    axis = axis_of(dim, input.ndim)
    if step < 1:
        raise ParameterError(f"slice step must be positive, not {step}", parameter="step")
    y = b.result(input.shape, input.dtype, "plain")
    b.copy(input, y)
    part = y.narrow(axis, *clip_slice(input.shape[axis], start, end, step))
    if part.shape != src.shape:
        raise ShapeError("src does not fit the range", expected=part.shape, actual=src.shape)
    b.copy(b.cast(src, input.dtype), part)
    return y


@operator("pnnx.SliceIndexes")
def slice_indexes(b: Builder, *values: Any, indexes: Any = ()) -> Value:
    """List of slice bounds; ``@n`` stands for the n-th input."""
    items = indexes.strip("[]()").split(",") if isinstance(indexes, str) else list(indexes)
    return [values[int(i[1:])] if isinstance(i, str) and i.startswith("@") else int(i) for i in items if i != ""]


# -- writes into views, found by the pass restore_writes --------------------------------------------------------


@operator("fused.Dense")
def dense(b: Builder, input: Tensor) -> Tensor:
    """The same values in C order, so that views of them are views in memory."""
    return b.contiguous(input)


@operator("fused.WriteView")
def write_view(b: Builder, input: Tensor, view: Tensor, src: Any) -> Tensor:
    """Copy of a dense tensor with a view of it replaced by ``src``. torch.Tensor.copy_ into a view."""
    if view.buffer is not input.buffer:
        raise ShapeError("what is written is not a view of the tensor", actual=list(view.shape))
    if src is None:
        raise ParameterError("the file does not tell what is written", parameter="src")
    y = b.result(input.shape, input.dtype, "plain")
    y = y if y.is_contiguous else b.empty(input.shape, input.dtype, "plain")
    b.copy(input, y)
    part = Tensor(y.buffer, view.shape, view.dtype, view.strides, y.offset + view.offset - input.offset)
    source = src if isinstance(src, Tensor) else b.constant(np.array(src))
    b.copy(b.cast(source, input.dtype).expand(part.shape), part)
    return y
