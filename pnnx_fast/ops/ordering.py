"""Operators that order entries along a dimension: the largest ones, and complete sorts."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pnnx_fast._types import Array
from pnnx_fast.errors import ParameterError
from pnnx_fast.ops.registry import operator
from pnnx_fast.ops.shape import axis_of
from pnnx_fast.ops.symbolic import Builder, Results, Tensor, Value


def order_along(x: Array, axis: int, descending: bool) -> Array:
    """Places that sort stably, NaN counting as the largest."""
    if not descending:
        return np.argsort(x, axis, kind="stable")
    backwards = np.argsort(np.flip(x, axis), axis, kind="stable")
    return np.asarray(x.shape[axis] - 1 - np.flip(backwards, axis))


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
    if input.dtype == np.float16 or (input.dtype.kind in "iu" and input.dtype.itemsize < 4):  # floats hold these
        given = b.cast(input, np.float32)
        found = topk(b, given, k=k, dim=axis, largest=largest, sorted=sorted)
        return Results((b.cast(found[0], input.dtype), found[1]))
    if input.dtype != np.float32:

        def run(x: Array) -> tuple[Array, Array]:
            index = np.take(order_along(x, axis, largest), range(k), axis)
            return np.take_along_axis(x, index, axis), index

        return Results(b.host(run, [input], [(shape, input.dtype), (shape, np.int64)]))
    values, indices = b.result(shape, np.float32), b.result(shape, np.int64, index=1)
    fields: dict[str, Any] = {"outer": math.prod(shape[:axis]), "n": n, "inner": math.prod(shape[axis + 1 :]), "k": k}
    # Few out of many are selected by a heap in PyTorch, which sorts them in any case.
    fields |= {"largest": int(largest), "sorted": int(sorted or k * 64 <= n), "variant": -1}
    scratch = b.scratch(b.plan("topk_f32", **fields).scratch_bytes)
    b.step("topk_f32", x=b.contiguous(input), values=values, indices=indices, scratch=scratch, **fields)
    return Results((values, indices))


@operator("torch.sort", "Tensor.sort", native=False)
def sort(b: Builder, input: Tensor, *, dim: int = -1, descending: bool = False, stable: bool | None = None) -> Value:
    """Sorted entries and the places they had. torch.sort."""
    axis = axis_of(dim, input.ndim)

    def run(x: Array) -> tuple[Array, Array]:
        if x.ndim == 0:
            return x, np.zeros((), np.int64)
        index = order_along(x, axis, descending)
        return np.take_along_axis(x, index, axis), index

    return Results(b.host(run, [input], [(input.shape, input.dtype), (input.shape, np.int64)]))


@operator("torch.argsort", "Tensor.argsort", native=False)
def argsort(b: Builder, input: Tensor, *, dim: int = -1, descending: bool = False, stable: bool = False) -> Tensor:
    """Places that sort the entries. torch.argsort."""
    axis = axis_of(dim, input.ndim)

    def run(x: Array) -> Array:
        return order_along(x, axis, descending) if x.ndim else np.zeros((), np.int64)

    return b.host(run, [input], [(input.shape, np.int64)])[0]
