"""ONNX's Resize and Upsample, where the converter leaves them under these names.

Each axis has a table: entries of the input and, except for the nearest entry, their weights. Places are computed in
single precision, as onnxruntime computes them: it decides which entry is nearest where two nearly are.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from pnnx_fast._memory import check_numbers
from pnnx_fast._types import Array, Shape
from pnnx_fast.errors import ParameterError, ShapeError
from pnnx_fast.ops.elementwise import lower_expression
from pnnx_fast.ops.registry import Floats, Ints, operator
from pnnx_fast.ops.resize import Table, cubic_filter, resize_by_tables
from pnnx_fast.ops.shape import axes_of, integers
from pnnx_fast.ops.symbolic import Builder, Tensor

HALF = np.float32(0.5)


class _Axis(NamedTuple):
    """Sizes of an axis before and after, the factor between them, and the part that is cut out."""

    n: int
    size: int
    factor: float
    start: float
    end: float


def _half_pixel(x: Array, a: _Axis) -> Array:
    return (x + HALF) / np.float32(a.factor) - HALF


def _symmetric(x: Array, a: _Axis) -> Array:
    # What rounding of the size has cut off is missing on both sides.
    whole = np.float32(a.size / (a.factor * a.n))
    return np.float32(a.n / 2) * (1 - whole) + _half_pixel(x, a)


def _cropped(x: Array, a: _Axis) -> Array:
    start, end, last = np.float32(a.start), np.float32(a.end), np.float32(a.n - 1)
    if a.size == 1:
        return x + (start + end) / 2 * last
    return start * last + x * (end - start) * last / np.float32(a.size - 1)


PLACES: dict[str, Callable[[Array, _Axis], Array]] = {
    "half_pixel": _half_pixel,
    "half_pixel_symmetric": _symmetric,
    "pytorch_half_pixel": lambda x, a: _half_pixel(x, a) if a.size > 1 else x * 0,
    "asymmetric": lambda x, a: x / np.float32(a.factor),
    "align_corners": lambda x, a: x * np.float32(a.n - 1) / np.float32(max(a.size - 1, 1)),
    "tf_crop_and_resize": _cropped,
}
"""Where in the input entries of the result lie, by ONNX's names."""

ROUNDED: dict[str, Callable[[Array], Array]] = {
    "round_prefer_floor": lambda x: np.ceil(x - HALF),
    "round_prefer_ceil": lambda x: np.floor(x + HALF),
    "floor": np.floor,
    "ceil": np.ceil,
}


def _linear(place: Array, n: int) -> Table:
    place = np.clip(place, 0, n - 1)
    low = np.floor(place)
    index = np.stack([low, np.minimum(low + 1, n - 1)], 1).astype(np.int64)
    return index, np.stack([1 - (place - low), place - low], 1).astype(np.float32)


def _cubic(place: Array, n: int, a: float, exclude_outside: bool) -> Table:
    low = np.floor(place)
    index = low[:, None].astype(np.int64) + np.arange(-1, 3)
    weight = cubic_filter((place - low)[:, None] - np.arange(-1, 3), a)
    if exclude_outside:
        weight = np.where((index >= 0) & (index < n), weight, 0)
        weight = weight / weight.sum(1, keepdims=True)
    return np.clip(index, 0, n - 1), weight.astype(np.float32)


CUT = ("not_larger", "not_smaller")
"""Policies that keep the proportions of an image."""


