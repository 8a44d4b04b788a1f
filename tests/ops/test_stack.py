"""Tensors whose numbers alternate in the result: stacked along a new last dimension, or joined along one of size 1."""

from __future__ import annotations

import numpy as np
import pytest

from pnnx_fast import Graph, Model


def joined(kind: str, arrays: list[np.ndarray]) -> np.ndarray:
    count = len(arrays)
    inputs = "".join(f"pnnx.Input i{i} 0 1 x{i}\n" for i in range(count))
    names = " ".join(f"x{i}" for i in range(count))
    join = f"torch.{kind} join {count} 1 {names} y dim=-1\npnnx.Output o 1 0 y\n"
    return np.asarray(Model(Graph.parse(f"7767517\n{count + 2} {count + 1}\n{inputs}{join}"))(*arrays))


@pytest.mark.parametrize("dtype", ["f4", "i8", "u1", "f2", "c8", "?"])
@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 16, 17])
@pytest.mark.parametrize("shape", [(40, 30), (2, 3, 5, 41), (1300,), (7,)])
def test_numbers_that_alternate(dtype: str, count: int, shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(0)
    arrays = [(rng.standard_normal(shape) * 9).astype(dtype) for _ in range(count)]
    arrays[-1] = np.flip(arrays[-1], 0)
    want = np.stack(arrays, -1)
    np.testing.assert_array_equal(joined("stack", arrays), want)
    np.testing.assert_array_equal(joined("cat", [a[..., None] for a in arrays]), want)
