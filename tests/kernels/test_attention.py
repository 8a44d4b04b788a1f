"""The attention kernel against plain numpy: sizes around tile edges, layouts, masks, rows without keys."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from guard import guarded

from pnnx_fast._core.program import codes
from pnnx_fast.runtime.kernel import call, plan

MASKS = codes("mask")
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
    (3, 8, 4, 150, 270, 50, 64),  # more than the caches hold: operands are fetched ahead
]


def reference(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, scale: float, mask: np.ndarray | None = None,
    filling: float | None = None,
) -> np.ndarray:  # fmt: skip
    """Operands are (batch, heads, rows, d); the mask is additive, or says where scores are the filling."""
    group = q.shape[1] // k.shape[1]
    k, v = (np.repeat(x.astype("f8"), group, 1) for x in (k, v))
    s = q.astype("f8") @ k.swapaxes(-1, -2) * scale
    s = s + (0 if mask is None else mask) if filling is None else np.where(mask, filling, s)
    top = s.max(-1, keepdims=True)
    with np.errstate(invalid="ignore"):
        p = np.exp(s - np.where(np.isneginf(top), 0, top))
        return p @ v / p.sum(-1, keepdims=True)


def operands(size: tuple[int, ...], seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    batch, heads, kv_heads, queries, keys, d, dv = size
    rng = np.random.default_rng(seed)
    shapes = [(batch, heads, queries, d), (batch, kv_heads, keys, d), (batch, kv_heads, keys, dv)]
    q, k, v = (rng.standard_normal(shape, dtype=np.float32) for shape in shapes)
    return q, k, v


def strides(a: np.ndarray, count: int) -> list[int]:
    return [0 if n == 1 else s // a.itemsize for s, n in zip(a.strides[:count], a.shape, strict=False)]


def attention(
    isa: str, threads: int, q: np.ndarray, k: np.ndarray, v: np.ndarray, y: np.ndarray, scale: float,
    mask: np.ndarray | None = None, mask_kind: str = "none", **more: Any,
) -> np.ndarray:  # fmt: skip
    """Operands, result and mask are (batch, heads, rows, columns) with free strides."""
    batch, heads, queries, d = q.shape
    fields: dict[str, Any] = dict.fromkeys(
        ["msb", "msh", "msq", "msk", "causal", "diagonal", "empty_nan", "variant", "filling"], 0
    )
    for name, a in {"q": q, "k": k, "v": v, "y": y}.items():
        fields |= zip([name + "sb", name + "sh", name + "sr"], strides(a, 3), strict=True)
    fields["mask_batches"] = batch if mask is None else mask.shape[0]
    if mask is not None:
        fields |= zip(["msb", "msh", "msq", "msk"], strides(mask, 4), strict=True)
    fields |= {"q": q, "k": k, "v": v, "y": y, "mask": mask, "mask_kind": MASKS[mask_kind], "scale": scale}
    fields |= {"batch": batch, "heads": heads, "kv_heads": k.shape[1], "queries": queries, "keys": k.shape[2]}
    fields |= {"d": d, "dv": v.shape[3], **more}
    scratch = plan(isa, "attention_f32", threads, **fields)[2]
    call(isa, "attention_f32", threads, scratch=guarded(np.zeros(scratch, np.uint8)), **fields)
    return y


def close(got: np.ndarray, want: np.ndarray) -> None:
    np.testing.assert_allclose(got, want, rtol=0, atol=2e-6 * max(1, np.nanmax(np.abs(want))))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("threads", [1, 2])
def test_sizes(isa: str, size: tuple[int, ...], threads: int) -> None:
    q, k, v = map(guarded, operands(size))
    y = guarded(np.full((*q.shape[:3], v.shape[3]), np.nan, "f4"))
    close(attention(isa, threads, q, k, v, y, 0.3), reference(q, k, v, 0.3))


@pytest.mark.parametrize("queries", range(1, 36))
def test_query_tails(isa: str, queries: int) -> None:
    q, k, v = operands((1, 1, 1, queries, 37 - queries, 9, 10))
    y = guarded(np.full((*q.shape[:3], v.shape[3]), np.nan, "f4"))
    close(attention(isa, 1, q, k, v, y, 1.0), reference(q, k, v, 1.0))


def test_no_heads(isa: str) -> None:
    q, k, v = operands((2, 0, 0, 1, 6, 8, 8))
    attention(isa, 2, q, k, v, q.copy(), 0.3)


def test_heads_in_rows(isa: str) -> None:
    """Q, K and V are slices of one (batch, rows, 3, heads, d) tensor, as a merged projection gives them."""
    rng = np.random.default_rng(1)
    qkv = rng.standard_normal((2, 20, 3, 4, 24), dtype=np.float32)
    q, k, v = (qkv[:, :, i].swapaxes(1, 2) for i in range(3))
    y = np.full((2, 20, 4, 24), np.nan, "f4").swapaxes(1, 2)
    close(attention(isa, 2, q, k, v, y, 0.2), reference(q, k, v, 0.2))


@pytest.mark.parametrize("kind", ["add", "keep", "drop", "fill"])
@pytest.mark.parametrize("order", ["bhqk", "qk", "bk", "hqk", "kq"])
@pytest.mark.parametrize("heads,kv_heads,queries", [(3, 3, 35), (3, 3, 2), (3, 3, 1), (8, 2, 1), (4, 2, 7)])
def test_masks(isa: str, kind: str, order: str, heads: int, kv_heads: int, queries: int) -> None:
    q, k, v = operands((2, heads, kv_heads, queries, 150, 16, 16))
    sizes = {"b": 2, "h": heads, "q": queries, "k": 150}
    rng = np.random.default_rng(2)
    raw = rng.standard_normal([sizes[c] for c in order])
    mask = guarded(raw.astype("f4") if kind == "add" else (raw > 0.3).astype(np.uint8))
    view = mask.T if order == "kq" else mask
    view = view.reshape([sizes[c] if c in order else 1 for c in "bhqk"]) if order != "kq" else view[None, None]
    y = np.full(q.shape, np.nan, "f4")
    if kind == "fill":
        got = attention(isa, 2, q, k, v, y, 0.25, view, kind, filling=-0.75)
        close(got, reference(q, k, v, 0.25, view != 0, -0.75))
        return
    added = view if kind == "add" else np.where((view != 0) == (kind == "keep"), 0, -np.inf)
    close(attention(isa, 2, q, k, v, y, 0.25, view, kind), reference(q, k, v, 0.25, added))


@pytest.mark.parametrize(
    "queries,keys,diagonal",
    [(40, 40, 0), (300, 300, 0), (7, 150, 143), (150, 60, 0), (20, 20, -3), (1, 150, 149), (2, 290, 288), (2, 9, -1)],
)
@pytest.mark.parametrize("threads", [1, 2])
def test_causal(isa: str, queries: int, keys: int, diagonal: int, threads: int) -> None:
    q, k, v = operands((1, 2, 2, queries, keys, 20, 20))
    seen = np.tri(queries, keys, diagonal, dtype=bool)
    want = reference(q, k, v, 0.25, np.where(seen, 0, -np.inf))
    y = np.full(q.shape, np.inf, "f4")
    attention(isa, threads, q, k, v, y, 0.25, causal=1, diagonal=diagonal)
    close(y, np.nan_to_num(want, nan=0))
    attention(isa, threads, q, k, v, y, 0.25, causal=1, diagonal=diagonal, empty_nan=1)
    close(y, want)


@pytest.mark.parametrize("keys", [3, 300])
def test_rows_without_keys(isa: str, keys: int) -> None:
    q, k, v = operands((1, 1, 1, 20, keys, 8, 8))
    mask = np.zeros((1, 1, 20, keys), "f4")
    mask[0, 0, 5] = -np.inf
    mask[0, 0, 6, : keys // 2] = -np.inf
    mask[0, 0, 7] = np.finfo("f4").min
    want = reference(q, k, v, 0.5, mask)
    want[0, 0, 7] = v[0, 0].mean(0)
    y = attention(isa, 1, q, k, v, np.empty_like(q), 0.5, mask, "add", empty_nan=1)
    close(y, want)
    want[0, 0, 5] = 0
    close(attention(isa, 1, q, k, v, np.empty_like(q), 0.5, mask, "add"), want)


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
