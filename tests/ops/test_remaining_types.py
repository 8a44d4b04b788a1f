"""Types whose results no golden can hold, for they are random or there is no PyTorch function of that name."""

from __future__ import annotations

import numpy as np
import pytest
from graph_of_one import call, run

from pnnx_fast.errors import ParameterError

X = np.random.default_rng(0).standard_normal((40, 50)).astype(np.float32)
NONE = (None,) * 4


@pytest.mark.parametrize(
    ("kind", "arguments"),
    [
        ("aten::rand", ([40, 50], *NONE)),
        ("aten::randn", ([40, 50], *NONE)),
        ("aten::randn_like", (X, *NONE, None)),
    ],
    ids=lambda v: v if isinstance(v, str) else "",
)
def test_random_by_position(kind: str, arguments: tuple[object, ...]) -> None:
    y = call(kind, arguments, 1)
    assert y.shape == (40, 50)
    assert y.dtype == np.float32
    assert abs(y.mean() - (0.5 if kind == "aten::rand" else 0)) < 0.1


@pytest.mark.parametrize("kind", ["torch.rand", "torch.randn"])
def test_random_by_name(kind: str) -> None:
    y = run(kind, size=(40, 50), dtype="torch.double")
    assert y.shape == (40, 50)
    assert y.dtype == np.float64
    assert abs(y.std() - (1 if kind == "torch.randn" else 12**-0.5)) < 0.1


def test_bernoulli() -> None:
    y = run("torch.bernoulli", np.full((40, 50), 0.25, np.float32))
    assert set(np.unique(y)) == {0.0, 1.0}
    assert abs(y.mean() - 0.25) < 0.1
    assert abs(run("torch.bernoulli", X, p=0.75).mean() - 0.75) < 0.1


def test_positions_without_a_function() -> None:
    i = np.arange(-6, 6)
    np.testing.assert_array_equal(call("aten::floordiv", (i, 4), 1), i // 4)
    np.testing.assert_allclose(call("aten::log_sigmoid", (X,), 1), -np.log1p(np.exp(-X.astype(np.float64))), 1e-5, 1e-6)
    np.testing.assert_array_equal(call("aten::copy_", (X, i[:1], False), 1), np.full(X.shape, -6, np.float32))
    q = call("aten::quantize_per_tensor", (X, 0.1, 3, 13), 1)
    np.testing.assert_allclose(q, (np.clip(np.rint(X / np.float32(0.1)) + 3, 0, 255) - 3) * 0.1, 1e-5, 1e-6)


def test_bits_of_floats_as_integers() -> None:
    i = np.array([0, 3, 70000], np.int32)
    np.testing.assert_array_equal(run("ncnn.Bits", i.view(np.float32)), i)


def test_rows_of_a_table_are_the_nearest() -> None:
    table = np.random.default_rng(2).standard_normal((5, 3)).astype(np.float32)
    index = np.array([[0, -7, 4], [9, 2, 5]])
    got = run("ncnn.Embed", index, weights={"weight": table})
    np.testing.assert_array_equal(got, table[np.clip(index, 0, 4)])


def test_numbers_of_padding_modes_of_convolutions() -> None:
    x = np.random.default_rng(1).standard_normal((1, 2, 4, 5, 6)).astype(np.float32)
    w = {"weight": np.ones((1, 2, 1, 1, 1), np.float32)}
    sizes = {"in_channels": 2, "out_channels": 1, "kernel_size": (1, 1, 1), "bias": False}
    y = run("nn.Conv3d", x, weights=w, padding=(0, 1, 2, 0, 1, 2), padding_mode="replicate", **sizes)
    want = np.pad(x.sum(1, keepdims=True), ((0, 0), (0, 0), (1, 2), (2, 0), (0, 1)), "edge")
    np.testing.assert_allclose(y, want, 1e-5, 1e-6)


def test_lists_of_one_count_as_the_tensor() -> None:
    import pnnx_fast

    text = """7767517
5 4
pnnx.Input x 0 1 x #x=(1,3,4)f32
torch.unbind u 1 1 x y dim=0 $input=x #x=(1,3,4)f32
pnnx.Expression e 1 1 y z expr=mul(@0,2)
torch.unsqueeze q 1 1 z w dim=0 $input=z
pnnx.Output o 1 0 w
"""
    x = X[:3, :4][None]
    np.testing.assert_array_equal(pnnx_fast.Model(pnnx_fast.Graph.parse(text))(x), 2 * x)


def test_a_boolean_that_was_lost_is_asked_for() -> None:
    mask = np.array([True, False])
    assert run("Tensor.fill", mask, value=1).all()
    with pytest.raises(ParameterError, match="which boolean"):
        run("Tensor.fill", mask, value=None)
