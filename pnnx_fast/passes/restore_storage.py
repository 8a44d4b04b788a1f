"""``torch.as_strided`` counts in the memory of the tensor of which its input is a view, not in the input's own order.

A graph shows the views between the two; this pass hands the tensor itself on. It follows views whose strides it can
tell from the shapes in the file, and stops where a reshape must copy. Needed for right results, so it always runs.
Slices that leave gaps are an error, for nothing here tells where they begin.
"""

from __future__ import annotations

from collections.abc import Sequence

from pnnx_fast.errors import ParameterError
from pnnx_fast.ir import Graph, Operand, Operator
from pnnx_fast.ir.shapes import dense_strides
from pnnx_fast.passes.memory import CUTS, RESHAPING, TRANSPOSES, strides_behind
from pnnx_fast.passes.moves import numbers

__all__ = ["restore_storage"]


def restore_storage(graph: Graph) -> bool:
    """Give strided views the tensor that owns the memory; returns whether any input was another one."""
    found = False
    for op in graph.ops:
        if op.type == "torch.as_strided" and op.inputs:
            owner = _owner(op.inputs[0])
            if owner.producer is not None and not _is_dense(owner.producer):
                raise ParameterError("a strided view of a slice counts in memory that is not known", operator=op.where)
            if owner is not op.inputs[0]:
                op.set_input(0, owner)
                found = True
    return found


def _owner(operand: Operand) -> Operand:
    chain: list[Operator] = []
    x = operand
    while (op := x.producer) is not None and op.type in RESHAPING | TRANSPOSES and op.inputs:
        if not _is_known(op.inputs[0]) or not _is_known(op.outputs[0]):
            break
        chain.insert(0, op)
        x = op.inputs[0]
    strides: Sequence[int] = dense_strides(x.shape or ())
    for op in chain:
        behind = strides_behind(op, strides)
        if behind is None:
            x = op.outputs[0]
        strides = behind or dense_strides(x.shape or ())
    return x


def _is_dense(op: Operator) -> bool:
    """Whether what an operator makes lies in memory without gaps: not what it cuts out of a tensor, but for rows."""
    given, made = op.inputs[0].shape if op.inputs else None, op.outputs[0].shape
    if op.type not in CUTS or given is None or made is None:
        return True
    if len(made) < len(given):
        return made == given[1:]
    return made[1:] == given[1:] and numbers(op, "step", 1) == [1] and set(numbers(op, "steps", 1)) == {1}


def _is_known(operand: Operand) -> bool:
    return operand.shape is not None and min(operand.shape, default=1) > 0
