"""Graphs as flat rows, for ``pickle``.

Operators and operands link to each other: pickled as they are, a long chain of them would exceed the recursion limit.
Rows name operators and operands by number. Knows the parts of a graph, not the graph.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

from pnnx_fast.ir.operator import Operand, Operator

__all__ = ["Rows", "from_rows", "to_rows"]

Rows: TypeAlias = tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]
"""Of each operand, and of each operator, the fields that are no links, then numbers of what they link to."""


def to_rows(ops: Sequence[Operator], operands: Iterable[Operand]) -> Rows:
    """Describe wired operators and operands by rows."""
    operands = list(operands)
    op_number = {op: i for i, op in enumerate(ops)}
    number = {operand: i for i, operand in enumerate(operands)}
    values = [(x.name, x.dtype, x.shape, x._params, x.was_read, [op_number[c] for c in x.consumers]) for x in operands]
    nodes = [
        (o.type, o.name, o.params, o.attrs, o.inputnames, [number[x] for x in o.inputs], [number[x] for x in o.outputs])
        for o in ops
    ]
    return values, nodes


def from_rows(rows: Rows) -> tuple[list[Operator], dict[str, Operand]]:
    """Make the operators, and the operands by name, that :func:`to_rows` described."""
    values, nodes = rows
    operands = [Operand(name) for name, *_ in values]
    ops = []
    for type, name, params, attrs, inputnames, inputs, outputs in nodes:
        op = Operator(type, name, params, attrs)
        op.inputnames, op.inputs = inputnames, [operands[i] for i in inputs]
        for i in outputs:
            op.add_output(operands[i])
        ops.append(op)
    for operand, (_, dtype, shape, params, was_read, consumers) in zip(operands, values, strict=True):
        operand.dtype, operand.shape, operand._params, operand.was_read = dtype, shape, params, was_read
        operand.consumers = [ops[i] for i in consumers]
    return ops, {operand.name: operand for operand in operands}
