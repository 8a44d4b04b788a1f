"""Arithmetic in place: the result has the type of what it was written to."""

from __future__ import annotations

import numpy as np
import pytest

import pnnx_fast
from pnnx_fast import Graph
from pnnx_fast.passes import restore

X, Y = np.float32([[1.5, -2, 3]]), np.float64([[1e300, 2, -0.25]])
I, J = np.int32([2**31 - 1, 7]), np.int64([5, -(2**33)])


def graph(operator: str, x: str, y: str, z: str, shape: str) -> Graph:
    return Graph.parse(
        f"7767517\n4 3\npnnx.Input i 0 1 x #x={shape}{x}\npnnx.Input j 0 1 y #y={shape}{y}\n"
        f"{operator} #x={shape}{x} #y={shape}{y} #z={shape}{z}\npnnx.Output o 1 0 z\n"
    )


@pytest.mark.parametrize("optimize", [True, False])
@pytest.mark.parametrize("operator", ["pnnx.Expression e 2 1 x y z expr=mul(@0,@1)", "aten::mul e 2 1 x y z"])
def test_results_are_cast_to_the_noted_type(operator: str, optimize: bool) -> None:
    with np.errstate(over="ignore"):
        want = (X * Y).astype(np.float32)
    for noted, expected in (("f32", want), ("f64", X * Y)):
        got = pnnx_fast.Model(graph(operator, "f32", "f64", noted, "(1,3)"), optimize=optimize)(X, Y)
        assert got.dtype == expected.dtype
        np.testing.assert_array_equal(got, expected)


def test_integers_wrap() -> None:
    got = pnnx_fast.Model(graph("aten::__ixor__ e 2 1 x y z", "i32", "i64", "i32", "(2)"))(I, J)
    assert (got.dtype, got.tolist()) == (np.int32, (I ^ J).astype(np.int32).tolist())


@pytest.mark.parametrize(
    ("x", "y", "z"), [("f32", "i64", "f32"), ("i32", "bool", "i32"), ("bf16", "f32", "bf16"), ("f32", "f32", "f64")]
)
def test_others_stay_as_they_are(x: str, y: str, z: str) -> None:
    made = graph("pnnx.Expression e 2 1 x y z expr=add(@0,@1)", x, y, z, "(2)")
    before = str(made)
    restore(made)
    assert str(made) == before


def test_sizes_and_numbers_do_not_count() -> None:
    made = graph("pnnx.Expression e 2 1 x y z expr=mul(@0,size(@1,0))", "f32", "f64", "f32", "(2)")
    before = str(made)
    restore(made)
    assert str(made) == before


@pytest.mark.parametrize(("noted", "dtype"), [("i16", "i2"), ("u8", "u1"), ("bool", "?"), ("i64", "i8")])
def test_products_of_integers_have_the_noted_type(noted: str, dtype: str) -> None:
    made = Graph.parse(
        "7767517\n3 2\npnnx.Input i 0 1 x #x=(2,3)i32\n"
        f"torch.cumprod s 1 1 x y dim=1 #x=(2,3)i32 #y=(2,3){noted}\npnnx.Output o 1 0 y\n"
    )
    x = np.int32([[300, 7, 2], [0, 1, 1]])
    want = x.cumprod(1, dtype=dtype if dtype != "?" else "i8").astype(dtype)
    np.testing.assert_array_equal(pnnx_fast.Model(made)(x), want, strict=True)


def test_integers_and_a_double_of_the_graph_give_doubles() -> None:
    made = Graph.parse(
        "7767517\n3 2\npnnx.Input i 0 1 x #x=(3)i64\n"
        "pnnx.Expression e 1 1 x y expr=add(mul(2.1,@0),@0) #x=(3)i64 #y=(3)f64\npnnx.Output o 1 0 y\n"
    )
    x = np.arange(3)
    np.testing.assert_array_equal(pnnx_fast.Model(made)(x), 2.1 * x + x, strict=True)
