"""Gathering and scattering by index tensors against numpy, with indices in and out of range."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from strides import elements

from pnnx_fast._core.program import codes
from pnnx_fast.errors import IndexRangeError
from pnnx_fast.runtime.kernel import call

THREADS = [1, 2]
DTYPES, OPERATIONS, OUTSIDE = codes("dtype"), codes("scatter"), codes("outside")


def gather_rows(isa: str, threads: int, x: np.ndarray, index: np.ndarray, outside: str = "fault") -> np.ndarray:
    outer, size, inner = x.shape
    y = np.full((outer, len(index), inner), 99, x.dtype)
    call(
        isa, "gather_rows", threads, x=x, index=index, y=y, index_size=index.itemsize, outer=outer, size=size,
        count=len(index), wrap=OUTSIDE[outside], inner=inner * x.itemsize, xso=x.strides[0], xsr=x.strides[1],
        yso=y.strides[0], ysr=y.strides[1],
    )  # fmt: skip
    return y


def along(
    kernel: str, isa: str, threads: int, whole: np.ndarray, part: np.ndarray, index: np.ndarray, dim: int
) -> None:
    """Calls gather (whole is read, part written) or scatter (whole is summed into, part read)."""
    ws = elements(whole)
    stride, ws[dim] = ws[dim], 0
    fields: dict[str, Any] = {
        "js": elements(index),
        "shape": index.shape,
        "rank": index.ndim,
        "dim": dim,
        "wrap": OUTSIDE["fault"],
    }
    fields |= {
        "size": whole.shape[dim],
        "stride": stride,
        "itemsize": whole.itemsize,
        "index_size": index.itemsize,
    }
    fields |= (
        {"x": whole, "xs": ws, "y": part, "ys": elements(part)}
        if kernel == "gather"
        else {"x": part, "xs": elements(part), "y": whole, "ys": ws}
    )
    if kernel == "scatter":
        fields |= {"op": OPERATIONS["add"], "type": DTYPES[whole.dtype.name]}
    call(isa, kernel, threads, index=index, **fields)


@pytest.mark.parametrize("dtype", ["u1", "f4", "c16"])
@pytest.mark.parametrize("index_dtype", ["i4", "i8"])
@pytest.mark.parametrize("shape", [(1, 11, 5), (3, 4, 1), (2, 1, 33)])
@pytest.mark.parametrize("threads", THREADS)
def test_rows(isa: str, dtype: str, index_dtype: str, shape: tuple[int, ...], threads: int) -> None:
    rng = np.random.default_rng(0)
    x = rng.integers(0, 100, shape).astype(dtype)
    index = rng.integers(0, shape[1], 17).astype(index_dtype)
    np.testing.assert_array_equal(gather_rows(isa, threads, x, index), x[:, index])
    np.testing.assert_array_equal(gather_rows(isa, threads, x, index - shape[1], "wrap"), x[:, index])


def test_rows_nearest_to_indices_out_of_range(isa: str) -> None:
    x = np.arange(24, dtype="f4").reshape(1, 6, 4)
    index = np.array([-(2**63), -1, 0, 5, 6, 2**62])
    np.testing.assert_array_equal(gather_rows(isa, 1, x, index, "nearest"), x[:, [0, 0, 0, 5, 5, 5]])


def test_rows_of_nothing(isa: str) -> None:
    x = np.empty((2, 6, 0), "f4")
    assert gather_rows(isa, 1, x, np.array([0, 5, 3])).shape == (2, 3, 0)
    with pytest.raises(IndexRangeError):
        gather_rows(isa, 1, x, np.array([0, 6]))


@pytest.mark.parametrize("bad", [-1, 6, 2**62, -(2**63)])
@pytest.mark.parametrize("threads", THREADS)
def test_row_out_of_range(isa: str, bad: int, threads: int) -> None:
    x = np.ones((1, 6, 4), "f4")
    with pytest.raises(IndexRangeError, match=f"index {bad} is out of range for a dimension of size 6") as info:
        gather_rows(isa, threads, x, np.array([0, 5, bad, 1]))
    assert (info.value.index, info.value.size, info.value.step) == (bad, 6, 0)


@pytest.mark.parametrize("dim", [0, 1, 2])
@pytest.mark.parametrize("dtype", ["u1", "i2", "f4", "f8", "c16"])
@pytest.mark.parametrize("threads", THREADS)
def test_gather(isa: str, dim: int, dtype: str, threads: int) -> None:
    rng = np.random.default_rng(1)
    x = rng.integers(0, 1000, (5, 7, 9)).astype(dtype)
    shape = [4, 6, 8]
    shape[dim] = 11
    index = rng.integers(0, x.shape[dim], shape)
    want = np.take_along_axis(x[tuple(slice(None if d == dim else n) for d, n in enumerate(shape))], index, dim)
    got = np.empty(shape, dtype)
    along("gather", isa, threads, x, got, index, dim)
    np.testing.assert_array_equal(got, want)
    turned = np.empty(shape[::-1], dtype).T
    along("gather", isa, threads, x.transpose(2, 1, 0).copy().T, turned, index, dim)
    np.testing.assert_array_equal(turned, want)
    index[1, 1, 1] = x.shape[dim]
    with pytest.raises(IndexRangeError):
        along("gather", isa, threads, x, got, index, dim)


@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("index_dtype", ["i4", "i8"])
def test_gather_from_every_other_place(isa: str, dim: int, index_dtype: str) -> None:
    """Indices and results lie together, or apart."""
    rng = np.random.default_rng(2)
    x, index = rng.standard_normal((6, 14)).astype("f4"), rng.integers(0, 6, (6, 14)).astype(index_dtype)
    got = np.zeros((6, 14), "f4")
    for along_line in (slice(None), slice(None, None, 2)):
        for source in (x, x[::-1]):
            part, to = index[:, along_line], got[:, along_line]
            want = np.take_along_axis(source[:, along_line], part, dim)
            along("gather", isa, 1, source[:, along_line], to, part, dim)
            np.testing.assert_array_equal(to, want)


@pytest.mark.parametrize("dim", [0, 1, 2])
@pytest.mark.parametrize("threads", THREADS)
@pytest.mark.parametrize("dtype", ["f4", "f8", "i4", "i8"])
@pytest.mark.parametrize("index_dtype", ["i4", "i8"])
def test_scatter_add(isa: str, dim: int, threads: int, dtype: str, index_dtype: str) -> None:
    rng = np.random.default_rng(2)
    y = rng.integers(0, 50, (5, 7, 33)).astype(dtype)
    y[0, 0] += np.iinfo(dtype).max - 60 if dtype[0] == "i" else 0
    shape = [4, 6, 30]
    shape[dim] = 40
    index = rng.integers(0, y.shape[dim], shape).astype(index_dtype)
    src = rng.integers(0, 50, shape).astype(dtype)
    want = y.copy()
    where = list(np.indices(shape))
    where[dim] = index
    np.add.at(want, tuple(where), src)
    along("scatter", isa, threads, y, src, index, dim)
    np.testing.assert_array_equal(y, want)
    index[0, 0, 0] = -1
    with pytest.raises(IndexRangeError):
        along("scatter", isa, threads, y, src, index, dim)


@pytest.mark.parametrize("threads", THREADS)
def test_scatter_add_of_rows(isa: str, threads: int) -> None:
    """An index that is the same for all entries of a row."""
    rng = np.random.default_rng(4)
    y, src = rng.integers(0, 50, (5, 33)).astype("f4"), rng.integers(0, 50, (40, 33)).astype("f4")
    rows = rng.integers(0, 5, 40)
    want = y.copy()
    np.add.at(want, rows, src)
    along("scatter", isa, threads, y, src, np.broadcast_to(rows[:, None], src.shape), 0)
    np.testing.assert_array_equal(y, want)
