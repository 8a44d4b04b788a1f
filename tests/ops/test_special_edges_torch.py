"""Functions at the ends of their ranges, where obvious formulas lose digits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
import graph_of_one  # noqa: E402

FUNCTIONS: dict[str, list[Any]] = {
    "special_ndtri": [[1e-300, 1e-30, 1e-20, 1e-15, 1e-14, 0.01, 0.02, 0.3, 1.0]],
    "special_modified_bessel_k0": [[1e-300, 1e-50, 1e-9, 1e-8, 2.0, 29.9, 30.1, 200.0, 700.0, np.inf]],
    "special_modified_bessel_k1": [[1e-300, 1e-50, 1e-9, 1e-8, 2.0, 29.9, 30.1, 200.0, 700.0, np.inf]],
    "special_scaled_modified_bessel_k0": [[1e-9, 30.1, 200.0, 1e4, 1e20]],
    "special_scaled_modified_bessel_k1": [[1e-9, 30.1, 200.0, 1e4, 1e20]],
    "special_erfcx": [[24.0, 25.0, 26.0, 1e5]],
    "special_spherical_bessel_j0": [[0.0, 1e-5, 3.0, 1e6]],
    "special_gammainc": [[1e5, 1e6, 2e6, 1e8, 1e12, 1e8], [1e5, 1e6, 2.001e6, 1e8, 1e12, 3e8]],
    "special_gammaincc": [[1e5, 1e6, 2e6, 1e8, 1e12, 1e8], [1e5, 1e6, 2.001e6, 1e8, 1e12, 1e7]],
}


def call(name: str, values: tuple[Any, ...], outputs: int = 1) -> Any:
    return graph_of_one.call(name, values, outputs)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_ends_of_ranges(name: str, dtype: type) -> None:
    given = tuple(np.array(values, dtype) for values in FUNCTIONS[name])
    want = getattr(torch.special, name.removeprefix("special_"))(*map(torch.from_numpy, given)).numpy()
    np.testing.assert_allclose(call(f"aten::{name}", given), want, rtol=1e-4 if dtype == np.float32 else 1e-8)


@pytest.mark.parametrize("order", [2, 3, 6])
def test_derivatives_beside_poles(order: int) -> None:
    x = np.array([-1e-12, 1e-12, -1e-17, -3 + 1e-9, -3 - 1e-9, -2.5, 0.5])
    want = torch.special.polygamma(order, torch.from_numpy(x)).numpy()
    np.testing.assert_allclose(call("aten::special_polygamma", (order, x)), want, rtol=1e-6)


def test_logarithms_of_complex_numbers_beside_one() -> None:
    x = np.array([1e-8 + 1e-8j, 1e-4 + 1e-4j, 0.4 - 0.2j, -0.3j, 3 + 4j], np.complex64)
    got = call("aten::log1p", (x,))
    want = torch.log1p(torch.from_numpy(x)).numpy()
    assert got.dtype == want.dtype
    for part in np.real, np.imag:
        np.testing.assert_allclose(part(got), part(want), rtol=1e-5)


@pytest.mark.parametrize("name", ["expm1", "tan"])
def test_zeros_keep_their_sign(name: str) -> None:
    x = np.array([-0.0, 0.0, 1e6, -0.0, 0.3] * 7, np.float32)
    got = call(f"aten::{name}", (x,))
    np.testing.assert_array_equal(np.signbit(got), np.signbit(getattr(torch, name)(torch.from_numpy(x)).numpy()))


def test_entries_that_are_no_numbers_are_all_unique() -> None:
    x = np.float32([np.nan, 1, np.nan, 0, 1, np.nan])
    got = call("aten::_unique2", (x, True, True, True), 3)
    for a, b in zip(got, torch.unique(torch.from_numpy(x), return_inverse=True, return_counts=True), strict=True):
        np.testing.assert_array_equal(a, b.numpy())


def test_lines_that_are_no_numbers_are_all_unique() -> None:
    x = np.array([1, np.nan, 2, np.nan, 1], np.float32)  # PyTorch sorts these by chance
    values, places, counts = call("aten::unique_dim", (x, 0, True, True, True), 3)
    np.testing.assert_array_equal(values, np.array([1, 2, np.nan, np.nan], np.float32))
    np.testing.assert_array_equal(values[places], x)
    np.testing.assert_array_equal(counts, [2, 1, 1, 1])


def test_spectra_of_nothing_are_zeros() -> None:
    x = np.zeros((3, 0))
    np.testing.assert_array_equal(call("aten::fft_hfft", (x, 97, -1, None)), np.zeros((3, 97)))


def test_inverses_of_singular_matrices() -> None:
    x = np.float32([[[1, 2], [2, 4]], [[2, 0], [0, 4]]])
    y, info = call("aten::linalg_inv_ex", (x, False), 2)
    assert info.tolist() == torch.linalg.inv_ex(torch.from_numpy(x)).info.tolist() == [2, 0]
    np.testing.assert_array_equal(y[1], [[0.5, 0], [0, 0.25]])
    assert np.isnan(y[0]).all()
