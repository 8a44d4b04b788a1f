"""Layers that resample space: interpolation, borders, sampling at given positions."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from pnnx_fast._types import Array
from pnnx_fast.errors import ParameterError, ShapeError
from pnnx_fast.ir import Operand
from pnnx_fast.ncnn import shape_expression
from pnnx_fast.ncnn.layers.int8 import as_int8
from pnnx_fast.ncnn.layers.registry import Build, layer
from pnnx_fast.ncnn.layers.shape import sizes_of
from pnnx_fast.ncnn.tracer import Tracer, dims_of, shape_of
from pnnx_fast.ncnn.values import Params, Weights

NEAREST, BILINEAR, BICUBIC = 1, 2, 3
_MODES = {NEAREST: "nearest", BILINEAR: "bilinear", BICUBIC: "bicubic"}


class _Axis(NamedTuple):
    """Sizes of one dimension before and after, and output pixels an input pixel, by which positions are found."""

    before: int
    after: int
    factor: float

    @property
    def exact(self) -> bool:
        """Whether the factor is that of the sizes."""
        return abs(self.factor * self.before - self.after) < 1e-6 * self.after


class _Interp:
    """One resize: to a size, by a scale, to the size of a second blob or to an expression."""

    def __init__(self, p: Params) -> None:
        self.mode, self.scale_h, self.scale_w = p.choice(0, 0, 4), p.float(1, 1.0), p.float(2, 1.0)
        self.height, self.width, by_blob, self.corners = p.int(3), p.int(4), p.flag(5), p.flag(6)
        self.text = p.string(9)
        needed = max(1, shape_expression.blob_count(self.text)) if self.text else 1 + by_blob
        # An expression may tell the size from the first blob alone, whatever is announced.
        p.blobs = None if by_blob and needed == 1 else needed

    def __call__(self, t: Tracer, *inputs: Operand) -> Operand:
        x = t.together(*inputs)[0]
        size = sizes_of(x)
        if dims_of(x) == 1:
            size["w"] = 1
        oh, ow = self._target(inputs, size)
        if dims_of(x) == 2:
            oh = 1  # whatever the height is told to be
        if min(oh, ow) < 1:
            raise ShapeError("the size to resize to", actual=(oh, ow))
        if dims_of(x) == 1:
            n, c = shape_of(x)
            return t.emit("Tensor.expand", t.reshape(x, (n, c, 1, 1)), sizes=[n, c, oh, ow])
        by_size = len(inputs) > 1 or bool(self.text)
        across = _Axis(size["w"], ow, ow / size["w"] if self.width or by_size else self.scale_w)
        down = _Axis(size["h"], oh, oh / size["h"] if self.height or by_size else self.scale_h)
        if dims_of(x) == 2:
            down = _Axis(1, 1, 1.0)
        if self._changes_nothing(down, across):
            return x
        if dims_of(x) > 3:
            raise ShapeError("number of dimensions", expected="1 to 3", actual=dims_of(x))
        n, c = shape_of(x)[:2]
        y = self._resized(t, t.reshape(x, (n, c, down.before, across.before)), down, across)
        return t.reshape(y, (n, c, ow)) if dims_of(x) == 2 else y

    def _target(self, inputs: tuple[Operand, ...], size: dict[str, int]) -> tuple[int, int]:
        """Height and width of the output."""
        if self.text:
            sizes = shape_expression.evaluate(self.text, [sizes_of(v) for v in inputs])
            result = (size["h"] if len(sizes) == 1 else sizes[1], sizes[0])
        elif len(inputs) > 1:
            other = sizes_of(inputs[1])
            result = other["h"], other["w"]
        elif self.height and self.width:
            result = self.height, self.width
        else:
            # ncnn multiplies and truncates in float32.
            h, w = np.float32(size["h"]), np.float32(size["w"])
            result = int(h * np.float32(self.scale_h)), int(w * np.float32(self.scale_w))
        return result

    def _changes_nothing(self, *axes: _Axis) -> bool:
        """Whether the output is the input: the sizes stay, and the positions, too, which a bicubic scale may move."""
        stay = self.mode != BICUBIC or self.corners or all(axis.exact for axis in axes)
        return stay and all(axis.before == axis.after for axis in axes)

    def _resized(self, t: Tracer, x: Operand, *axes: _Axis) -> Operand:
        if self.mode not in _MODES:
            raise ParameterError("resize type 0 cannot resize")
        settings: dict[str, Any] = {"mode": _MODES[self.mode]}
        if self.mode != NEAREST:
            settings["align_corners"] = self.corners
        if all(axis.exact for axis in axes) or settings.get("align_corners"):
            return t.emit("F.interpolate", x, size=[axis.after for axis in axes], **settings)
        # A factor that was rounded to float32 must not lose the last pixel in the product of doubles.
        scales = [axis.after / axis.before if axis.exact else axis.factor for axis in axes]
        return t.emit("F.interpolate", x, scale_factor=scales, recompute_scale_factor=False, **settings)


@layer("Interp")
def interp(p: Params, w: Weights) -> Build:
    """Resize to a size, by a scale, to the size of a second blob or to an expression."""
    return _Interp(p)


_BORDERS = {0: "constant", 1: "replicate", 2: "reflect"}


def _as_held(values: Any, x: Operand) -> Array:
    """Numbers of floating point as those that a blob holds."""
    if x.dtype == "i8":
        return as_int8(values)
    return np.asarray(values).astype(np.int32 if x.dtype == "i32" else np.float32)


@layer("Padding")
def padding(p: Params, w: Weights) -> Build:
    """Constant, replicated or reflected borders of rows, columns and channels or depths."""
    top, bottom, left, right = (p.int(id) for id in range(4))
    mode, value, count = p.choice(4, 0, 3), p.float(5), p.count(6, 0, 0)
    front, behind = p.int(7), p.int(8)
    values = w.load(count, type=1) if count else None

    def build(t: Tracer, x: Operand) -> Operand:
        if min(top, bottom, left, right, front, behind) < 0:
            # ncnn writes beside the blob then: what comes out is a crop, something else or a crash.
            raise ShapeError("borders must not be negative", actual=(top, bottom, left, right, front, behind))
        rank = dims_of(x)
        sides = [left, right, top, bottom, front, behind][: 2 * min(rank, 3)]
        if not any(sides):
            return x
        if mode == 0:
            own = values is not None and rank > 2  # vectors and matrices have no channels
            inside = 0.0 if own else _as_held(value, x).item()
            y = t.emit("F.pad", x, pad=sides, mode="constant", value=inside)
            return _add_borders(t, y, sides) if own else y
        shape = shape_of(x)
        # These modes take a batch and channels, of which vectors, matrices and padded channels need one more.
        lifted = t.reshape(x, (shape[0], 1, *shape[1:])) if rank < 3 or (rank == 3 and any(sides[4:])) else x
        used = sides if len(shape_of(lifted)) == 2 + len(sides) // 2 else sides[:4]
        y = t.emit("F.pad", lifted, pad=used, mode=_BORDERS[mode])
        padded = shape_of(y)
        return t.reshape(y, (padded[0], *padded[-rank:]))

    def _add_borders(t: Tracer, y: Operand, sides: list[int]) -> Operand:
        """A constant of its own for every channel, added where the border is."""
        assert values is not None
        shape = shape_of(y)
        border = np.ones((1, *shape[1:]), np.float32)
        inner = [slice(None)] * (len(shape) - len(sides) // 2)
        inner += [
            slice(a, size - b) for size, a, b in zip(shape[len(inner) :], sides[-2::-2], sides[::-2], strict=True)
        ]
        border[tuple(inner)] = 0.0
        channels = _as_held(values.numpy(), y).reshape(1, -1, *(1,) * (len(shape) - 2))
        if channels.shape[1] != shape[1]:
            raise ShapeError("border values a channel", expected=shape[1], actual=channels.shape[1])
        return t.expression("add(@0,@1)", y, t.array(border.astype(channels.dtype) * channels))

    return build


_SAMPLE_MODES = ("bilinear", "nearest", "bicubic")
_SAMPLE_BORDERS = ("zeros", "border", "reflection")


@layer("GridSample", one_blob_only=False)
def grid_sample(p: Params, w: Weights) -> Build:
    """Values at positions that the second blob gives."""
    mode, border = p.choice(0, 1, 4), p.choice(1, 1, 4)
    corners, permuted = p.flag(2), p.flag(3)
    p.blobs = 2
    if not mode or not border:
        raise ParameterError(f"sample type {mode} and padding mode {border} must be 1 to 3")

    def build(t: Tracer, *inputs: Operand) -> Operand:
        x, grid = t.together(*inputs)
        rank = dims_of(x)
        # The positions stand in the last dimension, or in the first when a permutation was left out.
        if permuted:
            grid = t.permute(grid, [0, *range(2, rank + 1), 1])
        return t.emit(
            "F.grid_sample",
            x,
            grid,
            names=["input", "grid"],
            mode=_SAMPLE_MODES[mode - 1],
            padding_mode=_SAMPLE_BORDERS[border - 1],
            align_corners=corners,
        )

    return build
