"""Reading the bits of one type as another, which ncnn does with integers in its float arrays."""

from __future__ import annotations

import numpy as np

from pnnx_fast.errors import ShapeError
from pnnx_fast.ops.registry import operator
from pnnx_fast.ops.symbolic import Builder, Tensor


@operator("ncnn.Bits")
def bits(b: Builder, input: Tensor) -> Tensor:
    """The bits of float32 values as int32, a view."""
    if input.dtype != np.float32:
        raise ShapeError("bits of float32 are wanted", expected="float32", actual=input.dtype)
    return Tensor(input.buffer, input.shape, np.dtype(np.int32), input.strides, input.offset)
