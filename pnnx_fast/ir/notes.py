"""What the types noted at operands tell of things that the converter left out: the dtype of a sum, the rounding of a
quotient, the outputs of a layer, which tensor a write into a part changes.

Used by the passes that restore them, and for layers whose weights have a name in a file by the writer of Python source;
it changes no graph.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

from pnnx_fast.ir.dtypes import by_text
from pnnx_fast.ir.masks import attention_masks
from pnnx_fast.ir.operator import Operand, Operator
from pnnx_fast.ir.parameter import per_axis
from pnnx_fast.ir.shapes import may_be

__all__ = [
    "COUNTING",
    "FOLLOWED",
    "KEEPING",
    "RECURRENT",
    "SEVERAL_OUTPUTS",
    "TRUTHS",
    "WIDENING",
    "attention_roles",
    "fits",
    "is_written",
    "keeps_entries",
    "kept_axes",
    "leading_sizes",
    "listed_entries",
    "lost_axes",
    "lost_reshape",
    "lost_whole",
    "lowered_bound",
    "missing_dtype",
    "number",
    "number_shape",
    "query_shape",
    "raised_pad",
    "recurrent_roles",
    "rounded_quotients",
    "same_padding",
    "shuffled_shape",
    "written_truth",
    "written_views",
]

WIDENING = frozenset({"torch.sum", "torch.prod", "torch.cumsum", "torch.cumprod"})
"""Operators that give i64 for integers when no dtype is asked for."""

KEEPING = frozenset({"torch.mean", "F.softmax", "F.log_softmax", "F.softmin"})
"""Operators that keep the dtype of their input when no dtype is asked for."""

COUNTING = {"torch.arange": ("start", "end", "step"), "torch.full": ("fill_value",)}
"""Operators that give i64 for integers, and the numbers of which they make it, when no dtype is asked for."""

TRUTHS = frozenset(
    {"torch.eq", "torch.ge", "torch.gt", "torch.le", "torch.lt", "torch.ne"}
    | {f"torch.logical_{name}" for name in ("and", "not", "or", "xor")}
)
"""Operators that give bool, unless they write to their first input."""

RECURRENT = {
    "nn.LSTM": ("yhc", "hcy", "yh", "hc", "yc", "hy", "cy", "y", "h", "c"),
    "nn.GRU": ("yh", "hy", "y", "h"),
    "nn.RNN": ("yh", "hy", "y", "h"),
}
"""Outputs that may be left, in the order of their use: the sequence, the last hidden state, the last cell state; the
usual order first."""

SEVERAL_OUTPUTS = (*RECURRENT, "nn.MultiheadAttention")
"""Modules that return tuples."""

_RARE_ORDERS = ("hyc", "ych", "chy", "cyh", "ch")
"""Others, which states of two sizes tell; those of one size are taken for hidden and cell state, in this order."""


_CONVOLUTION = r"nn\.Conv[123]d"

FOLLOWED = frozenset(
    {"Tensor.slice", "Tensor.select", "Tensor.reshape", "Tensor.view", "aten::slice", "aten::select", "aten::view"}
)
"""Operators that the converter follows from a written view to its tensor."""

WRITES = frozenset({"Tensor.copy", "Tensor.fill", "aten::copy", "aten::fill"})
"""Operators that write into their first input where that is read later; their result stands for the whole tensor."""

_TORN = r"\w\(torch\.\w+\)"
"""A function of a dtype alone."""

_FLOATS = frozenset({"f16", "f32", "f64"})
_INTEGERS = frozenset({"i64", "i32", "i16", "i8", "u8"})
_WHOLE = _INTEGERS | {"bool"}


def missing_dtype(op: Operator) -> str | None:
    """The ``dtype`` that an operator was called with but is written without, as PNNX spells it."""
    if op.type in COUNTING:
        return _counted_dtype(op)
    if (op.type not in WIDENING and op.type not in KEEPING) or not op.inputs or not op.outputs:
        return None
    if "dtype" in op.params or "dtype" in op.inputnames:
        return None
    given, noted = op.inputs[0].dtype or "", op.outputs[0].dtype or ""
    natural = "i64" if op.type in WIDENING and given in _WHOLE else given
    asked_for = noted in _FLOATS or (noted in _WHOLE and op.type in WIDENING)
    return by_text[noted].spelled if given and noted != natural and asked_for else None


def _counted_dtype(op: Operator) -> str | None:
    """The type of integers that are made of numbers which a graph need not hold as integers.

    Python rounds to integers, as in ``torch.arange(math.ceil(x.size(2) * 0.4))``; expressions give floats there.
    """
    numbers = [p.value for key, p in op.params.items() if key in COUNTING[op.type]]
    if op.value("dtype") is not None or "dtype" in op.inputnames or len(op.outputs) != 1 or op.outputs[0].dtype is None:
        return None
    whole = all(isinstance(v, int) or (isinstance(v, float) and v.is_integer()) for v in numbers)
    noted = op.outputs[0].dtype
    return by_text[noted].spelled if whole and noted in _INTEGERS else None


def written_truth(op: Operator) -> str | None:
    """The dtype of a tensor that a comparison was written to, as PNNX spells it; None where the result is a new tensor.

    ``x.lt_(y)`` is written as ``torch.lt(x, y)``, with a result that is noted with the type of ``x``.
    """
    if op.type not in TRUTHS or not op.inputs or len(op.outputs) != 1:
        return None
    given, noted = op.inputs[0].dtype, op.outputs[0].dtype
    return by_text[noted].spelled if noted == given and noted in by_text and noted != "bool" else None


def rounded_quotients(op: Operator) -> str:
    """The text of an expression in which a quotient of integers that is noted as an integer is rounded down.

    ``torch.div(x, 80, rounding_mode="floor")`` is written as ``div(@0,80)``, which would be a floating-point number.
    Inputs that give sizes are of any type.
    Casts that were torn apart, as in ``[int(torch.int),floor(@0)]``, are whole in it.
    """
    text = op.params["expr"].text if "expr" in op.params else ""
    if re.search(_TORN, text) is not None:
        from pnnx_fast.expression.parser import with_whole_casts  # few models need it

        whole = with_whole_casts(text)
        text = text if whole is None else str(whole)
    if "div(" not in text or not op.inputs or len(op.outputs) != 1:
        return text
    read = {int(i) for i in re.findall(r"(?<!\bsize\()@([0-9]{1,9})", text)}
    types = [x.dtype for i, x in enumerate(op.inputs) if i in read] + [op.outputs[0].dtype]
    if len(types) == 1 or not _INTEGERS.issuperset(types):
        return text
    from pnnx_fast.ir.literals import type_of_text

    made = type_of_text(op, text)
    if made is not None and made.kind != "f":
        return text  # what is rounded on the way to an integer is not the quotient
    return re.sub(r"\bdiv\(", "floor_divide(", text)


def leading_sizes(op: Operator) -> list[int] | None:
    """The sizes of a reshape without those that the converter left behind them.

    Where sizes were products, their factors may follow: ``(1,16,8,8,2,2)`` for a result that is noted as (1,16,8,8).
    """
    value = op.value("shape") if len(op.inputs) == 1 == len(op.outputs) else None
    noted, given = op.outputs[0].shape if isinstance(value, list) else None, op.inputs[0].shape if op.inputs else None
    if not isinstance(value, list) or not noted or given is None or len(value) <= len(noted):
        return None
    if math.prod(noted) != math.prod(given) or min((*noted, *given)) < 1:
        return None
    sizes = value[: len(noted)]
    return sizes if all(a in (-1, b) for a, b in zip(sizes, noted, strict=True)) else None


def kept_axes(op: Operator) -> list[int] | None:
    """All axes, for an extreme of all elements whose result is noted with each of them as a one.

    So the converter writes ONNX's extremes, which keep the axes. A single one says nothing: results without axes are
    noted so, too.
    """
    if op.type not in ("torch.max", "torch.min") or len(op.inputs) != 1 or len(op.outputs) != 1 or "dim" in op.params:
        return None
    given, noted = op.inputs[0].shape, op.outputs[0].shape
    return list(range(len(given))) if given and len(given) > 1 and noted == (1,) * len(given) else None


def keeps_entries(op: Operator) -> bool:
    """Whether any or all of the entries along no axes is meant, of an empty list that the file writes as None."""
    from pnnx_fast.ir.literals import literal  # few models need it

    given, noted = op.inputs[0].shape if op.inputs else None, op.outputs[0].shape if op.outputs else None
    if not given or given != noted or len(op.inputs) < 2 or literal(op.inputs[1]) is not None:
        return False
    # Sizes of one are also what the other meaning, all axes, may leave.
    return set(given) != {1} or (len(op.inputs) > 2 and literal(op.inputs[2]) is False)


def lost_axes(op: Operator) -> int:
    """How many axes of one element in front of its result an element-wise expression lacks, of which none can come."""
    shapes = [x.shape for x in op.inputs]
    noted = op.outputs[0].shape if len(op.outputs) == 1 else None
    known = [shape for shape in shapes if shape is not None]
    if not noted or len(known) < len(shapes):
        return 0
    count = len(noted) - max(map(len, known), default=len(noted))
    if count < 1 or noted[:count] != (1,) * count:
        return 0
    aligned = [(*(1,) * (len(noted) - len(shape)), *shape) for shape in known]
    widest = tuple(max(sizes, key=lambda n: (n != 1, n)) for sizes in zip(*aligned, strict=True))
    return count if widest == noted else 0


def shuffled_shape(op: Operator) -> tuple[int, ...] | None:
    """The shape that a shuffle reads, where the converter took a reshape to it for a part of the shuffle.

    Patches (1,96,4,256) that become a picture noted as (1,96,32,32) are read as (1,384,16,16) by nn.PixelShuffle;
    nn.ChannelShuffle gives what it reads another order, not another shape.
    """
    if op.type not in ("nn.PixelShuffle", "nn.ChannelShuffle") or len(op.inputs) != 1 or len(op.outputs) != 1:
        return None
    factor = op.value("upscale_factor", 1)
    if not isinstance(factor, int):
        return None
    given, noted = op.inputs[0].shape, op.outputs[0].shape
    if given is None or noted is None or len(noted) < 3 or min((factor, *given, *noted)) < 1:
        return None
    *lead, c, h, w = noted
    shape = (*lead, c * factor**2, h // factor, w // factor)
    return shape if shape != given and math.prod(shape) == math.prod(given) else None


def same_padding(op: Operator) -> str | None:
    """``"same"`` where a module of a convolution has that padding and another mode than zeros.

    The converter writes the list that ``F.pad`` takes, and nothing at all for an odd sum in one dimension.
    """
    found = re.fullmatch(_CONVOLUTION, op.type)
    keys = ("padding", "padding_mode", "kernel_size", "dilation")
    if found is None or any(key not in op.params for key in keys) or op.params["padding_mode"].value == "zeros":
        return None
    padding, _, kernel, dilation = ([] if (v := op.params[key].value) is None else v for key in keys)
    if not all(isinstance(v, list) for v in (padding, kernel, dilation)) or len(kernel) != len(dilation):
        return None
    totals = [d * (k - 1) for k, d in zip(reversed(kernel), reversed(dilation), strict=True)]
    same = [side for total in totals for side in (total // 2, total - total // 2)]
    if any(s != 1 for s in per_axis(op.value("stride", 1))):
        return None
    return "same" if padding == same or (not padding and len(kernel) == 1) else None


def raised_pad(op: Operator) -> list[int] | None:
    """The widths of a padding up to a multiple, whose remainders the converter computed with the sign of C.

    ``F.pad(x, (0, -x.size(1) % 4))`` of 11 columns is written with ``pad=(0,-3)`` and a result noted with 12.
    """
    value = op.value("pad") if op.type == "F.pad" else None
    given, noted = op.inputs[0].shape if op.inputs else None, op.outputs[0].shape if op.outputs else None
    if not isinstance(value, list) or not all(type(n) is int for n in value) or given is None or noted is None:
        return None
    if min(value, default=0) >= 0 or len(value) % 2 or len(value) > 2 * len(given) or len(given) != len(noted):
        return None
    widths = list(value)
    for i, (n, size) in enumerate(zip(given[: -len(value) // 2 - 1 : -1], noted[::-1], strict=False)):
        before, after = widths[2 * i : 2 * i + 2]
        if n < 0 or size < 0 or n + before + after == size:
            continue
        multiple = size - n - before - after
        if (before < 0) == (after < 0) or multiple <= 0 or min(before, after) != -(n % multiple):
            return None
        widths[2 * i + (after < 0)] += multiple
    return widths if widths != value else None


def listed_entries(op: Operator) -> str | None:
    """Indices in brackets, of a single entry that was a list: so the converter writes what ONNX's Gather lists.

    There is more than one, or the result is noted with the dimension that a single entry would have taken away.
    """
    index, dim = (op.value(k) for k in ("index", "dim"))
    given, noted = op.inputs[0].shape, op.outputs[0].shape if op.outputs else None
    if not isinstance(dim, int) or given is None or not -len(given) <= dim < len(given):
        return None
    axis = dim % len(given)
    if isinstance(index, int) and noted == (*given[:axis], 1, *given[axis + 1 :]):
        index = [index]
    if not isinstance(index, (list, tuple)) or not all(isinstance(i, int) for i in index):
        return None
    return f"[{'None,' * axis}[{','.join(map(str, index))}]]"


def lowered_bound(op: Operator) -> tuple[str, int] | None:
    """The bound of a slice, counted from the end, whose quotient the converter rounded towards zero as C does.

    ``x[:, -x.size(1) // 2 :]`` of 5 columns is written with ``start=-2`` and a result noted with 3.
    """
    keys = ("dim", "start", "end", "step")
    if any(type(op.value(key)) is not int for key in keys) or not op.inputs:
        return None
    dim, start, end, step = (number(op, key, 0) for key in keys)
    given, noted = op.inputs[0].shape, op.outputs[0].shape
    if given is None or noted is None or len(given) != len(noted) or not -len(given) <= dim < len(given) or step != 1:
        return None
    n, size = given[dim], noted[dim]
    if start < 0 and end > n >= size == 1 - start:
        return "start", -size
    return ("end", end - 1) if start == 0 and end < 0 <= size == n + end - 1 else None


def written_views(op: Operator) -> list[Operator]:
    """Operators from a tensor to the view of it that a copy writes to; none when the copy writes to all of it.

    The result of the copy stands for the whole changed tensor. Where that is noted with another shape than the tensor
    at the chain's end has, a copy on the way was dropped (a product with 1), and the whole is the link of the noted
    shape.
    """
    chain: list[Operator] = []
    operand = op.inputs[0]
    noted, whole = op.outputs[0].shape if op.outputs else None, 0
    while operand.producer is not None and operand.producer.type in FOLLOWED and operand.producer.inputs:
        chain.append(operand.producer)
        operand = operand.producer.inputs[0]
        if operand.shape == noted:
            whole = len(chain)
    known = noted is not None and operand.shape is not None
    return chain[: whole if known and whole else None][::-1]


def is_written(x: Operand) -> bool:
    """Whether a copy or a number is written into a tensor later, or into a view of it."""
    views, seen = [x], {x}
    while views:
        view = views.pop()
        for user in view.consumers:
            if user.inputs[0] is view and user.type in WRITES:
                return True
            if user.inputs[0] is view and user.type in FOLLOWED:
                views += [y for y in user.outputs if y not in seen]
                seen.update(user.outputs)
    return False


def lost_whole(op: Operator) -> Operand | None:
    """The tensor that a write changes where the converter put the written values in its place.

    Of ``x[..., :2] -= x[..., 2:]`` the halves of ``x`` are outputs of one split; then the result of the difference is
    both what is written and what it is written to, though the outcome is noted with the shape of ``x``.
    """
    if op.type != "Tensor.slice_copy" or len(op.inputs) != 2 or len(op.outputs) != 1:
        return None
    held, values, noted = op.inputs[0], op.inputs[1], op.outputs[0].shape
    if held.producer is not None and held.producer.type == "Tensor.clone":
        held = held.producer.inputs[0]
    source = values.producer
    if held is not values or noted is None or values.shape in (None, noted) or source is None or not source.inputs:
        return None
    part = source.inputs[0]
    split = part.producer
    if split is None or split.type != "torch.tensor_split" or split.inputs[0].shape != noted:
        return None
    return split.inputs[0] if _place_in_split(split, part) == _place_written(op, noted) else None


def lost_reshape(op: Operator) -> tuple[int, ...] | None:
    """The shape of the tensor that a write into a part of a reshaped view of it changes.

    The converter writes to a copy of the view, and takes what that gives for the tensor itself.
    """
    if op.type != "Tensor.slice_copy" or not op.inputs or len(op.outputs) != 1:
        return None
    clone, noted = op.inputs[0].producer, op.outputs[0].shape
    view = clone.inputs[0].producer if clone is not None and clone.type == "Tensor.clone" and clone.inputs else None
    if view is None or view.type not in ("Tensor.reshape", "Tensor.view") or noted in (None, view.outputs[0].shape):
        return None
    return noted if view.inputs[0].shape == noted else None


def _place_in_split(split: Operator, part: Operand) -> tuple[int, int, int] | None:
    """Axis, begin and end of an output of ``torch.tensor_split`` that is cut at numbers."""
    dim, cuts = _values(split, "dim", "indices")
    shape, i = split.inputs[0].shape or (), split.outputs.index(part)
    if type(dim) is not int or not -len(shape) <= dim < len(shape) or not isinstance(cuts, list):
        return None
    ends = [0, *cuts, shape[dim]]
    if len(ends) != len(split.outputs) + 1 or not all(type(n) is int and 0 <= n <= shape[dim] for n in ends):
        return None
    return dim % len(shape), ends[i], ends[i + 1]


def _place_written(op: Operator, shape: tuple[int, ...]) -> tuple[int, int, int] | None:
    """Axis, begin and end of a slice along one axis, without gaps."""
    dim, start, end, step = given = _values(op, "dim", "start", "end", "step")
    if not all(type(n) is int for n in given) or step != 1 or not -len(shape) <= dim < len(shape):
        return None
    size = shape[dim]
    begin, end = (max(0, min(size, n + size if n < 0 else n)) for n in (start, end))
    return dim % len(shape), begin, end


def _values(op: Operator, *keys: str) -> list[Any]:
    return [op.value(key) for key in keys]


def recurrent_roles(op: Operator, outputs: Sequence[Operand] | None = None) -> str | None:
    """What the outputs of a recurrent layer are, in order, as in ``RECURRENT``; None when their shapes do not tell.

    ``outputs`` are those that a traced module hands out in a tuple. Of a sequence without a batch, states come first.
    """
    given, unpacked = op.inputs[0].shape, outputs is not None
    outputs = op.outputs if outputs is None else outputs
    if given is None or len(given) not in (2, 3) or any(o.shape is None for o in outputs):
        return None
    directions = 2 if number(op, "bidirectional", 0) else 1
    hidden = number(op, "hidden_size", 0)
    out = number(op, "proj_size", 0) or hidden
    batch = [given[0 if number(op, "batch_first", 0) else 1]] if len(given) == 3 else []
    count = number(op, "num_layers", 1) * directions
    shapes = {"y": [*given[:-1], directions * out], "h": [count, *batch, out], "c": [count, *batch, hidden]}
    rare = _RARE_ORDERS if out != hidden else ()
    orders: list[str] = [o for o in (*RECURRENT[op.type], *rare) if len(o) == len(outputs)]
    if unpacked and len(given) == 2:
        orders.sort(key=lambda o: o.startswith("y"))
    elif number(op, "pnnx_rnn_output_swapped", 0):
        orders.sort(key=lambda o: o.endswith("y"), reverse=True)
    # Sizes that vary are the batch's and the sequence's, so that what varies tells, too, where notes say it.
    for alike in (agrees, fits):
        for order in orders:
            if all(alike(x, shapes[role]) for x, role in zip(outputs, order, strict=True)):
                return order
    return None


def query_shape(op: Operator) -> Sequence[int] | None:
    """The shape noted at the first input of attention that is no mask."""
    masks, _ = attention_masks(op)
    return next((x.shape for i, x in enumerate(op.inputs) if i not in masks), None)


def number_shape(op: Operator) -> tuple[int, ...] | None:
    """The shape of a constant tensor of one element that the converter wrote as a number; None for numbers."""
    if op.type != "pnnx.Expression" or op.inputs or len(op.outputs) != 1:
        return None
    noted = op.outputs[0].shape
    if not noted or any(n != 1 for n in noted) or op.outputs[0].dtype not in by_text:
        return None
    from pnnx_fast.ir.literals import literal  # models without such numbers need no expressions

    return tuple(noted) if isinstance(literal(op.outputs[0]), (bool, int, float)) else None


def attention_roles(op: Operator, outputs: Sequence[Operand] | None = None) -> tuple[str, ...]:
    """What the outputs of attention are, in order: ``y``, ``weights``.

    The converter lists those that are used, in the order of their use, so that only their shapes tell. ``outputs`` are
    those of the tuple that a traced module hands out.
    """
    outputs = op.outputs if outputs is None else outputs
    query = query_shape(op)
    usual = ("y", "weights")[: len(outputs)]
    if query is None or len(query) not in (2, 3) or any(x.shape is None for x in outputs):
        return usual
    size = number(op, "embed_dim", 0)
    fitting = [fits(x, [*query[:-1], size]) and x.shape is not None and x.shape[-1] == size for x in outputs]
    if fitting == [False]:
        return ("weights",)
    return ("weights", "y") if fitting == [False, True] else usual


def number(op: Operator, key: str, default: int) -> int:
    """Value of an integer or boolean parameter."""
    value = op.value(key, default)
    return int(value) if isinstance(value, (int, bool)) else default


def agrees(operand: Operand, shape: Sequence[int]) -> bool:
    """Whether the shape noted at an operand is this one, with the same sizes left open."""
    return operand.shape is not None and [max(n, -1) for n in operand.shape] == [max(n, -1) for n in shape]


def fits(operand: Operand, shape: Sequence[int]) -> bool:
    """Whether the shape noted at an operand may be this one."""
    return operand.shape is not None and may_be(operand.shape, shape)
