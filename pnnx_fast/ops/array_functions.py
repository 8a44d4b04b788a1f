"""PyTorch's rarer functions written with numpy: arrays and Python numbers in the order of TorchScript's schemas.

They know nothing of graphs or lowering; :mod:`pnnx_fast.ops.aten_numpy` makes operators of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import numpy as np

from pnnx_fast._memory import check_numbers
from pnnx_fast._types import Array
from pnnx_fast.errors import IndexRangeError, ParameterError, ShapeError
from pnnx_fast.expression.types import Category, ElementType, promote
from pnnx_fast.ops._checks import in_dtype
from pnnx_fast.ops.aten_tables import DTYPES

# -- what they share ---------------------------------------------------------------------------------------------


def real(x: Array) -> Array:
    """Integers as float32, as PyTorch's functions of real numbers take them."""
    return x.astype(np.float32) if x.dtype.kind in "biu" else x


def as_summed(x: Array) -> Array:
    """Integers as int64, as sums give them."""
    return x.astype(np.int64) if x.dtype.kind in "biu" else x


def held(number: int) -> Any:
    """Numpy dtype that holds the dtype of a number of TorchScript."""
    names = {"short": "int16", "int": "int32", "long": "int64", "half": "float16", "float": "float32"}
    names |= {"double": "float64", "bfloat16": "float32", "complex32": "complex64"}
    name = DTYPES[number]
    if name is None:
        raise ParameterError(f"no dtype has the number {number}", parameter="dtype")
    return np.dtype(names.get(name, name))


def cast(x: Array, number: int | None) -> Array:
    """An array in the dtype of a number of TorchScript; as it is for None."""
    return x if number is None else x.astype(held(number))


def check(index: Array, size: int, wrap: bool = True) -> None:
    """Raise unless all indices lie within a dimension; with ``wrap`` counted from its end, too."""
    bad = index[(index < (-size if wrap else 0)) | (index >= size)]
    if bad.size:
        raise IndexRangeError(int(bad.flat[0]), size)


def reduce_at(function: np.ufunc, y: Array, key: Any, values: Any) -> None:
    """Reduce values, which may broadcast, into places of an array."""
    # numpy reads beyond the end of values that broadcast to an index of several dimensions.
    function.at(y, key, np.ascontiguousarray(np.broadcast_to(values, y[key].shape)))


def places(x: Array, dim: int, index: Array) -> tuple[Any, ...]:
    """Key of the elements that an index names along a dimension."""
    check(index, x.shape[dim], wrap=False)
    where: list[Any] = list(np.indices(index.shape, sparse=True))
    where[dim] = index
    return tuple(where)


# -- reductions and running extremes -----------------------------------------------------------------------------


