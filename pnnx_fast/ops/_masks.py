"""Masks of attention: those of the multi-head layer as one, and one in the form that the kernel takes."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np

from pnnx_fast._core.program import MASK_QUERIES, codes
from pnnx_fast._types import Array, DType
from pnnx_fast.ops.elementwise import intermediate
from pnnx_fast.ops.symbolic import Builder, Tensor

__all__ = ["as_additive", "layer_mask", "mask_fields"]

KINDS = codes("mask")
MASKED = -1e30
"""Additive masks at or below this hide a key: its weight underflows to 0 beside any ordinary score."""


def _additive(mask: Array, kind: int, dtype: DType | type = np.float32) -> Array:
    if kind == KINDS["add"]:
        return mask.astype(dtype)
    return np.where(mask == (kind == KINDS["keep"]), 0, -np.inf).astype(dtype)


def _diagonal(mask: Array, queries: int, keys: int) -> int | None:
    """Number of the last diagonal that is visible when the (additive) mask is a triangle, else None."""
    if mask.shape[-2:] != (queries, keys) or mask.size != queries * keys or queries > keys:
        return None
    plane = mask.reshape(queries, keys)
    diagonal = keys - queries
    seen = np.tri(queries, keys, diagonal, dtype=bool)
    return diagonal if not plane[seen].any() and bool((plane[~seen] <= MASKED).all()) else None


def _constant_mask(b: Builder, values: Array, key: Hashable) -> tuple[Tensor, int]:
    """Additive mask in its fastest form: without equal copies, and as scores are computed, keys by queries."""
    for axis in range(values.ndim - 2):
        first = values.take([0], axis)
        if values.shape[axis] > 1 and (values == first).all():
            values = first
    queries = values.shape[-2]
    if queries == 1:
        return b.cached(key, lambda: np.ascontiguousarray(values)), KINDS["add"]

    def turn() -> Array:
        rows = np.zeros((*values.shape[:-2], values.shape[-1], -(-queries // MASK_QUERIES) * MASK_QUERIES), np.float32)
        rows[..., :queries] = values.swapaxes(-1, -2)
        return rows

    turned = b.cached(key, turn)
    last = turned.ndim - 1
    return turned.narrow(last, 0, queries).permute([*range(last - 1), last, last - 1]), KINDS["rows"]


def mask_fields(
    b: Builder, mask: Tensor | None, drops: bool, filling: float | None, q: Tensor, k: Tensor
) -> dict[str, Any]:
    """Kernel fields of a mask as ``attend`` takes it; constants take their fastest form."""
    fields: dict[str, Any] = {"mask": None, "mask_kind": KINDS["none"], "msb": 0, "msh": 0, "msq": 0, "msk": 0}
    fields |= {"mask_batches": 1, "causal": 0, "diagonal": 0, "filling": filling or 0.0}
    if mask is None:
        return fields
    while mask.ndim < 2:
        mask = mask.unsqueeze(0)
    kind = (KINDS["drop"] if drops else KINDS["keep"]) if mask.dtype == np.bool_ else KINDS["add"]
    if filling is not None:
        kind = KINDS["fill"]
    elif mask.is_constant:
        values = _additive(mask.numpy(), kind)
        if not values.any():
            return fields
        diagonal = _diagonal(values, q.shape[2], k.shape[2])
        if diagonal is not None:
            return fields | {"causal": 1, "diagonal": diagonal}
        key = ("attention mask", mask.identity, kind)
        mask, kind = _constant_mask(b, values, key)
    elif kind == KINDS["add"]:
        mask = b.cast(mask, np.float32)
    batches = mask.shape[1] if mask.ndim == 5 else q.shape[0]
    whole = (mask.select(0, 0) if mask.ndim == 5 else mask).expand((batches, q.shape[1], q.shape[2], k.shape[2]))
    names = ("msb", "msh", "msq", "msk")
    fields |= {"mask": mask, "mask_kind": kind, "mask_batches": batches}
    return fields | dict(zip(names, whole.strides, strict=True))


# -- masks of the multi-head layer ------------------------------------------------------------------------------


def layer_mask(
    b: Builder, mask: Tensor | None, padding: Tensor | None, q: Tensor, k: Tensor, appended: int, doubtful: bool
) -> Tensor | None:
    """Mask of the layer for all keys, of which the appended ones always take part.

    Where it is doubtful which mask is that of keys, the sizes of queries and keys may tell.
    """
    given = k.shape[2] - appended
    if doubtful and not _fit(mask, padding, q, given) and _fit(padding, mask, q, given):
        mask, padding = padding, mask
    mask = _padding_mask(b, mask, padding, q)
    if mask is None:
        return None
    if mask.ndim == 3:
        mask = b.reshape(mask, (q.shape[0], q.shape[1], *mask.shape[1:]))
    if appended == 0:
        return mask
    last = mask.ndim - 1
    mask = mask.expand((*mask.shape[:-1], given))
    y = b.empty((*mask.shape[:-1], k.shape[2]), mask.dtype)
    more = y.narrow(last, given, appended)
    b.copy(mask, y.narrow(last, 0, given))
    b.copy(b.constant(np.zeros(1, mask.dtype)).expand(more.shape), more)
    return y


def _fit(mask: Tensor | None, padding: Tensor | None, q: Tensor, keys: int) -> bool:
    """Whether a mask has a row for each query, and one of keys a row for each batch."""
    rows = padding is None or padding.shape == (q.shape[0], keys)
    return rows and (mask is None or mask.shape == (q.shape[2], keys))


def _padding_mask(b: Builder, mask: Tensor | None, padding: Tensor | None, q: Tensor) -> Tensor | None:
    """Mask that also hides the padding among the keys of each batch, (heads of all batches, queries, keys)."""
    if padding is None:
        return mask
    padding = padding if padding.ndim > 1 else padding.unsqueeze(0)
    heads = (q.shape[0], q.shape[1], q.shape[2], padding.shape[-1])
    wide = padding.unsqueeze(1).unsqueeze(1).expand(heads)
    if mask is None:
        return b.reshape(wide, (heads[0] * heads[1], *heads[2:]))
    other = b.reshape(mask, heads) if mask.ndim == 3 else mask.expand(heads)
    additive = [as_additive(b, m, q.dtype) for m in (wide, other)]
    total = intermediate(b, "add(@0,@1)", *additive)
    return b.reshape(total, (heads[0] * heads[1], *heads[2:]))


def as_additive(b: Builder, mask: Tensor, dtype: DType) -> Tensor:
    """Minus infinity where a mask drops keys."""
    if mask.dtype != np.bool_:
        return b.cast(mask, dtype)
    return intermediate(b, "where(@0,@1,@2)", mask, *(b.constant(np.array(v, dtype)) for v in (-np.inf, 0)))
