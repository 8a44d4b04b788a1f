"""Operators that order entries along a dimension: the largest ones, those of a rank, and complete sorts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from pnnx_fast._core.program import codes
from pnnx_fast.errors import ParameterError, ShapeError
from pnnx_fast.ops.registry import operator
from pnnx_fast.ops.shape import axis_of
from pnnx_fast.ops.symbolic import Builder, Results, Tensor, Value

TYPES = codes("dtype")
"""Codes of the types that kernels order."""


def _emit(
    b: Builder, kernel: str, x: Tensor, axis: int, values: Tensor | None, indices: Tensor | None, **given: Any
) -> None:
    """Emit a kernel about lines along an axis."""
    if x.dtype.name not in TYPES:
        raise ShapeError(f"elements of type {x.dtype} have no order", actual=x.dtype)
    if not x.size:
        return
    fields: dict[str, Any] = {"outer": math.prod(x.shape[:axis]), "inner": math.prod(x.shape[axis + 1 :])}
    fields |= {"n": x.shape[axis], "k": 0, "largest": 0, "sorted": 0, "variant": TYPES[x.dtype.name]} | given
    scratch = b.scratch(b.plan(kernel, **fields).scratch_bytes)
    work = (20 if kernel == "sort" else 2) * x.size
    b.step(kernel, x=b.contiguous(x), values=values, indices=indices, scratch=scratch, flops=work, **fields)


def _results(b: Builder, x: Tensor, shape: Sequence[int]) -> tuple[Tensor, Tensor]:
    return b.result(shape, x.dtype), b.result(shape, np.int64, index=1)


@operator("torch.topk", "Tensor.topk")
def topk(
    b: Builder, input: Tensor, *, k: int, dim: int | None = -1, largest: bool = True, sorted: bool = True
) -> Value:
    """Return the k largest or smallest entries and their places. torch.topk."""
    if input.ndim == 0:
        return Results((input, b.constant(np.zeros((), np.int64))))
    axis = axis_of(-1 if dim is None else dim, input.ndim)
    n = input.shape[axis]
    if not 0 <= k <= n:
        raise ParameterError(f"k must be between 0 and {n}, not {k}", parameter="k")
    shape = (*input.shape[:axis], k, *input.shape[axis + 1 :])
    values, indices = _results(b, input, shape)
    if k:
        _emit(b, "topk", input, axis, values, indices, k=k, largest=int(largest), sorted=int(sorted))
    return Results((values, indices))


def one_of_each(b: Builder, kernel: str, x: Tensor, dim: int, keepdim: bool, k: int = 0) -> Value:
    """One entry of each line, and its place."""
    if x.ndim == 0:
        return Results((x, b.constant(np.zeros((), np.int64))))
    axis = axis_of(dim, x.ndim)
    if x.shape[axis] == 0:
        raise ParameterError("the dimension is empty", parameter="dim")
    values, indices = _results(b, x, (*x.shape[:axis], *([1] if keepdim else []), *x.shape[axis + 1 :]))
    _emit(b, kernel, x, axis, values, indices, k=k)
    return Results((values, indices))


@operator("aten::kthvalue")
def kthvalue(b: Builder, input: Tensor, k: int, dim: int = -1, keepdim: bool = False) -> Value:
    """k-th smallest entry along a dimension and its place. torch.kthvalue."""
    n = input.shape[axis_of(dim, input.ndim)] if input.ndim else 1
    if not 1 <= k <= n:
        raise ParameterError(f"k must be between 1 and {n}, not {k}", parameter="k")
    return one_of_each(b, "kthvalue", input, dim, keepdim, k)


def _median(b: Builder, kernel: str, x: Tensor, dim: int | None, keepdim: bool) -> Value:
    if dim is not None:
        return one_of_each(b, kernel, x, dim, keepdim)
    if not x.size:
        if x.dtype.kind == "f":
            return b.constant(np.array(np.nan, x.dtype))
        raise ParameterError("the tensor is empty", parameter="dim")
    y = b.result((), x.dtype)
    _emit(b, kernel, b.reshape(x, (x.size,)), 0, y, None)
    return y


@operator("aten::median")
def median(b: Builder, input: Tensor, dim: int | None = None, keepdim: bool = False) -> Value:
    """Lower median, the first NaN if there is one, and its place. torch.median."""
    return _median(b, "median", input, dim, keepdim)


@operator("aten::nanmedian")
def nanmedian(b: Builder, input: Tensor, dim: int | None = None, keepdim: bool = False) -> Value:
    """Lower median of the entries that are numbers, and its place. torch.nanmedian."""
    return _median(b, "nanmedian", input, dim, keepdim)


@operator("torch.sort", "Tensor.sort")
def sort(b: Builder, input: Tensor, *, dim: int = -1, descending: bool = False, stable: bool | None = None) -> Value:
    """Stably sorted entries, NaN last, and the places they had. torch.sort."""
    if input.ndim == 0:
        return Results((input, b.constant(np.zeros((), np.int64))))
    values, indices = _results(b, input, input.shape)
    _emit(b, "sort", input, axis_of(dim, input.ndim), values, indices, largest=int(descending))
    return Results((values, indices))


@operator("torch.argsort", "Tensor.argsort")
def argsort(b: Builder, input: Tensor, *, dim: int = -1, descending: bool = False, stable: bool = False) -> Tensor:
    """Places that sort the entries. torch.argsort."""
    if input.ndim == 0:
        return b.constant(np.zeros((), np.int64))
    indices = b.result(input.shape, np.int64)
    _emit(b, "sort", input, axis_of(dim, input.ndim), None, indices, largest=int(descending))
    return indices


@operator("aten::msort")
def msort(b: Builder, input: Tensor) -> Tensor:
    """Entries sorted along the first dimension. torch.msort."""
    if input.ndim == 0:
        return input
    values = b.result(input.shape, input.dtype)
    _emit(b, "sort", input, 0, values, None)
    return values
