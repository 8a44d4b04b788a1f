"""quantize_int8 against numpy: halves, bounds, NaN, layouts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from guard import guarded
from numpy.typing import NDArray

from pnnx_fast.runtime.kernel import call

Array = NDArray[Any]


def rounded(x: Array) -> Array:
    with np.errstate(invalid="ignore"):
        whole = np.clip(np.trunc(x + np.copysign(0.5, x.astype(np.float64))), -127, 127)
        return np.where(np.isnan(x), -127, whole).astype(np.int8)


def run(isa: str, x: Array, scale: Array, threads: int = 1, order: tuple[int, ...] | None = None) -> Array:
    """Quantise to a tensor whose dimensions lie in memory in another order."""
    order = order or tuple(range(x.ndim))
    base = guarded(np.zeros([x.shape[d] for d in order], np.int8))
    y = base.transpose(np.argsort(order))
    steps = [s // 4 for s in x.strides]
    call(isa, "quantize_int8", threads, x=x, y=base, scale=scale, scales=scale.size, rank=x.ndim, shape=x.shape,
         xs=steps, ys=y.strides)  # fmt: skip
    return y


def test_halves_bounds_and_numbers_that_are_none(isa: str) -> None:
    x = np.float32(
        [0.5, -0.5, 1.5, -1.5, 0.49999997, 2.4999998, -0.0, 126.5, 127.5, 1e9, -1e9, np.inf, -np.inf, np.nan]
    )
    one = np.ones(1, np.float32)
    want = [1, -1, 2, -2, 0, 2, 0, 127, 127, 127, -127, 127, -127, -127]
    assert run(isa, x, one).tolist() == want
    for i in range(len(x)):
        assert run(isa, x[i : i + 1].copy(), one).tolist() == want[i : i + 1]


def test_all_halves_and_their_neighbours(isa: str) -> None:
    halves = np.arange(-128.5, 129, dtype=np.float32)
    near = [halves, np.nextafter(halves, np.float32(0)), np.nextafter(halves, np.copysign(np.float32(np.inf), halves))]
    x = np.concatenate(near).astype(np.float32)
    np.testing.assert_array_equal(run(isa, x, np.ones(1, np.float32)), rounded(x))


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("n", [1, 3, 16, 17, 63, 100, 20000])
def test_lengths(isa: str, n: int, threads: int) -> None:
    x = guarded(np.random.default_rng(n).standard_normal((3, n)).astype(np.float32))
    np.testing.assert_array_equal(run(isa, x, np.float32([40]), threads), rounded(x * np.float32(40)))
    scale = np.linspace(1, 90, n, dtype=np.float32)
    if n > 1:
        np.testing.assert_array_equal(run(isa, x, scale, threads), rounded(x * scale))


@pytest.mark.parametrize("channels", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("pixels", [1, 2, 4, 5, 9, 15, 16, 17, 18, 19, 40, 8191, 8192, 8209, 20000])
def test_planes_become_pixels(isa: str, pixels: int, channels: int) -> None:
    x = np.random.default_rng(0).standard_normal((2, channels, pixels)).astype(np.float32)
    for threads in (1, 3):
        got = run(isa, x, np.float32([50]), threads, (0, 2, 1))
        np.testing.assert_array_equal(got, rounded(x * np.float32(50)))


@pytest.mark.parametrize("order", [(0, 1, 2), (0, 2, 1), (2, 0, 1), (1, 2, 0)])
def test_orders_of_memory(isa: str, order: tuple[int, ...]) -> None:
    x = np.random.default_rng(0).standard_normal((4, 5, 19)).astype(np.float32)
    want = rounded(x * np.float32(50))
    np.testing.assert_array_equal(run(isa, x, np.float32([50]), 2, order), want)
    moved = np.ascontiguousarray(x.transpose(order)).transpose(np.argsort(order))
    np.testing.assert_array_equal(run(isa, moved, np.float32([50]), 1, order), want)
    scale = np.linspace(1, 90, 19, dtype=np.float32)
    np.testing.assert_array_equal(run(isa, x, scale, 2, order), rounded(x * scale))
