"""Convolutions that copy windows, by products of split floats or in pairs: shapes and edges, epilogues, and numbers
that are too large or small for either.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from conv_case import ACTIVATIONS, Case, check_ranges, check_special_values, reference, run, tensors
from conv_case import check as check_kernel
from test_conv_affine import check as check_affine
from test_conv_affine import run as run_affine

BASE = Case(h=6, w=7, ic=40, oc=48)


@pytest.fixture(params=["conv_pairs", "conv_split"])
def kernel(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def check(isa: str, kernel: str, threads: int, case: Case) -> None:
    check_kernel(isa, threads, case, kernel)


@pytest.mark.parametrize("pixels", [1, 2, 15, 16, 17, 31, 32, 33, 49, 70])
def test_rows_and_columns(isa: str, kernel: str, pixels: int) -> None:
    for oc in (1, 15, 16, 17, 31, 32, 33, 48, 70):
        check(isa, kernel, 1 + oc % 2, BASE.but(h=1, w=pixels, oc=oc))


@pytest.mark.parametrize("depth", [1, 2, 15, 16, 17, 31, 32, 33, 63, 64, 65, 300])
def test_depths(isa: str, kernel: str, depth: int) -> None:
    check(isa, kernel, 1, BASE.but(ic=depth))
    check(isa, kernel, 2, BASE.but(ic=depth, kernel=(3, 2), pad=(1, 1), gap=3, row_gap=5))


@pytest.mark.parametrize("window", [(1, 1), (3, 3), (2, 5), (7, 1)])
@pytest.mark.parametrize("stride", [(1, 1), (2, 2), (1, 3)])
def test_windows(isa: str, kernel: str, window: tuple[int, int], stride: tuple[int, int]) -> None:
    for pad, dilation in itertools.product(((0, 0), (1, 2), (3, 3)), ((1, 1), (2, 1), (1, 2))):
        case = BASE.but(n=2, h=13, w=14, ic=9, oc=20, kernel=window, stride=stride, pad=pad, dilation=dilation)
        check(isa, kernel, 2, case.but(residual=True))
    check(isa, kernel, 1, BASE.but(n=2, h=13, w=14, ic=6, oc=36, groups=3, kernel=window, stride=stride))


@pytest.mark.parametrize("act", ACTIVATIONS)
def test_epilogues(isa: str, kernel: str, act: str) -> None:
    case = BASE.but(act=act, a=-0.5, b=0.7, error=2.0)  # of larger numbers than leave the activation
    for bias, residual, late in itertools.product((True, False), (True, False), (True, False)):
        check(isa, kernel, 2, case.but(bias=bias, residual=residual, late=late, oc=37, gap=2))


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_many_units(isa: str, kernel: str, threads: int) -> None:
    check(isa, kernel, threads, BASE.but(n=3, h=31, w=33, ic=20, oc=200))
    check(isa, kernel, threads, BASE.but(h=9, w=13, ic=3000, oc=100, residual=True))


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("pixels", [1, 2, 5, 16])
def test_few_rows_by_many_weights(isa: str, kernel: str, threads: int, pixels: int) -> None:
    check(isa, kernel, threads, BASE.but(h=1, w=pixels, ic=2100, oc=235))
    check(isa, kernel, threads, BASE.but(h=1, w=pixels, ic=700, oc=35, kernel=(3, 3), pad=(1, 1), residual=True))


@pytest.mark.parametrize("threads", [1, 2, 3, 5])
@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("ic", [30, 90])
def test_threads_that_share_rows(isa: str, kernel: str, threads: int, groups: int, ic: int) -> None:
    case = BASE.but(h=20, w=23, ic=ic * groups, oc=40 * groups, groups=groups, kernel=(3, 3), pad=(1, 1))
    check(isa, kernel, threads, case)


@pytest.mark.parametrize("before", ["none", "relu", "leaky_relu", "silu"])
def test_affine_maps_before(isa: str, kernel: str, before: str) -> None:
    for case in (BASE, BASE.but(h=20, ic=200, residual=True, gap=9), BASE.but(w=9, ic=65, oc=7)):
        check_affine(isa, 1 + case.residual, case, before, kernel=kernel)


def test_scales_before(isa: str, kernel: str) -> None:
    case = BASE.but(ic=90)
    x, weight, bias, _ = tensors(case)
    scale = np.random.default_rng(2).standard_normal(case.ic).astype(np.float32)
    got = run_affine(isa, 2, case, "none", x, scale, None, kernel=kernel)
    np.testing.assert_allclose(got, reference(case, x.astype(float) * scale, weight, bias, None), rtol=0, atol=2e-5)


def test_guards(isa: str, kernel: str) -> None:
    check(isa, kernel, 2, BASE.but(ic=33, oc=17, kernel=(3, 3), pad=(1, 1), guard=True, residual=True))
    check(isa, kernel, 1, BASE.but(ic=33, oc=17, guard=True))


def test_no_pixels(isa: str, kernel: str) -> None:
    check(isa, kernel, 2, BASE.but(n=0))


DATA = ["normal", "positive", "heavy", "large input", "large weight", "both", "small weights", "no weights"]


@pytest.mark.parametrize("depth", [64, 512, 3072])
@pytest.mark.parametrize("data", DATA)
def test_error(isa: str, kernel: str, depth: int, data: str) -> None:
    """Relative to the largest result, errors stay small whatever channels inputs and weights are large in."""
    case = BASE.but(h=8, w=10, ic=depth, oc=80, bias=False)
    x, weight, _, _ = tensors(case)
    if data == "positive":
        x = np.maximum(x, 0)
    if data == "heavy":
        x = x**5
    if data in ("large input", "both", "small weights"):
        x[..., 3] *= 1000
    if data == "no weights":
        x[..., 3] *= 1e9
        weight[:, 3] = 0
    if data in ("large weight", "both"):
        weight[:, 5] *= 100
    if data == "small weights":
        weight[:, 3] /= 1000
    want = reference(case, x, weight, None, None)
    got = run(isa, 1, case, x, weight, None, None, kernel=kernel)
    np.testing.assert_allclose(got, want, rtol=0, atol=1e-5 * np.abs(want).max())
    if data in ("normal", "positive", "small weights", "no weights"):
        assert np.sqrt(np.mean((got - want) ** 2)) < 2e-6 * np.sqrt(np.mean(want**2))


@pytest.mark.parametrize("data", ["one large", "several sizes"])
def test_error_of_each_column(isa: str, kernel: str, data: str) -> None:
    """Columns of large weights leave the error of the others as it is."""
    case = BASE.but(h=8, w=10, ic=1024, oc=80, bias=False)
    x, weight, _, _ = tensors(case)
    sizes = np.exp(3 * np.random.default_rng(1).standard_normal(80)).astype(np.float32)
    if data == "one large":
        sizes = np.where(np.arange(80) == 17, np.float32(1e4), np.float32(1))
    weight *= sizes[:, None, None, None]
    want = reference(case, x, weight, None, None)
    got = run(isa, 1, case, x, weight, None, None, kernel=kernel)
    error = np.sqrt(((got - want) ** 2).mean((0, 1, 2))) / np.sqrt((want**2).mean((0, 1, 2)))
    assert error.max() < 2e-6


def test_error_beside_pruned_columns(isa: str, kernel: str) -> None:
    """What is left in columns that were pruned to next to nothing does not make inputs large."""
    case = BASE.but(h=8, w=10, ic=384, oc=96, bias=False)
    x, weight, _, _ = tensors(case)
    rng = np.random.default_rng(1)
    weight *= np.where(rng.random(384) < 0.1, 1, 1e-2).astype(np.float32)[None, :, None, None]
    weight[::2] = 0.0
    weight[::2, 7] = 1e-6 * rng.standard_normal((48, 1, 1))
    want = reference(case, x, weight, None, None)
    got = run(isa, 1, case, x, weight, None, None, kernel=kernel)
    np.testing.assert_allclose(got, want, rtol=0, atol=1e-6 * np.abs(want).max())


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("window", [(1, 1), (3, 2)])
def test_factors_of_windows_and_groups(isa: str, kernel: str, threads: int, window: tuple[int, int]) -> None:
    """One of two groups has channels that need factors: it is packed again, the other one is not."""
    case = BASE.but(h=8, w=10, ic=2 * 70, oc=2 * 90, groups=2, kernel=window, bias=False)
    x, weight, _, _ = tensors(case)
    x[..., 3], x[..., 40] = 1000 * x[..., 3], 1e9 * x[..., 40]
    weight[:90, 3], weight[:90, 40] = weight[:90, 3] / 1000, 0.0
    want = reference(case, x, weight, None, None)
    got = run(isa, threads, case, x, weight, None, None, kernel=kernel)
    assert np.sqrt(np.mean((got - want) ** 2)) < 2e-6 * np.sqrt(np.mean(want**2))


def test_nothing_but_zeros(isa: str, kernel: str) -> None:
    """Rows and columns of zeros leave no rounding errors of others behind."""
    case = BASE.but(h=1, w=20, ic=70, oc=40)
    x, weight, bias, _ = tensors(case)
    assert bias is not None
    x[:, :, 3], weight[5] = 0.0, 0.0
    got = run(isa, 1, case, x, weight, bias, None, kernel=kernel)
    np.testing.assert_array_equal(got[0, 0, 3], bias)
    np.testing.assert_array_equal(got[..., 5], np.full((1, 1, 20), bias[5]))


def test_special_values(isa: str, kernel: str) -> None:
    case = BASE.but(h=1, w=64, ic=70, oc=64, bias=False)
    x, weight, _, _ = tensors(case)
    x[0, 0, 3, 5], x[0, 0, 9, 7], x[0, 0, 20, 60] = np.inf, np.nan, -np.inf
    x[0, 0, 21, 0], x[0, 0, 21, 1] = np.inf, -np.inf
    weight[40, 3], weight[41, 4], weight[42, 5] = np.inf, np.nan, -np.inf
    weight[:8, 5] = 0.0
    check_special_values(isa, 1, case, kernel, x, weight)


@pytest.mark.parametrize("act", ["none", "gelu"])
def test_rows_are_alone_with_their_special_values(isa: str, kernel: str, act: str) -> None:
    """What is not finite in a row leaves the bits of the others as they are, whatever the depth."""
    for depth in (70, 3000):
        case = BASE.but(h=1, w=40, ic=depth, oc=40, act=act)
        x, weight, bias, _ = tensors(case)
        want = run(isa, 1, case, x, weight, bias, None, kernel=kernel)
        rows = [3, 4, 11, 39]
        x[0, 0, rows, 5] = np.inf
        got = run(isa, 1, case, x, weight, bias, None, kernel=kernel)
        others = np.delete(np.arange(40), rows)
        np.testing.assert_array_equal(got[0, 0, others], want[0, 0, others])
        assert not np.isfinite(got[0, 0, rows]).all(-1).any()


@pytest.mark.parametrize(("left", "right"), [(127, -100), (-90, 60), (-100, 20), (60, -90), (20, -100), (-120, 100)])
def test_ranges(isa: str, kernel: str, left: int, right: int) -> None:
    check_ranges(isa, BASE.but(h=1, w=40, ic=70, oc=40, bias=False), kernel, left, right)


def test_same_bits(isa: str, kernel: str) -> None:
    case = BASE.but(h=30, w=30, ic=100, oc=150)
    data = tensors(case)
    first = run(isa, 2, case, *data, kernel=kernel)
    for _ in range(3):
        np.testing.assert_array_equal(run(isa, 2, case, *data, kernel=kernel), first)
    np.testing.assert_array_equal(run(isa, 1, case, *data, kernel=kernel), first)
