"""Prints vmath_coefficients.h: minimax polynomials and quotients of polynomials for the vector functions.

Usage: ``python vmath_coefficients.py > vmath_coefficients.h`` (needs numpy and mpmath), and for polynomials of doubles
(`DOUBLES`) ``python vmath_coefficients.py doubles > vmath_coefficients_f64.h``. Each row of `TABLE` names a
function g that remains when the known first terms of a series are taken away, the interval, the degrees, and the
weight that turns an error of g into the relative error of the result.

The fit is weighted least squares whose weights are raised where the error is large (Lawson), with the denominator of
the step before as a further weight (Sanathanan and Koerner). Coefficients are rounded to float32 one at a time, lowest
first, and those that remain are fitted again, so that rounding of the leading ones costs nothing.

Where vectors can look numbers up in registers, short polynomials on many pieces are cheaper: `PIECES`.
So are roots of two.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass

import mpmath as mp
import numpy as np
import numpy.typing as npt

Vector = npt.NDArray[np.float64]
mp.mp.dps = 40


@dataclass(frozen=True)
class Row:
    """One approximation g(z) = (lead + P(z)) / (1 + z·Q(z)), z = x or x² as the function wants it.

    ``first``: P(0), where that is not free.
    """

    name: str
    comment: str
    g: Callable[[mp.mpf], mp.mpf]
    weight: Callable[[mp.mpf], mp.mpf]
    z: Callable[[mp.mpf], mp.mpf]
    low: float
    high: float
    numerator: int
    denominator: int = 0
    lead: float = 0.0
    first: float = np.nan


def _square(x: mp.mpf) -> mp.mpf:
    return x * x


def _same(x: mp.mpf) -> mp.mpf:
    return x


def _odd(f: Callable[[mp.mpf], mp.mpf], name: str, comment: str, high: float, degree: int) -> Row:
    """An odd function as x + x³·P(x²)."""
    return Row(name, comment, lambda x: (f(x) - x) / x**3, lambda x: x**3 / f(x), _square, 1e-3, high, degree)


def _of_half(
    f: Callable[[mp.mpf], mp.mpf], rest: Callable[[mp.mpf], mp.mpf], name: str, comment: str, high: float,
    numerator: int, denominator: int, first: float = np.nan,
) -> Row:  # fmt: skip
    """The t with f = 2t / (1 + t²), given 1 - f². What an error of t does to f vanishes where f tends to 1."""

    def half(x: mp.mpf) -> mp.mpf:
        return f(x) / (1 + mp.sqrt(rest(x)))

    return Row(
        name, f"{comment} x = 2t / (1 + t²), 2t = x (1 + P(x²)) / Q(x²)", lambda x: 2 * half(x) / x,
        lambda x: x / (2 * half(x)) * mp.sqrt(rest(x)), _square, 1e-3, high, numerator, denominator, 1.0, first,
    )  # fmt: skip


TABLE = [
    Row("EXP", "exp x = 1 + x + x² P(x)", lambda x: (mp.expm1(x) - x) / x**2, lambda x: x**2 / mp.exp(x), _same,
        -0.3467, 0.3467, 4),
    Row("EXP_SHORT", "exp x = 1 + x P(x)", lambda x: mp.expm1(x) / x, lambda x: x / mp.exp(x), _same,
        -0.3467, 0.3467, 4),
    Row("EXP2", "2^x = 1 + x P(x)", lambda x: mp.expm1(x * mp.log(2)) / x, lambda x: x / mp.mpf(2) ** x, _same,
        -0.5002, 0.5002, 4),
    Row("EXPM1", "exp x - 1 = x + x² P(x)", lambda x: (mp.expm1(x) - x) / x**2, lambda x: x**2 / mp.expm1(x), _same,
        -0.3467, 0.3467, 5),
    Row("LOG", "log(1 + x) = x - x²/2 + x³ P(x)", lambda x: (mp.log1p(x) - x + x**2 / 2) / x**3,
        lambda x: x**3 / mp.log1p(x), _same, -0.29290, 0.41422, 8),
    _odd(mp.sin, "SIN", "sin x = x + x³ P(x²)", 0.7855, 2),
    Row("COS", "cos x = 1 - x²/2 + x⁴ P(x²)", lambda x: (mp.cos(x) - 1 + x**2 / 2) / x**4, lambda x: x**4 / mp.cos(x),
        _square, 2e-3, 0.7855, 2),
    _odd(mp.asin, "ASIN", "asin x = x + x³ P(x²)", 0.5, 4),
    _odd(mp.atan, "ATAN", "atan x = x + x³ P(x²)", 0.41422, 3),
    _odd(mp.sinh, "SINH", "sinh x = x + x³ P(x²)", 1.0, 3),
    _of_half(mp.tanh, lambda x: 1 / mp.cosh(x) ** 2, "TANH", "tanh", 9.1, 2, 3, 0.0),
    _of_half(mp.erf, lambda x: mp.erfc(x) * (1 + mp.erf(x)), "ERF", "erf", 4.0, 3, 4),
    Row("GELU", "erfc(x/√2)/2 = exp(-x²/2) P(x)/Q(x)", lambda x: mp.erfc(x / mp.sqrt(2)) * mp.exp(x * x / 2) / 2,
        lambda x: 2 / (mp.erfc(x / mp.sqrt(2)) * mp.exp(x * x / 2)), _same, 0.0, 14.5, 4, 5),
]  # fmt: skip


@dataclass(frozen=True)
class Pieces:
    """g(x) for x <= 0 as a polynomial of x + i·width around each multiple of the width; zero around the last."""

    name: str
    comment: str
    g: Callable[[mp.mpf], mp.mpf]
    width: float
    count: int
    degree: int


PIECES = Pieces("GELU", "erfc(-x/√2)/2", lambda x: mp.erfc(-x / mp.sqrt(2)) / 2, 7 / 32, 32, 6)


def _through_nodes(g: Callable[[mp.mpf], mp.mpf], low: mp.mpf, high: mp.mpf, count: int) -> list[float]:
    """Polynomial through the Chebyshev points of an interval, lowest power first."""
    nodes = [(low + high) / 2 + (high - low) / 2 * mp.cospi((k + mp.mpf(1) / 2) / count) for k in range(count)]
    matrix = mp.matrix(count, count)
    values = mp.matrix(count, 1)
    for r, d in enumerate(nodes):
        values[r] = g(d)
        for k in range(count):
            matrix[r, k] = d**k
    return [float(c) for c in mp.lu_solve(matrix, values)]


def _interpolate(pieces: Pieces, index: int) -> list[float]:
    """Polynomial of a piece."""
    width = mp.mpf(pieces.width)
    found = _through_nodes(
        lambda d: pieces.g(d - index * width), -width / 2, width / 2 if index else mp.mpf(0), pieces.degree + 1
    )
    return [float(np.float32(c)) for c in found]


def _inverse_near(w: mp.mpf) -> mp.mpf:
    """erfinv(x) / x where 1 - x² = exp(-w)."""
    x = mp.sqrt(-mp.expm1(-max(w, mp.mpf(10) ** -20)))
    return mp.erfinv(x) / x


def _inverse_far(s: mp.mpf) -> mp.mpf:
    """erfinv(x) / x where 1 - x² = exp(-s²), by Newton's method on erfc."""
    square = mp.exp(-s * s)
    x, y = mp.sqrt(1 - square), s
    for _ in range(12):
        y += (mp.erfc(y) - square / (1 + x)) * mp.sqrt(mp.pi) / 2 * mp.exp(y * y)
    return y / x


