"""Linear algebra, distances and products of lists written with numpy, arguments in the order of TorchScript's schemas.

They know nothing of graphs or lowering; :mod:`pnnx_fast.ops.aten_numpy` makes operators of them.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from pnnx_fast._memory import check_numbers
from pnnx_fast._types import Array
from pnnx_fast.errors import ParameterError, ShapeError
from pnnx_fast.expression.types import element_type, promote
from pnnx_fast.ops.array_functions import as_summed, cast, real


def _require_vectors(what: str, *parts: Array) -> None:
    for part in parts:
        if part.ndim != 1:
            raise ShapeError(f"{what} takes vectors", actual=list(part.shape))


def dist(x: Array, y: Array, p: float = 2.0) -> Array:
    """p-norm of the difference."""
    return np.asarray(np.linalg.norm((x - y).reshape(-1), p), (x - y).real.dtype)


def cov(x: Array, correction: int = 1, fweights: Any = None, aweights: Any = None) -> Array:
    """Covariance of the rows, of which columns count so often (fweights) or so much (aweights)."""
    x = real(x)
    if x.ndim > 2:
        raise ShapeError("a covariance is one of rows", actual=list(x.shape))
    rows = np.atleast_2d(x.astype(np.complex128 if x.dtype.kind == "c" else np.float64))
    given = [np.asarray(w, np.float64) for w in (fweights, aweights) if w is not None]
    for w in given:
        if w.ndim > 1 or w.size != rows.shape[1] or w.min(initial=0) < 0:
            raise ShapeError("one weight, not negative, a column", expected=rows.shape[1], actual=list(w.shape))
    weight: Any = math.prod(given) if given else np.ones(rows.shape[1])
    kept = x.dtype if aweights is None else np.result_type(x, aweights)
    total = weight.sum()
    lost = correction if aweights is None or not correction else correction * (weight * aweights).sum() / total
    off = rows - (rows * weight).sum(1, keepdims=True) / total
    return np.asarray((off @ np.conj((off * weight).T) / np.maximum(total - lost, 0)).squeeze(), kept)


def corrcoef(x: Array) -> Array:
    """Correlation of the rows."""
    y = cov(x)
    if not y.ndim:
        return np.asarray(y / y)
    spread = np.sqrt(np.diagonal(y).real)
    y = y / spread[:, None] / spread
    if y.dtype.kind == "c":
        return np.asarray(np.clip(y.real, -1, 1) + 1j * np.clip(y.imag, -1, 1), y.dtype)
    return np.asarray(np.clip(y, -1, 1))


def require_finite(x: Array) -> Array:
    """Return matrices as they are; LAPACK would look for singular values of infinities for ever.

    Raises
    ------
    ValueError
        When a number is infinite or NaN, as PyTorch has it.
    """
    if not np.isfinite(x).all():
        raise ValueError("matrices that hold infinities or NaN have no singular values")
    return x


def _norm(x: Array, p: Any, axis: Any, keepdim: bool) -> Array:
    if p in (2, -2, "nuc") and not isinstance(axis, int) and x.ndim > 1:
        require_finite(x)
    return np.asarray(np.linalg.norm(x, p, axis, keepdim), x.real.dtype)


def norm(x: Array, p: Any = None, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Array:
    """Norm of vectors or matrices. torch.linalg.norm."""
    x = cast(x, dtype)
    if p is None and dim is None:
        flat = np.asarray(np.linalg.norm(x.reshape(-1)), x.real.dtype)
        return flat.reshape([1] * x.ndim) if keepdim else flat
    axis = None if dim is None else dim if isinstance(dim, int) else dim[0] if len(dim) == 1 else tuple(dim)
    return _norm(x, p, axis, keepdim)


def matrix_norm(x: Array, p: Any = "fro", dim: Any = (-2, -1), keepdim: bool = False, dtype: Any = None) -> Array:
    """Norm of matrices."""
    x = cast(x, dtype)
    return _norm(x, p, tuple(dim), keepdim)


def solve(a: Array, y: Array, left: bool = True) -> Array:
    """Solution of linear systems."""
    vector = y.ndim == 1 or (y.ndim == a.ndim - 1 and y.shape == a.shape[:-1])
    if vector:
        return np.linalg.solve(a, y[..., None])[..., 0]
    return np.linalg.solve(a, y) if left else np.swapaxes(solve(np.swapaxes(a, -1, -2), np.swapaxes(y, -1, -2)), -1, -2)


def solve_triangular(a: Array, y: Array, upper: bool, left: bool = True, unitriangular: bool = False) -> Array:
    """Solution of triangular systems by substitution; what lies beyond the triangle is not read."""
    if not left:
        turned = solve_triangular(np.swapaxes(a, -1, -2), np.swapaxes(y, -1, -2), not upper, True, unitriangular)
        return np.swapaxes(turned, -1, -2)
    n = a.shape[-1]
    x = np.array(np.broadcast_to(y, (*np.broadcast_shapes(a.shape[:-2], y.shape[:-2]), *y.shape[-2:])))
    for i in reversed(range(n)) if upper else range(n):
        known = slice(i + 1, n) if upper else slice(0, i)
        x[..., i, :] -= (a[..., i : i + 1, known] @ x[..., known, :])[..., 0, :]
        if not unitriangular:
            x[..., i, :] /= a[..., i, i, None]
    return x


def triangular_solve(
    y: Array, a: Array, upper: bool = True, transpose: bool = False, unitriangular: bool = False
) -> tuple[Array, Array]:
    """Solution of triangular systems in the older form, and the matrix."""
    turned = np.swapaxes(a, -1, -2) if transpose else a
    return solve_triangular(turned, y, upper != transpose, True, unitriangular), a


def conjugate_transpose(x: Array) -> Array:
    """Rows as columns, complex numbers conjugated."""
    return np.conj(x.T) if x.dtype.kind == "c" else x.T


def logdet(x: Array) -> Array:
    """Logarithm of the determinant, NaN where that is a negative real number."""
    sign, logarithm = np.linalg.slogdet(x)
    if x.dtype.kind == "c":
        return np.asarray(logarithm + np.log(sign), x.dtype)
    return np.where(sign < 0, np.asarray(np.nan, x.dtype), logarithm)


def linalg_vander(x: Array, n: int | None = None) -> Array:
    """Powers of the entries, from the zeroth on, as rows."""
    x = np.atleast_1d(x)
    count = x.shape[-1] if n is None else n
    check_numbers(x.size * count)
    return np.asarray(x[..., None] ** np.arange(count, dtype=np.int64), as_summed(x).dtype)


def norm_except_dim(x: Array, p: int = 2, dim: int = 0) -> Array:
    """Norms over all dimensions but one; over all for -1."""
    if dim == -1:
        return norm(x.reshape(-1), p)
    axes = tuple(d for d in range(x.ndim) if d != dim % x.ndim)
    return np.asarray((np.abs(x) ** p).sum(axes, keepdims=True) ** (1 / p), x.real.dtype)


def matrix_exp(x: Array) -> Array:
    """Exponential of square matrices: Taylor's series of a scaled matrix, squared again."""
    a = x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)
    size = np.abs(a).sum(-1).max(initial=0)
    halvings = max(int(np.ceil(np.log2(size))) + 1, 0) if size > 0 else 0
    a = a / 2.0**halvings
    y = term = np.broadcast_to(np.eye(x.shape[-1], dtype=a.dtype), a.shape)
    for k in range(1, 20):
        term = term @ a / k
        y = y + term
    for _ in range(halvings):
        y = y @ y
    return np.asarray(y, x.dtype)


