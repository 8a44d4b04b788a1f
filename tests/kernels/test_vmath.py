"""Vector mathematics: the error bounds that vmath.h and vmath_trig.h promise, over the range of float32."""

from __future__ import annotations

import math
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from test_expression import run

from pnnx_fast.expression import evaluate

KERNELS = Path(__file__).parents[2] / "csrc/kernels"

# Units in the last place, where the result is a normal number.
BOUNDS = {
    "exp": 1.01, "exp2": 1.01, "log": 1, "erf": 5, "expm1": 2, "log2": 2, "log10": 2, "sinh": 2, "cosh": 2, "acos": 2,
    "log1p": 3, "sigmoid": 3, "silu": 4, "tanh": 5, "softplus": 3, "logsigmoid": 3, "hardsigmoid": 3, "hardswish": 3,
    "sin": 3, "cos": 3, "asin": 3, "atan": 3, "asinh": 3, "acosh": 3, "tan": 4, "atanh": 4, "mish": 5, "sqrt": 0.51,
    "rsqrt": 1.5, "reciprocal": 0.51,
}  # fmt: skip


def samples(count=60_000):
    """Values of every exponent and sign, denormals and specials among them, and dense ones round zero."""
    rng = np.random.default_rng(0)
    bits = rng.integers(0, 2**32, count, dtype=np.uint32).view(np.float32)
    dense = [rng.uniform(-h, h, count // 4) for h in (0.5, 1.0, 4.0, 20.0, 110.0, 8000.0)]
    special = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 1e-45, -1e-45, 3.4028235e38, -3.4028235e38]
    with np.errstate(invalid="ignore", over="ignore"):
        return np.concatenate([bits, *(d.astype(np.float32) for d in dense), np.float32(special)])


X = samples()


def exact(name, x):
    with np.errstate(all="ignore"):
        return np.asarray(evaluate(f"{name}(@0)", [x.astype(np.float64)]))


def errors(got, want, least=1.17549435e-38):
    """Distance in units in the last place of the exact result, where that is not tiny; checks the special ones."""
    with np.errstate(over="ignore"):
        rounded = want.astype(np.float32)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
    infinite = np.isinf(rounded)
    np.testing.assert_array_equal(np.sign(got[infinite]), np.sign(rounded[infinite]))
    assert (np.abs(got[infinite]) > 3.4e38).all()
    normal = np.isfinite(rounded) & (np.abs(rounded) >= least) & np.isfinite(got)
    spacing = np.exp2(np.frexp(rounded[normal].astype(np.float64))[1] - 24.0)
    return np.abs(got[normal].astype(np.float64) - want[normal]) / spacing


@pytest.mark.parametrize("name", sorted(BOUNDS))
def test_error_bound(isa, name):
    x = X[::40] if name == "erf" else X
    # These two multiply by an exponential that is denormal when the result is below 1e-36.
    least = 1e-36 if name in ("silu", "mish") else 1.17549435e-38
    error = errors(run(isa, f"{name}(@0)", [x]), exact(name, x), least)
    assert error.max(initial=0) <= BOUNDS[name]


@pytest.mark.parametrize("name", ["exp", "exp2", "sigmoid"])
def test_denormal_results(isa, name):
    x = np.float32(np.linspace(-150 if name == "exp2" else -104, -126 if name == "exp2" else -87.4, 5000))
    got, want = run(isa, f"{name}(@0)", [x]), exact(name, x)
    assert np.abs(got.astype(np.float64) - want).max() <= 1.5 * 2.0**-149


@pytest.mark.parametrize("name", ["tanh", "erf"])
def test_functions_that_tend_to_one(isa, name):
    near = np.linspace(3.5, 9.5, 300_000, dtype=np.float32)
    assert run(isa, f"{name}(@0)", [np.concatenate([near, -near])]).max() == 1
    assert run(isa, f"{name}(@0)", [np.concatenate([near, -near])]).min() == -1
    far = np.float32([9.1, 10, 3e38, np.inf])
    np.testing.assert_array_equal(run(isa, f"{name}(@0)", [np.concatenate([far, -far])]), [1] * 4 + [-1] * 4)
    zeros = run(isa, f"{name}(@0)", [np.float32([0.0, -0.0])])
    np.testing.assert_array_equal(np.signbit(zeros), [False, True])


def test_gelu(isa):
    x = np.sort(X[(np.abs(X) < 13.5)])[::30]
    want = np.array([0.5 * v * math.erfc(-v * math.sqrt(0.5)) for v in x.astype(np.float64).tolist()])
    got = run(isa, "gelu(@0)", [x])
    large = np.abs(want) > 1e-7
    assert errors(got[large], want[large]).max() <= (12 if isa == "generic" else 5)
    normal = np.abs(want) > (9e-11 if isa.startswith("avx512") else 1.2e-38)
    assert (np.abs(got - want)[normal] <= 1e-5 * np.abs(want[normal])).all()
    assert (np.abs(got - want)[~normal] <= 9e-11).all()
    special = run(isa, "gelu(@0)", [np.float32([np.inf, -np.inf, np.nan, 1e38, -1e38, -0.0])])
    np.testing.assert_array_equal(special, np.float32([np.inf, np.nan, np.nan, 1e38, 0, 0]))


def test_gelu_tanh(isa):
    x = X[(np.abs(X) < 9.5)]
    want = exact("gelu_tanh", x)
    normal = np.abs(want) > 1.2e-38
    assert (np.abs(run(isa, "gelu_tanh(@0)", [x]) - want)[normal] <= 2e-5 * np.abs(want[normal])).all()


def test_atan2(isa):
    rng = np.random.default_rng(1)
    finite = X[np.isfinite(X)]
    y, x = rng.permutation(finite)[:50_000], rng.permutation(finite)[:50_000]
    special = np.float32([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 3e38, 1e-45])
    y, x = np.concatenate([y, np.repeat(special, 9)]), np.concatenate([x, np.tile(special, 9)])
    want = np.arctan2(y.astype(np.float64), x.astype(np.float64))
    got = run(isa, "atan2(@0,@1)", [y, x])
    assert errors(got, want).max() <= 4
    np.testing.assert_array_equal(np.signbit(got[~np.isnan(want)]), np.signbit(want[~np.isnan(want)]))


def test_hypot(isa):
    rng = np.random.default_rng(3)
    x, y = rng.permutation(X)[:50_000], rng.permutation(X)[:50_000]
    with np.errstate(all="ignore"):
        near = x * np.float32(rng.uniform(0.5, 2, len(x)))
    special = np.float32([0.0, -0.0, 1.0, np.inf, -np.inf, np.nan, 3e38, 1e-45, 1e-19])
    x, y = np.concatenate([x, x, np.repeat(special, 9)]), np.concatenate([y, near, np.tile(special, 9)])
    with np.errstate(all="ignore"):
        want = np.hypot(x.astype(np.float64), y.astype(np.float64))
        assert errors(run(isa, "hypot(@0,@1)", [x, y]), want).max() <= 2
        wide = [(v.astype(np.float64) * 2.0**k) for v, k in ((x, 880), (y, 880))]
        for factor in (1.0, 2.0**-1800, 2.0**-880):
            given = [v * factor for v in wide]
            np.testing.assert_allclose(run(isa, "hypot(@0,@1)", given), np.hypot(*given), 4e-16, 1e-323)


def test_complement_of_error_function(isa):
    x = np.float32(np.linspace(-5, 9.19, 30_000))
    want = np.array([math.erfc(v) for v in x.astype(np.float64).tolist()])
    assert errors(run(isa, "erfc(@0)", [x]), want).max() <= 6
    x = np.float32([*np.linspace(9.19, 10.2, 500), np.inf, -np.inf, 3e38, -3e38, 0, -0.0, 1e-45])
    want = np.array([math.erfc(v) for v in x.astype(np.float64).tolist()])
    assert np.abs(run(isa, "erfc(@0)", [x]) - want).max() <= 1.5 * 2.0**-149
    assert np.isnan(run(isa, "erfc(@0)", [np.float32([np.nan])]))


@pytest.mark.parametrize(
    "ends", [(0, 3), (3, 30), (-30, 0), (-3000, 0), (1e-8, 1e-3), (100, 1e6), (0, 1e36), (-1e-40, 1e-40)]
)
def test_logarithm_of_gamma_of_floats(isa, ends):
    x = np.random.default_rng(0).uniform(*ends, 5000).astype(np.float32)
    want = np.array([math.lgamma(v) if v != math.floor(v) or v > 0 else np.inf for v in x.astype(np.float64).tolist()])
    got = run(isa, "lgamma(@0)", [x])
    np.testing.assert_allclose(got, want, 0.51 * 2.0**-23, 3e-14)
    special = np.float32([0, -0.0, 1, 2, -1, -7, np.inf, -np.inf, np.nan, -1e20, 3.4e38])
    want = [np.inf, np.inf, 0, 0, np.inf, np.inf, np.inf, np.inf, np.nan, np.inf, np.inf]
    np.testing.assert_allclose(run(isa, "lgamma(@0)", [special]), want, 0, 3e-14)


def test_pow(isa):
    rng = np.random.default_rng(2)
    bases = [np.exp(rng.uniform(-80, 80, 20_000)), rng.uniform(0, 3, 20_000), -rng.uniform(0, 30, 5000)]
    exponents = [rng.uniform(-3, 3, 20_000), rng.uniform(-80, 80, 20_000), rng.integers(-40, 40, 5000)]
    special = [
        0.0,
        -0.0,
        1,
        -1,
        2,
        -2,
        0.5,
        -0.5,
        3,
        np.inf,
        -np.inf,
        np.nan,
        1e30,
        -1e30,
        1e10,
        1e-45,
        2**25,
        2**24 - 1,
    ]
    x = np.float32(np.concatenate([*bases, np.repeat(special, len(special))]))
    y = np.float32(np.concatenate([*exponents, np.tile(special, len(special))]))
    with np.errstate(all="ignore"):
        want = np.power(x.astype(np.float64), y.astype(np.float64))
    assert errors(run(isa, "pow(@0,@1)", [x, y]), want).max() <= 2


def test_results_do_not_depend_on_the_place_in_a_vector(isa):
    x = X[:4096]
    for name in ("exp", "log", "tanh", "gelu", "sin", "erf"):
        whole = run(isa, f"{name}(@0)", [x])
        for start in (1, 5, 13):
            np.testing.assert_array_equal(run(isa, f"{name}(@0)", [np.ascontiguousarray(x[start:])]), whole[start:])


def _in_places(got, want, scale):
    """Largest distance in units in the last place of ``scale``, which vmath_special.h names."""
    mp = pytest.importorskip("mpmath")
    return max(float(abs(mp.mpf(float(g)) - w) / s) for g, w, s in zip(got, want, scale, strict=True)) * 2.0**52


def test_inverse_error_function(isa):
    mp = pytest.importorskip("mpmath")
    rng = np.random.default_rng(0)
    ends = [1 - 2.0 ** -rng.uniform(1, 53, 200), 2.0 ** -rng.uniform(0, 60, 50), [1 - 2.0**-53, 1e-300]]
    x = np.concatenate([rng.uniform(-1, 1, 300), *ends])
    x = x[np.abs(x) < 1]
    with mp.workdps(40):
        want = [mp.erfinv(mp.mpf(v)) for v in x.tolist()]
        assert _in_places(run(isa, "erfinv(@0)", [x]), want, [abs(w) or 1 for w in want]) <= 3
        single = x.astype(np.float32)[np.abs(x.astype(np.float32)) < 1]
        want = [mp.erfinv(mp.mpf(v)) for v in single.tolist()]
        np.testing.assert_allclose(run(isa, "erfinv(@0)", [single]), [float(w) for w in want], 2.0**-23, 2e-45)
    edges = np.array([1, -1, 0, -0.0, 1.5, -np.inf, np.nan])
    for dtype in (np.float32, np.float64):
        got = run(isa, "erfinv(@0)", [edges.astype(dtype)])
        np.testing.assert_array_equal(got, [np.inf, -np.inf, 0, 0, np.nan, np.nan, np.nan])
        assert np.signbit(got[3])


@pytest.mark.parametrize("ends", [(0, 3), (3, 30), (-30, 0), (1e-8, 1e-3), (100, 1e6)])
def test_digamma(isa, ends):
    mp = pytest.importorskip("mpmath")
    x = np.random.default_rng(0).uniform(*ends, 300)
    with mp.workdps(40):
        exact = [mp.mpf(v) for v in x.tolist()]
        want = [mp.digamma(v) for v in exact]
        scale = [
            max(abs(w), 1, abs(mp.pi * mp.cot(mp.pi * v)) if v < 0 else 0) for v, w in zip(exact, want, strict=True)
        ]
        assert _in_places(run(isa, "digamma(@0)", [x]), want, scale) <= 8


def test_digamma_at_its_poles(isa):
    for dtype in (np.float32, np.float64):
        x = np.array([0, -0.0, -1, -7, np.inf, -np.inf, np.nan, -1e20], dtype)
        want = [-np.inf, np.inf, np.nan, np.nan, np.inf, np.nan, np.nan, np.nan]
        np.testing.assert_array_equal(run(isa, "digamma(@0)", [x]), want)


@pytest.mark.slow
def test_coefficients_of_doubles_are_printed():
    pytest.importorskip("mpmath")
    command = [sys.executable, str(KERNELS / "vmath_coefficients.py"), "doubles"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    header = (KERNELS / "vmath_coefficients_f64.h").read_text()
    number = re.compile(r"-?\d+\.\d+(?:e-?\d+)?")
    assert number.findall(header) == number.findall(printed)


@pytest.mark.slow
def test_coefficients_are_those_of_the_fit():
    pytest.importorskip("mpmath")
    command = [sys.executable, str(KERNELS / "vmath_coefficients.py")]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    header = (KERNELS / "vmath_coefficients.h").read_text()
    number = re.compile(r"-?\d+\.?\d*(?:e-?\d+)?f\b")
    fitted, kept = (np.float32([float(v[:-1]) for v in number.findall(t)]) for t in (printed, header))
    # The least-squares library of another machine may round the last place differently.
    np.testing.assert_allclose(kept, fitted, rtol=1e-3)
