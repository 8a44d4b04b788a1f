"""Rare TorchScript operators as numpy functions of one table: arguments by position, shapes found by a trial run.

The functions take arrays and Python numbers in the order of TorchScript's schemas and know nothing of lowering. What
they return for zeros (a unit matrix where matrices are square) tells shapes and dtypes, so none of them may let the
shape of its result depend on values; those that must stand in the table ``DYNAMIC``.
"""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pnnx_fast._memory import check_numbers
from pnnx_fast._types import Array
from pnnx_fast.errors import ParameterError, ShapeError
from pnnx_fast.expression.types import element_type, promote
from pnnx_fast.ops import array_functions as fn
from pnnx_fast.ops import index_functions as ix
from pnnx_fast.ops import matrix_functions as mx
from pnnx_fast.ops import order_functions as od
from pnnx_fast.ops import polynomials as po
from pnnx_fast.ops import special_functions as sp
from pnnx_fast.ops.loss_functions import LOSSES
from pnnx_fast.ops.matrix_factors import FACTORS, pinv, tensorsolve
from pnnx_fast.ops.pool_functions import fractional_max_pool
from pnnx_fast.ops.registry import operator
from pnnx_fast.ops.signature import tensor_of
from pnnx_fast.ops.symbolic import Builder, Results, Tensor, Value, map_leaves, tensors_in

# -- calling them ------------------------------------------------------------------------------------------------


def _trial(x: Tensor) -> Array:
    """Values for the trial run: those of a constant, a unit matrix, or zeros."""
    if x.is_constant:
        return x.numpy()
    if x.ndim >= 2 and x.shape[-1] == x.shape[-2] and x.dtype.kind in "fc":
        return np.broadcast_to(np.eye(x.shape[-1], dtype=x.dtype), x.shape)
    return np.broadcast_to(np.zeros((), x.dtype), x.shape)


class _Formals:
    """How many arguments a function takes, and which of them are arrays."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.most: float
        function = inspect.unwrap(function)
        if isinstance(function, np.ufunc):  # which older numpy has no signature of
            self.least = self.most = function.nin
            self.arrays = {i: f"argument {i + 1}" for i in range(function.nin)}
            return
        given = list(inspect.signature(function).parameters.values())
        plain = [p for p in given if p.kind not in (p.VAR_POSITIONAL, p.KEYWORD_ONLY)]
        self.least = sum(p.default is p.empty for p in plain)
        self.most = math.inf if any(p.kind is p.VAR_POSITIONAL for p in given) else len(plain)
        self.arrays = {i: p.name for i, p in enumerate(plain) if p.annotation == "Array"}

    def check(self, values: Sequence[Any]) -> list[Any]:
        """The arguments, numbers as tensors where arrays are needed."""
        if not self.least <= len(values) <= self.most:
            few = str(self.least) if self.least == self.most else f"{self.least} to {self.most}"
            raise ParameterError(f"{len(values)} arguments instead of {few}")
        return [
            tensor_of(v, self.arrays[i], None) if i in self.arrays and not isinstance(v, Tensor) else v
            for i, v in enumerate(values)
        ]


_formals = functools.cache(_Formals)


def numpy_step(function: Callable[..., Any], dynamic: bool) -> Callable[..., Value]:
    """Operator function that runs a numpy function in a step of its own."""

    def call(b: Builder, *values: Any) -> Value:
        given = _formals(function).check(values)
        tensors = list(tensors_in(given))

        def run(*arrays: Array) -> Any:
            source = iter(arrays)
            result = function(*map_leaves(lambda v: next(source) if isinstance(v, Tensor) else v, given))
            if isinstance(result, (tuple, list)):
                return tuple(np.asarray(r) for r in result)
            return np.asarray(result)

        if dynamic:
            return b.dynamic(run, tensors)
        with np.errstate(all="ignore"):
            sample = run(*map(_trial, tensors))
        if isinstance(sample, tuple):
            made: type[tuple[Value, ...]] = tuple if function is fn.gradient else Results
            return made(b.host(run, tensors, [(s.shape, s.dtype) for s in sample]))
        return b.host(run, tensors, [(sample.shape, sample.dtype)])[0]

    lines = (function.__doc__ or "").splitlines()
    call.__doc__ = lines[0] if lines else f"numpy function {function.__name__}."
    return call


def _promoted(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of numbers in the type that PyTorch gives them together: those without dimensions count for less."""

    @functools.wraps(function)
    def run(*values: Any) -> Any:
        kept = promote([element_type(v) for v in values], True)
        return function(*(np.asarray(v).astype(kept) for v in values))

    return run


