"""The attention kernel against plain numpy: sizes around tile edges, layouts, masks, rows without keys."""

from __future__ import annotations

from functools import partial

import attention_case as case
import numpy as np
import pytest
from attention_case import attention, operands, reference
from guard import guarded

TOLERANCE = 2e-6
close = partial(case.close, tolerance=TOLERANCE)

SIZES = [
    # batch, heads, kv heads, queries, keys, d, dv
    (1, 1, 1, 1, 1, 1, 1),
    (2, 3, 3, 49, 49, 32, 32),
    (1, 2, 2, 197, 197, 64, 64),
    (1, 4, 2, 70, 300, 80, 80),
    (2, 2, 1, 5, 131, 25, 17),
    (1, 1, 1, 129, 7, 128, 96),
    (1, 2, 2, 16, 128, 3, 33),
    (3, 1, 1, 33, 2, 40, 40),
    (1, 6, 2, 1, 257, 64, 64),
    (2, 8, 1, 1, 131, 40, 25),
    (2, 2, 1, 45, 150, 20, 128),  # values are copied: their rows fall into few sets of the cache
    (1, 40, 1, 1, 150, 20, 128),  # the same for single queries of heads that share keys and values
    (3, 8, 4, 150, 270, 50, 64),  # more than the caches hold: operands are fetched ahead
]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("threads", [1, 2])
def test_sizes(isa: str, size: tuple[int, ...], threads: int) -> None:
    case.check_size(isa, threads, size, 0.3, TOLERANCE)


@pytest.mark.parametrize("queries", range(1, 36))
def test_query_tails(isa: str, queries: int) -> None:
    q, k, v = operands((1, 1, 1, queries, 37 - queries, 9, 10))
    y = guarded(np.full((*q.shape[:3], v.shape[3]), np.nan, "f4"))
    close(attention(isa, 1, q, k, v, y, 1.0), reference(q, k, v, 1.0))


def test_no_heads(isa: str) -> None:
    q, k, v = operands((2, 0, 0, 1, 6, 8, 8))
    attention(isa, 2, q, k, v, q.copy(), 0.3)


def test_heads_in_rows(isa: str) -> None:
    case.check_heads_in_rows(isa, (2, 20, 3, 4, 24), TOLERANCE)


@pytest.mark.parametrize("kind", ["add", "keep", "drop", "fill"])
@pytest.mark.parametrize("order", ["bhqk", "qk", "bk", "hqk", "kq"])
@pytest.mark.parametrize("heads,kv_heads,queries", [(3, 3, 35), (3, 3, 2), (3, 3, 1), (8, 2, 1), (4, 2, 7)])
def test_masks(isa: str, kind: str, order: str, heads: int, kv_heads: int, queries: int) -> None:
    case.check_mask(isa, (2, heads, kv_heads, queries, 150, 16, 16), kind, order, TOLERANCE)


@pytest.mark.parametrize(
    "queries,keys,diagonal",
    [(40, 40, 0), (300, 300, 0), (7, 150, 143), (150, 60, 0), (20, 20, -3), (1, 150, 149), (2, 290, 288), (2, 9, -1)],
)
@pytest.mark.parametrize("threads", [1, 2])
def test_causal(isa: str, queries: int, keys: int, diagonal: int, threads: int) -> None:
    case.check_causal(isa, threads, (1, 2, 2, queries, keys, 20, 20), diagonal, TOLERANCE)


@pytest.mark.parametrize("keys", [3, 300])
def test_rows_without_keys(isa: str, keys: int) -> None:
    case.check_rows_without_keys(isa, (1, 1, 1, 20, keys, 8, 8), TOLERANCE)


def test_no_keys(isa: str) -> None:
    q, k, v = operands((1, 2, 2, 3, 0, 8, 8))
    assert not attention(isa, 1, q, k, v, np.full(q.shape, 7, "f4"), 0.5).any()


def test_special_values(isa: str) -> None:
    q, k, v = operands((1, 1, 1, 6, 200, 8, 8))
    q[0, 0, 1, 3] = np.nan
    q[0, 0, 2, 0] = np.inf
    q[0, 0, 3] = 3e4  # scores far apart: weights are 0 and 1
    y = attention(isa, 1, q, k, v, np.empty_like(q), 1.0)
    assert np.isnan(y[0, 0, 1:3]).all()
    close(np.delete(y, [1, 2], 2), reference(np.delete(q, [1, 2], 2), k, v, 1.0))


@pytest.mark.parametrize("queries", [1, 2, 20])
def test_mask_repeats_over_batches(isa: str, queries: int) -> None:
    q, k, v = operands((6, 2, 2, queries, 19, 8, 8))
    mask = guarded(np.random.default_rng(4).standard_normal((3, 2, queries, 19), "f4"))
    y = attention(isa, 2, q, k, v, np.empty_like(q), 0.5, mask, "add")
    close(y, reference(q, k, v, 0.5, np.concatenate([mask, mask])))


def test_one_query_is_what_it_is_among_others(isa: str) -> None:
    """Few queries take another way, also where their values are special or no key is theirs."""
    q, k, v = operands((1, 2, 1, 6, 300, 70, 70))
    q[0, 0, 1, 3], q[0, 0, 2, 0], q[0, 0, 3] = np.nan, np.inf, 3e4
    mask = np.zeros((1, 1, 6, 300), "f4")
    mask[..., 4, :] = -np.inf
    mask[..., 5, :200] = -np.inf
    for empty_nan in (0, 1):
        whole = attention(isa, 1, q, k, v, np.empty_like(q), 0.2, mask, "add", empty_nan=empty_nan)
        for i in range(6):
            part = q[:, :, i : i + 1]
            one = attention(
                isa, 1, part, k, v, np.empty_like(part), 0.2, mask[:, :, i : i + 1], "add", empty_nan=empty_nan
            )
            np.testing.assert_allclose(one, whole[:, :, i : i + 1], rtol=0, atol=1e-5)


def test_large_scores_do_not_overflow(isa: str) -> None:
    q, k, v = operands((1, 1, 1, 4, 260, 8, 8))
    close(attention(isa, 1, q * 100, k, v, np.empty_like(q), 1.0), reference(q * 100, k, v, 1.0))
