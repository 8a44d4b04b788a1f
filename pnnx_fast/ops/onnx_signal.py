"""Fourier transforms and sliding blocks of ONNX that the converter leaves under their ONNX names."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pnnx_fast._memory import check_numbers
from pnnx_fast._types import Array
from pnnx_fast.errors import ParameterError, ShapeError
from pnnx_fast.ops.fourier import complex_type, parts_of, real_type, transform
from pnnx_fast.ops.registry import Ints, operator
from pnnx_fast.ops.shape import axis_of, integers
from pnnx_fast.ops.signal import fold, short_time_transform
from pnnx_fast.ops.symbolic import Builder, Tensor


def _numbers(b: Builder, x: Tensor) -> Tensor:
    """Real or complex numbers of their parts, which stand along the last dimension."""
    if not x.ndim or x.shape[-1] not in (1, 2):
        raise ShapeError("the last dimension is that of one part, or two of complex numbers", actual=list(x.shape))
    if x.shape[-1] == 1:
        return x.select(x.ndim - 1, 0)
    dense = b.contiguous(b.cast(x, real_type(x.dtype)))
    return Tensor(dense.buffer, x.shape[:-1], complex_type(x.dtype), None, dense.offset)


@operator("DFT")
def discrete_transform(
    b: Builder,
    input: Tensor,
    dft_length: int | None = None,
    axis: int | None = None,
    *,
    inverse: bool = False,
    onesided: bool = False,
) -> Tensor:
    """Fourier transform along a dimension; parts of numbers stand along the last one. ONNX, torch.fft.fft."""
    x = _numbers(b, input)
    if axis is None and x.ndim != 2:
        raise ParameterError("the axis is missing, whose default depends on ONNX's version", parameter="axis")
    along = axis_of(1 if axis is None else axis, input.ndim)
    if along == x.ndim:
        raise ParameterError("the last dimension is that of the parts of numbers", parameter="axis")
    if inverse and onesided and x.dtype.kind != "c":
        raise ShapeError("half a spectrum has complex numbers", operand="input", actual=list(input.shape))
    whole = 2 * (x.shape[along] - 1) if inverse and onesided else x.shape[along]
    kind = ("irfft" if inverse else "rfft") if onesided else ("ifft" if inverse else "fft")
    y = transform(b, x, along, whole if dft_length is None else dft_length, kind, None, last=True)
    return parts_of(y) if y.dtype.kind == "c" else y.unsqueeze(y.ndim)


@operator("STFT")
def framed_transform(
    b: Builder,
    signal: Tensor,
    frame_step: int,
    window: Tensor | None = None,
    frame_length: int | None = None,
    *,
    onesided: bool = True,
) -> Tensor:
    """Fourier transforms of frames of signals, (batch, frames, frequencies, parts). ONNX, torch.stft."""
    x = _numbers(b, signal)
    if x.ndim != 2:
        raise ShapeError("signals are (batch, samples, parts)", operand="signal", actual=list(signal.shape))
    length = frame_length if frame_length is not None else x.shape[1] if window is None else window.size
    options = {
        "n_fft": length, "hop_length": frame_step, "win_length": length, "center": False, "normalized": False,
        "onesided": onesided, "pad": 0,
    }  # fmt: skip
    return parts_of(short_time_transform(b, x, window, options)).permute((0, 2, 1, 3))


@operator("Col2Im")
def add_blocks(
    b: Builder,
    input: Tensor,
    image_shape: Ints,
    block_shape: Ints,
    *,
    dilations: Ints | None = None,
    pads: Ints | None = None,
    strides: Ints | None = None,
) -> Tensor:
    """Images of any number of dimensions, the sum of sliding blocks. ONNX, torch.nn.functional.fold."""
    size, block = integers(image_shape, "image_shape"), integers(block_shape, "block_shape")
    axes = len(size)
    step, skip = (integers([1] * axes if v is None else v, "strides and dilations") for v in (strides, dilations))
    border = integers([0] * 2 * axes if pads is None else pads, "pads")
    if not axes or not len(block) == len(step) == len(skip) == axes or len(border) != 2 * axes:
        raise ParameterError(f"blocks of {axes} dimensions need as many sizes, and pads on both sides")
    if min(*size, *border) < 0 or min(*block, *step, *skip) < 1:
        raise ParameterError("sizes of blocks, strides and dilations are positive, pads not negative")
    front, back = border[:axes], border[axes:]
    if axes == 2 and front == back:
        options = {"kernel_size": block, "dilation": skip, "padding": front, "stride": step}
        return fold(b, input, output_size=size, **options)
    wide = [n + f + e for n, f, e in zip(size, front, back, strict=True)]
    counts = [(w - d * (k - 1) - 1) // s + 1 for w, d, k, s in zip(wide, skip, block, step, strict=True)]
    area, found = math.prod(block), math.prod(counts)
    if input.ndim != 3 or min(counts) < 1 or not input.shape[1] or input.shape[1] % area or input.shape[2] != found:
        raise ShapeError("columns do not fit", operand="input", expected=["n", area, found], actual=list(input.shape))
    n, c = input.shape[0], input.shape[1] // area
    check_numbers(n * c * math.prod(wide))

    def run(x: Array) -> Array:
        y, blocks = np.zeros((n, c, *wide), x.dtype), x.reshape(n, c, *block, *counts)
        for place in np.ndindex(*block):
            ends: tuple[Any, ...] = (
                ...,
                *(slice(i * d, i * d + m * s, s) for i, d, m, s in zip(place, skip, counts, step, strict=True)),
            )
            y[ends] += blocks[(slice(None), slice(None), *place)]
        inner: tuple[Any, ...] = (..., *(slice(f, f + m) for f, m in zip(front, size, strict=True)))
        return np.asarray(y[inner])

    return b.host(run, [input], [((n, c, *size), input.dtype)])[0]
