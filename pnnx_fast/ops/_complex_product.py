"""Products of complex matrices as products of real ones, for which there are kernels.

A row of complex numbers is a row of pairs in memory. It meets two real rows for each row of the right matrix: that row
as it is, and the same times i. The result is a row of pairs again.
"""

from __future__ import annotations

import numpy as np

from pnnx_fast._types import Array, Shape
from pnnx_fast.ops.elementwise import store
from pnnx_fast.ops.fourier import parts_of
from pnnx_fast.ops.linear import multiply
from pnnx_fast.ops.symbolic import Builder, Tensor

__all__ = ["multiply_complex"]


def multiply_complex(b: Builder, left: Tensor, right: Tensor, y: Tensor, batch: Shape) -> None:
    """Emit ``left @ right`` of complex tensors to ``y``; their batches broadcast to ``batch``."""
    if not y.is_contiguous:
        dense = b.empty(y.shape, y.dtype)
        multiply_complex(b, left, right, dense, batch)
        b.copy(dense, y)
        return
    m, k, n = left.shape[-2], left.shape[-1], right.shape[-1]
    pairs = b.reshape(parts_of(b.contiguous(left)), (*left.shape[:-2], m, 2 * k))
    shape = (*right.shape[:-2], 2 * k, 2 * n)
    if right.is_constant:
        key = ("complex matrix", right.identity)
        rows = b.cached(key, lambda: _rows(right.numpy()).reshape(shape))
    else:
        rows = b.reshape(_emit_rows(b, right), shape)
    multiply(b, pairs, rows, y=b.reshape(parts_of(y), (*batch, m, 2 * n)))


def _rows(x: Array) -> Array:
    """(…, k, 2, n, 2): every row, and the same times i, as pairs."""
    return np.stack([np.stack(pair, -1) for pair in ((x.real, x.imag), (-x.imag, x.real))], -3)


def _emit_rows(b: Builder, x: Tensor) -> Tensor:
    parts, axis = parts_of(x), x.ndim - 1
    rows = b.empty((*x.shape[:-1], 2, x.shape[-1], 2), parts.dtype)
    turned = rows.select(axis, 1)
    b.copy(parts, rows.select(axis, 0))
    b.copy(parts.select(x.ndim, 0), turned.select(x.ndim, 1))
    store(b, "neg(@0)", [parts.select(x.ndim, 1)], turned.select(x.ndim, 0))
    return rows
