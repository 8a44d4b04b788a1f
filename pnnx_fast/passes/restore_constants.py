"""Constant tensors of one element are tensors again.

The converter's low levels write them as numbers, whose dimensions only the note at the operand tells; as an index, or
beside a smaller tensor, a number gives other shapes. Where an entry of such a tensor is selected, the converter writes
the number as a parameter, and the entry is that number. Needed for right results, so this pass always runs.
"""

from __future__ import annotations

import numpy as np

from pnnx_fast.ir import Graph, Operator, Parameter
from pnnx_fast.ir.check import selects_number
from pnnx_fast.ir.dtypes import by_text
from pnnx_fast.ir.notes import number_shape
from pnnx_fast.passes.moves import become, new_constant, succeed

__all__ = ["restore_constants"]


def restore_constants(graph: Graph) -> bool:
    """Replace numbers that are noted as tensors with dimensions; returns whether there were any."""
    found = False
    for op in list(graph.ops):
        if selects_number(op):
            _become_number(op)
            found = True
        shape = number_shape(op)
        dtype = by_text[op.outputs[0].dtype or ""].numpy if shape is not None else None
        if shape is not None and dtype is not None:
            from pnnx_fast.ir.literals import literal

            x = op.outputs[0]
            made = new_constant(graph, np.full(shape, literal(x), dtype), f"{x.name}_tensor", f"{op.name}_tensor", op)
            succeed(graph, op, {x: made})
            found = True
    return found


def _become_number(op: Operator) -> None:
    number = op.params["input"]
    become(op, "pnnx.Expression", expr=Parameter.verbatim(number.text))
