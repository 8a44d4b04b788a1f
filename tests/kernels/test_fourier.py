"""Fourier transforms of lines against numpy: lengths, layouts, real and complex numbers, both directions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pnnx_fast._types import Array
from pnnx_fast.runtime.kernel import call, plan

LENGTHS = [1, 2, 3, 4, 5, 6, 7, 12, 16, 25, 30, 61, 64, 77, 100, 128, 210]
TOLERANCE = {"f4": 1e-6, "f8": 1e-14}
COMPLEX = {"f4": "c8", "f8": "c16"}


def spectrum(x: Array, n: int, inverse: bool) -> Array:
    """Along the last axis, not divided."""
    return np.asarray(np.fft.ifft(x, n, norm="forward") if inverse else np.fft.fft(x, n))


def transform(isa: str, kind: str, x: Array, y: Array, n: int, threads: int = 1, **fields: Any) -> None:
    """Call the kernel along the last axis of arrays of any strides, whose other axes are the lines."""
    size = np.dtype(kind).itemsize
    known: dict[str, Any] = {"window": None, "first": 0, "inverse": 0, "scale": 1.0} | fields
    for name, array in (("x", x), ("y", y)):
        steps = [s // size for s in array.strides]
        known |= {f"{name}_parts": array.itemsize // size, f"{name}s": steps[:-1], f"{name}sn": steps[-1]}
    known |= {"n": n, "given": x.shape[-1], "wanted": y.shape[-1], "rank": x.ndim - 1, "shape": x.shape[:-1]}
    kernel = f"fourier_f{8 * size}"
    variant, _, scratch, *_ = plan(isa, kernel, threads, x=x, y=y, roots=None, scratch=None, **known)
    assert variant == 1
    raw = np.zeros(scratch + 64, np.uint8)
    start = -raw.ctypes.data % 64
    roots = np.exp(-2j * np.pi / n * np.arange(n)).astype(COMPLEX[kind])
    call(isa, kernel, threads, x=x, y=y, roots=roots, scratch=raw[start : start + scratch], **known)


def numbers(kind: str, *shape: int) -> Array:
    rng = np.random.default_rng(len(shape) + shape[-1])
    parts = rng.standard_normal((2, *shape))
    return parts[0].astype(kind) if kind in COMPLEX else (parts[0] + 1j * parts[1]).astype(kind)


def compare(y: Array, want: Array, kind: str) -> None:
    np.testing.assert_allclose(y, want, 0, TOLERANCE[kind] * np.abs(want).max(initial=1e-30))


@pytest.mark.parametrize("inverse", [0, 1])
@pytest.mark.parametrize("kind", COMPLEX)
def test_complex(isa: str, kind: str, inverse: int) -> None:
    for i, n in enumerate(LENGTHS):
        x, y = numbers(COMPLEX[kind], 37, n), np.full((37, n), np.nan, COMPLEX[kind])
        transform(isa, kind, x, y, n, 1 + i % 2, inverse=inverse, scale=0.5)
        compare(y, spectrum(x, n, bool(inverse)) / 2, kind)


@pytest.mark.parametrize("lines", [1, 3, 16, 32, 45])
@pytest.mark.parametrize("kind", COMPLEX)
def test_real(isa: str, kind: str, lines: int) -> None:
    for i, n in enumerate(LENGTHS):
        x = numbers(kind, lines, n)
        for wanted in (n // 2 + 1, n):
            y = np.full((lines, wanted), np.nan, COMPLEX[kind])
            transform(isa, kind, x, y, n, 1 + i % 2, inverse=i % 2)
            compare(y, spectrum(x, n, i % 2 == 1)[:, :wanted], kind)


@pytest.mark.parametrize("lines", [1, 5, 16, 45])
@pytest.mark.parametrize("kind", COMPLEX)
def test_halves_of_hermitian_spectra(isa: str, kind: str, lines: int) -> None:
    for i, n in enumerate(LENGTHS):
        for given in {n // 2 + 1, max(1, n // 3)}:
            x, y = numbers(COMPLEX[kind], lines, given), np.full((lines, n), np.nan, kind)
            transform(isa, kind, x, y, n, 1 + i % 2, inverse=i % 2)
            compare(y, np.fft.irfft(x if i % 2 else x.conj(), n, norm="forward"), kind)


WAYS = ["half", "full", "real", "complex"]
"""Transforms by what they make of what: halves and full spectra of real lines, real lines of halves, complex lines."""


def lines_of(kind: str, way: str, n: int, lines: int) -> Array:
    given = n // 2 + 1 if way == "real" else n
    return numbers(kind if way in ("half", "full") else COMPLEX[kind], lines, given)


def transformed(isa: str, kind: str, way: str, x: Array, n: int, inverse: int = 0) -> Array:
    wanted, made = n // 2 + 1 if way == "half" else n, kind if way == "real" else COMPLEX[kind]
    y = np.full((len(x), wanted), np.nan, made)
    transform(isa, kind, x, y, n, 2, inverse=inverse)
    return y


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", COMPLEX)
def test_each_line_is_exact_to_its_own_size(isa: str, kind: str, way: str) -> None:
    range_of = 30 if kind == "f4" else 290
    sizes = 10.0 ** np.random.default_rng(0).uniform(-range_of, range_of, (45, 1))
    for i, n in enumerate((*LENGTHS, 225, 400, 1001, 1024)):
        x = lines_of(kind, way, n, 45)
        x = (x * sizes).astype(x.dtype)
        got, wide = transformed(isa, kind, way, x, n, i % 2), x.astype("c16")
        if way == "real":
            want = np.fft.irfft(wide if i % 2 else wide.conj(), n, norm="forward")
        else:
            want = spectrum(wide, n, i % 2 == 1)[:, : got.shape[1]]
        for line, wanted in zip(got, want, strict=True):
            compare(line, wanted, kind)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", COMPLEX)
def test_no_line_sees_another(isa: str, kind: str, way: str) -> None:
    for n in (*LENGTHS, 225, 400, 1024):
        x = lines_of(kind, way, n, 37)
        want = transformed(isa, kind, way, x, n)
        for kept in (np.arange(37) % 2 == 0, np.arange(37) % 5 < 2, np.arange(37) == 12):
            others = x.copy()
            for i, odd in enumerate((np.nan, np.inf, -np.inf, np.finfo(kind).max, np.finfo(kind).tiny, 1e20)):
                others[np.flatnonzero(~kept)[i::6], : 1 + i * n // 6] = odd
            got = transformed(isa, kind, way, others, n)
            np.testing.assert_array_equal(got[kept].view(kind), want[kept].view(kind))
            assert np.isnan(got[np.flatnonzero(~kept)[::6]]).any(-1).all()


@pytest.mark.parametrize("kind", COMPLEX)
def test_numbers_almost_as_large_and_as_small_as_there_are(isa: str, kind: str) -> None:
    largest, smallest = np.finfo(kind).max * 0.75, np.finfo(kind).smallest_subnormal
    for n in (2, 6, 7, 15, 16, 100):
        x = np.where(np.eye(n), largest, 0).astype(kind)
        compare(transformed(isa, kind, "full", x, n) / largest, spectrum(np.eye(n), n, False), kind)
        counts = np.random.default_rng(n).integers(-9, 9, (n, n))
        parts = transformed(isa, kind, "full", (counts * smallest).astype(kind), n).view(kind) / smallest
        assert np.abs(parts - spectrum(counts, n, False).view("f8")).max() <= 2 * n


@pytest.mark.parametrize("kind", COMPLEX)
def test_middle_places_of_spectra_of_real_lines_are_real(isa: str, kind: str) -> None:
    for n in LENGTHS:
        x = lines_of(kind, "half", n, 9)
        x[3, 0] = np.nan
        y = transformed(isa, kind, "half", x, n)
        middle = y[:, :: n // 2] if n % 2 == 0 else y[:, :1]
        np.testing.assert_array_equal(middle.imag, 0)
        assert not np.signbit(middle.imag).any()
        silent = transformed(isa, kind, "full", np.zeros((9, n), kind), n)
        assert not silent.any()
        assert not np.signbit(silent.real).any()


@pytest.mark.parametrize("kind", COMPLEX)
def test_any_layout(isa: str, kind: str) -> None:
    for shape in ((3, 5, 20), (2, 70, 12), (1, 16, 60)):
        for source in (kind, COMPLEX[kind]):
            for order in ((0, 1, 2), (0, 2, 1), (2, 0, 1), (1, 2, 0)):
                x = numbers(source, *shape).transpose(order)
                n = x.shape[-1]
                y = np.full(shape, np.nan, COMPLEX[kind]).transpose(order)
                transform(isa, kind, x, y, n, 2)
                compare(y, spectrum(x, n, False), kind)
                wide = np.full((*x.shape[:-1], 2 * n), np.nan, COMPLEX[kind])
                transform(isa, kind, x[:, :, ::2], wide[..., ::2][..., : n // 2], n)
                compare(wide[..., ::2][..., : n // 2], spectrum(x[:, :, ::2], n, False)[..., : n // 2], kind)
                assert np.isnan(wide[..., 1::2]).all()


@pytest.mark.parametrize("kind", COMPLEX)
def test_frames_under_a_window(isa: str, kind: str) -> None:
    signal, window = numbers(kind, 2, 400), numbers(kind, 24)
    for hop, n, first in ((5, 40, 8), (1, 24, 0), (16, 30, 3)):
        frames = np.lib.stride_tricks.sliding_window_view(signal, 24, axis=-1)[:, ::hop]
        y = np.full((2, n // 2 + 1, frames.shape[1]), np.nan, COMPLEX[kind])
        transform(isa, kind, frames, y.swapaxes(1, 2), n, 2, window=window, first=first)
        padded = np.pad(frames * window, [(0, 0), (0, 0), (first, n - 24 - first)])
        compare(y.swapaxes(1, 2), spectrum(padded, n, False)[..., : n // 2 + 1], kind)


@pytest.mark.parametrize("n", [122 // 2 * 67, (1 << 14) + 4, 0])
def test_what_is_not_for_the_kernel_is_said_by_the_plan(isa: str, n: int) -> None:
    dims = {"rank": 1, "shape": [64], "xs": [1], "ys": [1], "xsn": 1, "ysn": 1, "given": 1, "wanted": 1}
    options = {"x_parts": 2, "y_parts": 2, "first": 0, "inverse": 0, "scale": 1.0}
    memory = dict.fromkeys(("x", "y", "window", "roots", "scratch"))
    assert plan(isa, "fourier_f32", 2, n=n, **dims, **options, **memory)[:3:2] == (0, 0)
