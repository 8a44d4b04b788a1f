"""Shapes that a file notes are compared with those that are found, at the sizes of the trace."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import pnnx_fast
from pnnx_fast.ops.registry import scoped
from pnnx_fast.ops.symbolic import Builder, Tensor

TEXT = """7767517
4 3
pnnx.Input x 0 1 x #x={given}f32
torch.flatten f 1 1 x a start_dim=0 end_dim=1 $input=x #x={given}f32 #a={noted}f32
nn.ReLU r 1 1 a y #a={noted}f32 #y={noted}f32
pnnx.Output o 1 0 y
"""


def test_a_contradiction_names_the_first_operator() -> None:
    model = pnnx_fast.Model(pnnx_fast.Graph.parse(TEXT.format(given="(2,3,4)", noted="(3,2,4)")))
    text = r"torch\.flatten f gives shape \[6, 4\] where the file notes \(3,2,4\)"
    with pytest.warns(UserWarning, match=text) as told:
        assert np.asarray(model(np.ones((2, 3, 4), np.float32))).shape == (6, 4)
    assert len(told) == 1


@pytest.mark.parametrize(
    "given, noted, size",
    [("(2,3,4)", "(6,4)", 2), ("(2,3,4)", "(5,4)", 5), ("(?,3,4)", "(7,4)", 2), ("(2,3,4)", "(?,4)", 2)],
)
def test_other_sizes_and_sizes_that_vary_are_no_contradiction(given: str, noted: str, size: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = pnnx_fast.Model(pnnx_fast.Graph.parse(TEXT.format(given=given, noted=noted)))
        assert np.asarray(model(np.ones((size, 3, 4), np.float32))).shape == (3 * size, 4)


def test_results_of_users_operators_are_theirs() -> None:
    graph = pnnx_fast.Graph.parse(TEXT.format(given="(2,3,4)", noted="(3,2,4)"))
    with warnings.catch_warnings(), scoped(_flat, "torch.flatten"):
        warnings.simplefilter("error")
        pnnx_fast.Model(graph)(np.ones((2, 3, 4), np.float32))


def _flat(b: Builder, input: Tensor, *, start_dim: int, end_dim: int) -> Tensor:
    return b.reshape(input, (24,))
