"""Constants without dimensions, which files have as vectors of one entry."""

from __future__ import annotations

import numpy as np
import pytest

import pnnx_fast
from pnnx_fast.ir import Attribute

X = np.array([[1, 2, 3], [4, 5, 7]], np.float32)
TOTAL = "torch.sum t 1 1 x t dim=(0,1) keepdim=False"
"""A result without dimensions has no note."""


def graph_of(text: str, value: float = 0.5, dtype: str = "f32") -> pnnx_fast.Graph:
    lines = [
        "pnnx.Input in 0 1 x #x=(2,3)f32",
        f"pnnx.Attribute v 0 1 v @data=(1){dtype} #v=(1){dtype}",
        *text.split(" | "),
    ]
    graph = pnnx_fast.Graph.parse(f"7767517\n{len(lines)} {len(lines)}\n" + "\n".join(lines) + "\n")
    graph.operator("v").attrs["data"] = Attribute(np.array([value], {"f32": np.float32, "i64": np.int64}[dtype]))
    return graph


@pytest.mark.parametrize(
    "text, shapes",
    [
        (f"{TOTAL} | pnnx.Expression e 2 1 t v y expr=add(mul(@0,@1),@1) | pnnx.Output o 1 0 y", [()]),
        (f"{TOTAL} | pnnx.Expression e 2 1 t v y expr=add(mul(@0,@1),@1) #y=(1)f32 | pnnx.Output o 1 0 y", [(1,)]),
        (f"{TOTAL} | aten::mul m 2 1 t v y | pnnx.Expression e 2 1 x v z expr=add(@0,@1) #x=(2,3)f32 #z=(2,3)f32 | "
         "pnnx.Output o 2 0 y z", [(), (2, 3)]),
        (f"{TOTAL} | torch.stack s 3 1 t v t y dim=0 #v=(1)f32 #y=(3)f32 | pnnx.Output o 1 0 y", [(3,)]),
        (f"{TOTAL} | prim::ListConstruct l 2 1 t v l | prim::Constant d 0 1 d value=0 | "
         "torch.stack s 2 1 l d y $tensors=l $dim=d #y=(2)f32 | pnnx.Output o 1 0 y", [(2,)]),
        ("torch.stack s 2 1 v v y dim=0 #v=(1)f32 #y=(2,1)f32 | pnnx.Output o 1 0 y", [(2, 1)]),
        ("torch.flatten f 1 1 x w start_dim=0 end_dim=-1 #w=(6)f32 | torch.cat c 2 1 v w y dim=0 #y=(7)f32 | "
         f"{TOTAL} | pnnx.Expression e 2 1 t v z expr=add(@0,@1) | pnnx.Output o 2 0 y z", [(7,), (1,)]),
    ],
)  # fmt: skip
def test_notes_of_results_tell(text: str, shapes: list[tuple[int, ...]]) -> None:
    graph = graph_of(text)
    results = pnnx_fast.Model(graph)(X)
    results = results if isinstance(results, tuple) else (results,)
    assert [y.shape for y in results] == shapes
    assert graph.operator("v").attrs["data"].shape == (1,)


@pytest.mark.parametrize("index, shape", [("$input=v $weight=w", (4,)), ("", (4,))])
def test_a_single_index(index: str, shape: tuple[int, ...]) -> None:
    graph = graph_of(
        "pnnx.Attribute w 0 1 w @data=(5,4)f32 #w=(5,4)f32 | "
        f"F.embedding e 2 1 v w y {index} #v=(1)i64 #w=(5,4)f32 #y=(4)f32 | pnnx.Output o 1 0 y",
        3, "i64",
    )  # fmt: skip
    table = np.arange(20, dtype=np.float32).reshape(5, 4)
    graph.operator("w").attrs["data"] = Attribute(table)
    y = pnnx_fast.Model(graph)(X)
    assert y.shape == shape
    np.testing.assert_array_equal(y, table[3])


def test_one_value_fills() -> None:
    graph = graph_of(
        "pnnx.Attribute i 0 1 i @data=(1)i64 #i=(1)i64 | prim::Constant d 0 1 d value=0 | "
        "aten::index_fill f 4 1 x d i v y #x=(2,3)f32 #y=(2,3)f32 | pnnx.Output o 1 0 y"
    )
    graph.operator("i").attrs["data"] = Attribute(np.array([1]))
    np.testing.assert_array_equal(pnnx_fast.Model(graph)(X)[1], [0.5] * 3)


def test_without_notes_nothing_is_told() -> None:
    graph = graph_of(f"{TOTAL} | pnnx.Expression e 2 1 t v y expr=add(@0,@1) | pnnx.Output o 1 0 y")
    for operand in graph.operands:
        operand.shape = None
    assert pnnx_fast.Model(graph)(X).shape == (1,)
