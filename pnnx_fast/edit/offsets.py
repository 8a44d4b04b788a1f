"""Offsets of a batch's items in indices: where all items are laid out in one axis, each takes rows of its own part."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from pnnx_fast._types import Array
from pnnx_fast.edit.axes import FLATTENS, grouped
from pnnx_fast.edit.grids import Build
from pnnx_fast.errors import ShapeError
from pnnx_fast.expression import Call, Input
from pnnx_fast.expression.tree import postorder
from pnnx_fast.ir import Operand, Operator
from pnnx_fast.ir.literals import constant_array, expression

if TYPE_CHECKING:
    from pnnx_fast.edit.unbake import Unbaking

__all__ = ["mend_offsets"]

_TAKERS = {"Tensor.index": 0, "torch.index_select": 0, "torch.gather": 0, "F.embedding": 1, "torch.embedding": 1}
"""Operators that take rows by indices, and which input holds the rows where there are names to neither."""

_PASSES = (
    "pnnx.Expression",
    *FLATTENS,
    *("Tensor.expand", "Tensor.repeat", "Tensor.to", "Tensor.contiguous"),
    *("torch.unsqueeze", "torch.squeeze", "Tensor.clone", "torch.clone", "torch.transpose"),
)
"""What indices go through before rows are taken."""

MOST_DOWNSTREAM = 60


def mend_offsets(work: Unbaking, op: Operator) -> bool:
    """Constants of whole numbers that count items are counted for the batch that is given."""
    for i, x in enumerate(list(op.inputs)):
        data = constant_array(x)
        if data is None or data.dtype.kind != "i" or not data.size:
            continue
        for other in op.inputs:
            axis = _batch_axis(work, data, other)
            if axis is None:
                continue
            step = _step(work, op, data, axis)
            if step is None:
                continue
            if data.size == 1 and _is_scaled(op, i):
                raise ShapeError("its offsets of items cannot be told from a batch of one", operator=op.where)
            _count(work, op, i, (other, axis), data.ndim, step)
            break
    return True


def _is_scaled(op: Operator, i: int) -> bool:
    """Whether an operand of an expression is multiplied: it counts items then, and not what lies between them."""
    tree = expression(op)
    products = [] if tree is None else [n for n in postorder(tree) if isinstance(n, Call) and n.name == "mul"]
    return any(Input(i) in node.children for node in products)


def _batch_axis(work: Unbaking, data: Array, other: Operand) -> int | None:
    """The axis, counted from the end, along which a constant has a number for each item of a batch."""
    found = work.shapes(other)
    if found is None or constant_array(other) is not None or len(found[0]) < data.ndim:
        return None
    a, b = found
    for axis in range(-data.ndim, 0):
        if a[axis] != b[axis] and data.shape[axis] == a[axis] == data.size and (a[axis] > 1 or not data.any()):
            return axis
    return None


def _step(work: Unbaking, op: Operator, data: Array, axis: int) -> tuple[list[str], list[Operand]] | None:
    """What lies between the items, as sizes of operands."""
    p = data.shape[axis]
    flat = data.reshape(-1)
    step = int(flat[1]) if p > 1 else 0
    if not np.array_equal(flat, np.arange(p) * step) or (p > 1 and not step):
        return None
    rows = _rows(op)
    if rows is None:
        return ([str(step)], []) if p > 1 and work.only_batch else None
    made = rows.producer
    source = made.inputs[0] if made is not None and made.inputs else None
    shapes = work.shapes(source) if source is not None else None
    if source is None or shapes is None or rows.shape is None:
        raise ShapeError("its offsets of items cannot be told from a batch of one", operator=op.where)
    for ins, outs in grouped(shapes[0], rows.shape):
        inner = [i for i in ins if i]
        if 0 in ins and 0 in outs and (p == 1 or math.prod(shapes[0][i] for i in inner) == step):
            return [f"size(@{{}},{i})" for i in inner], [source]
    return None


def _rows(op: Operator) -> Operand | None:
    """What the indices that an operator computes take rows of, where a reshape laid items out in one axis there."""
    pending, seen = list(op.outputs), set(op.outputs)
    for x in pending:
        for user in x.consumers:
            if user.type in _TAKERS:
                data = user.inputs[_TAKERS[user.type]]
                maker = data.producer
                before = maker.inputs[0].shape if maker is not None and maker.inputs else None
                flat = maker is not None and maker.type in FLATTENS
                if flat and before and data.shape and len(before) > len(data.shape) and data is not x:
                    return data
            elif user.type in _PASSES and len(seen) < MOST_DOWNSTREAM:
                pending += [y for y in user.outputs if y not in seen]
                seen.update(user.outputs)
    return None


def _count(
    work: Unbaking, op: Operator, i: int, like: tuple[Operand, int], rank: int, step: tuple[list[str], list[Operand]]
) -> None:
    """Count items in the place of a constant."""
    other, axis = like
    build = Build(work, op)
    end = build.expression(f"size(@0,{len(work.old.shape(other) or ()) + axis})", [other])
    line = build.add("torch.arange", [end], {"start": 0, "step": 1, "dtype": "torch.long"}, ["end"])
    text = "@0"
    for factor in step[0]:
        text = f"mul({text},{factor.format(1)})"
    line = build.expression(text, [line, *step[1]])
    sizes = [-1 if j == axis else 1 for j in range(-rank, 0)]
    op.set_input(i, build.add("Tensor.reshape", [line], {"shape": sizes}, ["input"]))
