"""Emission of kernels that work along one axis of a tensor of any layout (argument kind ``axis``).

Used by the softmax, normalisation and reduction operators; knows no operator semantics.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from pnnx_fast._core.program import MAX_RANK
from pnnx_fast._types import Shape
from pnnx_fast.ops.symbolic import Builder, Tensor

READS_NEIGHBOURS = {"local_response_norm"}
"""Kernels whose result must not overwrite their input."""


def without(values: Sequence[int], axis: int) -> Shape:
    """All values but the one of the axis."""
    return (*values[:axis], *values[axis + 1 :])


def has_unit_stride(x: Tensor) -> bool:
    """Whether some dimension steps from element to neighbouring element, so that kernels can use vectors."""
    return x.size <= 1 or any(s == 1 and n > 1 for n, s in zip(x.shape, x.strides, strict=True))


def lines(b: Builder, x: Tensor, axis: int) -> tuple[Tensor, int]:
    """Return the input (perhaps copied) with a unit stride and few enough dimensions, and where the axis is."""
    if not has_unit_stride(x) or x.ndim > MAX_RANK:
        x = b.contiguous(x)
    if x.ndim > MAX_RANK:
        shape = (math.prod(x.shape[:axis]), x.shape[axis], math.prod(x.shape[axis + 1 :]))
        return b.reshape(x, shape), 1
    return x, axis


def along_axis(
    b: Builder,
    kernel: str,
    input: Tensor,
    axis: int,
    parameters: Sequence[float] = (),
    cost: int = 1,
    *,
    temporary: bool = False,
) -> Tensor:
    """Emit a kernel whose result has the shape and dtype of the input; ``cost`` is the work an element takes.

    ``temporary``: what it gives is not the result of the operator that is being lowered.
    """
    shape = input.shape
    if input.ndim == 0:
        return b.reshape(along_axis(b, kernel, b.reshape(input, (1,)), 0, parameters, cost, temporary=temporary), ())
    x, at = lines(b, input, axis)
    y = (b.empty if temporary else b.result)(shape, x.dtype, x if x.shape == shape else "plain")
    out = y if y.shape == x.shape else b.reshape(y, x.shape)
    values = [*parameters, 0.0, 0.0, 0.0, 0.0]
    b.step(
        kernel,
        flops=cost * x.size,
        inplace=None if kernel in READS_NEIGHBOURS else (out, x),
        x=x, y=out, index=None, rank=x.ndim - 1, shape=without(x.shape, at), xs=without(x.strides, at),
        ys=without(out.strides, at), js=(), n=x.shape[at], xsn=x.strides[at], ysn=out.strides[at],
        a=values[0], b=values[1], c=values[2], d=values[3],
    )  # fmt: skip
    return y


def extremes(b: Builder, kernel: str, input: Tensor, axis: int, values: bool) -> tuple[Tensor | None, Tensor]:
    """Emit argmax or argmin of a type: the extremes themselves if wanted, and their places, without the axis."""
    x, at = lines(b, input, axis)
    shape = without(input.shape, axis)
    y = b.result(shape, input.dtype) if values else None
    index = b.result(shape, np.int64, index=1 if values else 0)
    inner = without(x.shape, at)
    out = None if y is None else b.reshape(y, inner)
    places = b.reshape(index, inner)
    b.step(
        kernel,
        flops=2 * x.size,
        x=x, y=out, index=places, rank=x.ndim - 1, shape=inner, xs=without(x.strides, at),
        ys=() if out is None else out.strides, js=places.strides, n=x.shape[at], xsn=x.strides[at], ysn=0,
        a=0.0, b=0.0, c=0.0, d=0.0,
    )  # fmt: skip
    return y, index


def running_extremes(b: Builder, kernel: str, input: Tensor, axis: int, temporary: bool) -> tuple[Tensor, Tensor]:
    """Emit running extremes along an axis and the places that had them; ``temporary``: the former are no result."""
    x, at = lines(b, input, axis)
    y = (b.empty if temporary else b.result)(input.shape, x.dtype)
    index = b.result(input.shape, np.int64, index=1)
    out, places = b.reshape(y, x.shape), b.reshape(index, x.shape)
    b.step(
        kernel,
        flops=2 * x.size,
        x=x, y=out, index=places, rank=x.ndim - 1, shape=without(x.shape, at), xs=without(x.strides, at),
        ys=without(out.strides, at), js=without(places.strides, at), n=x.shape[at], xsn=x.strides[at],
        ysn=out.strides[at], a=0.0, b=0.0, c=0.0, d=0.0,
    )  # fmt: skip
    return y, index
