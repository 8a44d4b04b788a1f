"""Pattern matching and rewriting: captures, conditions, safety, order, and cost in proportion to the graph."""

from __future__ import annotations

import itertools
import time

import numpy as np
import pytest

from pnnx_fast import Attribute, Graph
from pnnx_fast.edit import Match, Rule, find, rewrite
from pnnx_fast.errors import GraphError, ParameterError
from pnnx_fast.ir import match as match_module


def text(*lines: str, inputs: str = "x", outputs: str = "y") -> str:
    rows = [f"pnnx.Input in_{x} 0 1 {x}" for x in inputs.split()] + list(lines)
    rows += [f"pnnx.Output out_{x} 1 0 {x}" for x in outputs.split()]
    return "\n".join(["7767517", f"{len(rows)} 99", *rows, ""])


def graph(*lines: str, inputs: str = "x", outputs: str = "y") -> Graph:
    return Graph.parse(text(*lines, inputs=inputs, outputs=outputs))


def chained(kinds: list[str]) -> list[str]:
    """Lines of operators of these types, each on the output of the one before."""
    names = ["x", *(f"o{i}" for i in range(1, len(kinds))), "y"]
    return [f"{kind} n{i} 1 1 {names[i]} {names[i + 1]}" for i, kind in enumerate(kinds)]


def types(g: Graph) -> list[str]:
    g.validate()
    return [op.type for op in g.ops if not op.type.startswith("pnnx.I") and op.type != "pnnx.Output"]


SILU = Rule(text("F.sigmoid s 1 1 x a", "pnnx.Expression e 2 1 x a y expr=mul(@0,@1)"), type="F.silu")


def test_one_operator_replaces_a_pattern() -> None:
    g = graph("F.relu r 1 1 x b", "F.sigmoid s 1 1 b c", "pnnx.Expression e 2 1 b c y expr=mul(@0,@1)")
    assert rewrite(g, SILU) == 1
    assert types(g) == ["F.relu", "F.silu"]
    assert g.ops[-1].inputs[0].name == "y"


def test_inner_values_that_are_used_outside_forbid_a_match() -> None:
    g = graph("F.sigmoid s 1 1 x c", "pnnx.Expression e 2 1 x c y expr=mul(@0,@1)", outputs="y c")
    assert rewrite(g, SILU) == 0


@pytest.mark.parametrize(
    ("pattern", "operator", "captured"),
    [
        ("a=%a b=%a", "a=1 b=1", {"a": 1}),
        ("a=%a b=%a", "a=1 b=2", None),
        ("a=2", "a=2.0", {}),
        ("a=2", "a=2 b=1", None),
        ("a=*", "a=foo", {}),
        ("a=(1,%k)", "a=(1,5)", {"k": 5}),
        ("a=(1,%k)", "a=(2,5)", None),
        ("a=1 %*=%*", "a=1 b=2 c=None", {"op.b": 2, "op.c": None}),
        ("a=True", "a=1", None),
    ],
)
def test_parameters(pattern: str, operator: str, captured: dict[str, object] | None) -> None:
    found = find(graph(f"F.f f 1 1 x y {operator}"), text(f"F.f op 1 1 x y {pattern}"))
    assert (None if not found else {k: p.value for k, p in found[0].params.items()}) == captured


def test_expressions_are_compared_by_token() -> None:
    pattern = text("pnnx.Expression e 2 1 x w y expr=add(@0,mul(@1,%s))", inputs="x w")
    one = graph("pnnx.Expression e 2 1 x w y expr=add(@0,mul(@1,0.5))", inputs="x w")
    other = graph("pnnx.Expression e 2 1 x w y expr=add(@0,mul(@1,@0))", inputs="x w")
    assert find(one, pattern)[0].value("s") == 0.5
    assert not find(other, pattern)


def test_shapes_and_weights_are_captured() -> None:
    g = graph("nn.Linear l 1 1 x y bias=False #x=(2,8)f32 #y=(2,3)f32 @weight=(3,8)f32")
    pattern = text("nn.Linear l 1 1 x y bias=* #x=(?,%i)f32 #y=(?,%o)f32 @weight=(%o,%i)f32")
    match = find(g, pattern)[0]
    assert (match.value("i"), match.value("o"), match.attrs["l.weight"].shape) == (8, 3, (3, 8))
    assert not find(g, text("nn.Linear l 1 1 x y bias=* @weight=(%i,%i)f32"))


