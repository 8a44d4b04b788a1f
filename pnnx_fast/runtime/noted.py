"""Shapes that a file notes against those that lowering finds, inputs whose role it does not tell, and constants that
the converter's own run may have changed.

At the sizes of the trace both shapes are the same, unless the file lost something or was edited by hand. The operator
is named then, by a warning: which of the two is right is not known here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from pnnx_fast._types import Shape
from pnnx_fast._warning import warn
from pnnx_fast.ir import Operand, Operator
from pnnx_fast.ir.folded import changed_constant
from pnnx_fast.ir.notes import untold_values
from pnnx_fast.ops import registry
from pnnx_fast.ops.symbolic import Tensor, Value
from pnnx_fast.passes.memory import CUTS, VIEWS

__all__ = ["compare_noted", "name_doubts"]


_CLONE = "_ncnnclone"
"""How the names of copies end that the converter makes for its writes."""


def compare_noted(inputs: Sequence[Operand], ops: Sequence[Operator], values: Mapping[str, Value]) -> None:
    """Warn of the first operator whose result has another shape than noted, if the inputs of the graph have those."""
    if not all(_given(x, values) == x.shape for x in inputs):
        return
    for op in ops:
        for x in op.outputs:
            if x.shape is None or (found := _given(x, values)) is None or found == x.shape or _may_be(found, x.shape):
                continue
            if all(_may_be(_given(y, values), y.shape) for y in op.inputs) and not registry.users_own([op.type]):
                noted = ",".join("?" if n < 0 else str(n) for n in x.shape)
                warn(f"{op.where} gives shape {list(found)} where the file notes ({noted}): its results may be wrong")
                return


def name_doubts(ops: Sequence[Operator]) -> None:
    """Warn of the first operator of each kind whose results may be wrong for what the file does not tell."""
    for doubt in (_untold, _changed, partial(_apart, ops)):
        told = next(filter(None, map(doubt, ops)), None)
        if told is not None:
            warn(f"{told}: its results may be wrong")


def _untold(op: Operator) -> str | None:
    """Of attention whose second input may have been the values alone."""
    x = untold_values(op)
    if x is None:
        return None
    return (
        f"{op.where} takes {x.name} for its keys and values; the file does not tell whether it is the values "
        f"alone, and {op.inputs[0].name} query and keys"
    )


def _changed(op: Operator) -> str | None:
    """Of a write by indices into a constant that may hold what the converter's own run wrote there."""
    constant = changed_constant(op)
    if constant is None:
        return None
    return (
        f"{op.where} writes into the constant {constant.name}, where the converter may have kept what its own run wrote"
    )


def _apart(ops: Sequence[Operator], op: Operator) -> str | None:
    """Of a write into a view whose tensor is read later, without what was written.

    The converter writes to a copy of the view, whose name tells it from a copy that the model makes.
    """
    clone = op.inputs[0].producer if op.type == "Tensor.slice_copy" and op.inputs else None
    view = clone.inputs[0].producer if clone is not None and clone.name.endswith(_CLONE) and clone.inputs else None
    if view is None or view.type not in VIEWS - CUTS or _mended(op) or not view.inputs:
        return None
    later = set(ops[ops.index(op) :])
    readers = [x for x in view.inputs[0].consumers if x is not view]
    visited = {view}
    while readers:
        reader = readers.pop(0)
        if reader in visited:
            continue
        visited.add(reader)
        if reader in later:
            return f"{reader.where} reads {view.inputs[0].name} without what {op.where} writes to a view of it"
        if reader.type in VIEWS:
            readers += [x for y in reader.outputs for x in y.consumers]
    return None


def _mended(op: Operator) -> bool:
    """Whether what a write gives has the shape of the tensor again, by which the converter goes on with it."""
    x = op.outputs[0].consumers if op.outputs else []
    return len(x) == 1 and x[0].type == "Tensor.reshape" and x[0].name == f"{op.name}_reshape"


def _given(x: Operand, values: Mapping[str, Value]) -> Shape | None:
    value = values.get(x.name)
    return value.shape if isinstance(value, Tensor) else None


def _may_be(found: Shape | None, noted: Shape | None) -> bool:
    """Whether a shape may be the one noted, in which sizes that vary are -1."""
    if found is None or noted is None:
        return True
    return len(found) == len(noted) and all(m in (n, -1) for n, m in zip(found, noted, strict=True))
