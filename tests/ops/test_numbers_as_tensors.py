"""Constants of one element, which the converter writes as numbers, where operators join or widen tensors."""

from __future__ import annotations

import numpy as np
import pytest

from pnnx_fast import Graph, Model


@pytest.mark.parametrize(
    "line, wanted",
    [
        ("torch.cat op 2 1 x n y dim=0", [1.0, 2.0, 3.5]),
        ("torch.cat op 2 1 n x y dim=-1", [3.5, 1.0, 2.0]),
        ("Tensor.expand op 1 1 n y sizes=(2,3)", [[3.5] * 3] * 2),
        ("torch.unsqueeze op 1 1 n y dim=0", [3.5]),
        ("torch.stack op 2 1 n n y dim=0", [3.5, 3.5]),
        ("Tensor.type_as op 2 1 n x y", 3.5),
        ("aten::heaviside op 2 1 x n y", [1.0, 1.0]),
    ],
)
def test_numbers(line: str, wanted: list[float]) -> None:
    head = "7767517\n4 3\npnnx.Input x 0 1 x #x=(2)f32\npnnx.Expression c 0 1 n expr=3.5\n"
    got = Model(Graph.parse(f"{head}{line}\npnnx.Output o 1 0 y\n"))(np.float32([1, 2]))
    assert got.dtype == np.float32
    np.testing.assert_array_equal(got, wanted)