def on_lines(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function along a dimension, for which a tensor without dimensions is a line of one entry."""

    @wraps(function)
    def run(x: Array, *rest: Any) -> Any:
        if x.ndim:
            return function(x, *rest)
        found = function(x.reshape(1), *rest)
        return tuple(y.reshape(()) for y in found) if isinstance(found, tuple) else found.reshape(())

    return run


def logcumsumexp(x: Array, dim: int) -> Array:
    """Running logarithm of the sum of exponentials."""
    if x.dtype.kind == "c":
        raise ShapeError("complex numbers are not supported", actual=x.dtype)
    return np.logaddexp.accumulate(real(x), dim)


def moments(root: bool) -> Callable[..., tuple[Array, Array]]:
    """Spread and mean in one call: standard deviation or variance."""

    def run(x: Array, dim: Any = None, unbiased: Any = True, keepdim: bool = False) -> tuple[Array, Array]:
        if isinstance(dim, bool):
            dim, unbiased = None, dim
        axis = None if dim is None or dim == [] else tuple(np.atleast_1d(dim))
        free: Any = 1 if unbiased is None else float(unbiased)
        wide = x.astype(np.result_type(x.dtype, np.float64))
        total = np.sum(wide, axis, keepdims=True)
        count = x.size / max(total.size, 1)
        mean = total / count if count else total * np.nan
        spread = np.sum(np.abs(wide - mean) ** 2, axis, keepdims=keepdim) / max(count - free, 0)
        mean = mean.reshape(spread.shape)
        return np.asarray(np.sqrt(spread) if root else spread, x.real.dtype), np.asarray(mean, x.dtype)

    return run


def nanmean(x: Array, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Array:
    """Mean of the entries that are numbers."""
    x = cast(x, dtype)
    axis = None if dim is None else tuple(np.atleast_1d(dim))
    return np.asarray(np.nansum(x, axis, keepdims=keepdim) / np.sum(~np.isnan(x), axis, keepdims=keepdim), x.dtype)


def aminmax(x: Array, dim: int | None = None, keepdim: bool = False) -> tuple[Array, Array]:
    """Least and largest entry."""
    return np.min(x, dim, keepdims=keepdim), np.max(x, dim, keepdims=keepdim)


def gradient(x: Array, *rest: Any) -> tuple[Array, ...]:
    """Central differences along dimensions: spacing, dimensions, order of the edges."""
    x = real(x)
    order: Any = rest[-1] if rest else 1
    dims = rest[-2] if len(rest) > 1 else None
    spacing = rest[0] if len(rest) > 2 else None
    axes = list(range(x.ndim)) if dims is None else [dims] if isinstance(dims, int) else list(dims)
    steps = spacing if isinstance(spacing, (list, tuple)) else [1.0 if spacing is None else spacing] * len(axes)
    return tuple(np.gradient(x, s, axis=a, edge_order=order).astype(x.dtype) for a, s in zip(axes, steps, strict=True))


# -- rearranging -------------------------------------------------------------------------------------------------


def eye(n: int, *rest: Any) -> Array:
    """Unit matrix."""
    m = rest[0] if len(rest) > 4 else n
    check_numbers(n * m)
    return np.eye(n, m, dtype=np.float32 if rest[-4] is None else held(rest[-4]))


def made(values: Any, dtype: Any = None, *_: Any) -> Array:
    """A number, or numbers, as a tensor of the type asked for, else of float32."""
    wanted = np.dtype(np.float32) if dtype is None else held(dtype)
    return in_dtype(values, wanted, "s") if isinstance(values, int | float | complex) else np.asarray(values, wanted)


def window(*terms: float) -> Callable[..., Array]:
    """Windows that are sums of cosines, of a length, periodic or not, with other terms where they are given."""

    def make(n: int, *rest: Any) -> Array:
        """A window, a sum of cosines."""
        *shape, dtype, _, _, _ = rest
        check_numbers(n)
        periodic = bool(shape[0]) if shape else True
        chosen = (*(float(v) for v in shape[1:]), *terms[len(shape) - 1 if shape else 0 :])
        angle = 2 * np.pi * np.arange(n) / max(n if periodic else n - 1, 1)
        values = sum((np.cos(k * angle) * t * (-1) ** k for k, t in enumerate(chosen)), np.zeros(n))
        return made(np.ones(n) if n == 1 else values, dtype)

    return make


def kaiser_window(n: int, *rest: Any) -> Array:
    """Kaiser's window, of a length, periodic or not, and a shape."""
    *shape, dtype, _, _, _ = rest
    check_numbers(n)
    longer = int(n > 1 and (not shape or bool(shape[0])))
    return made(np.kaiser(n + longer, float(shape[1]) if len(shape) > 1 else 12.0)[:n], dtype)


def bartlett_window(n: int, *rest: Any) -> Array:
    """Bartlett's window, a triangle, periodic or not."""
    *shape, dtype, _, _, _ = rest
    check_numbers(n)
    return made(np.bartlett(n + int(n > 1 and (not shape or bool(shape[0]))))[:n], dtype)


def frequencies(make: Any) -> Callable[..., Array]:
    """Frequencies of a Fourier transform, by numpy's function for them."""

    def run(n: int, d: float = 1.0, dtype: Any = None, *_: Any) -> Array:
        """Frequencies of a Fourier transform."""
        check_numbers(n)
        return made(make(n, d), dtype)

    return run


def logspace(start: float, end: float, steps: int, base: float = 10.0, dtype: Any = None, *_: Any) -> Array:
    """Powers of a base with evenly spaced exponents."""
    check_numbers(steps)
    return made(np.power(float(base), _spread(start, end, steps, dtype)), dtype)


def linspace(start: float, end: float, steps: int, dtype: Any = None, *_: Any) -> Array:
    """Evenly spaced numbers."""
    check_numbers(steps)
    return made(_spread(start, end, steps, dtype), dtype)


def _spread(start: Any, end: Any, steps: int, dtype: Any) -> Array:
    """Numbers from the first to the last, counted from the nearer one; both are whole already if the result is."""
    if dtype is not None and held(dtype).kind in "iu":
        start, end = int(start), int(end)
    if steps == 1:
        return np.full(1, start, np.float64)
    step, place = (float(end) - float(start)) / (steps - 1 or 1), np.arange(steps)
    return np.asarray(np.where(place < steps // 2, start + step * place, end - step * (steps - 1 - place)))


def triangle_indices(pick: Any) -> Callable[..., Array]:
    """Places of a triangle of a matrix, found by numpy's function for it."""

    def make(row: int, col: int, offset: int = 0, dtype: Any = None, *_: Any) -> Array:
        """Places of a triangle of a matrix, as two rows."""
        check_numbers(row * col)
        return cast(np.stack(pick(row, offset, col)), dtype)

    return make


def fill_diagonal(x: Array, value: Any, wrap: bool = False) -> Array:
    """A copy with one value where all indices are equal."""
    y = x.copy()
    np.fill_diagonal(y, value, wrap)
    return y


def pad_sequence(parts: Any, batch_first: bool = False, value: float = 0.0, side: str = "right") -> Array:
    """Sequences of several lengths as one tensor, filled up with a value."""
    longest = max(len(p) for p in parts)
    check_numbers(longest * sum(math.prod(p.shape[1:]) for p in parts))
    y = np.full((len(parts), longest, *parts[0].shape[1:]), value, parts[0].dtype)
    for row, part in zip(y, parts, strict=True):
        row[longest - len(part) if side == "left" else 0 :][: len(part)] = part
    return y if batch_first else np.swapaxes(y, 0, 1)


def sum_to_size(x: Array, size: Any) -> Array:
    """Sum over what was broadcast from a size."""
    lead = x.ndim - len(size)
    if lead < 0 or any(n not in (1, m) for n, m in zip(size, x.shape[lead:], strict=True)):
        raise ShapeError("the size does not broadcast to the tensor", expected=list(size), actual=list(x.shape))
    axes = tuple(d for d in range(x.ndim) if d < lead or size[d - lead] != x.shape[d])
    if size and not axes:
        return x
    return np.asarray(x.sum(axes, keepdims=True), as_summed(x).dtype).reshape(size)


# -- searching and counting --------------------------------------------------------------------------------------


def searchsorted(
    edges: Array, values: Any, out_int32: bool = False, right: bool = False, side: Any = None, sorter: Any = None
) -> Array:
    """Places at which values would be inserted."""
    right = right or side == "right"
    if edges.ndim == 1:
        found = _search(edges if sorter is None else edges[sorter], values, right)
    else:
        if edges.shape[:-1] != values.shape[:-1]:
            raise ShapeError(f"edges of shape {edges.shape} and values of shape {values.shape} have other rows")
        ordered = edges if sorter is None else np.take_along_axis(edges, sorter, -1)
        lines = math.prod(edges.shape[:-1])
        rows = zip(ordered.reshape(lines, edges.shape[-1]), values.reshape(lines, values.shape[-1]), strict=True)
        found = np.array([_search(e, v, right) for e, v in rows], np.int64).reshape(values.shape)
    return np.asarray(found, np.int32 if out_int32 else np.int64)


def _search(edges: Array, values: Any, right: bool) -> Array:
    """Places in one line. An order with NaN depends on which edges are looked at: then those that PyTorch looks at."""
    if not np.isnan(edges).any():
        return np.asarray(np.searchsorted(edges, values, "right" if right else "left"))
    at = np.zeros(np.shape(values), np.int64)
    end = np.full_like(at, edges.size)
    for _ in range(edges.size.bit_length()):
        middle = (at + end) // 2
        edge = edges[np.minimum(middle, edges.size - 1)]
        before = ~(edge > values if right else edge >= values) & (at < end)
        at, end = np.where(before, middle + 1, at), np.where(before, end, middle)
    return at


def histc(x: Array, bins: int = 100, low: float = 0, high: float = 0) -> Array:
    """Histogram; the bin of an entry follows from its place in the range, in the type of the entries."""
    if x.dtype.kind != "f":
        raise ShapeError("histc needs a floating type", actual=x.dtype)
    check_numbers(bins)
    if low == high:
        low, high = (float(x.min()), float(x.max())) if x.size else (0.0, 1.0)
    low, high = (low - 1, high + 1) if low == high else (low, high)
    if bins < 1 or not -math.inf < low < high < math.inf:
        raise ParameterError(f"{bins} bins from {low} to {high} are no histogram", parameter="bins, min, max")
    first, last, count = (x.dtype.type(v) for v in (low, high, bins))
    inside = x[(x >= first) & (x <= last)]
    where = ((inside - first) * count / (last - first)).astype(np.int64)
    return np.bincount(np.minimum(where, bins - 1), minlength=bins).astype(x.dtype)


def _edges(x: Array, bins: int, limits: Sequence[float] | None) -> Array:
    """Edges of so many bins of one width, from the least to the largest entry where no limits are given."""
    check_numbers(bins)
    low, high = limits or ((float(x.min()), float(x.max())) if x.size else (0.0, 1.0))
    low, high = (low - 0.5, high + 0.5) if low == high else (low, high)
    return np.linspace(low, high, bins + 1)


def histogram(x: Array, bins: Any, *rest: Any) -> tuple[Array, Array]:
    """Histogram of all entries and its edges: for their number a range, weights and whether to give a density."""
    limits, (weight, density) = rest[0] if len(rest) == 3 else None, rest[-2:]
    edges = bins if isinstance(bins, np.ndarray) else _edges(x, bins, limits)
    flat = None if weight is None else weight.reshape(-1)
    counts = np.histogram(x.reshape(-1), edges, weights=flat, density=bool(density))[0]
    return counts.astype(x.dtype), np.asarray(edges, x.dtype)


def histogramdd(
    x: Array, bins: Any, limits: Any = None, weight: Any = None, density: bool = False
) -> tuple[Array, ...]:
    """Histogram of points, and the edges along each dimension."""
    points = x.reshape(math.prod(x.shape[:-1]), x.shape[-1])
    count = points.shape[1]
    ranges = [None] * count if limits is None else [limits[2 * d : 2 * d + 2] for d in range(count)]
    given = [bins] * count if isinstance(bins, int) else bins
    edges = [
        b if isinstance(b, np.ndarray) else _edges(points[:, d], b, ranges[d]).astype(x.dtype)
        for d, b in zip(range(count), given, strict=True)
    ]
    check_numbers(math.prod(len(e) - 1 for e in edges))
    flat = None if weight is None else weight.reshape(-1)
    counts = np.histogramdd(points, edges, density=bool(density), weights=flat)[0]
    return counts.astype(x.dtype), *edges


def nonzero(x: Array) -> tuple[Array, ...]:
    """Places of the entries that are not zero, an array for each dimension: numpy's own is slow beyond one.

    >>> nonzero(np.array([[0, 5], [6, 7]]))
    (array([0, 1, 1]), array([1, 0, 1]))
    """
    if x.ndim < 2:
        return np.nonzero(x)
    return np.unravel_index(np.flatnonzero(x), x.shape) if x.size else np.nonzero(x)


def argwhere(x: Array) -> Array:
    """Places of the entries that are not zero, a row for each."""
    return np.stack(nonzero(x), -1) if x.ndim else np.argwhere(x)


def nonzero_static(x: Array, size: int, value: int = -1) -> Array:
    """Places of the first entries that are not zero, as many as are asked for."""
    check_numbers(size * max(x.ndim, 1))
    found = argwhere(x)[:size]
    return np.concatenate([found, np.full((size - len(found), x.ndim), value, np.int64)])


def isin(elements: Array, tests: Any, unique: bool = False, invert: bool = False) -> Array:
    """Whether entries are among others."""
    return np.isin(elements, tests, invert=invert)


# -- element-wise, beyond the expression language ------------------------------------------------------------------


def logit(x: Array, eps: float | None = None) -> Array:
    """Inverse of the sigmoid."""
    x = real(x) if eps is None else np.clip(real(x), eps, 1 - eps)
    return np.asarray(np.log(x / (1 - x)))


def xlogy(x: Any, y: Any) -> Array:
    """x log y, zero where x is."""
    x, y = (real(np.asarray(v, None if isinstance(v, np.ndarray) else np.float32)) for v in (x, y))
    return np.where(np.isnan(y), y, np.where(x == 0, 0, x * np.log(y))).astype(np.result_type(x, y))


def angle(x: Array) -> Array:
    """Angle of complex numbers."""
    if x.dtype.kind == "c":
        return np.angle(x)
    x = real(x)
    return np.where(np.isnan(x), x, np.where(x < 0, x.dtype.type(np.pi), x.dtype.type(0)))


def sinc(x: Array) -> Array:
    """sin(pi x) / (pi x), one at zero."""
    return np.sinc(real(x)).astype(real(x).dtype)


def ldexp(x: Array, y: Array) -> Array:
    """x times two to the power of y; of whole ones exactly, also where the power alone is no number of its type."""
    if "c" in (x.dtype.kind, y.dtype.kind):
        return np.asarray(x * np.power(np.complex64(2), y)).astype(np.result_type(real(x), real(y)))
    if y.dtype.kind == "f":
        return np.asarray(real(x) * np.exp2(real(y)))
    # Beyond these every number has long become 0 or infinite.
    return np.asarray(np.ldexp(real(x), np.clip(y, -5000, 5000).astype(np.int32)))


def polar(size: Array, angle: Array) -> Array:
    """Complex numbers from size and angle."""
    return (size * np.exp(1j * angle)).astype(np.complex128 if size.dtype == np.float64 else np.complex64)


def float_power(x: Any, y: Any) -> Array:
    """Power in double precision."""
    kinds = [np.complex128 if np.asarray(v).dtype.kind == "c" else np.float64 for v in (x, y)]
    return np.asarray(np.power(*(np.asarray(v).astype(kind) for v, kind in zip((x, y), kinds, strict=True))))


def copysign(x: Array, y: Any) -> Array:
    """Size of the first argument with the sign of the second. torch.copysign."""
    number = not isinstance(y, np.ndarray)
    sign = np.asarray(y, np.float32 if number else None)
    kinds = [(x, Category.DIM if x.ndim else Category.ZERO_DIM)]
    kinds.append((sign, Category.NUMBER if number else Category.DIM if sign.ndim else Category.ZERO_DIM))
    common = promote([ElementType(v.dtype, kind) for v, kind in kinds], True)
    dtype = common if common.kind == "f" else np.dtype(np.float32)
    return np.copysign(x.astype(dtype), sign.astype(dtype))


def direction(x: Array) -> Array:
    """Complex numbers over their magnitude, 0 for 0."""
    return np.where(x == 0, x, x / np.abs(np.where(x == 0, 1, x)))


def heaviside(x: Array, y: Any) -> Array:
    """1 above zero, 0 below it and for NaN, and at zero the second argument, which files may hold as a number."""
    return np.where(x == 0, np.asarray(y, x.dtype), (x > 0).astype(x.dtype))


def isclose(x: Array, y: Array, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Array:
    """Whether values are close."""
    return np.isclose(x, y, rtol, atol, equal_nan)


def renorm(x: Array, p: float, dim: int, limit: float) -> Array:
    """Shorten slices to a longest norm."""
    axes = tuple(d for d in range(x.ndim) if d != dim % x.ndim)
    size = np.abs(x).max(axes, keepdims=True) if p == math.inf else (np.abs(x) ** p).sum(axes, keepdims=True) ** (1 / p)
    return np.where(size > limit, x * (limit / (size + 1e-7)), x).astype(x.dtype)


# -- quantising and back ---------------------------------------------------------------------------------------------


def fake_quantize(x: Array, scale: Any, zero_point: Any, low: int, high: int) -> Array:
    """Values as they come back from whole numbers with one scale. torch.fake_quantize_per_tensor_affine."""
    step, zero = np.float32(np.reshape(scale, ())), int(np.reshape(zero_point, ()))
    places = np.rint(x * (np.float32(1) / step)) + zero
    places = np.where(np.isnan(places), low, np.clip(places, low, high))
    return ((places - zero) * step).astype(x.dtype)


def fake_quantize_channels(x: Array, scale: Array, zero_point: Array, axis: int, low: int, high: int) -> Array:
    """Values as they come back, with a scale for each channel. torch.fake_quantize_per_channel_affine."""
    sizes = [-1 if i == axis else 1 for i in range(x.ndim)]
    step, zero = scale.reshape(sizes).astype(np.float32), zero_point.reshape(sizes)
    scaled = x * (np.float32(1) / step)
    places = np.rint(scaled + zero) if zero.dtype.kind == "f" else np.rint(scaled) + zero
    # PyTorch goes through int64 here: what that does not hold becomes the lowest number.
    places = np.where(np.abs(places) < 2.0**63, np.clip(places, low, high), low)
    return ((places - zero) * step).astype(x.dtype)
