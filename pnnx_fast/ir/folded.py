"""Constants that the converter computed, and what it may have done to them; it changes no graph."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from pnnx_fast._types import SPECIAL_FLOATS, Array
from pnnx_fast.ir.levels import bare, spellings
from pnnx_fast.ir.operator import Operand, Operator

if TYPE_CHECKING:
    from pnnx_fast.ir.cells import CellPart

__all__ = [
    "FILLS",
    "FOLDED",
    "WRITES",
    "changed_constant",
    "filled_with",
    "filling",
    "is_constant",
    "is_folded",
    "versions_of",
]

FOLDED = "pnnx_fold_"
"""How the names of constants begin that the converter computed."""

_REPLACED = spellings("scatter", "index_put", "index_copy", "index_fill", "masked_scatter")
WRITES = _REPLACED | spellings("scatter_add", "scatter_reduce", "index_add", "index_reduce")
"""Operators that write at places which the data tells, into the first input."""

_IN_PLACE = {"aten::__ior__": True, "aten::__iand__": False}
"""Operators that are in place in every file, and the truth value that they leave alone whatever the second input is."""

FILLS = spellings("masked_fill") | frozenset(_IN_PLACE)
"""Operators that may write one value into the first input, where a mask tells."""

_WRITING = WRITES | FILLS

_SLICED = "Tensor.slice_copy"
_VIEWS = frozenset({"Tensor.select", "Tensor.slice", "Tensor.clone", "torch.clone"})
"""Operators whose results lie in their first input, or are copies that the converter made of it for writes."""

_WIDENED = spellings("expand", "expand_as")

_MOST_UPSTREAM = 400
"""Operators that are looked at for what a mask comes from."""


def is_constant(op: Operator) -> bool:
    """Whether an operator is a constant with a result."""
    return op.type == "pnnx.Attribute" and "data" in op.attrs and bool(op.outputs)


def _owner(operand: Operand) -> Operator | None:
    """The operator that made the tensor of which something is a view, before or after writes to its slices."""
    while (op := operand.producer) is not None and op.type in _VIEWS | {_SLICED} and op.inputs:
        operand = op.inputs[0]
    return operand.producer


def is_folded(operand: Operand) -> bool:
    """Whether a tensor is a constant that the converter computed, or a view of one, before or after writes to it."""
    maker = _owner(operand)
    return maker is not None and maker.type == "pnnx.Attribute" and maker.name.startswith(FOLDED)


def versions_of(constant: Operator, ops: Iterable[Operator]) -> list[Operator]:
    """The operators, given in order, whose results are a constant as a whole after writes to it."""
    whole, found = constant.outputs[0], []
    reached = {whole}
    for op in ops:
        if op.inputs and op.outputs and op.inputs[0] in reached and op.type in _VIEWS | _WRITING | {_SLICED}:
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

    These are writes by indices and masks, also into views of the constant, and sums that go to slices of it.

    The converter runs the model before it notes the constants, and ``torch.zeros(n).scatter_add_(0, i, x)`` has changed
    its zeros by then. Such a tensor is filled with one value before it is written to, and with several ones thereafter.
    As many new values as there are places are taken for a permutation, which leaves nothing of the old ones, unless
    they go where a mask tells: then the run wrote to all places.

    Sums in recurrent cells, which PyTorch computes in place, are among the operators, too.
    """
    if op.type == "pnnx.Expression":
        part = _part_of_cell(op)
        return None if part is None else part.constant
    if not op.inputs or not (op.type in _WRITING or _adds_to(op)):
        return None
    maker = _owner(op.inputs[0])
    if maker is None or not is_folded(op.inputs[0]):
        return None
    data = maker.attrs.get("data")
    if data is None or data.dtype is None or data.elemcount < 2:
        return None
    if op.type in FILLS:
        return maker if _was_filled(op, data.numpy()) else None
    values = data.numpy().reshape(-1)
    by_mask = bare(op.type) == "index_put" and _is_by_mask(op)
    if by_mask and (value := filling(op)) is not None and bool((values == value).all()):
        return maker
    whole = op.inputs[0] is maker.outputs[0]
    replaces = whole and op.type in _REPLACED and not op.value("accumulate")
    if replaces and any(math.prod(x.shape) >= data.elemcount for x in op.inputs[1:] if x.shape is not None):
        return maker if by_mask else None
    return maker if bool((values != values[0]).any()) else None


def _part_of_cell(op: Operator) -> CellPart | None:
    if not any(map(is_folded, op.inputs)):
        return None
    from pnnx_fast.ir.cells import cell_part  # few models need it

    return cell_part(op)


