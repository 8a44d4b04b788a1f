"""Kernels along one axis against numpy: softmax, places of extremes, running sums, norms, local response."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from strides import elements

from pnnx_fast._types import Array
from pnnx_fast.runtime.kernel import call


def along(isa: str, kernel: str, x: Array, axis: int, y: Array | None, threads: int = 1, **fields: Any) -> None:
    """Call a kernel; y has the axis, index has it with size 1."""
    index = fields.pop("index", None)
    parameters = {key: fields.get(key, 0) for key in "abcd"}
    others = [d for d in range(x.ndim) if d != axis]
    call(
        isa, kernel, threads, x=x, y=y, index=index, rank=x.ndim - 1, n=x.shape[axis],
        shape=[x.shape[d] for d in others], xs=elements(x, others), ys=elements(y, others),
        js=elements(index, others), xsn=x.strides[axis] // 4, ysn=y.strides[axis] // 4 if y is not None else 0,
        **parameters,
    )  # fmt: skip


def like(x: Array) -> Array:
    """Empty array with the dimension order of x."""
    order = sorted(range(x.ndim), key=lambda d: -x.strides[d])
    dense = np.full([x.shape[d] for d in order], np.nan, "f4")
    return dense.transpose(np.argsort(order))


def layouts(seed: int = 1, low: float = -3, high: float = 3) -> Iterator[tuple[Array, int]]:
    rng = np.random.default_rng(seed)
    for shape in ((3, 7, 5), (2, 70, 33), (1, 150, 2), (5, 1, 9), (1, 4500, 1), (2, 37, 16), (3, 41, 4), (2, 600, 8)):
        x = rng.uniform(low, high, shape).astype("f4")
        for axis in range(3):
            yield x, axis
            yield x.transpose(0, 2, 1), axis
            yield x[:, :, ::2], axis


def softmax(x: Array, axis: int) -> Array:
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def check(isa: str, kernel: str, want: Callable[[Array, int], Array], tolerance: float = 2e-6, **fields: Any) -> None:
    for i, (x, axis) in enumerate(layouts()):
        y = like(x)
        along(isa, kernel, x, axis, y, 1 + (i % 7 == 0), **fields)
        exact = want(x.astype("f8"), axis)
        scale = np.abs(exact[np.isfinite(exact)]).max()
        np.testing.assert_allclose(y, exact, tolerance, tolerance * scale, err_msg=f"{x.strides} {axis}")


@pytest.mark.parametrize("factor", [1.0, -1.0, 20.0])
def test_softmax(isa: str, factor: float) -> None:
    tolerance = 2e-6 * max(abs(factor), 1)
    check(isa, "softmax", lambda x, axis: softmax(x * factor, axis), tolerance, a=factor)
    check(isa, "log_softmax", lambda x, axis: np.log(softmax(x * factor, axis)), tolerance, a=factor)


@pytest.mark.parametrize("kernel", ["softmax", "log_softmax"])
@pytest.mark.parametrize("threads", [1, 2])
def test_softmax_of_short_rows(isa: str, kernel: str, threads: int) -> None:
    wide = np.random.default_rng(3).uniform(-4, 4, (2, 37, 260)).astype("f4")
    for n in (1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 23, 33, 63, 64, 65, 127, 128, 129, 256, 257):
        for rows in (1, 8, 16, 37):
            x = wide[:, :rows, :n]
            want = softmax(x.astype("f8"), 2)
            want = want if kernel == "softmax" else np.log(want)
            for gap in (0, 3):
                y = np.full((2, rows, n + gap), np.nan, "f4")
                along(isa, kernel, x if gap else np.ascontiguousarray(x), 2, y[..., :n], threads, a=1.0)
                np.testing.assert_allclose(y[..., :n], want, 2e-6, 2e-6, err_msg=f"{n} {rows}")
                assert np.isnan(y[..., n:]).all(), "wrote outside of the output"
            place = np.ascontiguousarray(x)
            along(isa, kernel, place, 2, place, threads, a=1.0)
            np.testing.assert_allclose(place, want, 2e-6, 2e-6, err_msg=f"{n} {rows} in place")


@pytest.mark.parametrize("kernel", ["softmax", "log_softmax"])
@pytest.mark.parametrize("n", [3, 9, 16, 40, 100, 140, 256, 270])
def test_softmax_of_extreme_values(isa: str, kernel: str, n: int) -> None:
    x = np.random.default_rng(2).standard_normal((19, n)).astype("f4")
    x[0, 1], x[1, 1], x[2], x[3, 2], x[4] = np.nan, np.inf, -np.inf, -np.inf, x[4] * 1e30
    with np.errstate(all="ignore"):
        want = softmax(x.astype("f8"), 1)
        want = want if kernel == "softmax" else np.log(want)
    if kernel == "log_softmax":
        want[4] = x[4].astype("f8") - x[4].max()
    want[:3] = np.nan
    for view in (x, np.asfortranarray(x)):
        y = like(view)
        along(isa, kernel, view, 1, y, a=1.0)
        np.testing.assert_allclose(y, want, 1e-5)


@pytest.mark.parametrize("kernel, function", [("argmax_f32", np.argmax), ("argmin_f32", np.argmin)])
def test_places(isa: str, kernel: str, function: Any) -> None:
    for i, (x, axis) in enumerate(layouts()):
        coarse = np.round(x)  # many equal values
        y = np.full(np.delete(x.shape, axis), np.nan, "f4")
        index = np.full(y.shape, -1, np.int64)
        shape = list(np.insert(y.shape, axis, 1))
        values = y.reshape(shape)
        along(isa, kernel, coarse, axis, values, 1 + (i % 7 == 0), index=index.reshape(shape))
        np.testing.assert_array_equal(index, function(coarse, axis))
        np.testing.assert_array_equal(y, coarse.max(axis) if kernel == "argmax_f32" else coarse.min(axis))


@pytest.mark.parametrize("kernel, function", [("argmax_f32", np.argmax), ("argmin_f32", np.argmin)])
def test_first_nan_is_the_extreme(isa: str, kernel: str, function: Any) -> None:
    x = np.random.default_rng(3).standard_normal((20, 75)).astype("f4")
    x[2, 40], x[2, 60], x[3, 0], x[4, 74], x[5, 7] = np.nan, np.nan, np.nan, np.nan, np.inf
    x[6] = -np.inf
    x[7] = np.nan
    for view, axis in ((x, 1), (np.ascontiguousarray(x.T), 0), (np.ascontiguousarray(x[:, :1]), 0)):
        index = np.full(np.delete(view.shape, axis), -1, np.int64)
        along(isa, kernel, view, axis, None, index=index.reshape(np.insert(index.shape, axis, 1)))
        np.testing.assert_array_equal(index, function(view, axis))


@pytest.mark.parametrize("kernel, function", [("argmax_f32", np.argmax), ("argmin_f32", np.argmin)])
def test_places_in_rows_of_every_length(isa: str, kernel: str, function: Any) -> None:
    rng = np.random.default_rng(5)
    for n in range(1, 140):
        x = rng.permutation(9 * n).reshape(9, n).astype("f4")
        x[3:6] = np.floor(x[3:6] / 40)
        for row, place in ((2, rng.integers(n)), (4, n - 1), (5, 0)):
            x[row, place] = np.nan
        x[6, n // 2 :], x[7], x[8] = np.nan, np.inf, np.where(x[8] < 20, -np.inf, -0.0)
        index = np.full((9, 1), -1, np.int64)
        along(isa, kernel, x, 1, None, index=index)
        np.testing.assert_array_equal(index[:, 0], function(x, 1), err_msg=str(n))


def test_running_sums_and_products(isa: str) -> None:
    check(isa, "cumsum", np.cumsum)
    with np.errstate(over="ignore"):
        check(isa, "cumprod", lambda x, axis: np.cumprod(x, axis).clip(-1e300, 1e300).astype("f4"), 1e-5)


RUNNING = pytest.mark.parametrize("kernel, function", [("cumsum", np.cumsum), ("cumprod", np.cumprod)])


def running(shape: tuple[int, int, int], special: dict[tuple[int, int, int], float]) -> Array:
    x = np.random.default_rng(4).uniform(-1.3, 1.3, shape).astype("f4")
    for place, value in special.items():
        x[place] = value
    return x


def check_running(isa: str, kernel: str, function: Any, x: Array, axis: int, threads: int) -> None:
    """A running kernel against numpy, in place as well."""
    n = x.shape[2]
    with np.errstate(all="ignore"):
        want = function(x, axis, dtype="f8")
    y = np.full((*x.shape[:2], n + 3), np.nan, "f4")
    along(isa, kernel, x, axis, y[..., :n], threads)
    np.testing.assert_allclose(y[..., :n], want, 1e-6, err_msg=str(x.shape))
    assert np.isnan(y[..., n:]).all(), "wrote outside of the output"
    place = np.ascontiguousarray(x)
    along(isa, kernel, place, axis, place, threads)
    np.testing.assert_array_equal(place, y[..., :n])


@RUNNING
@pytest.mark.parametrize("threads", [1, 2])
def test_running_over_short_rows(isa: str, kernel: str, function: Any, threads: int) -> None:
    wide = running((2, 37, 40), {(0, 3, 5): np.nan, (1, 8, 2): np.inf, (0, 9, 1): -np.inf, (0, 9, 6): np.inf})
    for n in (1, 3, 4, 7, 8, 9, 16, 23, 40):
        for rows in (1, 8, 16, 37):
            check_running(isa, kernel, function, wide[:, :rows, :n], 2, threads)


@RUNNING
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_running_over_long_columns(isa: str, kernel: str, function: Any, threads: int) -> None:
    special = {(0, 3, 5): np.nan, (1, 8, 1299): np.inf, (0, 9, 511): -np.inf, (0, 11, 511): np.inf}
    wide = running((2, 13, 1300), special)
    for n in (1, 3, 4, 5, 8, 13):
        for columns in (31, 512, 1300):
            check_running(isa, kernel, function, wide[:, :n, :columns], 1, threads)


@pytest.mark.parametrize("p", [0.0, 1.0, 2.0, 3.0, np.inf])
def test_normalize(isa: str, p: float) -> None:
    def want(x: Array, axis: int) -> Array:
        norm = np.abs(x).max(axis, keepdims=True) if np.isinf(p) else (x != 0).sum(axis, keepdims=True)
        if p and not np.isinf(p):
            norm = (np.abs(x) ** p).sum(axis, keepdims=True) ** (1 / p)
        return np.asarray(x / np.maximum(norm, 4.0))

    check(isa, "normalize", want, a=p, b=4.0)


@pytest.mark.parametrize("size", [1, 3, 4, 5])
@pytest.mark.parametrize("beta", [0.5, 0.75, 1.0, 1.3])
def test_local_response_norm(isa: str, size: int, beta: float) -> None:
    alpha, k = 0.3, 1.7

    def want(x: Array, axis: int) -> Array:
        padded = np.pad(x**2, [(size // 2, (size - 1) // 2) if d == axis else (0, 0) for d in range(x.ndim)])
        sums = np.lib.stride_tricks.sliding_window_view(padded, size, axis).sum(-1)
        return np.asarray(x / (k + alpha * sums / size) ** beta)

    check(isa, "local_response_norm", want, a=size, b=alpha, c=beta, d=k)
