"""Softmax and its relatives along one axis: a kernel for float32, and half precision; several steps for float64."""

from __future__ import annotations

from typing import Any

import numpy as np

from pnnx_fast.errors import ShapeError
from pnnx_fast.ops._checks import require_dims
from pnnx_fast.ops._dtype import dtype_of, in_single
from pnnx_fast.ops.axis import along_axis
from pnnx_fast.ops.registry import operator
from pnnx_fast.ops.shape import axis_inside, axis_of
from pnnx_fast.ops.symbolic import Builder, Tensor

WORK = 20
"""Operations an exponential takes, about."""


@in_single
def emit_softmax(
    b: Builder, input: Tensor, dim: int, *, factor: float = 1.0, logarithm: bool = False, temporary: bool = False
) -> Tensor:
    """Emit softmax(factor * input), or its logarithm; ``temporary``: which is not the operator's result."""
    axis = axis_of(dim, input.ndim)
    if input.dtype.kind != "f":
        if not input.size:
            return input
        raise ShapeError("softmax needs a floating type", actual=input.dtype)
    if input.dtype == np.float32:
        kernel = "log_softmax" if logarithm else "softmax"
        return along_axis(b, kernel, input, axis, [factor], WORK, temporary=temporary)
    from pnnx_fast.ops.elementwise import lower_expression
    from pnnx_fast.ops.reduction import emit_reduce

    scaled = input if factor == 1.0 else lower_expression(b, "mul(@0,@1)", [input, factor], temporary=True)
    if input.ndim == 0:
        scaled, axis = b.reshape(scaled, (1,)), 0
    top = emit_reduce(b, scaled, [axis], True, "max", temporary=True)
    powers = lower_expression(b, "exp(sub(@0,@1))", [scaled, top], temporary=True)
    total = emit_reduce(b, powers, [axis], True, "sum", temporary=True)
    whole = "sub(sub(@0,@2),log(@3))" if logarithm else "div(@1,@3)"
    temporary = temporary or input.ndim == 0
    result: Tensor = lower_expression(b, whole, [scaled, powers, top, total], temporary=temporary)
    return b.reshape(result, input.shape)


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
    factor = -1.0
    if input.dtype.kind in "iub":  # negated in their own type, which may have no negative numbers
        from pnnx_fast.ops.elementwise import intermediate

        input, factor = intermediate(b, "neg(@0)", input), 1.0
    input = b.cast(input, dtype_of(dtype, input.dtype))
    return emit_softmax(b, input, implicit_dim(dim, input.ndim), factor=factor)


@operator("nn.Softmax2d")
def softmax_2d(b: Builder, input: Tensor) -> Tensor:
    """Softmax over the channels of images. torch.nn.Softmax2d."""
    require_dims(input, 3, 4)
    return emit_softmax(b, input, -3)
