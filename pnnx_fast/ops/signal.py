"""Fourier transforms, spectrograms, and sliding blocks (fold, unfold). Transforms are numpy steps."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pnnx_fast._types import Array, DType
from pnnx_fast.errors import ParameterError, ShapeError
from pnnx_fast.ops._window import space_strides
from pnnx_fast.ops.registry import Ints, operator
from pnnx_fast.ops.shape import axes_of, axis_of
from pnnx_fast.ops.symbolic import Builder, Tensor

# -- Fourier transforms ------------------------------------------------------------------------------------------------


def _complex(dtype: DType) -> DType:
    return np.dtype(np.complex128 if dtype in (np.float64, np.complex128) else np.complex64)


def _real(dtype: DType) -> DType:
    return np.dtype(np.float64 if dtype in (np.float64, np.complex128) else np.float32)


def _emit(b: Builder, x: Tensor, function: Callable[[Array], Array], shape: Sequence[int], dtype: DType) -> Tensor:
    """Emit a transform as a numpy step."""
    return b.host(function, [x], [(tuple(shape), dtype)])[0]


def _resized(x: Tensor, axes: Sequence[int], sizes: Sequence[int]) -> list[int]:
    shape = list(x.shape)
    for axis, size in zip(axes, sizes, strict=True):
        if size < 1:
            raise ShapeError("a transform needs at least one sample", actual=size)
        shape[axis] = size
    return shape


def _norm(norm: str | None) -> Any:
    if norm not in (None, "forward", "backward", "ortho"):
        raise ParameterError(f"unknown normalisation {norm!r}", parameter="norm")
    return norm


def _one_dimensional(
    b: Builder, x: Tensor, n: int | None, dim: int, norm: str | None, function: Any, output: str
) -> Tensor:
    axis = axis_of(dim, x.ndim)
    inverse_real = output == "real"
    size = n or (2 * (x.shape[axis] - 1) if inverse_real else x.shape[axis])
    shape = _resized(x, [axis], [size // 2 + 1 if output == "half" else size])
    dtype = _real(x.dtype) if inverse_real else _complex(x.dtype)
    mode = _norm(norm)
    return _emit(b, x, lambda a: function(a, size, axis, mode), shape, dtype)


@operator("torch.fft.fft", native=False)
def fft(b: Builder, input: Tensor, *, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """Fourier transform. torch.fft.fft."""
    return _one_dimensional(b, input, n, dim, norm, np.fft.fft, "full")


@operator("torch.fft.ifft", native=False)
def ifft(b: Builder, input: Tensor, *, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """Inverse Fourier transform. torch.fft.ifft."""
    return _one_dimensional(b, input, n, dim, norm, np.fft.ifft, "full")


@operator("torch.fft.rfft", native=False)
def rfft(b: Builder, input: Tensor, *, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """Fourier transform of real numbers, half spectrum. torch.fft.rfft."""
    return _one_dimensional(b, input, n, dim, norm, np.fft.rfft, "half")


@operator("torch.fft.irfft", native=False)
def irfft(b: Builder, input: Tensor, *, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """Inverse of rfft. torch.fft.irfft."""
    return _one_dimensional(b, input, n, dim, norm, np.fft.irfft, "real")


@operator("torch.fft.hfft", native=False)
def hfft(b: Builder, input: Tensor, *, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """Fourier transform of a signal with Hermitian symmetry. torch.fft.hfft."""
    return _one_dimensional(b, input, n, dim, norm, np.fft.hfft, "real")


@operator("torch.fft.ihfft", native=False)
def ihfft(b: Builder, input: Tensor, *, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """Inverse of hfft. torch.fft.ihfft."""
    return _one_dimensional(b, input, n, dim, norm, np.fft.ihfft, "half")


def _hfftn(a: Array, s: Sequence[int], axes: Sequence[int], norm: str | None) -> Array:
    """N-d hfft: complex transforms over all axes but the last, then hfft over that one."""
    if len(axes) > 1:
        a = np.fft.fftn(a, s[:-1], axes[:-1], norm)  # type: ignore[arg-type]
    return np.asarray(np.fft.hfft(a, s[-1], axes[-1], norm))  # type: ignore[arg-type]


def _ihfftn(a: Array, s: Sequence[int], axes: Sequence[int], norm: str | None) -> Array:
    """N-d ihfft: ihfft over the last axis, then inverse complex transforms over the others."""
    a = np.fft.ihfft(a, s[-1], axes[-1], norm)  # type: ignore[arg-type]
    if len(axes) > 1:
        a = np.fft.ifftn(a, s[:-1], axes[:-1], norm)  # type: ignore[arg-type]
    return np.asarray(a)


def _n_dimensional(
    b: Builder, x: Tensor, s: Ints | None, dim: Ints | None, norm: str | None, function: Any, output: str
) -> Tensor:
    sizes = None if s is None else [s] if isinstance(s, int) else list(s)
    if dim is None:
        axes = list(range(x.ndim - len(sizes), x.ndim)) if sizes is not None else list(range(x.ndim))
    else:
        axes = axes_of(dim, x.ndim)
    given = sizes or [-1] * len(axes)
    full = [x.shape[a] if n == -1 else n for a, n in zip(axes, given, strict=True)]
    if output == "real" and given[-1] == -1:
        full[-1] = 2 * (x.shape[axes[-1]] - 1)
    shape = _resized(x, axes, [*full[:-1], full[-1] // 2 + 1] if output == "half" else full)
    dtype = _real(x.dtype) if output == "real" else _complex(x.dtype)
    mode = _norm(norm)
    return _emit(b, x, lambda a: function(a, full, axes, mode), shape, dtype)


_TRANSFORMS: dict[str, tuple[Any, str]] = {
    "fft": (np.fft.fftn, "full"),
    "ifft": (np.fft.ifftn, "full"),
    "rfft": (np.fft.rfftn, "half"),
    "irfft": (np.fft.irfftn, "real"),
    "hfft": (_hfftn, "real"),
    "ihfft": (_ihfftn, "half"),
}


def _register_n_dimensional(name: str, function: Any, output: str) -> None:
    """Register the 2-d and the n-d form of one transform."""

    def two(
        b: Builder, input: Tensor, *, s: Ints | None = None, dim: Ints = (-2, -1), norm: str | None = None
    ) -> Tensor:
        return _n_dimensional(b, input, s, dim, norm, function, output)

    def many(
        b: Builder, input: Tensor, *, s: Ints | None = None, dim: Ints | None = None, norm: str | None = None
    ) -> Tensor:
        return _n_dimensional(b, input, s, dim, norm, function, output)

    two.__doc__ = f"The transform {name} over two dimensions. torch.fft.{name}2."
    many.__doc__ = f"The transform {name} over several dimensions. torch.fft.{name}n."
    operator(f"torch.fft.{name}2", native=False)(two)
    operator(f"torch.fft.{name}n", native=False)(many)


for _name, (_function, _output) in _TRANSFORMS.items():
    _register_n_dimensional(_name, _function, _output)


# -- Spectrograms ------------------------------------------------------------------------------------------------------


def _window(window: Array | None, n_fft: int, win_length: int | None, dtype: DType) -> Array:
    """Window of length n_fft: the given one (or ones) centred between zeros."""
    length = win_length or n_fft
    values = np.ones(length, dtype) if window is None else window
    left = (n_fft - length) // 2
    return np.pad(values, (left, n_fft - length - left))


def _frames(a: Array, n_fft: int, hop: int) -> Array:
    """Overlapping frames (…, count, n_fft)."""
    return np.lib.stride_tricks.sliding_window_view(a, n_fft, axis=-1)[..., ::hop, :]


def _stft(a: Array, window: Array | None, o: dict[str, Any]) -> Array:
    """Short-time Fourier transform (…, frequencies, frames)."""
    n_fft, hop = o["n_fft"], o["hop_length"]
    if o["pad"]:
        a = np.pad(a, [(0, 0)] * (a.ndim - 1) + [(o["pad"], o["pad"])])
    if o["center"]:
        mode = {"constant": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}[o["pad_mode"]]
        a = np.pad(a, [(0, 0)] * (a.ndim - 1) + [(n_fft // 2, n_fft // 2)], mode=mode)  # type: ignore[call-overload]
    shaped = _window(window, n_fft, o["win_length"], _real(a.dtype))
    frames = _frames(a, n_fft, hop) * shaped
    onesided = o["onesided"] and not np.iscomplexobj(frames)
    spectrum = np.fft.rfft(frames) if onesided else np.fft.fft(frames)
    return np.swapaxes(spectrum * _scale(o["normalized"], shaped, n_fft), -1, -2)


def _scale(normalized: Any, window: Array, n_fft: int) -> float:
    """Factor of the forward transform: 1, 1/sqrt(n_fft) ("frame_length") or 1/|window| ("window")."""
    if normalized in (False, None, 0):
        return 1.0
    if normalized == "window":
        return float(1.0 / np.sqrt((window.astype(np.float64) ** 2).sum()))
    return 1.0 / math.sqrt(n_fft)


def _istft(a: Array, window: Array | None, o: dict[str, Any]) -> Array:
    """Inverse of the short-time transform by overlap-add, divided by the window's envelope."""
    n_fft, hop = o["n_fft"], o["hop_length"]
    shaped = _window(window, n_fft, o["win_length"], _real(a.dtype)).astype(np.float64)
    spectrum = np.swapaxes(a, -1, -2) / _scale(o["normalized"], shaped, n_fft)
    frames: Array
    if o.get("return_complex"):
        frames = np.fft.ifft(spectrum)
    else:
        # A real signal is determined by the first half of its spectrum; PyTorch ignores the other half.
        frames = np.fft.irfft(spectrum[..., : n_fft // 2 + 1], n_fft)
    count = frames.shape[-2]
    total = n_fft + hop * (count - 1)
    out = np.zeros((*a.shape[:-2], total), frames.dtype)
    envelope = np.zeros(total)
    for i in range(count):
        out[..., i * hop : i * hop + n_fft] += frames[..., i, :] * shaped
        envelope[i * hop : i * hop + n_fft] += shaped**2
    start = n_fft // 2 if o["center"] else 0
    end = _istft_end(total, o)
    kept = slice(start, min(end, total))
    out = out[..., kept] / envelope[kept]
    missing = end - start - out.shape[-1]
    return np.pad(out, [(0, 0)] * (out.ndim - 1) + [(0, missing)]) if missing > 0 else out


def _istft_end(total: int, o: dict[str, Any]) -> int:
    start = o["n_fft"] // 2 if o["center"] else 0
    if o["length"] is not None:
        return int(start + o["length"])
    return total - o["n_fft"] // 2 if o["center"] else total


def _check_window(window: Tensor | None, n_fft: int, win_length: int | None) -> None:
    length = win_length or n_fft
    if not 0 < length <= n_fft:
        raise ParameterError(f"win_length must be in 1 … n_fft, not {length}", parameter="win_length")
    if window is not None and window.shape != (length,):
        raise ShapeError("window does not fit win_length", expected=(length,), actual=window.shape)


def _emit_stft(b: Builder, x: Tensor, window: Tensor | None, o: dict[str, Any]) -> Tensor:
    n_fft, hop = o["n_fft"], o["hop_length"]
    _check_window(window, n_fft, o["win_length"])
    samples = x.shape[-1] + 2 * o["pad"] + (2 * (n_fft // 2) if o["center"] else 0)
    if hop < 1 or samples < n_fft:
        raise ShapeError("the signal is shorter than a frame", expected=n_fft, actual=samples)
    onesided = o["onesided"] and x.dtype.kind != "c"
    shape = (*x.shape[:-1], n_fft // 2 + 1 if onesided else n_fft, (samples - n_fft) // hop + 1)
    power = o.get("power")
    inputs = [x] if window is None else [x, window]

    def compute(a: Array, w: Array | None = None) -> Array:
        spectrum = _stft(a, w, o)
        if power is None:
            return spectrum
        magnitude = np.abs(spectrum)
        return magnitude if power == 1 else magnitude**power

    return b.host(compute, inputs, [(shape, _complex(x.dtype) if power is None else _real(x.dtype))])[0]


@operator("torch.stft", native=False)
def stft(
    b: Builder,
    input: Tensor,
    window: Tensor | None = None,
    *,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    center: bool = True,
    pad_mode: str = "reflect",
    normalized: Any = False,
    onesided: bool | None = None,
    return_complex: bool | None = None,
    align_to_window: Any = None,
    pad: int = 0,
) -> Tensor:
    """Short-time Fourier transform. torch.stft."""
    if align_to_window and center:
        raise ParameterError("frames are aligned to the window only without center", parameter="align_to_window")
    if align_to_window:
        pad += (n_fft - (win_length or n_fft)) // 2
    options = {
        "n_fft": n_fft, "hop_length": hop_length or n_fft // 4, "win_length": win_length, "center": center,
        "pad_mode": pad_mode, "normalized": normalized, "onesided": onesided is not False, "pad": pad,
    }  # fmt: skip
    y = _emit_stft(b, input, window, options)
    if return_complex is False:
        half = _real(y.dtype)
        return Tensor(y.buffer, (*y.shape, 2), half, [*(2 * s for s in y.strides), 1], y.offset)
    return y


def _emit_istft(b: Builder, x: Tensor, window: Tensor | None, o: dict[str, Any]) -> Tensor:
    _check_window(window, o["n_fft"], o["win_length"])
    if x.dtype.kind != "c":
        if x.shape[-1] != 2:
            raise ShapeError("istft needs a complex spectrum", actual=x.dtype)
        dense = b.contiguous(x)
        x = Tensor(dense.buffer, x.shape[:-1], _complex(x.dtype), None, dense.offset)
    bins = o["n_fft"] // 2 + 1 if o["onesided"] else o["n_fft"]
    if x.ndim < 2 or x.shape[-2] != bins:
        raise ShapeError("istft: wrong number of frequencies", expected=bins, actual=x.shape)
    total = o["n_fft"] + o["hop_length"] * (x.shape[-1] - 1)
    samples = _istft_end(total, o) - (o["n_fft"] // 2 if o["center"] else 0)
    inputs = [x] if window is None else [x, window]
    dtype = x.dtype if o.get("return_complex") else _real(x.dtype)
    return b.host(lambda a, w=None: _istft(a, w, o), inputs, [((*x.shape[:-2], samples), dtype)])[0]


@operator("torch.istft", native=False)
def istft(
    b: Builder,
    input: Tensor,
    window: Tensor | None = None,
    *,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    center: bool = True,
    normalized: Any = False,
    onesided: bool | None = None,
    length: int | None = None,
    return_complex: bool | None = False,
) -> Tensor:
    """Inverse short-time Fourier transform. torch.istft."""
    options = {
        "n_fft": n_fft, "hop_length": hop_length or n_fft // 4, "win_length": win_length, "center": center,
        "normalized": normalized, "onesided": onesided is not False, "length": length,
        "return_complex": return_complex,
    }  # fmt: skip
    return _emit_istft(b, input, window, options)


@operator("torchaudio.functional.spectrogram", native=False)
def spectrogram(
    b: Builder,
    waveform: Tensor,
    window: Tensor | None = None,
    *,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    pad: int = 0,
    power: float | None = 2.0,
    normalized: Any = False,
    center: bool = True,
    pad_mode: str = "reflect",
    onesided: bool = True,
    return_complex: Any = None,
) -> Tensor:
    """Spectrogram of a signal. torchaudio.functional.spectrogram."""
    window_norm = normalized == "window" or normalized is True
    options = {
        "n_fft": n_fft, "hop_length": hop_length or n_fft // 4, "win_length": win_length, "center": center,
        "pad_mode": pad_mode, "normalized": "window" if window_norm else normalized, "onesided": onesided,
        "pad": pad, "power": power,
    }  # fmt: skip
    return _emit_stft(b, waveform, window, options)


@operator("torchaudio.functional.inverse_spectrogram", native=False)
def inverse_spectrogram(
    b: Builder,
    spectrogram: Tensor,
    window: Tensor | None = None,
    *,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    length: int | None = None,
    pad: int = 0,
    normalized: Any = False,
    center: bool = True,
    pad_mode: str = "reflect",
    onesided: bool = True,
) -> Tensor:
    """Signal of a complex spectrogram. torchaudio.functional.inverse_spectrogram."""
    window_norm = normalized == "window" or normalized is True
    options = {
        "n_fft": n_fft, "hop_length": hop_length or n_fft // 4, "win_length": win_length, "center": center,
        "normalized": "window" if window_norm else normalized, "onesided": onesided,
        "length": None if length is None else length + 2 * pad,
    }  # fmt: skip
    y = _emit_istft(b, spectrogram, window, options)
    return y.narrow(y.ndim - 1, pad, y.shape[-1] - 2 * pad) if pad else y


# -- Sliding blocks ----------------------------------------------------------------------------------------------------


def _pairs(*values: Ints) -> list[tuple[int, int]]:
    return [(v, v) if isinstance(v, int) else (v[0], v[-1]) for v in values]


def _positions(
    size: Sequence[int], k: Sequence[int], d: Sequence[int], p: Sequence[int], s: Sequence[int]
) -> list[int]:
    if min(*k, *d, *s) < 1 or min(p) < 0:
        raise ParameterError("kernel size, dilation and stride must be positive, padding not negative")
    counts = [(size[i] + 2 * p[i] - d[i] * (k[i] - 1) - 1) // s[i] + 1 for i in (0, 1)]
    if min(counts) < 1:
        raise ShapeError("the window does not fit into the input", expected=list(k), actual=list(size))
    return counts


@operator("nn.Unfold", "F.unfold")
def unfold(
    b: Builder, input: Tensor, *, kernel_size: Ints, dilation: Ints = 1, padding: Ints = 0, stride: Ints = 1
) -> Tensor:
    """Columns of sliding blocks. torch.nn.Unfold."""
    k, d, p, s = _pairs(kernel_size, dilation, padding, stride)
    x = input if input.ndim == 4 else input.unsqueeze(0)
    n, c, h, w = x.shape
    oh, ow = _positions((h, w), k, d, p, s)
    x = _padded(b, x, p)
    y = b.result((n, c, k[0], k[1], oh, ow), x.dtype)
    sn, sc, sh, sw = x.strides
    for i, j in itertools.product(range(k[0]), range(k[1])):
        skip = i * d[0] * sh + j * d[1] * sw
        block = x.as_strided((n, c, oh, ow), (sn, sc, sh * s[0], sw * s[1]), skip)
        b.copy(block, y.select(2, i).select(2, j))
    flat = b.reshape(y, (n, c * k[0] * k[1], oh * ow))
    return flat if input.ndim == 4 else flat.select(0, 0)


def _padded(b: Builder, x: Tensor, p: Sequence[int]) -> Tensor:
    """The input between borders of zeros."""
    if not any(p):
        return x
    n, c, h, w = x.shape
    y = b.empty((n, c, h + 2 * p[0], w + 2 * p[1]), x.dtype)
    zero = b.constant(np.zeros(1, x.dtype)).as_strided((1,) * 4, (0,) * 4).expand(y.shape)
    b.copy(zero, y)
    b.copy(x, y.narrow(2, p[0], h).narrow(3, p[1], w))
    return y


@operator("nn.Fold", "F.fold")
def fold(
    b: Builder,
    input: Tensor,
    *,
    output_size: Ints,
    kernel_size: Ints,
    dilation: Ints = 1,
    padding: Ints = 0,
    stride: Ints = 1,
) -> Tensor:
    """Sum of sliding blocks. torch.nn.Fold."""
    size, k, d, p, s = _pairs(output_size, kernel_size, dilation, padding, stride)
    x = input if input.ndim == 3 else input.unsqueeze(0)
    oh, ow = _positions(size, k, d, p, s)
    n, rows, columns = x.shape
    if rows % (k[0] * k[1]) or columns != oh * ow:
        raise ShapeError("fold: columns do not fit", expected=(k[0] * k[1], oh * ow), actual=(rows, columns))
    c = rows // (k[0] * k[1])
    if x.dtype == np.float32:
        y = b.result((n, c, *size), x.dtype)
        _add_blocks(b, b.reshape(b.contiguous(x), (n, c, *k, oh, ow)), y, d, p, s)
        return y if input.ndim == 3 else y.select(0, 0)

    def add_blocks(a: Array) -> Array:
        blocks = a.reshape(n, c, k[0], k[1], oh, ow)
        out = np.zeros((n, c, size[0] + 2 * p[0], size[1] + 2 * p[1]), a.dtype)
        for i, j in itertools.product(range(k[0]), range(k[1])):
            top, left = i * d[0], j * d[1]
            out[:, :, top : top + oh * s[0] : s[0], left : left + ow * s[1] : s[1]] += blocks[:, :, i, j]
        return out[:, :, p[0] : p[0] + size[0], p[1] : p[1] + size[1]]

    y = b.host(add_blocks, [x], [((n, c, *size), x.dtype)])[0]
    return y if input.ndim == 3 else y.select(0, 0)


def _add_blocks(b: Builder, x: Tensor, y: Tensor, d: Sequence[int], p: Sequence[int], s: Sequence[int]) -> None:
    """Emit the sum of blocks ``x`` (n, c, kh, kw, oh, ow) to an image ``y`` whose borders ``p`` are dropped."""
    n, c, kh, kw, oh, ow = x.shape
    if (kh, kw) == tuple(s) and tuple(d) == (1, 1) and y.shape[2:] == (kh * oh, kw * ow) and not any(p):
        # Blocks that touch, but do not overlap: each has its place.
        sn, sc, sh, sw = y.strides
        b.copy(x.permute((0, 1, 4, 2, 5, 3)), y.as_strided((n, c, oh, kh, ow, kw), (sn, sc, sh * kh, sh, sw * kw, sw)))
        return
    lines = y if y.strides[-1] == 1 else b.empty(y.shape, y.dtype)
    b.step(
        "fold_f32",
        flops=x.size,
        x=x, y=lines, n=n, c=c, isize=[1, oh, ow], osize=[1, *y.shape[2:]], window=[1, kh, kw], stride=[1, *s],
        pad=[0, *p], dilation=[1, *d], xs=[*x.strides[:2], *x.strides[3:]], ys=space_strides(lines), js=(), index=None,
        adaptive=False, include_pad=False, divisor=0, norm=0.0,
    )  # fmt: skip
    if lines is not y:
        b.copy(lines, y)
