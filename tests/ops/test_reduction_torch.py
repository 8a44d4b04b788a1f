"""Reductions, extremes, running sums and orderings against PyTorch, over dtypes, dimensions and layouts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from graph_of_one import call, run

from pnnx_fast.errors import ParameterError, ShapeError

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.filterwarnings("ignore:.*degrees of freedom")


def sample(*shape: int, dtype: str = "f4", seed: int = 1) -> np.ndarray:
    return np.asarray(np.random.default_rng(seed).standard_normal(shape) * 3).astype(dtype)


def check(kind: str, x: np.ndarray, want: Any, outputs: int = 1, **params: Any) -> None:
    for last in (False, True):
        got = run(kind, x, last=last, outputs=outputs, **params)
        pairs = zip([got] if outputs == 1 else got, [want] if outputs == 1 else want, strict=True)
        for g, w in pairs:
            w = w.numpy()
            assert g.dtype == w.dtype
            assert np.shape(g) == w.shape
            np.testing.assert_allclose(g, w, 2e-5, 1e-5, err_msg=f"{kind} {params} last={last}")


DIMS = [None, 0, -1, (0, 2), (1, -1), (0, 1, 2, 3)]


@pytest.mark.parametrize("dim", DIMS)
@pytest.mark.parametrize("keepdim", [True, False])
@pytest.mark.parametrize("dtype", ["f4", "f8", "i4", "i8", "?"])
def test_sum_mean_amax(dim: Any, keepdim: bool, dtype: str) -> None:
    x = sample(2, 19, 4, 5, dtype=dtype)
    t = torch.from_numpy(x)
    dims = tuple(range(4)) if dim is None else dim
    check("torch.sum", x, torch.sum(t, dims, keepdim), dim=dim, keepdim=keepdim)
    check("torch.amax", x, torch.amax(t, dims, keepdim), dim=dim, keepdim=keepdim)
    check("torch.amin", x, torch.amin(t, dims, keepdim), dim=dim, keepdim=keepdim)
    if dtype[0] == "f":
        check("torch.mean", x, torch.mean(t, dims, keepdim), dim=dim, keepdim=keepdim)
        check("torch.logsumexp", x, torch.logsumexp(t, dims, keepdim), dim=dim or dims, keepdim=keepdim)


@pytest.mark.parametrize("dim", DIMS)
@pytest.mark.parametrize("dtype", ["f4", "f8", "c8"])
def test_norm_var_std(dim: Any, dtype: str) -> None:
    x = sample(2, 19, 4, 5, dtype=dtype)
    if dtype == "c8":
        x = (x + 1j * sample(2, 19, 4, 5, seed=2)).astype("c8")
    t = torch.from_numpy(x)
    for p in (0, 1, 2, 3, 0.5, float("inf"), float("-inf")):
        check("torch.norm", x, torch.linalg.vector_norm(t, p, dim), p=p, dim=dim)
    check("torch.norm", x, torch.linalg.vector_norm(t, 2, dim, keepdim=True), p="fro", dim=dim, keepdim=True)
    for name in ("var", "std"):
        function = getattr(torch, name)
        for correction in (0, 1, 2):
            check(f"torch.{name}", x, function(t, dim, correction=correction), dim=dim, correction=correction)
        check(f"torch.{name}", x, function(t, dim, unbiased=False), dim=dim, unbiased=False)
        check(f"torch.{name}", x, function(t, dim, keepdim=True), dim=dim, keepdim=True)


INF = np.inf
ENDS = ([INF, 1, 2], [1, 2, INF], [1, 2, -INF], [INF, -INF], [-INF] * 3, [1, np.nan], [INF], [3], [])


@pytest.mark.parametrize("row", ENDS, ids=str)
@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("name", ["std", "var"])
def test_moments_of_what_is_not_finite(name: str, dtype: str, row: list[float]) -> None:
    for lead in ((), (4,), (3, 70)):
        for x in (np.full((*lead, len(row)), row, dtype), np.full((*lead, len(row)), row, dtype).T.copy()):
            t = torch.from_numpy(x)
            for dim in (None, *([d] for d in range(x.ndim))):
                for free in (0, 1, 5):
                    want = getattr(torch, f"{name}_mean")(t, dim, correction=free)
                    got = call(f"aten::{name}_mean", (x, dim, free, False), 2)
                    for g, w in zip(got, want, strict=True):
                        np.testing.assert_allclose(g, w, 1e-5, 1e-6, err_msg=f"{x.shape} {dim} {free}")


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
def test_moments_of_equal_numbers(dtype: str) -> None:
    for shape, dim in (
        ((2, 24, 4), 1),
        ((4, 10, 7), 2),
        ((3, 37), 1),
        ((5, 700), 1),
        ((2, 3, 9, 50), (1, 3)),
        ((70,), 0),
    ):
        for value in np.random.default_rng(2).uniform(0.1, 100, 5):
            x = np.full(shape, value, dtype)
            for kind in ("std", "var"):
                assert not np.any(run(f"torch.{kind}", x, dim=dim))
                spread, mean = call(f"aten::{kind}_mean", (x, [dim] if isinstance(dim, int) else dim, True, False), 2)
                assert not spread.any()
                np.testing.assert_array_equal(mean, x.flat[0])


@pytest.mark.parametrize("name", ["std", "var"])
def test_moments_of_huge_numbers(name: str) -> None:
    row = np.float32([3e38, -3e38, 1, 2e38])
    for x in (row, np.tile(row, (70, 1)), np.tile(row[:, None], 70)):
        for dim in (0, -1):
            want = getattr(torch, name)(torch.from_numpy(x), dim, correction=0)
            np.testing.assert_allclose(run(f"torch.{name}", x, dim=dim, correction=0), want, 1e-5)


@pytest.mark.parametrize("dtype", ["f4", "f8", "i8"])
def test_prod(dtype: str) -> None:
    x = (sample(2, 6, 3, dtype="f8") + 0.5).astype(dtype)
    t = torch.from_numpy(x)
    check("torch.prod", x, torch.prod(t))
    check("torch.prod", x, torch.prod(t, 1, keepdim=True), dim=1, keepdim=True)
    check("torch.prod", x, torch.prod(t, 0, dtype=torch.float64), dim=0, dtype="torch.float64")


@pytest.mark.parametrize("dtype", ["f4", "f8", "i8"])
@pytest.mark.parametrize("keepdim", [True, False])
@pytest.mark.parametrize("kind", ["max", "min"])
def test_max_min(dtype: str, keepdim: bool, kind: str) -> None:
    x = sample(3, 20, 5, 4, dtype=dtype)
    t = torch.from_numpy(x)
    check(f"torch.{kind}", x, getattr(torch, kind)(t))
    check(f"torch.arg{kind}", x, getattr(torch, f"arg{kind}")(t), dim=None)
    if dtype == "i8":
        x = np.stack([np.random.default_rng(i).permutation(20) for i in range(60)]).reshape(3, 5, 4, 20).swapaxes(1, 3)
        t = torch.from_numpy(x)
    for dim in (-4, 1, 2, -1):
        want = getattr(torch, kind)(t, dim, keepdim)
        check(f"torch.{kind}", x, tuple(want), outputs=2, dim=dim, keepdim=keepdim)
        check(f"torch.{kind}", x, want[0], dim=dim, keepdim=keepdim)
        check(f"torch.arg{kind}", x, getattr(torch, f"arg{kind}")(t, dim, keepdim), dim=dim, keepdim=keepdim)


@pytest.mark.parametrize("dtype", ["f4", "f8", "i4", "?"])
def test_running_sums(dtype: str) -> None:
    x = sample(2, 7, 3, 4, dtype=dtype)
    t = torch.from_numpy(x)
    for dim in range(-4, 4):
        check("torch.cumsum", x, torch.cumsum(t, dim), dim=dim)
        check("torch.cumprod", x, torch.cumprod(t, dim), dim=dim)


@pytest.mark.parametrize("n, k", [(1, 1), (5, 2), (10, 3), (50, 49), (100, 100), (300, 2), (1000, 30)])
@pytest.mark.parametrize("ordered", [True, False])
@pytest.mark.parametrize("largest", [True, False])
def test_topk(n: int, k: int, ordered: bool, largest: bool) -> None:
    x = sample(3, n, 2)
    want = torch.topk(torch.from_numpy(x), k, 1, largest, ordered)
    check("torch.topk", x, tuple(want), outputs=2, dim=1, k=k, largest=largest, sorted=ordered)
    wide = x.astype("f8")
    want = torch.topk(torch.from_numpy(wide), k, 1, largest, True)
    check("torch.topk", wide, tuple(want), outputs=2, dim=1, k=k, largest=largest, sorted=True)


@pytest.mark.parametrize("descending", [True, False])
def test_sort(descending: bool) -> None:
    x = sample(3, 20, 2)
    x[0, 3, 1] = np.nan
    x[1, 5:9] = 2
    want = torch.sort(torch.from_numpy(x), dim=1, descending=descending, stable=True)
    check("torch.sort", x, tuple(want), outputs=2, dim=1, descending=descending)
    check("torch.argsort", x, want[1], dim=1, descending=descending)


@pytest.mark.parametrize("kind", ["sum", "mean", "prod", "amax", "norm", "var", "logsumexp"])
def test_scalars_and_empty(kind: str) -> None:
    x = np.array(3.5, "f4")
    function = torch.linalg.vector_norm if kind == "norm" else getattr(torch, kind)
    if kind != "var":
        want = function(torch.from_numpy(x), **({"dim": 0} if kind == "logsumexp" else {}))
        check(f"torch.{kind}", x, want, **({"dim": 0} if kind == "logsumexp" else {}))
    if kind in ("sum", "mean", "prod", "var"):
        empty = np.empty((2, 0, 3), "f4")
        want = function(torch.from_numpy(empty), 1)
        check(f"torch.{kind}", empty, want, dim=1)


def test_errors() -> None:
    x = sample(2, 3)
    with pytest.raises(ShapeError, match="out of range"):
        run("torch.sum", x, dim=2)
    with pytest.raises(ShapeError, match="appears twice"):
        run("torch.sum", x, dim=[0, -2])
    with pytest.raises(ShapeError, match="no extreme"):
        run("torch.amax", np.empty((2, 0), "f4"), dim=1)
    with pytest.raises(ParameterError, match="k must be"):
        run("torch.topk", x, k=4)


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
@pytest.mark.parametrize("dim", [[-1], [0], [0, 2], None])
def test_sum_of_numbers(dtype: str, dim: Any) -> None:
    x = np.random.default_rng(0).standard_normal((5, 70, 33)).astype(dtype)
    x[x > 1] = np.nan
    x[0, 0] = np.nan
    x[1, 1, 1], x[2, 2, 2] = np.inf, -np.inf
    for wanted in (None, 7):
        got = call("aten::nansum", (x, dim, False, wanted), 1)
        t = torch.from_numpy(x)
        want = torch.nansum(t, dim, dtype=None if wanted is None else torch.float64).numpy()
        assert got.dtype == want.dtype
        np.testing.assert_allclose(
            got, want, 2e-3 if dtype == "f2" else 1e-5, 2e-2 if got.dtype == np.float16 else 1e-5
        )
