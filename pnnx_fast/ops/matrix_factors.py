"""Factorizations of matrices and what is solved with them, arguments in the order of TorchScript's schemas.

They are numpy's where it has them, which asks a LAPACK like PyTorch; signs of singular vectors and eigenvectors are
free, and builds of either differ in them. The LU factorization and products of reflections are written out.
:mod:`pnnx_fast.ops.aten_numpy` makes operators of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from pnnx_fast._memory import check_numbers
from pnnx_fast._types import Array
from pnnx_fast.errors import ShapeError
from pnnx_fast.ops.matrix_functions import require_finite, solve, solve_triangular

__all__ = ["FACTORS", "pinv", "tensorsolve"]


def _turned(x: Array) -> Array:
    """The conjugate transposes of matrices."""
    return np.conj(np.swapaxes(x, -1, -2))


def _squares(x: Array, *sizes: int) -> None:
    """Refuse square matrices of these sizes, as many as there are in x, that no memory holds."""
    check_numbers(math.prod(x.shape[:-2]) * sum(n * n for n in sizes))


def _info(x: Array) -> Array:
    """Zero for every matrix: no complaint."""
    return np.zeros(x.shape[:-2], np.int32)


# -- singular values ---------------------------------------------------------------------------------------------


def linalg_svd(x: Array, full: bool = True, driver: Any = None) -> tuple[Array, Array, Array]:
    """Singular value decomposition. torch.linalg.svd."""
    _squares(x, *(x.shape[-2:] if full else ()))
    u, s, v = np.linalg.svd(require_finite(x), full)
    return u, s, v


def svd(x: Array, some: bool = True, vectors: bool = True) -> tuple[Array, Array, Array]:
    """Singular value decomposition in the older form: the last matrix is not transposed. torch.svd."""
    if not (some and vectors):
        _squares(x, *x.shape[-2:])
    if not vectors:
        m, n = x.shape[-2:]
        u, v = (np.zeros((*x.shape[:-2], k, k), x.dtype) for k in (m, n))
        return u, svdvals(x), v
    u, s, turned = np.linalg.svd(require_finite(x), not some)
    return u, s, _turned(turned)


def svdvals(x: Array, driver: Any = None) -> Array:
    """Singular values. torch.linalg.svdvals."""
    return np.asarray(np.linalg.svd(require_finite(x), compute_uv=False))


def _spectrum(x: Array, hermitian: bool) -> Array:
    """Sizes of singular values; of eigenvalues where a matrix is its own transpose, of which one triangle is read."""
    return np.abs(np.linalg.eigvalsh(x)) if hermitian else svdvals(x)


def _limit(x: Array, values: Array, atol: Any, rtol: Any) -> Array:
    """What counts as zero among singular values."""
    if rtol is None:
        small = np.finfo(x.dtype).eps * max(x.shape[-2:], default=0)
        rtol = small if atol is None else np.where(np.asarray(atol) > 0, 0.0, small)
    limit = values.max(-1, initial=0) * np.asarray(rtol)
    return np.asarray(limit if atol is None else np.maximum(limit, np.asarray(atol)))[..., None]


def matrix_rank(x: Array, *rest: Any) -> Array:
    """Number of singular values that are not small. torch.linalg.matrix_rank."""
    atol, rtol, hermitian = (*rest, None, None, False)[:3]
    if len(rest) in (1, 2):
        atol, rtol, hermitian = rest[0], 0.0, rest[-1] if len(rest) == 2 else False
    values = _spectrum(x, bool(hermitian))
    return np.asarray((values > _limit(x, values, atol, rtol)).sum(-1), np.int64)


def pinv(x: Array, *rest: Any) -> Array:
    """Pseudo-inverse: by one limit, or by an absolute and a relative one. torch.linalg.pinv."""
    atol, rtol, hermitian = (*rest, None, None, False)[:3]
    if len(rest) in (1, 2):
        atol, rtol, hermitian = None, rest[0], rest[-1] if len(rest) == 2 else False
    if hermitian:
        # Only the lower triangle counts.
        lower = np.tril(x)
        x = lower + _turned(np.tril(x, -1))
    u, s, v = np.linalg.svd(require_finite(x), False)
    known = s > _limit(x, s, atol, rtol)
    inverse = np.where(known, 1 / np.where(known, s, 1), 0).astype(s.dtype)
    return np.asarray(_turned(v) * inverse[..., None, :] @ _turned(u), x.dtype)


def cond(x: Array, p: Any = None) -> Array:
    """Condition number. torch.linalg.cond."""
    if x.size == 0:
        return np.zeros(x.shape[:-2], x.real.dtype)
    return np.asarray(np.linalg.cond(require_finite(x), p), x.real.dtype)


def nuclear_norm(x: Array, *rest: Any) -> Array:
    """Sum of singular values of matrices: of the last two dimensions, or of listed ones. torch.nuclear_norm."""
    given = rest if rest and not isinstance(rest[0], bool) else ([-2, -1], *rest)
    return np.asarray(np.linalg.norm(require_finite(x), "nuc", tuple(given[0]), bool((*given, False)[1])), x.real.dtype)


def lstsq(x: Array, y: Array, rcond: Any = None, driver: Any = None) -> tuple[Array, Array, Array, Array]:
    """Least squares: solution, residuals, rank, singular values; the driver tells which of these are not empty."""
    m, n = x.shape[-2:]
    vector = y.ndim == 1 or y.shape == x.shape[:-1]
    right = y[..., None] if vector else y
    lead = np.broadcast_shapes(x.shape[:-2], right.shape[:-2])
    inverse = pinv(x, None, rcond, False)
    solution = np.asarray(inverse @ np.broadcast_to(right, (*lead, *right.shape[-2:])), x.dtype)
    found = solution[..., 0] if vector else solution
    rank = np.zeros(0, np.int64) if driver == "gels" else matrix_rank(x, None, rcond, False)
    left = (np.abs(right - x @ solution) ** 2).sum(-2) if m > n and driver not in (None, "gelsy") else np.zeros(0)
    values = svdvals(x) if driver in ("gelsd", "gelss") else np.zeros(0, x.real.dtype)
    return found, np.asarray(left, x.real.dtype), rank, values


# -- eigenvalues -------------------------------------------------------------------------------------------------


def eigh(x: Array, triangle: Literal["L", "U"] = "L") -> tuple[Array, Array]:
    """Eigenvalues and vectors of symmetric matrices. torch.linalg.eigh."""
    values, vectors = np.linalg.eigh(x, triangle)
    return values, vectors


def eigvalsh(x: Array, triangle: Literal["L", "U"] = "L") -> Array:
    """Eigenvalues of symmetric matrices. torch.linalg.eigvalsh."""
    return np.asarray(np.linalg.eigvalsh(x, triangle))


def _complex(x: Array, like: Array) -> Array:
    return np.asarray(x, np.result_type(like, np.complex64))


def eig(x: Array) -> tuple[Array, Array]:
    """Eigenvalues and vectors, complex ones. torch.linalg.eig."""
    values, vectors = np.linalg.eig(x)
    return _complex(values, x), _complex(vectors, x)


def eigvals(x: Array) -> Array:
    """Eigenvalues, complex ones. torch.linalg.eigvals."""
    return _complex(np.linalg.eigvals(x), x)


# -- orthogonal factors ------------------------------------------------------------------------------------------


def linalg_qr(x: Array, mode: str = "reduced") -> tuple[Array, Array]:
    """Orthogonal and triangular factor. torch.linalg.qr."""
    if mode == "r":
        return np.zeros(0, x.dtype), np.asarray(np.linalg.qr(x, "r"))
    _squares(x, *(x.shape[-2:-1] if mode == "complete" else ()))
    q, r = np.linalg.qr(x, "complete" if mode == "complete" else "reduced")
    return q, r


def qr(x: Array, some: bool = True) -> tuple[Array, Array]:
    """Orthogonal and triangular factor in the older form. torch.qr."""
    return linalg_qr(x, "reduced" if some else "complete")


def geqrf(x: Array) -> tuple[Array, Array]:
    """The factors as LAPACK holds them: reflections below a triangle, and their sizes. torch.geqrf."""
    held, sizes = np.linalg.qr(x, "raw")
    return np.swapaxes(held, -1, -2), sizes


def ormqr(x: Array, sizes: Array, y: Array, left: bool = True, transpose: bool = False) -> Array:
    """Matrices times a product of reflections. torch.ormqr."""
    if not left:
        return _turned(ormqr(x, sizes, _turned(y), True, not transpose))
    result = np.array(y)
    count = sizes.shape[-1]
    for i in range(count) if transpose else reversed(range(count)):
        v = np.tril(x, 0)[..., i].copy()
        v[..., :i], v[..., i] = 0, 1
        size = sizes[..., i, None, None]
        size = np.conj(size) if transpose else size
        result -= (size * v[..., :, None]) * (np.conj(v)[..., None, :] @ result)
    return result


def householder_product(x: Array, sizes: Array) -> Array:
    """First columns of a product of reflections. torch.linalg.householder_product."""
    unit = np.broadcast_to(np.eye(*x.shape[-2:], dtype=x.dtype), x.shape)
    return ormqr(x, sizes, unit)


# -- triangular factors ------------------------------------------------------------------------------------------


def cholesky(x: Array, upper: bool = False) -> Array:
    """Triangular factor of symmetric matrices; one triangle is read. torch.linalg.cholesky."""
    lower = np.linalg.cholesky(_turned(x) if upper else x)
    return _turned(lower) if upper else lower


def _leading(x: Array) -> int:
    """Order of the first leading part of a matrix that is not positive, 0 where all are."""
    for n in range(1, len(x) + 1):
        try:
            np.linalg.cholesky(x[:n, :n])
        except np.linalg.LinAlgError:
            return n
    return 0


def cholesky_ex(x: Array, upper: bool = False, check: bool = False) -> tuple[Array, Array]:
    """Triangular factor, and the order of the part of a matrix that has none. torch.linalg.cholesky_ex."""
    try:
        return cholesky(x, upper), _info(x)
    except np.linalg.LinAlgError:
        if check:
            raise
    y, info = np.zeros_like(x), _info(x)
    for place in np.ndindex(info.shape):
        info[place] = bad = _leading(_turned(x[place]) if upper else x[place])
        known = x.shape[-1] if bad == 0 else bad - 1
        y[place][:known, :known] = cholesky(x[place][:known, :known], upper)
    return y, info


def cholesky_solve(y: Array, factor: Array, upper: bool = False) -> Array:
    """Solution of systems whose triangular factor is given. torch.cholesky_solve."""
    lower = _turned(factor) if upper else factor
    return solve_triangular(_turned(lower), solve_triangular(lower, y, False), True)


def cholesky_inverse(factor: Array, upper: bool = False) -> Array:
    """Inverse of matrices whose triangular factor is given. torch.cholesky_inverse."""
    return cholesky_solve(np.broadcast_to(np.eye(factor.shape[-1], dtype=factor.dtype), factor.shape), factor, upper)


def _size(x: Array) -> Array:
    """How large numbers are, as LAPACK compares complex ones."""
    return np.abs(x.real) + np.abs(x.imag) if x.dtype.kind == "c" else np.abs(x)


def lu_factor(x: Array, pivot: bool = True, check: bool = False) -> tuple[Array, Array, Array]:
    """Triangular factors in one matrix, rows that were exchanged (counted from 1), where a pivot was zero."""
    y = np.array(x)
    m, n = y.shape[-2:]
    count = min(m, n)
    lead = y.reshape(math.prod(x.shape[:-2]), m, n)
    rows = np.broadcast_to(np.arange(1, count + 1, dtype=np.int32), (len(lead), count)).copy()
    info = np.zeros(len(lead), np.int32)
    every = np.arange(len(lead))
    for k in range(count):
        if pivot:
            best = k + _size(lead[:, k:, k]).argmax(1)
            rows[:, k] = best + 1
            held = lead[every, best].copy()
            lead[every, best] = lead[:, k]
            lead[:, k] = held
        top = lead[:, k, k]
        info[(top == 0) & (info == 0)] = k + 1
        lead[:, k + 1 :, k] = np.where(top[:, None] == 0, lead[:, k + 1 :, k], lead[:, k + 1 :, k] / top[:, None])
        lead[:, k + 1 :, k + 1 :] -= lead[:, k + 1 :, k, None] * lead[:, k, None, k + 1 :]
    return lead.reshape(y.shape), rows.reshape(*x.shape[:-2], count), info.reshape(x.shape[:-2])


def _order(rows: Array, m: int) -> Array:
    """The row of the matrix that each row of its factors stands for, after exchanges (counted from 1)."""
    order = np.broadcast_to(np.arange(m), (*rows.shape[:-1], m)).copy()
    if not rows.any():
        return order  # no factorization at all, but the trial run that tells shapes
    if rows.min() < 1 or rows.max() > m:
        raise ShapeError("a pivot is no row", expected=f"[1, {m}]", actual=[int(rows.min()), int(rows.max())])
    for place in np.ndindex(rows.shape[:-1]):
        line = order[place]
        for k, other in enumerate(rows[place].tolist()):
            line[k], line[other - 1] = line[other - 1], line[k]
    return order


def lu_unpack(held: Array, rows: Array, data: bool = True, pivots: bool = True) -> tuple[Array, Array, Array]:
    """Permutation, lower and upper factor; empty ones where they are not wanted. torch.lu_unpack."""
    m, n = held.shape[-2:]
    count = min(m, n)
    _squares(held, m)
    none = np.zeros(0, held.dtype)
    places = np.eye(m, dtype=held.dtype)[_order(rows, m)] if pivots else none
    lower = np.tril(held[..., :count], -1) + np.eye(m, count, dtype=held.dtype) if data else none
    upper = np.triu(held[..., :count, :]) if data else none
    return np.swapaxes(places, -1, -2) if pivots else none, lower, upper


def linalg_lu(x: Array, pivot: bool = True) -> tuple[Array, Array, Array]:
    """Permutation, lower and upper factor. torch.linalg.lu."""
    held, rows, _ = lu_factor(x, pivot)
    places, lower, upper = lu_unpack(held, rows)
    return (places if pivot else np.zeros(0, x.dtype)), lower, upper


def linalg_lu_solve(held: Array, rows: Array, y: Array, left: bool = True, adjoint: bool = False) -> Array:
    """Solution of systems whose triangular factors are given. torch.linalg.lu_solve."""
    if not left:
        return _turned(linalg_lu_solve(held, rows, _turned(y), True, not adjoint))
    lead = np.broadcast_shapes(held.shape[:-2], y.shape[:-2])
    right = np.broadcast_to(y, (*lead, *y.shape[-2:]))
    order = np.broadcast_to(_order(rows, held.shape[-1]), (*lead, held.shape[-1]))[..., None]
    if adjoint:
        back = solve_triangular(_turned(held), right, False)
        back = solve_triangular(_turned(held), back, True, True, True)
        return np.take_along_axis(back, np.argsort(order, -2), -2)
    return solve_triangular(held, solve_triangular(held, np.take_along_axis(right, order, -2), False, True, True), True)


def solve_ex(x: Array, y: Array, left: bool = True, check: bool = False) -> tuple[Array, Array]:
    """Solution of linear systems, and zeros: those without one are refused. torch.linalg.solve_ex."""
    return solve(x, y, left), _info(x)


def inv_ex(x: Array, check: bool = False) -> tuple[Array, Array]:
    """Inverse matrices, NaN for those that have none, and which pivot of these was zero. torch.linalg.inv_ex."""
    try:
        return np.linalg.inv(x), _info(x)
    except np.linalg.LinAlgError:
        if check:
            raise
    info = lu_factor(x)[2]
    eye = np.eye(x.shape[-1], dtype=x.dtype)
    y = np.linalg.inv(np.where(info[..., None, None] != 0, eye, x))
    return np.where(info[..., None, None] != 0, np.nan, y).astype(x.dtype), info


def tensorsolve(x: Array, y: Array, dims: Any = None) -> Array:
    """Solution of a system of tensors. torch.linalg.tensorsolve."""
    return np.asarray(np.linalg.tensorsolve(x, y, None if dims is None else tuple(dims)))


def _without_info(x: Array, pivot: bool = True) -> tuple[Array, Array]:
    """Triangular factors in one matrix, and rows that were exchanged. torch.linalg.lu_factor."""
    return lu_factor(x, pivot)[:2]


def _older(y: Array, held: Array, rows: Array) -> Array:
    """Solution of systems whose triangular factors are given. torch.lu_solve."""
    return linalg_lu_solve(held, rows, y)


FACTORS: dict[str, Callable[..., Any]] = {
    "_lu_with_info": lu_factor, "cholesky": cholesky, "cholesky_inverse": cholesky_inverse,
    "cholesky_solve": cholesky_solve, "geqrf": geqrf, "linalg_cholesky": cholesky,
    "linalg_cholesky_ex": cholesky_ex, "linalg_cond": cond, "linalg_eig": eig, "linalg_eigh": eigh,
    "linalg_eigvals": eigvals, "linalg_eigvalsh": eigvalsh, "linalg_householder_product": householder_product,
    "linalg_inv_ex": inv_ex, "linalg_lstsq": lstsq, "linalg_lu": linalg_lu,
    "linalg_lu_factor": _without_info, "linalg_lu_factor_ex": lu_factor, "linalg_lu_solve": linalg_lu_solve,
    "linalg_matrix_rank": matrix_rank, "linalg_pinv": pinv, "linalg_qr": linalg_qr, "linalg_solve_ex": solve_ex,
    "linalg_svd": linalg_svd, "linalg_svdvals": svdvals, "lu_solve": _older, "lu_unpack": lu_unpack,
    "nuclear_norm": nuclear_norm, "orgqr": householder_product, "ormqr": ormqr, "qr": qr, "slogdet": np.linalg.slogdet,
    "svd": svd,
}  # fmt: skip
"""TorchScript name -> function."""
