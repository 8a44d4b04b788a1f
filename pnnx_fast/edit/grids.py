"""Constants that hold the coordinates of a detector's anchors are computed from its feature maps again.

Detectors lay the cells of several feature maps end to end and add constants of that length to them: columns, rows, and
strides. When a constant is exactly that for the traced sizes, operators take its place that give it for all sizes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from pnnx_fast._types import Array
from pnnx_fast.edit.axes import FLATTENS
from pnnx_fast.ir import Operand, Operator, Parameter
from pnnx_fast.ir.literals import constant_array

if TYPE_CHECKING:
    from pnnx_fast.edit.unbake import Unbaking

__all__ = ["Build", "mend_index", "rebuild_grid"]


_FIRST_INDEX = re.compile(r"\[@0(,@\d+|,\w+\([^:\[\]]*\))*\]")


def mend_index(work: Unbaking, op: Operator) -> bool:
    """The numbers of a batch's items, with which each item takes rows of its own, are counted anew."""
    listing = op.inputs[1].producer if len(op.inputs) > 1 else None
    text = "" if listing is None else str(listing.value("expr", ""))
    if listing is None and str(op.value("expr", "")).startswith("[["):
        found = work.shapes(op.inputs[0])
        return found is None or found[0][0] == found[1][0]  # else these are numbers of items of one batch
    if listing is None or not (listing.type == "prim::ListConstruct" or _FIRST_INDEX.fullmatch(text)):
        return True
    data, others = constant_array(listing.inputs[0]), listing.inputs[1:]
    found = work.shapes(op.inputs[0])
    if data is None or data.dtype.kind not in "iu" or found is None or found[0][0] == found[1][0]:
        return True
    p, q = found[0][0], found[1][0]
    shapes = [s for s in map(work.shapes, others) if s is not None]
    places = [
        i - len(a) for a, b in shapes for i in range(len(a)) if (a[i], b[i]) == (p, q) and len(a) - i <= data.ndim
    ]
    for axis in places:
        sizes = [-1 if i - data.ndim == axis else 1 for i in range(data.ndim)]
        line = np.arange(p).reshape(sizes)
        covered = all(
            n == 1 or i - data.ndim == axis or any(len(a) >= data.ndim - i and a[i - data.ndim] == n for a, _ in shapes)
            for i, n in enumerate(data.shape)
        )
        if data.shape[axis] == p and covered and np.array_equal(np.broadcast_to(line, data.shape), data):
            build = Build(work, listing)
            end = build.expression("size(@0,0)", [op.inputs[0]])
            counted = build.add("torch.arange", [end], {"start": 0, "step": 1, "dtype": "torch.long"}, ["end"])
            listing.set_input(0, build.add("Tensor.reshape", [counted], {"shape": sizes}, ["input"]))
            work.step(listing)
            return True
    return False


MOST_ROWS = 8
"""Rows of a constant that are looked at: those of coordinates, strides or both."""


LEAST_CELLS = 3
"""In how many cells along an axis a pattern is seen, where no feature maps tell of it."""


@dataclass(frozen=True)
class _Piece:
    """One row of a constant over one feature map: a number, or offset + step · (column or row).

    Where the steps divide a span evenly, whatever the size, they are that span over the size, or over one less, and the
    offset is a multiple of them behind a fixed start.
    """

    kind: str
    offset: float
    step: float = 0.0
    span: float = 0.0
    fewer: int = 0
    shift: float = 0.0


@dataclass(frozen=True)
class _Cells:
    """An operand that has the cells of a picture in two of its axes; without rows, in one."""

    x: Operand
    rows: int | None
    columns: int

    def sizes(self, place: int = 0) -> tuple[str, str]:
        """How many rows and columns there are, as expressions of the operand at that place."""
        rows, columns = ("1" if i is None else f"size(@{place},{i})" for i in (self.rows, self.columns))
        return rows, columns

    def counts(self, work: Unbaking) -> tuple[int, int]:
        """How many rows and columns there were in tracing."""
        shape = work.old.shape(self.x) or ()
        return 1 if self.rows is None else shape[self.rows], shape[self.columns]