FIXED: dict[str, Callable[..., Any]] = {
    "_grouped_mm": mx.grouped_product, "as_strided_scatter": ix.as_strided_scatter,
    "bartlett_window": fn.bartlett_window, "block_diag": mx.block_diag,
    "cartesian_prod": mx.cartesian_prod, "combinations": mx.combinations,
    "diagonal_scatter": ix.diagonal_scatter, "eye": fn.eye,
    "fft_fftfreq": fn.frequencies(np.fft.fftfreq), "fft_rfftfreq": fn.frequencies(np.fft.rfftfreq),
    "fill_diagonal": fn.fill_diagonal, "fake_quantize_per_channel_affine": fn.fake_quantize_channels,
    "fake_quantize_per_tensor_affine": fn.fake_quantize,
    "fractional_max_pool2d": fractional_max_pool(2), "fractional_max_pool3d": fractional_max_pool(3), "frexp": np.frexp,
    "blackman_window": fn.window(0.42, 0.5, 0.08), "hamming_window": fn.window(0.54, 0.46),
    "hann_window": fn.window(0.5, 0.5), "gcd": _promoted(np.gcd), "gradient": fn.gradient,
    "histc": fn.histc, "histogram": fn.histogram, "i0": sp.bessel_i0, "igamma": sp.igamma(False),
    "igammac": sp.igamma(True),
    "inverse": np.linalg.inv, "isin": fn.isin, "isreal": np.isreal,
    "kaiser_window": fn.kaiser_window, "lcm": _promoted(np.lcm), "linalg_det": np.linalg.det,
    "linalg_inv": np.linalg.inv, "linalg_matrix_exp": mx.matrix_exp,
    "linalg_matrix_power": np.linalg.matrix_power, "linalg_slogdet": np.linalg.slogdet,
    "linalg_solve": mx.solve, "linalg_solve_triangular": mx.solve_triangular, "linalg_vander": mx.linalg_vander,
    "linspace": fn.linspace, "logcumsumexp": fn.on_lines(fn.logcumsumexp), "logdet": mx.logdet, "logspace": fn.logspace,
    "masked_scatter": ix.masked_scatter, "matrix_H": mx.conjugate_transpose,
    "matrix_exp": mx.matrix_exp,
    "matrix_power": np.linalg.matrix_power, "mvlgamma": sp.mvlgamma,
    "nanquantile": od.quantiles(True), "nextafter": _promoted(np.nextafter), "nonzero_static": fn.nonzero_static,
    "pad_sequence": fn.pad_sequence, "pinverse": lambda x, rcond=1e-15: pinv(x, rcond),
    "polygamma": sp.polygamma,
    "quantile": od.quantiles(False), "scalar_tensor": fn.made, "segment_reduce": ix.segment_reduce,
    "signbit": np.signbit,
    "special_erfcx": sp.erfcx, "special_i0e": sp.bessel_i(0, True), "special_i1": sp.bessel_i(1),
    "special_i1e": sp.bessel_i(1, True), "special_log_ndtr": sp.log_ndtr, "special_ndtri": sp.ndtri,
    "special_modified_bessel_i0": sp.bessel_i(0), "special_modified_bessel_i1": sp.bessel_i(1),
    "special_modified_bessel_k0": sp.bessel_k(0), "special_modified_bessel_k1": sp.bessel_k(1),
    "special_scaled_modified_bessel_k0": sp.bessel_k(0, True),
    "special_scaled_modified_bessel_k1": sp.bessel_k(1, True), "special_i0": sp.bessel_i0,
    "special_gammainc": sp.igamma(False), "special_gammaincc": sp.igamma(True), "special_multigammaln": sp.mvlgamma,
    "special_airy_ai": sp.airy_ai, "special_bessel_j0": sp.bessel_j(0), "special_bessel_j1": sp.bessel_j(1),
    "special_bessel_y0": sp.bessel_y(0), "special_bessel_y1": sp.bessel_y(1),
    "special_spherical_bessel_j0": sp.spherical_bessel_j0,
    **{f"special_{name}": function for name, function in po.POLYNOMIALS.items()},
    "special_polygamma": sp.polygamma, "special_zeta": sp.zeta, "sum_to_size": fn.sum_to_size,
    "triangular_solve": mx.triangular_solve,
    "tril_indices": fn.triangle_indices(np.tril_indices), "triu_indices": fn.triangle_indices(np.triu_indices),
    "vander": lambda x, n=None, increasing=False: np.vander(y := fn.as_summed(x), n, increasing).astype(y.dtype),
}  # fmt: skip
"""TorchScript name -> numpy function whose result has a shape that follows from the shapes of its arguments."""


