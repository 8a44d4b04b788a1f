"""Slices, selections and indices as subscripts in generated Python."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from pnnx_fast.errors import ParameterError
from pnnx_fast.formats.python_expression import literal, spell, tree
from pnnx_fast.formats.python_names import Names, spelled, targets
from pnnx_fast.ir import Operator
from pnnx_fast.ir.literals import MISSING
from pnnx_fast.ir.literals import literal as literal_of
from pnnx_fast.ir.parameter import OPEN_END, without_casts

__all__ = ["index", "index_put", "slice_", "slice_copy"]

_MOST_DIMENSIONS = 64  # As many as a file may note for an operand.
_INDEX = re.compile(r"@\d{1,9}|-?\d{1,19}", re.ASCII)


def _subscript(op: Operator, names: Names) -> str:
    """What stands in brackets for a slice of several dimensions, counted from either end."""
    dims = _dims(op)
    entries = {d: _range(op, names, i) for i, d in enumerate(dims)}
    front, back = [d for d in entries if d >= 0], [d for d in entries if d < 0]
    parts = [entries.get(d, ":") for d in range(max(front, default=-1) + 1)]
    if back:
        parts += ["...", *(entries.get(d, ":") for d in range(min(back), 0))]
    return ", ".join(parts)


def _dims(op: Operator) -> list[int]:
    """Dimensions of a slice: parameters, or at the converter's low levels an input that is known."""
    key = "dims" if op.has_param("dims") else "dim"
    operand = op.named_input(key)
    dims: Any = op.params[key].value if op.has_param(key) else literal_of(operand)
    if dims is MISSING:
        raise ParameterError("a slice along computed dimensions is no subscript", operator=op.where, parameter=key)
    found: list[Any] = dims if isinstance(dims, list) else [dims]
    if not all(type(d) is int and -_MOST_DIMENSIONS <= d < _MOST_DIMENSIONS for d in found):
        raise ParameterError(f"{found} are no dimensions", operator=op.where, parameter=key)
    return found


def _range(op: Operator, names: Names, i: int) -> str:
    select = _bound(op, names, "select", i)
    if select is not None and select != str(OPEN_END):
        return select
    start, end, step = (_bound(op, names, key, i) for key in ("start", "end", "step"))
    text = f"{'' if start in (None, '0', 'None') else start}:{'' if end in (None, str(OPEN_END), 'None') else end}"
    return text if step in (None, "1", "None") else f"{text}:{step}"


def _bound(op: Operator, names: Names, key: str, i: int) -> str | None:
    """Source of one bound: a parameter, an input, or an entry of a ``pnnx.SliceIndexes``."""
    for name in (key, key + "s"):
        if op.has_param(name):
            value = without_casts(op.params[name].value)
            return literal(_entry(op, name, value, i) if isinstance(value, list) else value)
        operand = op.named_input(name)
        if operand is None:
            continue
        producer = operand.producer
        if producer is None or producer.type != "pnnx.SliceIndexes":
            return names.of(operand) + (f"[{i}]" if name != key else "")
        indexes = producer.params["indexes"].value
        entries = indexes if isinstance(indexes, list) else str(indexes).strip("()[]").split(",")
        entry = str(_entry(op, name, entries, i)).strip()
        if not _INDEX.fullmatch(entry):
            raise ParameterError(f"{entry} is no index", operator=producer.where, parameter="indexes")
        if not entry.startswith("@"):
            return literal(int(entry))
        return names.of(_entry(producer, "indexes", producer.inputs, int(entry[1:])))
    return None


def _entry(op: Operator, key: str, entries: Sequence[Any], i: int) -> Any:
    if i >= len(entries):
        raise ParameterError(f"there is no entry {i}", operator=op.where, parameter=key)
    return entries[i]


def slice_(op: Operator, names: Names) -> list[str]:
    """Statements that take a part of a tensor."""
    return [f"{targets(op, names)} = {names.of(op.inputs[0])}[{_subscript(op, names)}]"]


def slice_copy(op: Operator, names: Names) -> list[str]:
    """Statements that put a tensor or a number into a part of a copy of a tensor."""
    x, y = (names.of(o) for o in (op.inputs[0], op.outputs[0]))
    source = spelled(op.params["src"].value) if op.has_param("src") else names.of(op.inputs[1])
    return [f"{y} = {x}.clone()", f"{y}[{_subscript(op, names)}] = {source}"]


def index(op: Operator, names: Names) -> list[str]:
    """Statements that index with lists, masks and tensors."""
    x = names.of(op.inputs[0])
    if not op.has_param("expr"):
        key = names.of(op.inputs[1])
        return [f"{targets(op, names)} = {x}[tuple(slice(None) if i is None else i for i in {key})]"]
    root = tree(str(op.params["expr"].value), op.where)
    inputs = [names.fragment(y) for y in op.inputs]
    entries = [spell(node, inputs).text for node in root.children] or [spell(root, inputs).text]
    alone = "," if len(entries) == 1 and entries[0].startswith("[[") else ""  # else a list of lists is a tuple of lists
    return [f"{targets(op, names)} = {x}[{', '.join(':' if e == 'None' else e for e in entries)}{alone}]"]


def index_put(op: Operator, names: Names) -> list[str]:
    """Statements that set elements at indices."""
    x = names.of(op.inputs[0])
    indices = op.named_input("indices") or op.inputs[1]
    values = op.named_input("values") or (op.inputs[2] if len(op.inputs) > 2 else None)
    text = names.of(values) if values is not None else spelled(op.params["values"].value)
    if values is None or names.kinds.get(values) == "number":
        text = f"torch.tensor({text}, dtype={x}.dtype)"
    accumulate = bool(op.value("accumulate"))
    return [f"{targets(op, names)} = torch.ops.aten.index_put({x}, {names.of(indices)}, {text}, {accumulate})"]
