"""Selection of the k best elements against numpy's sort: lines, ties, NaN, hostile orders."""

from __future__ import annotations

import numpy as np
import pytest
from guard import guarded

from pnnx_fast._core.program import codes
from pnnx_fast.runtime.kernel import call, plan

DTYPES = codes("dtype")


def topk(
    x: np.ndarray,
    k: int,
    largest: bool,
    ordered: bool = True,
    threads: int = 1,
    isa: str = "generic",
    kernel: str = "topk",
) -> tuple[np.ndarray, np.ndarray]:
    outer, n, inner = x.shape
    values = guarded(np.full((outer, k, inner), -7, "f4"))
    indices = guarded(np.full((outer, k, inner), -7, "i8"))
    fields = {"outer": outer, "n": n, "inner": inner, "k": k, "largest": largest, "sorted": ordered}
    fields["variant"] = DTYPES["float32"]
    scratch = guarded(np.empty(plan(isa, kernel, threads, **fields)[2], np.uint8))
    call(isa, kernel, threads, x=guarded(x), values=values, indices=indices, scratch=scratch, **fields)
    return values, indices


def expected(x: np.ndarray, k: int, largest: bool) -> np.ndarray:
    """Indices; the first of equal values comes first, NaN is the largest value."""
    n = x.shape[1]
    order = n - 1 - np.flip(np.flip(x, 1).argsort(1, kind="stable"), 1) if largest else x.argsort(1, kind="stable")
    return order[:, :k]


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 16, 17, 1000])
@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("threads", [1, 2])
def test_distinct_values(n: int, largest: bool, threads: int) -> None:
    x = np.random.default_rng(n).permutation(3 * n * 2).astype("f4").reshape(3, n, 2)
    for k in {0, 1, n // 2, n}:
        values, indices = topk(x, k, largest, threads=threads)
        np.testing.assert_array_equal(indices, expected(x, k, largest))
        np.testing.assert_array_equal(values, np.take_along_axis(x, indices, 1))
        _, loose = topk(x, k, largest, ordered=False)
        np.testing.assert_array_equal(np.sort(loose, 1), np.sort(indices, 1))


@pytest.mark.parametrize("largest", [True, False])
def test_ties_and_nan(largest: bool) -> None:
    x = np.random.default_rng(0).integers(0, 4, (20, 50, 1)).astype("f4")
    x[:, ::7] = np.nan
    values, indices = topk(x, 30, largest)
    np.testing.assert_array_equal(values, np.take_along_axis(x, expected(x, 30, largest), 1))
    np.testing.assert_array_equal(values, np.take_along_axis(x, indices, 1))
    assert all(len(set(line)) == 30 for line in indices[:, :, 0])


@pytest.mark.parametrize("kind", ["rising", "falling", "equal", "organ"])
def test_hostile_orders(kind: str) -> None:
    """Orders that make a naive quickselect quadratic."""
    n = 20000
    rising = np.arange(n, dtype="f4")
    lines = {"rising": rising, "falling": -rising, "equal": rising * 0, "organ": np.minimum(rising, n - rising)}
    x = lines[kind].reshape(1, n, 1)
    np.testing.assert_array_equal(topk(x, 9, True)[0][0, :, 0], np.sort(lines[kind])[::-1][:9])


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("k", [1, 5, 60])
def test_few_of_many(largest: bool, k: int) -> None:
    """NaN is the largest value; which of equal values are kept is compared with PyTorch in tests/ops."""
    x = np.random.default_rng(k).integers(0, 400, (3, 1100, 2)).astype("f4")
    x[:, 900::30] = np.nan
    for line in (x, np.full_like(x, np.nan), np.sort(x, 1)):
        values, indices = topk(line, k, largest)
        np.testing.assert_array_equal(values, np.take_along_axis(line, expected(line, k, largest), 1))
        np.testing.assert_array_equal(values, np.take_along_axis(line, indices, 1))
        assert all(len(set(found)) == k for found in np.moveaxis(indices, 1, 2).reshape(-1, k).tolist())


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("k", [1, 5, 60])
def test_few_of_some(largest: bool, k: int) -> None:
    """A heap finds distinct values of lines in which PyTorch has none; repeated ones are found in another way."""
    x = np.random.default_rng(k).permutation(3 * 30 * k * 2).reshape(3, 30 * k, 2).astype("f4")
    np.testing.assert_array_equal(topk(x, k, largest)[1], expected(x, k, largest))
    values, indices = topk(np.floor(x / 40), k, largest)
    np.testing.assert_array_equal(values, np.take_along_axis(np.floor(x / 40), indices, 1))
    np.testing.assert_array_equal(values[:, :, 0], np.sort(np.floor(x / 40), 1)[:, :: -1 if largest else 1][:, :k, 0])


@pytest.mark.parametrize("kind", ["rising", "falling", "equal", "organ"])
def test_ranks_of_hostile_orders(kind: str) -> None:
    n = 20000
    rising = np.arange(n, dtype="i8")
    x = {"rising": rising, "falling": -rising, "equal": rising * 0, "organ": np.minimum(rising, n - rising)}[kind]
    for kernel, k in (("kthvalue", 10), ("kthvalue", n // 2), ("median", n // 2), ("nanmedian", n // 2)):
        values, indices = guarded(np.zeros(1, "i8")), guarded(np.zeros(1, "i8"))
        fields = {"outer": 1, "n": n, "inner": 1, "k": k, "largest": 0, "sorted": 0, "variant": DTYPES["int64"]}
        scratch = guarded(np.empty(plan("generic", kernel, 4, **fields)[2], np.uint8))
        assert scratch.nbytes == 16 * n  # one line is one thread's
        call("generic", kernel, 4, x=guarded(x), values=values, indices=indices, scratch=scratch, **fields)
        assert values[0] == np.sort(x)[k - 1] == x[indices[0]]


@pytest.mark.parametrize("shape", [(37, 1, 1), (37, 9, 1), (40, 16, 1), (3, 40, 33), (2, 130, 16)])
@pytest.mark.parametrize("k", [1, 2, 8, 16])
@pytest.mark.parametrize("largest", [True, False])
def test_lines_side_by_side(isa: str, shape: tuple[int, int, int], k: int, largest: bool) -> None:
    """Many lines give what each gives alone, in whatever order equal elements then come."""
    rng, (outer, n, inner) = np.random.default_rng(k), shape
    special = rng.choice(np.float32([0.0, -0.0, 1, np.nan, np.inf, -np.inf]), shape)
    for x in (rng.standard_normal(shape).astype("f4"), special, np.where(rng.random(shape) < 0.03, special, n)):
        mixed = np.where(rng.random(shape) < 0.5, rng.standard_normal(shape), x).astype("f4")
        for lines in (x.astype("f4"), mixed):
            found = topk(lines, min(k, n), largest, threads=2, isa=isa)
            for o in range(outer):
                for i in range(inner):
                    alone = topk(lines[o : o + 1, :, i : i + 1], min(k, n), largest)
                    for together, line in zip(found, alone, strict=True):
                        np.testing.assert_array_equal(together[o, :, i], line[0, :, 0])
                        np.testing.assert_array_equal(np.signbit(together[o, :, i]), np.signbit(line[0, :, 0]))


@pytest.mark.parametrize("kernel", ["median", "nanmedian"])
@pytest.mark.parametrize("shape", [(37, 1, 1), (37, 9, 1), (40, 16, 1), (3, 40, 33), (2, 130, 16)])
def test_medians_of_lines_side_by_side(isa: str, shape: tuple[int, int, int], kernel: str) -> None:
    """Many lines give what each gives alone; some have ties, some NaN, some nothing else."""
    rng = np.random.default_rng(shape[1])
    rough = np.round(rng.standard_normal(shape) * 3).astype("f4")
    rough[rng.random(shape) < 0.2] = np.nan
    rough[0] = np.nan
    for lines in (rng.standard_normal(shape).astype("f4"), rough):
        values, indices = topk(lines, 1, False, threads=2, isa=isa, kernel=kernel)
        for o, i in np.ndindex(shape[0], shape[2]):
            alone = topk(lines[o : o + 1, :, i : i + 1], 1, False, kernel=kernel)
            np.testing.assert_array_equal(values[o, :, i], alone[0][0, :, 0])
            np.testing.assert_array_equal(indices[o, :, i], alone[1][0, :, 0])


@pytest.mark.parametrize("n", [64, 65, 700, 5003])
@pytest.mark.parametrize("largest", [True, False])
def test_few_of_long_lines(isa: str, n: int, largest: bool) -> None:
    rng = np.random.default_rng(n)
    x = rng.permutation(6 * n).reshape(6, n, 1).astype("f4")
    x[1], x[2] = np.sort(x[1], 0), np.sort(x[2], 0)[::-1]
    x[3, -1], x[4, rng.integers(n)], x[5, n // 2] = np.nan, np.inf, -np.inf
    for k in (1, 2, max(1, n // 64)):
        values, indices = topk(x, k, largest, isa=isa)
        np.testing.assert_array_equal(indices, expected(x, k, largest))
        np.testing.assert_array_equal(values, np.take_along_axis(x, indices, 1))
