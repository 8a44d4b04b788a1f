"""Softmax and its relatives along one axis: compiled kernels for float32, numpy for other floating types."""

from __future__ import annotations

from typing import Any

import numpy as np

from pnnx_fast._types import Array
from pnnx_fast.errors import ShapeError
from pnnx_fast.ops._dtype import dtype_of
from pnnx_fast.ops.axis import along_axis
from pnnx_fast.ops.registry import operator
from pnnx_fast.ops.shape import axis_inside, axis_of
from pnnx_fast.ops.symbolic import Builder, Tensor

WORK = 20
"""Operations an exponential takes, about."""


def emit_softmax(b: Builder, input: Tensor, dim: int, *, factor: float = 1.0, logarithm: bool = False) -> Tensor:
    """Emit softmax(factor * input), or its logarithm."""
    if input.dtype.kind != "f":
        raise ShapeError("softmax needs a floating type", actual=input.dtype)
    axis = axis_of(dim, input.ndim)
    if input.dtype == np.float32:
        return along_axis(b, "log_softmax" if logarithm else "softmax", input, axis, [factor], WORK)
    wide = np.result_type(input.dtype, np.float32)

    def run(x: Array) -> Array:
        if x.size == 0:
            return x
        with np.errstate(all="ignore"):
            z = x.reshape(x.shape or (1,)).astype(wide) * factor
            z = z - z.max(axis, keepdims=True)
            total = np.exp(z).sum(axis, keepdims=True)
            return np.asarray(z - np.log(total) if logarithm else np.exp(z) / total).reshape(x.shape)

    return b.host(run, [input], [(input.shape, input.dtype)])[0]


def implicit_dim(dim: int | None, ndim: int) -> int:
    """PyTorch's choice where no dimension is given."""
    return dim if dim is not None else 0 if ndim in (0, 1, 3) else 1


@operator("nn.Softmax", "F.softmax", "torch.softmax", rows=axis_inside("dim"))
def softmax(b: Builder, input: Tensor, *, dim: int | None = None, dtype: Any = None) -> Tensor:
    """Exponentials that sum to one along a dimension. torch.nn.functional.softmax."""
    return emit_softmax(b, b.cast(input, dtype_of(dtype, input.dtype)), implicit_dim(dim, input.ndim))


@operator("nn.LogSoftmax", "F.log_softmax", "torch.log_softmax")
def log_softmax(b: Builder, input: Tensor, *, dim: int | None = None, dtype: Any = None) -> Tensor:
    """Logarithm of the softmax. torch.nn.functional.log_softmax."""
    input = b.cast(input, dtype_of(dtype, input.dtype))
    return emit_softmax(b, input, implicit_dim(dim, input.ndim), logarithm=True)


@operator("nn.Softmin", "F.softmin")
def softmin(b: Builder, input: Tensor, *, dim: int | None = None, dtype: Any = None) -> Tensor:
    """Softmax of the negated input. torch.nn.functional.softmin."""
    input = b.cast(input, dtype_of(dtype, input.dtype))
    return emit_softmax(b, input, implicit_dim(dim, input.ndim), factor=-1.0)


@operator("nn.Softmax2d")
def softmax_2d(b: Builder, input: Tensor) -> Tensor:
    """Softmax over the channels of images. torch.nn.Softmax2d."""
    if input.ndim not in (3, 4):
        raise ShapeError("needs 3 or 4 dimensions", actual=input.shape)
    return emit_softmax(b, input, -3)
