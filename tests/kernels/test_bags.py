"""bags_f32, search_f32 and mode against numpy: columns around vectors, bags without rows, and places outside."""

from __future__ import annotations

import numpy as np
import pytest
from guard import guarded

from pnnx_fast._core.program import codes
from pnnx_fast.errors import IndexRangeError
from pnnx_fast.ops.order_functions import mode
from pnnx_fast.runtime.kernel import call, plan


def bags(isa: str, threads: int, x: np.ndarray, index: np.ndarray, starts: np.ndarray, **given: int) -> np.ndarray:
    closed = given.get("closed", 0)
    y = guarded(np.zeros((len(starts) - closed, x.shape[1]), "f4"))
    fields = {"kind": codes("bag")["sum"], "skip": -1, "closed": 0, "scale": None, **given}
    call(
        isa, "bags_f32", threads, x=x, index=index, starts=starts, y=y, index_size=index.itemsize, size=len(x),
        starts_size=starts.itemsize, columns=x.shape[1], count=index.size, bags=len(y), **fields,
    )  # fmt: skip
    return y


@pytest.mark.parametrize("columns", [1, 3, 4, 8, 15, 16, 31, 64, 65, 200])
@pytest.mark.parametrize("kind", ["sum", "mean", "max"])
def test_bags(isa: str, kind: str, columns: int) -> None:
    rng = np.random.default_rng(columns)
    x = guarded(rng.standard_normal((11, columns)).astype("f4"))
    index, starts = guarded(rng.integers(0, 11, 30).astype("i4")), guarded(np.array([0, 4, 4, 5, 29]))
    want = np.zeros((5, columns), "f8")
    for i, (a, b) in enumerate(zip(starts, [*starts[1:], 30], strict=True)):
        rows = x[index[a:b][index[a:b] != 7]].astype("f8")
        if len(rows):
            want[i] = getattr(rows, kind)(0)
    for threads in (1, 3):
        got = bags(isa, threads, x, index, starts, kind=codes("bag")[kind], skip=7)
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("bad", [-1, 11, 1 << 40, -(1 << 62)])
def test_bags_outside(isa: str, bad: int) -> None:
    x = guarded(np.ones((11, 5), "f4"))
    with pytest.raises(IndexRangeError):
        bags(isa, 1, x, guarded(np.array([1, bad, 2])), guarded(np.array([0, 1])))
    with pytest.raises(IndexRangeError):
        bags(isa, 1, x, guarded(np.array([1, 2, 3])), guarded(np.array([0, bad])))
    with pytest.raises(IndexRangeError):
        bags(isa, 1, x, guarded(np.array([1, 2, 3])), guarded(np.array([1, 2])))
    assert not bags(isa, 1, x, guarded(np.array([1, 2, 3])), guarded(np.array([0, 2, 1])), closed=1)[1].any()


@pytest.mark.parametrize("kind", ["sum", "mean", "max"])
def test_bags_outside_all_bags(isa: str, kind: str) -> None:
    """PyTorch checks what lies behind the last bag for maxima only."""
    x, index, starts = guarded(np.ones((11, 5), "f4")), guarded(np.array([1, 2, 11])), guarded(np.array([0, 2]))
    if kind == "max":
        with pytest.raises(IndexRangeError):
            bags(isa, 2, x, index, starts, kind=codes("bag")[kind], closed=1)
        index[2] = 3
    assert bags(isa, 2, x, index, starts, kind=codes("bag")[kind], closed=1).all()


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 8, 9, 100])
@pytest.mark.parametrize("right", [0, 1])
def test_search(isa: str, right: int, n: int) -> None:
    rng = np.random.default_rng(n)
    edges = guarded(np.sort(rng.integers(-20, 20, (3, n)).astype("f4"), -1))
    for count in (1, 7, 8, 9, 70):
        x = guarded(rng.integers(-22, 22, (3, count)).astype("f4"))
        x[0, 0], x[-1, -1] = np.inf, np.nan
        want = [np.searchsorted(e, v, ("left", "right")[right]) for e, v in zip(edges, x, strict=True)]
        for threads in (1, 3):
            for kind in ("i4", "i8"):
                y = guarded(np.zeros(x.shape, kind))
                fields = {"lines": 3, "values": count, "n": n, "step": n, "right": right, "narrow": int(kind == "i4")}
                call(isa, "search_f32", threads, x=x, edges=edges, y=y, **fields)
                np.testing.assert_array_equal(y, want)


@pytest.mark.parametrize("kind", ["f4", "f8", "f2", "i8", "u1"])
@pytest.mark.parametrize("n", [1, 2, 16, 17, 24, 25, 300])
def test_mode(isa: str, n: int, kind: str) -> None:
    rng = np.random.default_rng(n)
    x = rng.integers(0, 5, (2, n, 3)).astype(kind)
    if kind[0] == "f":
        x[rng.random(x.shape) < 0.3] = np.nan
    x = guarded(x)
    fields = {"outer": 2, "n": n, "inner": 3, "k": 0, "largest": 0, "sorted": 0}
    fields |= {"variant": codes("dtype")[x.dtype.name]}
    for threads in (1, 3):
        values, indices = guarded(np.zeros((2, 3), kind)), guarded(np.zeros((2, 3), "i8"))
        scratch = guarded(np.zeros(plan(isa, "mode", threads, **fields)[2], "u1"))
        call(isa, "mode", threads, x=x, values=values, indices=indices, scratch=scratch, **fields)
        for got, want in zip((values, indices), mode(x, 1), strict=True):
            np.testing.assert_array_equal(got, want)
