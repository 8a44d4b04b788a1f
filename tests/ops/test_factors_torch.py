"""Factorizations and what is solved with them against PyTorch; vectors, whose signs are free, by their products."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from graph_of_one import call

from pnnx_fast.errors import ParameterError, PnnxFastError, ShapeError
from pnnx_fast.ir.outputs import flat

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]

from oracle import as_array, ask_aten  # noqa: E402

SHAPES = [(4, 4), (3, 5), (6, 3), (2, 4, 4), (2, 3, 5), (2, 6, 3), (0, 3), (2, 0, 0)]
SQUARE = [shape for shape in SHAPES if shape[-1] == shape[-2]]
DTYPES = ["f4", "f8", "c8"]


def sample(*shape: int, dtype: str = "f4", seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(shape) + (1j * rng.standard_normal(shape) if dtype[0] == "c" else 0)
    return x.astype(dtype)


def positive(*shape: int, dtype: str = "f4") -> np.ndarray:
    x = sample(*shape, dtype=dtype)
    return (x @ np.conj(x.swapaxes(-1, -2)) + np.eye(shape[-1]) / 2).astype(dtype)


def close(got: Any, want: Any, dtype: str) -> None:
    got, want = np.asarray(got), as_array(want)
    assert (got.dtype, got.shape) == (want.dtype, want.shape)
    exact = 1e-9 if dtype == "f8" else 1e-4
    np.testing.assert_allclose(got, want, exact, exact * max(1, np.abs(want[np.isfinite(want)]).max(initial=0)))


def check(kind: str, *values: Any, dtype: str = "f4") -> None:
    want = flat(ask_aten(kind, values))
    got = call(kind, values, len(want))
    for g, w in zip(got if len(want) > 1 else [got], want, strict=True):
        close(g, w, dtype)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", DTYPES)
def test_any_matrix(shape: tuple[int, ...], dtype: str) -> None:
    x = sample(*shape, dtype=dtype)
    for kind, *rest in [
        ("aten::linalg_svdvals", None), ("aten::svd", True, False), ("aten::linalg_qr", "reduced"),
        ("aten::linalg_qr", "complete"), ("aten::linalg_qr", "r"), ("aten::qr", True), ("aten::qr", False),
        ("aten::geqrf",), ("aten::linalg_lu", True), ("aten::linalg_lu_factor", True),
        ("aten::linalg_lu_factor_ex", True, False), ("aten::_lu_with_info", True, False),
        ("aten::linalg_pinv", 0.3, False), ("aten::linalg_pinv", None, None, False), ("aten::pinverse", 1e-9),
        ("aten::linalg_matrix_rank", 0.5, False), ("aten::linalg_matrix_rank", None, None, False),
        ("aten::linalg_matrix_rank", 1.0, 0.1, False), ("aten::nuclear_norm", False), ("aten::linalg_cond", None),
    ]:  # fmt: skip
        check(kind, x, *rest, dtype=dtype)
    held, rows = (as_array(t) for t in torch.linalg.lu_factor(torch.from_numpy(x)))
    for wanted in ((True, True), (False, True), (True, False)):
        check("aten::lu_unpack", held, rows, *wanted, dtype=dtype)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", DTYPES)
def test_reflections_and_least_squares(shape: tuple[int, ...], dtype: str) -> None:
    m, n = shape[-2:]
    x, y = sample(*shape, dtype=dtype), sample(*shape[:-1], 2, dtype=dtype, seed=1)
    if m and n:
        held, sizes = (as_array(t) for t in torch.geqrf(torch.from_numpy(x)))
        for turned in (False, True):
            check("aten::ormqr", held, sizes, y, True, turned, dtype=dtype)
            check("aten::ormqr", held, sizes, np.ascontiguousarray(y.swapaxes(-1, -2)), False, turned, dtype=dtype)
        if m >= n:
            check("aten::orgqr", held, sizes, dtype=dtype)
            check("aten::linalg_householder_product", held, sizes, dtype=dtype)
        for driver in (None, *(("gels", "gelsy", "gelsd", "gelss") if m >= n else ())):
            check("aten::linalg_lstsq", x, y, None, driver, dtype=dtype)


@pytest.mark.parametrize("shape", SQUARE, ids=str)
@pytest.mark.parametrize("dtype", DTYPES)
def test_square_matrices(shape: tuple[int, ...], dtype: str) -> None:
    x, y = sample(*shape, dtype=dtype), sample(*shape[:-1], 3, dtype=dtype, seed=1)
    turned, both = np.ascontiguousarray(y.swapaxes(-1, -2)), positive(*shape, dtype=dtype)
    held, rows = (as_array(t) for t in torch.linalg.lu_factor(torch.from_numpy(x)))
    lower = np.linalg.cholesky(both)
    upper = np.ascontiguousarray(np.conj(lower.swapaxes(-1, -2)))
    for kind, *values in [
        ("aten::lu_solve", y, held, rows), ("aten::linalg_lu_solve", held, rows, y, True, False),
        ("aten::linalg_lu_solve", held, rows, y, True, True),
        ("aten::linalg_lu_solve", held, rows, turned, False, False),
        ("aten::linalg_lu_solve", held, rows, turned, False, True), ("aten::linalg_eigvalsh", both, "L"),
        ("aten::linalg_eigvalsh", both, "U"), ("aten::cholesky", both, False), ("aten::cholesky", both, True),
        ("aten::linalg_cholesky", both, True), ("aten::linalg_cholesky_ex", both, False, False),
        ("aten::cholesky_solve", y, lower, False), ("aten::cholesky_solve", y, upper, True),
        ("aten::cholesky_inverse", lower, False), ("aten::slogdet", both), ("aten::linalg_inv_ex", both, False),
        ("aten::linalg_solve_ex", both, y, True, False), ("aten::linalg_pinv", both, None, 0.3, True),
        ("aten::linalg_matrix_rank", both, None, 0.2, True),
        *[("aten::linalg_cond", x, p) for p in ("fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf)],
    ]:  # fmt: skip
        check(kind, *values, dtype=dtype)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", DTYPES)
def test_vectors_make_the_matrix_again(shape: tuple[int, ...], dtype: str) -> None:
    x, m, n = sample(*shape, dtype=dtype), *shape[-2:]
    count = min(m, n)
    for full in (False, True):
        for kind, flag in (("aten::linalg_svd", full), ("aten::svd", not full)):
            values = x, flag, True if kind == "aten::svd" else None
            u, s, v = call(kind, values, 3)
            assert [t.shape for t in (u, s, v)] == [tuple(t.shape) for t in ask_aten(kind, values)]
            v = np.conj(v.swapaxes(-1, -2)) if kind == "aten::svd" else v
            close((u[..., :count] * s[..., None, :]) @ v[..., :count, :], torch.from_numpy(x), dtype)
    if m == n:
        both = positive(*shape, dtype=dtype)
        for triangle in "LU":
            values, vectors = call("aten::linalg_eigh", (both, triangle), 2)
            close(values, ask_aten("aten::linalg_eigh", (both, triangle))[0], dtype)
            close(both @ vectors, torch.from_numpy(vectors * values[..., None, :]), dtype)
        values, vectors = call("aten::linalg_eig", (x,), 2)
        close(x @ vectors, torch.from_numpy(vectors * values[..., None, :]), dtype)
        close(values, torch.from_numpy(np.asarray(call("aten::linalg_eigvals", (x,), 1))), dtype)
        want = np.sort_complex(as_array(torch.linalg.eigvals(torch.from_numpy(x))).round(3))
        np.testing.assert_allclose(np.sort_complex(values.round(3)), want, atol=3e-3)


def test_tensors_and_norms() -> None:
    check("aten::linalg_tensorsolve", sample(6, 4, 2, 3, 4, dtype="f8"), sample(6, 4, dtype="f8"), None, dtype="f8")
    check("aten::linalg_tensorinv", sample(6, 4, 8, 3, dtype="f8"), 2, dtype="f8")
    check("aten::frobenius_norm", sample(2, 3, 4), [1, 2], True)
    check("aten::nuclear_norm", sample(2, 3, 4), [0, 2], True)


def test_matrices_that_have_no_factor() -> None:
    x = positive(2, 4, 4)
    x[1, 2, 2] = -5
    lower, info = call("aten::linalg_cholesky_ex", (x, False, False), 2)
    np.testing.assert_array_equal(info, torch.linalg.cholesky_ex(torch.from_numpy(x)).info)
    close(lower[0], torch.linalg.cholesky(torch.from_numpy(x[0])), "f4")
    for kind in ("aten::cholesky", "aten::linalg_cholesky"):
        with pytest.raises(ParameterError):
            call(kind, (x,), 1)
    held = np.eye(4, dtype="f4")
    with pytest.raises(ShapeError, match="pivot"):
        call("aten::lu_unpack", (held, np.array([1, 2, 3, 9], np.int32), True, True), 3)


def test_results_that_no_memory_holds() -> None:
    wide = np.zeros((1, 1 << 24), "f4")
    for kind, values, count in (("aten::linalg_svd", (wide, True), 3), ("aten::svd", (wide, True, False), 3)):
        with pytest.raises(PnnxFastError, match="memory"):
            call(kind, values, count)
