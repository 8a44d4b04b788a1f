"""Views of symbolic tensors mean what numpy's views mean."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pnnx_fast.errors import ShapeError
from pnnx_fast.ops.symbolic import Buffer, Tensor


def tensor(array: np.ndarray) -> Tensor:
    base = array.base if array.base is not None else array
    strides = [s // array.itemsize for s in array.strides]
    return Tensor(Buffer("const", base.nbytes, base), array.shape, array.dtype, strides)


@given(st.lists(st.integers(1, 4), min_size=1, max_size=4), st.randoms(), st.lists(st.integers(1, 8), max_size=5))
def test_view_agrees_with_numpy(shape: list[int], random: object, wanted: list[int]) -> None:
    dims = list(range(len(shape)))
    random.shuffle(dims)  # type: ignore[attr-defined]
    array = np.arange(np.prod(shape)).reshape(shape)
    moved = array.transpose(dims)
    size, target = int(array.size), []
    for n in wanted:
        target.append(int(np.gcd(size, n)))
        size //= target[-1]
    target.append(size)
    view = tensor(moved).view(target)
    if view is not None:
        np.testing.assert_array_equal(view.numpy(), moved.reshape(target))
    elif array.size:
        assert not np.shares_memory(moved.reshape(target), array)


def test_slices() -> None:
    array = np.arange(60).reshape(3, 4, 5)
    x = tensor(array)
    np.testing.assert_array_equal(x.narrow(1, 1, 2).numpy(), array[:, 1:3])
    np.testing.assert_array_equal(x.narrow(2, 0, 3, 2).numpy(), array[:, :, ::2])
    np.testing.assert_array_equal(x.select(0, 2).numpy(), array[2])
    np.testing.assert_array_equal(x.unsqueeze(1).expand((3, 2, 4, 5)).numpy()[:, 1], array)
    np.testing.assert_array_equal(x.permute([2, 0, 1]).numpy(), array.transpose(2, 0, 1))


@pytest.mark.parametrize("shape", [(2, 3, 4), (5, 2, 3, 4), (2, 7, 4), (2, 3), (3, 3, 4), (1, 3, 4), (0, 3, 4)])
@pytest.mark.parametrize("own", [(2, 3, 4), (2, 1, 4), (1, 1, 1), ()])
def test_a_tensor_tells_what_it_expands_to(own: tuple[int, ...], shape: tuple[int, ...]) -> None:
    x = tensor(np.zeros(own, np.float32))
    try:
        fits = x.expand(shape).shape == shape
    except ShapeError:
        fits = False
    assert x.expands_to(shape) == fits
