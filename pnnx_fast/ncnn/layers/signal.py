"""Spectrograms and their inverse."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from pnnx_fast.errors import ParameterError, ShapeError
from pnnx_fast.ir import Attribute, Operand
from pnnx_fast.ncnn.layers.registry import Build, layer
from pnnx_fast.ncnn.tracer import Tracer, dims_of
from pnnx_fast.ncnn.values import Params, Weights

_PADDINGS = ("constant", "replicate", "reflect")


class _Frames(NamedTuple):
    """What both layers share; ``norm`` is the factor that the forward transform is multiplied by."""

    size: int
    hop: int
    window: Attribute
    norm: float
    center: bool


_LONGEST = 1 << 24


def _frames(p: Params) -> _Frames:
    size = p.count(0)
    hop, length = p.count(2, max(size // 4, 1)), p.count(3, size)
    kind, center, normalized = p.choice(4, 0, 3), p.flag(5, 1), p.choice(7, 0, 3)
    if size > _LONGEST:
        raise ParameterError(f"a frame of {size} values")
    if length > size:
        raise ParameterError(f"a window of {length} values in a frame of {size}")
    turn = np.cos(2 * math.pi * np.arange(length) / length)
    shape = (np.ones(length), 0.5 * (1 - turn), 0.54 - 0.46 * turn)[kind]
    before = (size - length) // 2
    window = np.pad(shape, (before, size - length - before)).astype(np.float32)
    energy = math.sqrt(float((window.astype(np.float64) ** 2).sum()))
    # A window of nothing makes infinities, as in ncnn.
    norm = (1.0, 1.0 / math.sqrt(size), 1.0 / energy if energy else math.inf)[normalized]
    return _Frames(size, hop, Attribute.owning(window), norm, center)


@layer("Spectrogram")
def spectrogram(p: Params, w: Weights) -> Build:
    """Spectrum of every frame of a signal: complex, its magnitude or the square of that."""
    power = p.choice(1, 0, 3)
    f = _frames(p)
    padding, onesided = _PADDINGS[p.choice(6, 2, 3)], p.flag(8, 1)
    window = Attribute.owning(f.window.numpy() * np.float32(f.norm))

    def build(t: Tracer, x: Operand) -> Operand:
        if dims_of(x) != 1:
            raise ShapeError("number of dimensions", expected=1, actual=dims_of(x))
        if f.center:
            side = f.size // 2
            value = 0.0 if padding == "constant" else None
            x = t.emit("F.pad", x, pad=[side, side], mode=padding, value=value)
        y = t.emit(
            "torch.stft",
            x,
            t.constant(window),
            names=["input", "window"],
            n_fft=f.size,
            hop_length=f.hop,
            win_length=f.size,
            center=False,
            normalized=False,
            onesided=onesided,
            return_complex=True,
        )
        y = t.emit("torch.view_as_real", y)
        if power == 0:
            return y
        real, imaginary = (t.emit("Tensor.select", y, dim=3, index=i) for i in range(2))
        text = "add(square(@0),square(@1))"
        return t.expression(text if power == 2 else f"sqrt({text})", real, imaginary)

    return build


@layer("InverseSpectrogram")
def inverse_spectrogram(p: Params, w: Weights) -> Build:
    """Signal of a spectrum: complex, or its real or imaginary part."""
    returns, f = p.choice(1, 0, 3), _frames(p)

    def build(t: Tracer, x: Operand) -> Operand:
        return t.emit(
            "ncnn.InverseSpectrogram",
            x,
            t.constant(f.window),
            names=["input", "window"],
            returns=returns,
            hop_length=f.hop,
            center=f.center,
            factor=1.0 / f.norm,
        )

    return build
