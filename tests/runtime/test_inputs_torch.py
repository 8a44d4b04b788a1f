"""Tensors of PyTorch as inputs, also such as numpy does not take: with a gradient, in bfloat16."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pnnx_fast
from pnnx_fast.errors import ShapeError

torch = pytest.importorskip("torch")

TEXT = """7767517
3 2
pnnx.Input  in  0 1 x #x=(2,3){dtype}
F.relu      act 1 1 x y
pnnx.Output out 1 0 y
"""
X = np.float32([[-1.5, 0, 1], [2, -3, 0.25]])  # bfloat16 has them all


def model(dtype: str = "f32") -> pnnx_fast.Model:
    return pnnx_fast.Model(pnnx_fast.Graph.parse(TEXT.format(dtype=dtype)), 1)


@pytest.mark.parametrize(
    "change",
    [
        lambda x: x,
        lambda x: x.requires_grad_(),
        lambda x: (x * 1.0).requires_grad_() * 1,
        torch.nn.Parameter,
        lambda x: x.bfloat16(),
        lambda x: x.bfloat16().requires_grad_(),
        lambda x: x.half(),
        lambda x: x.bfloat16().T.contiguous().T,
    ],
)
def test_tensors(change: Any) -> None:
    given = change(torch.from_numpy(X.copy()))
    for dtype in ("f32", "bf16"):
        np.testing.assert_array_equal(model(dtype)(given), np.maximum(X, 0))
        np.testing.assert_array_equal(model(dtype).run({"x": given})["y"], np.maximum(X, 0))


def test_a_wider_type_is_an_error_as_it_is_for_arrays() -> None:
    with pytest.raises(ShapeError, match=r"dtype of input 'x', convert it first: expected float32, got float64"):
        model()(torch.from_numpy(X).double())
    with pytest.raises(ShapeError, match="expected float16, got float32"):
        model("f16")(torch.from_numpy(X).bfloat16())
