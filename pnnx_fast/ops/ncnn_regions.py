"""Pooling over one region of an image as ncnn's layers do it. numpy steps, used by nets of ``pnnx_fast.ncnn`` only."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from pnnx_fast._types import Array
from pnnx_fast.errors import ParameterError, ShapeError
from pnnx_fast.ops.registry import operator
from pnnx_fast.ops.symbolic import Builder, Tensor

Bins = list[tuple[int, int]]
"""Where bins begin and end along an axis."""


def _check(input: Tensor, roi: Tensor, width: int, height: int) -> None:
    if input.ndim != 4 or input.shape[0] != 1 or roi.size < 4:
        raise ShapeError("one image and one region", expected="(1, c, h, w) and 4 numbers", actual=input.shape)
    if width < 1 or height < 1:
        raise ParameterError(f"pooled size {width} x {height} must be positive", parameter="pooled_width")


def _bins(start: float, size: float, count: int, limit: int) -> Bins:
    """Whole pixels that bins of a region cover, cut to the image."""
    at = np.arange(count, dtype=np.float32) * np.float32(size)
    low = np.floor(np.float32(start) + at).astype(int)
    high = np.ceil(np.float32(start) + at + np.float32(size)).astype(int)
    return list(zip(np.clip(low, 0, limit).tolist(), np.clip(high, 0, limit).tolist(), strict=True))


def _pool(
    x: Array, rows: list[tuple[int, int]], columns: list[tuple[int, int]], reduce: Callable[[Array], Array]
) -> Array:
    """Reduce every bin of (c, h, w); empty bins give 0."""
    out = np.zeros((x.shape[0], len(rows), len(columns)), np.float32)
    for i, (top, bottom) in enumerate(rows):
        for j, (left, right) in enumerate(columns):
            if bottom > top and right > left:
                out[:, i, j] = reduce(x[:, top:bottom, left:right].reshape(x.shape[0], -1))
    return out


def _round(value: np.float32) -> float:
    """Nearest integer, halves away from zero."""
    return float(np.trunc(value + np.copysign(np.float32(0.5), value)))


@operator("ncnn.ROIPooling", native=False)
def roi_pooling(
    b: Builder, input: Tensor, roi: Tensor, *, pooled_width: int, pooled_height: int, spatial_scale: float
) -> Tensor:
    """Maximum over the bins of a region."""
    _check(input, roi, pooled_width, pooled_height)
    _, c, h, w = input.shape

    def compute(x: Array, region: Array) -> Array:
        x0, y0, x1, y1 = (_round(v * np.float32(spatial_scale)) for v in region.reshape(-1)[:4])
        wide, high = max(x1 - x0 + 1, 1.0) / pooled_width, max(y1 - y0 + 1, 1.0) / pooled_height
        rows = [(int(y0 + a), int(y0 + z)) for a, z in _bins(0.0, high, pooled_height, 1 << 30)]
        columns = [(int(x0 + a), int(x0 + z)) for a, z in _bins(0.0, wide, pooled_width, 1 << 30)]
        cut_rows = [(min(max(a, 0), h), min(max(z, 0), h)) for a, z in rows]
        cut_columns = [(min(max(a, 0), w), min(max(z, 0), w)) for a, z in columns]
        return _pool(x[0], cut_rows, cut_columns, lambda part: part.max(1))[None]

    return b.host(compute, [input, roi], [((1, c, pooled_height, pooled_width), np.float32)])[0]


@operator("ncnn.PSROIPooling", native=False)
def psroi_pooling(
    b: Builder,
    input: Tensor,
    roi: Tensor,
    *,
    pooled_width: int,
    pooled_height: int,
    spatial_scale: float,
    output_dim: int,
) -> Tensor:
    """Mean over the bins of a region, each bin from channels of its own."""
    _check(input, roi, pooled_width, pooled_height)
    _, c, h, w = input.shape
    if c != output_dim * pooled_width * pooled_height:
        raise ShapeError("channels", expected=output_dim * pooled_width * pooled_height, actual=c)

    def compute(x: Array, region: Array) -> Array:
        scale = np.float32(spatial_scale)
        x0, y0 = (np.float32(_round(v)) * scale for v in region.reshape(-1)[:2])
        x1, y1 = (np.float32(_round(v + np.float32(1))) * scale for v in region.reshape(-1)[2:4])
        wide, high = max(x1 - x0, np.float32(0.1)) / pooled_width, max(y1 - y0, np.float32(0.1)) / pooled_height
        rows, columns = _bins(float(y0), float(high), pooled_height, h), _bins(float(x0), float(wide), pooled_width, w)
        maps = x[0].reshape(output_dim, pooled_height, pooled_width, h, w)
        out = np.zeros((1, output_dim, pooled_height, pooled_width), np.float32)
        for i, (top, bottom) in enumerate(rows):
            for j, (left, right) in enumerate(columns):
                if bottom > top and right > left:
                    out[0, :, i, j] = maps[:, i, j, top:bottom, left:right].mean((1, 2))
        return out

    return b.host(compute, [input, roi], [((1, output_dim, pooled_height, pooled_width), np.float32)])[0]


def _sample(x: Array, ys: Array, xs: Array) -> Array:
    """Values of (c, h, w) at positions between pixels; beyond the last pixel it is that pixel."""
    _, h, w = x.shape
    y0, x0 = ys.astype(int), xs.astype(int)
    fy, fx = (ys - y0).astype(np.float32), (xs - x0).astype(np.float32)
    fy, fx = np.where(y0 + 1 >= h, np.float32(0), fy), np.where(x0 + 1 >= w, np.float32(0), fx)
    y0, x0 = np.minimum(y0, h - 1), np.minimum(x0, w - 1)
    y1, x1 = np.minimum(y0 + 1, h - 1), np.minimum(x0 + 1, w - 1)
    upper = x[:, y0][:, :, x0] * (1 - fx) + x[:, y0][:, :, x1] * fx
    lower = x[:, y1][:, :, x0] * (1 - fx) + x[:, y1][:, :, x1] * fx
    mixed: Array = upper * (1 - fy)[:, None] + lower * fy[:, None]
    return mixed


@operator("ncnn.ROIAlign", native=False)
def roi_align(
    b: Builder,
    input: Tensor,
    roi: Tensor,
    *,
    pooled_width: int,
    pooled_height: int,
    spatial_scale: float,
    sampling_ratio: int,
    aligned: bool,
    version: int,
) -> Tensor:
    """Mean over positions between pixels in the bins of a region; version 0 is ncnn's own, 1 is Detectron's."""
    _check(input, roi, pooled_width, pooled_height)
    c = input.shape[1]
    shape = (pooled_height, pooled_width)

    def compute(x: Array, region: Array) -> Array:
        x0, y0, x1, y1 = region.reshape(-1)[:4] * np.float32(spatial_scale) - np.float32(0.5 if aligned else 0.0)
        size = np.array([y1 - y0, x1 - x0], np.float32)
        size = size if aligned else np.maximum(size, np.float32(1))
        bins = size / np.array(shape, np.float32)
        start = np.array([y0, x0], np.float32)
        compute_bins = _own_bins if version == 0 else _detectron_bins
        return compute_bins(x[0], start, bins, shape, sampling_ratio)[None]

    return b.host(compute, [input, roi], [((1, c, *shape), np.float32)])[0]


def _own_bins(x: Array, start: Array, bins: Array, shape: tuple[int, int], ratio: int) -> Array:
    """Bins cut to the image first; as many positions as a bin is pixels long."""
    limits = np.array(x.shape[1:], np.float32)
    out = np.zeros((x.shape[0], *shape), np.float32)
    for i, j in np.ndindex(*shape):
        low = np.clip(start + bins * np.array([i, j], np.float32), 0, limits)
        high = np.clip(start + bins * np.array([i + 1, j + 1], np.float32), 0, limits)
        if (high <= low).any():
            continue
        counts = [ratio] * 2 if ratio > 0 else np.ceil(high - low).astype(int).tolist()
        ys, xs = (low[k] + (np.arange(counts[k]) + np.float32(0.5)) * bins[k] / counts[k] for k in range(2))
        out[:, i, j] = _sample(x, ys, xs).mean((1, 2))
    return out


def _detectron_bins(x: Array, start: Array, bins: Array, shape: tuple[int, int], ratio: int) -> Array:
    """Equal numbers of positions in all bins; those outside of the image count as 0."""
    counts = [ratio] * 2 if ratio > 0 else np.maximum(np.ceil(bins), 0).astype(int).tolist()
    total = max(counts[0] * counts[1], 1)
    axes = []
    for k in range(2):
        offsets = (np.arange(counts[k]) + np.float32(0.5)) * bins[k] / max(counts[k], 1)
        axes.append(start[k] + np.arange(shape[k], dtype=np.float32)[:, None] * bins[k] + offsets)
    inside = [(a >= -1.0) & (a <= n) for a, n in zip(axes, x.shape[1:], strict=True)]
    ys, xs = (np.maximum(a, 0).reshape(-1) for a in axes)
    values = _sample(x, ys, xs).reshape(x.shape[0], shape[0], counts[0], shape[1], counts[1])
    weights = inside[0][:, :, None, None] & inside[1][None, None]
    summed: Array = (values * weights).sum((2, 4)) / np.float32(total)
    return summed
