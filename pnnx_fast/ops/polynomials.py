"""Orthogonal polynomials of whole orders, element by element, and oscillating functions of Bessel and Airy.

Arrays in, arrays out; :mod:`pnnx_fast.ops.aten_numpy` makes operators of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from pnnx_fast._types import Array
from pnnx_fast.errors import ParameterError
from pnnx_fast.expression.types import element_type, promote
from pnnx_fast.ops.special_functions import wide

__all__ = ["POLYNOMIALS", "airy_ai", "bessel_j", "bessel_y", "spherical_bessel_j0"]

# -- polynomials -------------------------------------------------------------------------------------------------

MOST = 1 << 16
"""Highest order: values come by recurrence, and orders may be data."""


def _order(n: Any) -> Array:
    """Orders, without what is behind the point."""
    n = np.trunc(np.asarray(n, np.float64))
    if np.any(n > MOST):
        raise ParameterError(f"orders above {MOST} are not computed", parameter="n")
    return np.where(np.isnan(n), -1, np.maximum(n, -1)).astype(np.int64)


def _polynomial(
    first: Callable[[Array], Array], step: Callable[[Array, Array, Array, int], Array], shifted: bool = False,
    angle: tuple[int, Callable[[Array, Array], Array]] | None = None,
    ends: tuple[Callable[[Array], Array], Callable[[Array], Array]] | None = None,
) -> Callable[[Any, Any], Array]:  # fmt: skip
    """A family by its second member, its recurrence, its form in angles above an order, and its values at both ends.

    Those are the value at 1 and that at -1, which for odd orders has the other sign.
    """

    def run(x: Any, n: Any) -> Array:
        """Polynomial of an order, zero for negative ones."""
        kept = promote([element_type(x), element_type(n)], True)
        kept = kept if kept.kind == "f" else np.dtype(np.float32)
        x, n = np.broadcast_arrays(np.asarray(x).astype(kept), _order(n))
        x = 2 * x - 1 if shifted else x
        before, now = np.ones_like(x), first(x)
        y = np.where(n < 0, 0, np.where(n == 0, before, now))
        for k in range(1, int(n.max(initial=0))):
            before, now = now, step(now, before, x, k).astype(kept)
            y = np.where(n > k, now, y)
            if np.isnan(now).all():
                break
        if angle is not None:
            within = (n > angle[0]) & (np.abs(x) < 1)
            y = np.where(within, angle[1](np.arccos(np.where(within, x, 0).astype(np.float64)), n), y)
        if ends is not None:
            sign = np.where(n % 2 == 0, 1, -1)
            edge = np.where(x > 0, ends[0](n), sign * ends[1](n))
            y = np.where((np.abs(x) == 1) & (n >= 0), edge, y)
        return y.astype(kept)

    return run


def _one(n: Array) -> Array:
    return np.ones_like(n)


def _doubled(now: Array, before: Array, x: Array, k: int) -> Array:
    return 2 * x * now - before


def _ratio(top: Callable[[Array, Array], Array], bottom: Callable[[Array], Array]) -> Callable[[Array, Array], Array]:
    return lambda t, n: top(t, n) / bottom(t)


_CHEBYSHEV: dict[str, tuple[Any, ...]] = {
    "t": (lambda x: x, (6, lambda t, n: np.cos(n * t)), (_one, _one)),
    "u": (
        lambda x: 2 * x, (8, _ratio(lambda t, n: np.sin((n + 1) * t), np.sin)), (lambda n: n + 1, lambda n: n + 1),
    ),
    "v": (
        lambda x: 2 * x - 1, (8, _ratio(lambda t, n: np.cos((n + 0.5) * t), lambda t: np.cos(t / 2))),
        (_one, lambda n: 2 * n + 1),
    ),
    "w": (
        lambda x: 2 * x + 1, (8, _ratio(lambda t, n: np.sin((n + 0.5) * t), lambda t: np.sin(t / 2))),
        (lambda n: 2 * n + 1, _one),
    ),
}  # fmt: skip
"""The four kinds: second member, form in angles, values at the ends."""

POLYNOMIALS: dict[str, Callable[[Any, Any], Array]] = {
    **{
        f"{prefix}chebyshev_polynomial_{kind}": _polynomial(first, _doubled, bool(prefix), angle, ends)
        for kind, (first, angle, ends) in _CHEBYSHEV.items() for prefix in ("", "shifted_")
    },
    "hermite_polynomial_h": _polynomial(lambda x: 2 * x, lambda now, before, x, k: 2 * x * now - 2 * k * before),
    "hermite_polynomial_he": _polynomial(lambda x: x, lambda now, before, x, k: x * now - k * before),
    "laguerre_polynomial_l": _polynomial(
        lambda x: 1 - x, lambda now, before, x, k: ((2 * k + 1 - x) * now - k * before) / (k + 1)
    ),
    "legendre_polynomial_p": _polynomial(
        lambda x: x, lambda now, before, x, k: ((2 * k + 1) * x * now - k * before) / (k + 1), ends=(_one, _one)
    ),
}  # fmt: skip
"""TorchScript name behind "special_" -> function of arguments and orders."""

# -- functions that oscillate ------------------------------------------------------------------------------------

FAR, TERMS = 14.0, 48
"""Where the series in powers hand over to those in inverse powers, and how many terms are added up of the former."""

FAR_AIRY = 7.0
"""The same for Airy's function, to the left; to the right of 1 it is an integral."""

