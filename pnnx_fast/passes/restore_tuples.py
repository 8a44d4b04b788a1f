"""Recurrent layers of scripted models give their tensors as outputs.

Files of such models read the results from tuples, where the states of nn.LSTM are a tuple of their own. Traced models
have other tuples, without what nothing reads; `restore_outputs` knows them. Needed for right results, so this pass
runs before every run; in files the simplifications do it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from pnnx_fast.ir import Graph, Operand, Operator
from pnnx_fast.ir.notes import RECURRENT
from pnnx_fast.passes.moves import succeed
from pnnx_fast.passes.restore_outputs import like, with_outputs

__all__ = ["restore_tuples", "take_apart", "taken"]

_UNPACK, _INDEX = "prim::TupleUnpack", "prim::TupleIndex"

T = TypeVar("T")

_Results = str | tuple["_Results", ...]
"""The role of a tensor, or those in a tuple."""


def restore_tuples(graph: Graph) -> bool:
    """Rewire recurrent layers whose results are read from tuples; returns whether any was."""
    return take_apart(graph) > 0


def take_apart(graph: Graph) -> int:
    """Rewire recurrent layers whose results are read from tuples; returns how many were."""
    layers = [op for op in graph.ops if op.type in RECURRENT]
    return sum(_rewire(graph, op) for op in layers)


def _rewire(graph: Graph, op: Operator) -> bool:
    """Give a layer its tensors as outputs, where these are all that is read from its tuples; returns whether it did."""
    whole: _Results = ("y", ("h", "c") if op.type == "nn.LSTM" else "h")
    tops = zip(op.outputs, whole, strict=False) if len(op.outputs) == 2 else [(op.outputs[0], whole)]
    readers: list[Operator] = []
    roles: dict[Operand, str] = {}
    known = len(op.outputs) < 3 and all(_follow(operand, results, readers, roles) for operand, results in tops)
    if not known or all(reader.type == _UNPACK and reader.inputs[0] is op.outputs[0] for reader in readers):
        return False
    noted = {role: operand for operand, role in roles.items()}
    made = {role: like(graph, f"{op.name}_{role}", noted.get(role)) for role in RECURRENT[op.type][0]}
    with_outputs(graph, op, "apart", list(made.values()))
    for reader in (*reversed(readers), op):
        succeed(graph, reader, {x: made[roles[x]] for x in reader.outputs if x in roles})
    return True


def _follow(operand: Operand, results: _Results, readers: list[Operator], roles: dict[Operand, str]) -> bool:
    """Collect what reads a tuple, and the roles of the tensors read; returns whether nothing else reads it."""
    if isinstance(results, str):
        roles[operand] = results
        return True
    if operand.shape is not None or not all(user.type in (_UNPACK, _INDEX) for user in operand.consumers):
        return False
    for user in operand.consumers:
        readers.append(user)
        parts = taken(user, results)
        if len(parts) != len(user.outputs):
            return False
        if not all(_follow(x, part, readers, roles) for x, part in zip(user.outputs, parts, strict=True)):
            return False
    return True


def taken(reader: Operator, parts: Sequence[T]) -> Sequence[T]:
    """Return what an operator that unpacks or indexes takes out of a tuple; nothing where that is not known."""
    if reader.type != _INDEX:
        return parts if len(reader.inputs) == 1 else ()
    from pnnx_fast.ir.literals import literal  # few models need it

    index = literal(reader.inputs[1]) if len(reader.inputs) == 2 else None
    return [parts[index]] if isinstance(index, int) and -len(parts) <= index < len(parts) else ()
