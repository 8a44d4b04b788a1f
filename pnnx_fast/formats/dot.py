"""Graphs as pictures: text for Graphviz, and SVG laid out here, so that a look at a model needs no other program.

Only draws; `cli.show` asks for it.
"""

from __future__ import annotations

import heapq
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from html import escape

from pnnx_fast.ir import Graph, Operand, Operator

__all__ = ["dot", "html", "svg"]

_WIDTH, _HEIGHT, _GAP_X, _GAP_Y, _MARGIN, _LANE = 230, 58, 24, 46, 20, 12

_COLOURS = {
    "nn": "#dce8f7", "F": "#e4f3e1", "torch": "#f4ecd8", "Tensor": "#f4ecd8", "pnnx": "#eeeeee",
    "torchvision": "#f3dff0",
}  # fmt: skip
_OTHER = "#f7dede"


_NO_CHARACTERS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
"""What XML has not, and terminals take for commands."""


def _escape(text: str) -> str:
    """Text as part of a picture or page, whatever a file has for names."""
    return escape(_NO_CHARACTERS.sub("\ufffd", text))


def _colour(op: Operator) -> str:
    return _COLOURS.get(op.type.partition(".")[0], _OTHER)


def _detail(op: Operator) -> str:
    """Everything about an operator, for a tooltip."""
    lines = [op.where]
    lines += [f"{key} = {p.text}" for key, p in op.params.items()]
    lines += [f"@{key} {attr.signature}" for key, attr in op.attrs.items()]
    lines += [f"-> {x.name}{x.signature}" for x in op.outputs]
    return "\n".join(lines)


def _facts(op: Operator) -> str:
    """The parameters that tell most about an operator, in a few words."""
    value = {key: p.text.strip("()") for key, p in op.params.items()}
    if op.type == "pnnx.Expression":
        return op.params["expr"].text if "expr" in op.params else ""
    sides = [("in_channels", "out_channels"), ("in_features", "out_features"), ("num_embeddings", "embedding_dim")]
    words = [f"{value.pop(a)} → {value.pop(b)}" for a, b in sides if a in value and b in value]
    if "kernel_size" in value:
        words.append(value["kernel_size"].replace(",", "×"))
        words += [f"{word} {value[key]}" for key, word in _WINDOW if set(value.get(key, "1").split(",")) - {"0", "1"}]
        return "  ".join(words)
    return "  ".join(words or [f"{k}={v}" for k, v in value.items() if v not in ("None", "False", "True")])


_WINDOW = (("stride", "stride"), ("dilation", "dilation"), ("groups", "groups"))


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
    return _NO_CHARACTERS.sub("\ufffd", text).replace("\\", "\\\\").replace('"', '\\"')


def svg(graph: Graph) -> str:
    """Return a picture of a graph: operators in rows by depth, shapes beside the arrows, details as tooltips.

    Arrows that pass over rows run in lanes beside the operators, one lane an operand.
    """
    rows, place = _layout(graph)
    edge = max((x for x, _ in place.values()), default=0) + _WIDTH
    lanes = _lanes(graph, rows)
    width = edge + _LANE * (len(set(lanes.values())) + 1) + _MARGIN
    height = max((y for _, y in place.values()), default=0) + _HEIGHT + _MARGIN
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        'font-family="sans-serif" font-size="11">',
        '<defs><marker id="tip" markerWidth="8" markerHeight="8" refX="7" refY="3" orient="auto">'
        '<path d="M0,0 L7,3 L0,6 z" fill="#888"/></marker></defs>',
        f'<rect width="{width}" height="{height}" fill="white"/>',
    ]
    for a, b, x in _edges(graph):
        if rows[b] > rows[a] + 1:
            parts.append(_detour(place[a], place[b], edge + _LANE * (lanes[x] + 1), _escape(_label(x)), lanes[x]))
        else:
            parts.append(_arrow(place[a], place[b], _escape(_label(x))))
    parts += [_box(op, left, top) for op, (left, top) in place.items()]
    return "\n".join([*parts, "</svg>"])


def _box(op: Operator, left: int, top: int) -> str:
    return (
        f'<g><title>{_escape(_detail(op))}</title><rect x="{left}" y="{top}" width="{_WIDTH}" height="{_HEIGHT}" '
        f'rx="6" fill="{_colour(op)}" stroke="#999"/>'
        f'<text x="{left + 8}" y="{top + 17}" font-weight="bold">{_escape(_cut(op.type))}</text>'
        f'<text x="{left + 8}" y="{top + 33}" fill="#555">{_escape(_cut(op.name))}</text>'
        f'<text x="{left + 8}" y="{top + 49}" fill="#555" font-size="10">{_escape(_cut(_facts(op), 38))}</text></g>'
    )


