"""What models return, part by part: names through tuples, lists and expressions that make lists."""

from __future__ import annotations

import pytest

from pnnx_fast import Graph
from pnnx_fast.errors import LimitError
from pnnx_fast.ir.outputs import MAX_DEPTH, leaves, names, returned


def graph(*rows: str, outputs: str = "y") -> Graph:
    ends = [f"pnnx.Output out{i} 1 0 {name}" for i, name in enumerate(outputs.split())]
    lines = ["pnnx.Input in 0 1 x #x=(2,3)f32", "F.relu act 1 1 x a #a=(2,3)f32", *rows, *ends]
    return Graph.parse("\n".join(["7767517", f"{len(lines)} {len(rows) + 2}", *lines, ""]))


@pytest.mark.parametrize(
    "rows, expected",
    [
        (["pnnx.Expression e 2 1 x a y expr=[@0,@1]"], ["x", "a"]),
        (["pnnx.Expression e 2 1 x a y expr=[@1]"], ["a"]),
        (["pnnx.Expression e 2 1 x a y expr=[add(@0,1),@1,[neg(@1),@0]]"], ["y.0", "a", ["y.2.0", "x"]]),
        (["pnnx.Expression e 1 1 a b expr=[@0,2]", "prim::TupleConstruct t 2 1 x b y"], ["x", ["a", "b.1"]]),
        (["prim::TupleConstruct t 2 1 x a b", "pnnx.Expression e 2 1 b a y expr=[@0,@1]"], [["x", "a"], "a"]),
        (["pnnx.Expression e 0 1 y expr=[]"], []),
        (["pnnx.Expression e 2 1 x a y expr=add(@0,@1)"], "y"),
        (["prim::ListConstruct l 2 1 x a y"], ["x", "a"]),
        # Mistakes are for the operator to name.
        (["pnnx.Expression e 1 1 x y expr=[@0,@7]"], ["x", "y.1"]),
        (["pnnx.Expression e 1 1 x y expr=[nothing(@0)]"], "y"),
        (["pnnx.Expression e 1 1 x y"], "y"),
        (["pnnx.Expression e 1 1 x y expr=[add(@0,@7),add(2,None)]"], ["y.0", "y.1"]),
    ],
)
def test_names(rows: list[str], expected: object) -> None:
    assert names(returned(graph(*rows))) == [expected]


def test_each_output_has_its_parts() -> None:
    found = returned(graph("pnnx.Expression e 2 1 x a y expr=[@0,@1]", outputs="y a y"))
    assert names(found) == [["x", "a"], "a", ["x", "a"]]
    assert [x.name for x in leaves(found)] == ["x", "a", "a", "x", "a"]


def test_what_an_expression_computes_has_a_shape_where_that_of_its_operands_is_known() -> None:
    text = "pnnx.Expression e 2 1 x a y expr=[add(@0,1),gt(@0,@1),size(@0,1)]"
    found = list(leaves(returned(graph(text))))
    assert [(x.shape, x.dtype) for x in found] == [((2, 3), "f32"), ((2, 3), "bool"), (None, None)]
    free = graph(text)
    free.operand("a").shape = (-1, 3)
    assert [(x.shape, x.dtype) for x in leaves(returned(free))] == [((2, 3), "f32"), (None, None), (None, None)]


@pytest.mark.parametrize("row", ["prim::TupleConstruct t{i} 1 1 {x} {y}", "pnnx.Expression e{i} 1 1 {x} {y} expr=[@0]"])
def test_levels_have_an_end(row: str) -> None:
    def nested(levels: int) -> Graph:
        steps = ["x", *(f"n{i}" for i in range(1, levels)), "y"]
        return graph(*(row.format(i=i, x=steps[i], y=steps[i + 1]) for i in range(levels)))

    assert [x.name for x in leaves(returned(nested(MAX_DEPTH)))] == ["x"]
    with pytest.raises(LimitError, match="64 levels"):
        returned(nested(MAX_DEPTH + 1))
    with pytest.raises(LimitError, match="64 levels"):
        returned(graph(f"pnnx.Expression e 1 1 x y expr={'[' * 70}@0{']' * 70}"))


def test_many_short_lists_are_no_mistake() -> None:
    rows = [f"pnnx.Expression e{i} 1 1 x y{i} expr=[size(@0,0),size(@0,1),1,2]" for i in range(20_000)]
    assert len(returned(graph(*rows, outputs=" ".join(f"y{i}" for i in range(20_000))))) == 20_000