def rebuild_grid(work: Unbaking, op: Operator, data: Array, axes: Sequence[int], other: Operand) -> Operand | None:
    """Make operators before `op` that compute a constant anew whose axes run over pictures; None when it is none.

    One axis runs over feature maps, one after the other, or over an axis of `other`, to which it is aligned; so do two.
    """
    if data.dtype != np.float32 or len(axes) > 2:
        return None
    flat = _maps(work, other, data.shape[axes[0]]) if len(axes) == 1 else None
    lead = len(work.old.shape(other) or ()) - data.ndim
    own = [lead + axis for axis in axes]
    direct = [_Cells(other, None if len(axes) == 1 else own[0], own[-1])]
    cells = [data.shape[axis] for axis in axes]
    if min(own) < 0 or min(cells) < LEAST_CELLS or [(work.old.shape(other) or ())[i] for i in own] != cells:
        direct = []
    rows = np.moveaxis(data, axes, range(-len(axes), 0)).reshape(-1, int(np.prod(cells)))
    for maps in ([_Cells(x, 2, 3) for x in flat or []], direct):
        table = [_pieces(row, [m.counts(work) for m in maps]) for row in rows] if len(rows) <= MOST_ROWS else [None]
        if maps and not any(pieces is None for pieces in table):
            return _grid(Build(work, op), data, axes, maps, [pieces or [] for pieces in table])
    return None


def _grid(
    build: Build, data: Array, axes: Sequence[int], maps: Sequence[_Cells], table: Sequence[Sequence[_Piece]]
) -> Operand:
    """Operators that compute a constant from the pieces of its rows."""
    lines = [build.join([build.piece(p, m) for p, m in zip(pieces, maps, strict=True)]) for pieces in table]
    whole = lines[0] if len(lines) == 1 else build.add("torch.stack", lines, {"dim": 0})
    others = [j for j in range(data.ndim) if j not in axes]
    if len(axes) == 2:
        sizes = [*(str(data.shape[j]) for j in others), *maps[0].sizes()]
        shape = build.expression(f"[{','.join(sizes)}]", [maps[0].x])
        whole = build.add("Tensor.reshape", [whole, shape], {}, ["input", "shape"])
    elif others:
        shape_of = [data.shape[j] for j in others]
        whole = build.add("Tensor.reshape", [whole], {"shape": [*shape_of, -1]}, ["input"])
    order = [*others, *axes]
    if order != sorted(order):
        whole = build.add("Tensor.permute", [whole], {"dims": [order.index(j) for j in range(data.ndim)]}, ["input"])
    return whole


def _maps(work: Unbaking, x: Operand, length: int) -> list[Operand] | None:
    """Feature maps whose cells, one map after the other, make up an axis of that length, found upstream."""
    for y in work.upstream(x):
        op = y.producer
        shape = work.old.shape(y)
        if op is None or shape is None or length not in shape:
            continue
        flat = op.inputs if op.type in ("torch.cat", "torch.concat") else [y]
        sources = [_flattened(work, z) for z in flat]
        found = [s for s in sources if s is not None]
        cells = [int(np.prod((work.old.shape(s) or ())[2:])) for s in found]
        if len(found) == len(sources) and sum(cells) == length:
            return found
    return None


def _flattened(work: Unbaking, x: Operand) -> Operand | None:
    """The feature map (n, c, h, w) of which an operand has the cells in one axis."""
    while x.producer is not None and x.producer.type in ("Tensor.permute", "torch.transpose") and x.producer.inputs:
        x = x.producer.inputs[0]
    op = x.producer
    if op is None or op.type not in FLATTENS:
        return None
    return op.inputs[0] if len(work.old.shape(op.inputs[0]) or ()) == 4 else None


def _pieces(row: Array, shapes: Sequence[tuple[int, int]]) -> list[_Piece] | None:
    found: list[_Piece] = []
    place = 0
    for h, w in shapes:
        piece = _piece(row[place : place + h * w].reshape(h, w))
        if piece is None:
            return None
        found.append(piece)
        place += h * w
    return found


