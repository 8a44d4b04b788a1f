"""Operators whose results may be wrong for what a file does not tell: constants that the converter's own run may have
changed, writes that others do not see. Warnings name them.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial

from pnnx_fast._warning import warn
from pnnx_fast.ir import Operator
from pnnx_fast.ir.folded import changed_constant, filled_with, is_constant
from pnnx_fast.ir.levels import bare

__all__ = ["name_doubts", "name_kept"]

_CLONE = "_ncnnclone"
"""How the names of copies end that the converter makes for its writes."""


def name_doubts(ops: Sequence[Operator], known: Collection[Operator] = ()) -> None:
    """Warn of the first operator of each kind whose results may be wrong for what the file does not tell.

    ``known`` are constants of which it is known that they are what the model starts with.
    """
    for doubt in (partial(_changed, known), _untold_truth, partial(_apart, ops)):
        told = next(filter(None, map(doubt, ops)), None)
        if told is not None:
            warn(f"{told}: its results may be wrong")


def name_kept(ops: Sequence[Operator], mended: Sequence[Operator], known: Collection[Operator]) -> None:
    """Warn of the first mended constant that Python source reads from a file; those of one value it spells out.

    ``mended`` are the operators of a copy, and ``known`` its constants that are what the model starts with.
    """
    made = {op.outputs[0].name: op for op in known}
    for op in filter(is_constant, ops):
        now = made.get(op.outputs[0].name, op)
        if now.attrs["data"] is not op.attrs["data"] and filled_with(now, mended) is None:
            warn(f"{op.where} is in the file of weights as the converter's own run left it: results may be wrong")
            return


def _changed(known: Collection[Operator], op: Operator) -> str | None:
    """Of a write by indices or masks into a constant that may hold what the converter's own run wrote there."""
    constant = changed_constant(op)
    if constant is None or constant in known:
        return None
    return (
        f"{op.where} writes into the constant {constant.name}, where the converter may have kept what its own run wrote"
    )


def _untold_truth(op: Operator) -> str | None:
    """Of a write of a truth value, of which the converter leaves None."""
    if bare(op.type) != "index_put" or (op.inputs and op.inputs[0].dtype not in (None, "bool")):
        return None
    from pnnx_fast.ir.literals import literal  # few models need it

    if (op.value("values") if "values" in op.params else literal(op.named_input("values"))) is not None:
        return None
    return f"{op.where} writes a truth value that the file does not tell, and that is taken for False"


def _apart(ops: Sequence[Operator], op: Operator) -> str | None:
    """Of a write into a view whose tensor is read later, without what was written.

    The converter writes to a copy of the view, whose name tells it from a copy that the model makes.
    """
    clone = op.inputs[0].producer if op.type == "Tensor.slice_copy" and op.inputs else None
    view = clone.inputs[0].producer if clone is not None and clone.name.endswith(_CLONE) and clone.inputs else None
    if view is None:
        return None
    from pnnx_fast.passes.memory import CUTS, VIEWS  # with all that is known of views, which few models need

    if view.type not in VIEWS - CUTS or _mended(op) or not view.inputs:
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