DOUBLES = [
    ("ERFINV_NEAR", "erfinv(x)/x of w = -log(1 - x²)", _inverse_near, 0.0, 6.25, 24),
    ("ERFINV_MIDDLE", "erfinv(x)/x of √w", _inverse_far, 2.5, 4.0, 18),
    ("ERFINV_FAR", "erfinv(x)/x of √w", _inverse_far, 4.0, 6.0625, 18),
    ("ERFINV_NEAR_SHORT", "for floats: erfinv(x)/x of w", _inverse_near, 0.0, 6.25, 14),
    ("ERFINV_MIDDLE_SHORT", "for floats: erfinv(x)/x of √w", _inverse_far, 2.5, 4.0, 10),
]
"""Name, comment, function, interval and number of coefficients; the variable runs from -1 to 1 over the interval."""


def _print_doubles() -> None:
    print("/* Printed by vmath_coefficients.py doubles; lowest power first, of (x - middle) / half the width. */")
    print("#ifndef PF_KERNELS_VMATH_COEFFICIENTS_F64_H\n#define PF_KERNELS_VMATH_COEFFICIENTS_F64_H\n")
    for name, comment, g, low, high, count in DOUBLES:
        middle, half = (mp.mpf(low) + high) / 2, (mp.mpf(high) - low) / 2
        found = _through_nodes(lambda t, g=g, m=middle, h=half: g(m + h * t), mp.mpf(-1), mp.mpf(1), count)
        print(f"/* {comment} on [{low:g}, {high:g}] */")
        print(f"static const double PF_{name}[] = {{{', '.join(map(repr, found))}}};")
    print("\n#endif")


def _grid(row: Row, count: int = 1500) -> tuple[Vector, Vector, Vector]:
    angles = np.cos(np.pi * (np.arange(count) + 0.5) / count)
    points = [mp.mpf(float(v)) for v in (row.low + row.high) / 2 + (row.high - row.low) / 2 * angles]
    points = [x if abs(x) > 1e-6 else mp.mpf(1e-6) for x in points]
    columns = ([float(f(x)) for x in points] for f in (row.z, row.g, row.weight))
    z, g, w = (np.array(c) for c in columns)
    return z, g, np.abs(w)


