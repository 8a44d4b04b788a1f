"""Padding, resampling by tables and grid sampling against numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from guard import guarded
from strides import elements

from pnnx_fast._core.program import codes
from pnnx_fast._types import Array
from pnnx_fast.runtime.kernel import call

PADS = codes("pad")


def grid_codes(mode: str, border: str, align: str = "edges") -> dict[str, int]:
    return {"mode": codes("sample")[mode], "border": codes("border")[border], "align": codes("align")[align]}


def channels_last(x: Array, gap: int) -> Array:
    """The same values with the channels innermost and a gap behind each pixel."""
    frame = np.full((x.shape[0], *x.shape[2:], x.shape[1] + gap), -7, x.dtype)
    frame[..., : x.shape[1]] = np.moveaxis(x, 1, -1)
    return np.moveaxis(frame[..., : x.shape[1]], -1, 1)


@pytest.mark.parametrize(
    "mode, name", [("constant", "constant"), ("reflect", "reflect"), ("replicate", "edge"), ("circular", "wrap")]
)
@pytest.mark.parametrize("dtype", ["u1", "f4", "c16"])
@pytest.mark.parametrize("threads", [1, 2])
def test_pad(isa: str, mode: str, name: str, dtype: str, threads: int) -> None:
    x = np.random.default_rng(1).integers(0, 100, (3, 4, 5, 6)).astype(dtype)
    low, high = np.frombuffer(np.array(9, dtype).tobytes().ljust(16, b"\0"), "i8").tolist()
    for sides in ([(1, 2), (0, 0), (2, 1), (3, 0)], [(0, 0), (2, 2), (1, 3), (0, 0)], [(0, 1), (0, 0), (0, 0), (0, 0)]):
        want = np.pad(x, sides, name, **({"constant_values": 9} if mode == "constant" else {}))  # type: ignore[call-overload]
        for y in (np.empty(want.shape, dtype), np.empty(want.shape[::-1], dtype).transpose()):
            call(
                isa, "pad", threads, x=x, y=y, itemsize=x.itemsize, rank=4, shape=want.shape, isize=x.shape,
                before=[p for p, _ in sides], xs=elements(x), ys=elements(y), mode=PADS[mode], bits=low, bits_high=high,
            )  # fmt: skip
            np.testing.assert_array_equal(y, want)


def tables(rng: np.random.Generator, isize: tuple[int, ...], osize: tuple[int, ...], taps: tuple[int, ...]) -> Any:
    index = [rng.integers(0, n, (o, t)) for n, o, t in zip(isize, osize, taps, strict=True)]
    weight = [rng.standard_normal((o, t)).astype("f4") for o, t in zip(osize, taps, strict=True)]
    return index, weight


@pytest.mark.parametrize("taps", [(1, 1, 1), (1, 2, 2), (2, 2, 2), (1, 4, 4), (1, 1, 9), (1, 70, 2), (3, 50, 1)])
@pytest.mark.parametrize("channels", [1, 3, 17, 70])
@pytest.mark.parametrize("weighted", [True, False])
def test_resize(isa: str, taps: tuple[int, ...], channels: int, weighted: bool) -> None:
    if not weighted:
        taps = (1, 1, 1)
    rng = np.random.default_rng(2)
    isize, osize = (3, 5, 7), (2, 6, 9)
    index, weight = tables(rng, isize, osize, taps)
    x = rng.standard_normal((2, channels, *isize)).astype("f4")
    want = x.astype("f8")
    for axis in range(3):
        picked = np.take(want, index[axis], axis + 2)
        shape = (*index[axis].shape, *[1] * (2 - axis))
        want = (picked * (weight[axis].reshape(shape) if weighted else 1)).sum(axis + 3)
    flat_index = np.concatenate([i.reshape(-1) for i in index])
    flat_weight = np.concatenate([w.reshape(-1) for w in weight]) if weighted else None
    for last in (False, True):
        for threads in (1, 2):
            given = channels_last(x, 3) if last else x
            y = channels_last(np.zeros(want.shape, "f4"), 1) if last else np.empty(want.shape, "f4")
            call(
                isa, "resize", threads, x=given, index=flat_index, weight=flat_weight, y=y, n=2, c=channels,
                isize=isize, osize=osize, taps=taps, xs=elements(given), ys=elements(y),
            )  # fmt: skip
            np.testing.assert_allclose(y, want, 1e-5, 1e-5)


@pytest.mark.parametrize("taps", [0, 1, 2, 3, 4])
@pytest.mark.parametrize("width, outputs", [(5, 37), (64, 64), (33, 127), (101, 300), (4096, 4097), (60, 17)])
def test_lines(isa: str, taps: int, width: int, outputs: int) -> None:
    """Taps that move along the line, as those of real modes do; none: single ones without weights."""
    rng = np.random.default_rng(6)
    first = np.arange(outputs) * width // outputs
    index = np.minimum(first[:, None] + np.arange(max(taps, 1)), width - 1)
    weight = rng.standard_normal(index.shape).astype("f4") if taps else np.ones(index.shape, "f4")
    x, y = rng.standard_normal((1, 2, 1, 2, width)).astype("f4"), np.empty((1, 2, 1, 2, outputs), "f4")
    call(
        isa, "resize", 2, x=x, index=np.concatenate([[0, 1, 0], index.reshape(-1)]), y=y, n=1, c=2,
        weight=np.concatenate([np.ones(3, "f4"), weight.reshape(-1)]) if taps else None, isize=(1, 2, width),
        osize=(1, 2, outputs), taps=(1, 1, max(taps, 1)), xs=elements(x), ys=elements(y),
    )  # fmt: skip
    want = (x[..., index].astype("f8") * weight).sum(-1)[..., ::-1, :]
    np.testing.assert_allclose(y, want, 1e-5, 1e-5)


@pytest.mark.parametrize("channels", [1, 3, 20])
@pytest.mark.parametrize("axes", [2, 3])
def test_linear_grid(isa: str, channels: int, axes: int) -> None:
    rng = np.random.default_rng(3)
    isize, osize = ((1, 5, 7), (1, 4, 6)) if axes == 2 else ((4, 5, 7), (3, 4, 6))
    x = rng.standard_normal((2, channels, *isize)).astype("f4")
    grid = guarded(rng.uniform(-1.3, 1.3, (2, *osize, axes)).astype("f4"))
    want = np.zeros((2, channels, *osize))
    sizes = np.array(isize[3 - axes :])
    places = (grid[..., ::-1].astype("f8") + 1) / 2 * (sizes - 1)
    for n, d, h, w in np.ndindex(2, *osize):
        low = np.floor(places[n, d, h, w]).astype(int)
        part = places[n, d, h, w] - low
        for corner in np.ndindex(*[2] * axes):
            at = low + corner
            if (at >= 0).all() and (at < sizes).all():
                where = (n, slice(None), *([0] * (3 - axes)), *at)
                want[n, :, d, h, w] += np.prod(np.where(corner, part, 1 - part)) * x[where]
    for last in (False, True):
        given = channels_last(x, 2) if last else x
        y = channels_last(np.zeros(want.shape, "f4"), 1) if last else np.empty(want.shape, "f4")
        call(
            isa, "grid_sample", 2, x=given, grid=grid, y=y, n=2, c=channels, axes=axes, isize=isize, osize=osize,
            xs=elements(given), ys=elements(y), gs=elements(grid), **grid_codes("bilinear", "zeros", "centres"),
            scale=None, ss=[0] * 4,
        )  # fmt: skip
        np.testing.assert_allclose(y, want, 1e-4, 1e-4)


@pytest.mark.parametrize("mode", codes("sample"))
@pytest.mark.parametrize("border", codes("border"))
@pytest.mark.parametrize("osize", [(1, 3, 67), (1, 41, 2), (2, 5, 9)])
@pytest.mark.parametrize("scaled", [False, True])
def test_grid_of_planes(isa: str, mode: str, border: str, osize: tuple[int, ...], scaled: bool) -> None:
    """Few channels, side by side or strided, have the values that they have among many."""
    rng = np.random.default_rng(5)
    x = rng.standard_normal((2, 8, 1, 5, 7)).astype("f4")
    grid, scale = rng.uniform(-1.3, 1.3, (2, *osize, 2)).astype("f4"), rng.standard_normal((2, *osize)).astype("f4")
    steps = [scale.strides[k] // 4 for k in range(4)]

    def sample(x: Array, y: Array, grid: Array) -> Array:
        call(
            isa, "grid_sample", 2, x=x, grid=grid, y=y, n=2, c=x.shape[1], axes=2, isize=(1, 5, 7), osize=osize,
            xs=elements(x), ys=elements(y), gs=elements(grid), **grid_codes(mode, border),
            scale=scale if scaled else None, ss=steps,
        )  # fmt: skip
        return y

    want = sample(channels_last(x, 0), channels_last(np.zeros((2, 8, *osize), "f4"), 0), grid)
    apart = np.moveaxis(np.ascontiguousarray(np.moveaxis(grid, -1, 1)), 1, -1)
    for c in (1, 2, 3, 4, 7):
        shape = (2, c, *osize)
        for y in (np.empty(shape, "f4"), channels_last(np.zeros(shape, "f4"), 0), np.empty((*shape, 3), "f4")[..., 1]):
            got = sample(np.ascontiguousarray(x[:, :c]), y, grid if y.flags.c_contiguous else apart)
            np.testing.assert_allclose(got, want[:, :c], 1e-5, 1e-5)


@pytest.mark.parametrize("mode", codes("sample"))
@pytest.mark.parametrize("border", ["zeros", "border"])
@pytest.mark.parametrize("channels", [5, 7, 8, 9, 12, 16, 17, 31, 36, 65, 130])
def test_grid_of_many_channels(isa: str, mode: str, border: str, channels: int) -> None:
    """Any number of vectors gives each channel what it has alone, and writes to nothing else."""
    rng = np.random.default_rng(6)
    x = rng.standard_normal((1, channels, 1, 5, 7)).astype("f4")
    x[:, :, :, 2, 3], grid = np.inf, rng.uniform(-1.3, 1.3, (1, 1, 9, 8, 2)).astype("f4")

    def sample(x: Array, y: Array) -> Array:
        call(
            isa, "grid_sample", 2, x=x, grid=grid, y=y, n=1, c=x.shape[1], axes=2, isize=(1, 5, 7), osize=(1, 9, 8),
            xs=elements(x), ys=elements(y), gs=elements(grid), **grid_codes(mode, border),
            scale=None, ss=[0] * 4,
        )  # fmt: skip
        return y

    want = np.concatenate([sample(x[:, [c]], np.empty((1, 1, 1, 9, 8), "f4")) for c in range(channels)], 1)
    frame = np.moveaxis(channels_last(np.full((1, channels + 3, 1, 9, 8), -9, "f4"), 0), 1, -1)
    last = guarded(np.ascontiguousarray(np.moveaxis(x, 1, -1)))
    got = sample(np.moveaxis(last, -1, 1), np.moveaxis(frame[..., :channels], -1, 1))
    np.testing.assert_allclose(got, want, 1e-5, 1e-5)
    assert (frame[..., channels:] == -9).all()


@pytest.mark.parametrize("channels", [2, 37])
def test_grid_of_scaled_pixels(isa: str, channels: int) -> None:
    """Places that count pixels, in a dimension more than the image has, and a factor for each."""
    rng = np.random.default_rng(4)
    x = channels_last(rng.standard_normal((2, channels, 1, 6, 7)).astype("f4"), 1)
    rows, columns = rng.integers(-1, 7, (2, 3, 5, 4)), rng.integers(-1, 8, (2, 3, 5, 4))
    grid, scale = np.stack([columns, rows], -1).astype("f4"), rng.standard_normal((2, 3, 5, 4)).astype("f4")
    inside = (rows >= 0) & (rows < 6) & (columns >= 0) & (columns < 7)
    want = np.stack([v[:, 0, r % 6, c % 7] for v, r, c in zip(x, rows, columns, strict=True)])
    y = channels_last(np.empty(want.shape, "f4"), 0)
    call(
        isa, "grid_sample", 2, x=x, grid=grid, y=y, n=2, c=channels, axes=2, isize=(1, 6, 7), osize=(3, 5, 4),
        xs=elements(x), ys=elements(y), gs=elements(grid),
        **grid_codes("bilinear", "zeros", "pixels"), scale=scale, ss=elements(scale),
    )  # fmt: skip
    np.testing.assert_allclose(y, np.where(inside, want.swapaxes(0, 1) * scale, 0).swapaxes(0, 1), 1e-6, 1e-6)


@pytest.mark.parametrize("axes", [2, 3])
def test_grid_of_nan_and_infinity(isa: str, axes: int) -> None:
    """As in PyTorch: weights of planes are NaN, unless a border or the nearest pixel stands in."""
    x, y = np.arange(16, dtype="f4").reshape(1, 1, 1, 4, 4), np.full((1, 1, 1, 1, 4), -1, "f4")
    places = [[np.nan, 0], [np.inf, 0], [1e30, 0], [0, -np.inf]]
    grid = np.array([[*place, *[0] * (axes - 2)] for place in places], "f4").reshape(1, 1, 1, 4, axes)
    strides = elements(grid)
    nan = np.nan if axes == 2 else 0
    wanted = {
        ("bilinear", "zeros"): [nan, nan, 0, nan],
        ("nearest", "zeros"): [0, 0, 0, 0],
        ("nearest", "border"): [8 if axes == 2 else 11, 11, 11, 2],
        **({("bicubic", border): [nan, nan, None, nan] for border in codes("border")} if axes == 2 else {}),
    }
    for (mode, border), want in wanted.items():
        call(
            isa, "grid_sample", x=x, grid=grid, y=y, n=1, c=1, axes=axes, isize=(1, 4, 4), osize=(1, 1, 4),
            xs=elements(x), ys=elements(y), gs=strides, **grid_codes(mode, border), scale=None,
            ss=[0] * 4,
        )  # fmt: skip
        for got, value in zip(y.reshape(-1), want, strict=True):
            assert value is None or got == value or (np.isnan(got) and np.isnan(value)), (mode, border, y)
