"""Strided copies and fills against numpy."""

from __future__ import annotations

import numpy as np
import pytest
from guard import guarded
from strides import elements

from pnnx_fast._types import Array
from pnnx_fast.runtime.kernel import call


def copy(isa: str, x: Array, y: Array, threads: int = 1) -> None:
    xs, ys = elements(x), elements(y)
    call(isa, "copy", threads, x=x, y=y, itemsize=x.itemsize, rank=x.ndim, shape=x.shape, xs=xs, ys=ys)


def numbered(shape: tuple[int, ...], dtype: str = "f4") -> Array:
    return np.arange(np.prod(shape), dtype=np.int64).astype(dtype).reshape(shape)


@pytest.mark.parametrize("dtype", ["u1", "i2", "f4", "f8", "c16"])
@pytest.mark.parametrize("shape", [(1, 3, 7, 9), (2, 16, 17, 40), (1, 70, 9, 31)])
@pytest.mark.parametrize("threads", [1, 2])
def test_layout_change(isa: str, dtype: str, shape: tuple[int, ...], threads: int) -> None:
    x = numbered(shape, dtype)
    want = x.transpose(0, 2, 3, 1)
    y = np.empty(want.shape, dtype)
    copy(isa, want, y, threads)
    np.testing.assert_array_equal(y, want)


@pytest.mark.parametrize("rows", [1, 2, 3, 4, 5, 8, 15, 16, 17, 64, 65])
@pytest.mark.parametrize("cols", [1, 3, 4, 7, 8, 9, 16, 31, 130])
@pytest.mark.parametrize("gap", [0, 5])
def test_transpose_touches_nothing_else(isa: str, rows: int, cols: int, gap: int) -> None:
    x = numbered((rows, cols))
    frame = np.full((cols + 1, rows + gap), -1, "f4")
    y = frame[:cols, :rows]
    copy(isa, x.T, y)
    np.testing.assert_array_equal(y, x.T)
    frame[:cols, :rows] = -1
    assert (frame == -1).all()


@pytest.mark.parametrize("dtype", ["u1", "i2", "f4", "f8", "c16"])
@pytest.mark.parametrize("width", [1, 255, 256, 257, 40000])
@pytest.mark.parametrize("threads", [1, 2])
def test_rows_that_repeat_an_element(isa: str, dtype: str, width: int, threads: int) -> None:
    x = guarded(numbered((3, 2), dtype))
    frame = guarded(np.full((3, 2, width + 3), 7, "i8").astype(dtype))
    want = np.broadcast_to(x[..., None], (3, 2, width))
    copy(isa, want, frame[..., :width], threads)
    np.testing.assert_array_equal(frame[..., :width], want)
    assert (frame[..., width:] == np.asarray(7).astype(dtype)).all()
    y = guarded(np.full(width, 7, "i8").astype(dtype))
    copy(isa, np.broadcast_to(x[1, 1], (width,)), y, threads)
    np.testing.assert_array_equal(y, np.broadcast_to(x[1, 1], (width,)))


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 8, 31])
@pytest.mark.parametrize("gap", [0, 1, 2, 7])
@pytest.mark.parametrize("threads", [1, 3])
def test_pairs_that_lie_apart(isa: str, count: int, gap: int, threads: int) -> None:
    """What shuffles of pixels whose channels are neighbours do: pairs become planes, and planes pairs."""
    pairs = guarded(numbered((3, 5, count, gap + 2)))[..., gap:]
    y = guarded(np.empty((3, 2, 5, count), "f4"))
    copy(isa, pairs.transpose(0, 3, 1, 2), y, threads)
    np.testing.assert_array_equal(y, pairs.transpose(0, 3, 1, 2))
    frame = guarded(np.full((3, 5, count, gap + 2), -1, "f4"))
    back = frame[..., gap:]
    copy(isa, y.transpose(0, 2, 3, 1), back, threads)
    np.testing.assert_array_equal(back, pairs)
    assert (frame[..., :gap] == -1).all()


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize(
    "shape, dims",
    [
        ((2, 3, 4, 5, 6), (4, 2, 0, 3, 1)),
        ((1, 6, 1, 58, 7), (0, 4, 3, 1, 2)),
        ((40000,), (0,)),
        ((3, 5, 12, 8), (0, 2, 1, 3)),
        ((), ()),
    ],
)
def test_permutation(isa: str, threads: int, shape: tuple[int, ...], dims: tuple[int, ...]) -> None:
    want = numbered(shape).transpose(dims)
    y = np.empty(want.shape, "f4")
    copy(isa, want, y, threads)
    np.testing.assert_array_equal(y, want)


