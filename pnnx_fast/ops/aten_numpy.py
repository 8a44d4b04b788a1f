"""Rare TorchScript operators as numpy functions of one table: arguments by position, shapes found by a trial run.

The functions take arrays and Python numbers in the order of TorchScript's schemas and know nothing of lowering. What
they return for zeros (a unit matrix where matrices are square) tells shapes and dtypes, so none of them may let the
shape of its result depend on values; those that must stand in the table ``DYNAMIC``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pnnx_fast._types import Array
from pnnx_fast.errors import IndexRangeError, ParameterError
from pnnx_fast.ops.aten import DTYPES
from pnnx_fast.ops.ordering import order_along
from pnnx_fast.ops.registry import operator
from pnnx_fast.ops.symbolic import Builder, Results, Tensor, Value

# -- calling them ------------------------------------------------------------------------------------------------


def _trial(x: Tensor) -> Array:
    """Values for the trial run: those of a constant, a unit matrix, or zeros."""
    if x.is_constant:
        return x.numpy()
    if x.ndim >= 2 and x.shape[-1] == x.shape[-2] and x.dtype.kind in "fc":
        return np.broadcast_to(np.eye(x.shape[-1], dtype=x.dtype), x.shape)
    return np.broadcast_to(np.zeros((), x.dtype), x.shape)


def _replace(value: Value, arrays: Any) -> Any:
    """The value with its tensors replaced, in order."""
    if isinstance(value, Tensor):
        return next(arrays)
    return [_replace(v, arrays) for v in value] if isinstance(value, (list, tuple)) else value


def _tensors(value: Value) -> list[Tensor]:
    if isinstance(value, Tensor):
        return [value]
    return [t for v in value for t in _tensors(v)] if isinstance(value, (list, tuple)) else []


def _step(function: Callable[..., Any], dynamic: bool) -> Callable[..., Value]:
    def call(b: Builder, *values: Any) -> Value:
        tensors = _tensors(values)

        def run(*arrays: Array) -> Any:
            with np.errstate(all="ignore"):
                result = function(*_replace(values, iter(arrays)))
            if isinstance(result, (tuple, list)):
                return tuple(np.asarray(r) for r in result)
            return np.asarray(result)

        if dynamic:
            return b.dynamic(run, tensors)
        sample = run(*map(_trial, tensors))
        if isinstance(sample, tuple):
            return Results(b.host(run, tensors, [(s.shape, s.dtype) for s in sample]))
        return b.host(run, tensors, [(sample.shape, sample.dtype)])[0]

    lines = (function.__doc__ or "").splitlines()
    call.__doc__ = lines[0] if lines else f"numpy function {function.__name__}."
    return call


# -- what they share ---------------------------------------------------------------------------------------------


def _real(x: Array) -> Array:
    """Integers as float32, as PyTorch's functions of real numbers take them."""
    return x.astype(np.float32) if x.dtype.kind in "biu" else x


def _wide(x: Array) -> Array:
    return x.astype(np.int64) if x.dtype.kind in "biu" else x


def _check(index: Array, size: int) -> None:
    bad = index[(index < -size) | (index >= size)]
    if bad.size:
        raise IndexRangeError(int(bad.flat[0]), size)


def _places(x: Array, dim: int, index: Array) -> tuple[Any, ...]:
    """Key of the elements that an index names along a dimension."""
    _check(index, x.shape[dim])
    where: list[Any] = list(np.indices(index.shape, sparse=True))
    where[dim] = index
    return tuple(where)


# -- reductions and running extremes -----------------------------------------------------------------------------


def _all(x: Array, dim: Any = None, keepdim: bool = False) -> Array:
    return np.asarray(np.all(x, None if dim is None else tuple(np.atleast_1d(dim)), keepdims=keepdim))


def _any(x: Array, dim: Any = None, keepdim: bool = False) -> Array:
    return np.asarray(np.any(x, None if dim is None else tuple(np.atleast_1d(dim)), keepdims=keepdim))


