"""Pooling in one, two and three dimensions, global and adaptive, and poolings built of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from pnnx_fast._types import Array
from pnnx_fast.errors import ParameterError, ShapeError
from pnnx_fast.ir import Operand
from pnnx_fast.ncnn.layers.convolution import halves, pad
from pnnx_fast.ncnn.layers.registry import Build, layer
from pnnx_fast.ncnn.tracer import Tracer, dims_of, shape_of
from pnnx_fast.ncnn.values import Params, Weights
from pnnx_fast.ops._window import same_padding

FULL, VALID, SAME_UPPER, SAME_LOWER = range(4)
MAXIMUM, AVERAGE = 0, 1
LOWEST = float(np.finfo(np.float32).min)

# Parameter numbers of an axis, fastest axis (width) first.
_KERNEL, _STRIDE, _BEFORE, _AFTER, _OUTPUT = (1, 11, 21), (2, 12, 22), (3, 13, 23), (14, 15, 16), (8, 18, 28)


class _Sides(NamedTuple):
    """Values around the input by axis: before, after, and behind that what full padding adds to cover every value."""

    before: list[int]
    after: list[int]
    tail: list[int]

    @property
    def behind(self) -> list[int]:
        """All values after the input."""
        return [a + z for a, z in zip(self.after, self.tail, strict=True)]


class _Pooling:
    """One pooling layer; everything is by axis, slowest first."""

    def __init__(self, p: Params, rank: int) -> None:
        self.rank, self.kind = rank, p.choice(0, MAXIMUM, 2)
        self.everything, self.adaptive = p.flag(4), p.flag(7)
        self.mode, self.include = p.choice(5, FULL, 4), p.flag(6)
        self.kernel, self.stride = list(p.axes(_KERNEL[:rank])), list(p.axes(_STRIDE[:rank], 1))
        self.before = list(p.axes(_BEFORE[:rank]))
        self.after = list(p.axes(_AFTER[:rank], self.before))
        self.output = p.axes(_OUTPUT[:rank])
        if not self.everything and not self.adaptive and (min(self.kernel) < 1 or min(self.stride) < 1):
            raise ParameterError(f"kernel {self.kernel} and stride {self.stride} must be positive")

    def __call__(self, t: Tracer, x: Operand) -> Operand:
        if dims_of(x) != self.rank + 1:
            raise ShapeError("number of dimensions", expected=self.rank + 1, actual=dims_of(x))
        n, c, *sizes = shape_of(x)
        if self.everything:
            return t.reshape(self._adaptive(t, x, [1] * self.rank), (n, c))
        if self.adaptive:
            wanted = [size if want == -233 else want for size, want in zip(sizes, self.output, strict=True)]
            return x if wanted == sizes else self._adaptive(t, x, wanted)
        window: dict[str, Any] = {"kernel_size": self.kernel, "stride": self.stride}
        pool = self._maximum if self.kind == MAXIMUM else self._average
        return pool(t, x, self._sides(sizes), window)

    def _adaptive(self, t: Tracer, x: Operand, sizes: list[int]) -> Operand:
        name = "max" if self.kind == MAXIMUM else "avg"
        return t.emit(f"F.adaptive_{name}_pool{self.rank}d", x, output_size=sizes)

    def _sides(self, sizes: Sequence[int]) -> _Sides:
        """What the padding mode puts around an input of these sizes."""
        if self.mode in (FULL, VALID):
            before, after = [max(v, 0) for v in self.before], [max(v, 0) for v in self.after]
            spans = zip(sizes, before, after, self.kernel, self.stride, strict=True)
            over = [(size + b + a - k) % s for size, b, a, k, s in spans]
            tail = [s - v if v and self.mode == FULL else 0 for v, s in zip(over, self.stride, strict=True)]
            return _Sides(before, after, tail)
        totals = same_padding(sizes, self.kernel, self.stride, [1] * self.rank)
        before, after = halves(totals, self.mode == SAME_UPPER)
        return _Sides(before, after, [0] * self.rank)

    def _as_ceil(self, sizes: Sequence[int], padding: Sequence[int], after: Sequence[int]) -> bool | None:
        """Rounding of the window count under which a symmetric padding covers these sides; None when there is none."""
        floors, ceils = [], []
        for size, p, a, k, s in zip(sizes, padding, after, self.kernel, self.stride, strict=True):
            count = (size + p + a - k) // s + 1
            low = (size + 2 * p - k) // s + 1
            high = -(-(size + 2 * p - k) // s) + 1
            high -= (high - 1) * s >= size + p
            if p > k // 2:
                return None
            floors.append(count == low)
            ceils.append(count == high)
        return False if all(floors) else True if all(ceils) else None

    def _maximum(self, t: Tracer, x: Operand, sides: _Sides, window: dict[str, Any]) -> Operand:
        before = sides.before
        ceil = self._as_ceil(shape_of(x)[2:], before, sides.behind)
        name = f"F.max_pool{self.rank}d"
        if ceil is None:
            x, ceil, before = pad(t, x, before, sides.behind, LOWEST), False, [0] * self.rank
        params: dict[str, Any] = {
            "padding": before,
            "dilation": [1] * self.rank,
            "ceil_mode": ceil,
            "return_indices": False,
        }
        return t.emit(name, x, **window, **params)

    def _average(self, t: Tracer, x: Operand, sides: _Sides, window: dict[str, Any]) -> Operand:
        name, sizes, before = f"F.avg_pool{self.rank}d", shape_of(x)[2:], sides.before
        ceil = self._as_ceil(sizes, before, sides.behind)
        as_given = (self.before, self.after) == (before, sides.after)
        if ceil is not None and before == sides.after and (self.include or as_given):
            return t.emit(name, x, **window, padding=before, ceil_mode=ceil, count_include_pad=self.include)
        padded = pad(t, self._uncovered(t, x, sides), before, sides.behind, 0.0)
        y = t.emit(name, padded, **window, padding=[0] * self.rank, ceil_mode=False, count_include_pad=True)
        if self.include and not any(sides.tail):
            return y
        return t.expression("mul(@0,@1)", y, t.array(self._correction(sizes, shape_of(y)[2:], sides)))

    def _uncovered(self, t: Tracer, x: Operand, sides: _Sides) -> Operand:
        """The input with zeros where own paddings, wider than those of a "same" mode, cover values of it."""
        before = [max(0, own - side) for own, side in zip(self.before, sides.before, strict=True)]
        after = [max(0, own - side) for own, side in zip(self.after, sides.after, strict=True)]
        if self.include or not any((*before, *after)):
            return x
        for i, (b, a, size) in enumerate(zip(before, after, shape_of(x)[2:], strict=True)):
            if b + a >= size:
                return t.expression("mul(@0,0)", x)
            x = t.cut(x, 2 + i, b, size - a)
        return pad(t, x, before, after, 0.0)

    def _correction(self, sizes: Sequence[int], counts: Sequence[int], sides: _Sides) -> Array:
        """Values of a window over those of it that count, for every output."""
        # ncnn counts the values that its own padding parameters do not cover, also when a "same" mode padded otherwise.
        # What full padding adds behind is never counted: ncnn does where borders are, against PyTorch and ONNX.
        factor: Array = np.ones((1, 1), np.float32)
        for i, size in enumerate(sizes):
            begin, cover = (0, 0) if self.include else (max(self.before[i], 0), max(self.after[i], 0))
            end = size + sides.before[i] + sides.after[i] - cover
            starts = np.arange(counts[i]) * self.stride[i]
            count = np.minimum(starts + self.kernel[i], end) - np.maximum(starts, begin)
            # A window over nothing at all makes NaN, as dividing by no values does in ncnn, or 0 where borders count.
            nothing = 1.0 if self.include else np.inf
            part = np.where(count > 0, self.kernel[i] / np.maximum(count, 1), nothing)
            factor = factor[..., None] * part.astype(np.float32)
        return factor


def _define(name: str, rank: int) -> None:
    def pooling(p: Params, w: Weights) -> Build:
        return _Pooling(p, rank)

    layer(name)(pooling)


for _name, _rank in (("Pooling", 2), ("Pooling1D", 1), ("Pooling3D", 3)):
    _define(_name, _rank)


@layer("SPP")
def spatial_pyramid(p: Params, w: Weights) -> Build:
    """Poolings over ever finer grids, one behind the other."""
    kind, height = p.choice(0, MAXIMUM, 2), p.count(1, 1)

    def build(t: Tracer, x: Operand) -> Operand:
        sizes = shape_of(x)[2:]
        parts = []
        for level in range(height):
            bins = 1 << level
            kernel = [-(-size // bins) for size in sizes]
            before = [(k * bins - size + 1) // 2 for k, size in zip(kernel, sizes, strict=True)]
            after = [k * bins - size - b for k, size, b in zip(kernel, sizes, before, strict=True)]
            padded = pad(t, x, before, after, LOWEST if kind == MAXIMUM else 0.0)
            name = "F.max_pool2d" if kind == MAXIMUM else "F.avg_pool2d"
            extra: dict[str, Any] = (
                {"count_include_pad": True} if kind == AVERAGE else {"dilation": [1, 1], "return_indices": False}
            )
            y = t.emit(name, padded, kernel_size=kernel, stride=kernel, padding=[0, 0], ceil_mode=False, **extra)
            parts.append(t.flatten(y))
        return t.concat(parts, 1)

    return build


@layer("StatisticsPooling")
def statistics_pooling(p: Params, w: Weights) -> Build:
    """Mean, and deviation if wanted, of each channel, of which blobs of one and two dimensions have one."""
    deviation = p.flag(0)

    def build(t: Tracer, x: Operand) -> Operand:
        n, c, *rest = shape_of(t.with_channels(x))
        flat = t.reshape(x, (n, c, math.prod(rest)))
        mean = t.emit("torch.mean", flat, dim=[2], keepdim=False)
        if not deviation:
            return mean
        centred = t.expression("square(sub(@0,@1))", flat, t.reshape(mean, (n, c, 1)))
        spread = t.emit("torch.mean", centred, dim=[2], keepdim=False)
        return t.concat([mean, t.expression("sqrt(@0)", spread)], 1)

    return build
