"""Special functions of mathematics that numpy lacks: polygamma, relatives of the error function, Bessel's and Airy's.

Arrays in, arrays out, computed in double precision and rounded once; :mod:`pnnx_fast.ops.aten_numpy` makes operators of
them.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from pnnx_fast._types import Array
from pnnx_fast.errors import ParameterError, ShapeError
from pnnx_fast.expression.functions import FUNCTIONS
from pnnx_fast.expression.reference import BERNOULLI
from pnnx_fast.expression.types import element_type, promote

__all__ = [
    "airy_ai", "bessel_i0", "bessel_i", "bessel_j", "bessel_k", "bessel_y", "digamma", "entr", "erfcx", "igamma",
    "log_ndtr", "mvlgamma", "ndtr", "ndtri", "polygamma", "spherical_bessel_j0", "wide", "xlog1py", "zeta",
]  # fmt: skip

TERMS = 12
"""So many first terms of the zeta function of Hurwitz are added up."""

LARGE_BESSEL, LARGE_ERROR = 30.0, 25.0
"""The same for Bessel's functions and the scaled error function."""

SMALL_AREA = 0.02
"""Areas under the normal density below this are found by their logarithm."""

TINY_BESSEL = 1e-8
"""Below this Bessel's functions of the second kind are their leading terms."""

STEP_BESSEL = 0.1
"""Width of the trapezoids: their sum converges faster than any power of it."""


MOST_TERMS = 1 << 14
"""Terms of the series of the incomplete gamma function, and of the sum of the multivariate one."""


LARGE_GAMMA = 1e6
"""From this on the incomplete gamma function is a uniform expansion."""


def wide(function: Callable[..., Array]) -> Callable[..., Array]:
    """Compute in double precision; integers count as float32."""

    @functools.wraps(function)
    def run(*args: Array) -> Array:
        arrays = [a for a in args if isinstance(a, (np.ndarray, np.floating))]  # numpy makes numbers of single entries
        if any(a.dtype.kind == "c" for a in arrays):
            raise ShapeError("complex numbers are not supported", actual=[str(a.dtype) for a in arrays])
        kept = promote(map(element_type, arrays), True)
        kept = kept if kept.kind == "f" else np.dtype(np.float32)
        given = [a.astype(np.float64) if isinstance(a, (np.ndarray, np.floating)) else a for a in args]
        return np.asarray(function(*given)).astype(kept)

    return run


def _function(name: str) -> Callable[[Array], Array]:
    return FUNCTIONS[name].reference


digamma = wide(FUNCTIONS["digamma"].reference)


MOST_FACTORS = 170


def polygamma(n: Any, x: Any) -> Array:
    """n-th derivative of the digamma function, for n > 0 by the zeta function of Hurwitz. A method has n behind x."""
    n, x = (x, n) if isinstance(n, np.ndarray) else (n, x)
    if n == 0:
        return digamma(x)
    if n == 1:
        return trigamma(x)
    # The factorial of a larger number is infinite in double precision, and of a much larger one would never end.
    factor = (-1.0) ** (n + 1) * (math.factorial(n) if n <= MOST_FACTORS else math.inf)
    return wide(lambda v: factor * zeta(n + 1, v))(x)


def trigamma(x: Array) -> Array:
    """First derivative of the digamma function. At its poles PyTorch has what the sine leaves of them."""
    sine = np.sin(np.pi * x if x.dtype == np.float64 else np.float32(np.pi) * x.astype(np.float32)).astype(np.float64)
    low = x < 0.5
    upper = wide(lambda v: _zeta(2.0, np.where(v < 0.5, 1 - v, v)))(x.astype(np.float64))
    y = np.where(low, np.pi**2 / sine**2 - upper, upper)
    return y.astype(x.dtype if x.dtype.kind == "f" else np.float32)


