"""Bags of rows of a table, as recommenders look them up: sums, means and maxima."""

from __future__ import annotations

from typing import Any

import numpy as np

from pnnx_fast._core.program import codes
from pnnx_fast._types import Array
from pnnx_fast.errors import IndexRangeError, ParameterError, ShapeError
from pnnx_fast.ops.index import index_tensor
from pnnx_fast.ops.registry import operator
from pnnx_fast.ops.symbolic import Builder, Results, Tensor, Value

KINDS = codes("bag")
"""Codes of what is made of the rows of a bag."""


class _Bags:
    """What an operator is given beside its tensors."""

    def __init__(self, weight: Tensor, offsets: Tensor, mode: Any, closed: Any, padding: Any) -> None:
        if mode not in range(len(KINDS)):
            raise ParameterError(f"unknown mode {mode!r}", parameter="mode")
        self.mode = list(KINDS)[mode]
        self.closed = bool(closed)
        self.padding = None if padding is None else padding % weight.shape[0]
        self.count = offsets.size - self.closed
        self.columns = weight.shape[1]

    def emit(self, b: Builder, weight: Tensor, indices: Tensor, offsets: Tensor, factors: Tensor | None) -> Tensor:
        """Emit the kernel."""
        index, starts = (b.contiguous(index_tensor(b, t)) for t in (indices, offsets))
        scale = None if factors is None else b.contiguous(b.cast(factors, np.float32))
        y = b.result((self.count, self.columns), np.float32)
        b.step(
            "bags_f32", flops=2 * indices.size * self.columns, label=self.mode, x=b.contiguous(weight), index=index,
            starts=starts, scale=scale, y=y, index_size=index.dtype.itemsize, starts_size=starts.dtype.itemsize,
            size=weight.shape[0], columns=self.columns, count=index.size, bags=self.count, closed=int(self.closed),
            kind=KINDS[self.mode], skip=-1 if self.padding is None else self.padding,
        )  # fmt: skip
        return y

    def compute(self, table: Array, index: Array, starts: Array, *scale: Array) -> Array:
        """The same by numpy."""
        for places, size in ((index, len(table)), (starts, index.size + 1), (starts[:1], 1)):
            wrong = places[(places < 0) | (places >= size)]
            if wrong.size:
                raise IndexRangeError(int(wrong[0]), size)
        bounds = starts if self.closed else np.append(starts, index.size)
        kept = np.arange(bounds[-1])
        kept = kept if self.padding is None else np.flatnonzero(index[: bounds[-1]] != self.padding)
        bounds = np.searchsorted(kept, bounds)
        rows = table[index[kept]]
        rows = rows * scale[0][kept, None] if scale else rows
        counts = np.diff(bounds)
        y = np.zeros((self.count, self.columns), table.dtype)
        if len(rows):
            join = np.maximum if self.mode == "max" else np.add
            y[counts > 0] = join.reduceat(rows, bounds[:-1][counts > 0], 0)
        return np.asarray(y / np.maximum(counts, 1)[:, None], y.dtype) if self.mode == "mean" else y


@operator("aten::embedding_bag")
def embedding_bag(
    b: Builder,
    weight: Tensor,
    indices: Tensor,
    offsets: Tensor,
    scale_grad_by_freq: Any = False,
    mode: Any = 0,
    sparse: Any = False,
    per_sample_weights: Any = None,
    include_last_offset: Any = False,
    padding_idx: Any = None,
) -> Value:
    """Sums, means or maxima of bags of rows of a table. torch.nn.functional.embedding_bag."""
    if weight.ndim != 2 or indices.ndim != 1 or offsets.ndim != 1 or offsets.size < bool(include_last_offset):
        raise ShapeError("bags are ranges of a line of indices", actual=(weight.shape, indices.shape, offsets.shape))
    if per_sample_weights is not None and per_sample_weights.shape != indices.shape:
        raise ShapeError("one weight an index", expected=indices.shape, actual=per_sample_weights.shape)
    bags = _Bags(weight, offsets, mode, include_last_offset, padding_idx)
    inputs = [weight, indices, offsets, *([] if per_sample_weights is None else [per_sample_weights])]
    if weight.dtype == np.float32 and weight.size and indices.size and bags.count:
        y = bags.emit(b, weight, indices, offsets, per_sample_weights)
    else:
        y = b.host(bags.compute, inputs, [((bags.count, bags.columns), weight.dtype)])[0]
    return Results([y, None, None, None])
