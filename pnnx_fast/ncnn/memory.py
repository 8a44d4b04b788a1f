"""Memory of a Mat: arrays laid out as ncnn lays them out, and what its methods take as arguments."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from pnnx_fast._types import Array, DType

__all__ = [
    "DTYPES",
    "cut",
    "dtype_for",
    "hollow",
    "is_buffer",
    "padded",
    "reinterpret",
    "shape_of",
    "split_args",
    "unpacked",
]

DTYPES: dict[int, Any] = {1: np.int8, 2: np.float16, 4: np.float32, 8: np.float64}
"""What elements of a size are read as when nobody says."""


def shape_of(sizes: Sequence[int]) -> tuple[int, ...]:
    """(…, h, w) of sizes in ncnn's order w, h, d, c.

    Examples
    --------
    >>> shape_of((5, 4, 3))
    (3, 4, 5)
    """
    if not 1 <= len(sizes) <= 4:
        raise RuntimeError(f"shape must be 1, 2, 3 or 4 dims, not {len(sizes)}")
    return tuple(max(int(v), 0) for v in reversed(sizes))


def padded(shape: Sequence[int], dtype: DType, n: int = 1, pack: int = 1) -> Array:
    """Array (n, …) whose channels begin at multiples of 16 bytes, as ncnn allocates them.

    Examples
    --------
    >>> x = padded((2, 3, 3), np.dtype(np.float32))
    >>> x.shape, x.strides[1]
    ((1, 2, 3, 3), 48)
    """
    full = (n, *shape, pack) if pack > 1 else (n, *shape)
    if len(shape) < 3:
        return np.zeros(full, dtype)
    plane = math.prod(full[2:])
    step = -(-plane * dtype.itemsize // 16) * 16 // dtype.itemsize
    if step == plane:
        return np.zeros(full, dtype)
    flat = np.zeros((n, shape[0], step), dtype)
    return flat[:, :, :plane].reshape(full) if plane == 0 else _unflatten(flat, full, plane)


def hollow(shape: Sequence[int], dtype: DType) -> Array:
    """Array of a shape whose values are all the same zero, so that it takes no memory.

    Examples
    --------
    >>> hollow((1, 1 << 20, 1 << 20), np.dtype(np.float32)).shape
    (1, 1048576, 1048576)
    """
    return np.broadcast_to(np.zeros((), dtype), shape)


def _unflatten(flat: Array, full: tuple[int, ...], plane: int) -> Array:
    strides = [flat.strides[0], flat.strides[1]]
    inner = plane
    for size in full[2:]:
        inner //= size
        strides.append(inner * flat.itemsize)
    return np.lib.stride_tricks.as_strided(flat, full, strides)


def dtype_for(elemsize: int, elempack: int) -> DType:
    """Type of elements of which ``elempack`` take ``elemsize`` bytes.

    Examples
    --------
    >>> dtype_for(16, 4)
    dtype('float32')
    """
    if elempack < 1 or elemsize < elempack:
        raise RuntimeError(f"{elempack} elements of {elemsize} bytes together")
    size = elemsize // elempack
    dtype: DType = np.dtype(DTYPES.get(size, f"V{size}"))
    return dtype


def is_buffer(source: Any) -> bool:
    """Whether an object gives access to its memory.

    Examples
    --------
    >>> is_buffer(b"abc"), is_buffer([1, 2])
    (True, False)
    """
    try:
        memoryview(source)
    except TypeError:
        return False
    return True


def reinterpret(array: Array, dtype: DType) -> Array:
    """View of the same memory with elements of another type of the same size.

    Raises
    ------
    RuntimeError
        When the sizes differ.

    Examples
    --------
    >>> reinterpret(np.float32([1]), np.dtype(np.int32)).tolist() == [0x3F800000]
    True
    """
    if dtype.itemsize != array.itemsize:
        raise RuntimeError(f"elements of {array.itemsize} bytes cannot be read as {dtype}")
    return array.view(dtype)


def split_args(args: Sequence[Any], kwargs: dict[str, Any], names: Sequence[str]) -> tuple[int | None, Any]:
    """Split ``[stride,] names… [, allocator]`` given by position or name."""
    values = list(args)
    if values and not isinstance(values[-1], (int, float, np.number)):
        values.pop()  # the allocator
    named = [kwargs[k] for k in names if k in kwargs]
    stride = kwargs.get("stride")
    if stride is None and len(values) + len(named) > len(names):
        stride = values.pop(0)
    values += named
    if len(values) != len(names) or None in values or not kwargs.keys() <= {*names, "stride", "allocator"}:
        raise TypeError(f"expected the arguments {', '.join(names)}")
    return stride, tuple(int(v) for v in values)


def unpacked(array: Array, pack: int) -> Array:
    """Packed elements (n, c / pack, …, pack) as (n, c, …); elements that are not packed as they are.

    Examples
    --------
    >>> unpacked(np.arange(6).reshape(1, 1, 3, 2), 2).tolist()
    [[[0, 2, 4], [1, 3, 5]]]
    """
    if pack == 1:
        return array
    moved = np.moveaxis(array, -1, 2)
    return moved.reshape(moved.shape[0], moved.shape[1] * moved.shape[2], *moved.shape[3:])


def cut(image: Array, roi: Sequence[int]) -> Array:
    """Region x, y, w, h of an image.

    Raises
    ------
    ValueError
        When it is empty or not inside of the image.

    Examples
    --------
    >>> cut(np.arange(12).reshape(3, 4), (1, 0, 2, 2)).tolist()
    [[1, 2], [5, 6]]
    """
    x, y, w, h = roi
    if x < 0 or y < 0 or w <= 0 or h <= 0 or x + w > image.shape[1] or y + h > image.shape[0]:
        raise ValueError(f"roi {x} {y} {w} {h} out of image {image.shape[1]} {image.shape[0]}")
    return image[y : y + h, x : x + w]
