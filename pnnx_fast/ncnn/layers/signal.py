"""Spectrograms and their inverse."""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np

from pnnx_fast.errors import ParameterError, ShapeError
from pnnx_fast.ir import Attribute, Operand
from pnnx_fast.ncnn.layers.registry import Build, layer
from pnnx_fast.ncnn.tracer import Tracer, dims_of
from pnnx_fast.ncnn.values import Params, Weights

_PADDINGS = ("constant", "replicate", "reflect")


_LONGEST = 1 << 20


class _Frames:
    """What both layers share. Windows are made when a net first runs: a line of a file may ask for megabytes."""

    def __init__(self, p: Params) -> None:
        self.size = p.count(0)
        self.hop, self.length = p.count(2, max(self.size // 4, 1)), p.count(3, self.size)
        self.kind, self.center, self.normalized = p.choice(4, 0, 3), p.flag(5, 1), p.choice(7, 0, 3)
        if self.size > _LONGEST:
            raise ParameterError(f"a frame of {self.size} values")
        if self.length > self.size:
            raise ParameterError(f"a window of {self.length} values in a frame of {self.size}")

    @cached_property
    def window(self) -> Attribute:
        """The window in the middle of a frame."""
        turn = np.cos(2 * math.pi * np.arange(self.length) / self.length)
        shape = (np.ones(self.length), 0.5 * (1 - turn), 0.54 - 0.46 * turn)[self.kind]
        before = (self.size - self.length) // 2
        return Attribute.owning(np.pad(shape, (before, self.size - self.length - before)).astype(np.float32))

    @cached_property
    def norm(self) -> float:
        """Factor of the forward transform; a window of nothing makes infinities, as in ncnn."""
        if self.normalized < 2:
            return 1.0 / math.sqrt(self.size) if self.normalized else 1.0
        energy = math.sqrt(float((self.window.numpy().astype(np.float64) ** 2).sum()))
        return 1.0 / energy if energy else math.inf

    @cached_property
    def scaled(self) -> Attribute:
        """The window times the factor."""
        return Attribute.owning(self.window.numpy() * np.float32(self.norm))


@layer("Spectrogram")
def spectrogram(p: Params, w: Weights) -> Build:
    """Spectrum of every frame of a signal: complex, its magnitude or the square of that."""
    power = p.choice(1, 0, 3)
    f = _Frames(p)
    padding, onesided = _PADDINGS[p.choice(6, 2, 3)], p.flag(8, 1)

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
            t.constant(f.scaled),
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
    returns, f = p.choice(1, 0, 3), _Frames(p)

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