def _zeta(s: Any, x: Array) -> Array:
    """Sum of (x + k) ** -s for positive x: the first terms, then the Euler-Maclaurin formula."""
    s = np.asarray(s, np.float64)
    total = sum((x + k) ** -s for k in range(TERMS))
    end = x + TERMS
    total = total + end ** (1.0 - s) / (s - 1) + 0.5 * end**-s
    factor = s
    for k, number in enumerate(BERNOULLI, start=1):
        power = end ** (1.0 - s - 2 * k)
        total = total + np.where(power == 0, 0, number / math.factorial(2 * k) * factor * power)
        factor = factor * (s + 2 * k - 1) * (s + 2 * k)
    return np.asarray(total)


def _zeta_below(s: Array, x: Array) -> Array:
    """The same sum for x < 0 and whole s: its negative terms are a part of the sum for the distance to zero."""
    beside = x - np.rint(x)  # exact, also next to a pole
    negative = _zeta(s, 1 - beside) - _zeta(s, 1 - x)
    pole = np.where(beside == 0, 1.0, beside) ** -s
    return np.asarray(pole + _zeta(s, 1 + beside) + np.where(s % 2 == 1, -1, 1) * negative)


@wide
def zeta(s: Any, x: Any) -> Array:
    """Zeta function of Hurwitz; for a negative number that is not whole only where the exponent is."""
    s, x = np.broadcast_arrays(np.asarray(s, np.float64), np.asarray(x, np.float64))
    known = (s > 1) & ((x > 0) | ((x != np.floor(x)) & (s == np.floor(s)))) & np.isfinite(x) & ((s < np.inf) | (x <= 1))
    exponent, start = np.where(known, s, 2.0), np.where(known, x, 1.0)
    above, below = np.where(start > 0, start, 1.0), np.where(start > 0, -0.5, start)
    whole = np.where(start > 0, 3.0, exponent)
    y = np.where(start > 0, _zeta(exponent, above), _zeta_below(whole, below))
    pole = (s == 1) | (~(s < 1) & (x <= 0) & (x == np.floor(x)))
    return np.where(known, y, np.where(pole, np.inf, np.nan))


def igamma(upper: bool) -> Callable[[Array, Array], Array]:
    """Regularized incomplete gamma function: the share of the integral up to x, or above it."""

    @wide
    def run(a: Any, x: Any) -> Array:
        """Regularized incomplete gamma function."""
        a, x = np.broadcast_arrays(np.asarray(a, np.float64), np.asarray(x, np.float64))
        usual = (a > 0) & (x > 0) & np.isfinite(a) & np.isfinite(x)
        b, z = np.where(usual, a, 1.0), np.where(usual, x, 1.0)
        large = b > LARGE_GAMMA
        far = _uniform(np.where(large, b, LARGE_GAMMA), np.where(large, z, LARGE_GAMMA), upper)
        b, z = np.where(large, 1.0, b), np.where(large, 1.0, z)
        low = z < b + 1
        scale = np.exp(b * np.log(z) - z - _function("lgamma")(b))
        below = _series(np.where(low, b, 1.0), np.where(low, z, 1.0)) * scale
        above = _fraction(np.where(low, 1.0, b), np.where(low, 3.0, z)) * scale
        y = np.where(low, 1 - below, above) if upper else np.where(low, below, 1 - above)
        y = np.where(large, far, y)
        # Nothing lies below zero, all below infinity; where both are infinite nobody knows.
        all_below = ((a == 0) & (x > 0)) | ((x == np.inf) & (a != np.inf))
        none_below = ((x == 0) & (a != 0)) | ((a == np.inf) & (x != np.inf))
        edge = np.where(all_below, 1.0 - upper, np.where(none_below, float(upper), np.nan))
        return np.where(usual, y, np.where((a < 0) | (x < 0), np.nan, edge))

    return run


def _uniform(a: Array, x: Array, upper: bool) -> Array:
    """The share for large a by the first term of Temme's uniform expansion (https://dlmf.nist.gov/8.12)."""
    away = (x - a) / a
    near = np.abs(away) < 0.01
    small, large = np.where(near, away, 0.0), np.where(near, 1.0, away)
    half = small**2 * sum((-small) ** k / (k + 2) for k in range(10))  # away - log(1 + away)
    half = np.where(near, half, large - np.log1p(large))
    eta = np.copysign(np.sqrt(2 * half), away)
    known = np.where(near, 1.0, eta)
    first = np.where(near, -1 / 3 + eta / 12 - 2 * eta**2 / 135, 1 / large - 1 / known)
    sign = 1 if upper else -1
    rest = np.exp(-a * half) / np.sqrt(2 * math.pi * a) * first
    return np.asarray(_function("erfc")(sign * eta * np.sqrt(a / 2)) / 2 + sign * rest)


