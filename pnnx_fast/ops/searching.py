"""Places among sorted entries, and the most frequent entries: compiled for the usual types, numpy for others."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pnnx_fast.errors import ShapeError
from pnnx_fast.ops import array_functions as fn
from pnnx_fast.ops import order_functions as od
from pnnx_fast.ops.aten_numpy import numpy_step
from pnnx_fast.ops.index import named_along
from pnnx_fast.ops.ordering import TYPES, one_of_each
from pnnx_fast.ops.registry import operator
from pnnx_fast.ops.symbolic import Builder, Tensor, Value

_MODE = numpy_step(fn.on_lines(od.mode), False)


@operator("aten::mode")
def mode(b: Builder, input: Tensor, dim: int = -1, keepdim: bool = False) -> Value:
    """Smallest of the most frequent entries along a dimension, and its last place; NaN equals nothing. torch.mode."""
    fits = input.dtype.name in TYPES and input.ndim > 0
    return one_of_each(b, "mode", input, dim, keepdim) if fits else _MODE(b, input, dim, keepdim)


_SEARCH = numpy_step(fn.searchsorted, False)


@operator("aten::searchsorted")
def searchsorted(
    b: Builder,
    sorted_sequence: Tensor,
    values: Any,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Tensor | None = None,
) -> Value:
    """Places at which values would be inserted into sorted lines. torch.searchsorted."""
    edges, shape = sorted_sequence, sorted_sequence.shape
    if sorter is not None and sorter.shape != shape:
        raise ShapeError("the sorter has another shape than what it sorts", expected=shape, actual=sorter.shape)
    if not isinstance(values, Tensor) or {edges.dtype, values.dtype} != {np.dtype(np.float32)} or not edges.size:
        return _SEARCH(b, edges, values, out_int32, right, side, sorter)
    if len(shape) > 1 and shape[:-1] != values.shape[:-1]:
        raise ShapeError("edges and values have other lines", expected=shape, actual=values.shape)
    if sorter is not None:
        edges = named_along(b, edges, sorter, len(shape) - 1, temporary=True)
    y = b.result(values.shape, np.int32 if out_int32 else np.int64)
    n, lines = shape[-1], math.prod(shape[:-1])
    b.step(
        "search_f32", x=b.contiguous(values), edges=b.contiguous(edges), y=y, n=n, lines=lines, step=n,
        flops=2 * n.bit_length() * values.size, values=values.size // lines, right=int(right or side == "right"),
        narrow=int(bool(out_int32)),
    )  # fmt: skip
    return y


@operator("aten::bucketize")
def bucketize(b: Builder, input: Any, boundaries: Tensor, out_int32: bool = False, right: bool = False) -> Value:
    """Numbers of the buckets that values fall into. torch.bucketize."""
    return searchsorted(b, boundaries, input, out_int32, right)
