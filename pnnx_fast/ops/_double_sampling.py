"""Samples of images and means over regions of float64, in numpy: the kernels for these compute in single precision."""

from __future__ import annotations

import itertools
import math

import numpy as np

from pnnx_fast._types import Array
from pnnx_fast.errors import IndexRangeError

__all__ = ["mean_regions", "sample_places"]

Taps = list[tuple[Array, Array]]
"""Whole places along an axis, outside ones among them, and their weights."""


def _bordered(v: Array, size: int, border: str, align: str, axes: int) -> Array:
    """Places moved into the image where the border says so; what no integer holds lies outside."""
    if border == "reflection":
        low, span = (0.0, size - 1) if align == "centres" else (-0.5, size)
        v = np.abs(v - low)
        v = v - np.floor(v / (2 * span)) * (2 * span) if span else np.zeros_like(v)
        v = np.minimum(2 * span - v, v) + (low if span else 0.0)
    if border != "zeros":
        v = np.where((v < 0) | (np.isnan(v) & (axes == 2)), 0.0, v)
        v = np.where(v < size - 1, v, size - 1.0)
    return np.where(np.abs(v) < 2**31, v, -100.0)


def _taps(v: Array, size: int, mode: str, border: str, align: str, axes: int) -> Taps:
    if mode == "bicubic":
        a, low = -0.75, np.floor(v)
        t = v - low
        weights = []
        for k, x in enumerate((t + 1, t, 1 - t, 2 - t)):
            far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
            weights.append(far if k in (0, 3) else ((a + 2) * x - (a + 3)) * x * x + 1)
        return [(_bordered(low + (k - 1), size, border, align, axes), w) for k, w in enumerate(weights)]
    v = _bordered(v, size, border, align, axes)
    if mode == "nearest":
        return [(np.rint(v), np.ones_like(v))]
    low = np.floor(v)
    return [(low, 1 - (v - low)), (low + 1, v - low)]


def sample_places(x: Array, grid: Array, mode: str, border: str, align: str, scale: Array | None = None) -> Array:
    """Values of ``x`` (n, c, …) at ``grid`` (n, …, axes), as the kernel finds them."""
    (n, c), sizes, axes = x.shape[:2], x.shape[2:], x.ndim - 2
    total = np.zeros((n, c, math.prod(grid.shape[1:-1])))
    flat, bad = grid.reshape(n, total.shape[2], axes), np.zeros((n, total.shape[2]), bool)
    with np.errstate(all="ignore"):
        taps = []
        for k, size in enumerate(sizes):
            v = flat[..., axes - 1 - k].astype(np.float64)
            if align == "centres":
                v = (v + 1) / 2 * (size - 1)
            elif align == "edges":
                v = ((v + 1) * size - 1) / 2
            bad |= ~np.isfinite(v)
            taps.append(_taps(v, size, mode, border, align, axes))
        planes = x.reshape(n, c, math.prod(sizes))
        for combination in itertools.product(*taps):
            inside, offset, weight = np.ones_like(bad), np.zeros(bad.shape, np.int64), np.ones(bad.shape)
            for (place, factor), size in zip(combination, sizes, strict=True):
                inside &= (place >= 0) & (place < size)
                offset = offset * size + np.where((place >= 0) & (place < size), place, 0).astype(np.int64)
                weight = weight * factor
            if scale is not None:
                weight = weight * scale.reshape(n, total.shape[2])
            if planes.shape[2]:
                picked = np.take_along_axis(planes, np.where(inside, offset, 0)[:, None], 2)
                total += np.where(inside[:, None], picked * weight[:, None], 0)
    if axes == 2 and (mode == "bicubic" or (mode == "bilinear" and border == "zeros")):
        total = np.where(bad[:, None], np.nan, total)
    return total.reshape(n, c, *grid.shape[1:-1])


def _bin_weights(start: float, step: float, bins: int, size: int, ratio: int) -> list[tuple[int, Array]]:
    """The first pixel of each bin along an axis, and the weights of those from it on."""
    found = []
    count = ratio if ratio > 0 else math.ceil(step)
    for index in range(bins):
        first = start + index * step
        low, high = 0.0, float(count)
        if step > 0:  # only samples round the image, however long the region is
            low, high = (
                math.floor(min(max((edge - first) / step * count + more, 0.0), high))
                for edge, more in ((-1, -1), (size, 2))
            )
        at = first + (np.arange(low, high) + 0.5) * step / max(count, 1)
        at = np.clip(at[(at >= -1) & (at <= size)], 0, max(size - 1, 0))
        if not at.size or not size:
            found.append((0, np.zeros(0)))
            continue
        left = at.astype(np.int64)
        begin, weights = int(left.min()), np.zeros(int(left.max() - left.min()) + 2)
        np.add.at(weights, left - begin, (1 - (at - left)) / count)
        np.add.at(weights, left - begin + 1, (at - left) / count)
        found.append((begin, weights[: size - begin]))
    return found


def mean_regions(x: Array, regions: Array, bins: tuple[int, int], scale: float, ratio: int, aligned: bool) -> Array:
    """Means of bilinear samples in the cells of regions (image, x0, y0, x1, y1), as ``torchvision.ops.roi_align``."""
    y = np.zeros((len(regions), x.shape[1], *bins))
    for region, values in zip(regions, y, strict=True):
        image, corners = region[0], region[1:] * scale - (0.5 if aligned else 0.0)
        if not 0 <= image < len(x):
            raise IndexRangeError(int(image) if np.isfinite(image) else -1, len(x))
        lengths = corners[2:] - corners[:2]
        lengths = lengths if aligned else np.maximum(lengths, 1)
        if not np.isfinite(corners).all() or not np.isfinite(lengths).all():
            continue
        rows, columns = (
            _bin_weights(float(corners[k]), float(lengths[k]) / bins[1 - k], bins[1 - k], x.shape[3 - k], ratio)
            for k in (1, 0)
        )
        for (i, (top, down)), (j, (left, across)) in itertools.product(enumerate(rows), enumerate(columns)):
            part = x[int(image), :, top : top + len(down), left : left + len(across)]
            values[:, i, j] = np.einsum("i,cij,j->c", down, part, across)
    return y
