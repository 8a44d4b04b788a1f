"""Resampling operators. The taps of every output position are computed here, exactly as PyTorch computes them; kernels
only apply the tables.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from pnnx_fast._types import Array, DType, Shape
from pnnx_fast.errors import ParameterError, ShapeError
from pnnx_fast.ops._checks import real_number
from pnnx_fast.ops._window import in_space, space_strides
from pnnx_fast.ops.registry import operator
from pnnx_fast.ops.shape import integers
from pnnx_fast.ops.symbolic import Builder, Tensor, is_channels_last

MODES = {
    "nearest": (1, 2, 3), "nearest-exact": (1, 2, 3), "linear": (1,), "bilinear": (2,), "bicubic": (2,),
    "trilinear": (3,), "area": (1, 2, 3),
}  # fmt: skip
"""Modes and the numbers of spatial dimensions that they exist for."""

Table = tuple[Array, Array | None]
"""Input positions (outputs, taps) and their weights; None stands for single taps of weight one."""


# -- tables ------------------------------------------------------------------------------------------------------


SMALL_IMAGE = 128
"""Height and width of an output add up to this at most where PyTorch takes the path that copies and doubles exactly."""


def _inside(place: Array, most: int) -> Array:
    """Positions as integers of 0 to a largest one, also where they are infinite, or NaN as the first one may be."""
    return np.asarray(np.minimum(np.fmin(np.fmax(place, 0), most).astype(np.int64), most))


def _nearest(n: int, out: int, scale: float | None, exact: bool, small: bool, real: Any) -> Table:
    i = np.arange(out)
    if small and not exact and out in (n, 2 * n):
        index = i if out == n else i >> 1
    else:
        real = np.float32 if small else real  # a path of PyTorch's own
        step = _step(n, out, False, scale, real)
        place = ((i + 0.5 if exact else i).astype(real) * step).astype(np.float32)  # PyTorch floors by floorf
        index = _inside(np.floor(place), n - 1)
    return index.astype(np.int64).reshape(-1, 1), None


def _step(n: int, out: int, align: bool, scale: float | None, real: Any) -> Any:
    """Distance of neighbouring output positions in the input."""
    if align:
        return real(n - 1) / real(out - 1) if out > 1 else real(0)
    return real(1.0 / scale) if scale is not None and scale > 0 else real(n) / real(out)


def _places(n: int, out: int, align: bool, scale: float | None, real: Any) -> Array:
    i = np.arange(out).astype(real)
    step = _step(n, out, align, scale, real)
    return np.asarray(step * i if align else step * (i + real(0.5)) - real(0.5))


def _linear(n: int, out: int, align: bool, scale: float | None, real: Any) -> Table:
    if out == n:
        i = np.arange(n)
        return i.reshape(-1, 1), np.ones((n, 1), real)
    place = np.clip(_places(n, out, align, scale, real), real(0), real(n))  # beyond that only the end matters
    low = _inside(place, n - 1)
    part = np.clip(place - low.astype(real), 0, 1).astype(real)
    return np.stack([low, np.minimum(low + 1, n - 1)], 1), np.stack([1 - part, part], 1).astype(real)


def cubic_filter(x: Array, a: float) -> Array:
    """Weights of entries at a distance: the cubic convolution filter with parameter ``a``."""
    x = np.abs(x)
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = ((x - 5) * x + 8) * x * a - 4 * a
    return np.where(x < 1, near, np.where(x < 2, far, 0))


def _cubic(n: int, out: int, align: bool, scale: float | None, real: Any) -> Table:
    place = np.minimum(_places(n, out, align, scale, real), real(n))
    low = np.minimum(np.floor(place).astype(np.int64), n - 1)  # -1 at the beginning
    part = np.clip(place - low.astype(real), 0, 1)
    around = np.arange(-1, 3)
    weight = cubic_filter(part[:, None] - around, -0.75)
    return np.clip(low[:, None] + around, 0, n - 1), weight.astype(real)


def _antialiased(n: int, out: int, align: bool, scale: float | None, cubic: bool, real: Any) -> Table:
    if out == n:
        return np.arange(n).reshape(-1, 1), np.ones((n, 1), real)
    step = real(_step(n, out, align, scale, real))
    wide = max(step, real(1))
    radius, half = real(2 if cubic else 1) * wide, real(0.5)
    centre = step * (np.arange(out).astype(real) + half)
    first, last = _inside(centre - radius + half, n - 1), _inside(centre + radius + half, n)
    taps = max(int((last - first).max()), 1)
    index = first[:, None] + np.arange(taps)
    x = (index.astype(real) - centre[:, None] + half) / wide
    weight = cubic_filter(x, real(-0.5)) if cubic else np.maximum(1 - np.abs(x), 0)
    weight = np.where(index < last[:, None], weight, 0)
    total = weight.sum(1, keepdims=True)
    weight = weight / np.where(total == 0, 1, total)
    # Shorter rows repeat their last tap and share its weight: a weight of zero would make NaN of an infinity.
    end = np.maximum(last, first + 1)[:, None] - 1
    share = np.take_along_axis(weight, end - first[:, None], 1) / (first[:, None] + taps - end)
    return np.minimum(np.minimum(index, end), n - 1), np.where(index < end, weight, share).astype(real)


def axis_table(
    mode: str, n: int, out: int, align: bool, scale: float | None, antialias: bool, small: bool, dtype: DType
) -> Table:
    """Taps along one axis. Places are computed in the precision that PyTorch uses for the dtype."""
    real = np.float64 if dtype == np.float64 else np.float32
    with np.errstate(all="ignore"):  # of scales next to nothing
        if mode.startswith("nearest"):
            return _nearest(n, out, scale, mode == "nearest-exact", small, real)
        if antialias:
            return _antialiased(n, out, align, scale, mode == "bicubic", real)
        if mode == "bicubic":
            return _cubic(n, out, align, scale, real)
        return _linear(n, out, align, scale, real)


# -- emission ----------------------------------------------------------------------------------------------------


def _apply(b: Builder, x: Tensor, y: Tensor, tables: Sequence[Table], key: Any) -> None:
    """Emit one resampling with a table for each of the (up to three) axes."""
    axes = len(tables)
    single = all(weight is None for _, weight in tables)
    parts = [*[(np.zeros((1, 1), np.int64), None)] * (3 - axes), *tables]

    def weights() -> Array:
        ones = [np.ones(i.shape, np.float32) if w is None else w.astype(np.float32) for i, w in parts]
        return np.concatenate([w.reshape(-1) for w in ones])

    index = b.cached(("resize index", *key), lambda: np.concatenate([i.reshape(-1) for i, _ in parts]).astype(np.int64))
    weight = None if single else b.cached(("resize weight", *key), weights)
    taps = [i.shape[1] for i, _ in parts]
    b.step(
        "resize",
        flops=2 * y.size * math.prod(taps),
        x=x, index=index, weight=weight, y=y, n=x.shape[0], c=x.shape[1], isize=in_space(x.shape[2:], 1),
        osize=in_space(y.shape[2:], 1), taps=taps, xs=space_strides(x), ys=space_strides(y),
    )  # fmt: skip


def _identity(n: int) -> Table:
    return np.arange(n).reshape(-1, 1), None


FEW_CHANNELS = 4
"""Up to here, planes are resized one by one rather than pixels as vectors."""


MIN_LINE, MAX_TAPS = 16, 4096
"""Outputs of a line that fill vectors, and taps of a line that the kernel applies in vectors."""


def _fits_lines(x: Tensor, tables: Sequence[Table]) -> bool:
    """Whether planes are resized as fast as pixels, and the input is the smaller side to reorder."""
    sizes, (outputs, taps) = [len(index) for index, _ in tables], tables[-1][0].shape
    fits = outputs >= MIN_LINE and x.shape[-1] <= outputs and outputs * taps <= MAX_TAPS
    return fits and math.prod(x.shape[2:]) <= math.prod(sizes)


def _resize_float(b: Builder, input: Tensor, tables: Sequence[Table], key: Any, separable: bool) -> Tensor:
    output = tuple(i.shape[0] for i, _ in tables)
    few = input.shape[1] <= FEW_CHANNELS and not (is_channels_last(input) and input.shape[1] > 1)
    returned = not few and not separable and b.returns_result and _fits_lines(input, tables)
    planar = few or returned
    x = input if few else b.contiguous(input) if returned else b.channels_last(input)
    order = "plain" if planar else "channels_last"
    shape = (*input.shape[:2], *output)
    if not separable:
        y = b.result(shape, np.float32, order)  # type: ignore[arg-type]
        _apply(b, x, y, tables, key)
        return y
    for axis in reversed(range(len(tables))):
        sizes = (*x.shape[: 2 + axis], output[axis], *x.shape[3 + axis :])
        y = b.result(sizes, np.float32, order) if axis == 0 else b.empty(sizes, np.float32, order)  # type: ignore[arg-type]
        one = [tables[axis] if d == axis else _identity(n) for d, n in enumerate(x.shape[2:])]
        _apply(b, x, y, one, (*key, "axis", axis))
        x = y
    return x


def _resize_array(x: Array, tables: Sequence[Table | None]) -> Array:
    """Other dtypes in numpy, one axis after the other, the last as the last table; integers are rounded at the end."""
    weighted = any(table is not None and table[1] is not None for table in tables)
    wide = np.result_type(x.dtype, np.float32) if weighted else x.dtype
    y = x.astype(wide)
    for axis, table in enumerate(tables, start=x.ndim - len(tables)):
        if table is None:
            continue
        index, weight = table
        taken = np.take(y, index, axis)
        if weight is None:
            y = taken[(slice(None),) * (axis + 1) + (0,)]
        else:
            shape = (*index.shape, *[1] * (x.ndim - axis - 1))
            y = (taken * weight.reshape(shape).astype(wide)).sum(axis + 1)
    if x.dtype.kind in "iu" and wide != x.dtype:
        info = np.iinfo(x.dtype)
        y = np.clip(np.rint(y), info.min, info.max)
    return y.astype(x.dtype)


def resize_by_tables(b: Builder, input: Tensor, tables: Sequence[Table | None], key: Any) -> Tensor:
    """Emit a resampling of each dimension by a table of its own, None where it stays; ``key`` names the tables."""
    shape = tuple(n if t is None else len(t[0]) for n, t in zip(input.shape, tables, strict=True))
    if input.dtype.name not in ("float32", "float16") or not 3 <= input.ndim <= 5 or tables[:2] != [None, None]:
        whole = input.dtype.kind in "iu" and any(t is not None and t[1] is not None for t in tables)

        def run(x: Array) -> Array:
            # onnxruntime cuts off what is behind the point, where PyTorch rounds.
            y = _resize_array(x.astype(np.float32) if whole else x, tables)
            return y.astype(x.dtype)

        return b.host(run, [input], [(shape, input.dtype)])[0]
    spatial = [_identity(n) if t is None else t for n, t in zip(input.shape[2:], tables[2:], strict=True)]
    y = _resize_float(b, b.cast(input, np.float32), spatial, (key, input.shape), separable=False)
    return b.cast(y, input.dtype)


BYTE_WEIGHT_BITS, BYTE_PRECISION = 15, 22
"""Bits of the weights of bytes, and the most of them behind the point."""


def _resize_bytes(x: Array, tables: Sequence[Table]) -> Array:
    """Resize bytes as PyTorch does: the last axis first, by weights in fixed point, and in bytes after each axis."""
    for axis in reversed(range(2, x.ndim)):
        index, weight = tables[axis - 2]
        if weight is None or len(index) == x.shape[axis]:
            continue
        first, taps = index.min(1), index.shape[1]
        joined = np.zeros(index.shape)  # taps beyond the border fall on the pixel at the border, and are one weight
        np.add.at(joined, (np.arange(len(index))[:, None], index - first[:, None]), weight)
        places = np.minimum(first[:, None] + np.arange(taps), x.shape[axis] - 1)
        most, bits = joined.max(), 0
        while bits < BYTE_PRECISION and int(0.5 + most * (2 << bits)) < 1 << BYTE_WEIGHT_BITS:
            bits += 1
        whole = np.trunc(joined * (1 << bits) + np.copysign(0.5, joined)).astype(np.int32)
        taken = np.take(x, places, axis).astype(np.int32)
        sums = (taken * whole.reshape(*whole.shape, *[1] * (x.ndim - axis - 1))).sum(axis + 1, dtype=np.int32)
        x = np.clip((sums + (1 << bits >> 1)) >> bits, 0, 255).astype(np.uint8)
    return x


def resample(
    b: Builder,
    input: Tensor,
    output: Shape,
    mode: str,
    align: bool,
    scales: Sequence[float | None],
    antialias: bool = False,
) -> Tensor:
    """Emit a resampling of (n, c, …) to ``output``; ``scales`` are the given scale factors, None where sizes count."""
    numbers = list(zip(input.shape[2:], output, scales, strict=True))
    small = len(output) == 2 and sum(output) <= SMALL_IMAGE
    # Tables are made here and now, so a size beyond all limits is refused before; each place takes some taps.
    b.empty((sum(output), 64), np.uint8)
    whole = input.dtype == np.uint8 and mode in ("bilinear", "bicubic")
    counted = np.dtype(np.float64) if whole else input.dtype
    tables = [axis_table(mode, n, out, align, s, antialias, small, counted) for n, out, s in numbers]
    key = (mode, align, antialias, small, tuple(numbers), input.dtype)
    if input.dtype == np.float16:
        return b.cast(_resize_float(b, b.cast(input, np.float32), tables, key, separable=antialias), input.dtype)
    if input.dtype != np.float32:
        shape = (*input.shape[:2], *output)
        resize = _resize_bytes if whole else _resize_array
        return b.host(lambda x: resize(x, tables), [input], [(shape, input.dtype)])[0]
    return _resize_float(b, input, tables, key, separable=antialias)


# -- operators ---------------------------------------------------------------------------------------------------


def _scales(scale_factor: Any, axes: int) -> list[float]:
    values = list(scale_factor) if isinstance(scale_factor, (list, tuple)) else [scale_factor]
    values = [real_number(v, "scale_factor") for v in values]
    values = values * axes if len(values) == 1 else values
    if len(values) != axes or not all(0 < v < math.inf for v in values):
        raise ParameterError(f"scale_factor needs 1 or {axes} positive numbers, not {values}", parameter="scale_factor")
    return values


def _output(
    input: Tensor, size: Any, scale_factor: Any, recompute: bool, least: int = 1
) -> tuple[Shape, list[float | None]]:
    """Spatial output size, at least so many pixels, and the scale factors that count for the places."""
    spatial = input.shape[2:]
    axes = len(spatial)
    if size is not None and size != ():
        sizes = integers(size, "size")
        sizes = sizes * axes if len(sizes) == 1 else sizes
        if len(sizes) != axes or min(sizes) < least:
            wanted = f"{axes} integers from {least} on"
            raise ParameterError(f"size needs 1 or {wanted}, not {list(sizes)}", parameter="size")
        return tuple(sizes), [None] * axes
    if scale_factor is None or scale_factor == ():
        raise ParameterError("either size or scale_factor must be given", parameter="size")
    scales = _scales(scale_factor, axes)
    output = tuple(math.floor(float(n) * s) for n, s in zip(spatial, scales, strict=True))
    if min(output, default=1) < least:
        raise ShapeError("the output has no pixels", expected="at least 1", actual=list(output))
    return output, [None] * axes if recompute else list(scales)


@operator("F.interpolate", "F.upsample", "nn.Upsample", rows=3)
def interpolate(
    b: Builder,
    input: Tensor,
    *,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Tensor:
    """Resize to a size or by a factor. torch.nn.functional.interpolate."""
    axes = input.ndim - 2
    if mode not in MODES or axes not in MODES[mode]:
        raise ParameterError(f"mode {mode!r} does not exist for {input.ndim} dimensions", parameter="mode")
    if min(input.shape[2:]) < 1:
        raise ShapeError("the input has no pixels", actual=list(input.shape))
    output, scales = _output(input, size, scale_factor, bool(recompute_scale_factor), int(mode != "area"))
    if mode == "area":
        if 0 in output:
            return b.result((*input.shape[:2], *output), input.dtype)
        from pnnx_fast.ops.pooling import adaptive_window, pool

        y: Tensor = pool(b, "avg", input, adaptive_window(input.shape[2:], output))
        return y
    if antialias and mode not in ("bilinear", "bicubic"):
        raise ParameterError(f"antialias does not exist for mode {mode!r}", parameter="antialias")
    return resample(b, input, output, mode, bool(align_corners), scales, antialias)


@operator("F.upsample_nearest", "nn.UpsamplingNearest2d")
def upsample_nearest(b: Builder, input: Tensor, *, size: Any = None, scale_factor: Any = None) -> Tensor:
    """Resize by repetition. torch.nn.functional.upsample_nearest."""
    return interpolate(b, input, size=size, scale_factor=scale_factor)


@operator("F.upsample_bilinear", "nn.UpsamplingBilinear2d")
def upsample_bilinear(b: Builder, input: Tensor, *, size: Any = None, scale_factor: Any = None) -> Tensor:
    """Resize linearly with aligned corners. torch.nn.functional.upsample_bilinear."""
    return interpolate(b, input, size=size, scale_factor=scale_factor, mode="bilinear", align_corners=True)
