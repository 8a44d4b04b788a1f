"""Graphs as pictures: text for Graphviz, and SVG laid out here, so that a look at a model needs no other program.

Only draws; `cli.show` asks for it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from html import escape

from pnnx_fast.ir import Graph, Operand, Operator

__all__ = ["dot", "html", "svg"]

_WIDTH, _HEIGHT, _GAP_X, _GAP_Y, _MARGIN = 210, 44, 24, 46, 20

_COLOURS = {
    "nn": "#dce8f7", "F": "#e4f3e1", "torch": "#f4ecd8", "Tensor": "#f4ecd8", "pnnx": "#eeeeee",
    "torchvision": "#f3dff0",
}  # fmt: skip
_OTHER = "#f7dede"


def _colour(op: Operator) -> str:
    return _COLOURS.get(op.type.partition(".")[0], _OTHER)


def _detail(op: Operator) -> str:
    """Everything about an operator, for a tooltip."""
    lines = [f"{op.type} {op.name}"]
    lines += [f"{key} = {p.text}" for key, p in op.params.items()]
    lines += [f"@{key} {attr.signature}" for key, attr in op.attrs.items()]
    lines += [f"-> {x.name}{x.signature}" for x in op.outputs]
    return "\n".join(lines)


def _label(operand: Operand) -> str:
    return operand.signature.lstrip(":") or operand.name


def _edges(graph: Graph) -> Iterator[tuple[Operator, Operator, Operand]]:
    for op in graph.ops:
        for x in dict.fromkeys(op.inputs):
            if x.producer is not None:
                yield x.producer, op, x


def dot(graph: Graph) -> str:
    """Return a graph in Graphviz's language, with the shapes of operands on its edges.

    Examples
    --------
    >>> print(dot(Graph.parse("7767517\\n1 1\\npnnx.Input in 0 1 x\\n")))
    digraph model {
      node [shape=box, style="rounded,filled", fontname="sans-serif", fontsize=10];
      edge [fontname="sans-serif", fontsize=8];
      n0 [label="pnnx.Input\\nin", fillcolor="#eeeeee"];
    }
    """
    number = {op: i for i, op in enumerate(graph.ops)}
    lines = [
        "digraph model {",
        '  node [shape=box, style="rounded,filled", fontname="sans-serif", fontsize=10];',
        '  edge [fontname="sans-serif", fontsize=8];',
    ]
    for op, i in number.items():
        lines.append(f'  n{i} [label="{_quoted(op.type)}\\n{_quoted(op.name)}", fillcolor="{_colour(op)}"];')
    for a, b, x in _edges(graph):
        lines.append(f'  n{number[a]} -> n{number[b]} [label="{_quoted(_label(x))}"];')
    return "\n".join([*lines, "}"])


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def svg(graph: Graph) -> str:
    """Return a picture of a graph: operators in rows by depth, shapes beside the arrows, details as tooltips."""
    place = _layout(graph)
    width = max((x for x, _ in place.values()), default=0) + _WIDTH + _MARGIN
    height = max((y for _, y in place.values()), default=0) + _HEIGHT + _MARGIN
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        'font-family="sans-serif" font-size="11">',
        '<defs><marker id="tip" markerWidth="8" markerHeight="8" refX="7" refY="3" orient="auto">'
        '<path d="M0,0 L7,3 L0,6 z" fill="#888"/></marker></defs>',
    ]
    for a, b, x in _edges(graph):
        parts.append(_arrow(place[a], place[b], escape(_label(x))))
    for op, (left, top) in place.items():
        parts.append(
            f'<g><title>{escape(_detail(op))}</title><rect x="{left}" y="{top}" width="{_WIDTH}" height="{_HEIGHT}" '
            f'rx="6" fill="{_colour(op)}" stroke="#999"/>'
            f'<text x="{left + 8}" y="{top + 17}" font-weight="bold">{escape(_cut(op.type))}</text>'
            f'<text x="{left + 8}" y="{top + 34}" fill="#555">{escape(_cut(op.name))}</text></g>'
        )
    return "\n".join([*parts, "</svg>"])


def html(graph: Graph, title: str = "model") -> str:
    """Return a page with the picture of a graph and its facts."""
    facts = escape(f"{graph!r}"[1:-1] + "\n" + str(graph.statistics()))
    return (
        f'<!doctype html><html><head><meta charset="utf-8"><title>{escape(title)}</title></head>'
        f'<body style="font-family:sans-serif"><h1>{escape(title)}</h1><pre>{facts}</pre>\n'
        f"{svg(graph)}\n</body></html>\n"
    )


def _layout(graph: Graph) -> dict[Operator, tuple[int, int]]:
    """Left upper corner of every operator: its row is the length of the longest way from an input."""
    depth: dict[Operator, int] = {}
    for op in graph.topological():
        depth[op] = max((depth[x.producer] + 1 for x in op.inputs if x.producer is not None), default=0)
    # Constants stand just above their first consumer instead of in the first row.
    for op in graph.ops:
        users = [c for x in op.outputs for c in x.consumers]
        if not op.inputs and op.type != "pnnx.Input" and users:
            depth[op] = max(0, min(depth[c] for c in users) - 1)
    rows: dict[int, list[Operator]] = defaultdict(list)
    for op in graph.ops:
        rows[depth[op]].append(op)
    return {
        op: (_MARGIN + column * (_WIDTH + _GAP_X), _MARGIN + row * (_HEIGHT + _GAP_Y))
        for row, ops in rows.items()
        for column, op in enumerate(ops)
    }


def _arrow(start: tuple[int, int], end: tuple[int, int], label: str) -> str:
    x1, y1 = start[0] + _WIDTH // 2, start[1] + _HEIGHT
    x2, y2 = end[0] + _WIDTH // 2, end[1]
    bend = max((y2 - y1) // 2, _GAP_Y // 2)
    path = f"M{x1},{y1} C{x1},{y1 + bend} {x2},{y2 - bend} {x2},{y2}"
    return (
        f'<path d="{path}" fill="none" stroke="#888" marker-end="url(#tip)"/>'
        f'<text x="{x1 + 5}" y="{y1 + 14}" font-size="9" fill="#777">{label}</text>'
    )


def _cut(text: str) -> str:
    return text if len(text) <= 30 else text[:14] + "…" + text[-15:]