@pytest.mark.parametrize("itemsize", ["u1", "f4", "c16"])
def test_steps_broadcasts_and_reversals(isa: str, itemsize: str) -> None:
    x = numbered((6, 20, 9), itemsize)
    for view in (x[::2, 3:17:5], x[:, :, ::-1], x[::-1, ::2, 1:], np.broadcast_to(x[:, :1], (6, 4, 9))):
        y = np.empty(view.shape, itemsize)
        copy(isa, view, y)
        np.testing.assert_array_equal(y, view)


@pytest.mark.parametrize("itemsize", ["u1", "u2", "f4", "f8", "c16"])
def test_rows_backwards(isa: str, itemsize: str) -> None:
    for n in (1, 3, 4, 7, 8, 9, 16, 31, 32, 33, 64, 65, 100, 301):
        view = numbered((3, n), itemsize)[:, ::-1]
        y = np.empty(view.shape, itemsize)
        copy(isa, view, y)
        np.testing.assert_array_equal(y, view)


def test_empty(isa: str) -> None:
    x, y = np.empty((3, 0, 4), "f4"), np.empty((3, 0, 4), "f4")
    copy(isa, x.transpose(2, 1, 0), y.transpose(2, 1, 0))


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("dtype", ["u1", "i2", "f4", "f8", "c16"])
def test_fill(isa: str, dtype: str, threads: int) -> None:
    frame = np.zeros((5, 7, 9, 3), dtype)
    value = np.array([3], dtype)
    low, high = np.frombuffer(value.tobytes().ljust(16, b"\0"), "i8")
    for view in (frame[1:4, ::2, :, 1], frame[2], frame.transpose(3, 1, 0, 2)):
        frame[...] = 0
        want = frame.copy()
        skip = (view.__array_interface__["data"][0] - frame.__array_interface__["data"][0]) // frame.itemsize
        want_view = np.lib.stride_tricks.as_strided(want.reshape(-1)[skip:], view.shape, view.strides)
        want_view[...] = 3
        bits = {"bits": int(low), "bits_high": int(high), "itemsize": view.itemsize}
        call(isa, "fill", threads, y=view, rank=view.ndim, shape=view.shape, ys=elements(view), **bits)
        np.testing.assert_array_equal(frame, want)


@pytest.mark.parametrize("sizes", [(1, 5), (3, 4), (4, 3), (7, 9), (16, 130), (131, 66), (512, 20)])
@pytest.mark.parametrize("kind", ["f8", "c8", "i8"])
def test_planes_of_eight_bytes_are_turned(isa: str, sizes: tuple[int, int], kind: str) -> None:
    x = numbered((2, *sizes), kind)
    y = np.empty((2, *sizes[::-1]), kind)
    copy(isa, x.transpose(0, 2, 1), y)
    np.testing.assert_array_equal(y, x.transpose(0, 2, 1))


@pytest.mark.parametrize("dtype", ["u1", "i2", "f4", "f8", "c16"])
@pytest.mark.parametrize("step", [2, 3, -1, -2])
@pytest.mark.parametrize("width", [1, 2, 7, 8, 16, 33, 4500])
@pytest.mark.parametrize("threads", [1, 2])
def test_steps_within_rows(isa: str, dtype: str, step: int, width: int, threads: int) -> None:
    """The last element of a row may be the last one that can be read."""
    length = (width - 1) * abs(step) + 1
    x = guarded(numbered((2, 3, length), dtype))[..., ::step]
    y = guarded(np.zeros((2, 3, width), dtype))
    copy(isa, x, y, threads)
    np.testing.assert_array_equal(y, x)


@pytest.mark.parametrize("sizes", [(1, 5), (3, 4), (7, 9), (16, 130), (131, 66), (90, 90)])
@pytest.mark.parametrize("dtype", ["u1", "f4", "f8", "c16"])
@pytest.mark.parametrize("threads", [1, 3])
def test_quarter_turns(isa: str, sizes: tuple[int, int], dtype: str, threads: int) -> None:
    x = guarded(numbered((2, *sizes), dtype))
    for view in (x[:, :, ::-1], x[:, ::-1], x[:, ::-1, ::-1]):
        y = guarded(np.zeros((2, *sizes[::-1]), dtype))
        copy(isa, view.transpose(0, 2, 1), y, threads)
        np.testing.assert_array_equal(y, view.transpose(0, 2, 1))


@pytest.mark.parametrize("shape", [(70, 4000), (4000, 70), (520, 521)])
@pytest.mark.parametrize("threads", [1, 2])
def test_large_planes(isa: str, shape: tuple[int, int], threads: int) -> None:
    x = guarded(numbered(shape, "f4"))
    y = guarded(np.zeros(shape[::-1], "f4"))
    copy(isa, x.T, y, threads)
    np.testing.assert_array_equal(y, x.T)