def test_replacements_substitute_captures_and_copy_weights() -> None:
    g = graph("nn.Linear l 1 1 x a bias=False", "pnnx.Expression e 1 1 a y expr=mul(@0,3)")
    g.ops[1].attrs["weight"] = Attribute(np.ones((2, 2), np.float32))
    rule = Rule(
        text("nn.Linear l 1 1 x a %*=%*", "pnnx.Expression e 1 1 a y expr=mul(@0,%k)"),
        text("pnnx.Expression s 1 1 x b expr=add(@0,%k)", "nn.Linear l 1 1 b y %*=%l.* scale=%k @weight=%l.weight"),
        write=lambda match, ops: ops["l"].params.update(note=match.ops["e"].name),
    )
    assert rewrite(g, rule) == 1
    assert types(g) == ["pnnx.Expression", "nn.Linear"]
    first, second = g.ops[1:3]
    assert first.params["expr"].value == "add(@0,3)"
    assert {k: p.value for k, p in second.params.items()} == {"bias": False, "scale": 3, "note": "e"}
    assert second.attrs["weight"].shape == (2, 2)


def test_operators_may_vanish() -> None:
    g = graph("F.relu a 1 1 x b", "Tensor.clone c 1 1 b d", "F.relu e 1 1 d y")
    assert rewrite(g, Rule(text("Tensor.clone c 1 1 x y"), text(outputs="x"))) == 1
    assert types(g) == ["F.relu", "F.relu"]


def test_branches_downstream_are_found() -> None:
    g = graph("F.a a 1 1 x b", "F.c c 1 1 b d", "F.e e 1 1 b f", outputs="d f")
    rule = Rule(text("F.a a 1 1 x b", "F.c c 1 1 b d", "F.e e 1 1 b f", outputs="d f"), type="F.both")
    assert rewrite(g, rule) == 1
    assert types(g) == ["F.both"]


def test_a_way_out_and_back_in_forbids_a_match() -> None:
    g = graph("F.a a 1 1 x b", "F.mid m 1 1 b c", "F.z z 2 1 b c y", outputs="y b")
    rule = Rule(text("F.a a 1 1 x b", "F.z z 2 1 b c d", inputs="x c", outputs="b d"), type="F.both")
    assert rewrite(g, rule) == 0


def test_conditions_priorities_and_repetition() -> None:
    g = graph("F.a a 1 1 x b k=1", "F.a c 1 1 b y k=2")

    def larger(match: Match) -> bool:
        return bool(match.value("k") > 1)

    late = Rule(text("F.a a 1 1 x y k=%k"), type="F.late", priority=140)
    early = Rule(text("F.a a 1 1 x y k=%k"), type="F.early", condition=larger, priority=10)
    assert rewrite(g, [late, early]) == 2
    assert types(g) == ["F.late", "F.early"]
    chain = graph(*chained(["F.relu"] * 100))
    once = Rule(text("F.relu a 1 1 x b", "F.relu c 1 1 b y"), text("F.relu a 1 1 x y"))
    assert rewrite(chain, once) == 99
    assert types(chain) == ["F.relu"]


def test_endless_rules_and_bad_rules_are_errors() -> None:
    g = graph("F.a a 1 1 x y")
    with pytest.raises(GraphError, match="does not come to an end"):
        rewrite(g, Rule(text("F.a a 1 1 x y"), text("F.a a 1 1 x y")))
    g.validate()
    with pytest.raises(ParameterError):
        Rule(text("F.a a 1 1 x y"))
    with pytest.raises(ParameterError, match="must be connected"):
        Rule(text("F.a a 1 1 x y", "F.a b 1 1 v w", inputs="x v", outputs="w y"), type="F.b")


def test_combinations_of_siblings_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(match_module, "MOST_TRIES", 50)
    g = graph(*(f"F.relu r{i} 1 1 x y{i}" for i in range(30)), outputs=" ".join(f"y{i}" for i in range(30)))
    siblings = text(*(f"F.relu r{i} 1 1 x y{i}" for i in range(5)), outputs=" ".join(f"y{i}" for i in range(5)))
    asked = []
    find(g, Rule(siblings, type="F.both", condition=lambda match: bool(asked.append(match))))
    assert 30 < len(asked) < 30 * 50
    assert len(find(g, siblings)) == 30


def test_cost_grows_with_the_graph_only() -> None:
    kinds = [f"F.k{i}" for i in range(20)]
    g = graph(*chained([kinds[i % 20] for i in range(10000)]))
    rules = [
        Rule(text(f"{a} a 1 1 x b", f"{b} c 1 1 b y"), text(f"F.n{a[3:]} n 1 1 x y"))
        for a, b in itertools.pairwise(kinds)
    ]
    start = time.process_time()
    assert rewrite(g, rules) == 5000
    assert time.process_time() - start < 5
    g.validate()
