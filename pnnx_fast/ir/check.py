"""Consistency of a graph: what must hold between its operators and operands.

Used by :meth:`Graph.validate`, and by whatever reads graphs without asking at every operator; changes nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from pnnx_fast.errors import GraphError
from pnnx_fast.ir.attribute import Attribute
from pnnx_fast.ir.dtypes import by_text
from pnnx_fast.ir.operand import Operand
from pnnx_fast.ir.operator import Operator
from pnnx_fast.ir.weights import contradictions, lacks_weight

__all__ = ["problems", "require_connections", "selects_number"]

_CONNECTED = ("nn.", "F.", "Tensor.", "pnnx.Output", "prim::TupleUnpack")
"""Beginnings of operator types that take something, be it an attribute of that name."""


def require_connections(ops: Sequence[Operator]) -> None:
    """Raise for operators that lack what passes and writers count on: inputs, outputs, an expression, data.

    Raises
    ------
    GraphError
        Naming every such operator.
    """
    found = []
    for op in ops:
        if not op.inputs and "input" not in op.attrs and op.type.startswith(_CONNECTED) and not selects_number(op):
            found.append(f"{op.type} {op.name} has no input")
        if not op.outputs and op.type != "pnnx.Output":
            found.append(f"{op.type} {op.name} has no output")
        if op.type == "pnnx.Expression" and "expr" not in op.params:
            found.append(f"{op.type} {op.name} has no 'expr'")
        if op.type == "pnnx.Attribute" and not op.attrs:
            found.append(f"{op.type} {op.name} has no data")
    if found:
        raise GraphError(found)


def selects_number(op: Operator) -> bool:
    """Whether an operator takes the only entry of a constant tensor, written as a number in the place of its input."""
    fits = op.type == "Tensor.select" and not op.inputs and op.has_param("input")
    return fits and isinstance(op.params["input"].value, int | float)


def problems(ops: Sequence[Operator], operands: Mapping[str, Operand]) -> list[str]:
    """Return one sentence for every problem, in the order of operators."""
    found = list(_of_weights(ops))
    slots: dict[Operand, list[Operator]] = {}
    for op in ops:
        for operand in op.inputs:
            slots.setdefault(operand, []).append(op)
        found += [f"{op.name}: {text}" for text in _of_operator(op, operands)]
    present = set(ops)
    for operand in operands.values():
        found += _of_operand(operand, slots.get(operand, []), present)
    return found


def _of_weights(ops: Sequence[Operator]) -> Iterator[str]:
    """Operators of one name share their weights: a module that is called several times.

    Constants of one name are constants of their own: the converter's low levels call all that a module holds after it.
    """
    seen: dict[str, Attribute] = {}
    for op in ops:
        if op.type == "pnnx.Attribute":
            continue
        for key, attr in op.attrs.items():
            if isinstance(attr, Attribute) and seen.setdefault(f"{op.name}.{key}", attr) != attr:
                yield f"{op.name}: another weight is called {op.name}.{key}, too"


def _of_operator(op: Operator, operands: Mapping[str, Operand]) -> Iterator[str]:
    for operand in (*op.inputs, *op.outputs):
        if operands.get(operand.name) is not operand:
            yield f"operand {operand.name} is not in the graph"
    for operand in op.inputs:
        if operand.producer is None:
            yield f"input {operand.name} has no producer"
    for operand in op.outputs:
        if operand.producer is not op:
            other = "nothing" if operand.producer is None else operand.producer.name
            yield f"output {operand.name} has {other} as its producer"
    if op.inputnames and len(op.inputnames) != len(op.inputs):
        yield f"{len(op.inputnames)} names for {len(op.inputs)} inputs"
    attrs: Mapping[str, object] = op.attrs
    for key, attr in attrs.items():
        if not isinstance(attr, Attribute):
            yield f"attribute {key} is a {type(attr).__name__}; Attribute(value) makes one"
        elif attr.dtype is not None and attr.dtype not in by_text:
            yield f"attribute {key} has unknown dtype {attr.dtype}"
        elif attr.dtype is not None and memoryview(attr.data).nbytes != attr.nbytes:
            yield f"attribute {key} has {memoryview(attr.data).nbytes} bytes, its shape needs {attr.nbytes}"
    if lacks_weight(op):
        yield "attribute weight is missing, which the parameters announce"
    for key, expected, actual in contradictions(op):
        yield f"attribute {key} has shape {actual}, the parameters say {expected}"


def _of_operand(operand: Operand, users: list[Operator], present: set[Operator]) -> Iterator[str]:
    if operand.dtype is not None and operand.dtype not in by_text:
        yield f"operand {operand.name} has unknown dtype {operand.dtype}"
    producer = operand.producer
    if producer is not None and (producer not in present or operand not in producer.outputs):
        yield f"operand {operand.name} has {producer.name} as its producer, which does not put it out"
    if Counter(operand.consumers) != Counter(users):
        listed, real = (sorted(x.name for x in side) for side in (operand.consumers, users))
        yield f"operand {operand.name} lists consumers {listed}, but is an input of {real}"
