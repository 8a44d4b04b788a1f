"""Special functions of mathematics that numpy lacks: polygamma functions, relatives of the error function, Bessel's.

Arrays in, arrays out, computed in double precision and rounded once; :mod:`pnnx_fast.ops.aten_numpy` makes operators of
them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from pnnx_fast._types import Array
from pnnx_fast.expression.functions import FUNCTIONS
from pnnx_fast.expression.reference import BERNOULLI

__all__ = [
    "bessel_i0", "bessel_i", "bessel_k", "digamma", "entr", "erfcx", "log_ndtr", "mvlgamma", "ndtr", "ndtri",
    "polygamma", "xlog1py", "zeta",
]  # fmt: skip

LARGE = 12.0
"""So many first terms of the zeta function of Hurwitz are added up."""

HIGH_POWER, MANY_TERMS = 500.0, 1000
"""Exponents of the zeta function without its formula; so far below zero it is computed."""

LARGE_BESSEL, LARGE_ERROR = 30.0, 25.0
"""The same for Bessel's functions and the scaled error function."""

STEP_BESSEL = 0.1
"""Width of the trapezoids: their sum converges faster than any power of it."""


def _wide(function: Callable[..., Array]) -> Callable[..., Array]:
    """Compute in double precision; integers count as float32."""

    def run(*args: Array) -> Array:
        arrays = [a for a in args if isinstance(a, (np.ndarray, np.floating))]  # numpy makes numbers of single entries
        kept = np.result_type(*(a.dtype if a.dtype.kind == "f" else np.float32 for a in arrays))
        wide = [a.astype(np.float64) if isinstance(a, (np.ndarray, np.floating)) else a for a in args]
        return np.asarray(function(*wide)).astype(kept)

    run.__doc__ = function.__doc__
    return run


def _function(name: str) -> Callable[[Array], Array]:
    return FUNCTIONS[name].reference


digamma = _wide(FUNCTIONS["digamma"].reference)


def polygamma(n: Any, x: Any) -> Array:
    """n-th derivative of the digamma function, for n > 0 by the zeta function of Hurwitz. A method has n behind x."""
    n, x = (x, n) if isinstance(n, np.ndarray) else (n, x)
    if n == 0:
        return digamma(x)
    factor = (-1.0) ** (n + 1) * math.factorial(n)
    return _wide(lambda v: factor * _zeta(np.asarray(n + 1.0), v))(x)


def _zeta(s: Array, x: Array, terms: int = int(LARGE)) -> Array:
    """Sum of (x + k) ** -s: the first terms, then the Euler-Maclaurin formula."""
    first = np.asarray(sum((x + k) ** -s for k in range(terms)))
    end, factor = x + terms, s
    rest = end ** (1.0 - s) / (s - 1) + 0.5 * end**-s
    for k, number in enumerate(BERNOULLI, start=1):
        rest = rest + number / math.factorial(2 * k) * factor * end ** (1.0 - s - 2 * k)
        factor = factor * (s + 2 * k - 1) * (s + 2 * k)
    # Of powers so high nothing is left, but the formula's factors may be infinite.
    return first + np.where(s < HIGH_POWER, rest, 0.0)


@_wide
def zeta(s: Any, x: Any) -> Array:
    """Hurwitz's zeta function: infinite at its poles, no number outside its domain."""
    s, x = np.broadcast_arrays(*(np.asarray(v, np.float64) for v in (s, x)))
    pole = (s == 1) | ((x <= 0) & (x == np.floor(x)) & ~(s < 1))
    inside = (s > 1) & np.isfinite(x) & ((x > 0) | (s == np.floor(s))) & ~pole
    start = np.where(inside, x, 1.0)
    below = -min(start.min(initial=0.0), 0.0)
    if below > MANY_TERMS:
        raise ValueError(f"zeta of numbers below {-MANY_TERMS}")
    value = _zeta(np.where(inside, s, 2.0), start, int(LARGE + below))
    return np.where(pole, np.inf, np.where(inside, value, np.nan))


@_wide
def bessel_i0(x: Array) -> Array:
    """Modified Bessel function of the first kind, order 0."""
    return np.i0(x)


