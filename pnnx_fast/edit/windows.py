"""Sizes of pictures that tracing has fixed: of what is resized or pooled, of spectra, of what is padded.

Also what tracing says of memory and channels: strides of views, groups of convolutions with weights of each item's own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pnnx_fast.edit.arguments import arguments
from pnnx_fast.edit.cuts import as_long
from pnnx_fast.errors import ShapeError
from pnnx_fast.ir import Operand, Operator
from pnnx_fast.passes.moves import become

if TYPE_CHECKING:
    from pnnx_fast.edit.unbake import Sizes, Unbaking

__all__ = [
    "LISTS",
    "RESIZES",
    "WHOLE",
    "mend_adaptive",
    "mend_affine_grid",
    "mend_fold",
    "mend_groups",
    "mend_pool",
    "mend_resize",
    "mend_spectrum",
    "mend_strides",
    "tell_padding",
    "tell_written",
]

WHOLE = {
    f"{space}{name}_pool{rank}d": (f"F.adaptive_{name}_pool{rank}d", rank)
    for space in ("F.", "aten::")
    for name in ("avg", "max")
    for rank in (1, 2, 3)
}
"""Pools whose window is an argument, which may be a size of their input, and those that take any size."""

RESIZES = ("F.interpolate", "F.upsample", "F.upsample_bilinear", "F.upsample_nearest", "nn.Upsample")

_BLOCKS = ("F.unfold", "nn.Unfold")
"""Operators that cut a picture into blocks."""

LISTS = ("pnnx.Expression", "prim::ListConstruct")
"""Operators that give a list of indices."""

MOST_LAYERS = 8
"""Layers behind what is resized that are looked at for what it is joined with."""


def mend_resize(work: Unbaking, op: Operator) -> bool:
    """A size becomes that of another operand, or a factor where no operand has it.

    Models that resize by a factor have it in the file; a size was that of what the result is joined with, or of what
    the input was made from.
    """
    found = work.shapes(op.inputs[0])
    given = op.value("size")
    if found is None or given is None:
        return True
    a, b = (shape[2:] for shape in found)
    size = list(given) if isinstance(given, list) else [given] * len(a)
    above = [y for x in (*_joined(op, size), op.inputs[0]) for y in work.upstream(x)]
    model = next((y for y in above if _grows_to(work, y, size, (a, b))), None)
    factors = model is None and all(s % p == 0 for s, p in zip(size, a, strict=True))
    if model is None and a != b and not factors:
        # Pyramids resize to the size of another branch.
        everything = reversed(list(work.graph.operands))
        model = next((y for y in everything if _grows_to(work, y, size, (a, b))), None)
    if model is not None:
        work.compute(op, "size", [f"size(@0,{i + 2})" for i in range(len(size))], [model])
    elif a != b and factors:
        del op.params["size"]
        op.params["scale_factor"] = [float(s // p) for s, p in zip(size, a, strict=True)]
    return a == b or model is not None or factors


def _joined(op: Operator, size: Sequence[int]) -> list[Operand]:
    """Operands of that size that are added to an operator's result, or concatenated with it, after other layers."""
    made, found = list(op.outputs), []
    for x in made:
        for user in x.consumers:
            others = [y for y in user.inputs if y not in made and list(y.shape or ())[2:] == list(size)]
            found += others
            if not others and len(made) < MOST_LAYERS:
                made += [y for y in user.outputs if list(y.shape or ())[2:] == list(size)]
    return found


def _grows_to(work: Unbaking, x: Operand, size: Sequence[int], like: tuple[Sizes, Sizes] = ((), ())) -> bool:
    """Whether an operand has that size behind batch and channels, and varies: as what is resized does, if that does."""
    found = work.shapes(x)
    if found is None or list(found[0][2:]) != list(size) or found[0][2:] == found[1][2:]:
        return False
    if like[0] == like[1]:
        return True
    rows = zip(*(shape[2:] for shape in found), *like, strict=True)
    return all(abs(after * p / (before * q) - 1) < 0.5 for before, after, p, q in rows)


