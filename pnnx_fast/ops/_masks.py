"""Masks of attention in the form that the kernel takes; constants take their fastest one."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np

from pnnx_fast._types import Array, DType
from pnnx_fast.ops.symbolic import Builder, Tensor

__all__ = ["mask_fields"]

MASK_NONE, MASK_ADD, MASK_KEEP, MASK_DROP, MASK_ROWS, MASK_FILL = range(6)
"""Mask kinds of the attention kernel."""
MASK_PADDING = 16
"""To a multiple of so many queries are the rows of MASK_ROWS filled up."""
MASKED = -1e30
"""Additive masks at or below this hide a key: its weight underflows to 0 beside any ordinary score."""


def _additive(mask: Array, kind: int, dtype: DType | type = np.float32) -> Array:
    if kind == MASK_ADD:
        return mask.astype(dtype)
    return np.where(mask == (kind == MASK_KEEP), 0, -np.inf).astype(dtype)


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
        return b.cached(key, lambda: np.ascontiguousarray(values)), MASK_ADD

    def turn() -> Array:
        rows = np.zeros((*values.shape[:-2], values.shape[-1], -(-queries // MASK_PADDING) * MASK_PADDING), np.float32)
        rows[..., :queries] = values.swapaxes(-1, -2)
        return rows

    turned = b.cached(key, turn)
    last = turned.ndim - 1
    return turned.narrow(last, 0, queries).permute([*range(last - 1), last, last - 1]), MASK_ROWS


def mask_fields(
    b: Builder, mask: Tensor | None, drops: bool, filling: float | None, q: Tensor, k: Tensor
) -> dict[str, Any]:
    """Kernel fields of a mask as ``attend`` takes it; constants take their fastest form."""
    fields: dict[str, Any] = {"mask": None, "mask_kind": MASK_NONE, "msb": 0, "msh": 0, "msq": 0, "msk": 0}
    fields |= {"mask_batches": 1, "causal": 0, "diagonal": 0, "filling": filling or 0.0}
    if mask is None:
        return fields
    while mask.ndim < 2:
        mask = mask.unsqueeze(0)
    kind = (MASK_DROP if drops else MASK_KEEP) if mask.dtype == np.bool_ else MASK_ADD
    if filling is not None:
        kind = MASK_FILL
    elif mask.is_constant:
        values = _additive(mask.numpy(), kind)
        if not values.any():
            return fields
        diagonal = _diagonal(values, q.shape[2], k.shape[2])
        if diagonal is not None:
            return fields | {"causal": 1, "diagonal": diagonal}
        key = ("attention mask", mask.identity, kind)
        mask, kind = _constant_mask(b, values, key)
    elif kind == MASK_ADD:
        mask = b.cast(mask, np.float32)
    batches = mask.shape[1] if mask.ndim == 5 else q.shape[0]
    whole = (mask.select(0, 0) if mask.ndim == 5 else mask).expand((batches, q.shape[1], q.shape[2], k.shape[2]))
    names = ("msb", "msh", "msq", "msk")
    fields |= {"mask": mask, "mask_kind": kind, "mask_batches": batches}
    return fields | dict(zip(names, whole.strides, strict=True))