def html(graph: Graph, title: str = "model") -> str:
    """Return a page with the picture of a graph and its facts."""
    facts = _escape(f"{graph!r}"[1:-1] + "\n" + str(graph.statistics()))
    return (
        f'<!doctype html><html><head><meta charset="utf-8"><title>{_escape(title)}</title></head>'
        f'<body style="font-family:sans-serif"><h1>{_escape(title)}</h1><pre>{facts}</pre>\n'
        f"{svg(graph)}\n</body></html>\n"
    )


class _Row:
    """Columns of a row, which are taken one by one."""

    def __init__(self) -> None:
        self._next: dict[int, dict[int, int]] = {1: {}, -1: {}}
        """For each direction, of columns that are taken the place to look on from."""

    def take(self, wanted: int) -> int:
        """Take the free column that is nearest to one that is wanted."""
        right, left = self._free(wanted, 1), self._free(wanted, -1)
        column = right if left < 0 or right - wanted <= wanted - left else left
        for step, links in self._next.items():
            links[column] = column + step
        return column

    def _free(self, column: int, step: int) -> int:
        links, passed = self._next[step], []
        while column in links:
            passed.append(column)
            column = links[column]
        links.update(dict.fromkeys(passed, column))  # the next search jumps
        return column


def _layout(graph: Graph) -> tuple[dict[Operator, int], dict[Operator, tuple[int, int]]]:
    """Row and left upper corner of every operator: its row is the length of the longest way from an input."""
    depth: dict[Operator, int] = {}
    for op in graph.topological():
        depth[op] = max((depth[x.producer] + 1 for x in op.inputs if x.producer is not None), default=0)
    # Constants stand just above their first consumer instead of in the first row.
    for op in graph.ops:
        users = [c for x in op.outputs for c in x.consumers]
        if not op.inputs and op.type != "pnnx.Input" and users:
            depth[op] = max(0, min(depth[c] for c in users) - 1)
    taken: dict[int, _Row] = defaultdict(_Row)
    column: dict[Operator, int] = {}
    for op in sorted(graph.ops, key=lambda op: (depth[op], not op.inputs and op.type != "pnnx.Input")):
        # Below the nearest producer, so that branches run straight down.
        above = [x.producer for x in op.inputs if x.producer in column]
        near = max(above, key=lambda p: depth[p], default=None)
        column[op] = taken[depth[op]].take(column[near] if near is not None else 0)
    place = {
        op: (_MARGIN + column[op] * (_WIDTH + _GAP_X), _MARGIN + depth[op] * (_HEIGHT + _GAP_Y)) for op in graph.ops
    }
    return depth, place


def _lanes(graph: Graph, rows: Mapping[Operator, int]) -> dict[Operand, int]:
    """A lane for every operand with an arrow over rows; operands whose rows do not overlap share one."""
    spans: dict[Operand, tuple[int, int]] = {}
    for a, b, x in _edges(graph):
        if rows[b] > rows[a] + 1:
            spans[x] = rows[a], max(rows[b], spans.get(x, (0, 0))[1])
    ends: list[tuple[int, int]] = []  # a heap of the rows where lanes end, and their numbers
    lanes: dict[Operand, int] = {}
    for x, (first, last) in sorted(spans.items(), key=lambda item: item[1]):
        if ends and ends[0][0] < first:
            lanes[x] = ends[0][1]
            heapq.heapreplace(ends, (last, lanes[x]))
        else:
            lanes[x] = len(ends)
            heapq.heappush(ends, (last, lanes[x]))
    return lanes


_INKS = ("#4a78b5", "#b5654a", "#5b9a4f", "#8a5fb0", "#a58a2a", "#3f9a9a")


def _detour(start: tuple[int, int], end: tuple[int, int], lane: int, label: str, number: int) -> str:
    """An arrow that leaves an operator to the right, runs down its lane, and comes back above the other operator."""
    x1, y1 = start[0] + _WIDTH, start[1] + _HEIGHT - 10
    x2, y2 = end[0] + _WIDTH - 14, end[1]
    turn = y2 - 12 - number % 3 * 4
    ink = _INKS[number % len(_INKS)]
    path = f"M{x1},{y1} H{lane} V{turn} H{x2} V{y2}"
    return (
        f'<g><title>{label}</title><path d="{path}" fill="none" stroke="{ink}" stroke-linejoin="round" '
        f'marker-end="url(#tip)"/></g>'
    )


def _arrow(start: tuple[int, int], end: tuple[int, int], label: str) -> str:
    x1, y1 = start[0] + _WIDTH // 2, start[1] + _HEIGHT
    x2, y2 = end[0] + _WIDTH // 2, end[1]
    bend = max((y2 - y1) // 2, _GAP_Y // 2)
    path = f"M{x1},{y1} C{x1},{y1 + bend} {x2},{y2 - bend} {x2},{y2}"
    return (
        f'<path d="{path}" fill="none" stroke="#888" marker-end="url(#tip)"/>'
        f'<text x="{x1 + 5}" y="{y1 + 14}" font-size="9" fill="#777">{label}</text>'
    )


def _cut(text: str, most: int = 30) -> str:
    return text if len(text) <= most else text[: most // 2 - 1] + "…" + text[-(most // 2) :]
