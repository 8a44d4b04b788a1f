"""Copies of tensors with more dimensions than kernels know."""

from __future__ import annotations

import numpy as np
import pytest
from graph_of_one import run

from pnnx_fast.errors import ShapeError


@pytest.mark.parametrize(
    ("shape", "sizes"),
    [
        ((1, 2, 2, 2, 2), (2,) * 5),
        ((2,) * 5, (2,) * 5),
        ((2, 3, 1, 2, 2, 3), (2, 3, 2, 2, 2, 2)),
        ((0, 2, 2, 2, 2), (2,) * 5),
    ],
)
def test_repeated_along_many_dimensions(shape: tuple[int, ...], sizes: tuple[int, ...]) -> None:
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    np.testing.assert_array_equal(run("Tensor.repeat", x, sizes=sizes), np.tile(x, sizes))


def test_turned_about() -> None:
    x, order = np.arange(1024.0).reshape((2,) * 10), (9, 1, 7, 3, 5, 4, 6, 2, 8, 0)
    np.testing.assert_array_equal(run("Tensor.permute", x, dims=order), x.transpose(order))


def test_too_many() -> None:
    with pytest.raises(ShapeError, match="more than 8 unmergeable dimensions"):
        run("Tensor.permute", np.zeros((2,) * 18, np.int8), dims=tuple(reversed(range(18))))