STEP = 0.1
"""Width of the trapezoids of that integral, which converge faster than any power of it."""


def _waves(order: int, x: Array) -> tuple[Array, Array]:
    """Hankel's series: what cosine and sine of the phase are multiplied with, for large numbers."""
    even, odd, term = np.ones_like(x), np.zeros_like(x), np.ones_like(x)
    for k in range(1, 26):
        term = term * (4 * order * order - (2 * k - 1) ** 2) / (8 * k * x)
        if k % 2:
            odd = odd + term * (-1) ** (k // 2)
        else:
            even = even + term * (-1) ** (k // 2)
    return even, odd


def _far(order: int, x: Array, sine: bool) -> Array:
    even, odd = _waves(order, x)
    phase = x - (2 * order + 1) * math.pi / 4
    wave = even * np.sin(phase) + odd * np.cos(phase) if sine else even * np.cos(phase) - odd * np.sin(phase)
    return np.asarray(wave * np.sqrt(2 / (math.pi * x)))


def bessel_j(order: int) -> Callable[[Array], Array]:
    """Bessel function of the first kind, of order 0 or 1."""

    @wide
    def run(x: Array) -> Array:
        """Bessel function of the first kind."""
        size = np.abs(x)
        y = np.where(size < FAR, _near(order, np.minimum(size, FAR))[0], _far(order, np.maximum(size, FAR), False))
        return np.where(np.isnan(x), x, np.where(x < 0, -y, y) if order else y)

    return run


def _near(order: int, x: Array) -> tuple[Array, Array]:
    """The series in powers, and with the harmonic numbers of its terms, which functions of second kind have."""
    term = total = (x / 2) ** order
    harmonic = 1.0 if order else 0.0
    weighted = harmonic * term
    for k in range(1, TERMS):
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
        near = np.minimum(known, FAR)
        first, weighted = _near(order, near)
        y = (2 * (np.log(near / 2) + np.euler_gamma) * first - weighted) / math.pi
        y = y - 2 / (math.pi * near) if order else y
        y = np.where(known < FAR, y, _far(order, np.maximum(known, FAR), True))
        return np.where(x > 0, y, np.where(x == 0, -np.inf, np.nan))

    return run


@wide
def spherical_bessel_j0(x: Array) -> Array:
    """sin(x) / x."""
    return np.where(np.isinf(x), 0, np.sinc(np.where(np.isinf(x), 0, x) / math.pi))


@wide
def airy_ai(x: Array) -> Array:
    """Airy function."""
    near = np.clip(x, -FAR_AIRY, 1)
    even, odd = np.ones_like(near), near
    y = 0.3550280538878172 * even - 0.2588194037928068 * odd
    for k in range(1, TERMS):
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
        t = k * STEP
        total = total + np.exp(-place * (math.cosh(t) - 1)) * math.cosh(t / 3)
    return np.asarray(np.sqrt(x / 3) / math.pi * total * STEP * np.exp(-place))


def _airy_waves(x: Array) -> Array:
    """To the left: a wave and its inverse powers."""
    place = 2 / 3 * x * np.sqrt(x)
    even, odd, term = np.ones_like(x), np.zeros_like(x), np.ones_like(x)
    for k in range(1, 20):
        term = term * (6 * k - 5) * (6 * k - 3) * (6 * k - 1) / (216 * k * (2 * k - 1) * place)
        if k % 2:
            odd = odd + term * (-1) ** (k // 2)
        else:
            even = even + term * (-1) ** (k // 2)
    phase = place - math.pi / 4
    return np.asarray((even * np.cos(phase) + odd * np.sin(phase)) / (math.sqrt(math.pi) * x**0.25))