def _unique(x: Array, sort: bool = True, inverse: bool = False, counts: bool = False) -> tuple[Array, ...]:
    # With places asked for, too, NaN are in the order in which they stand.
    values, _, places, number = np.unique(x, True, return_inverse=True, return_counts=True, equal_nan=False)
    return values, places.reshape(x.shape), number


def _unique_consecutive(
    x: Array, inverse: bool = False, counts: bool = False, dim: int | None = None
) -> tuple[Array, ...]:
    parts = x.reshape(-1) if dim is None else np.moveaxis(x, dim, 0)
    differ = parts[1:] != parts[:-1]
    first = np.concatenate(([True], differ.any(tuple(range(1, parts.ndim)))))[: len(parts)]
    places, number = np.cumsum(first) - 1, np.diff(np.append(np.flatnonzero(first), len(parts)))
    if dim is None:
        return parts[first], places.reshape(x.shape), number
    return np.moveaxis(parts[first], 0, dim), places, number


def _unique_rows(
    x: Array, dim: int, sort: bool = True, inverse: bool = False, counts: bool = False
) -> tuple[Array, ...]:
    values, places, number = np.unique(x, return_inverse=True, return_counts=True, axis=dim, equal_nan=False)
    return values, places.reshape(-1), number


def _bincount(x: Array, weights: Array | None = None, minlength: int = 0) -> Array:
    if x.ndim != 1 or x.dtype.kind not in "iu" or x.min(initial=0) < 0:
        raise ShapeError("what is counted is a line of integers that are not negative", actual=list(x.shape))
    check_numbers(max(int(x.max(initial=0)) + 1, minlength))
    found = np.bincount(x, weights, minlength)
    return found if weights is None or weights.dtype != np.float32 else found.astype(np.float32)


DYNAMIC: dict[str, Callable[..., Any]] = {
    "_unique2": _unique, "argwhere": fn.argwhere, "bincount": _bincount,
    "linalg_tensorinv": np.linalg.tensorinv, "linalg_tensorsolve": tensorsolve,
    "_unique": lambda *v: _unique(*v)[:2], "unique_consecutive": _unique_consecutive, "unique_dim": _unique_rows,
    "unique_dim_consecutive": lambda x, dim, *v: _unique_consecutive(x, dim=dim),
}  # fmt: skip
"""The same for functions whose results have shapes that depend on data, or that a trial run cannot tell."""


@operator("aten::histogramdd", native=False)
def histogramdd(b: Builder, *values: Any) -> Value:
    """Histogram of points, and the edges along each dimension. torch.histogramdd."""
    hist, *edges = numpy_step(fn.histogramdd, False)(b, *values)
    return Results((hist, edges))


for _name, _function in {**FIXED, **FACTORS, **LOSSES}.items():
    operator(f"aten::{_name}", native=False)(numpy_step(_function, False))
for _name, _function in DYNAMIC.items():
    operator(f"aten::{_name}", native=False)(numpy_step(_function, True))
