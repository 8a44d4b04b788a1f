"""What notebooks show of graphs and models: small tables. All text comes from files that nobody vouches for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from typing import TYPE_CHECKING

from pnnx_fast._memory import format_bytes
from pnnx_fast.ir.outputs import leaves, returned
from pnnx_fast.ir.statistics import format_count

if TYPE_CHECKING:
    from pnnx_fast.ir.graph import Graph

__all__ = ["graph_html", "html", "some"]

MOST = 24
"""Rows of a table, or values of a kind, that are shown."""

LONGEST = 100
"""Characters of a cell that are shown."""

Rows = Sequence[Sequence[object]]


def html(title: str, facts: Rows, rows: Rows = ()) -> str:
    """Return a title, a table of facts with their names, and one of rows of which the first is its head.

    Examples
    --------
    >>> print(html("Graph", [("input", "<x>")], [("type", "operators"), ("F.relu", 2)]))
    <div><b>Graph</b>
    <table>
    <tr><th>input</th><td>&lt;x&gt;</td></tr>
    </table>
    <table>
    <tr><th>type</th><th>operators</th></tr>
    <tr><td>F.relu</td><td>2</td></tr>
    </table></div>
    """
    lines = [f"<div><b>{escape(title)}</b>", "<table>"]
    lines += [f"<tr>{_cell(name, 'th')}{_cell(value)}</tr>" for name, value in facts]
    for i, row in enumerate(rows[: MOST + 1]):
        lines += ["</table>", "<table>"] if i == 0 else []
        lines.append(f"<tr>{''.join(_cell(value, 'td' if i else 'th') for value in row)}</tr>")
    if len(rows) > MOST + 1:
        lines.append(f"<tr>{_cell(f'… {len(rows) - 1 - MOST} more')}</tr>")
    return "\n".join([*lines, "</table></div>"])


def some(kind: str, values: Sequence[object]) -> Iterator[tuple[str, object]]:
    """Yield the facts of a kind, of many the first ones."""
    for value in values[:MOST]:
        yield kind, value
    if len(values) > MOST:
        yield kind, f"… {len(values) - MOST} more"


def _cell(value: object, tag: str = "td") -> str:
    text = str(value)
    return f"<{tag}>{escape(text if len(text) <= LONGEST else text[: LONGEST - 1] + '…')}</{tag}>"


def graph_html(graph: Graph) -> str:
    """Return inputs, outputs, weights and work of a graph, and its operators by type."""
    statistics = graph.statistics()
    nbytes = sum(a.nbytes for op in graph.ops for a in op.attrs.values())
    facts = [*some("input", [f"{x.name}{x.signature}" for x in graph.inputs])]
    facts += some("output", [f"{x.name}{x.signature}" for x in leaves(returned(graph))])
    facts.append(("weights", f"{statistics.weights:,} values, {format_bytes(nbytes)}"))
    if statistics.flops:
        facts.append(("work", f"{format_count(statistics.flops)} FLOP at the sizes noted"))
    rows: list[Sequence[object]] = [("type", "operators", "FLOP", "elements moved")]
    for kind, (count, flops, moved) in statistics.by_type().items():
        rows.append((kind, count, format_count(flops), format_count(moved)))
    return html(f"Graph of {len(graph.ops)} operators", facts, rows)