def mend_fold(work: Unbaking, op: Operator) -> bool:
    """Blocks are put together to a picture as large as an operand upstream of as many, which they were cut from."""
    found, size = work.shapes(op.inputs[0]), op.value("output_size")
    if found is None or not isinstance(size, list) or found[0][-1] == found[1][-1]:
        return True
    above = list(work.upstream(op.inputs[0]))
    cut = [y.producer.inputs[0] for y in above if y.producer is not None and y.producer.type in _BLOCKS]
    fits = (y for y in (*cut, *above) if _grows_to(work, y, size))
    model = next((y for y in fits if _blocks(op, (work.new.shape(y) or ())[2:]) == found[1][-1]), None)
    if model is not None:
        op.type = "F.fold"
        work.compute(op, "output_size", [f"size(@0,{i + 2})" for i in range(len(size))], [model])
    return model is not None


def _blocks(op: Operator, size: Sequence[int]) -> int:
    """How many blocks a picture of that size is put together from."""
    count = 1
    for i, n in enumerate(size):
        kernel, dilation, padding, stride = (
            value[i] if isinstance(value, list) else value
            for name, default in (("kernel_size", 1), ("dilation", 1), ("padding", 0), ("stride", 1))
            for value in [op.value(name, default)]
        )
        count *= (n + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1
    return count


def mend_pool(work: Unbaking, op: Operator) -> bool:
    """A window over all of a picture, whose size tracing has fixed, covers all of any picture."""
    found, given = work.shapes(op.inputs[0]), arguments(op)
    window, padding = given.get("kernel_size"), given.get("padding") or 0
    if found is None or window is None or op.type not in WHOLE:
        return True
    kind, rank = WHOLE[op.type]
    a, b = (shape[-rank:] for shape in found)
    padded = any(padding) if isinstance(padding, list) else padding
    sizes = list(window) if isinstance(window, list) else [window] * rank
    if a != b and len({*sizes}) > 1 and len({n / k for n, k in zip(a, sizes, strict=True)}) == 1 and sizes != list(a):
        return False  # a part of a picture that is not square in both directions
    if a == b or sizes != list(a) or padded or given.get("ceil_mode") or given.get("divisor_override") is not None:
        return True
    if given.get("return_indices") or len(op.outputs) != 1:
        return True
    op.set_inputs(op.inputs[:1])
    become(op, kind, output_size=[1] * rank)
    return True


def mend_adaptive(work: Unbaking, op: Operator) -> bool:
    """Cells of a pool that are as many as those of an operand upstream follow it; a part of a picture is told.

    Where they are as many in all directions, they are the model's.
    """
    found, size = work.shapes(op.inputs[0]), op.value("output_size")
    if found is None or not isinstance(size, list) or len({*size}) < 2 or not all(isinstance(n, int) for n in size):
        return True
    a, b = (shape[-len(size) :] for shape in found)
    if a == b or min(size) < 2:
        return True
    model = next((y for y in work.upstream(op.inputs[0]) if _grows_to(work, y, size)), None)
    if model is not None:
        work.compute(op, "output_size", [f"size(@0,{i + 2})" for i in range(len(size))], [model])
    return model is not None or len({p / n for p, n in zip(a, size, strict=True)}) > 1


def mend_affine_grid(work: Unbaking, op: Operator) -> bool:
    """The size of the picture for which a grid is made is that of an operand, or its batch that of the matrices."""
    size = op.value("size")
    if not isinstance(size, list) or not size:
        return True
    places = range(len(size))
    for y in work.graph.operands:
        found = work.shapes(y)
        if found is not None and list(found[0]) == size and found[0] != found[1]:
            work.compute(op, "size", [f"size(@0,{i})" for i in places], [y])
            return True
    if work.varies(op.inputs[0]):
        work.compute(op, "size", ["size(@0,0)", *(str(size[i]) for i in places[1:])], [op.inputs[0]])
    return True


def mend_spectrum(work: Unbaking, op: Operator) -> bool:
    """What a spectrum is turned back into is as long as what it was made of."""
    found = work.shapes(op.inputs[0])
    name = "n" if op.has_param("n") else "s"
    given = op.value(name)
    lengths = given if isinstance(given, list) else [given]
    dims = op.value("dim", list(range(-len(lengths), 0)))
    dims = dims if isinstance(dims, list) else [dims]
    if found is None or found[0] == found[1] or not all(isinstance(v, int) for v in (*lengths, *dims)):
        return True
    operands: list[Operand] = []
    entries: list[str] = []
    told = True
    for length, dim in zip(lengths, dims, strict=True):
        axis = dim % len(found[0])
        model = as_long(work, op.inputs[0], axis, length)
        if model is not None and model not in operands:
            operands.append(model)
        entries.append(str(length) if model is None else f"size(@{operands.index(model)},{axis})")
        told &= model is not None or found[0][axis] == found[1][axis]
    if operands:
        work.compute_value(op, name, entries[0] if name == "n" else "[" + ",".join(entries) + "]", operands)
    return told


def tell_written(work: Unbaking, op: Operator) -> bool:
    """Whether what is written into a constant does not vary."""
    inputs = list(op.inputs)
    for x in op.inputs:
        # Indices come as a list.
        inputs += x.producer.inputs if x.producer is not None and x.producer.type in LISTS else []
    return work.copied_constant(inputs[0]) is None or not any(work.varies(x) for x in inputs[1:])


def tell_padding(work: Unbaking, op: Operator) -> bool:
    """Whether no axis that varies is padded more behind than in front, as up to the next multiple of a window."""
    found = work.shapes(op.inputs[0])
    pad = op.value("pad")
    if found is None or not isinstance(pad, list):
        return True
    a, b = (shape[::-1] for shape in found)
    sides = zip(pad[::2], pad[1::2], a, b, strict=False)
    return all(p == q or after <= before for before, after, p, q in sides)


def mend_strides(work: Unbaking, op: Operator) -> bool:
    """A view by strides that has every item of a batch by itself follows the batch; no other does."""
    found = work.shapes(op.inputs[0])
    if found is None or found[0] == found[1]:
        return True
    a, b = found
    item = math.prod(a[1:])
    size, stride, skip = (op.value(k) for k in ("size", "stride", "storage_offset"))
    if isinstance(size, list) and isinstance(stride, list) and len(size) == len(stride) and a[1:] == b[1:]:
        rows = [i for i, pair in enumerate(zip(size, stride, strict=True)) if pair == (a[0], item)]
        reach = sum((n - 1) * step for i, (n, step) in enumerate(zip(size, stride, strict=True)) if i not in rows[:1])
        if rows and reach + (skip or 0) < item:
            entries = ["size(@0,0)" if i == rows[0] else str(n) for i, n in enumerate(size)]
            work.compute(op, "size", entries, [op.inputs[0]])
            return True
    raise ShapeError(f"strides {stride} are those of a tensor of shape {a}", operator=op.where)


def mend_groups(work: Unbaking, op: Operator) -> bool:
    """A convolution whose every item has weights of its own has as many groups as there are items."""
    if len(op.inputs) < 2:
        return True
    x, weight = (work.shapes(operand) for operand in op.inputs[:2])
    groups = op.value("groups", 1)
    if x is None or weight is None or not isinstance(groups, int) or len(x[0]) < 3:
        return True
    (a, b), (p, q) = x, weight
    if p[0] == q[0] or a[1] % groups:
        return True
    if a[1] != b[1]:
        work.compute_value(op, "groups", f"floor_divide(size(@0,1),{a[1] // groups})", [op.inputs[0]])
    elif work.only_batch and a[0] == 1 and q[0] == b[0] * p[0]:
        _side_by_side(work, op, a, groups)
    return True


def _side_by_side(work: Unbaking, op: Operator, shape: Sequence[int], groups: int) -> None:
    """Lay the items of a batch, which was one in tracing, side by side as channels around a convolution."""
    graph, x, y = work.graph, op.inputs[0], op.outputs[0]
    name = y.name
    graph.rename_operand(y, graph.free_name(f"{name}_flat"))
    flat, apart = (graph.new_operand(graph.free_name(text)) for text in (f"{x.name}_flat", name))
    graph.replace_uses(y, apart)
    before = graph.new_operator_before(
        "Tensor.reshape", f"{op.name}_flat", op, inputs=[x], outputs=[flat], inputnames=["input"]
    )
    before.params["shape"] = [1, -1, *shape[2:]]
    op.set_input(0, flat)
    work.step(before)
    work.compute_value(op, "groups", f"mul(size(@0,0),{groups})", [x])
    work.step(op)
    after = graph.new_operator_after(
        "Tensor.reshape", f"{op.name}_apart", op, inputs=[y], outputs=[apart], inputnames=["input"]
    )
    after.params["shape"] = [-1, *(work.old.shape(y) or ())[1:]]
    work.step(after)