def _axes(
    shape: Shape, axes: Ints | None, scales: Floats | None, sizes: Ints | None, roi: Any, policy: str
) -> list[_Axis]:
    given = list(range(len(shape))) if axes is None else axes_of(axes, len(shape))
    factors = list(scales) if isinstance(scales, Sequence) else [] if scales is None else [scales]
    if not all(math.isfinite(f) and f > 0 for f in factors):
        raise ParameterError("scales must be positive and finite", parameter="scales")
    wanted = [] if factors else integers(sizes, "sizes")
    if len(factors or wanted) != len(given) or not math.prod(shape) or min(wanted, default=1) < 1:
        raise ShapeError(f"{len(given)} dimensions need as many sizes", operand="X", actual=list(shape))
    if policy in CUT and wanted:
        one = (min if policy == "not_larger" else max)(m / shape[d] for d, m in zip(given, wanted, strict=True))
        factors, wanted = [one] * len(given), [math.floor(shape[d] * one + 0.5) for d in given]
    elif policy != "stretch" and wanted:
        raise ParameterError(f"unknown policy {policy!r}", parameter="keep_aspect_ratio_policy")
    # In float32, as onnxruntime has it: 90 times 0.7 is 63.
    wanted = wanted or [int(np.float32(shape[d]) * np.float32(f)) for d, f in zip(given, factors, strict=True)]
    factors = factors or [m / shape[d] for d, m in zip(given, wanted, strict=True)]
    ends = [float(v) for v in (() if roi is None else np.asarray(roi.numpy() if isinstance(roi, Tensor) else roi).flat)]
    if len(ends) not in (0, 2 * len(given)):
        raise ParameterError(f"the part of {len(given)} dimensions has {2 * len(given)} ends", parameter="roi")
    found = [_Axis(n, n, 1.0, 0.0, 1.0) for n in shape]
    for k, d in enumerate(given):
        part = (ends[k], ends[k + len(given)]) if ends else (0.0, 1.0)
        found[d] = _Axis(shape[d], wanted[k], factors[k], *part)
    if min(a.size for a in found) < 1:
        raise ShapeError("the result has no entries", operand="X", actual=[a.size for a in found])
    return found


@operator("Resize")
def resize(
    b: Builder,
    X: Tensor,
    roi: Any = None,
    scales: Floats | None = None,
    sizes: Ints | None = None,
    *,
    mode: str = "nearest",
    coordinate_transformation_mode: str = "half_pixel",
    nearest_mode: str = "round_prefer_floor",
    cubic_coeff_a: float = -0.75,
    exclude_outside: bool = False,
    extrapolation_value: float = 0.0,
    axes: Ints | None = None,
    keep_aspect_ratio_policy: str = "stretch",
    antialias: bool = False,
) -> Tensor:
    """A tensor of another size: its nearest entries, or means of near ones. ONNX, torch.nn.functional.interpolate."""
    if mode not in ("nearest", "linear", "cubic"):
        raise ParameterError(f"unknown mode {mode!r}", parameter="mode")
    if antialias:
        raise ParameterError("means over what is made smaller are not supported", parameter="antialias")
    places, rounded = PLACES.get(coordinate_transformation_mode), ROUNDED.get(nearest_mode)
    if places is None or rounded is None:
        unknown = f"{coordinate_transformation_mode!r}, {nearest_mode!r}"
        raise ParameterError(f"unknown way to find the nearest entries: {unknown}", parameter="nearest_mode")
    cut = coordinate_transformation_mode == "tf_crop_and_resize"
    given = _axes(X.shape, axes, scales, sizes, roi if cut else None, keep_aspect_ratio_policy)
    if not cut and all(axis.size == axis.n for axis in given):
        return X  # whatever the factors are
    check_numbers(4 * sum(a.size for a in given))
    tables: list[Table | None] = []
    outside = np.zeros((1,) * X.ndim, np.bool_)
    for d, axis in enumerate(given):
        if axis.factor == 1 and axis.size == axis.n:
            tables.append(None)  # onnxruntime cuts nothing out there, either
            continue
        place = places(np.arange(axis.size, dtype=np.float32), axis)
        if cut:
            line = (place < 0) | (place > axis.n - 1)
            outside = outside | line.reshape([-1 if k == d else 1 for k in range(X.ndim)])
        if mode == "nearest":
            tables.append((np.clip(rounded(place), 0, axis.n - 1).astype(np.int64)[:, None], None))
        elif mode == "linear":
            tables.append(_linear(place, axis.n))
        else:
            tables.append(_cubic(place, axis.n, cubic_coeff_a, exclude_outside))
    key = (mode, coordinate_transformation_mode, nearest_mode, cubic_coeff_a, exclude_outside, tuple(given))
    y = resize_by_tables(b, X, tables, key)
    if outside.any():
        y = lower_expression(b, "where(@0,@1,@2)", [b.constant(outside), extrapolation_value, y])
    return y


@operator("Upsample")
def upsample(b: Builder, X: Tensor, scales: Floats, *, mode: str = "nearest") -> Tensor:
    """A tensor that is made larger by factors. ONNX's operator before Resize, torch.nn.functional.interpolate."""
    kind = "linear" if mode == "bilinear" else mode
    places = "asymmetric"
    return resize(b, X, None, scales, mode=kind, coordinate_transformation_mode=places, nearest_mode="floor")
