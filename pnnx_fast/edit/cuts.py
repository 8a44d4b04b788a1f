"""Cuts of axes that vary: slices, splits, selections, turns. Their places follow what an axis was made of, or are told.

Places that tracing has fixed may be sizes; those of the model, such as the first token, stay as they are.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING

from pnnx_fast.edit.arguments import arguments
from pnnx_fast.errors import ShapeError
from pnnx_fast.ir import Operand, Operator

if TYPE_CHECKING:
    from pnnx_fast.edit.unbake import Sizes, Unbaking

__all__ = ["CUTS", "UNBOUND", "as_long", "mend_narrow", "mend_slice", "tell_cuts", "tell_taken"]

CUTS = {
    "torch.roll": ("shifts",),
    "Tensor.select": ("index",),
    "torch.tensor_split": ("indices",),
    "torch.split": ("split_size_or_sections",),
}
"""Operators that cut or turn an axis, and the parameters that say where."""

APART = ("torch.tensor_split", "torch.split")
"""Those of them that give all parts of an axis."""

UNBOUND = ("torch.unbind", "Tensor.unbind")

_OPEN = 2147483647
"""What the converter writes for the end of a slice that has none, and for no index."""


def mend_slice(work: Unbaking, op: Operator) -> bool:
    """The end of a slice that is as long as the same axis of an operand upstream follows that axis."""
    found = work.shapes(op.inputs[0])
    one = op.has_param("dim")
    names = ("dim", "start", "end", "step", "select") if one else ("dims", "starts", "ends", "steps", "selects")
    fields = [op.value(name) for name in names]
    dims, starts, ends, steps, selects = ([f] if one else f for f in fields)
    lists = [f for f in (dims, starts, ends, steps) if isinstance(f, list) and all(isinstance(v, int) for v in f)]
    if found is None or len(lists) < 4 or work.only_batch:
        return True
    (a, b), (dims, starts, ends, steps) = found, lists
    operands: list[Operand] = []
    told = True
    entries = [str(end) for end in ends]
    for i, (dim, start, end, step) in enumerate(zip(dims, starts, ends, steps, strict=True)):
        axis = dim % len(a)
        picked = isinstance(selects, list) and selects[i] not in (None, _OPEN)
        if picked or a[axis] == b[axis]:
            continue
        ends_inside = step == 1 and 0 <= start < end < _OPEN and end <= a[axis]
        model, times = _multiple(work, op.inputs[0], axis, end - start) if ends_inside else (None, 1)
        told &= model is not None or not _may_follow(start, end, a[axis])
        if model is None:
            continue
        if model not in operands:
            operands.append(model)
        length = f"size(@{operands.index(model)},{axis})"
        length = length if times == 1 else f"mul({length},{times})"
        entries[i] = f"add({length},{start})" if start else length
    if operands and one:
        work.compute_value(op, "end", entries[0], operands)
    elif operands:
        work.compute(op, "ends", entries, operands)
    return told


def _multiple(work: Unbaking, x: Operand, axis: int, length: int) -> tuple[Operand | None, int]:
    """An operand upstream whose axis has that length, or an input of the graph that has a part of it, and which part.

    The last step of a network that enlarges pictures cuts off what was padded in front of it.
    """
    model = as_long(work, x, axis, length)
    if model is not None:
        return model, 1
    rank = len(work.old.shape(x) or ())
    for y in work.graph.inputs:
        a, b = work.shapes(y) or ((), ())
        if len(a) == rank and a[axis] != b[axis] and 3 < a[axis] < length and length % a[axis] == 0:
            return y, length // a[axis]
    return None, 1


def _may_follow(start: int, end: int, size: int) -> bool:
    """Whether a slice begins or ends in the second half of an axis, or at a part of it, as if it followed its size."""
    if size <= 3:
        return False
    return max(start, end if end < _OPEN else 0) >= size // 2 or (start > 3 and size % start == 0 and size // start < 5)


def mend_narrow(work: Unbaking, op: Operator) -> bool:
    """A range as long as the same axis of an operand upstream follows that axis; so does the second half of two."""
    found = work.shapes(op.inputs[0])
    dim, start, length = (op.value(k) for k in ("dim", "start", "length"))
    if found is None or not isinstance(dim, int) or not isinstance(length, int):
        return True
    axis = dim % len(found[0])
    p, q = (shape[axis] for shape in found)
    if p in (1, q):
        # Of one item, nothing tells whether it is the first or all of them.
        return p == q
    models, last = list(_as_long(work, op.inputs[0], axis, length)), start == p - length
    if models:
        # What was no cut at the traced size is one at others, to the size of what came first.
        model = models[-1 if length == p else 0]
        for name in ("length", "start") if start and start == length and last else ("length",):
            work.compute_value(op, name, f"size(@0,{axis})", [model])
    elif start and last:
        return False
    return not any(_may_be_end(op.params[k].value, p) for k in ("start", "length") if op.has_param(k))


def tell_cuts(work: Unbaking, op: Operator) -> bool:
    """Whether no place where an axis that varies is cut, or by how much it is turned, is its end or its middle."""
    found = work.shapes(op.inputs[0])
    given = [op.params[name].value for name in CUTS[op.type] if op.has_param(name)]
    dims = op.value("dim", op.value("dims"))
    if found is None or dims is None:
        return True
    if work.only_batch:
        return op.type not in APART or not isinstance(dims, int) or _cut_batches(work, op, found, dims)
    if op.type in APART and isinstance(dims, int) and _cut_joined(work, op, found, dims):
        return True
    axes = dims if isinstance(dims, list) else [dims]
    for value in given:
        places = value if isinstance(value, list) else [value]
        for i, place in enumerate(places):
            dim = axes[i] if len(axes) == len(places) else axes[0]
            p, q = (shape[dim] for shape in found)
            if p != q and _may_be_end(place, p):
                return False
    return True


def _may_be_end(place: object, size: int) -> bool:
    """Whether a place is the end or the middle of an axis."""
    return size > 3 and place in (size // 2, -(size // 2), size - size // 2, size - 1, size)


def _cut_batches(work: Unbaking, op: Operator, found: tuple[Sizes, Sizes], dim: int) -> bool:
    """Let batches that were joined be taken apart where one ends, however many items each has."""
    name = CUTS[op.type][0]
    given = op.value(name)
    if not isinstance(given, list) or not all(isinstance(place, int) for place in given):
        return True
    p, q = (shape[dim] for shape in found)
    inside = [place for place in given if 0 < abs(place) < p]
    if p == q or not inside:
        return True
    if any(place * q % p for place in inside) or p in work.batches:
        return False
    entries = [f"floor_divide(mul(size(@0,{dim}),{place}),{p})" for place in given]
    work.compute(op, name, entries, [op.inputs[0]])
    return True


def _cut_joined(work: Unbaking, op: Operator, found: tuple[Sizes, Sizes], dim: int) -> bool:
    """Let what was joined along an axis be taken apart again, however long the parts are; whether these add up."""
    name, axis = CUTS[op.type][0], dim % len(found[0])
    (p, q), given = (shape[axis] for shape in found), op.value(name)
    if p == q or not isinstance(given, list) or not all(isinstance(place, int) for place in given):
        return False
    bounds = [0, *given, p] if op.type == "torch.tensor_split" else [0, *itertools.accumulate(given)]
    lengths = [end - start for start, end in itertools.pairwise(bounds)]
    models = [as_long(work, op.inputs[0], axis, length) for length in lengths]
    sizes = [n if y is None else (work.new.shape(y) or ())[axis] for n, y in zip(lengths, models, strict=True)]
    if min(lengths) < 1 or sum(lengths) != p or sum(sizes) != q:
        return False
    operands = list(dict.fromkeys(y for y in models if y is not None))
    entries = [
        str(n) if y is None else f"size(@{operands.index(y)},{axis})" for n, y in zip(lengths, models, strict=True)
    ]
    if op.type == "torch.tensor_split":
        entries = list(itertools.accumulate(entries[:-1], "add({},{})".format))
    work.compute(op, name, entries, operands)
    return True


def tell_taken(work: Unbaking, op: Operator) -> bool:
    """Whether an operator that gives one place of an axis does not give the only item of a batch of one."""
    found = work.shapes(op.inputs[0])
    dim = arguments(op).get("dim", 0)
    if found is None or not isinstance(dim, int) or found[0][dim] == found[1][dim]:
        return True
    if op.type in UNBOUND:
        reason = f"it names {len(op.outputs)} results for an axis that varies"
        raise ShapeError(reason, operator=op.where)
    return found[0][dim] != 1 and tell_cuts(work, op)


def as_long(work: Unbaking, x: Operand, axis: int, length: int) -> Operand | None:
    """The nearest operand of the same rank upstream whose axis varies and has that length in the first walk."""
    return next(_as_long(work, x, axis, length), None)


def _as_long(work: Unbaking, x: Operand, axis: int, length: int) -> Iterator[Operand]:
    rank = len(work.old.shape(x) or ())
    for y in work.upstream(x):
        found = work.shapes(y)
        if found is not None and len(found[0]) == rank and found[0][axis] == length != found[1][axis]:
            yield y