def tensordot(x: Array, y: Array, dims_x: Sequence[int] | None, dims_y: Sequence[int] | None) -> Array:
    """Sum of products over listed dimensions."""
    dims_x, dims_y = dims_x or [], dims_y or []
    for i, k in zip(dims_x, dims_y, strict=True):
        # A dimension of size one stands for as many equal places as the other has.
        if x.shape[i] == 1:
            y = y.sum(k, keepdims=True, dtype=y.dtype)
        elif y.shape[k] == 1:
            x = x.sum(i, keepdims=True, dtype=x.dtype)
    return np.tensordot(x, y, (list(dims_x), list(dims_y)))


def vecdot(x: Array, y: Array, dim: int = -1) -> Array:
    """Dot products along a dimension, of complex vectors with the first one conjugated."""
    product = np.conj(x) * y
    if not -product.ndim <= dim < product.ndim:
        raise ShapeError("vecdot needs a dimension of the vectors", expected=product.ndim, actual=dim)
    return np.asarray(product.sum(dim), product.dtype)


def cartesian_prod(parts: Sequence[Array]) -> Array:
    """All combinations of one entry of each vector, as rows."""
    _require_vectors("cartesian_prod", *parts)
    if len(parts) == 1:
        return parts[0]
    check_numbers(len(parts) * math.prod(part.size for part in parts))
    return np.stack([g.reshape(-1) for g in np.meshgrid(*parts, indexing="ij")], -1)


def combinations(x: Array, r: int = 2, with_replacement: bool = False) -> Array:
    """All choices of r entries of a vector, as rows."""
    _require_vectors("combinations", x)
    if r < 0:
        raise ParameterError(f"r must not be negative, but is {r}", parameter="r")
    if not r:
        return x[:0]
    check_numbers(r * math.comb(x.size + (r - 1 if with_replacement else 0), r))
    choose = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    places = np.array(list(choose(range(x.size), r)), np.int64).reshape(-1, r)
    return x[places]


def block_diag(parts: Sequence[Array]) -> Array:
    """Matrices along a diagonal."""
    blocks = [np.atleast_2d(p) for p in parts]
    dtype = promote([element_type(p) for p in parts], True)
    y = np.zeros((sum(p.shape[0] for p in blocks), sum(p.shape[1] for p in blocks)), dtype)
    row = column = 0
    for p in blocks:
        y[row : row + p.shape[0], column : column + p.shape[1]] = p
        row, column = row + p.shape[0], column + p.shape[1]
    return y


def grouped_product(x: Array, y: Array, offsets: Array | None = None, bias: Any = None, dtype: Any = None) -> Array:
    """Products of matrices that lie behind each other: rows of x, columns of y, or what is summed, up to offsets."""
    if bias is not None:
        raise ParameterError("grouped products take no bias", parameter="bias")
    return cast(_grouped_product(x, y, offsets), dtype)


def _grouped_product(x: Array, y: Array, offsets: Array | None) -> Array:
    if offsets is None:
        return np.asarray(x @ y)
    ends = np.asarray(offsets, np.int64).tolist()
    parts = [slice(a, b) for a, b in zip([0, *ends], ends, strict=False)]
    if x.ndim == 2 and y.ndim == 2:
        return np.stack([x[:, part] @ y[part] for part in parts])
    rows = x.shape[-2]
    out = np.zeros((rows, y.shape[-1]), x.dtype)
    for i, part in enumerate(parts):
        if x.ndim == 2:
            out[part] = x[part] @ y[i]
        else:
            out[:, part] = x[i] @ y[:, part]
    return out
