"""Entries that indices name, written, reduced, added or taken: numpy functions in the order of TorchScript's schemas.

They know nothing of graphs or lowering; :mod:`pnnx_fast.ops.aten_numpy` makes operators of them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pnnx_fast._types import Array
from pnnx_fast.errors import ParameterError, ShapeError
from pnnx_fast.ops.array_functions import check, places, reduce_at


def scatter(x: Array, dim: int, index: Array, src: Any, reduce: str | None = None) -> Array:
    """Copy with entries written, added or multiplied at named places."""
    y = x.copy()
    if not index.size:
        return y
    where = places(x, dim % x.ndim, index)
    values = src[tuple(slice(n) for n in index.shape)] if getattr(src, "ndim", 0) else src
    if reduce is None:
        y[where] = values
    else:
        reduce_at({"add": np.add, "multiply": np.multiply}[reduce], y, where, np.asarray(values, y.dtype))
    return y


def scatter_reduce(x: Array, dim: int, index: Array, src: Array, reduce: str, include_self: bool = True) -> Array:
    """Copy with entries reduced into named places."""
    if not x.ndim:
        return scatter_reduce(x.reshape(1), 0, index.reshape(-1), src.reshape(-1), reduce, include_self).reshape(())
    functions = {"sum": np.add, "prod": np.multiply, "amax": np.maximum, "amin": np.minimum, "mean": np.add}
    neutral = {"sum": 0, "prod": 1, "mean": 0}
    y, where = x.copy(), places(x, dim % x.ndim, index)
    values = src[tuple(slice(n) for n in index.shape)]
    if not include_self:
        least, most = (-np.inf, np.inf) if x.dtype.kind == "f" else (np.iinfo(x.dtype).min, np.iinfo(x.dtype).max)
        y[where] = neutral.get(reduce, least if reduce == "amax" else most)
    reduce_at(functions[reduce], y, where, values)
    if reduce == "mean":
        count = np.full(x.shape, int(include_self), np.int64)
        reduce_at(np.add, count, where, 1)
        count = np.maximum(count, 1)
        y = y / count.astype(x.dtype) if x.dtype.kind == "f" else (y // count).astype(x.dtype)
    return y


def diagonal_scatter(x: Array, src: Array, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Array:
    """Copy with the diagonals of two dimensions replaced."""
    y = x.copy()
    view = np.moveaxis(y, (dim1, dim2), (-2, -1))
    shape = np.diagonal(y, offset, dim1, dim2).shape
    if src.shape != shape:
        raise ShapeError("the diagonals do not fit", operand="src", expected=shape, actual=src.shape)
    i = np.arange(shape[-1])
    view[..., i + max(-offset, 0), i + max(offset, 0)] = src
    return y


def as_strided_scatter(x: Array, src: Array, size: Any, stride: Any, offset: Any = None) -> Array:
    """Copy with the elements that sizes and strides name replaced."""
    y = x.copy().reshape(-1)
    steps = [np.arange(n).reshape(-1, *[1] * (len(size) - d - 1)) for d, n in enumerate(size)]
    places = sum((i * s for i, s in zip(steps, stride, strict=True)), np.zeros(tuple(size), np.int64) + (offset or 0))
    check(places, y.size)
    y[places] = src
    return y.reshape(x.shape)


def put(x: Array, index: Array, src: Array, accumulate: bool = False) -> Array:
    """Copy with elements of the flat array written or added."""
    y = x.copy().reshape(-1)
    check(index, y.size)
    index, src = index.reshape(-1), src.reshape(-1)
    if accumulate:
        reduce_at(np.add, y, index, src)
    else:
        y[index] = src
    return y.reshape(x.shape)


def masked_scatter(x: Array, mask: Array, source: Array) -> Array:
    """Copy with entries where a mask holds taken from a source, in order."""
    y = np.broadcast_to(x, np.broadcast_shapes(x.shape, mask.shape)).copy()
    mask = np.broadcast_to(mask, y.shape)
    y[mask] = source.reshape(-1)[: np.count_nonzero(mask)]
    return y


_SEGMENTS: dict[str, tuple[np.ufunc, float]] = {
    "sum": (np.add, 0.0), "mean": (np.add, 0.0), "max": (np.maximum, -np.inf), "min": (np.minimum, np.inf),
    "prod": (np.multiply, 1.0),
}  # fmt: skip
"""How segments are reduced, and what of nothing is."""


def segment_reduce(
    data: Array,
    reduce: str,
    lengths: Any = None,
    indices: Any = None,
    offsets: Any = None,
    axis: int = 0,
    unsafe: bool = False,
    initial: float | None = None,
) -> Array:
    """Reductions of segments that follow each other along an axis. torch.segment_reduce."""
    if reduce not in _SEGMENTS:
        raise ParameterError(f"segments are reduced by {', '.join(_SEGMENTS)}, not {reduce!r}", parameter="reduce")
    if indices is not None or (lengths is None) == (offsets is None):
        raise ParameterError("segments have lengths or offsets", parameter="lengths")
    join, start = _SEGMENTS[reduce]
    axis += data.ndim if axis < 0 else 0
    lead, size = data.shape[:axis], data.shape[axis]
    ends = np.cumsum(lengths, -1) if offsets is None else offsets[..., 1:]
    begins = ends - lengths if offsets is None else offsets[..., :-1]
    if ends.shape[:-1] != lead or ends.ndim != axis + 1:
        raise ShapeError("segments have other leading sizes than what they are of", expected=lead, actual=ends.shape)
    inside = (begins >= 0).all() and (ends >= begins).all() and (ends <= size).all()
    # Lengths of zero are also those of a trial.
    if not inside or (offsets is None and not unsafe and lengths.any() and (lengths.sum(-1) != size).any()):
        raise ShapeError("segments do not divide an axis", expected=size, actual=ends[..., -1:].tolist())
    y = np.empty((*ends.shape, *data.shape[axis + 1 :]), data.dtype)
    for at in np.ndindex(ends.shape):
        begin, end = int(begins[at]), int(ends[at])
        of = join.reduce(data[at[:-1]][begin:end], 0, initial=start if initial is None else initial)
        mean = reduce == "mean" and (end > begin or initial is None)
        y[at] = of / (end - begin) if mean else of
    return y
