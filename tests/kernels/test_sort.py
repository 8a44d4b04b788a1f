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
        places = line.argsort(1, kind="stable")
        values, indices = sort(isa, line, False, threads=3)
        np.testing.assert_array_equal(indices, places)
        np.testing.assert_array_equal(values.view("u1"), np.take_along_axis(line, places, 1).view("u1"))
        backwards = n - 1 - np.flip(np.flip(line, 1).argsort(1, kind="stable"), 1)
        np.testing.assert_array_equal(sort(isa, line, True)[1], backwards)


def test_scratch_is_that_of_lines() -> None:
    fields = {"outer": 1, "n": 1000, "inner": 2, "k": 0, "largest": 0, "sorted": 0, "variant": CODES["int64"]}
    assert plan("generic", "sort", 64, **fields)[2] == 2 * 2 * 1000 * 16