def _series(a: Array, x: Array) -> Array:
    """Sum of x ** k / (a (a + 1) … (a + k)), for x < a + 1."""
    term = total = 1 / a
    for k in range(1, MOST_TERMS):
        term = term * x / (a + k)
        total = total + term
        if not np.any(term > total * 1e-17):
            break
    return np.asarray(total)


def _fraction(a: Array, x: Array) -> Array:
    """The continued fraction of the upper integral, for x >= a + 1, by Lentz's method."""
    b = x + 1 - a
    c, d = np.full_like(b, 1e300), 1 / b
    y = d
    for k in range(1, MOST_TERMS):
        factor = k * (a - k)
        b = b + 2
        d = 1 / (factor * d + b)
        c = b + factor / c
        y = y * c * d
        if not np.any(np.abs(c * d - 1) > 1e-15):
            break
    return np.asarray(y)


@wide
def bessel_i0(x: Array) -> Array:
    """Modified Bessel function of the first kind, order 0."""
    return np.i0(x)


def bessel_i(order: int, scaled: bool = False) -> Callable[[Array], Array]:
    """Modified Bessel function of the first kind, of order 0 or 1, also times exp(-|x|)."""

    @wide
    def run(x: Array) -> Array:
        """Modified Bessel function of the first kind."""
        size = np.abs(x)
        near, far = np.minimum(size, LARGE_BESSEL), np.maximum(size, LARGE_BESSEL)
        term = total = (near / 2) ** order
        for k in range(1, 60):
            term = term * (near / 2) ** 2 / (k * (k + order))
            total = total + term
        tail = _expansion(order, far, 1) / np.sqrt(2 * math.pi * far)
        growth = np.exp(size)
        y = np.where(size < LARGE_BESSEL, total / growth if scaled else total, tail if scaled else tail * growth)
        return np.where(np.isnan(x), x, y if order == 0 else np.copysign(y, x))

    return run


def _expansion(order: int, x: Array, sign: int) -> Array:
    """The asymptotic series of modified Bessel functions, in which signs stay (first kind) or alternate (second)."""
    step = total = np.ones_like(x)
    for k in range(1, 12):
        step = step * sign * ((2 * k - 1) ** 2 - 4 * order * order) / (8 * k * x)
        total = total + step
    return total


def bessel_k(order: int, scaled: bool = False) -> Callable[[Array], Array]:
    """Modified Bessel function of the second kind, also times exp(x): its integral, by trapezoids."""

    @wide
    def run(x: Array) -> Array:
        """Modified Bessel function of the second kind."""
        known = np.where((x > 0) & (x < np.inf), x, 1.0)
        near, far = np.clip(known, TINY_BESSEL, LARGE_BESSEL), np.maximum(known, LARGE_BESSEL)
        total = np.full_like(near, 0.5)
        # The terms vanish beyond arccosh(1 + 745 / x).
        end = float(np.arccosh(1 + 745 / float(near.min(initial=1.0))))
        for k in range(1, int(end / STEP_BESSEL) + 2):
            t = k * STEP_BESSEL
            total = total + np.exp(order * math.log(math.cosh(t)) - near * (math.cosh(t) - 1))
        tail = _expansion(order, far, -1) * np.sqrt(math.pi / (2 * far))
        y = np.where(known < LARGE_BESSEL, total * STEP_BESSEL, tail) * (1.0 if scaled else np.exp(-known))
        first = 1 / known if order else -np.log(known / 2) - np.euler_gamma
        y = np.where(known < TINY_BESSEL, first, y)
        return np.where(np.isnan(x) | (x < 0), np.nan, np.where(x == 0, np.inf, np.where(np.isinf(x), 0, y)))

    return run


