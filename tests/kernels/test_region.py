"""Pooling over regions against a loop over bins and samples: all kinds, odd regions, several images, ISA levels."""

from __future__ import annotations

import math

import numpy as np
import pytest
from guard import guarded

from pnnx_fast._core.program import codes
from pnnx_fast._types import Array
from pnnx_fast.errors import IndexRangeError
from pnnx_fast.runtime.kernel import call, plan

F = np.float32
KINDS = codes("region")
IMAGE = np.random.default_rng(0).standard_normal((3, 13, 37)).astype(F)
REGIONS = [(3, 2, 20, 9), (-8, -3, 6, 4), (30, 10, 60, 40), (4.3, 1.2, 33.7, 11.9), (5, 5, 5, 5), (50, 50, 60, 60)]


def pool(
    isa: str, kind: str, x: Array, regions: Array, bins: tuple[int, int], scale: float, threads: int = 1,
    ratio: int = 0, aligned: bool = False,
) -> Array:  # fmt: skip
    n, c, h, w = x.shape
    channels = c // math.prod(bins) if kind == "places" else c
    y = guarded(np.full((len(regions), channels, *bins), np.nan, F))
    fields = {"n": n, "c": channels, "h": h, "w": w, "bins_h": bins[0], "bins_w": bins[1], "regions_n": len(regions)}
    fields |= {"indexed": int(regions.shape[1] == 5), "kind": KINDS[kind], "ratio": ratio, "aligned": int(aligned)}
    fields |= {"scale": scale, "variant": -1}
    scratch = guarded(np.empty(plan(isa, "region_pool_f32", threads, **fields)[2], np.uint8))
    given = {"x": guarded(x), "regions": guarded(regions.astype(F))}
    call(isa, "region_pool_f32", threads, **given, y=y, scratch=scratch, **fields)
    return np.asarray(y)


def rounded(v: F) -> float:
    return float(np.trunc(v + np.copysign(F(0.5), v)))


def whole_bins(kind: str, low: F, high: F, count: int, size: int, scale: float) -> list[slice]:
    """Pixels of each bin."""
    if kind == "maximum":
        start = F(rounded(F(low * F(scale))))
        step = F(max(rounded(F(high * F(scale))) - start + 1, 1)) / F(count)
        ends = [(start + np.floor(F(i) * step), start + np.ceil(F(i + 1) * step)) for i in range(count)]
    else:
        start = F(rounded(low)) * F(scale)
        step = max(F(rounded(high + F(1))) * F(scale) - start, F(0.1)) / F(count)
        ends = [(np.floor(start + F(i) * step), np.ceil(start + F(i + 1) * step)) for i in range(count)]
    return [slice(*(int(np.clip(v, 0, size)) for v in pair)) for pair in ends]


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("scale", [1.0, 0.5, 0.0625])
@pytest.mark.parametrize("bins", [(1, 1), (7, 7), (3, 5)])
def test_whole_pixels(isa: str, bins: tuple[int, int], scale: float, threads: int) -> None:
    rows, columns = bins
    many = np.random.default_rng(1).standard_normal((1, 2 * rows * columns, 13, 37)).astype(F)
    for region in np.array(REGIONS, F) / F(scale):
        for kind, x in (("maximum", IMAGE[None]), ("places", many)):
            ys = whole_bins(kind, region[1], region[3], rows, 13, scale)
            xs = whole_bins(kind, region[0], region[2], columns, 37, scale)
            got = pool(isa, kind, x, region[None], bins, scale, threads)[0]
            maps = x[0] if kind == "maximum" else x[0].reshape(2, rows, columns, 13, 37)
            for i, j in np.ndindex(bins):
                part = maps[:, ys[i], xs[j]] if kind == "maximum" else maps[:, i, j, ys[i], xs[j]]
                want = (
                    (part.max((1, 2)) if kind == "maximum" else part.mean((1, 2))) if part.size else np.zeros(len(maps))
                )
                np.testing.assert_allclose(got[:, i, j], want, 1e-5, 1e-5)


