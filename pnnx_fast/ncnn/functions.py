"""Free functions on Mats: borders, resizing, packing, casts. Each is called with a target Mat, or returns a new one.

``f(src, dst, …)`` fills ``dst`` and returns None, ``f(src, …)`` returns the result.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any, Concatenate, ParamSpec, Protocol, cast, overload

import numpy as np

from pnnx_fast._types import Array
from pnnx_fast.ir.floats import bfloat16_to_float32
from pnnx_fast.ncnn.layer import BuiltinLayer, create_layer
from pnnx_fast.ncnn.mat import Mat
from pnnx_fast.ncnn.memory import padded, reinterpret, unpacked
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


class BorderType(int, Enum):
    """How borders are filled: with a value, or with copies of the outermost values.

    Examples
    --------
    >>> copy_make_border(Mat(np.float32([1, 2])), 0, 0, 1, 1, BorderType.BORDER_REPLICATE).numpy()
    array([1., 1., 2., 2.], dtype=float32)
    """

    BORDER_CONSTANT = 0
    BORDER_REPLICATE = 1


_MODES: dict[int, Any] = {BorderType.BORDER_REPLICATE: "edge", 2: "reflect"}


P = ParamSpec("P")


class _EitherWay(Protocol[P]):
    """A function that returns a Mat, or fills the one that is given."""

    @overload
    def __call__(self, src: Mat, *args: P.args, **kwargs: P.kwargs) -> Mat: ...

    @overload
    def __call__(self, src: Mat, dst: Mat, *args: P.args, **kwargs: P.kwargs) -> None: ...

    @overload
    def __call__(self, src: Mat, *args: Any, dst: Mat, **kwargs: Any) -> None: ...


def _into_target(function: Callable[Concatenate[Mat, P], Mat]) -> _EitherWay[P]:
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

    return cast("_EitherWay[P]", either)


def _array(mat: Mat) -> Array:
    """Memory of a Mat without packing: (n, …)."""
    if mat._a is None:
        raise ValueError("the Mat is empty")
    return unpacked(mat._a, mat._pack)


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
    """Put rows and columns round each channel.

    Parameters
    ----------
    src : Mat
    top, bottom, left, right : int
        How many; a vector has no rows, so only columns are added.
    type : int
        0 fills with ``v``, 1 copies the outermost ones, 2 mirrors without repeating them.
    v : float
    opt : Option, optional
        Has no effect.

    Returns
    -------
    Mat or None
        None when a target Mat is the second argument.

    Raises
    ------
    ValueError
        When the Mat is empty, a border is negative, or there is no such type.

    Examples
    --------
    >>> copy_make_border(Mat(np.float32([[1, 2], [3, 4]])), 1, 0, 0, 1, 0, 9.0).numpy()
    array([[9., 9., 9.],
           [1., 2., 9.],
           [3., 4., 9.]], dtype=float32)
    """
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
    """Like copy_make_border, with planes before and behind too: depths, or channels of three dimensions.

    Parameters
    ----------
    front, behind : int
        How many planes; the others are those of `copy_make_border`.

    Examples
    --------
    >>> m = copy_make_border_3d(Mat(np.ones((2, 3, 4), np.float32)), 0, 0, 0, 0, 1, 2, 0)
    >>> m.numpy().sum(axis=(1, 2)).tolist()
    [0.0, 12.0, 12.0, 0.0, 0.0]
    """
    return _bordered(_array(src), [(front, behind), (top, bottom), (left, right)], int(type), v)


@_into_target
def copy_cut_border(src: Mat, top: int, bottom: int, left: int, right: int, opt: Option | None = None) -> Mat:
    """Cut rows and columns off the borders of each channel.

    Parameters
    ----------
    src : Mat
    top, bottom, left, right : int
        How many.
    opt : Option, optional
        Has no effect.

    Raises
    ------
    ValueError
        When nothing is left, or a border is negative.

    Examples
    --------
    >>> copy_cut_border(Mat(np.float32([[1, 2, 3], [4, 5, 6]])), 1, 0, 0, 1).numpy()
    array([[4., 5.]], dtype=float32)
    """
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
    """Resize each channel by the nearest value.

    Parameters
    ----------
    src : Mat
    w, h : int
        New sizes. Of a matrix only the rows are resized, and each value of a vector becomes a channel, as in ncnn.
    opt : Option, optional
        Its number of threads is used.

    Raises
    ------
    ValueError
        When the Mat is empty or a size is below 1.
    ShapeError
        When the Mat has four dimensions.

    Examples
    --------
    >>> target = Mat()
    >>> resize_nearest(Mat(np.float32([[[1, 2]]])), target, 4, 2)
    >>> target.numpy().tolist()
    [[[1.0, 1.0, 2.0, 2.0], [1.0, 1.0, 2.0, 2.0]]]
    """
    return _resize(src, 1, w, h, opt)


@_into_target
def resize_bilinear(src: Mat, w: int, h: int, opt: Option | None = None) -> Mat:
    """Resize each channel linearly; parameters and errors are those of `resize_nearest`.

    Examples
    --------
    >>> resize_bilinear(Mat(np.float32([[[1, 2]]])), 4, 1).numpy()
    array([[[1.  , 1.25, 1.75, 2.  ]]], dtype=float32)
    """
    return _resize(src, 2, w, h, opt)


@_into_target
def resize_bicubic(src: Mat, w: int, h: int, opt: Option | None = None) -> Mat:
    """Resize each channel cubically; parameters and errors are those of `resize_nearest`.

    Examples
    --------
    >>> resize_bicubic(Mat(np.float32([[[1, 2]]])), 4, 1).numpy().round(3)
    array([[[0.895, 1.227, 1.773, 2.105]]], dtype=float32)
    """
    return _resize(src, 3, w, h, opt)


# -- layout and types --------------------------------------------------------------------------------------------------


@_into_target
def flatten(src: Mat, opt: Option | None = None) -> Mat:
    """Return all values in one dimension.

    Examples
    --------
    >>> flatten(Mat(np.float32([[1, 2], [3, 4]]))).numpy()
    array([1., 2., 3., 4.], dtype=float32)
    """
    x = _array(src)
    return _made(x.reshape(x.shape[0], -1))


@_into_target
def convert_packing(src: Mat, elempack: int, opt: Option | None = None) -> Mat:
    """Pack values of neighbouring channels (rows, columns) into elements, or unpack them.

    Parameters
    ----------
    src : Mat
    elempack : int
        Values an element, 1 to unpack; a Mat whose first dimension it does not divide becomes unpacked.
    opt : Option, optional
        Has no effect.

    Raises
    ------
    ValueError
        When the Mat is empty or ``elempack`` is below 1.

    Examples
    --------
    >>> packed = convert_packing(Mat(np.arange(8, dtype=np.float32)), 4)
    >>> packed.w, packed.elempack, packed.elemsize
    (2, 4, 16)
    >>> convert_packing(packed, 1).w
    8
    """
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
    """Convert to half precision, 2 bytes a value.

    Examples
    --------
    >>> cast_float32_to_float16(Mat(np.float32([0.1, 1e6]))).numpy()
    array([0.1, inf], dtype=float16)
    """
    with np.errstate(over="ignore"):
        return _made(_array(src).astype(np.float16))


@_into_target
def cast_float16_to_float32(src: Mat, opt: Option | None = None) -> Mat:
    """Convert half to single precision.

    Examples
    --------
    >>> cast_float16_to_float32(Mat(np.float16([0.5, 2]))).numpy()
    array([0.5, 2. ], dtype=float32)
    """
    return _made(reinterpret(_array(src), np.dtype(np.float16)).astype(np.float32))


@_into_target
def cast_float32_to_bfloat16(src: Mat, opt: Option | None = None) -> Mat:
    """Keep the upper halves of the values, rounded to the nearest; numpy sees them as two bytes without a meaning.

    Halfway between two of them it is the larger one, as in ncnn, not the even one.

    Examples
    --------
    >>> half = cast_float32_to_bfloat16(Mat(np.float32([1, 3.14159])))
    >>> half.elemsize, cast_bfloat16_to_float32(half).numpy().tolist()
    (2, [1.0, 3.140625])
    """
    values = np.ascontiguousarray(_array(src), np.float32)
    bits = values.view(np.uint32)
    nearest = (bits + np.uint32(0x8000)) >> 16
    upper = np.where(np.isnan(values), bits >> 16 | 0x40, nearest).astype(np.uint16)
    return _made(upper.view(np.float16))


@_into_target
def cast_bfloat16_to_float32(src: Mat, opt: Option | None = None) -> Mat:
    """Convert bfloat16 (upper halves of floats) to single precision.

    Examples
    --------
    >>> cast_bfloat16_to_float32(Mat(np.uint16([0x3F80, 0xC000]))).numpy()
    array([ 1., -2.], dtype=float32)
    """
    return _made(bfloat16_to_float32(np.ascontiguousarray(reinterpret(_array(src), np.dtype(np.uint16)))))


@_into_target
def cast_int8_to_float32(src: Mat, opt: Option | None = None) -> Mat:
    """Convert int8 to single precision.

    Examples
    --------
    >>> cast_int8_to_float32(Mat(np.int8([-128, 7]))).numpy()
    array([-128.,    7.], dtype=float32)
    """
    return _made(reinterpret(_array(src), np.dtype(np.int8)).astype(np.float32))


@_into_target
def quantize_to_int8(src: Mat, scale_data: Mat, opt: Option | None = None) -> Mat:
    """Multiply by scales and round to integers of -127 to 127, halves away from zero.

    Parameters
    ----------
    src : Mat
    scale_data : Mat
        One scale for all, or one a channel (of a matrix, one a row; of a vector, one a value).
    opt : Option, optional
        Has no effect.

    Returns
    -------
    Mat or None
        int8; None when a target Mat is the second argument.

    Raises
    ------
    ValueError
        When a Mat is empty or there is another number of scales.

    Examples
    --------
    >>> quantize_to_int8(Mat(np.float32([-9, 0.25, 1])), Mat(np.float32([50]))).numpy()
    array([-127,   13,   50], dtype=int8)
    """
    x, scales = _array(src), _array(scale_data).reshape(-1)
    if scales.size not in (1, x.shape[1]):
        raise ValueError(f"{scales.size} scales for {x.shape[1]} channels")
    values = x * scales.reshape(-1, *(1,) * (x.ndim - 2))
    return _made(np.clip(np.trunc(values + np.copysign(0.5, values)), -127, 127).astype(np.int8))