def bessel_i(order: int, scaled: bool = False) -> Callable[[Array], Array]:
    """Modified Bessel function of the first kind, of order 0 or 1, also times exp(-|x|)."""

    @_wide
    def run(x: Array) -> Array:
        """Modified Bessel function of the first kind."""
        size = np.abs(x)
        near, far = np.minimum(size, LARGE_BESSEL), np.maximum(size, LARGE_BESSEL)
        term = total = (near / 2) ** order
        for k in range(1, 60):
            term = term * (near / 2) ** 2 / (k * (k + order))
            total = total + term
        step = tail = np.ones_like(far)
        for k in range(1, 12):
            step = step * ((2 * k - 1) ** 2 - 4 * order * order) / (8 * k * far)
            tail = tail + step
        tail = tail / np.sqrt(2 * math.pi * far)
        growth = np.exp(size)
        y = np.where(size < LARGE_BESSEL, total / growth if scaled else total, tail if scaled else tail * growth)
        return np.where(np.isnan(x), x, y if order == 0 else np.copysign(y, x))

    return run


def bessel_k(order: int, scaled: bool = False) -> Callable[[Array], Array]:
    """Modified Bessel function of the second kind, also times exp(x): its integral, by trapezoids."""

    @_wide
    def run(x: Array) -> Array:
        """Modified Bessel function of the second kind."""
        known = np.where(x > 0, x, 1.0)
        total = np.full_like(known, 0.5)
        # The terms vanish beyond arccosh(1 + 745 / x), which is at most 111 for what float32 holds.
        end = float(np.arccosh(1 + 745 / max(float(known.min(initial=1.0)), 1e-45)))
        for k in range(1, int(end / STEP_BESSEL) + 2):
            t = k * STEP_BESSEL
            total = total + np.exp(order * math.log(math.cosh(t)) - known * (math.cosh(t) - 1))
        y = total * STEP_BESSEL * (1.0 if scaled else np.exp(-known))
        return np.where(np.isnan(x) | (x < 0), np.nan, np.where(x == 0, np.inf, np.where(np.isinf(x), 0, y)))

    return run


@_wide
def erfcx(x: Array) -> Array:
    """exp(x ** 2) erfc(x), beyond what exp holds by the asymptotic series."""
    near, far = np.minimum(x, LARGE_ERROR), np.maximum(x, LARGE_ERROR)
    tail = (1 - 0.5 / far**2 + 0.75 / far**4) / (far * math.sqrt(math.pi))
    return np.where(x < LARGE_ERROR, np.exp(near * near) * _function("erfc")(near), tail)


@_wide
def log_ndtr(x: Array) -> Array:
    """Logarithm of the area under the normal density up to x."""
    low, high = np.minimum(x, -1.0), np.maximum(x, -1.0)
    return np.where(
        x < -1,
        np.log(erfcx(-low / math.sqrt(2)) / 2) - low * low / 2,
        np.log1p(-_function("erfc")(high / math.sqrt(2)) / 2),
    )


@_wide
def ndtri(x: Array) -> Array:
    """The place up to which the area under the normal density is x."""
    return math.sqrt(2) * _function("erfinv")(2 * x - 1)


@_wide
def xlog1py(x: Array, y: Array) -> Array:
    """x log(1 + y), zero where x is."""
    return np.where(np.isnan(y), y, np.where(x == 0, 0, x * np.log1p(y)))


@_wide
def ndtr(x: Array) -> Array:
    """Area under the normal density up to x."""
    return _function("erfc")(-x / math.sqrt(2)) / 2


@_wide
def entr(x: Array) -> Array:
    """Entropy term -x log(x), zero at zero."""
    return np.where(x > 0, -x * np.log(np.where(x > 0, x, 1)), np.where(x == 0, 0, np.where(np.isnan(x), x, -np.inf)))


def mvlgamma(x: Array, p: int) -> Array:
    """Logarithm of the multivariate gamma function."""
    constant = p * (p - 1) / 4 * math.log(math.pi)
    return _wide(lambda v: sum((_function("lgamma")(v - i / 2) for i in range(p)), np.zeros_like(v)) + constant)(x)
