"""Sorted lines against numpy's stable sort: every type, lengths that take each way, either result alone."""

from __future__ import annotations

import numpy as np
import pytest
from guard import guarded

from pnnx_fast._core.program import codes
from pnnx_fast.runtime.kernel import call, plan

TYPES, CODES = ["u1", "i1", "i2", "i4", "i8", "f2", "f4", "f8"], codes("dtype")


def sort(isa: str, x: np.ndarray, descending: bool, threads: int = 1) -> tuple[np.ndarray, np.ndarray]:
    outer, n, inner = x.shape
    values, indices = guarded(np.full(x.shape, 7, x.dtype)), guarded(np.full(x.shape, -7, "i8"))
    fields = {"outer": outer, "n": n, "inner": inner, "k": 0, "largest": descending, "sorted": 0}
    fields |= {"variant": CODES[x.dtype.name]}
    scratch = guarded(np.empty(plan(isa, "sort", threads, **fields)[2], np.uint8))
    given = guarded(x)
    call(isa, "sort", threads, x=given, values=values, indices=indices, scratch=scratch, **fields)
    for alone in ("values", "indices"):
        result = guarded(np.empty_like(values if alone == "values" else indices))
        call(isa, "sort", threads, x=given, scratch=scratch, **{alone: result}, **fields)
        np.testing.assert_array_equal(result, values if alone == "values" else indices)
    return values, indices


def stable(x: np.ndarray, descending: bool) -> np.ndarray:
    """Places of sorted elements along the second dimension, those of equal ones in their order."""
    if not descending:
        return x.argsort(1, kind="stable")
    return x.shape[1] - 1 - np.flip(np.flip(x, 1).argsort(1, kind="stable"), 1)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("n", [1, 2, 24, 25, 300, 5000])
def test_sort(isa: str, n: int, dtype: str) -> None:
    rng = np.random.default_rng(n)
    if dtype[0] == "f":
        x = (rng.standard_normal((2, n, 2)) * 1000).astype(dtype)
        x[rng.random(x.shape) < 0.1] = np.nan
        x[rng.random(x.shape) < 0.1] = -0.0
        x[rng.random(x.shape) < 0.1] = 0.0
        x[rng.random(x.shape) < 0.05] = -np.inf
    else:
        limits = np.iinfo(dtype)
        x = rng.integers(limits.min, limits.max, (2, n, 2), dtype=dtype, endpoint=True)
    for line in (x, np.clip(x, 0, 3), np.full_like(x, 5)):
        places = stable(line, False)
        values, indices = sort(isa, line, False, threads=3)
        np.testing.assert_array_equal(indices, places)
        np.testing.assert_array_equal(values.view("u1"), np.take_along_axis(line, places, 1).view("u1"))
        np.testing.assert_array_equal(sort(isa, line, True)[1], stable(line, True))


@pytest.mark.parametrize("shape", [(40, 1), (1, 40), (3, 19), (35, 2)])
@pytest.mark.parametrize("n", [1, 2, 3, 7, 16, 17, 64, 65, 300, 2048, 2049])
def test_lines_that_are_sorted_together(isa: str, n: int, shape: tuple[int, int]) -> None:
    rng = np.random.default_rng(n)
    outer, inner = shape
    x = rng.standard_normal((outer, n, inner)).astype("f4")
    rough = np.round(x * 2) / 2
    rough[rng.random(x.shape) < 0.1] = np.nan
    rough[rng.random(x.shape) < 0.1] = -0.0
    rough[rng.random(x.shape) < 0.1] = -np.inf
    for lines in (x, rough):
        for descending in (False, True):
            values, indices = sort(isa, lines, descending, threads=2)
            places = stable(lines, descending)
            np.testing.assert_array_equal(indices, places)
            np.testing.assert_array_equal(values.view("u4"), np.take_along_axis(lines, places, 1).view("u4"))


def test_scratch_is_that_of_lines() -> None:
    fields = {"outer": 1, "n": 1000, "inner": 2, "k": 0, "largest": 0, "sorted": 0, "variant": CODES["int64"]}
    assert plan("generic", "sort", 64, **fields)[2] == 2 * 2 * 1000 * 16
