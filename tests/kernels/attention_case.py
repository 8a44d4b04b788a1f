"""Runs the attention kernel, and plain numpy on the same operands; what its ways are all checked for."""

from __future__ import annotations

from typing import Any

import numpy as np
from guard import guarded

from pnnx_fast._core.program import codes
from pnnx_fast.runtime.kernel import call, plan

MASKS = codes("mask")


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


def close(got: np.ndarray, want: np.ndarray, tolerance: float) -> None:
    most = max(1, np.nanmax(np.abs(want)))
    np.testing.assert_allclose(got, want, rtol=0, atol=tolerance * most)
    error = (got - want)[np.isfinite(want)]
    assert np.sqrt(np.mean(np.square(error, dtype="f8"))) < tolerance * most / 5


def check_size(isa: str, threads: int, size: tuple[int, ...], scale: float, tolerance: float) -> None:
    q, k, v = map(guarded, operands(size))
    y = guarded(np.full((*q.shape[:3], v.shape[3]), np.nan, "f4"))
    close(attention(isa, threads, q, k, v, y, scale), reference(q, k, v, scale), tolerance)


def check_heads_in_rows(isa: str, shape: tuple[int, ...], tolerance: float) -> None:
    """Q, K and V are slices of one (batch, rows, 3, heads, d) tensor, as a merged projection gives them."""
    qkv = np.random.default_rng(1).standard_normal(shape, dtype=np.float32)
    q, k, v = (qkv[:, :, i].swapaxes(1, 2) for i in range(3))
    y = np.full((*shape[:2], *shape[3:]), np.nan, "f4").swapaxes(1, 2)
    close(attention(isa, 2, q, k, v, y, 0.2), reference(q, k, v, 0.2), tolerance)


def check_mask(isa: str, size: tuple[int, ...], kind: str, order: str, tolerance: float) -> None:
    """A mask over the dimensions that ``order`` names."""
    q, k, v = operands(size)
    sizes = dict(zip("bhqk", (size[0], size[1], size[3], size[4]), strict=True))
    raw = np.random.default_rng(2).standard_normal([sizes[c] for c in order])
    mask = guarded(raw.astype("f4") if kind == "add" else (raw > 0.3).astype(np.uint8))
    view = mask.T[None, None] if order == "kq" else mask.reshape([sizes[c] if c in order else 1 for c in "bhqk"])
    y = np.full(q.shape, np.nan, "f4")
    if kind == "fill":
        got = attention(isa, 2, q, k, v, y, 0.25, view, kind, filling=-0.75)
        close(got, reference(q, k, v, 0.25, view != 0, -0.75), tolerance)
        return
    added = view if kind == "add" else np.where((view != 0) == (kind == "keep"), 0, -np.inf)
    close(attention(isa, 2, q, k, v, y, 0.25, view, kind), reference(q, k, v, 0.25, added), tolerance)


def check_causal(isa: str, threads: int, size: tuple[int, ...], diagonal: int, tolerance: float) -> None:
    q, k, v = operands(size)
    want = reference(q, k, v, 0.25, np.where(np.tri(size[3], size[4], diagonal, dtype=bool), 0, -np.inf))
    y = np.full(q.shape, np.inf, "f4")
    attention(isa, threads, q, k, v, y, 0.25, causal=1, diagonal=diagonal)
    close(y, np.nan_to_num(want, nan=0), tolerance)
    attention(isa, threads, q, k, v, y, 0.25, causal=1, diagonal=diagonal, empty_nan=1)
    close(y, want, tolerance)


def check_rows_without_keys(isa: str, size: tuple[int, ...], tolerance: float) -> None:
    """Of three queries, one has no keys, one not the first of them, and one is far from all."""
    q, k, v = operands(size)
    mask = np.zeros((1, 1, size[3], size[4]), "f4")
    mask[0, 0, 5] = -np.inf
    mask[0, 0, 6, : size[4] * 2 // 3] = -np.inf
    mask[0, 0, 7] = np.finfo("f4").min
    want = reference(q, k, v, 0.5, mask)
    want[0, 0, 7] = v[0, 0].mean(0)
    close(attention(isa, 1, q, k, v, np.empty_like(q), 0.5, mask, "add", empty_nan=1), want, tolerance)
    want[0, 0, 5] = 0
    close(attention(isa, 1, q, k, v, np.empty_like(q), 0.5, mask, "add"), want, tolerance)
