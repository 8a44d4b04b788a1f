"""Constants for one batch or picture: they repeat, shrink to what they repeat, or are computed again."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from pnnx_fast._types import Array
from pnnx_fast.edit.arguments import arguments
from pnnx_fast.edit.cuts import as_long
from pnnx_fast.edit.grids import rebuild_grid
from pnnx_fast.edit.windows import LISTS, tell_written
from pnnx_fast.errors import ShapeError
from pnnx_fast.ir import Operand, Operator
from pnnx_fast.ir.folded import changed_constant, is_folded
from pnnx_fast.ir.literals import MISSING, constant_array, literal
from pnnx_fast.ops.index import read_indices
from pnnx_fast.passes.moves import RESHAPES

if TYPE_CHECKING:
    from pnnx_fast.edit.unbake import Unbaking

__all__ = [
    "mend_attention",
    "mend_broadcast",
    "mend_cat",
    "mend_gather",
    "mend_grid",
    "mend_product",
    "mend_scatter",
    "mend_states",
    "mend_write",
    "tell_indexed",
    "tell_selected",
]

_ROUNDING = 1e-5
"""What rounding changes at most, as a share of the largest value."""


def mend_cat(work: Unbaking, op: Operator) -> bool:
    """Constants beside operands that vary, such as the class token of a transformer, are expanded to them.

    So is what is computed from constants alone, where it has one item.
    """
    shapes = [work.shapes(x) for x in op.inputs]
    dim = op.value("dim", 0)
    model = next((x for x in op.inputs if work.varies(x)), None)
    if model is None or any(s is None for s in shapes) or not isinstance(dim, int):
        return True
    a, b = work.shapes(model) or ((), ())
    along = dim % len(a) if op.type != "torch.stack" else None
    for i, x in enumerate(list(op.inputs)):
        data, size = constant_array(x), work.old.shape(x) or ()
        if len(size) != len(a) or (data is None and work.varies(x)):
            continue
        axes = [j for j in range(len(a)) if j != along and size[j] == a[j] != b[j]]
        if not axes or (data is None and any(size[j] != 1 for j in axes)):
            continue
        small, copied = (x, axes) if data is None else _rebuilt(work, op, x, data, axes, model)
        if small is not None and copied:
            _expand(work, op, i, small, {j: (model, j) for j in copied})
        elif small is not None:
            op.set_input(i, small)
    return True


def _rebuilt(
    work: Unbaking, op: Operator, x: Operand, data: Array, axes: Sequence[int], other: Operand
) -> tuple[Operand | None, list[int]]:
    """What takes the place of a constant for any size of some axes, and along which of them it has one element.

    None when it neither repeats itself along these axes nor holds coordinates.
    """
    copied = [j for j in axes if _shrunk(data, [j]) is not None]
    smaller = _shrunk(data, copied)
    if smaller is None:
        return None, []
    rest = [j for j in axes if j not in copied]
    if rest:
        return rebuild_grid(work, op, smaller, rest, other), copied
    return _once(work, op, x, smaller), copied


def _expand(work: Unbaking, op: Operator, i: int, small: Operand, like: Mapping[int, tuple[Operand, int]]) -> None:
    """Give an operator an input with one element along axes that are expanded to those of other operands."""
    wide = work.graph.new_operand(work.graph.free_name(f"{op.inputs[i].name}_wide"))
    made = work.graph.new_operator_before(
        "Tensor.expand", f"{op.name}_expand_{i}", op, inputs=[small], outputs=[wide], inputnames=["input"]
    )
    entries, operands = ["-1"] * len(work.old.shape(small) or ()), list(dict.fromkeys(x for x, _ in like.values()))
    for axis, (x, j) in like.items():
        entries[axis] = f"size(@{operands.index(x)},{j})"
    work.compute(made, "sizes", entries, operands)
    work.step(made)
    op.set_input(i, wide)


def _once(work: Unbaking, op: Operator, x: Operand, smaller: Array) -> Operand:
    """What is left of a constant that repeats itself: itself where nothing was repeated."""
    whole = work.copied_constant(x)
    return x if whole is not None and whole.shape == smaller.shape else work.add_constant(smaller, f"{x.name}_once", op)


def _shrunk(data: Array, axes: Sequence[int], margin: float = 0.0) -> Array | None:
    """A constant with one element along axes that repeat it, within a margin; None when they do not."""
    for axis in axes:
        if data.shape[axis] <= 1:
            continue
        first = np.take(data, [0], axis)
        same = np.array_equal(np.broadcast_to(first, data.shape), data)
        if not same and not (margin and np.allclose(data, first, 0, margin, equal_nan=True)):
            return None
        data = first
    return data


def mend_broadcast(work: Unbaking, op: Operator) -> bool:
    """Constants that repeat themselves along an axis that varies shrink; those that hold a grid are computed anew."""
    if op.type == "torch.baddbmm" and op.value("beta", 1) == 0 and constant_array(op.inputs[0]) is not None:
        op.set_input(0, work.add_constant(np.zeros((1, 1, 1), np.float32), f"{op.name}_nothing", op))
    shapes = [work.shapes(x) for x in op.inputs]
    full = max((s for s in shapes if s is not None and s[0] != s[1]), key=lambda s: len(s[0]), default=None)
    if full is None:
        return True
    for i, x in enumerate(list(op.inputs)):
        data = constant_array(x)
        if data is None or data.ndim > len(full[0]):
            continue
        lead = len(full[0]) - data.ndim
        axes = [j for j in range(data.ndim) if data.shape[j] > 1 and full[0][lead + j] != full[1][lead + j]]
        if not axes:
            continue
        if len(axes) == 1 and _shrunk(data, axes) is None and _lead_batch(work, op, data, axes[0]):
            continue
        same = [
            j
            for j in range(data.ndim)
            if j not in axes and _shrunk(data, [j]) is not None and _is_elsewhere(work, op, x, j - data.ndim)
        ]
        small = _rebuilt(work, op, x, data, [*same, *axes], _aligned(work, op, data, axes))[0]
        if small is not None:
            op.set_input(i, small)
    return True


def _is_elsewhere(work: Unbaking, op: Operator, x: Operand, axis: int) -> bool:
    """Whether another operand has the size of an axis, counted from the end, too, so that a result keeps it."""
    size = (work.old.shape(x) or ())[axis]
    shapes = [work.old.shape(y) or () for y in op.inputs if y is not x]
    return any(len(shape) >= -axis and shape[axis] == size for shape in shapes)


def _aligned(work: Unbaking, op: Operator, data: Array, axes: Sequence[int]) -> Operand:
    """An operand that varies and has the sizes of a constant along some axes, where there is one."""
    varying = [y for y in op.inputs if work.varies(y)]
    for y in varying:
        shape = (1,) * data.ndim + (work.old.shape(y) or ())
        if all(shape[j - data.ndim] == data.shape[j] for j in axes):
            return y
    return varying[0]


def _lead_batch(work: Unbaking, op: Operator, data: Array, axis: int) -> bool:
    """Let the batch be the axis of size one before that of a picture's windows, which a constant tells apart.

    A reshape of windows to (1, windows, …) does not say to which of the two axes a batch belongs.
    """
    y = next(y for y in op.inputs if work.varies(y))
    cut = y.producer
    shape = None if cut is None else cut.value("shape")
    if cut is None or not isinstance(shape, list) or not work.only_batch or len(y.consumers) > 1:
        return False
    place = len(shape) - data.ndim + axis
    if cut.type not in RESHAPES or shape[place - 1 : place + 1] != [1, -1] or (axis and data.shape[axis - 1] != 1):
        return False
    cut.params["shape"] = [*shape[: place - 1], -1, data.shape[axis], *shape[place + 1 :]]
    work.step(cut)
    return True


def mend_product(work: Unbaking, op: Operator) -> bool:
    """A constant matrix that repeats itself for all items of a batch is one for any number of them."""
    for i, (x, other) in enumerate(zip(op.inputs[:2], op.inputs[1::-1], strict=True)):
        data, found = constant_array(x), work.shapes(other)
        if data is None or found is None or data.ndim != len(found[0]):
            continue
        axes = [j for j in range(data.ndim - 2) if data.shape[j] == found[0][j] != found[1][j]]
        smaller = _shrunk(data, axes)
        if not axes or smaller is None:
            continue
        small = _once(work, op, x, smaller)
        if op.type == "torch.matmul":
            op.set_input(i, small)
        else:
            _expand(work, op, i, small, {j: (other, j) for j in axes})
    return True


def mend_attention(work: Unbaking, op: Operator) -> bool:
    """Learned queries, and masks with a row for every item, repeat with the batch."""
    axis = 0 if op.value("batch_first") else 1
    mask = op.named_input("attn_mask")
    parts = [x for x in op.inputs[:3] if x is not mask and len(work.old.shape(x) or ()) == 3]
    model = next((x for x in parts if _batches(work, x, axis)), None)
    if model is None:
        return True
    p, q = _batches(work, model, axis) or (0, 0)
    for x in dict.fromkeys(parts):
        if work.only_batch and not work.varies(x) and (work.old.shape(x) or ())[axis] == p:
            _repeat(work, op, x, model, axis)
    data = constant_array(mask) if mask is not None else None
    if mask is None or data is None or data.ndim != 3:
        return True
    if not work.only_batch:
        reason = f"its mask {mask.name} was computed for {p} windows, {q} are needed"
        raise ShapeError(reason, operator=op.where)
    _repeat(work, op, mask, model, axis, 0)
    return True


def _batches(work: Unbaking, x: Operand, axis: int) -> tuple[int, int] | None:
    """Both sizes of an axis of an operand, None where it stays."""
    found = work.shapes(x)
    if found is None or found[0][axis] == found[1][axis]:
        return None
    return found[0][axis], found[1][axis]


def mend_write(work: Unbaking, op: Operator) -> bool:
    """A constant into which rows of a batch are written has as many as they."""
    x, found = op.inputs[0], work.shapes(op.inputs[1]) if len(op.inputs) > 1 else None
    data = work.copied_constant(x)
    if data is None or found is None or not work.only_batch or not data.ndim or not found[0]:
        return True
    dims = op.value("dim", op.value("dims"))
    if len(found[0]) < data.ndim and {0, -data.ndim} & set(dims if isinstance(dims, list) else [dims]):
        return True
    if found[0][0] == data.shape[0] != found[1][0]:
        # What the converter's own run wrote to the items of a batch of ones differs by rounding alone.
        finite = np.isfinite(data) if data.dtype.kind == "f" and is_folded(x) else False
        _repeat(work, op, x, op.inputs[1], 0, margin=_ROUNDING * np.abs(data).max(initial=0, where=finite))
    return True


def mend_scatter(work: Unbaking, op: Operator) -> bool:
    """A constant of one value, into which something is written by indices, is as large as these are.

    Along the axis in which the places lie, it is as long as what the indices are places of.
    """
    data, dim = work.copied_constant(op.inputs[0]), arguments(op).get("dim")
    index = next((x for x in op.inputs[1:] if literal(x) is MISSING), op.inputs[0])
    found = work.shapes(index)
    if data is None or found is None or not isinstance(dim, int) or not len(found[0]) == data.ndim > 0:
        return tell_written(work, op)
    _mend_source(work, op, index)
    like: dict[int, tuple[Operand, int]] = {}
    for j, (size, p, q) in enumerate(zip(data.shape, *found, strict=True)):
        if j != dim % data.ndim and size == p != q:
            like[j] = (index, j)
        elif j and j == dim % data.ndim and size > 1:
            model = as_long(work, index, j, size)
            like |= {} if model is None else {j: (model, j)}
    smaller = _shrunk(data, list(like))
    if not like or smaller is None or changed_constant(op) is not None:
        return tell_written(work, op)
    x = op.inputs[0]
    small = _once(work, op, x, smaller)
    _expand(work, op, 0, small, like)
    return True


def _mend_source(work: Unbaking, op: Operator, index: Operand) -> None:
    """A constant that is scattered is as large as the indices, where it repeats itself."""
    a, b = work.shapes(index) or ((), ())
    for i, x in enumerate(op.inputs):
        data = constant_array(x) if i and x is not index else None
        if data is None or data.shape != a:
            continue
        axes = [j for j in range(data.ndim) if a[j] != b[j]]
        smaller = _shrunk(data, axes)
        if axes and smaller is not None:
            small = _once(work, op, x, smaller)
            _expand(work, op, i, small, {j: (index, j) for j in axes})


def mend_grid(work: Unbaking, op: Operator) -> bool:
    """A constant grid or picture, the same for every item of a batch, repeats with the batch.

    A grid that has as many cells as the picture is told, where that varies.
    """
    if not work.only_batch and constant_array(op.inputs[1]) is not None:
        a, b = work.shapes(op.inputs[0]) or ((), ())
        return a[2:] == b[2:] or (op.inputs[1].shape or ())[1:-1] != a[2:]
    for x, other in (op.inputs[:2], op.inputs[1::-1]) if len(op.inputs) > 1 and work.only_batch else ():
        data, found = constant_array(x), work.shapes(other)
        if data is not None and found is not None and data.ndim and found[0][0] == data.shape[0] != found[1][0]:
            _repeat(work, op, x, other, 0)
    return True


def mend_gather(work: Unbaking, op: Operator) -> bool:
    """A constant that is gathered from, or says what to gather, is as large as the other side.

    False where places in it are all over an axis that varies.
    """
    x, index = op.inputs[:2]
    told = True
    for i, (rows, other) in enumerate(((x, index), (index, x))):
        data, found, dim = constant_array(rows), work.shapes(other), op.value("dim", 0)
        if data is None or found is None or not isinstance(dim, int) or not data.ndim == len(found[0]) > 0:
            continue
        a, b = found
        along = dim % data.ndim
        axes = [j for j in range(data.ndim) if j != along and data.shape[j] == a[j] != b[j]]
        smaller = _shrunk(data, axes)
        if axes and smaller is not None:
            small = _once(work, op, rows, smaller)
            _expand(work, op, i, small, {j: (other, j) for j in axes})
        elif axes == [0] and work.only_batch:
            _repeat(work, op, rows, other, 0)
        told &= (not axes or smaller is not None or axes == [0]) and not (
            rows is index and _are_all_over(data, along, found)
        )
    return told


def _are_all_over(index: Array, axis: int, sizes: tuple[Sequence[int], Sequence[int]]) -> bool:
    """Whether constant places reach into the second half of an axis that varies, as if they followed its size."""
    p, q = (shape[axis] for shape in sizes)
    if index.dtype.kind == "b":
        return p != q and index.size == p > 3
    return index.dtype.kind in "iu" and p != q and p > 3 and int(index.max(initial=0)) >= p // 2


def mend_states(work: Unbaking, op: Operator) -> bool:
    """Constant first states of a recurrent layer have a row for every item of the batch."""
    axis = 0 if op.value("batch_first") else 1
    found = work.shapes(op.inputs[0])
    for x in dict.fromkeys(op.inputs[1:]):
        shape = work.old.shape(x) or ()
        fits = found is not None and len(shape) == len(found[0]) == 3 and shape[1] == found[0][axis] != found[1][axis]
        if fits and not work.varies(x):
            _repeat(work, op, x, op.inputs[0], axis, 1)
    return True


def tell_selected(work: Unbaking, op: Operator) -> bool:
    """Whether constant places are not all over an axis that varies."""
    found, index, dim = work.shapes(op.inputs[0]), constant_array(op.inputs[-1]), op.value("dim", 0)
    if work.only_batch or found is None or index is None or not isinstance(dim, int):
        return True
    return not _are_all_over(index, dim, found)


def tell_indexed(work: Unbaking, op: Operator) -> bool:
    """The same of indices of several axes, which stand in a text or in a list."""
    found = work.shapes(op.inputs[0])
    if work.only_batch or found is None:
        return True
    places = [(i, data) for i, data in enumerate(_indices(op)) if data is not None and data.size > 1]
    return not any(i < len(found[0]) and _are_all_over(data, i, found) for i, data in places)


def _indices(op: Operator) -> list[Array | None]:
    """Constant indices of an operator by axis; None for those that are computed, and where nothing is indexed."""
    listing = next((x.producer for x in op.inputs[1:] if x.producer is not None and x.producer.type in LISTS), None)
    held = op if op.has_param("expr") or listing is None else listing
    text = str(held.value("expr", "[" + ",".join(f"@{i}" for i in range(len(held.inputs))) + "]"))
    if "@" not in text:
        return read_indices(text)
    names = text.strip("[]").split(",")
    inputs = [held.inputs[int(n[1:])] if re.fullmatch(r"@\d+", n) else None for n in names]
    return [None if x is None else constant_array(x) for x in inputs]


def _repeat(
    work: Unbaking, op: Operator, rows: Operand, like: Operand, axis: int, to: int | None = None, margin: float = 0.0
) -> None:
    """Repeat what an operator takes as an axis of another operand grows, along that axis or along `to`."""
    place, whole = axis if to is None else to, (work.old.shape(like) or ())[axis]
    data = work.copied_constant(rows)
    # One row that stands for all serves any number of them, not only multiples of those that tracing saw.
    one = _shrunk(data, [place], margin) if data is not None and data.shape[place] == whole else None
    small = rows if one is None else _once(work, op, rows, one)
    wide = work.graph.new_operand(work.graph.free_name(f"{rows.name}_wide"))
    made = work.graph.new_operator_before(
        "Tensor.repeat", f"{op.name}_repeat", op, inputs=[small], outputs=[wide], inputnames=["input"]
    )
    entries = ["1"] * len(work.old.shape(rows) or ())
    size = f"size(@0,{axis})"
    # Below zero, and so refused, where the size is no multiple.
    multiple = f"sub(floor_divide({size},{whole}),mul({size},remainder({size},{whole})))"
    entries[place] = size if small is not rows or whole == 1 else multiple
    work.compute(made, "sizes", entries, [like])
    work.step(made)
    for i, x in enumerate(op.inputs):
        if x is rows:
            op.set_input(i, wide)
