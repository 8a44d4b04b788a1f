"""Small linear algebra that needs no hot kernel: cross products, diagonals, distances."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pnnx_fast.errors import ShapeError
from pnnx_fast.ops._checks import common_shape
from pnnx_fast.ops._dtype import in_single
from pnnx_fast.ops.elementwise import lower_expression
from pnnx_fast.ops.index import take
from pnnx_fast.ops.linear import product
from pnnx_fast.ops.reduction import emit_reduce, norm
from pnnx_fast.ops.registry import operator
from pnnx_fast.ops.shape import axis_of, cat
from pnnx_fast.ops.symbolic import Builder, Tensor


@operator("torch.cross", "torch.linalg.cross")
def cross(b: Builder, input: Tensor, other: Tensor, *, dim: int | None = None) -> Tensor:
    """Cross product of vectors of three. torch.cross."""
    shape = common_shape(input.shape, other.shape)
    axis = axis_of(dim, len(shape)) if dim is not None else next((i for i, n in enumerate(shape) if n == 3), -1)
    if axis < 0 or shape[axis] != 3:
        raise ShapeError("cross needs a dimension of size 3", actual=shape)

    left, right = (x.expand(shape) for x in (input, other))

    def part(i: int) -> Tensor:
        after, behind = (i + 1) % 3, (i + 2) % 3
        factors = [left.select(axis, after), right.select(axis, behind), left.select(axis, behind)]
        text = "sub(mul(@0,@1),mul(@2,@3))"
        value: Tensor = lower_expression(b, text, [*factors, right.select(axis, after)], temporary=True)
        return value.unsqueeze(axis)

    return cat(b, *map(part, range(3)), dim=axis)


@operator("torch.diag")
def diag(b: Builder, input: Tensor, *, diagonal: int = 0) -> Tensor:
    """Diagonal of a matrix (a view), or a matrix with a given diagonal. torch.diag."""
    if input.ndim == 2:
        rows, columns = input.shape
        length = max(min(rows, columns - diagonal) if diagonal >= 0 else min(rows + diagonal, columns), 0)
        start = diagonal * input.strides[1] if diagonal >= 0 else -diagonal * input.strides[0]
        return input.as_strided((length,), (sum(input.strides),), start if length else 0)
    if input.ndim != 1:
        raise ShapeError("diag takes a vector or a matrix", actual=input.shape)
    n = input.shape[0] + abs(diagonal)
    y = b.result((n, n), input.dtype)
    b.copy(b.constant(np.zeros(1, input.dtype)).as_strided((n, n), (0, 0)), y)
    start = diagonal if diagonal >= 0 else -diagonal * n
    b.copy(input, y.as_strided(input.shape, (n + 1,), start))
    return y


@operator("F.pairwise_distance", "nn.PairwiseDistance")
def pairwise_distance(
    b: Builder, x1: Tensor, x2: Tensor, *, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False
) -> Tensor:
    """Distance between corresponding vectors. torch.nn.functional.pairwise_distance."""
    moved = lower_expression(b, f"add(sub(@0,@1),{float(eps)!r})", [x1, x2], temporary=True)
    assert isinstance(moved, Tensor)
    return norm(b, moved, p=p, dim=[-1], keepdim=keepdim)


SHORT_ROW = 32
"""Rows of so many entries and less are compared entry by entry."""

BY_PRODUCTS, BY_DIFFERENCES, FEW_ROWS = 1, 2, 25
"""PyTorch's numbers for the two ways to distances of rows, and up to how many rows it takes the second one unasked."""


def _euclidean(b: Builder, x1: Tensor, x2: Tensor) -> Tensor:
    """Roots of |x|² + |y|² - 2xy, which rounding may leave below zero."""
    squares = [emit_reduce(b, x, [x.ndim - 1], True, "squares", temporary=True) for x in (x1, x2)]
    turned = [*range(x2.ndim - 2), x2.ndim - 1, x2.ndim - 2]
    products = product(b, x1, x2.permute(turned))
    text = "sqrt(maximum(add(sub(@0,mul(2,@2)),@1),0))"
    far: Tensor = lower_expression(b, text, [squares[0], squares[1].permute(turned), products])
    return far


@operator("aten::cdist")
@in_single
def cdist(b: Builder, x1: Tensor, x2: Tensor, p: float = 2.0, mode: Any = None) -> Tensor:
    """Distances between all pairs of rows; Euclidean ones of more than a few rows by products. torch.cdist."""
    if x1.ndim < 2 or x2.ndim < 2 or x1.shape[-1] != x2.shape[-1]:
        raise ShapeError("cdist takes rows of one length", operand="x2", expected=x1.shape, actual=x2.shape)
    if x1.dtype.kind != "f" or x2.dtype.kind != "f":
        raise ShapeError("cdist takes floats", actual=(x1.dtype.name, x2.dtype.name))
    shape = (*common_shape(x1.shape[:-2], x2.shape[:-2]), x1.shape[-2], x2.shape[-2])
    if not x1.shape[-1] or not math.prod(shape):
        return b.constant(np.zeros((), x1.dtype)).expand(shape)
    if p == 2 and (mode == BY_PRODUCTS or (mode != BY_DIFFERENCES and max(shape[-2:]) > FEW_ROWS)):
        return _euclidean(b, x1, x2)
    first, second, axis = x1.unsqueeze(x1.ndim - 1), x2.unsqueeze(x2.ndim - 2), -1
    if x1.shape[-1] <= SHORT_ROW:
        # (…, k, n, 1) and (…, k, 1, m): a vector holds one entry of many pairs.
        columns = [x.permute([*range(x.ndim - 2), x.ndim - 1, x.ndim - 2]) for x in (x1, x2)]
        first, second, axis = columns[0].unsqueeze(x1.ndim), b.contiguous(columns[1]).unsqueeze(x2.ndim - 1), -3
    # Entries that differ are counted by numbers, of which NaN stays what it is.
    text = "minimum(ceil(abs(sub(@0,@1))),1)" if p == 0 else "sub(@0,@1)"
    gaps = lower_expression(b, text, [first, second], temporary=True)
    assert isinstance(gaps, Tensor)
    return norm(b, gaps, p=p or 1.0, dim=[axis])


@operator("aten::pdist")
def pdist(b: Builder, input: Tensor, p: float = 2.0) -> Tensor:
    """Distances between the pairs of different rows. torch.nn.functional.pdist."""
    if input.ndim != 2:
        raise ShapeError("pdist takes a matrix", actual=input.shape)
    rows = input.shape[0]
    if rows < 2:
        return b.constant(np.empty(0, input.dtype))
    far = b.reshape(cdist(b, input, input, p, BY_DIFFERENCES), (rows * rows,))
    first, second = np.triu_indices(rows, 1)
    return take(b, far, b.constant(first * rows + second), 0)
