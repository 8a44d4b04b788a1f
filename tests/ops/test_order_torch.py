"""Selection and sorting against PyTorch: every type, ties to the place, NaN, both ends of memory orders."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from graph_of_one import call, run

from pnnx_fast._types import Array
from pnnx_fast.errors import ParameterError, ShapeError

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch

DTYPES = ["f2", "f4", "f8", "i8", "i4", "i2", "i1", "u1"]


def sample(dtype: str, shape: tuple[int, ...], few: bool) -> Array:
    """Numbers of the whole range, or a few that repeat; of floats some are NaN, zeros have both signs."""
    rng = np.random.default_rng(len(shape) + few)
    if dtype[0] != "f":
        limits = np.iinfo(dtype)
        ends = (0, 9) if few else (limits.min, limits.max)
        return rng.integers(*ends, shape, dtype=dtype, endpoint=True)
    x = rng.integers(-4, 5, shape) * rng.choice([-1.0, 1.0], shape) if few else rng.standard_normal(shape) * 100
    return np.where(rng.random(shape) < 0.05, np.nan, x).astype(dtype)


def compare(got: Any, want: Any) -> None:
    got, want = ([r] if isinstance(r, (Array, torch.Tensor)) else list(r) for r in (got, want))
    for g, w in zip(got, want, strict=True):
        assert g.dtype == w.numpy().dtype
        np.testing.assert_array_equal(g, w.numpy())


@pytest.mark.parametrize("few", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
def test_topk(dtype: str, few: bool) -> None:
    """Few of many go through a heap, more through partitions; a few of some do either."""
    for shape, dim in (((3, 700), 1), ((130, 3), 0), ((4, 40, 2), 1), ((2, 5), -1)):
        x = sample(dtype, shape, few)
        n = shape[dim]
        for k in sorted({1, 2, n // 64, n // 20, n // 3, n - 1, n}):
            for largest in (True, False):
                for ordered in (True, False):
                    got = run("torch.topk", x, outputs=2, k=k, dim=dim, largest=largest, sorted=ordered)
                    compare(got, torch.from_numpy(x).topk(k, dim, largest, ordered))


@pytest.mark.parametrize("few", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
def test_sort(dtype: str, few: bool) -> None:
    for shape, dim in (((3, 700), 1), ((130, 3), 0), ((4, 20, 2), 1), ((1, 9000), -1)):
        x = sample(dtype, shape, few)
        for descending in (False, True):
            want = torch.from_numpy(x).sort(dim=dim, descending=descending, stable=True)
            compare(run("torch.sort", x, outputs=2, dim=dim, descending=descending, stable=True), want)
            places = run("torch.argsort", x, dim=dim, descending=descending)
            np.testing.assert_array_equal(places, want[1].numpy())
        np.testing.assert_array_equal(call("aten::msort", (x,), 1), torch.from_numpy(x).sort(0)[0].numpy())


@pytest.mark.parametrize("few", [False, True])
@pytest.mark.parametrize("dtype", DTYPES[1:])
def test_ranks(dtype: str, few: bool) -> None:
    for shape, dim in (((5, 300), 1), ((70, 3), 0), ((4, 20, 2), 1), ((2, 1), -1), ((3, 2), -1)):
        x = sample(dtype, shape, few)
        t = torch.from_numpy(x)
        for k in sorted({1, max(shape[dim] // 3, 1), shape[dim]}):
            for keep in (False, True):
                compare(call("aten::kthvalue", (x, k, dim, keep), 2), t.kthvalue(k, dim, keep))
        for name in ("median", "nanmedian"):
            compare(call(f"aten::{name}", (x, dim, True), 2), getattr(t, name)(dim, True))
            compare(call(f"aten::{name}", (x,), 1), getattr(t, name)())


def test_ranks_of_nan() -> None:
    for n in (1, 2, 5, 33, 300):
        x = np.full((2, n), np.nan, np.float32)
        x[1, n // 2] = 3
        t = torch.from_numpy(x)
        for name in ("median", "nanmedian"):
            compare(call(f"aten::{name}", (x, 1, False), 2), getattr(t, name)(1, False))


def test_what_has_no_order() -> None:
    with pytest.raises(ShapeError, match="complex"):
        run("torch.sort", np.zeros(3, np.complex64), outputs=2, dim=0)
    with pytest.raises(ParameterError, match="k must"):
        call("aten::kthvalue", (np.zeros(3, np.float32), 4, 0, False), 2)
    with pytest.raises(ParameterError, match="empty"):
        call("aten::median", (np.zeros((2, 0), np.float32), 1, False), 2)
