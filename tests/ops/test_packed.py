"""Packed sequences of several lengths: what does not fit is an error that names the operator."""

from __future__ import annotations

from typing import Any

import graph_of_one
import numpy as np
import pytest

from pnnx_fast.errors import ParameterError, ShapeError

X = np.zeros((4, 3, 5), np.float32)
DATA, H = np.zeros((6, 5), np.float32), np.zeros((1, 3, 2), np.float32)


@pytest.mark.parametrize("lengths", [[1, 2, 3], [5, 2, 1], [3, 2, 0], [3, -1, -1]])
def test_lengths_that_do_not_fit(lengths: list[int]) -> None:
    with pytest.raises(ParameterError, match="the longest first"):
        graph_of_one.call("aten::_pack_padded_sequence", (X, np.array(lengths), False), 2)


@pytest.mark.parametrize("lengths", [np.array([3, 2]), np.array([[3, 2, 1]]), np.float32([3, 2, 1])])
def test_not_a_length_for_each(lengths: np.ndarray) -> None:
    with pytest.raises(ShapeError, match="a length for each sequence"):
        graph_of_one.call("aten::_pack_padded_sequence", (X, lengths, False), 2)


@pytest.mark.parametrize("sizes", [[3, 2], [2, 3, 1], [7, -1], [6, 0], []])
def test_sizes_of_steps_that_do_not_fit(sizes: list[int]) -> None:
    with pytest.raises(ShapeError, match="the sizes of steps do not fit"):
        graph_of_one.call("aten::_pad_packed_sequence", (DATA, np.array(sizes, np.int64), False, 0.0, -1), 2)


def test_a_total_length_that_the_converters_run_left_is_none() -> None:
    y, lengths = graph_of_one.call("aten::_pad_packed_sequence", (DATA, np.array([3, 2, 1]), True, 0.0, 1), 2)
    assert y.shape == (3, 3, 5)
    np.testing.assert_array_equal(lengths, [3, 2, 1])


@pytest.mark.parametrize("states", [np.zeros(shape, np.float32) for shape in ((2, 3, 2), (1, 2), (1, 1, 2), (1, 4, 2))])
def test_states_that_do_not_fit(states: np.ndarray) -> None:
    weights: list[Any] = [np.zeros(shape, np.float32) for shape in ((6, 5), (6, 2), (6,), (6,))]
    values = (DATA, np.array([3, 2, 1]), states, weights, True, 1, 0.0, False, False)
    with pytest.raises(ShapeError, match="initial state"):
        graph_of_one.call("aten::gru", values, 2)


def test_projections_are_refused() -> None:
    weights: list[Any] = [np.zeros(shape, np.float32) for shape in ((8, 5), (8, 1), (1, 2))]
    values = (DATA, np.array([3, 2, 1]), [H[..., :1], H], weights, False, 1, 0.0, False, False)
    with pytest.raises(ParameterError, match="projections"):
        graph_of_one.call("aten::lstm", values, 3)
