"""Slices and selections: neighbours become one, families become one operator with several outputs.

PNNX writes a slice of one axis with ``dim``, ``start``, ``end``, ``step``, of several with lists of these, where
``selects`` holds the index of an axis that disappears.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

from pnnx_fast.ir import Graph, Operand, Operator
from pnnx_fast.ir.notes import is_written
from pnnx_fast.ir.parameter import OPEN_END
from pnnx_fast.passes.moves import become, bypass, pairs
from pnnx_fast.simplify.table import simplification

__all__: list[str] = []

Part = tuple[int, int, int, int, int]
"""(axis, start, end, step, select) as PNNX writes them."""


def _parts(op: Operator) -> list[Part] | None:
    """Axes that a slice or a selection cuts, None when a number is not known."""
    shape = op.inputs[0].shape if op.inputs else None
    if not shape or len(op.outputs) != 1 or len(op.inputs) != 1:
        return None
    rank, p = len(shape), op.values()
    if op.type == "Tensor.select":
        dim, index = p.get("dim"), p.get("index")
        good = isinstance(dim, int) and isinstance(index, int)
        return [(dim % rank, 0, 0, 0, index)] if good else None  # type: ignore[operator,list-item]
    if op.type != "Tensor.slice":
        return None
    if "dims" in p:
        columns = [p.get(key) for key in ("dims", "starts", "ends", "steps", "selects")]
        if any(not isinstance(c, list) or not all(isinstance(v, int) for v in c) for c in columns):
            return None
        rows = list(itertools.zip_longest(*columns))  # type: ignore[arg-type]
        return None if any(None in row for row in rows) else [(d % rank, s, e, t, i) for d, s, e, t, i in rows]
    row = p.get("dim", 0), p.get("start") or 0, _end(p), p.get("step") or 1
    if not all(isinstance(v, int) for v in row):
        return None
    return [(row[0] % rank, *row[1:], OPEN_END)]


def _end(p: Mapping[str, Any]) -> Any:
    return OPEN_END if p.get("end") is None else p["end"]


def _write(op: Operator, parts: list[Part]) -> None:
    for key in ("dim", "start", "end", "step", "index", "dims", "starts", "ends", "steps", "selects"):
        op.params.pop(key, None)
    if len(parts) == 1 and parts[0][4] == OPEN_END:
        op.params.update(dict(zip(("dim", "start", "end", "step"), parts[0], strict=False)))
        return
    keys = ("dims", "starts", "ends", "steps", "selects")
    op.params.update(dict(zip(keys, map(list, zip(*sorted(parts), strict=True)), strict=True)))


@simplification(5)
def fuse_slice_squeeze_to_select(graph: Graph) -> int:
    """A slice of one element whose axis is then removed is a selection."""
    count = 0
    for op, follower in pairs(graph, ("Tensor.slice",), ("torch.squeeze",)):
        parts = _parts(op)
        if parts is None or len(parts) != 1:
            continue
        dim, start, end, step, _ = parts[0]
        shape = op.inputs[0].shape or ()
        removed = follower.value("dim")
        inside = shape[dim] < 0 or -shape[dim] <= start < shape[dim]
        one = inside and step == 1 and (end == start + 1 != 0 or (start, end) == (-1, OPEN_END))
        if not isinstance(removed, int) or removed % len(shape) != dim or not one:
            continue
        become(follower, "Tensor.select", dim=dim, index=start)
        bypass(graph, op)
        count += 1
    return count


@simplification(5)
def fuse_slice_indices(graph: Graph) -> int:
    """Slices and selections of different axes that follow one another become one."""
    count = 0
    for op in list(graph.ops):
        first = _parts(op)
        if first is None or not op.outputs[0].consumers:
            continue
        followers = list(dict.fromkeys(op.outputs[0].consumers))
        rank = len(op.inputs[0].shape or ())
        merged = [_composed(first, p, rank) if (p := _parts(f)) is not None else None for f in followers]
        # Unless all of them take it in, the first slice stays, and nothing is won.
        if any(parts is None for parts in merged):
            continue
        for follower, parts in zip(followers, merged, strict=True):
            follower.set_input(0, op.inputs[0])
            follower.type = "Tensor.slice"
            _write(follower, parts or [])
            count += 1
        graph.remove_operator(op)
    return count


def _composed(first: list[Part], second: list[Part], rank: int) -> list[Part] | None:
    """Parts of the second slice in terms of the first one's input; None where both cut one axis."""
    kept = [axis for axis in range(rank) if axis not in {p[0] for p in first if p[4] != OPEN_END}]
    moved = [(kept[axis], *rest) for axis, *rest in second]
    cut = {p[0] for p in first}
    return None if any(p[0] in cut for p in moved) else [*first, *moved]  # type: ignore[list-item]


