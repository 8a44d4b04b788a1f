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
