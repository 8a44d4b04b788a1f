"""The inverse of ncnn's spectrogram. A numpy step, used by nets of ``pnnx_fast.ncnn`` only."""

from __future__ import annotations

import numpy as np

from pnnx_fast._types import Array
from pnnx_fast.errors import ShapeError
from pnnx_fast.ops.registry import operator
from pnnx_fast.ops.signal import overlap_add
from pnnx_fast.ops.symbolic import Builder, Tensor

COMPLEX, REAL = 0, 1


@operator("ncnn.InverseSpectrogram", native=False)
def inverse_spectrogram(
    b: Builder, input: Tensor, window: Tensor, *, returns: int, hop_length: int, center: bool, factor: float
) -> Tensor:
    """Signal of a spectrum (n, frequencies, frames, 2): overlapping frames added, divided by their windows."""
    n_fft = window.shape[0]
    if input.ndim != 4 or input.shape[3] != 2 or input.shape[1] not in (n_fft, n_fft // 2 + 1):
        raise ShapeError("a spectrum", expected=f"(n, {n_fft} or {n_fft // 2 + 1}, frames, 2)", actual=input.shape)
    n, frequencies, frames, _ = input.shape
    start = n_fft // 2 if center else 0
    size = (frames - 1) * hop_length + n_fft - 2 * start

    def compute(x: Array, shape: Array) -> Array:
        spectrum = np.swapaxes(x[..., 0] + 1j * x[..., 1], 1, 2) * factor
        if frequencies != n_fft:
            spectrum = np.concatenate([spectrum, spectrum[..., n_fft - frequencies : 0 : -1].conj()], -1)
        parts = np.fft.ifft(spectrum) * shape
        squares = np.broadcast_to(shape.astype(np.float64) ** 2, (frames, n_fft))
        out, envelope = overlap_add(parts, hop_length), overlap_add(squares, hop_length)
        out, envelope = out[:, start : start + size], envelope[start : start + size]
        out = out / np.where(envelope == 0, 1.0, envelope)
        if returns == COMPLEX:
            return np.stack([out.real, out.imag], -1).astype(np.float32)
        return (out.real if returns == REAL else out.imag).astype(np.float32)

    wanted = (n, size, 2) if returns == COMPLEX else (n, size)
    return b.host(compute, [input, window], [(wanted, np.float32)])[0]