def _running(best: Any) -> Callable[[Array, int], tuple[Array, Array]]:
    """Running extreme along a dimension and the last place that had it."""

    def run(x: Array, dim: int) -> tuple[Array, Array]:
        values = best.accumulate(x, dim)
        shape = [-1 if d == dim % x.ndim else 1 for d in range(x.ndim)]
        hit = (x == values) | (np.isnan(x) if x.dtype.kind == "f" else False)
        places = np.where(hit, np.arange(x.shape[dim]).reshape(shape), 0)
        return values, np.maximum.accumulate(places, dim)

    return run


def _logcumsumexp(x: Array, dim: int) -> Array:
    return np.logaddexp.accumulate(_real(x), dim)


def _kthvalue(x: Array, k: int, dim: int = -1, keepdim: bool = False) -> tuple[Array, Array]:
    """k-th smallest entry along a dimension and its place."""
    index = np.take(order_along(x, dim, False), [k - 1], dim)
    values = np.take_along_axis(x, index, dim)
    return (values, index) if keepdim else (values.squeeze(dim), index.squeeze(dim))


def _median(x: Array, dim: int | None = None, keepdim: bool = False) -> Any:
    """Lower median, NaN if there is one."""
    if dim is None:
        return _median(x.reshape(-1), 0)[0]
    order = order_along(x, dim, False)
    index = np.take(order, [(x.shape[dim] - 1) // 2], dim)
    if x.dtype.kind == "f":
        last = np.take(order, [x.shape[dim] - 1], dim)
        index = np.where(np.isnan(np.take_along_axis(x, last, dim)), last, index)
    values = np.take_along_axis(x, index, dim)
    return (values, index) if keepdim else (values.squeeze(dim), index.squeeze(dim))


def _moments(root: bool) -> Callable[..., tuple[Array, Array]]:
    def run(x: Array, dim: Any = None, unbiased: Any = True, keepdim: bool = False) -> tuple[Array, Array]:
        if isinstance(dim, bool):
            dim, unbiased = None, dim
        axis = None if dim is None or dim == [] else tuple(np.atleast_1d(dim))
        spread = (np.std if root else np.var)(x, axis, ddof=int(unbiased), keepdims=keepdim)
        return np.asarray(spread, x.dtype), np.asarray(np.mean(x, axis, keepdims=keepdim), x.dtype)

    return run


def _count_nonzero(x: Array, dim: Any = None) -> Array:
    return np.asarray(np.count_nonzero(x, None if dim is None else tuple(np.atleast_1d(dim))), np.int64)


def _nansum(x: Array, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Array:
    axis = None if dim is None else tuple(np.atleast_1d(dim))
    total = np.nansum(x, axis, keepdims=keepdim)
    return np.asarray(total, np.int64 if x.dtype.kind in "biu" else x.dtype)


def _nanmean(x: Array, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Array:
    axis = None if dim is None else tuple(np.atleast_1d(dim))
    return np.asarray(np.nansum(x, axis, keepdims=keepdim) / np.sum(~np.isnan(x), axis, keepdims=keepdim), x.dtype)


def _aminmax(x: Array, dim: int | None = None, keepdim: bool = False) -> tuple[Array, Array]:
    return np.min(x, dim, keepdims=keepdim), np.max(x, dim, keepdims=keepdim)


def _diff(x: Array, n: int = 1, dim: int = -1, prepend: Any = None, append: Any = None) -> Array:
    ends = {k: v for k, v in (("prepend", prepend), ("append", append)) if v is not None}
    return np.diff(x, n, dim, **ends)


def _trapezoid(y: Array, x: Any = 1.0, dim: Any = -1) -> Array:
    spacing = x if isinstance(x, np.ndarray) else None
    return np.asarray(np.trapezoid(_real(y), spacing, 1.0 if spacing is not None else float(x), int(dim)))


def _quantile(x: Array, q: Any, dim: int | None = None, keepdim: bool = False, interpolation: str = "linear") -> Array:
    found: Any = np.quantile(x, q, axis=dim, keepdims=keepdim, method=interpolation)  # type: ignore[call-overload]
    return np.asarray(found, x.dtype)


# -- rearranging -------------------------------------------------------------------------------------------------


def _diag_embed(x: Array, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Array:
    n = x.shape[-1] + abs(offset)
    y = np.zeros((*x.shape[:-1], n, n), x.dtype)
    i = np.arange(x.shape[-1])
    y[..., i + max(-offset, 0), i + max(offset, 0)] = x
    return np.moveaxis(y, (-2, -1), (dim1, dim2))


def _eye(n: int, *rest: Any) -> Array:
    m = rest[0] if len(rest) > 4 else n
    return np.eye(n, m, dtype=np.float32 if rest[-4] is None else _held(rest[-4]))


def _held(number: int) -> Any:
    names = {"short": "int16", "int": "int32", "long": "int64", "half": "float16", "float": "float32"}
    names |= {"double": "float64", "bfloat16": "float32", "complex32": "complex64"}
    name = DTYPES[number]
    if name is None:
        raise ParameterError(f"no dtype has the number {number}", parameter="dtype")
    return np.dtype(names.get(name, name))


def _linspace(start: float, end: float, steps: int, dtype: Any = None, *_: Any) -> Array:
    return np.linspace(start, end, steps, dtype=np.float32 if dtype is None else _held(dtype))


def _triangle_indices(pick: Any) -> Callable[..., Array]:
    return lambda row, col, offset=0, *_: np.stack(pick(row, offset, col))


def _joined(function: Any) -> Callable[..., Array]:
    return lambda parts: function(parts)


def _shift(axes_only: bool, sign: int) -> Callable[..., Array]:
    shift = np.fft.fftshift if sign > 0 else np.fft.ifftshift
    return lambda x, dim=None: shift(x, dim)


def _one_hot(x: Array, classes: int = -1) -> Array:
    n = int(x.max()) + 1 if classes < 0 else classes
    _check(x, n)
    return np.asarray((x[..., None] == np.arange(n)).astype(np.int64))


# -- scattering --------------------------------------------------------------------------------------------------


def _scatter(x: Array, dim: int, index: Array, src: Any, reduce: str | None = None) -> Array:
    y = x.copy()
    if not index.size:
        return y
    where = _places(x, dim % x.ndim, index)
    values = src[tuple(slice(n) for n in index.shape)] if getattr(src, "ndim", 0) else src
    if reduce is None:
        y[where] = values
    else:
        {"add": np.add, "multiply": np.multiply}[reduce].at(y, where, np.asarray(values, y.dtype))
    return y


def _scatter_reduce(x: Array, dim: int, index: Array, src: Array, reduce: str, include_self: bool = True) -> Array:
    functions = {"sum": np.add, "prod": np.multiply, "amax": np.maximum, "amin": np.minimum, "mean": np.add}
    neutral = {"sum": 0, "prod": 1, "mean": 0}
    y, where = x.copy(), _places(x, dim % x.ndim, index)
    values = src[tuple(slice(n) for n in index.shape)]
    if not include_self:
        limits: Any = np.finfo(x.dtype) if x.dtype.kind == "f" else np.iinfo(x.dtype)
        y[where] = neutral.get(reduce, limits.min if reduce == "amax" else limits.max)
    functions[reduce].at(y, where, values)
    if reduce == "mean":
        count = np.full(x.shape, int(include_self), np.int64)
        np.add.at(count, where, 1)
        count = np.maximum(count, 1)
        y = y / count.astype(x.dtype) if x.dtype.kind == "f" else y // count
    return y


def _index_write(combine: Any) -> Callable[..., Array]:
    """Write or add whole slices at the entries of one dimension that an index names."""

    def run(x: Array, dim: int, index: Array, src: Any, alpha: Any = 1) -> Array:
        y = x.copy()
        _check(index, x.shape[dim])
        key: Any = (*(slice(None),) * (dim % x.ndim), index)
        if combine is None:
            y[key] = src
        else:
            combine.at(y, key, src * x.dtype.type(alpha))
        return y

    return run


def _masked_scatter(x: Array, mask: Array, source: Array) -> Array:
    y = np.broadcast_to(x, np.broadcast_shapes(x.shape, mask.shape)).copy()
    mask = np.broadcast_to(mask, y.shape)
    y[mask] = source.reshape(-1)[: np.count_nonzero(mask)]
    return y


def _take(x: Array, index: Array) -> Array:
    _check(index, x.size)
    return x.reshape(-1)[index]


def _take_along_dim(x: Array, index: Array, dim: int | None = None) -> Array:
    if dim is None:
        return _take(x, index.reshape(-1))
    _check(index, x.shape[dim])
    rest = [list(a.shape) for a in (x, index)]
    shape = [max(n, m) for n, m in zip(*rest, strict=True)]
    sizes = [[n if d == dim % x.ndim else s for d, (n, s) in enumerate(zip(r, shape, strict=True))] for r in rest]
    return np.take_along_axis(np.broadcast_to(x, sizes[0]), np.broadcast_to(index, sizes[1]), dim)


# -- searching and counting --------------------------------------------------------------------------------------


def _searchsorted(
    edges: Array, values: Any, out_int32: bool = False, right: bool = False, side: Any = None, sorter: Any = None
) -> Array:
    where: Any = "right" if right or side == "right" else "left"
    if edges.ndim == 1:
        found = np.searchsorted(edges, values, where, sorter)
    else:
        rows = zip(edges.reshape(-1, edges.shape[-1]), values.reshape(-1, values.shape[-1]), strict=True)
        found = np.stack([np.searchsorted(e, v, where) for e, v in rows]).reshape(values.shape)
    return np.asarray(found, np.int32 if out_int32 else np.int64)


def _bucketize(values: Any, edges: Array, out_int32: bool = False, right: bool = False) -> Array:
    return _searchsorted(edges, values, out_int32, right)


def _histc(x: Array, bins: int = 100, low: float = 0, high: float = 0) -> Array:
    if low == high:
        low, high = (float(x.min()), float(x.max())) if x.size else (0.0, 1.0)
    low, high = (low - 1, high + 1) if low == high else (low, high)
    return np.histogram(x, bins, (low, high))[0].astype(x.dtype)


def _isin(elements: Array, tests: Any, unique: bool = False, invert: bool = False) -> Array:
    return np.isin(elements, tests, invert=invert)


# -- linear algebra ----------------------------------------------------------------------------------------------


def _cdist(x: Array, y: Array, p: float = 2.0, mode: Any = None) -> Array:
    gap = np.abs(x[..., :, None, :].astype(np.float64) - y[..., None, :, :])
    if p == 0:
        return np.asarray((gap != 0).sum(-1).astype(x.dtype))
    far = gap.max(-1, initial=0) if np.isinf(p) else (gap**p).sum(-1) ** (1 / p)
    return np.asarray(far, x.dtype)


def _cosine_similarity(x: Array, y: Array, dim: int = 1, eps: float = 1e-8) -> Array:
    x, y = np.broadcast_arrays(_real(x), _real(y))
    norms = [np.maximum(np.sqrt((v * v).sum(dim)), x.dtype.type(eps)) for v in (x, y)]
    return np.asarray((x * y).sum(dim) / (norms[0] * norms[1]))


def _norm(x: Array, p: Any = None, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Array:
    """Norm of vectors or matrices. torch.linalg.norm."""
    if p is None and dim is None:
        flat = np.asarray(np.linalg.norm(x.reshape(-1)), x.dtype)
        return flat.reshape([1] * x.ndim) if keepdim else flat
    axis = None if dim is None else dim if isinstance(dim, int) else dim[0] if len(dim) == 1 else tuple(dim)
    return np.asarray(np.linalg.norm(x, p, axis, keepdim), x.real.dtype)


def _matrix_norm(x: Array, p: Any = "fro", dim: Any = (-2, -1), keepdim: bool = False, dtype: Any = None) -> Array:
    return np.asarray(np.linalg.norm(x, p, tuple(dim), keepdim), x.real.dtype)


def _solve(a: Array, y: Array, left: bool = True) -> Array:
    vector = y.ndim == 1 or (y.ndim == a.ndim - 1 and y.shape == a.shape[:-1])
    if vector:
        return np.linalg.solve(a, y[..., None])[..., 0]
    return (
        np.linalg.solve(a, y) if left else np.swapaxes(_solve(np.swapaxes(a, -1, -2), np.swapaxes(y, -1, -2)), -1, -2)
    )


def _addmv(x: Array, matrix: Array, vector: Array, beta: Any = 1, alpha: Any = 1) -> Array:
    return np.asarray(beta * x + alpha * (matrix @ vector), matrix.dtype)


def _addr(x: Array, first: Array, second: Array, beta: Any = 1, alpha: Any = 1) -> Array:
    return np.asarray(beta * x + alpha * np.outer(first, second), first.dtype)


def _addbmm(x: Array, first: Array, second: Array, beta: Any = 1, alpha: Any = 1) -> Array:
    return np.asarray(beta * x + alpha * (first @ second).sum(0), first.dtype)


def _tensordot(x: Array, y: Array, dims_x: Sequence[int], dims_y: Sequence[int]) -> Array:
    return np.tensordot(x, y, (list(dims_x), list(dims_y)))


def _block_diag(parts: Sequence[Array]) -> Array:
    blocks = [np.atleast_2d(p) for p in parts]
    y = np.zeros((sum(p.shape[0] for p in blocks), sum(p.shape[1] for p in blocks)), np.result_type(*blocks))
    row = column = 0
    for p in blocks:
        y[row : row + p.shape[0], column : column + p.shape[1]] = p
        row, column = row + p.shape[0], column + p.shape[1]
    return y


# -- element-wise, beyond the expression language ------------------------------------------------------------------


def _nan_to_num(x: Array, nan: Any = None, posinf: Any = None, neginf: Any = None) -> Array:
    return np.nan_to_num(x, nan=nan or 0.0, posinf=posinf, neginf=neginf)


def _logit(x: Array, eps: float | None = None) -> Array:
    x = _real(x) if eps is None else np.clip(_real(x), eps, 1 - eps)
    return np.asarray(np.log(x / (1 - x)))


def _xlogy(x: Any, y: Any) -> Array:
    x, y = (_real(np.asarray(v, None if isinstance(v, np.ndarray) else np.float32)) for v in (x, y))
    return np.where(np.isnan(y), y, np.where(x == 0, 0, x * np.log(y))).astype(np.result_type(x, y))


def _angle(x: Array) -> Array:
    if x.dtype.kind == "c":
        return np.angle(x)
    x = _real(x)
    return np.where(np.isnan(x), x, np.where(x < 0, x.dtype.type(np.pi), x.dtype.type(0)))


def _polar(size: Array, angle: Array) -> Array:
    return (size * np.exp(1j * angle)).astype(np.complex128 if size.dtype == np.float64 else np.complex64)


def _float_power(x: Any, y: Any) -> Array:
    wide = [v.astype(np.float64) if isinstance(v, np.ndarray) and v.dtype.kind != "c" else v for v in (x, y)]
    return np.asarray(np.power(*wide))


def _sgn(x: Array) -> Array:
    return np.where(x == 0, x, x / np.abs(np.where(x == 0, 1, x))) if x.dtype.kind == "c" else np.sign(x)


def _isclose(x: Array, y: Array, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Array:
    return np.isclose(x, y, rtol, atol, equal_nan)


def _renorm(x: Array, p: float, dim: int, limit: float) -> Array:
    axes = tuple(d for d in range(x.ndim) if d != dim % x.ndim)
    size = (np.abs(x) ** p).sum(axes, keepdims=True) ** (1 / p)
    return np.where(size > limit, x * (limit / (size + 1e-7)), x).astype(x.dtype)


FIXED: dict[str, Callable[..., Any]] = {
    "_conj": np.conj, "conj": np.conj, "conj_physical": np.conj, "addbmm": _addbmm, "addmv": _addmv, "addr": _addr,
    "all": _all, "aminmax": _aminmax, "angle": _angle, "any": _any,
    "atleast_1d": np.atleast_1d, "atleast_2d": np.atleast_2d, "atleast_3d": np.atleast_3d, "block_diag": _block_diag,
    "bucketize": _bucketize, "cdist": _cdist, "column_stack": _joined(np.column_stack), "copysign": np.copysign,
    "cosine_similarity": _cosine_similarity, "count_nonzero": _count_nonzero, "cummax": _running(np.maximum),
    "cummin": _running(np.minimum), "diag_embed": _diag_embed, "diff": _diff, "dot": np.dot,
    "dstack": _joined(np.dstack), "eye": _eye, "fft_fftshift": _shift(False, 1), "fft_ifftshift": _shift(False, -1),
    "fliplr": np.fliplr, "flipud": np.flipud, "float_power": _float_power, "fmax": np.fmax, "fmin": np.fmin,
    "gcd": np.gcd, "heaviside": np.heaviside, "histc": _histc, "hstack": _joined(np.hstack),
    "index_add": _index_write(np.add), "index_copy": _index_write(None), "index_fill": _index_write(None),
    "inner": np.inner, "inverse": np.linalg.inv, "isclose": _isclose, "isin": _isin,
    "isneginf": np.isneginf, "isposinf": np.isposinf, "isreal": np.isreal, "kron": np.kron, "kthvalue": _kthvalue,
    "lcm": np.lcm, "ldexp": lambda x, y: _real(x) * np.exp2(_real(y)), "linalg_cholesky": np.linalg.cholesky,
    "linalg_det": np.linalg.det, "linalg_inv": np.linalg.inv, "linalg_matrix_norm": _matrix_norm,
    "linalg_matrix_power": np.linalg.matrix_power, "linalg_norm": _norm, "linalg_pinv": np.linalg.pinv,
    "linalg_slogdet": np.linalg.slogdet, "linalg_solve": _solve, "linspace": _linspace,
    "logaddexp2": np.logaddexp2, "logcumsumexp": _logcumsumexp, "logit": _logit, "masked_scatter": _masked_scatter,
    "matrix_power": np.linalg.matrix_power, "median": _median, "msort": lambda x: np.sort(x, 0),
    "nan_to_num": _nan_to_num, "nanmean": _nanmean, "nansum": _nansum, "nextafter": np.nextafter,
    "one_hot": _one_hot, "outer": np.outer, "ger": np.outer, "polar": _polar, "quantile": _quantile,
    "renorm": _renorm, "rot90": lambda x, k=1, dims=(0, 1): np.rot90(x, k, dims), "scatter": _scatter,
    "scatter_reduce": _scatter_reduce, "searchsorted": _searchsorted, "sgn": _sgn, "signbit": np.signbit,
    "sinc": lambda x: np.sinc(_real(x)).astype(_real(x).dtype), "std_mean": _moments(True), "take": _take,
    "take_along_dim": _take_along_dim, "tensordot": _tensordot,
    "trace": lambda x: np.trace(_wide(x)), "trapezoid": _trapezoid, "trapz": _trapezoid,
    "tril": lambda x, diagonal=0: np.tril(x, diagonal), "tril_indices": _triangle_indices(np.tril_indices),
    "triu": lambda x, diagonal=0: np.triu(x, diagonal), "triu_indices": _triangle_indices(np.triu_indices),
    "vander": lambda x, n=None, increasing=False: np.vander(x, n, increasing).astype(x.dtype),
    "var_mean": _moments(False),
    "vdot": np.vdot, "vstack": _joined(np.vstack), "xlogy": _xlogy,
}  # fmt: skip
"""TorchScript name -> numpy function whose result has a shape that follows from the shapes of its arguments."""


def _unique(x: Array, sort: bool = True, inverse: bool = False, counts: bool = False) -> tuple[Array, ...]:
    values, places, number = np.unique(x, return_inverse=True, return_counts=True)
    return values, places.reshape(x.shape), number


def _unique_consecutive(x: Array, inverse: bool = False, counts: bool = False, dim: None = None) -> tuple[Array, ...]:
    flat = x.reshape(-1)
    first = np.concatenate(([True], flat[1:] != flat[:-1]))[: flat.size]
    starts = np.flatnonzero(first)
    return flat[first], (np.cumsum(first) - 1).reshape(x.shape), np.diff(np.append(starts, flat.size))


def _bincount(x: Array, weights: Array | None = None, minlength: int = 0) -> Array:
    return np.bincount(x, weights, minlength)


DYNAMIC: dict[str, Callable[..., Any]] = {
    "_unique2": _unique, "argwhere": np.argwhere, "bincount": _bincount,
    "unique_consecutive": _unique_consecutive,
}  # fmt: skip
"""The same for functions whose results have shapes that depend on data."""

for _name, _function in FIXED.items():
    operator(f"aten::{_name}", native=False)(_step(_function, False))
for _name, _function in DYNAMIC.items():
    operator(f"aten::{_name}", native=False)(_step(_function, True))
