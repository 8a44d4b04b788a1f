"""Images and float planes: what ``Mat.from_pixels`` and ``Mat.to_pixels`` do, with ncnn's integer arithmetic.

Works on arrays (height, width, channels) of uint8 and (channels, height, width) of float32; knows no Mat.
"""

from __future__ import annotations

from enum import Enum
from typing import Any

import numpy as np

from pnnx_fast._memory import check_memory
from pnnx_fast._types import Array
from pnnx_fast.errors import ParameterError, ShapeError

__all__ = ["PixelType", "planes", "resize_bytes", "to_bytes", "view_bytes"]

_SHIFT, _MASK = 16, 0xFFFF
_FORMATS = {"RGB": 1, "BGR": 2, "GRAY": 3, "RGBA": 4, "BGRA": 5}
_CHANNELS = {1: "RGB", 2: "BGR", 3: "Y", 4: "RGBA", 5: "BGRA"}
_OPAQUE = 255


def _members() -> dict[str, int]:
    members = {"PIXEL_CONVERT_SHIFT": _SHIFT, "PIXEL_FORMAT_MASK": _MASK, "PIXEL_CONVERT_MASK": _MASK << _SHIFT}
    members |= {f"PIXEL_{name}": code for name, code in _FORMATS.items()}
    for source, a in _FORMATS.items():
        members |= {f"PIXEL_{source}2{target}": a | b << _SHIFT for target, b in _FORMATS.items() if target != source}
    return members


# No IntEnum, whose members are shown as numbers.
PixelType = Enum("PixelType", _members(), type=int)  # type: ignore[misc]
"""Pixel formats, and conversions from one to another."""


def _formats(type: int) -> tuple[str, str]:
    """Channels in memory and channels wanted."""
    source = int(type) & _MASK
    target = int(type) >> _SHIFT or source
    if source not in _CHANNELS or target not in _CHANNELS:
        raise ParameterError(f"unknown pixel type {int(type)}")
    return _CHANNELS[source], _CHANNELS[target]


def view_bytes(source: Any, type: int, w: int, h: int, stride: int | None = None) -> Array:
    """View (h, w, channels) of the bytes of an image.

    Parameters
    ----------
    source : array of single bytes, or bytes
    type : PixelType
        Its source format tells the number of channels.
    w, h : int
    stride : int, optional
        Bytes from row to row; by default those of ``w`` pixels.

    Returns
    -------
    array of uint8
        Read-only.

    Raises
    ------
    ShapeError
        When the buffer is smaller than the image.
    ParameterError
        When the image has no bytes but larger numbers, or there is no such type.

    Examples
    --------
    >>> view_bytes(b"abcdefgh", PixelType.PIXEL_RGB, 1, 2, stride=4).tolist()
    [[[97, 98, 99]], [[101, 102, 103]]]
    """
    channels = len(_formats(type)[0])
    step = w * channels if stride is None else stride
    pixels = np.ascontiguousarray(np.frombuffer(source, np.uint8) if isinstance(source, bytes) else source)
    if pixels.dtype.itemsize != 1:
        raise ParameterError(f"an image is an array of bytes, not of {pixels.dtype}")
    flat = pixels.reshape(-1).view(np.uint8)
    if min(w, h) < 1 or step < w * channels:
        raise ShapeError("an image of this size and stride", expected=f"stride >= {w * channels}", actual=(w, h, step))
    if flat.size < step * (h - 1) + w * channels:
        raise ShapeError("too few bytes for the image", expected=step * (h - 1) + w * channels, actual=flat.size)
    return np.lib.stride_tricks.as_strided(flat, (h, w, channels), (step, channels, 1), writeable=False)


def planes(image: Array, type: int) -> Array:
    """Float planes of an image in the format that the type converts to.

    Parameters
    ----------
    image : array of uint8, (h, w, channels)
    type : PixelType

    Returns
    -------
    array of float32, (channels, h, w)

    Raises
    ------
    ParameterError
        When there is no such type.

    Examples
    --------
    >>> image = np.uint8([[[255, 0, 0], [0, 255, 0]]])
    >>> planes(image, PixelType.PIXEL_RGB2GRAY)
    array([[[ 76., 149.]]], dtype=float32)
    """
    have, want = _formats(type)
    if want == have:
        return image.transpose(2, 0, 1).astype(np.float32)
    if want == "Y":
        r, g, b = (image[:, :, have.index(k)].astype(np.uint16) for k in "RGB")
        return ((77 * r + 150 * g + 29 * b) >> 8).astype(np.float32)[None]
    picked = np.empty((len(want), *image.shape[:2]), np.float32)
    for i, name in enumerate(want):
        if name == "A" and "A" not in have:
            picked[i] = _OPAQUE
        else:
            picked[i] = image[:, :, 0 if have == "Y" else have.index(name)]
    return picked