@wide
def erfcx(x: Array) -> Array:
    """exp(x ** 2) erfc(x), beyond what exp holds by the asymptotic series."""
    near, far = np.minimum(x, LARGE_ERROR), np.maximum(x, LARGE_ERROR)
    square = 1 / (2 * far * far)
    tail = (1 - square * (1 - 3 * square * (1 - 5 * square * (1 - 7 * square)))) / (far * math.sqrt(math.pi))
    return np.where(x < LARGE_ERROR, np.exp(near * near) * _function("erfc")(near), tail)


@wide
def log_ndtr(x: Array) -> Array:
    """Logarithm of the area under the normal density up to x."""
    low, high = np.minimum(x, -1.0), np.maximum(x, -1.0)
    return np.where(
        x < -1,
        np.log(erfcx(-low / math.sqrt(2)) / 2) - low * low / 2,
        np.log1p(-_function("erfc")(high / math.sqrt(2)) / 2),
    )


@wide
def ndtri(x: Array) -> Array:
    """The place up to which the area under the normal density is x."""
    low = np.where((x > 0) & (x < SMALL_AREA), x, SMALL_AREA)
    y = np.where((x < 0) | (x > 1), np.nan, math.sqrt(2) * _function("erfinv")(2 * x - 1))
    return np.where((x > 0) & (x < SMALL_AREA), _ndtri_below(low), y)


def _ndtri_below(x: Array) -> Array:
    """The same of a small area, whose logarithm is compared by Newton's method."""
    wanted = np.log(x)
    y = -np.sqrt(-2 * wanted - np.log(-4 * math.pi * wanted))
    for _ in range(5):
        found = log_ndtr(y)
        y = y - (found - wanted) * np.exp(found + y * y / 2) * math.sqrt(2 * math.pi)
    return np.asarray(y)


@wide
def xlog1py(x: Array, y: Array) -> Array:
    """x log(1 + y), zero where x is."""
    return np.where(np.isnan(y), y, np.where(x == 0, 0, x * np.log1p(y)))


@wide
def ndtr(x: Array) -> Array:
    """Area under the normal density up to x."""
    return _function("erfc")(-x / math.sqrt(2)) / 2


@wide
def entr(x: Array) -> Array:
    """Entropy term -x log(x), zero at zero."""
    return np.where(x > 0, -x * np.log(np.where(x > 0, x, 1)), np.where(x == 0, 0, np.where(np.isnan(x), x, -np.inf)))


def mvlgamma(x: Array, p: int) -> Array:
    """Logarithm of the multivariate gamma function."""
    if not isinstance(p, int) or not 1 <= p <= MOST_TERMS:
        raise ParameterError(f"p must be an integer from 1 to {MOST_TERMS}, not {p!r}", parameter="p")
    constant = p * (p - 1) / 4 * math.log(math.pi)
    return wide(lambda v: sum((_function("lgamma")(v - i / 2) for i in range(p)), np.zeros_like(v)) + constant)(x)


# -- functions that oscillate ------------------------------------------------------------------------------------

FAR_BESSEL, TERMS_NEAR = 14.0, 48
"""Where the series in powers hand over to those in inverse powers, and how many terms are added up of the former."""

FAR_AIRY = 7.0
"""The same for Airy's function, to the left; to the right of 1 it is an integral."""

STEP_AIRY = 0.1
"""Width of the trapezoids of that integral, which converge faster than any power of it."""


