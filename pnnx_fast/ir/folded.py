"""Constants that the converter computed, and what it may have done to them; it changes no graph."""

from __future__ import annotations

import math
from collections.abc import Iterable

from pnnx_fast.ir.levels import spellings
from pnnx_fast.ir.operator import Operand, Operator

__all__ = ["WRITES", "changed_constant", "filled_with", "versions_of"]

_FOLDED = "pnnx_fold_"
"""How the names of constants begin that the converter computed."""

_REPLACED = spellings("scatter", "index_put", "index_copy", "index_fill", "masked_scatter")
WRITES = _REPLACED | spellings("scatter_add", "scatter_reduce", "index_add", "index_reduce")
"""Operators that write at places which the data tells, into the first input."""

_SLICED = "Tensor.slice_copy"
_VIEWS = frozenset({"Tensor.select", "Tensor.slice", "Tensor.clone", "torch.clone"})
"""Operators whose results lie in their first input, or are copies that the converter made of it for writes."""


def _owner(operand: Operand) -> Operator | None:
    """The operator that made the tensor of which something is a view, before or after writes to its slices."""
    while (op := operand.producer) is not None and op.type in _VIEWS | {_SLICED} and op.inputs:
        operand = op.inputs[0]
    return operand.producer


def versions_of(constant: Operator, ops: Iterable[Operator]) -> list[Operator]:
    """The operators, given in order, whose results are a constant as a whole after writes to it."""
    whole, found = constant.outputs[0], []
    reached = {whole}
    for op in ops:
        if op.inputs and op.outputs and op.inputs[0] in reached and op.type in _VIEWS | WRITES | {_SLICED}:
            reached.add(op.outputs[0])
            if op.type not in _VIEWS and op.outputs[0].shape in (None, whole.shape):
                found.append(op)
    return found


def _adds_to(op: Operator) -> bool:
    """Whether a write to a slice takes what was there into account."""
    source = op.inputs[1].producer if op.type == _SLICED and len(op.inputs) > 1 else None
    if source is None or source.type != "pnnx.Expression":
        return False
    maker = _owner(op.inputs[0])
    return any(x.producer is not None and x.producer.type in _VIEWS and _owner(x) is maker for x in source.inputs)


def changed_constant(op: Operator) -> Operator | None:
    """The constant that an operator writes to, where it may hold what the converter's own run wrote there.

    These are writes by indices, also into views of the constant, and sums that go to slices of it.

    The converter runs the model before it notes the constants, and ``torch.zeros(n).scatter_add_(0, i, x)`` has changed
    its zeros by then. Such a tensor is filled with one value before it is written to, and with several ones thereafter.
    As many new values as there are places are taken for a permutation, which leaves nothing of the old ones.
    """
    maker = _owner(op.inputs[0]) if op.inputs and (op.type in WRITES or _adds_to(op)) else None
    if maker is None or maker.type != "pnnx.Attribute" or not maker.name.startswith(_FOLDED):
        return None
    data = maker.attrs.get("data")
    if data is None or data.dtype is None or data.elemcount < 2:
        return None
    whole = op.inputs[0] is maker.outputs[0]
    replaces = whole and op.type in _REPLACED and not ("accumulate" in op.params and op.params["accumulate"].value)
    if replaces and any(math.prod(x.shape) >= data.elemcount for x in op.inputs[1:] if x.shape is not None):
        return None
    values = data.numpy().reshape(-1)
    return maker if bool((values != values[0]).any()) else None


def filled_with(op: Operator, ops: Iterable[Operator]) -> float | int | bool | None:
    """The one value of a constant that the converter computed and that operators, given in order, write to."""
    data = op.attrs.get("data") if op.type == "pnnx.Attribute" and op.name.startswith(_FOLDED) else None
    users = {x.type for x in op.outputs[0].consumers} if data is not None and op.outputs else set()
    if data is None or data.dtype is None or data.elemcount < 2 or users.isdisjoint(_VIEWS | WRITES | {_SLICED}):
        return None
    values = data.numpy().reshape(-1)
    if bool((values != values[0]).any()) or not versions_of(op, ops):
        return None
    value: float | int | bool = values[0].item()
    return value