def _piece(cells: Array) -> _Piece | None:
    h, w = cells.shape
    first = float(cells[0, 0])
    across = float(cells[0, 1]) - first if w > 1 else 0.0
    down = float(cells[1, 0]) - first if h > 1 else 0.0
    for piece, wanted in (
        (_Piece("number", first), np.full((h, w), first)),
        (_Piece("column", first, across), np.broadcast_to(first + across * np.arange(w), (h, w))),
        (_Piece("row", first, down), np.broadcast_to((first + down * np.arange(h))[:, None], (h, w))),
    ):
        if np.allclose(cells, wanted, rtol=1e-6, atol=1e-6):
            return piece if piece.kind == "number" else _spanned(piece, w if piece.kind == "column" else h)
    return None


def _spanned(piece: _Piece, count: int) -> _Piece | None:
    """The same with a span, where the step is none of whole pixels; None where nothing tells how it goes on."""
    step = piece.step
    if abs(step - round(step)) <= 1e-6:
        # What begins a whole or half size before zero counts down, or from the middle.
        sizes = (count, count - 1, count / 2, (count - 1) / 2) if count >= LEAST_CELLS else ()
        return None if any(abs(piece.offset / step + size) <= 1e-6 for size in sizes) else piece
    for start, span in ((0.0, 1.0), (-1.0, 2.0)):
        for fewer, shift in ((1, 0.0), (0, 0.5), (0, 0.0), (0, 1.0)):
            even = abs(step * (count - fewer) - span) <= 1e-5 and abs(piece.offset - start - shift * step) <= 1e-5
            if count > fewer and even:
                return _Piece(piece.kind, start, span=span, fewer=fewer, shift=shift)
    return None


class Build:
    """Adds operators before another one, and walks them."""

    def __init__(self, work: Unbaking, before: Operator) -> None:
        self.work, self.before, self.count = work, before, 0

    def add(
        self, type: str, inputs: Sequence[Operand], params: dict[str, object], names: Sequence[str] = ()
    ) -> Operand:
        """Add an operator and return its result."""
        graph = self.work.graph
        y = graph.new_operand(graph.free_name(f"{self.before.name}_grid_{self.count}"))
        name = f"{self.before.name}_grid_{self.count}"
        self.count += 1
        op = graph.new_operator_before(
            type, name, self.before, inputs=inputs, outputs=[y], params=params, inputnames=names
        )
        self.work.step(op)
        return y

    def expression(self, text: str, inputs: Sequence[Operand]) -> Operand:
        """Add an expression."""
        return self.add("pnnx.Expression", inputs, {"expr": Parameter.verbatim(text)})

    def piece(self, piece: _Piece, cells: _Cells) -> Operand:
        """Add what computes one row over one feature map."""
        x, (rows, columns) = cells.x, cells.sizes()
        if piece.kind == "number":
            count = self.expression(f"[mul({rows},{columns})]", [x])
            return self.add("torch.full", [count], {"fill_value": piece.offset, "dtype": "torch.float"}, ["size"])
        across = piece.kind == "column"
        end = self.expression(cells.sizes()[across], [x])
        steps = self.add("torch.arange", [end], {"start": 0, "step": 1, "dtype": "torch.float"}, ["end"])
        if piece.span:
            count_less = f"sub({cells.sizes(1)[across]},{piece.fewer})"
            text = f"add(div(mul(add(@0,{piece.shift!r}),{piece.span!r}),{count_less}),{piece.offset!r})"
            line = self.expression(text, [steps, x])
        else:
            line = self.expression(f"add(mul(@0,{piece.step!r}),{piece.offset!r})", [steps])
        if not across:
            line = self.add("torch.unsqueeze", [line], {"dim": 1}, ["input"])
        sizes = self.expression(f"[{rows},{columns}]", [x])
        wide = self.add("Tensor.expand", [line, sizes], {}, ["input", "sizes"])
        return self.add("Tensor.reshape", [wide], {"shape": [-1]}, ["input"])

    def join(self, pieces: Sequence[Operand]) -> Operand:
        """Lay pieces end to end."""
        return pieces[0] if len(pieces) == 1 else self.add("torch.cat", pieces, {"dim": 0})
