"""Orthogonal polynomials of whole orders, element by element.

Arrays in, arrays out; :mod:`pnnx_fast.ops.aten_numpy` makes operators of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pnnx_fast._types import Array
from pnnx_fast.errors import ParameterError, ShapeError
from pnnx_fast.expression.types import element_type, promote

__all__ = ["POLYNOMIALS"]

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
        if kept.kind == "c":
            raise ShapeError("complex numbers are not supported", actual=str(kept))
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