def to_bytes(source: Array, type: int) -> Array:
    """Image of float planes, cut to 0 … 255 and truncated.

    Parameters
    ----------
    source : array of float32, (channels, h, w)
    type : PixelType
        Formats of the planes and, behind the 2, of the image.

    Returns
    -------
    array of uint8, (h, w, channels)

    Raises
    ------
    ShapeError
        When there is another number of planes.
    ParameterError
        When there is no such type, or it makes grey of colours.

    Examples
    --------
    >>> to_bytes(np.float32([[[-5, 7.9, 300]]]), PixelType.PIXEL_GRAY).tolist()
    [[[0], [7], [255]]]
    """
    have, want = _formats(type)
    if len(source) != len(have):
        raise ShapeError("planes of this pixel type", expected=len(have), actual=len(source))
    if want == "Y" and have != "Y":
        raise ParameterError("to_pixels does not convert colours to grey", parameter="type")
    with np.errstate(invalid="ignore"):
        cut = np.clip(np.nan_to_num(source, nan=0.0), 0, 255).astype(np.uint8)
    image = np.empty((*source.shape[1:], len(want)), np.uint8)
    for i, name in enumerate(want):
        if name == "A" and "A" not in have:
            image[:, :, i] = _OPAQUE
        else:
            image[:, :, i] = cut[0 if have == "Y" else have.index(name)]
    return image


def _taps(source: int, target: int) -> tuple[Array, Array, Array, Array]:
    """Both source indexes of every target pixel and their weights in units of 1/2048."""
    scale = source / target
    position = ((np.arange(target) + 0.5) * scale - 0.5).astype(np.float32)
    first = np.floor(position).astype(np.int64)
    part = position - first.astype(np.float32)
    low, high = first < 0, first >= source - 1
    part[low], part[high] = 0.0, 1.0
    first[low], first[high] = 0, source - 2
    first = np.maximum(first, 0)
    second = np.minimum(first + 1, source - 1)
    weights = [((v * np.float32(2048)) + np.float32(0.5)).astype(np.int32) for v in (np.float32(1) - part, part)]
    return first, second, weights[0], weights[1]


def resize_bytes(image: Array, w: int, h: int) -> Array:
    """Resize an image bilinearly, rounding as ncnn's fixed-point code does.

    Parameters
    ----------
    image : array of uint8, (height, width, channels)
    w, h : int
        New sizes.

    Returns
    -------
    array of uint8, (h, w, channels)

    Raises
    ------
    ShapeError
        When a size is below 1.
    LimitError
        When it would take more memory than the limit (``PNNX_FAST_MEMORY_LIMIT``).

    Examples
    --------
    >>> resize_bytes(np.uint8([[[0], [100]]]), 4, 1).tolist()
    [[[0], [25], [75], [100]]]
    """
    if min(w, h) < 1:
        raise ShapeError("the target size must be positive", actual=(w, h))
    check_memory(w * (h + image.shape[0]) * image.shape[2] * 3 * np.dtype(np.int32).itemsize, "a resized image")
    x0, x1, a0, a1 = _taps(image.shape[1], w)
    y0, y1, b0, b1 = _taps(image.shape[0], h)
    flat = np.ascontiguousarray(image).reshape(image.shape[0], -1)
    rows = _scaled(flat, image.shape[2], x0, a0)
    rows += _scaled(flat, image.shape[2], x1, a1)
    rows >>= 4
    mixed = rows.take(y0, axis=0)
    mixed *= b0[:, None]
    mixed >>= 16
    below = rows.take(y1, axis=0)
    below *= b1[:, None]
    below >>= 16
    mixed += below
    mixed += 2
    mixed >>= 2
    return np.clip(mixed, 0, 255, out=mixed).astype(np.uint8).reshape(h, w, -1)


def _scaled(rows: Array, channels: int, pixels: Array, weights: Array) -> Array:
    """Pixels of rows (h, w * channels), each times its weight; single bytes are gathered faster than pixels."""
    taken: Array = rows.take(np.add.outer(pixels * channels, np.arange(channels)).reshape(-1), axis=1).astype(np.int32)
    taken *= np.repeat(weights, channels)
    return taken
