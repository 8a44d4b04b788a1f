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


@pytest.mark.parametrize(
    ("kind", "arguments", "dtype", "mean", "deviation"),
    [
        ("aten::rand_like", (X, *NONE, None), "f4", 0.5, 12**-0.5),
        ("aten::rand_like", (X, 7, *NONE), "f8", 0.5, 12**-0.5),
        ("aten::randint_like", (X, 5, *NONE, None), "f4", 2, 2**0.5),
        ("aten::randint_like", (X, 3, 8, 4, *NONE), "i8", 5, 2**0.5),
        ("aten::randint", (5, [40, 50], *NONE), "i8", 2, 2**0.5),
        ("aten::randint", (3, 8, [40, 50], 3, *NONE[1:]), "i4", 5, 2**0.5),
        ("aten::uniform", (X, -1, 3, None), "f4", 1, 4 * 12**-0.5),
        ("aten::exponential", (X, 4, None), "f4", 0.25, 0.25),
        ("aten::normal", (X * 0, 2.0, None), "f4", 0, 2),
        ("aten::normal", (1.0, X * 0 + 2, None), "f4", 1, 2),
        ("aten::normal", (X * 0 + 1, X * 0 + 2, None), "f4", 1, 2),
        ("aten::normal", (X, 3.0, 2.0, None), "f4", 3, 2),
        ("aten::normal", (3.0, 2.0, [40, 50], None, 7, *NONE[1:]), "f8", 3, 2),
        ("aten::poisson", (X * 0 + 4, None), "f4", 4, 2),
        ("aten::multinomial", (np.ones((40, 100)), 50, False, None), "i8", 49.5, 28.9),
        ("aten::multinomial", (np.ones((40, 100), np.float32), 50, True, None), "i8", 49.5, 28.9),
    ],
    ids=lambda v: v if isinstance(v, str) else "",
)
def test_drawn_numbers(kind: str, arguments: tuple[object, ...], dtype: str, mean: float, deviation: float) -> None:
    y = call(kind, arguments, 1)
    assert y.shape == (40, 50)
    assert y.dtype == dtype
    assert abs(y.mean() - mean) < 0.15 * deviation
    assert abs(y.std() - deviation) < 0.15 * deviation


def test_drawn_indices() -> None:
    weights = np.float32([[0, 3, 0, 1, 0], [1, 0, 0, 0, 1]])
    both = call("aten::multinomial", (weights, 2, False, None), 1)
    np.testing.assert_array_equal(np.sort(both), [[1, 3], [0, 4]])
    many = call("aten::multinomial", (weights[0], 4000, True, None), 1)
    np.testing.assert_allclose(np.bincount(many, minlength=5), 4000 * weights[0] / 4, atol=150)
    np.testing.assert_array_equal(np.sort(call("aten::randperm", (50, *NONE), 1)), np.arange(50))
    with pytest.raises(ParameterError, match="6 of 5"):
        call("aten::multinomial", (weights, 6, False, None), 1)


def test_normal_numbers_fill_a_tensor() -> None:
    y = run("torch.normal", np.full((40, 50), 1000.0), mean=1.0, std=0.5)
    assert y.dtype == np.float64
    assert abs(y.mean() - 1) < 0.1
    assert abs(y.std() - 0.5) < 0.1


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


def test_numbers_that_are_no_dtypes() -> None:
    """With all arguments, devices, layouts and memory formats follow the dtype, which may be none."""
    for rest in ((None, 0, "cpu", False, False, False, None), (None, None, None, None, False, False, 2)):
        assert call("aten::to", (X, *rest), 1).dtype == np.float32
    assert call("aten::to", (X, 7, 0, "cpu", False, False, False, None), 1).dtype == np.float64


def test_values_that_broadcast_to_indices_are_added_one_by_one() -> None:
    places = [np.array([[0, 1, 0], [1, 0, 0]])]
    y = call("aten::index_put", (np.zeros(2, "c8"), places, np.array([1 + 1j, 2, 3j], "c8"), True), 1)
    np.testing.assert_array_equal(y, [3 + 7j, 3 + 1j])
