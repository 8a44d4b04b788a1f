"""Sizes of reshapes that tracing has fixed, computed from the sizes of what they reshape and of operands upstream."""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from pnnx_fast.edit.axes import regrouped
from pnnx_fast.edit.splits import is_fixed, is_single, varying_part
from pnnx_fast.ir import Operand, Operator

if TYPE_CHECKING:
    from pnnx_fast.edit.unbake import Sizes, Unbaking

__all__ = ["mend_reshape", "mend_unflatten"]


def mend_reshape(work: Unbaking, op: Operator) -> bool:
    """Sizes of a reshape are those of its input, put together and cut as they were in tracing."""
    found = work.shapes(op.inputs[0])
    wanted = op.value("shape")
    if found is None or found[0] == found[1] or wanted is None:
        return True
    a, b = found
    target = list(wanted) if isinstance(wanted, list) else [wanted]
    known = int(np.prod([d for d in target if d > 0], dtype=np.int64))
    target = [int(np.prod(a)) // known if d == -1 else a[i] if d == 0 else d for i, d in enumerate(target)]
    if _lay_out(work, op, (a, b), target):
        return mend_reshape(work, op)
    operands = [op.inputs[0]]
    entries = _entries(work, op, (a, b), target, operands)
    if entries is None:
        return False
    varying = [i for i, e in enumerate(entries) if not e.isdigit()]
    if len(varying) <= 1:
        op.params["shape"] = [-1 if i in varying else int(e) for i, e in enumerate(entries)]
        return True
    work.compute(op, "shape", entries, operands)
    return True


def _lay_out(work: Unbaking, op: Operator, shapes: tuple[Sizes, Sizes], target: Sequence[int]) -> bool:
    """Lay out rows and columns that lie in one axis, before a reshape that cuts both; False where there are none."""
    a, b = shapes
    for ins, outs in regrouped(a, b, target) if not work.only_batch else ():
        i, sizes = ins[0], [target[j] for j in outs]
        if len(ins) > 1 or a[i] == b[i] or sum(d != 1 for d in sizes) < 3 or _like(work, op.inputs[0], sizes, b[i]):
            continue
        found = _picture(work, op.inputs[0], (a[i], b[i]), sizes)
        if found is None:
            continue
        picture, axes = found
        x, y = op.inputs[0], work.graph.new_operand(work.graph.free_name(f"{op.outputs[0].name}_picture"))
        laid = work.graph.new_operator_before("Tensor.reshape", f"{op.name}_picture", op, inputs=[x], outputs=[y])
        entries = [f"size(@0,{k})" for k in range(len(a))]
        entries[i : i + 1] = [f"size(@1,{k})" for k in axes]
        work.compute(laid, "shape", entries, [x, picture])
        work.step(laid)
        op.set_input(0, y)
        return True
    return False


def _picture(
    work: Unbaking, x: Operand, products: tuple[int, int], sizes: Sequence[int]
) -> tuple[Operand, range] | None:
    """An operand upstream with neighbouring axes of these products in both walks, each of which is cut into sizes."""
    ends = {*itertools.accumulate(sizes, operator.mul)}
    for y in work.upstream(x):
        a, b = work.shapes(y) or ((), ())
        for axes in (range(i, i + count) for count in (2, 3) for i in range(len(a) - count + 1)):
            old = [a[k] for k in axes]
            same = (math.prod(old), math.prod(b[k] for k in axes)) == products
            if same and 1 not in old and ends.issuperset(itertools.accumulate(old, operator.mul)):
                return y, axes
    return None


def _entries(
    work: Unbaking, op: Operator, shapes: tuple[Sizes, Sizes], target: Sequence[int], operands: list[Operand]
) -> list[str] | None:
    """Sizes of a reshape's result as expressions of its input's, from groups of axes with equal products."""
    a, b = shapes
    entries: list[str] = []
    behind: dict[int, str] = {}
    for ins, outs in regrouped(a, b, target):
        if all(a[i] == b[i] for i in ins):
            entries += (behind.get(j, str(target[j])) for j in outs)
            continue
        if len(ins) == len(outs) == 1 and _is_batch_behind(work, op, target, outs[0]):
            behind[outs[0] + 1] = f"floor_divide(size(@0,{ins[0]}),{target[outs[0]]})"
            entries.append(str(target[outs[0]]))
            continue
        if entries and _is_batch_before(work, operands[0], shapes, ins, [target[j] for j in outs]):
            entries[-1] = f"mul(size(@0,{ins[0]}),{entries[-1]})"
            entries += (str(target[j]) for j in outs)
            continue
        parts = None
        if target[outs[-1] + 1 : outs[-1] + 2] == [1]:
            parts = _with_one_behind(work, [target[j] for j in outs], math.prod(b[i] for i in ins), operands)
        if parts is not None:
            behind[outs[-1] + 1] = parts.pop()
        else:
            parts = _split(work, op, ins, shapes, outs, target, operands)
        if parts is None:
            return None
        entries += parts
    return entries


def _with_one_behind(work: Unbaking, sizes: list[int], product: int, operands: list[Operand]) -> list[str] | None:
    """Sizes of several axes and of one of one behind them, where an operand upstream has them all; None elsewhere."""
    if len(sizes) < 2 or _like(work, operands[0], sizes, product) is not None:
        return None
    model = _like(work, operands[0], [*sizes, 1], product)
    if model is None or len(sizes) not in model[2]:
        return None
    return _sizes_of(model[0], model[1], operands)


def _sizes_of(x: Operand, axes: Sequence[int], operands: list[Operand]) -> list[str]:
    """Sizes of axes as expressions of operands, among which it puts the one that has them."""
    if x not in operands:
        operands.append(x)
    return [f"size(@{operands.index(x)},{axis})" for axis in axes]


def _is_batch_behind(work: Unbaking, op: Operator, target: Sequence[int], j: int) -> bool:
    """Whether the axis of one behind an axis of a result, whose entries have names or weights, takes the batch."""
    one = work.only_batch and 1 in work.batches and target[j] != 1 and target[j + 1 : j + 2] == [1]
    return one and is_fixed(work, op, target, j)


def _is_batch_before(
    work: Unbaking, x: Operand, shapes: tuple[Sizes, Sizes], ins: Sequence[int], sizes: list[int]
) -> bool:
    """Whether the first axis of a group, a batch of one, is of the group before: a picture upstream is the rest."""
    (a, b), rest = shapes, [size for size in sizes if size != 1]
    if not work.only_batch or a[ins[0]] != 1 or len(rest) < 2 or any(a[i] != b[i] for i in ins[1:]):
        return False
    for y in work.upstream(x):
        p, q = work.shapes(y) or ((), ())
        if any(list(p[i : i + len(rest)]) == rest == list(q[i : i + len(rest)]) for i in range(len(p))):
            return True
    return False


def _split(
    work: Unbaking,
    op: Operator,
    ins: Sequence[int],
    shapes: tuple[Sizes, Sizes],
    outs: Sequence[int],
    target: Sequence[int],
    operands: list[Operand],
) -> list[str] | None:
    """Sizes of the axes into which a group of axes that varies is cut; None when nothing tells."""
    sizes = [target[j] for j in outs]
    product = f"size(@0,{ins[0]})"
    for i in ins[1:]:
        product = f"mul({product},size(@0,{i}))"
    if len(sizes) == 1:
        return [product]
    a, b = (math.prod(shape[i] for i in ins) for shape in shapes)
    # Items of a batch come first.
    batched = work.only_batch or (ins[0] == outs[0] == 0 and b / a in work.growth)
    model = _like(work, operands[0], sizes, b)
    told = None
    if model is not None:
        x, axes, grown = model
        told = None if batched or len(grown) > 1 else varying_part(work, op, shapes, target, outs)
        if told is None or outs.index(told) in grown:
            return _sizes_of(x, axes, operands)
    large = [j for j, size in enumerate(sizes) if size != 1]
    within_items = work.only_batch and len(ins) == 1 and b / a in work.growth  # all items in one axis, as of codes
    if (
        len(large) == 1
        and batched
        and sizes[0] == 1 in work.batches
        and (within_items or is_fixed(work, op, target, outs[large[0]]) or _joins_batch(work, op))
    ):
        return [f"floor_divide({product},{a})", *map(str, sizes[1:])]
    if len(large) == 1 and not batched and len(sizes) == 2:
        single = is_single(work, op, shapes, target, outs)
        if single is not None:
            return [f"floor_divide({product},{max(sizes)})" if d == 1 else str(d) for d in sizes] if single else None
    # Where the batch was one, the ones may be its place.
    if len(large) == 1 and (
        not work.only_batch or 1 not in [shapes[0][i] for i in ins if shapes[0][i] != shapes[1][i]]
    ):
        return [product if j == large[0] else "1" for j in range(len(sizes))]
    still = next((n for n, i in enumerate(reversed(ins)) if shapes[0][i] != shapes[1][i]), len(ins))
    # Inner sizes that are cut out of axes that stay are the same for any size of the others.
    within = math.prod(shapes[0][i] for i in ins[len(ins) - still :]) % math.prod(sizes[1:]) == 0
    if told is None and not batched and not within:
        told = varying_part(work, op, shapes, target, outs)
        if told is None:
            return None
    part = 0 if told is None else outs.index(told)
    others = math.prod(size for j, size in enumerate(sizes) if j != part)
    if b % others:
        return None
    return [f"floor_divide({product},{others})" if j == part else str(size) for j, size in enumerate(sizes)]


def _joins_batch(work: Unbaking, op: Operator) -> bool:
    """Whether a result of one row is concatenated with operands of one row for each item."""
    for user in op.outputs[0].consumers:
        dim, rank = user.value("dim", 0), len(op.outputs[0].shape or ())
        if user.type in ("torch.cat", "torch.concat") and isinstance(dim, int) and rank and dim % rank:
            shapes = [work.shapes(y) for y in user.inputs if y is not op.outputs[0]]
            if any(s is not None and s[0][0] == 1 != s[1][0] for s in shapes):
                return True
    return False


def _like(work: Unbaking, x: Operand, sizes: list[int], product: int) -> tuple[Operand, range, list[int]] | None:
    """An operand upstream with these sizes side by side, that has the product in the second walk.

    Also at which axes it has them, and which of the sizes vary.
    """
    count = len(sizes)
    for y in work.upstream(x):
        found = work.shapes(y)
        if found is None or found[0] == found[1]:
            continue
        a, b = found
        for i in range(len(a) - count + 1):
            # Beside ones a single size tells nothing, unless one of the ones varies: the axis of the batch.
            told = sum(size != 1 for size in sizes) > 1 or any(
                p == 1 != q for p, q in zip(sizes, b[i : i + count], strict=True)
            )
            if told and list(a[i : i + count]) == sizes and math.prod(b[i : i + count]) == product:
                return y, range(i, i + count), [j for j in range(count) if a[i + j] != b[i + j]]
    return None


def mend_unflatten(work: Unbaking, op: Operator) -> bool:
    """So are those into which one axis is cut."""
    found = work.shapes(op.inputs[0])
    sizes, dim = (op.value(k) for k in ("sizes", "dim"))
    if found is None or not isinstance(sizes, list) or not isinstance(dim, int):
        return True
    a, b = found
    dim %= len(a)
    if a[dim] == b[dim] or (-1 in sizes and work.batches.isdisjoint(sizes)):
        return True
    sizes = [a[dim] // math.prod(n for n in sizes if n > 0) if size == -1 else size for size in sizes]
    operands = [op.inputs[0]]
    target, outs = [*a[:dim], *sizes, *a[dim + 1 :]], range(dim, dim + len(sizes))
    entries = _split(work, op, [dim], (a, b), outs, target, operands)
    if entries is None:
        return False
    varying = [i for i, e in enumerate(entries) if not e.isdigit()]
    if len(varying) == 1:
        op.params["sizes"] = [-1 if i in varying else int(e) for i, e in enumerate(entries)]
    else:
        work.compute(op, "sizes", entries, operands)
    return True
