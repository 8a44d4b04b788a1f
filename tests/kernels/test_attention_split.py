"""Attention of sizes that go to matrix tiles where there are some: edges of tiles and blocks, masks, special values."""

from __future__ import annotations

import attention_case as case
import numpy as np
import pytest
from attention_case import attention, operands, reference

from pnnx_fast._core.program import MASK_QUERIES

TOLERANCE = 1e-5
"""Scores of the tests' sizes are off by as much as sums of digits leave out, for the worst of many weights."""

SIZES = [
    # batch, heads, kv heads, queries, keys, d, dv
    (1, 2, 1, 415, 513, 40, 48),
    (1, 2, 2, 192, 257, 96, 130),
    (2, 3, 3, 300, 260, 64, 64),
    (1, 4, 2, 401, 433, 65, 41),
    (1, 1, 1, 335, 300, 130, 64),
    (1, 4, 2, 128, 128, 128, 128),
]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_sizes(isa: str, size: tuple[int, ...], threads: int) -> None:
    case.check_size(isa, threads, size, 0.2, TOLERANCE)


def test_heads_in_rows(isa: str) -> None:
    case.check_heads_in_rows(isa, (2, 150, 3, 2, 112), TOLERANCE)


@pytest.mark.parametrize("kind", ["add", "keep", "drop", "fill"])
@pytest.mark.parametrize("order", ["bhqk", "qk", "bk", "kq"])
def test_masks(isa: str, kind: str, order: str) -> None:
    case.check_mask(isa, (2, 2, 2, 140, 300, 120, 120), kind, order, TOLERANCE)


def test_mask_of_rows(isa: str) -> None:
    """Scores are added to rows of a mask, which lies keys by queries and is padded to whole vectors."""
    q, k, v = operands((1, 2, 2, 140, 300, 120, 120))
    padded = -(-140 // MASK_QUERIES) * MASK_QUERIES
    rows = np.random.default_rng(3).standard_normal((1, 2, 300, padded), "f4")
    view = rows.swapaxes(2, 3)[:, :, :140]
    got = attention(isa, 2, q, k, v, np.empty_like(q), 0.25, view, "rows")
    case.close(got, reference(q, k, v, 0.25, view), TOLERANCE)


@pytest.mark.parametrize("queries,keys,diagonal", [(300, 300, 0), (150, 600, 450), (600, 150, 0), (150, 150, -3)])
@pytest.mark.parametrize("threads", [1, 2])
def test_causal(isa: str, queries: int, keys: int, diagonal: int, threads: int) -> None:
    case.check_causal(isa, threads, (1, 2, 2, queries, keys, 112, 112), diagonal, TOLERANCE)


def test_rows_without_keys(isa: str) -> None:
    case.check_rows_without_keys(isa, (1, 1, 1, 140, 600, 120, 120), TOLERANCE)


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e36, 1e-36, 1e-42])
@pytest.mark.parametrize("where", ["q", "k", "v"])
def test_values_out_of_range(isa: str, where: str, value: float) -> None:
    """NaN and infinity spread as they do in floats; what digits do not reach goes another way."""
    given = dict(zip("qkv", operands((1, 2, 2, 150, 200, 112, 112)), strict=True))
    given[where][0, 1, 140] = value
    y = attention(isa, 2, **given, y=np.empty_like(given["q"]), scale=0.1)
    with np.errstate(all="ignore"):
        want = reference(**given, scale=0.1)
    if not np.isfinite(value):
        np.testing.assert_array_equal(np.isfinite(y), np.isfinite(want))
    finite = np.isfinite(want)
    np.testing.assert_allclose(y[finite], want[finite], rtol=0, atol=TOLERANCE * np.abs(want[finite]).max())


def test_scores_far_apart(isa: str) -> None:
    """Where the digits of scores would be too few, weights are still those of floats."""
    q, k, v = operands((1, 1, 1, 150, 200, 112, 112))
    q[0, 0, :64] *= 20
    k[..., 3] *= 10
    y, want = attention(isa, 1, q, k, v, np.empty_like(q), 0.125), reference(q, k, v, 0.125)
    np.testing.assert_allclose(y, want, rtol=0, atol=5e-5)