def _waves(ratios: Iterable[tuple[int, Array]], x: Array) -> tuple[Array, Array]:
    """Sums of the even and the odd terms of a series with signs by turns; ratios lead from each term to the next."""
    sums, term = [np.ones_like(x), np.zeros_like(x)], np.ones_like(x)
    for k, (above, below) in enumerate(ratios, 1):
        term = term * above / below
        sums[k % 2] = sums[k % 2] + term * (-1) ** (k // 2)
    return sums[0], sums[1]


def _far(order: int, x: Array, sine: bool) -> Array:
    """Hankel's series, for large numbers."""
    even, odd = _waves(((4 * order * order - (2 * k - 1) ** 2, 8 * k * x) for k in range(1, 26)), x)
    phase = x - (2 * order + 1) * math.pi / 4
    wave = even * np.sin(phase) + odd * np.cos(phase) if sine else even * np.cos(phase) - odd * np.sin(phase)
    return np.asarray(wave * np.sqrt(2 / (math.pi * x)))


def bessel_j(order: int) -> Callable[[Array], Array]:
    """Bessel function of the first kind, of order 0 or 1."""

    @wide
    def run(x: Array) -> Array:
        """Bessel function of the first kind."""
        size = np.abs(x)
        y = np.where(
            size < FAR_BESSEL,
            _near(order, np.minimum(size, FAR_BESSEL))[0],
            _far(order, np.maximum(size, FAR_BESSEL), False),
        )
        return np.where(np.isnan(x), x, np.where(x < 0, -y, y) if order else y)

    return run


def _near(order: int, x: Array) -> tuple[Array, Array]:
    """The series in powers, and with the harmonic numbers of its terms, which functions of second kind have."""
    term = total = (x / 2) ** order
    harmonic = 1.0 if order else 0.0
    weighted = harmonic * term
    for k in range(1, TERMS_NEAR):
        term = term * -((x / 2) ** 2) / (k * (k + order))
        harmonic += 1 / k + 1 / (k + 1) if order else 2 / k
        total, weighted = total + term, weighted + harmonic * term
    return total, weighted


def bessel_y(order: int) -> Callable[[Array], Array]:
    """Bessel function of the second kind, of order 0 or 1."""

    @wide
    def run(x: Array) -> Array:
        """Bessel function of the second kind."""
        known = np.where(x > 0, x, 1.0)
        near = np.minimum(known, FAR_BESSEL)
        first, weighted = _near(order, near)
        y = (2 * (np.log(near / 2) + np.euler_gamma) * first - weighted) / math.pi
        y = y - 2 / (math.pi * near) if order else y
        y = np.where(known < FAR_BESSEL, y, _far(order, np.maximum(known, FAR_BESSEL), True))
        return np.where(x > 0, y, np.where(x == 0, -np.inf, np.nan))

    return run


@wide
def spherical_bessel_j0(x: Array) -> Array:
    """sin(x) / x."""
    known = np.where(np.isinf(x) | (x == 0), 1, x)
    return np.where(np.isinf(x), 0, np.where(x == 0, 1, np.sin(known) / known))


@wide
def airy_ai(x: Array) -> Array:
    """Airy function."""
    near = np.clip(x, -FAR_AIRY, 1)
    even, odd = np.ones_like(near), near
    y = 0.3550280538878172 * even - 0.2588194037928068 * odd
    for k in range(1, TERMS_NEAR):
        even = even * near**3 / ((3 * k - 1) * 3 * k)
        odd = odd * near**3 / (3 * k * (3 * k + 1))
        y = y + 0.3550280538878172 * even - 0.2588194037928068 * odd
    y = np.where(x > 1, _airy_decay(np.where(x > 1, x, 1)), y)
    y = np.where(x < -FAR_AIRY, _airy_waves(np.where(x < -FAR_AIRY, -x, FAR_AIRY)), y)
    return np.where(np.isfinite(x), y, np.nan)


def _airy_decay(x: Array) -> Array:
    """To the right: a modified Bessel function of the second kind, by its integral."""
    place = 2 / 3 * x * np.sqrt(x)
    total = np.full_like(x, 0.5)
    for k in range(1, 80):
        t = k * STEP_AIRY
        total = total + np.exp(-place * (math.cosh(t) - 1)) * math.cosh(t / 3)
    return np.asarray(np.sqrt(x / 3) / math.pi * total * STEP_AIRY * np.exp(-place))


def _airy_waves(x: Array) -> Array:
    """To the left: a wave and its inverse powers."""
    place = 2 / 3 * x * np.sqrt(x)
    ratios = (((6 * k - 5) * (6 * k - 3) * (6 * k - 1), 216 * k * (2 * k - 1) * place) for k in range(1, 20))
    even, odd = _waves(ratios, x)
    phase = place - math.pi / 4
    return np.asarray((even * np.cos(phase) + odd * np.sin(phase)) / (math.sqrt(math.pi) * x**0.25))
