"""Reductions against numpy in double precision, over every set of dimensions and several layouts."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from strides import elements

from pnnx_fast._core.program import codes
from pnnx_fast._types import Array
from pnnx_fast.runtime.kernel import call

Reference = Callable[[Array, tuple[int, ...]], Any]


def logsumexp(x: Array, dims: tuple[int, ...]) -> Any:
    top = x.max(dims, keepdims=True)
    return np.log(np.exp(x - top).sum(dims)) + top.squeeze(dims)


CODES = codes("reduce")
OPS: dict[str, tuple[str, float, Reference]] = {
    "sum": ("sum", 0, lambda x, d: x.sum(d)),
    "prod": ("prod", 0, lambda x, d: x.prod(d)),
    "max": ("max", 0, lambda x, d: x.max(d)),
    "min": ("min", 0, lambda x, d: x.min(d)),
    "asum": ("norm1", 0, lambda x, d: np.abs(x).sum(d)),
    "squares": ("squares", 0, lambda x, d: (x * x).sum(d)),
    "norm2": ("norm2", 0, lambda x, d: np.sqrt((x * x).sum(d))),
    "nonzero": ("norm0", 0, lambda x, d: (x != 0).sum(d)),
    "absmax": ("norminf", 0, lambda x, d: np.abs(x).max(d)),
    "absmin": ("norm-inf", 0, lambda x, d: np.abs(x).min(d)),
    "norm3": ("norm", 3, lambda x, d: (np.abs(x) ** 3).sum(d) ** (1 / 3)),
    "logsumexp": ("logsumexp", 0, logsumexp),
    "var": ("var", 1, lambda x, d: x.var(d, ddof=1)),
    "std": ("std", 0, lambda x, d: x.std(d)),
    "mean": ("mean", 0, lambda x, d: x.mean(d)),
}


def reduce(isa: str, op: str, x: Array, dims: tuple[int, ...], threads: int = 1, scale: float = 1) -> Array:
    name, p, _ = OPS[op]
    kept = [d for d in range(x.ndim) if d not in dims]
    y = np.full([x.shape[d] for d in kept], np.nan, "f4")
    call(
        isa, "reduce", threads, x=x, y=y, op=CODES[name], rank=len(kept), shape=y.shape, xs=elements(x, kept),
        ys=elements(y), rrank=len(dims), rshape=[x.shape[d] for d in dims],
        rxs=elements(x, dims), scale=scale, p=p,
    )  # fmt: skip
    return y


def check(isa: str, op: str, x: Array, dims: tuple[int, ...], threads: int = 1) -> None:
    want = OPS[op][2](x.astype("f8"), dims)
    got = reduce(isa, op, x, dims, threads)
    np.testing.assert_allclose(got, want, 3e-6, 3e-6 * (1 + np.abs(want).max()), err_msg=f"{op} {x.strides} {dims}")


SUBSETS = [d for n in range(1, 5) for d in itertools.combinations(range(4), n)]


@pytest.mark.parametrize("op", OPS)
def test_every_set_of_dimensions(isa: str, op: str) -> None:
    base = np.random.default_rng(1).uniform(-1.2, 1.2, (3, 7, 5, 11)).astype("f4")
    wide = np.random.default_rng(2).uniform(-1.2, 1.2, (2, 3, 2, 150)).astype("f4")
    for dims in SUBSETS:
        check(isa, op, base, dims)
        check(isa, op, base.transpose(0, 3, 1, 2), dims)
        check(isa, op, wide.transpose(0, 3, 1, 2), dims)
        check(isa, op, wide[:, ::2, :, 3:140:3], dims)


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("threads", [1, 2])
def test_short_rows(isa: str, op: str, threads: int) -> None:
    base = np.random.default_rng(6).uniform(-1.2, 1.2, (2, 97, 67)).astype("f4")
    for n in (2, 3, 16, 31, 32, 64, 65):
        for rows in (1, 7, 16, 65, 97):
            check(isa, op, base[:, :rows, :n], (2,), threads)
        check(isa, op, base[:, ::-1, 2 : 2 + n].transpose(2, 0, 1), (0,), threads)


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("threads", [1, 2])
def test_neighbouring_rows(isa: str, op: str, threads: int) -> None:
    base = np.random.default_rng(7).uniform(-1.2, 1.2, (2, 37, 530)).astype("f4")
    for n in (33, 112, 257, 512, 513):
        for rows in (1, 4, 8, 17, 37):
            check(isa, op, base[:, :rows, :n], (2,), threads)
        check(isa, op, base[:, ::-2, 3 : 3 + n].transpose(1, 2, 0), (1,), threads)


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("threads", [1, 2])
def test_wide_columns(isa: str, op: str, threads: int) -> None:
    x = np.random.default_rng(8).uniform(-1.2, 1.2, (3, 4, 2, 2500)).astype("f4")
    for n in (7, 40, 1023, 1024, 1025, 2500):
        check(isa, op, x[..., :n], (1,), threads)
        check(isa, op, x[..., :n], (0, 2), threads)
        check(isa, op, x[:, 1:, :, :n].transpose(3, 2, 0, 1), (2,), threads)
    deep = np.random.default_rng(9).uniform(-1.2, 1.2, (2, 7, 150, 70)).astype("f4")
    for k in (2, 4, 13, 127, 128, 129, 150):
        check(isa, op, deep[:, :, :k], (2,), threads)
    check(isa, op, deep[:, :, ::2], (1, 2), threads)


@pytest.mark.parametrize("op", ["sum", "max", "var"])
@pytest.mark.parametrize("threads", [2, 3])
def test_threads(isa: str, op: str, threads: int) -> None:
    x = np.random.default_rng(3).standard_normal((4, 33, 70)).astype("f4")
    for dims in ((0,), (1,), (2,), (0, 2)):
        check(isa, op, x, dims, threads)


@pytest.mark.parametrize("op", ["sum", "norm2", "logsumexp", "std"])
def test_long_sums_stay_accurate(isa: str, op: str) -> None:
    x = (np.random.default_rng(4).uniform(0, 1, 1_000_003) + 100).astype("f4")
    tolerance = 1e-4 if op == "std" else 1e-6
    for view in (x.reshape(1, -1), x.reshape(-1, 1), x[:1_000_000].reshape(-1, 20).T):
        want = OPS[op][2](view.astype("f8"), (1,))
        np.testing.assert_allclose(reduce(isa, op, view, (1,)), want, tolerance)


@pytest.mark.parametrize("shape", [(37, 3), (24, 70), (10, 8), (700, 5), (5000, 2)], ids=str)
@pytest.mark.parametrize("rows", [True, False])
def test_equal_elements_are_their_mean_and_have_no_variance(isa: str, shape: tuple[int, int], rows: bool) -> None:
    for value in np.random.default_rng(6).uniform(0.1, 1000, 9).astype("f4"):
        x = np.full(shape, value)
        x = np.asfortranarray(x) if rows else x
        np.testing.assert_array_equal(reduce(isa, "mean", x, (0,)), value)
        for op in ("std", "var"):
            np.testing.assert_array_equal(reduce(isa, op, x, (0,)), 0)


@pytest.mark.parametrize("n", [20, 700, 100_000])
@pytest.mark.parametrize("rows", [True, False])
def test_a_first_element_far_from_the_others_does_no_harm(isa: str, rows: bool, n: int) -> None:
    x = np.random.default_rng(7).standard_normal((n, 9)).astype("f4")
    x[0] = 1000
    x = np.asfortranarray(x) if rows else x
    for op in ("mean", "std", "var"):
        np.testing.assert_allclose(reduce(isa, op, x, (0,)), OPS[op][2](x.astype("f8"), (0,)), 3e-6, err_msg=op)


def test_scale(isa: str) -> None:
    x = np.arange(12, dtype="f4").reshape(3, 4)
    np.testing.assert_allclose(reduce(isa, "sum", x, (1,), scale=0.25), x.mean(1))


@pytest.mark.parametrize("rows", [True, False])
def test_nan_and_infinity(isa: str, rows: bool) -> None:
    x = np.random.default_rng(5).standard_normal((4, 40)).astype("f4")
    x[0, 3], x[1, 39], x[2, 0] = np.nan, np.inf, -np.inf
    view = x if rows else np.asfortranarray(x)
    for op in ("max", "min", "sum", "absmax"):
        with np.errstate(all="ignore"):
            want = OPS[op][2](x.astype("f8"), (1,))
        np.testing.assert_allclose(reduce(isa, op, view, (1,)), want, 1e-6)
    x[2], x[3] = -np.inf, np.nan
    view = x if rows else np.asfortranarray(x)
    np.testing.assert_array_equal(reduce(isa, "logsumexp", view, (1,)), [np.nan, np.inf, -np.inf, np.nan])


@pytest.mark.parametrize("n", [9, 40, 140, 600])
@pytest.mark.parametrize("rows", [True, False])
def test_nan_and_infinity_among_many(isa: str, rows: bool, n: int) -> None:
    x = np.random.default_rng(n).standard_normal((40, n)).astype("f4")
    x[0, 3], x[1, n - 1], x[2, 0], x[9, 5], x[38, 1] = np.nan, np.inf, -np.inf, np.nan, np.inf
    x[5, 2], x[5, n - 2] = np.inf, -np.inf
    view = x if rows else np.asfortranarray(x)
    for op in ("max", "min", "sum", "absmax", "absmin", "norm2", "var"):
        with np.errstate(all="ignore"):
            want = OPS[op][2](x.astype("f8"), (1,))
        np.testing.assert_allclose(reduce(isa, op, view, (1,)), want, 1e-5, 1e-5)


def test_empty_sums(isa: str) -> None:
    x = np.empty((3, 0), "f4")
    np.testing.assert_array_equal(reduce(isa, "sum", x, (1,)), [0, 0, 0])
    np.testing.assert_array_equal(reduce(isa, "prod", x, (1,)), [1, 1, 1])
    assert np.isnan(reduce(isa, "var", x, (1,))).all()


def test_single_element_has_no_variance(isa: str) -> None:
    assert np.isnan(reduce(isa, "var", np.ones((2, 1), "f4"), (1,))).all()
