"""Free functions on Mats: borders, resizing, packing, casts. Each is called with a target Mat, or returns a new one.

``f(src, dst, …)`` fills ``dst`` and returns None, ``f(src, …)`` returns the result.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from enum import IntEnum
from typing import Any

import numpy as np

from pnnx_fast._types import Array
from pnnx_fast.ir.floats import bfloat16_to_float32
from pnnx_fast.ncnn.layer import BuiltinLayer, create_layer
from pnnx_fast.ncnn.mat import Mat
from pnnx_fast.ncnn.memory import padded
from pnnx_fast.ncnn.option import Option
from pnnx_fast.ncnn.reader import ModelBinFromMatArray, ParamDict

__all__ = [
    "BorderType",
    "cast_bfloat16_to_float32",
    "cast_float16_to_float32",
    "cast_float32_to_bfloat16",
    "cast_float32_to_float16",
    "cast_int8_to_float32",
    "convert_packing",
    "copy_cut_border",
    "copy_make_border",
    "copy_make_border_3d",
    "flatten",
    "quantize_to_int8",
    "resize_bicubic",
    "resize_bilinear",
    "resize_nearest",
]


class BorderType(IntEnum):
    """How borders are filled."""

    BORDER_CONSTANT = 0
    BORDER_REPLICATE = 1


_MODES: dict[int, Any] = {BorderType.BORDER_REPLICATE: "edge", 2: "reflect"}


def _into_target(function: Callable[..., Mat]) -> Callable[..., Mat | None]:
    """Accept a target Mat as the second argument."""
    # The scales of a quantisation are a Mat too, so a target is one Mat more than the function takes.
    others = [name for name, kind in function.__annotations__.items() if kind == "Mat"][1:-1]

    @functools.wraps(function)
    def either(src: Mat, *args: Any, **kwargs: Any) -> Mat | None:
        target = kwargs.pop("dst", None)
        wanted = sum(name not in kwargs for name in others)
        if target is None and sum(isinstance(a, Mat) for a in args) > wanted:
            target, *args = args  # type: ignore[assignment]
        result = function(src, *args, **kwargs)
        if target is None:
            return result
        target._share(result)
        return None

    return either


def _array(mat: Mat) -> Array:
    """Memory of a Mat without packing: (n, …)."""
    if mat._a is None:
        raise ValueError("the Mat is empty")
    return _unpacked(mat._a) if mat._pack > 1 else mat._a


def _unpacked(array: Array) -> Array:
    """Packed elements (n, c / pack, …, pack) as (n, c, …)."""
    moved = np.moveaxis(array, -1, 2)
    return moved.reshape(moved.shape[0], moved.shape[1] * moved.shape[2], *moved.shape[3:])


def _made(values: Array) -> Mat:
    """A Mat over a copy whose channels are aligned."""
    memory = padded(values.shape[1:], values.dtype, values.shape[0])
    memory[...] = values
    return Mat._of(memory)


# -- borders -----------------------------------------------------------------------------------------------------------


def _bordered(x: Array, pads: Sequence[tuple[int, int]], type: int, v: float) -> Mat:
    """Borders of the last dimensions, slowest first."""
    if min(min(pair) for pair in pads) < 0:
        raise ValueError(f"borders must not be negative: {tuple(pads)}")
    pads = pads[len(pads) - min(len(pads), x.ndim - 1) :]
    first = x.ndim - len(pads)
    if type == BorderType.BORDER_CONSTANT:
        shape = (*x.shape[:first], *(n + a + b for n, (a, b) in zip(x.shape[first:], pads, strict=True)))
        out = padded(shape[1:], x.dtype, shape[0])
        out[...] = v
        inner: Any = tuple(slice(a, a + n) for n, (a, _) in zip(x.shape[first:], pads, strict=True))
        out[(..., *inner)] = x
        return Mat._of(out)
    if type not in _MODES:
        raise ValueError(f"border type {type} is not known")
    for axis, pair in enumerate(pads, first):
        if any(pair):
            x = np.take(x, np.pad(np.arange(x.shape[axis]), pair, mode=_MODES[type]), axis)
    return _made(x)


@_into_target
def copy_make_border(
    src: Mat, top: int, bottom: int, left: int, right: int, type: int, v: float = 0.0, opt: Option | None = None
) -> Mat:
    """Rows and columns round each channel: ``v`` (type 0), copies of the outermost ones (1) or mirrored ones (2)."""
    return _bordered(_array(src), [(top, bottom), (left, right)], int(type), v)


@_into_target
def copy_make_border_3d(
    src: Mat,
    top: int,
    bottom: int,
    left: int,
    right: int,
    front: int,
    behind: int,
    type: int,
    v: float = 0.0,
    opt: Option | None = None,
) -> Mat:
    """Like copy_make_border, with planes before and behind too: depths, or channels of three dimensions."""
    return _bordered(_array(src), [(front, behind), (top, bottom), (left, right)], int(type), v)


@_into_target
def copy_cut_border(src: Mat, top: int, bottom: int, left: int, right: int, opt: Option | None = None) -> Mat:
    """Cut rows and columns off the borders."""
    x = _array(src)
    pads = [(top, bottom), (left, right)][-min(2, x.ndim - 1) :]
    sizes = x.shape[x.ndim - len(pads) :]
    if any(a < 0 or b < 0 or a + b >= n for n, (a, b) in zip(sizes, pads, strict=True)):
        raise ValueError(f"nothing is left of {src.w} x {src.h} without borders {top}, {bottom}, {left}, {right}")
    inner: Any = tuple(slice(a, n - b) for n, (a, b) in zip(sizes, pads, strict=True))
    return _made(x[(..., *inner)])


# -- layers as functions -----------------------------------------------------------------------------------------------


@functools.lru_cache(32)
def _layer(type: str, params: tuple[tuple[int, int], ...]) -> BuiltinLayer:
    layer = create_layer(type)
    assert isinstance(layer, BuiltinLayer)
    pd = ParamDict()
    for id, value in params:
        pd.set(id, value)
    layer.load_param(pd)
    layer.load_model(ModelBinFromMatArray([]))
    return layer


def _resize(src: Mat, mode: int, w: int, h: int, opt: Option | None) -> Mat:
    if w < 1 or h < 1:
        raise ValueError(f"cannot resize to {w} x {h}")
    top = Mat()
    _layer("Interp", ((0, mode), (3, int(h)), (4, int(w)))).forward(_made(_array(src)), top, opt or Option())
    return top


@_into_target
def resize_nearest(src: Mat, w: int, h: int, opt: Option | None = None) -> Mat:
    """Resize each channel by the nearest value."""
    return _resize(src, 1, w, h, opt)


@_into_target
def resize_bilinear(src: Mat, w: int, h: int, opt: Option | None = None) -> Mat:
    """Resize each channel linearly."""
    return _resize(src, 2, w, h, opt)


@_into_target
def resize_bicubic(src: Mat, w: int, h: int, opt: Option | None = None) -> Mat:
    """Resize each channel cubically."""
    return _resize(src, 3, w, h, opt)


# -- layout and types --------------------------------------------------------------------------------------------------


@_into_target
def flatten(src: Mat, opt: Option | None = None) -> Mat:
    """Return all values in one dimension."""
    x = _array(src)
    return _made(x.reshape(x.shape[0], -1))


@_into_target
def convert_packing(src: Mat, elempack: int, opt: Option | None = None) -> Mat:
    """Elements of ``elempack`` values of neighbouring channels (rows, columns); unpacked when they do not divide."""
    x = _array(src)
    if elempack < 1:
        raise ValueError(f"elempack must be positive, not {elempack}")
    if elempack == 1 or x.shape[1] % elempack:
        return _made(x)
    split = x.reshape(x.shape[0], x.shape[1] // elempack, elempack, *x.shape[2:])
    memory = padded((x.shape[1] // elempack, *x.shape[2:]), x.dtype, x.shape[0], elempack)
    memory[...] = np.moveaxis(split, 2, -1)
    return Mat._of(memory, elempack)


@_into_target
def cast_float32_to_float16(src: Mat, opt: Option | None = None) -> Mat:
    """Convert to half precision, 2 bytes a value."""
    with np.errstate(over="ignore"):
        return _made(_array(src).astype(np.float16))


@_into_target
def cast_float16_to_float32(src: Mat, opt: Option | None = None) -> Mat:
    """Convert half to single precision."""
    return _made(_array(src).view(np.float16).astype(np.float32))


@_into_target
def cast_float32_to_bfloat16(src: Mat, opt: Option | None = None) -> Mat:
    """The upper halves of the values, rounded to the nearest; numpy sees them as two bytes without a meaning.

    Halfway between two of them it is the larger one, as in ncnn, not the even one.
    """
    values = np.ascontiguousarray(_array(src), np.float32)
    bits = values.view(np.uint32)
    nearest = (bits + np.uint32(0x8000)) >> 16
    upper = np.where(np.isnan(values), bits >> 16 | 0x40, nearest).astype(np.uint16)
    return _made(upper.view(np.float16))


@_into_target
def cast_bfloat16_to_float32(src: Mat, opt: Option | None = None) -> Mat:
    """Convert bfloat16 (upper halves of floats) to single precision."""
    return _made(bfloat16_to_float32(np.ascontiguousarray(_array(src)).view(np.uint16)))


@_into_target
def cast_int8_to_float32(src: Mat, opt: Option | None = None) -> Mat:
    """Convert int8 to single precision."""
    return _made(_array(src).view(np.int8).astype(np.float32))


@_into_target
def quantize_to_int8(src: Mat, scale_data: Mat, opt: Option | None = None) -> Mat:
    """Values times a scale (one for all, or one a channel) as integers of -127 to 127, halves away from zero."""
    x, scales = _array(src), _array(scale_data).reshape(-1)
    if scales.size not in (1, x.shape[1]):
        raise ValueError(f"{scales.size} scales for {x.shape[1]} channels")
    values = x * scales.reshape(-1, *(1,) * (x.ndim - 2))
    return _made(np.clip(np.trunc(values + np.copysign(0.5, values)), -127, 127).astype(np.int8))