@simplification(5)
def fuse_select_to_unbind(graph: Graph) -> int:
    """Selections of all indices of an axis become torch.unbind."""
    count = 0
    for x in list(graph.operands):
        families: dict[int, list[Operator]] = {}
        for op in dict.fromkeys(x.consumers):
            dim = op.value("dim")
            if op.type == "Tensor.select" and isinstance(dim, int) and isinstance(op.value("index"), int) and x.shape:
                families.setdefault(dim % len(x.shape), []).append(op)
        for dim, ops in families.items():
            size = x.shape[dim] if x.shape else -1
            by_index = {op.value("index") % size: op for op in ops} if size > 1 else {}
            if len(by_index) == size == len(ops):
                _gather(graph, x, [by_index[i] for i in range(size)], "torch.unbind", {"dim": dim})
                count += 1
    return count


@simplification(5)
def fuse_slice_to_tensor_split(graph: Graph) -> int:
    """Slices that share an axis without gap become torch.tensor_split."""
    count = 0
    for x in list(graph.operands):
        families: dict[int, dict[int, tuple[int, Operator]]] = {}
        users = list(dict.fromkeys(x.consumers))
        for op in users:
            parts = _parts(op) if op.type == "Tensor.slice" and not is_written(op.outputs[0]) else None
            if parts and len(parts) == 1 and parts[0][3] == 1 and parts[0][4] == OPEN_END and parts[0][1] >= 0:
                families.setdefault(parts[0][0], {})[parts[0][1]] = parts[0][2], op
        for dim, pieces in families.items():
            size = x.shape[dim] if x.shape else -1
            chain = _chain(pieces, size)
            if len(chain) > 1 and len(chain) == len(pieces):
                places = sorted(pieces)[1:]
                _gather(graph, x, chain, "torch.tensor_split", {"dim": dim, "indices": places})
                count += 1
    return count


def _chain(pieces: dict[int, tuple[int, Operator]], size: int) -> list[Operator]:
    """Slices from the beginning to the end of an axis, each one beginning where the last one ended."""
    found: list[Operator] = []
    place = 0
    while place in pieces:
        end, op = pieces[place]
        found.append(op)
        if end in (OPEN_END, size):
            return found
        if not place < end:
            return []
        place = end
    return []


def _gather(graph: Graph, x: Operand, ops: list[Operator], type: str, params: Mapping[str, object]) -> None:
    """Put one operator in the place of several that read the same operand; it takes their outputs."""
    first = min(ops, key=graph.ops.index)
    made = graph.new_operator_before(type, ops[0].name, first, inputs=[x], params=params)
    for op in ops:
        made.add_output(op.outputs[0])
    graph.remove_operators(ops)


@simplification(5)
def fuse_slice_copy(graph: Graph) -> int:
    """A copy into a part of a tensor becomes Tensor.slice_copy of the whole; a copy into all of it is its source."""
    count = 0
    for op in list(graph.ops):
        if op.type != "Tensor.copy" or len(op.inputs) != 2:
            continue
        chain, base = _views(op.inputs[0])
        parts: list[Part] | None = []
        for view in reversed(chain):
            cut = _parts(view)
            rank = len(base.shape or ())
            parts = None if cut is None or parts is None else cut if not parts else _composed(parts, cut, rank)
        if parts is None:
            continue
        if not parts:
            whole, source = op.inputs
            if None in (whole.shape, whole.dtype) or (whole.shape, whole.dtype) != (source.shape, source.dtype):
                continue
            graph.replace_uses(op.outputs[0], source)
            graph.remove_operator(op)
        else:
            op.set_input(0, base)
            op.type, op.inputnames = "Tensor.slice_copy", ["self", "src"]
            _write(op, parts)
        graph.dead_code_elimination()
        count += 1
    return count


def _views(x: Operand) -> tuple[list[Operator], Operand]:
    """Slices between an operand and the tensor that they are parts of, the last one first."""
    chain: list[Operator] = []
    while x.producer is not None and x.producer.type in ("Tensor.slice", "Tensor.select"):
        chain.append(x.producer)
        x = x.producer.inputs[0]
    return chain, x


@simplification(5)
def normalize_einsum_equation(graph: Graph) -> int:
    """Equations of torch.einsum use the letters from i on, in order of appearance, without blanks."""
    count = 0
    for op in graph.ops:
        equation = op.value("equation") if op.type == "torch.einsum" else None
        if not isinstance(equation, str) or "->" not in equation:
            continue
        letters = dict.fromkeys(c for c in equation if c.isalpha())
        names = dict(zip(letters, "ijklmnopqrstuvwxyzabcdefgh", strict=False))
        done = "".join(names.get(c, c) for c in equation if c != " ")
        if done != equation and len(letters) <= 26:
            op.params["equation"] = done
            count += 1
    return count
