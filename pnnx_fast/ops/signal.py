"""Spectrograms, and sliding blocks (fold, unfold)."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from functools import reduce
from typing import Any, cast

import numpy as np

from pnnx_fast._memory import check_numbers
from pnnx_fast._types import Array, DType
from pnnx_fast.errors import ParameterError, ShapeError
from pnnx_fast.ops._checks import require_dims
from pnnx_fast.ops._window import require_reach, space_strides
from pnnx_fast.ops.elementwise import intermediate, lower_expression, store
from pnnx_fast.ops.fourier import complex_type, emit_transform, parts_of, real_type
from pnnx_fast.ops.padding import pad_sides
from pnnx_fast.ops.registry import Ints, operator
from pnnx_fast.ops.symbolic import Builder, Tensor

# -- Spectrograms ------------------------------------------------------------------------------------------------------


def _check_window(window: Tensor | None, n_fft: int, win_length: int | None) -> int:
    """Length of a window, which is centred in a frame."""
    length = win_length or n_fft
    if not 0 < length <= n_fft:
        raise ParameterError(f"win_length must be in 1 … n_fft, not {length}", parameter="win_length")
    if window is not None and window.shape != (length,):
        raise ShapeError("window does not fit win_length", expected=(length,), actual=window.shape)
    return length


def _scale(b: Builder, normalized: Any, window: Tensor | None, n_fft: int, length: int) -> float | Tensor:
    """Factor of the forward transform: 1, 1/sqrt(n_fft) ("frame_length") or 1/|window| ("window")."""
    if normalized in (False, None, 0):
        return 1.0
    if normalized != "window":
        return 1.0 / math.sqrt(n_fft)
    if window is None:
        return 1.0 / math.sqrt(length)
    if window.is_constant:
        return float(1.0 / np.sqrt((np.abs(window.numpy().astype(np.complex128)) ** 2).sum()))
    return b.host(
        lambda w: 1.0 / np.sqrt((w.astype(np.float64) ** 2).sum()), [window], [((), real_type(window.dtype))]
    )[0]


def _turned(x: Tensor) -> Tensor:
    """View with the last two dimensions swapped."""
    return x.permute([*range(x.ndim - 2), x.ndim - 1, x.ndim - 2])


def _extended(b: Builder, x: Tensor, sides: int, mode: str) -> Tensor:
    pads = [0] * (x.ndim - 1) + [sides]
    return pad_sides(b, x, pads, pads, mode, temporary=True)


def short_time_transform(b: Builder, x: Tensor, window: Tensor | None, o: dict[str, Any]) -> Tensor:
    """Short-time Fourier transform (…, frequencies, frames), or a power of its magnitudes."""
    n_fft, hop, power = o["n_fft"], o["hop_length"], o.get("power")
    length = _check_window(window, n_fft, o["win_length"])
    if x.dtype.kind not in "fc" or x.dtype == np.float16:
        x = b.cast(x, np.float32)
    x = _as_wide(b, x, window)
    x = _extended(b, x, o["pad"], "constant")
    x = _extended(b, x, n_fft // 2, o["pad_mode"]) if o["center"] else x
    samples, left, step = x.shape[-1], (n_fft - length) // 2, x.strides[-1]
    if hop < 1 or samples < n_fft:
        raise ShapeError("the signal is shorter than a frame", expected=n_fft, actual=samples)
    count = (samples - n_fft) // hop + 1
    scale = _scale(b, o["normalized"], window, n_fft, length)
    frames = x.as_strided((*x.shape[:-1], count, length), (*x.strides[:-1], hop * step, step), left * step)
    if window is not None and window.dtype.kind == "c":
        frames, window = lower_expression(b, "mul(@0,@1)", [frames, window], temporary=True), None
    elif window is not None:
        window = b.contiguous(window if window.dtype == real_type(x.dtype) else b.cast(window, real_type(x.dtype)))
    bins = n_fft // 2 + 1 if o["onesided"] and frames.dtype.kind != "c" else n_fft
    later = power is not None or isinstance(scale, Tensor)
    y = (b.empty if later else b.result)((*x.shape[:-1], bins, count), complex_type(frames.dtype))
    known = 1.0 if isinstance(scale, Tensor) else scale
    emit_transform(b, frames, _turned(y), n_fft, scale=known, window=window, first=left)
    if isinstance(scale, Tensor):
        y = lower_expression(b, "mul(@0,@1)", [y, scale], temporary=power is not None)
    return y if power is None else _powers(b, y, power)


def _as_wide(b: Builder, x: Tensor, window: Tensor | None) -> Tensor:
    """A signal or spectrum in the precision of its window, if that is higher."""
    if window is None or real_type(window.dtype) != np.float64:
        return x
    return b.cast(x, np.complex128 if x.dtype.kind == "c" else np.float64)


def _powers(b: Builder, y: Tensor, power: float) -> Tensor:
    text = "add(square(@0),square(@1))"
    if power != 2:
        text = f"sqrt({text})" if power == 1 else f"pow({text},{power / 2!r})"
    parts = parts_of(y)
    return cast(Tensor, lower_expression(b, text, [parts.select(y.ndim, i) for i in (0, 1)]))


@operator("torch.stft")
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
    y = short_time_transform(b, input, window, options)
    if return_complex is False:
        return parts_of(y)
    return y


def _emit_istft(b: Builder, x: Tensor, window: Tensor | None, o: dict[str, Any]) -> Tensor:
    """Inverse of the short-time transform: overlapping frames added, divided by the envelope of their windows."""
    n_fft, hop = o["n_fft"], o["hop_length"]
    require_dims(x, 2)
    length = _check_window(window, n_fft, o["win_length"])
    if x.dtype.kind != "c":
        if x.shape[-1] != 2:
            raise ShapeError("istft needs a complex spectrum", actual=x.dtype)
        dense = b.contiguous(x)
        x = Tensor(dense.buffer, x.shape[:-1], complex_type(x.dtype), None, dense.offset)
    x = _as_wide(b, x, window)
    bins = n_fft // 2 + 1 if o["onesided"] else n_fft
    if x.ndim < 2 or x.shape[-2] != bins:
        raise ShapeError("istft: wrong number of frequencies", expected=bins, actual=x.shape)
    if hop < 1:
        raise ParameterError(f"hop_length must be positive, not {hop}", parameter="hop_length")
    as_complex = bool(o.get("return_complex"))
    # A real signal is determined by the first half of its spectrum; PyTorch ignores the other half.
    spectrum = _turned(x).narrow(x.ndim - 1, 0, n_fft if as_complex else n_fft // 2 + 1)
    total, start = n_fft + hop * (x.shape[-1] - 1), n_fft // 2 if o["center"] else 0
    end = start + o["length"] if o["length"] is not None else total - start
    factor = _scale(b, o["normalized"], window, n_fft, length)
    frames = _Frames(n_fft, hop, x.shape[-1], length, window, factor, start, end - start)
    overlap = 1 < frames.blocks <= MOST_BLOCKS  # rows of frames that lie apart would be zeros for the most part
    if not as_complex and overlap and x.size and total > start:
        return frames.emit(b, spectrum)
    plain = b.empty((*x.shape[:-2], x.shape[-1], n_fft), x.dtype if as_complex else real_type(x.dtype))
    emit_transform(b, spectrum, plain, n_fft, inverse=True, scale=1.0 / n_fft)
    return b.host(frames.add, [plain, *frames.given], [((*x.shape[:-2], end - start), plain.dtype)])[0]


MOST_BLOCKS = 32
"""Pieces of frames that are added up by an expression."""


class _Frames:
    """Frames of a signal, and which part of their sum is wanted."""

    def __init__(
        self, n: int, hop: int, count: int, length: int, window: Tensor | None, factor: Any, start: int, wanted: int
    ) -> None:
        self.n, self.hop, self.count, self.length, self.window, self.factor = n, hop, count, length, window, factor
        self.start, self.wanted, self.left, self.blocks = start, wanted, (n - length) // 2, -(-n // hop)
        self.given = [t for t in (window, factor) if isinstance(t, Tensor)]

    def whole(self, shape: Array | None) -> Array:
        """The window of a whole frame."""
        inner = np.ones(self.length) if shape is None else shape
        return np.pad(inner, (self.left, self.n - self.length - self.left))

    def envelope(self, *given: Array) -> Array:
        """Sum of the squares of the windows, times the factor."""
        values = iter(given)
        whole = self.whole(next(values) if self.window is not None else None)
        scale = next(values) if isinstance(self.factor, Tensor) else self.factor
        squares = np.broadcast_to(whole**2, (self.count, self.n))
        return np.asarray(overlap_add(squares, self.hop)[self.start :][: self.wanted] * scale)

    def add(self, a: Array, *given: Array) -> Array:
        """The signal, by numpy."""
        whole = self.whole(given[0] if self.window is not None else None)
        out = overlap_add(a * whole, self.hop)[..., self.start :][..., : self.wanted] / self.envelope(*given)
        return np.pad(out, [(0, 0)] * (out.ndim - 1) + [(0, self.wanted - out.shape[-1])])

    def emit(self, b: Builder, spectrum: Tensor) -> Tensor:
        """Emit the signal: an expression adds the pieces of frames, cut at the hops, that lie over each other."""
        dtype, lead, beside = real_type(spectrum.dtype), spectrum.shape[:-2], self.blocks - 1
        row, last = len(lead), len(lead) + 1
        room = b.empty((*lead, self.count + 2 * beside, self.blocks * self.hop), dtype)
        zero = b.constant(np.zeros((), dtype))
        lines = room.narrow(row, beside, self.count)
        around = [room.narrow(row, at, beside) for at in (0, beside + self.count)]
        for border in (*around, lines.narrow(last, self.n, room.shape[-1] - self.n)):
            if border.size:
                b.copy(zero.expand(border.shape), border)
        emit_transform(b, spectrum, lines.narrow(last, 0, self.n), self.n, inverse=True, scale=1.0 / self.n)
        shape = self._shape(b, dtype)
        hops = self.count + beside
        pieces = [room.narrow(row, beside - i, hops).narrow(last, i * self.hop, self.hop) for i in range(self.blocks)]
        if shape is None:
            text = reduce("add({},{})".format, (f"@{i}" for i in range(self.blocks)))
            total = intermediate(b, text, *pieces)
        else:
            pieces += [shape.narrow(0, i * self.hop, self.hop) for i in range(self.blocks)]
            text = reduce("add({},{})".format, (f"mul(@{i},@{i + self.blocks})" for i in range(self.blocks)))
            total = intermediate(b, text, *pieces)
        return self._divided(b, b.reshape(total, (*lead, hops * self.hop)))

    def _shape(self, b: Builder, dtype: DType) -> Tensor | None:
        """The window of a frame and zeros behind, None for one of ones."""
        size, window = self.blocks * self.hop, self.window
        if window is None and self.length == self.n:
            return None
        if window is None or window.is_constant:
            values = self.whole(None if window is None else window.numpy()).astype(dtype)
            return b.constant(np.pad(values, (0, size - self.n)))
        shape = b.empty((size,), dtype)
        b.copy(b.constant(np.zeros((), dtype)).expand((size,)), shape)
        b.copy(b.cast(window, dtype), shape.narrow(0, self.left, self.length))
        return shape

    def _divided(self, b: Builder, total: Tensor) -> Tensor:
        """The wanted part of a sum over the envelope; zeros behind its end."""
        last = total.ndim - 1
        count = min(self.wanted, self.n + self.hop * (self.count - 1) - self.start)
        if all(t.is_constant for t in self.given):
            envelope = b.constant(self.envelope(*(t.numpy() for t in self.given)).astype(total.dtype))
        else:
            envelope = b.host(self.envelope, self.given, [((count,), total.dtype)])[0]
        y = b.result((*total.shape[:-1], self.wanted), total.dtype)
        store(b, "div(@0,@1)", [total.narrow(last, self.start, count), envelope], y.narrow(last, 0, count))
        if count < self.wanted:
            rest = y.narrow(last, count, self.wanted - count)
            b.copy(b.constant(np.zeros((), y.dtype)).expand(rest.shape), rest)
        return y


def overlap_add(frames: Array, hop: int) -> Array:
    """Sum of frames (…, count, n), each ``hop`` places behind the one before."""
    count, n = frames.shape[-2:]
    blocks = -(-n // hop)
    shape = (*frames.shape[:-2], count + blocks - 1, hop)
    check_numbers(math.prod(shape))  # of which the caller may want a small part
    cut = np.pad(frames, [(0, 0)] * (frames.ndim - 1) + [(0, blocks * hop - n)])
    out = np.zeros(shape, frames.dtype)
    for i in range(blocks):
        out[..., i : i + count, :] += cut[..., i * hop : (i + 1) * hop]
    return out.reshape(*frames.shape[:-2], -1)[..., : n + hop * (count - 1)]


def _half(input: Tensor, n_fft: int) -> bool:
    """Whether a spectrum holds no frequencies above the middle one."""
    return input.ndim < 2 or input.shape[-2] != n_fft


@operator("torch.istft")
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
        "normalized": normalized, "onesided": _half(input, n_fft) if onesided is None else onesided,
        "length": length, "return_complex": return_complex,
    }  # fmt: skip
    return _emit_istft(b, input, window, options)


@operator("torchaudio.functional.spectrogram")
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
    return short_time_transform(b, waveform, window, options)


@operator("torchaudio.functional.inverse_spectrogram")
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
    return y.narrow(y.ndim - 1, pad, y.shape[-1] - 2 * pad) if pad and length is not None else y


# -- Sliding blocks ----------------------------------------------------------------------------------------------------


def _pairs(*values: Ints) -> list[tuple[int, int]]:
    for v in values:
        if not isinstance(v, int) and len(v) not in (1, 2):
            raise ParameterError(f"1 or 2 integers are needed, not {list(v)}")
    return [(v, v) if isinstance(v, int) else (v[0], v[-1]) for v in values]


def _positions(
    size: Sequence[int], k: Sequence[int], d: Sequence[int], p: Sequence[int], s: Sequence[int]
) -> list[int]:
    if min(*k, *d, *s) < 1 or min(p) < 0:
        raise ParameterError("kernel size, dilation and stride must be positive, padding not negative")
    require_reach(*(d[i] * (k[i] - 1) + 1 for i in (0, 1)), *d, *p, *s)
    counts = [(size[i] + 2 * p[i] - d[i] * (k[i] - 1) - 1) // s[i] + 1 for i in (0, 1)]
    if min(counts) < 1:
        raise ShapeError("the window does not fit into the input", expected=list(k), actual=list(size))
    return counts


FEW_TAPS = 16
"""Most places of a window that are copied one by one, which is faster where rows of blocks are long."""


@operator("nn.Unfold", "F.unfold")
def unfold(
    b: Builder, input: Tensor, *, kernel_size: Ints, dilation: Ints = 1, padding: Ints = 0, stride: Ints = 1
) -> Tensor:
    """Columns of sliding blocks. torch.nn.Unfold."""
    k, d, p, s = _pairs(kernel_size, dilation, padding, stride)
    require_dims(input, 3, 4)
    x = input if input.ndim == 4 else input.unsqueeze(0)
    n, c, h, w = x.shape
    oh, ow = _positions((h, w), k, d, p, s)
    if not c:
        raise ShapeError("the input has no channels", actual=list(input.shape))
    x = _padded(b, x, p)
    y = b.result((n, c, k[0], k[1], oh, ow), x.dtype)
    sn, sc, sh, sw = x.strides
    blocks = x.as_strided(y.shape, (sn, sc, d[0] * sh, d[1] * sw, s[0] * sh, s[1] * sw), 0)
    if k[0] * k[1] > FEW_TAPS:
        b.copy(blocks, y)
    else:
        for i, j in itertools.product(range(k[0]), range(k[1])):
            b.copy(blocks.select(2, i).select(2, j), y.select(2, i).select(2, j))
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
    require_dims(input, 2, 3)
    x = input if input.ndim == 3 else input.unsqueeze(0)
    oh, ow = _positions(size, k, d, p, s)
    n, rows, columns = x.shape
    if not rows or rows % (k[0] * k[1]) or columns != oh * ow:
        reason = f"fold: {columns} blocks of {rows} numbers do not fit; these sizes have {oh} x {ow} blocks"
        raise ShapeError(f"{reason}, of a multiple of {k[0] * k[1]} numbers")
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
