"""Attention of sizes that go to matrix tiles where there are some: edges of tiles and blocks, masks, special values."""

from __future__ import annotations

import numpy as np
import pytest
from guard import guarded
from test_attention import attention, operands, reference

from pnnx_fast._core.program import MASK_QUERIES

TOLERANCE = 1e-5
"""Scores of the test's size are off by as much as sums of digits leave out, for the worst of many weights."""

SIZES = [
    # batch, heads, kv heads, queries, keys, d, dv
    (1, 2, 1, 415, 513, 40, 48),
    (1, 2, 2, 192, 257, 96, 130),
    (2, 3, 3, 300, 260, 64, 64),
    (1, 4, 2, 401, 433, 65, 41),
    (1, 1, 1, 335, 300, 130, 64),
    (1, 4, 2, 128, 128, 128, 128),
]


def close(got: np.ndarray, want: np.ndarray) -> None:
    np.testing.assert_allclose(got, want, rtol=0, atol=TOLERANCE * max(1, np.nanmax(np.abs(want))))
    error = (got - want)[np.isfinite(want)]
    assert np.sqrt(np.mean(np.square(error, dtype="f8"))) < TOLERANCE / 5


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_sizes(isa: str, size: tuple[int, ...], threads: int) -> None:
    q, k, v = map(guarded, operands(size))
    y = guarded(np.full((*q.shape[:3], v.shape[3]), np.nan, "f4"))
    close(attention(isa, threads, q, k, v, y, 0.2), reference(q, k, v, 0.2))


def test_heads_in_rows(isa: str) -> None:
    qkv = np.random.default_rng(1).standard_normal((2, 150, 3, 2, 112), dtype=np.float32)
    q, k, v = (qkv[:, :, i].swapaxes(1, 2) for i in range(3))
    y = np.full((2, 150, 2, 112), np.nan, "f4").swapaxes(1, 2)
    close(attention(isa, 2, q, k, v, y, 0.2), reference(q, k, v, 0.2))


@pytest.mark.parametrize("kind", ["add", "keep", "drop", "fill"])
@pytest.mark.parametrize("order", ["bhqk", "qk", "bk", "kq"])
def test_masks(isa: str, kind: str, order: str) -> None:
    q, k, v = operands((2, 2, 2, 140, 300, 120, 120))
    sizes = {"b": 2, "h": 2, "q": 140, "k": 300}
    raw = np.random.default_rng(2).standard_normal([sizes[c] for c in order])
    mask = guarded(raw.astype("f4") if kind == "add" else (raw > 0.3).astype(np.uint8))
    view = mask.T[None, None] if order == "kq" else mask.reshape([sizes[c] if c in order else 1 for c in "bhqk"])
    y = np.full(q.shape, np.nan, "f4")
    if kind == "fill":
        got = attention(isa, 2, q, k, v, y, 0.25, view, kind, filling=-0.75)
        close(got, reference(q, k, v, 0.25, view != 0, -0.75))
        return
    added = view if kind == "add" else np.where((view != 0) == (kind == "keep"), 0, -np.inf)
    close(attention(isa, 2, q, k, v, y, 0.25, view, kind), reference(q, k, v, 0.25, added))


def test_mask_of_rows(isa: str) -> None:
    """Scores are added to rows of a mask, which lies keys by queries and is padded to whole vectors."""
    q, k, v = operands((1, 2, 2, 140, 300, 120, 120))
    padded = -(-140 // MASK_QUERIES) * MASK_QUERIES
    rows = np.random.default_rng(3).standard_normal((1, 2, 300, padded), "f4")
    view = rows.swapaxes(2, 3)[:, :, :140]
    got = attention(isa, 2, q, k, v, np.empty_like(q), 0.25, view, "rows")
    close(got, reference(q, k, v, 0.25, view))


@pytest.mark.parametrize("queries,keys,diagonal", [(300, 300, 0), (150, 600, 450), (600, 150, 0), (150, 150, -3)])
@pytest.mark.parametrize("threads", [1, 2])
def test_causal(isa: str, queries: int, keys: int, diagonal: int, threads: int) -> None:
    q, k, v = operands((1, 2, 2, queries, keys, 112, 112))
    want = reference(q, k, v, 0.25, np.where(np.tri(queries, keys, diagonal, dtype=bool), 0, -np.inf))
    y = np.full(q.shape, np.inf, "f4")
    attention(isa, threads, q, k, v, y, 0.25, causal=1, diagonal=diagonal)
    close(y, np.nan_to_num(want, nan=0))
    attention(isa, threads, q, k, v, y, 0.25, causal=1, diagonal=diagonal, empty_nan=1)
    close(y, want)


def test_rows_without_keys(isa: str) -> None:
    q, k, v = operands((1, 1, 1, 140, 600, 120, 120))
    mask = np.zeros((1, 1, 140, 600), "f4")
    mask[0, 0, 5] = -np.inf
    mask[0, 0, 6, :400] = -np.inf
    mask[0, 0, 7] = np.finfo("f4").min
    want = reference(q, k, v, 0.5, mask)
    want[0, 0, 7] = v[0, 0].mean(0)
    close(attention(isa, 1, q, k, v, np.empty_like(q), 0.5, mask, "add", empty_nan=1), want)
    want[0, 0, 5] = 0
    close(attention(isa, 1, q, k, v, np.empty_like(q), 0.5, mask, "add"), want)


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