def sampled(image: Array, y: float, x: float) -> Array:
    """Values between pixels; beyond the last pixel it is that pixel."""
    _, h, w = image.shape
    top, left = min(int(y), h - 1), min(int(x), w - 1)
    fy, fx = (y - top if top < h - 1 else 0.0), (x - left if left < w - 1 else 0.0)
    below, right = min(top + 1, h - 1), min(left + 1, w - 1)
    upper = image[:, top, left] * (1 - fx) + image[:, top, right] * fx
    lower = image[:, below, left] * (1 - fx) + image[:, below, right] * fx
    mixed: Array = upper * (1 - fy) + lower * fy
    return mixed


def positions(kind: str, start: F, step: F, i: int, size: int, ratio: int) -> list[float | None]:
    """Samples of a bin along an axis; None for those that count as 0."""
    if kind == "cut bins":
        low, high = (min(max(float(start + F(k) * step), 0.0), size) for k in (i, i + 1))
        if high <= low:
            return []
        count = ratio or math.ceil(high - low)
        return [low + (k + 0.5) * float(step) / count for k in range(count)]
    count = ratio or math.ceil(step)
    found = [float(start + F(i) * step) + (k + 0.5) * float(step) / count for k in range(count)]
    return [max(v, 0.0) if -1 <= v <= size else None for v in found]


@pytest.mark.parametrize("aligned", [False, True])
@pytest.mark.parametrize("ratio", [0, 2, 3])
@pytest.mark.parametrize("kind", ["cut bins", "equal bins"])
def test_samples(isa: str, kind: str, ratio: int, aligned: bool) -> None:
    bins, scale = (4, 5), 0.5
    for region in np.array(REGIONS, F) / F(scale):
        got = pool(isa, kind, IMAGE[None], region[None], bins, scale, 1, ratio, aligned)[0]
        low, high = (region[k : k + 2] * F(scale) - F(0.5 if aligned else 0) for k in (0, 2))
        size = high - low if aligned else np.maximum(high - low, F(1))
        for i, j in np.ndindex(bins):
            ys = positions(kind, low[1], F(size[1] / bins[0]), i, 13, ratio)
            xs = positions(kind, low[0], F(size[0] / bins[1]), j, 37, ratio)
            total = np.zeros(3)
            for y in ys:
                for x in xs:
                    total += sampled(IMAGE, y, x) if y is not None and x is not None else 0
            np.testing.assert_allclose(got[:, i, j], total / max(len(ys) * len(xs), 1), 1e-4, 1e-4)


def test_several_images(isa: str) -> None:
    x = np.random.default_rng(2).standard_normal((3, 2, 9, 11)).astype(F)
    regions = np.array([[2, 1, 1, 8, 7], [0, 0, 0, 5, 8], [2, 1, 1, 8, 7]], F)
    got = pool(isa, "equal bins", x, regions, (2, 3), 1.0, 2)
    for y, (image, *region) in zip(got, regions, strict=True):
        want = pool(isa, "equal bins", x[int(image)][None], np.array([region], F), (2, 3), 1.0)[0]
        np.testing.assert_array_equal(y, want)


@pytest.mark.parametrize("kind", ["maximum", "places", "cut bins", "equal bins"])
def test_regions_of_any_numbers(isa: str, kind: str) -> None:
    x = IMAGE[None, :2]
    odd = (np.nan, np.inf, -np.inf, F(3e38), F(-3e38), 1e9, -7.0, 4.0)
    regions = np.array(np.meshgrid(odd, odd[::-1], odd, odd[::-1]), F).reshape(4, -1).T
    for ratio in (0, 2):
        for aligned in (False, True):
            y = pool(isa, kind, x, regions, (2, 1), 0.5, ratio=ratio, aligned=aligned)
            assert np.isfinite(y).all()
            assert np.abs(y).max() < 100


def test_sizes_that_floats_round_up(isa: str) -> None:
    size = (1 << 24) + 3
    assert int(F(size)) > size
    line = np.zeros((1, 1, 1, size), F)
    line[..., -1] = 2
    got = pool(isa, "maximum", line, np.array([[0, 0, size, 1]], F), (1, 1), 1.0)
    assert got.item() == 2
    with pytest.raises(IndexRangeError):
        pool(isa, "maximum", line.reshape(size, 1, 1, 1), np.array([[size, 0, 0, 1, 1]], F), (1, 1), 1.0)
