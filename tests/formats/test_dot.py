"""Pictures of graphs: names that files may have, and sizes that files may have."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

import pytest

from pnnx_fast.formats import dot
from pnnx_fast.ir import Graph


@pytest.mark.parametrize("name", ["a\x01\x1b]0;title\x07", "\ufffe", "\ud800", "<&>\"'"])
def test_names_of_any_characters(name: str) -> None:
    graph = Graph()
    graph.new_operator("pnnx.Input", name, outputs=[graph.new_operand(name)])
    root = ElementTree.fromstring(dot.svg(graph))
    assert root.tag.endswith("svg")
    assert "\x1b" not in dot.dot(graph) + dot.html(graph)


def test_rows_fill_from_the_place_that_is_wanted() -> None:
    row = dot._Row()
    assert [row.take(n) for n in (2, 2, 2, 0, 2, 0, 9, 2)] == [2, 3, 1, 0, 4, 5, 9, 6]


def test_wide_and_long_graphs() -> None:
    """One operand read by thousands, and as many arrows over rows."""
    count = 3000
    text = "".join(f"torch.sin a{i} 1 1 x y{i}\n" for i in range(count))
    dot.svg(Graph.parse(f"7767517\n{count + 1} {count + 1}\npnnx.Input in 0 1 x\n{text}"))
    text = "".join(f"torch.add a{i} 2 1 x{i} x0 x{i + 1}\n" for i in range(count))
    picture = dot.svg(Graph.parse(f"7767517\n{count + 1} {count + 1}\npnnx.Input in 0 1 x0\n{text}"))
    assert picture.count("<rect") == count + 2
