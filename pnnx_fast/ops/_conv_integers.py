"""Convolutions of integers in numpy, one place of the window after the other: exact, and wrapping as PyTorch's."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

import numpy as np

from pnnx_fast._types import Array, Shape
from pnnx_fast.errors import ParameterError
from pnnx_fast.expression.activations import CODES
from pnnx_fast.ops._conv_parts import Convolution
from pnnx_fast.ops._epilogue import finish
from pnnx_fast.ops.symbolic import Builder

__all__ = ["convolve_integers"]

_WHOLE = {CODES[name] for name in ("none", "relu", "clip")}
"""Activations that make integers of integers."""


def _touched(taps: int, size: int, out: int, stride: int, before: int, dilation: int) -> Iterator[tuple[slice, slice]]:
    """For each tap along an axis the outputs whose window has it inside the input, and the inputs that they see there.

    Padding adds nothing, so it need not exist, however large it may be.
    """
    for tap in range(taps):
        shift = tap * dilation - before
        first = max(-(shift // stride), 0)
        count = max(min(out, (size - 1 - shift) // stride + 1) - first, 0)
        start = first * stride + shift
        yield slice(first, first + count), slice(start, start + count * stride, stride) if count else slice(0)


def _sums(
    x: Array,
    weight: Array,
    out: Shape,
    stride: Sequence[int],
    before: Sequence[int],
    dilation: Sequence[int],
    groups: int,
) -> Array:
    """Sums of products (n, channels, out…) of x (n, c, …) and a weight (channels, c / groups, …), all of one type."""
    images, outputs, depth = len(x), len(weight), weight.shape[1]
    taps = weight.shape[2:]
    matrices = np.moveaxis(weight.reshape(groups, outputs // groups, depth, math.prod(taps)), -1, 0)
    y = np.zeros((images, groups, outputs // groups, *out), x.dtype)
    x = x.reshape(images, groups, depth, *x.shape[2:])
    numbers = zip(taps, x.shape[3:], out, stride, before, dilation, strict=True)
    for matrix, places in zip(matrices, itertools.product(*(tuple(_touched(*n)) for n in numbers)), strict=True):
        targets, sources = zip(*places, strict=True)
        seen = x[(..., *sources)]
        if seen.size:
            sums = matrix @ seen.reshape(images, groups, depth, math.prod(seen.shape[3:]))
            y[(..., *targets)] += sums.reshape(images, groups, outputs // groups, *seen.shape[3:])
    return y.reshape(images, outputs, *out)


def convolve_integers(b: Builder, c: Convolution) -> None:
    """Emit one convolution of tensors of one type."""
    if c.act["act"] not in _WHOLE:
        raise ParameterError("this activation would make floats of integers", parameter="activation")
    y = c.y
    if not y.size:
        return

    def compute(x: Array, weight: Array, *shift: Array) -> Array:
        sums = _sums(x, weight, y.shape[2:], c.stride, c.before, c.dilation, c.groups)
        return sums + shift[0].reshape(-1, *[1] * (sums.ndim - 2)) if shift else sums

    given = [b.contiguous(t) for t in (c.x, c.weight, c.bias) if t is not None]
    made = finish(b, b.host(compute, given, [(y.shape, y.dtype)])[0], c.residual, c.act)
    b.copy(b.cast(made, y.dtype), y)