def filling(op: Operator) -> Any:
    """The one value that an operator writes where a mask tells; None where the file has no number for it."""
    if op.type in _IN_PLACE:
        return _IN_PLACE[op.type]
    key = "values" if bare(op.type) == "index_put" else "value"
    value = op.value(key)
    value = SPECIAL_FLOATS.get(value, value) if isinstance(value, str) else value
    return value if isinstance(value, (bool, int, float)) else None


def _is_by_mask(op: Operator) -> bool:
    """Whether truth values are among the indices."""
    maker = op.inputs[1].producer if len(op.inputs) > 1 else None
    return maker is not None and any(x.dtype == "bool" for x in maker.inputs)


def _was_filled(op: Operator, data: Array) -> bool:
    """Whether a constant may have been filled in place by the converter's run, where its mask was true.

    Then all entries hold what is filled in: no model fills a tensor with what is there anyway. Or places of the mask
    hold that, and the others one value; along axes along which the mask has one entry, these are equal. Where
    attention's mask of later positions is filled in a new tensor for padding, with the value that it has itself, this
    has another shape, these places differ, or the mask is made of the constant.
    """
    value, noted = filling(op), op.outputs[0].shape if op.outputs else None
    if value is None or len(op.inputs) < 2 or (noted is not None and noted != op.inputs[0].shape):
        return False
    seen = _seen(op.inputs[0], data)
    if seen is None or not seen.size or (op.type in _IN_PLACE and seen.dtype.kind != "b"):
        return False
    filled = seen == value
    if filled.all():
        return True
    mask, others = op.inputs[1], seen[~filled]
    if seen is not data or not filled.any() or bool((others != others[0]).any()):
        return False
    return _follows(filled, mask) and not _depends(mask, op.inputs[0])


def _seen(x: Operand, data: Array) -> Array | None:
    """The entries of a constant that a view of it has; None where the view's place is computed."""
    views: list[Operator] = []
    while x.producer is not None and x.producer.type in _VIEWS:
        views.append(x.producer)
        x = x.producer.inputs[0]
    if x.producer is None or x.producer.type != "pnnx.Attribute":
        return None
    for view in reversed(views):
        if bare(view.type) == "clone":
            continue
        selects = bare(view.type) == "select"
        keys = ("dim", "index") if selects else ("dim", "start", "end", "step")
        given: list[Any] = [view.value(key) for key in keys]
        dim, first, *rest = given
        if not all(type(n) is int for n in given) or not -data.ndim <= dim < data.ndim or (rest and rest[1] < 1):
            return None
        if selects and not -data.shape[dim] <= first < data.shape[dim]:
            return None
        data = data[(slice(None),) * (dim % data.ndim) + ((first,) if selects else (slice(first, *rest),))]
    return data


def _follows(filled: Array, mask: Operand) -> bool:
    """Whether places are equal along all axes along which a mask, before it was widened, has one entry."""
    while mask.producer is not None and mask.producer.type in _WIDENED and mask.producer.inputs:
        mask = mask.producer.inputs[0]
    shape = mask.shape
    if shape is None or len(shape) > filled.ndim:
        return True
    sizes = (*(1,) * (filled.ndim - len(shape)), *shape)
    return all(n != 1 or bool((filled == filled.take([0], axis)).all()) for axis, n in enumerate(sizes))


def _depends(mask: Operand, constant: Operand) -> bool:
    """Whether a mask is made of a constant, among other things, or of so much that it is not known."""
    waiting, visited = [mask], {mask}
    while waiting:
        x = waiting.pop()
        if x is constant or len(visited) > _MOST_UPSTREAM:
            return True
        more = [] if x.producer is None else [y for y in x.producer.inputs if y not in visited]
        visited.update(more)
        waiting += more
    return False


def filled_with(op: Operator, ops: Iterable[Operator]) -> float | int | bool | None:
    """The one value of a constant that the converter computed and that operators, given in order, write to."""
    data = op.attrs.get("data") if op.type == "pnnx.Attribute" and op.name.startswith(FOLDED) else None
    users = {x.type for x in op.outputs[0].consumers} if data is not None and op.outputs else set()
    if data is None or data.dtype is None or data.elemcount < 2 or users.isdisjoint(_VIEWS | _WRITING | {_SLICED}):
        return None
    values = data.numpy().reshape(-1)
    if bool((values != values[0]).any()) or not versions_of(op, ops):
        return None
    value: float | int | bool = values[0].item()
    return value
