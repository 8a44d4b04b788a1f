"""Writes at places that indices name, places of extremes and running extremes, of every type, against PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from graph_of_one import call

from pnnx_fast.errors import IndexRangeError

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.filterwarnings("ignore")

DTYPES = ["f4", "f8", "f2", "i8", "i4", "i2", "i1", "u1", "?"]


def draw(dtype: str, *shape: int, seed: int = 0, top: int = 9) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.asarray(
        rng.integers(0 if dtype in ("u1", "?") else -top, top, shape) % (2 if dtype == "?" else 99)
    ).astype(dtype)


def places(size: int, *shape: int, seed: int = 5) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, size, shape)


def t(x: Any) -> Any:
    return torch.from_numpy(np.array(x)) if isinstance(x, np.ndarray) else x


def same(got: Any, want: Any) -> None:
    for g, w in zip(got, want, strict=True) if isinstance(got, (tuple, list)) else [(got, want)]:
        assert g.dtype == w.numpy().dtype
        assert g.shape == tuple(w.shape)
        np.testing.assert_array_equal(g, w.numpy())


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("dim", [0, 1, -1])
def test_scatter(dtype: str, dim: int) -> None:
    x, src = draw(dtype, 6, 5, 7), draw(dtype, 6, 5, 7, seed=1)
    order = np.argsort(np.random.default_rng(2).random(x.shape), dim)  # no place twice
    same(call("aten::scatter", (x, dim, order, src), 1), t(x).scatter(dim, t(order), t(src)))
    part = np.take(order, range(3), dim)
    same(call("aten::scatter", (x, dim, part, 1), 1), t(x).scatter(dim, t(part), 1))
    index = places(x.shape[dim], 4, 3, 2)
    for reduce in ("add", "multiply"):
        if dtype == "?":
            continue
        want = t(x).scatter(dim, t(index), t(src), reduce=reduce)
        same(call("aten::scatter", (x, dim, index, src, reduce), 1), want)
    same(call("aten::scatter", (x, dim, index[:0], src), 1), t(x))
    for bad in (-1, x.shape[dim]):
        with pytest.raises(IndexRangeError, match=f"aten::scatter op: index {bad} is out of range"):
            call("aten::scatter", (x, dim, np.where(index == 2, bad, index), src), 1)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("reduce", ["sum", "prod", "amax", "amin", "mean"])
def test_scatter_reduce(dtype: str, reduce: str) -> None:
    if dtype == "?" and reduce in ("mean", "sum", "prod"):
        return
    x, src, index = draw(dtype, 6, 5), draw(dtype, 6, 5, seed=1), places(5, 4, 5)
    if dtype[0] == "f":
        x[1, 1], src[2, 2], src[1] = np.nan, np.nan, 0.5
    for dim, to in ((1, index), (0, index)):
        for include in (True, False):
            want = t(x).scatter_reduce(dim, t(to), t(src), reduce, include_self=include)
            if reduce == "mean" and dtype == "f2":
                continue
            same(call("aten::scatter_reduce", (x, dim, to, src, reduce, include), 1), want)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("dim", [0, 1, -1])
def test_slices(dtype: str, dim: int) -> None:
    x = draw(dtype, 6, 5, 7)
    index = np.array([3, 0, 4])
    src = np.take(draw(dtype, 6, 5, 7, seed=1), index, dim)
    same(call("aten::index_copy", (x, dim, index, src), 1), t(x).index_copy(dim, t(index), t(src)))
    same(call("aten::index_fill", (x, dim, index - 5, 1), 1), t(x).index_fill(dim, t(index - 5), 1))
    again = np.array([3, 0, 3])
    if dtype != "?":
        same(call("aten::index_add", (x, dim, again, src, 1), 1), t(x).index_add(dim, t(again), t(src)))
    for kind, value in (("aten::index_copy", src), ("aten::index_fill", 1)):
        with pytest.raises(IndexRangeError, match=f"{kind} op: index 9 is out of range"):
            call(kind, (x, dim, np.array([3, 9, 4]), value), 1)


def test_scalars() -> None:
    x, i, s = np.array(3.0, "f4"), np.array(0), np.array(5.0, "f4")
    same(call("aten::scatter", (x, 0, i, s), 1), t(x).scatter(0, t(i), t(s)))
    same(call("aten::scatter_add", (x, 0, i, s), 1), t(x).scatter_add(0, t(i), t(s)))
    same(call("aten::index_copy", (x, 0, i, s), 1), t(x).index_copy(0, t(i), t(s)))
    same(call("aten::index_fill", (x, 0, i, 2.0), 1), t(x).index_fill(0, t(i), 2.0))
    same(call("aten::cummax", (x, 0), 2), t(x).cummax(0))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("accumulate", [False, True])
def test_index_put(dtype: str, accumulate: bool) -> None:
    x = draw(dtype, 6, 5, 7)
    rows, columns = np.array([3, -6, 4]), np.array([[1], [-5]])
    cases = [
        ([rows], draw(dtype, 3, 5, 7, seed=1)),
        ([rows], draw(dtype, 7, seed=1)),
        ([rows, columns], draw(dtype, 2, 3, 7, seed=1)),
        ([rows, columns], np.asarray(1, dtype)),
        ([rows[:0]], draw(dtype, 0, 5, 7)),
    ]
    for key, value in cases:
        if accumulate and dtype == "?":
            continue
        want = torch.ops.aten.index_put(t(x), [t(k) for k in key], t(value), accumulate)
        same(call("aten::index_put", (x, key, value, accumulate), 1), want)
    mask = draw("?", 6, 5, seed=3)
    if not accumulate:
        want = t(x).index_put((t(mask),), t(np.asarray(1, dtype)))
        same(call("aten::index_put", (x, [mask], np.asarray(1, dtype), False), 1), want)
    with pytest.raises(IndexRangeError, match="aten::index_put op: index 6 is out of range"):
        call("aten::index_put", (x, [rows + 3, columns], np.asarray(1, dtype), False), 1)


@pytest.mark.parametrize("dtype", ["f4", "i8", "u1"])
def test_reads_by_several_indices(dtype: str) -> None:
    x, rows, columns = draw(dtype, 6, 5, 7), np.array([3, -6, 4]), np.array([[1], [-5]])
    same(call("aten::index", (x, [rows, columns]), 1), t(x)[t(rows), t(columns)])
    with pytest.raises(IndexRangeError, match="index -6 is out of range for a dimension of size 5"):
        call("aten::index", (x, [rows, columns - 1]), 1)


def test_one_hot() -> None:
    for x in (places(7, 3, 4), np.array(2), places(7, 0, 2)):
        same(call("aten::one_hot", (x, 7), 1), torch.nn.functional.one_hot(t(x), 7))
    same(call("aten::one_hot", (places(7, 30), -1), 1), torch.nn.functional.one_hot(t(places(7, 30))))
    for bad in (7, -1):
        with pytest.raises(IndexRangeError, match="aten::one_hot op"):
            call("aten::one_hot", (np.array([1, bad]), 7), 1)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(5, 70, 3), (70, 40), (1, 1), (200,), ()])
def test_extremes(dtype: str, shape: tuple[int, ...]) -> None:
    for seed in range(3):
        x = draw(dtype, *shape, seed=seed, top=40)
        if dtype[0] == "f" and seed and x.size > 150:
            x.reshape(-1)[[40, 77, 130]] = [np.nan, np.inf, np.nan]
        for dim in range(max(x.ndim, 1)):
            if dtype != "?":
                same(call("aten::argmax", (x, dim, False), 1), t(np.where(True, x, x)).argmax(dim))
                same(call("aten::argmin", (x, dim, True), 1), t(x).argmin(dim, True))
            first = np.asarray((np.argmax if dtype == "?" else np.argmin)(x, dim)) if x.ndim else np.asarray(0)
            want = t(x).max(dim) if dtype == "?" else t(x).min(dim)
            got = call("aten::max" if dtype == "?" else "aten::min", (x, dim, False), 2)
            np.testing.assert_array_equal(got[0], want[0].numpy())
            np.testing.assert_array_equal(got[1], first)
            same(call("aten::amax", (x, [dim], False), 1), t(x).amax(dim))
            same(call("aten::cummax", (x, dim), 2), t(x).cummax(dim))
            same(call("aten::cummin", (x, dim), 2), t(x).cummin(dim))


@pytest.mark.parametrize("dtype", DTYPES)
def test_truth_traces_and_differences(dtype: str) -> None:
    x = draw(dtype, 4, 5, 6) * (draw("?", 4, 5, 6, seed=4) > 0)
    x = np.asarray(x, dtype)
    x[0], x[1] = 0, 1
    for dim in (0, -1):
        same(call("aten::any", (x, dim, False), 1), t(x).any(dim))
        same(call("aten::all", (x, dim, True), 1), t(x).all(dim, True))
        same(call("aten::any", (x[:0], dim, False), 1), t(x[:0]).any(dim))
        same(call("aten::diff", (x, 1, dim, None, None), 1), t(x).diff(1, dim))
        same(call("aten::diff", (x, 2, dim, x, x), 1), t(x).diff(2, dim, t(x), t(x)))
    same(call("aten::all", (x,), 1), t(x).all())
    if dtype not in ("f2", "?"):
        same(call("aten::trace", (x[2],), 1), t(x[2]).trace())


@pytest.mark.parametrize("dtype", ["f4", "i8", "u1"])
def test_taken(dtype: str) -> None:
    x = draw(dtype, 6, 5)
    same(call("aten::take", (x, np.array([[3, -1], [29, -30]])), 1), t(x).take(t(np.array([[3, -1], [29, -30]]))))
    index = places(5, 6, 3)
    same(call("aten::take_along_dim", (x, index, 1), 1), t(x).take_along_dim(t(index), 1))
    same(call("aten::take_along_dim", (x, index[:1], 1), 1), t(x).take_along_dim(t(index[:1]), 1))
    same(call("aten::put", (x, np.array([3, -1]), x[0, :2], False), 1), t(x).put(t(np.array([3, -1])), t(x[0, :2])))
    with pytest.raises(IndexRangeError):
        call("aten::take", (x, np.array([30])), 1)