def _fit(z: Vector, g: Vector, w: Vector, row: Row, fixed: Vector) -> Vector:
    """Coefficients of numerator and denominator; entries of `fixed` that are not NaN stay."""
    basis = np.stack([z**k for k in range(row.numerator + 1)], 1)
    lower = np.stack([-g * z**k for k in range(1, row.denominator + 1)], 1) if row.denominator else basis[:, :0]
    matrix = np.hstack([basis, lower])
    free = np.isnan(fixed)
    result, best = fixed.copy(), np.inf
    lawson, below = np.ones_like(z), np.ones_like(z)
    found = np.where(free, 0.0, fixed)
    for _ in range(60):
        scale = w / below * np.sqrt(lawson)
        columns = matrix * scale[:, None]
        norm = np.linalg.norm(columns[:, free], axis=0)
        target = (g - row.lead) * scale - columns[:, ~free] @ fixed[~free]
        found[free] = np.linalg.lstsq(columns[:, free] / norm, target, rcond=None)[0] / norm
        below = 1 + sum(found[row.numerator + k] * z**k for k in range(1, row.denominator + 1))
        error = np.abs(w * ((row.lead + basis @ found[: row.numerator + 1]) / below - g))
        if error.max() < best:
            best, result = error.max(), found.copy()
        lawson = lawson * (error / error.max() + 1e-3)
        lawson /= lawson.max()
    return result


def coefficients(row: Row) -> tuple[Vector, Vector, float]:
    """float32 coefficients of P and Q, lowest first, and the largest weighted error."""
    z, g, w = _grid(row)
    fixed = np.full(row.numerator + 1 + row.denominator, np.nan)
    fixed[0] = row.first
    order = sorted(range(len(fixed)), key=lambda i: i if i <= row.numerator else i - row.numerator - 0.5)
    for index in order[0 if np.isnan(row.first) else 1 :]:
        fixed[index] = np.float32(_fit(z, g, w, row, fixed)[index])
    p, q = fixed[: row.numerator + 1], np.concatenate([[1.0], fixed[row.numerator + 1 :]])
    value = (row.lead + np.polyval(p[::-1], z)) / np.polyval(q[::-1], z)
    return p, q, float(np.abs(w * (value - g)).max())


def _print_roots(bits: int) -> None:
    """Print a table of 2^(i / n) for n = 2^bits, and 2^r - 1 between two entries.

    Shifting n count + i to the exponent and adding it multiplies by 2^n: entries lack what their i adds there.
    """
    count = 1 << bits
    half = 0.5 / count
    row = Row(
        "ROOT_EXCESS", "2^x = 1 + x P(x)", lambda x: mp.expm1(x * mp.log(2)) / x, lambda x: x, _same, -half, half, 2
    )
    p, _, error = coefficients(row)
    print(f"/* {row.comment} on [-1/{2 * count}, 1/{2 * count}], error {error:.1e} */")
    print(
        f"static const float PF_{row.name}_P[] __attribute__((unused)) = {{{', '.join(f'{_literal(v)}f' for v in p)}}};"
    )
    roots = np.array([float(mp.mpf(2) ** (mp.mpf(i) / count)) for i in range(count)]).astype(np.float32).view(np.int32)
    entries = ", ".join(f"0x{int(root) - (i << (23 - bits)):08x}" for i, root in enumerate(roots))
    print(f"static const int32_t PF_ROOTS[{count}] __attribute__((unused, aligned(64))) = {{{entries}}};")


def _literal(value: float) -> str:
    text = f"{value:.9g}"
    return text if "." in text or "e" in text else f"{text}.0"


def main() -> None:
    """Print the header."""
    print("/* Printed by vmath_coefficients.py; lowest power first. */")
    print("#ifndef PF_KERNELS_VMATH_COEFFICIENTS_H\n#define PF_KERNELS_VMATH_COEFFICIENTS_H\n")
    for row in TABLE:
        p, q, error = coefficients(row)
        print(f"/* {row.comment} on [{row.low:g}, {row.high:g}], error {error:.1e} */")
        for suffix, values in (("P", p), ("Q", q)):
            if suffix == "P" or row.denominator:
                text = ", ".join(f"{_literal(v)}f" for v in values)
                print(f"static const float PF_{row.name}_{suffix}[] __attribute__((unused)) = {{{text}}};")
    polynomials = [_interpolate(PIECES, i) for i in range(PIECES.count - 1)] + [[0.0] * (PIECES.degree + 1)]
    print(f"/* {PIECES.comment} on pieces of {PIECES.width}: rows by power, columns by piece. */")
    sizes = f"[{PIECES.degree + 1}][{PIECES.count}]"
    print(f"static const float PF_{PIECES.name}_PIECES{sizes} __attribute__((unused)) = {{")
    for power in zip(*polynomials, strict=True):
        print("{" + ", ".join(f"{_literal(v)}f" for v in power) + "},")
    print("};")
    for condition, bits in (("if PF_VL == 16", 4), ("elif PF_VL == 8", 3)):
        print(f"#{condition}")
        _print_roots(bits)
    print("#endif\n\n#endif")


if __name__ == "__main__":
    if sys.argv[1:] == ["doubles"]:
        _print_doubles()
    else:
        main()
