"""Conversions to and from 16-bit float types as converters do them.

Used by attributes and writers of fp16 files. Pure functions on arrays; nothing here knows attributes or files.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = ["bfloat16_to_float32", "float32_to_bfloat16", "float32_to_float16"]

Float32: TypeAlias = "npt.NDArray[np.float32]"
Bits16: TypeAlias = "npt.NDArray[np.uint16]"


def float32_to_float16(values: npt.ArrayLike, mode: str = "round") -> npt.NDArray[np.float16]:
    """Convert to float16.

    Parameters
    ----------
    values : array_like of float32
    mode : {"round", "truncate"}
        ``"round"`` is IEEE round to nearest even. ``"truncate"`` gives the bits that PNNX and ncnn write: the
        mantissa is cut, results below the normal range become zero, every NaN becomes the same quiet NaN.

    Returns
    -------
    ndarray of float16, same shape
    """
    x = np.asarray(values, np.float32)
    if mode == "round":
        with np.errstate(over="ignore", invalid="ignore"):
            return x.astype(np.float16)
    if mode != "truncate":
        raise ValueError(f"mode {mode!r}, expected 'round' or 'truncate'")
    bits = x.view(np.uint32)
    sign = bits >> 16 & 0x8000
    exponent = (bits >> 23 & 0xFF).astype(np.int32) - 112
    mantissa = bits >> 13 & 0x3FF
    normal = (np.clip(exponent, 0, 31).astype(np.uint32) << 10) | mantissa
    half = np.where(exponent <= 0, np.uint32(0), np.where(exponent >= 31, np.uint32(0x7C00), normal))
    half = np.where(np.isnan(x), np.uint32(0x7E00), half)
    return (sign | half).astype(np.uint16).view(np.float16)


def float32_to_bfloat16(values: npt.ArrayLike) -> Bits16:
    """Bits of the nearest bfloat16 (ties to even) of each value; NaN stays a quiet NaN."""
    # Other conversions do without expressions, which take time to import.
    from pnnx_fast.expression.types import round_to_bfloat16

    x = np.asarray(values, np.float32)
    bits = round_to_bfloat16(x).view(np.uint32) >> 16
    return np.where(np.isnan(x), bits | 0x40, bits).astype(np.uint16)


def bfloat16_to_float32(bits: Bits16) -> Float32:
    """Widen the bits of bfloat16 values, exactly."""
    return (bits.astype(np.uint32) << 16).view(np.float32)
