"""Layers of a few pixels whose weights are three bytes each: shapes, epilogues, errors and numbers out of range."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from conv_case import ACTIVATIONS, Case, check_ranges, check_special_values, reference, run, tensors
from conv_case import check as check_kernel

from pnnx_fast._core.program import THIN_PIXELS

BASE = Case(h=1, w=2, ic=40, oc=48)
PIXELS = range(1, THIN_PIXELS + 1)


def check(isa: str, threads: int, case: Case) -> None:
    check_kernel(isa, threads, case, "conv_thin")


@pytest.mark.parametrize("pixels", PIXELS)
def test_pixels_and_columns(isa: str, pixels: int) -> None:
    for oc in (1, 3, 4, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 130, 200):
        check(isa, 1 + oc % 3, BASE.but(w=pixels, oc=oc, residual=oc % 2 == 0))


@pytest.mark.parametrize("depth", [1, 2, 3, 4, 7, 8, 9, 15, 16, 17, 300, 3000])
def test_depths(isa: str, depth: int) -> None:
    check(isa, 1, BASE.but(ic=depth, oc=70))


def test_places_of_pixels(isa: str) -> None:
    check(isa, 2, BASE.but(n=3, w=1, gap=3, row_gap=5))
    check(isa, 2, BASE.but(h=2, w=1, gap=1, row_gap=7, residual=True))
    check(isa, 2, BASE.but(h=1, w=7, stride=(1, 3)))
    check(isa, 2, BASE.but(n=0))


@pytest.mark.parametrize("act", ACTIVATIONS)
def test_epilogues(isa: str, act: str) -> None:
    for bias, residual, late in itertools.product((True, False), (True, False), (True, False)):
        check(isa, 2, BASE.but(act=act, a=-0.5, b=0.7, bias=bias, residual=residual, late=late, oc=37, gap=2))


@pytest.mark.parametrize("oc", [17, 64, 70])
def test_guards(isa: str, oc: int) -> None:
    check(isa, 2, BASE.but(oc=oc, ic=33, guard=True, residual=True))


@pytest.mark.parametrize("pixels", PIXELS)
@pytest.mark.parametrize("data", ["normal", "positive", "large input", "large weights", "large both", "small weights"])
def test_error(isa: str, data: str, pixels: int) -> None:
    """It is no larger than that of sums of floats, whatever inputs and weights are large."""
    case = BASE.but(w=pixels, ic=4096, oc=600, bias=False)
    x, weight, _, _ = tensors(case)
    if data == "positive":
        x = np.abs(x)
    if data in ("large input", "large both"):
        x[..., 3] *= 1000
    if data in ("large weights", "large both"):
        weight[:, 5] *= 100
    if data == "small weights":
        x[..., 3], weight[:, 3] = x[..., 3] * 1e9, weight[:, 3] * 1e-9
    want = reference(case, x, weight, None, None)
    got = run(isa, 1, case, x, weight, None, None, kernel="conv_thin")
    assert np.sqrt(np.mean((got - want) ** 2)) < 2e-6 * np.sqrt(np.mean(want**2))


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_factors_of_inputs(isa: str, threads: int) -> None:
    """Inputs and weights whose products are alike, however far they are apart; some weights are missing, some cut."""
    case = BASE.but(ic=300, oc=90, bias=False)
    x, weight, _, _ = tensors(case)
    powers = np.logspace(-15, 15, case.ic, dtype=np.float32)
    x, weight = x * powers, weight / powers[:, None, None]
    weight[:, 7], x[..., 7], weight[40, 9] = 0.0, 1e30, np.inf
    want = reference(case, x, weight, None, None)
    got = run(isa, threads, case, x, weight, None, None, kernel="conv_thin")
    assert np.isinf(got[..., 40]).all()
    finite = np.arange(case.oc) // 16 != 40 // 16
    np.testing.assert_allclose(got[..., finite], want[..., finite], rtol=0, atol=5e-6)


def test_every_column_has_a_scale(isa: str) -> None:
    case = BASE.but(ic=100, oc=70, bias=False)
    x, weight, _, _ = tensors(case)
    weight *= np.logspace(-20, 20, 70, dtype=np.float32)[:, None, None, None]
    want = reference(case, x, weight, None, None)
    got = run(isa, 1, case, x, weight, None, None, kernel="conv_thin")
    np.testing.assert_allclose(
        got / np.abs(want).max(axis=(0, 1, 2)), want / np.abs(want).max(axis=(0, 1, 2)), atol=5e-6
    )


def test_special_values(isa: str) -> None:
    """Infinity times a tiny weight is infinity, times zero NaN; columns with such weights do not disturb others."""
    case = BASE.but(w=3, ic=70, oc=200, bias=False)
    x, weight, _, _ = tensors(case)
    x[0, 0, 1, 5], x[0, 0, 1, 8], x[0, 0, 2, 6] = np.inf, -3e38, np.nan
    weight[3, 5], weight[4, 5], weight[5, 5] = 1e-20, -1e-20, 0.0
    weight[150, 7], weight[151, 8], weight[152, 9] = np.inf, np.nan, -np.inf
    got, want = check_special_values(isa, 2, case, "conv_thin", x, weight)
    whole = np.arange(200) // 16 != 150 // 16  # other panels are cut to upper bytes
    finite = np.isfinite(want) & whole
    np.testing.assert_allclose(got[finite], want[finite], rtol=0, atol=5e-6)


@pytest.mark.parametrize(
    ("left", "right"), [(126, -100), (-90, 60), (-100, 20), (100, 20), (60, -90), (20, -100), (-120, 100)]
)
def test_ranges(isa: str, left: int, right: int) -> None:
    check_ranges(isa, BASE.but(w=2, ic=70, oc=70, bias=False), "conv_thin", left, right)


def test_same_bits(isa: str) -> None:
    case = BASE.but(ic=500, oc=700)
    data = tensors(case)
    first = run(isa, 1, case, *data, kernel="conv_thin")
    for threads in (1, 2, 3):
        np.testing.assert_array_equal(run(isa, threads, case, *data, kernel="conv_thin"), first)
