"""``torch.as_strided`` counts in the memory of the tensor of which its input is a view, not in the input's own order.

A graph shows the views between the two; this pass hands the tensor itself on. It follows views whose strides it can
tell from the shapes in the file, and stops where a reshape must copy. Needed for right results, so it always runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pnnx_fast.ir import Graph, Operand, Operator
from pnnx_fast.ir.literals import MISSING, literal

__all__ = ["restore_storage"]

RESHAPES = frozenset({"Tensor.reshape", "Tensor.view", "torch.flatten", "torch.squeeze", "torch.unsqueeze"})
TRANSPOSES = frozenset({"torch.transpose", "torch.permute", "Tensor.permute"})


def restore_storage(graph: Graph) -> bool:
    """Give strided views the tensor that owns the memory; returns whether any input was another one."""
    found = False
    for op in graph.ops:
        if op.type == "torch.as_strided" and op.inputs:
            owner = _owner(op.inputs[0])
            if owner is not op.inputs[0]:
                op.set_input(0, owner)
                found = True
    return found


def _owner(operand: Operand) -> Operand:
    chain: list[Operator] = []
    x = operand
    while (op := x.producer) is not None and op.type in RESHAPES | TRANSPOSES and op.inputs:
        if not _is_known(op.inputs[0]) or not _is_known(op.outputs[0]):
            break
        chain.insert(0, op)
        x = op.inputs[0]
    strides = _dense(x.shape or ())
    for op in chain:
        made = _strides_behind(op, strides)
        if made is None:
            x, made = op.outputs[0], _dense(op.outputs[0].shape or ())
        strides = made
    return x


def _is_known(operand: Operand) -> bool:
    return operand.shape is not None and min(operand.shape, default=1) > 0


def _dense(shape: Sequence[int]) -> list[int]:
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= size
    return strides[::-1]


def _strides_behind(op: Operator, strides: Sequence[int]) -> list[int] | None:
    """Strides of the output of a view, None when it is a copy."""
    if op.type in RESHAPES:
        return _reshaped(op.inputs[0].shape or (), strides, op.outputs[0].shape or ())
    order = list(range(len(strides)))
    if op.type == "torch.transpose":
        i, j = (_argument(op, key) for key in ("dim0", "dim1"))
        if MISSING in (i, j):
            return None
        order[i], order[j] = order[j], order[i]
    else:
        order = _argument(op, "dims")
        if order is MISSING:
            return None
    return [strides[d] for d in order]


def _argument(op: Operator, key: str) -> Any:
    """A parameter, which is an operand in files of low levels."""
    return op.params[key].value if key in op.params else literal(op.named_input(key))


def _reshaped(shape: Sequence[int], strides: Sequence[int], sizes: Sequence[int]) -> list[int] | None:
    runs: list[tuple[int, int]] = []  # elements and stride of dimensions that count as one, innermost first
    for n, stride in zip(reversed(shape), reversed(strides), strict=True):
        if runs and stride == runs[-1][0] * runs[-1][1]:
            runs[-1] = (runs[-1][0] * n, runs[-1][1])
        elif n != 1:
            runs.append((n, stride))
    made: list[int] = []
    left, step = 1, 1
    for n in reversed(sizes):
        if n != 1 and left == 1 and runs:
            left, step = runs.pop(0)
        if left % n:
            return None
        made.append(step)
        left, step = left // n, step * n
    return made[::-1] if left == 1 and not runs else None
