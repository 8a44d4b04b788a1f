"""What objects show of themselves: a line at the prompt, a table in a notebook, nothing of a file unescaped."""

from __future__ import annotations

import html
import re
from typing import Any

import numpy as np
import pytest

import pnnx_fast
from pnnx_fast import Graph
from pnnx_fast.demo import load_digits, model_path
from pnnx_fast.edit import Rule

RELU = "7767517\n3 2\npnnx.Input a 0 1 x #x=({0})f32\nF.relu r 1 1 x y\npnnx.Output o 1 0 y\n"


@pytest.fixture(scope="module")
def shown() -> dict[str, Any]:
    graph, pictures = Graph.load(model_path()), load_digits().pictures[:1]
    model = pnnx_fast.Model(graph, 1, isa="generic")
    return {
        "graph": graph,
        "model": model,
        "profile": model.profile(pictures, repeat=1),
        "comparison": graph.compare(graph, pictures)[0],
        "statistics": graph.statistics(),
        "operator": graph.ops[1],
        "operand": graph.outputs[0],
        "rule": Rule(RELU.format("?"), type="F.silu"),
    }


@pytest.mark.parametrize(
    "name, pattern",
    [
        ("graph", r"<Graph: 20 operators, 19 operands, 1 inputs, 1 outputs>"),
        ("model", r"<Model: 0: float32\[1, 1, 8, 8\] -> 18: float32\[1, 10\]; 1 thread\(s\), generic>"),
        ("profile", r"<Profile: \d+\.\d{3} ms in \d+ steps, generic, 1 thread\(s\)>"),
        ("comparison", r"Comparison\(nn.Conv2d convbn2d_0 -> 1: matches, error 0\)"),
        ("statistics", r"<Statistics: 983.356K FLOPS, 71.944K memory OPS>"),
        ("operator", r"Operator\(nn.Conv2d convbn2d_0: 0 -> 1\)"),
        ("operand", r"Operand\(18:\(1,10\)f32\)"),
        ("rule", r"<Rule: F.relu -> F.silu>"),
    ],
)
def test_objects_show_themselves_in_a_line(shown: dict[str, Any], name: str, pattern: str) -> None:
    assert re.fullmatch(pattern, repr(shown[name]))


def cells(text: str) -> list[list[str]]:
    rows = re.findall(r"<tr>(.*)</tr>", text)
    return [[html.unescape(cell) for cell in re.findall(r"<t[hd]>(.*?)</t[hd]>", row)] for row in rows]


def test_notebooks_show_a_graph_as_tables(shown: dict[str, Any]) -> None:
    rows = cells(shown["graph"]._repr_html_())
    assert rows[:4] == [
        ["input", "0:(1,1,8,8)f32"],
        ["output", "18:(1,10)f32"],
        ["weights", "25,642 values, 100.2 KiB"],
        ["work", "983.356K FLOP at the sizes noted"],
    ]
    assert rows[4:6] == [["type", "operators", "FLOP", "elements moved"], ["nn.Conv2d", "6", "953.344K", "42.464K"]]


def test_notebooks_show_what_a_model_is_compiled_for() -> None:
    model = pnnx_fast.load(model_path(), num_threads=1, isa="generic")
    assert cells(model._repr_html_())[2:] == [["runs on", "1 thread(s), generic"], ["weights", "100.2 KiB"]]
    model.warm_up((1, 1, 8, 8))
    model.warm_up((2, 1, 8, 8))
    rows = cells(model._repr_html_())
    assert rows[4:6] == [["compiled for", "[1, 1, 8, 8]"], ["compiled for", "[2, 1, 8, 8]"]]
    assert rows[6][0] == "last program"
    assert ["type", "steps", "FLOP"] in rows
    assert ["fused.Conv2d", "6"] in [row[:2] for row in rows]


def test_notebooks_show_no_more_of_a_cached_model_than_is_known(tmp_path: Any) -> None:
    for _ in range(2):
        model = pnnx_fast.load(model_path(), num_threads=1, cache=tmp_path)
        text = model._repr_html_()
    assert "weights" not in text
    assert model._compiled is None


def test_notebooks_show_a_profile_as_it_is_printed(shown: dict[str, Any]) -> None:
    assert html.unescape(shown["profile"]._repr_html_()) == f"<pre>{shown['profile']}</pre>"


def test_text_of_a_file_is_escaped() -> None:
    evil = '<script>alert("1")</script>&\''
    text = f"7767517\n3 2\npnnx.Input {evil} 0 1 {evil} #{evil}=(2)f32\nF.relu {evil} 1 1 {evil} y{evil}\n"
    graph = Graph.parse(text + f"pnnx.Output o 1 0 y{evil}\n")
    model = pnnx_fast.Model(graph, 1)
    model(np.ones(2, np.float32))
    graph.ops[1].type = evil
    for shown in (graph, model, model.profile(np.ones(2, np.float32))):
        assert "<script" not in shown._repr_html_()
        assert "&lt;script" in shown._repr_html_()


def test_tables_of_large_graphs_are_cut() -> None:
    inputs = [f"pnnx.Input i{i} 0 1 {'x' * 200}{i} #{'x' * 200}{i}=(2)f32" for i in range(100)]
    ops = [f"type{i} o{i} 1 1 {'x' * 200}{i} y{i}" for i in range(100)]
    shown = Graph.parse("\n".join(["7767517", "200 200", *inputs, *ops, ""]))._repr_html_()
    assert len(cells(shown)) < 80
    assert len(shown) < 10_000
    assert "… 76 more" in shown


def test_nothing_is_said_of_work_where_sizes_are_free() -> None:
    assert "FLOP at" not in Graph.parse(RELU.format("?,3"))._repr_html_()
