"""The function that the error about unknown types proposes: it compiles, registers, and runs once filled in."""

from __future__ import annotations

import ast

import numpy as np
import pytest

import pnnx_fast
from pnnx_fast.errors import UnsupportedOperatorError
from pnnx_fast.ops import registry

TEXT = """7767517
5 5
pnnx.Input x 0 1 x #x=(1,3,?)f32
models.head.Detect det 1 2 x y z nc=7 stride=(8,16) names=abc @m.0.weight=(2,3)f32 @2d=(1)f32 #y=(1,2,?)f32 #z=(1)i64
pnnx.custom_op.demo.fold f 1 1 y w $lambda=y #y=(1,2,?)f32 #w=(1,2,?)f32
pnnx.Output o0 1 0 w
pnnx.Output o1 1 0 z
"""


def model_graph() -> pnnx_fast.Graph:
    graph = pnnx_fast.Graph.parse(TEXT)
    attrs = graph.ops[1].attrs
    attrs["m.0.weight"] = pnnx_fast.Attribute(np.array([[1, 2, 3], [0, 1, 0]], np.float32))
    attrs["2d"] = pnnx_fast.Attribute(np.array([5], np.float32))
    return graph


def test_all_types_with_code_that_runs() -> None:
    graph = model_graph()
    with pytest.raises(UnsupportedOperatorError) as caught:
        pnnx_fast.Model(graph)
    assert list(caught.value.types) == ["models.head.Detect", "pnnx.custom_op.demo.fold"]
    source = str(caught.value).partition("before loading the model:")[2]
    detect = "return np.einsum('ij,bjk->bik', m_0_weight, input0) + _2d, np.array([nc], np.int64)"
    filled = source.replace("...  # numpy arrays in, numpy arrays out (several as a tuple)", detect, 1)
    filled = filled.replace("...  # numpy arrays in, numpy arrays out (several as a tuple)", "return -_lambda")
    filled = filled.replace("(1, 2, -1)", "(1, 2, input0.shape[2])", 1).replace("(1, 2, -1)", "_lambda.shape")
    try:
        exec(filled, {"np": np, "__name__": "pasted"})
        x = np.arange(12, dtype=np.float32).reshape(1, 3, 4)
        w, z = pnnx_fast.Model(graph)(x)
    finally:
        for kind in caught.value.types:
            registry.unregister(kind)
    np.testing.assert_allclose(w, -(np.array([[1, 2, 3], [0, 1, 0]], np.float32) @ x[0] + 5)[None])
    np.testing.assert_array_equal(z, [7])


def test_types_stay_texts() -> None:
    kind = 'a.b",native=print("ran"))#\\'
    graph = pnnx_fast.Graph.parse("7767517\n3 2\npnnx.Input x 0 1 x #x=(1,3)f32\nkind c 1 1 x y\npnnx.Output o 1 0 y\n")
    graph.operator("c").type = kind
    with pytest.raises(UnsupportedOperatorError) as caught:
        pnnx_fast.Model(graph)
    source = str(caught.value).partition("before loading the model:")[2]
    decorator = ast.parse(source.strip()).body[-1].decorator_list[0]  # type: ignore[attr-defined]
    assert [ast.literal_eval(argument) for argument in decorator.args] == [kind]


def test_numbers_that_are_not_finite_and_shapes_that_are_not_noted() -> None:
    graph = pnnx_fast.Graph.parse(
        "7767517\n3 2\npnnx.Input x 0 1 x #x=(1,3)f32\nmine.Clip c 1 1 x y\npnnx.Output o 1 0 y\n"
    )
    params = graph.operator("c").params
    params["most"], params["ends"], params["z"] = float("inf"), [float("-inf"), 1.5], complex("nan+1j")
    with pytest.raises(UnsupportedOperatorError) as caught:
        pnnx_fast.Model(graph)
    source = str(caught.value).partition("before loading the model:")[2]
    filled = source.replace("...", "return np.clip(input0, ends[0], min(ends[1], most))", 1)
    try:
        exec(filled, {"np": np, "__name__": "pasted"})
        found = pnnx_fast.Model(graph)(np.float32([[1, 2, 3]]))
    finally:
        registry.unregister("mine.Clip")
    np.testing.assert_array_equal(found, [[1, 1.5, 1.5]])


def test_control_flow_is_named() -> None:
    graph = pnnx_fast.Graph.parse(
        "7767517\n3 2\npnnx.Input x 0 1 x #x=(2)f32\nprim::If branch 1 1 x y #y=(2)f32\npnnx.Output o 1 0 y\n"
    )
    with pytest.raises(UnsupportedOperatorError, match="prim::If branch: both branches are missing in the file"):
        pnnx_fast.Model(graph)
