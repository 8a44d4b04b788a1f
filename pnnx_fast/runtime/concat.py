"""Concatenation without copies: decides which operands can be written straight into the output of a concatenation.

Works on the result of a first, dry lowering, whose steps nobody wants, so that it plans and packs nothing. It ends
with the last concatenation, and most operators are only sketched in it. There every operand has a shape and a buffer.
An operand qualifies when its tensor is a whole buffer of its own (not a view, an input or a constant) or when
consecutive inputs of the concatenation are consecutive slices that together are such a buffer (a split whose parts are
concatenated again). A concatenation whose inputs begin a later one becomes the first part of that one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from pnnx_fast._types import DType, Shape
from pnnx_fast.ir import Operator
from pnnx_fast.ir.shapes import dense_strides
from pnnx_fast.ops.shape import prefer_channels_last
from pnnx_fast.ops.symbolic import Buffer, Chosen, KernelPlan, Order, Tensor, Value, is_channels_last
from pnnx_fast.runtime.constants import Constants
from pnnx_fast.runtime.lower import CONCATENATIONS, Lowering, Stage

__all__ = ["DryLowering", "Placement", "Sketch", "find_placements", "lower_joined"]

_NO_PLAN = KernelPlan(-1, 0, 0, "", {"variant": -1})


class DryLowering(Lowering):
    """A builder without steps. What kernels plan decides over memory of steps alone."""

    wants_steps = False

    def prefer(self, given: Chosen, options: Callable[[], Sequence[Chosen]], weight: Tensor, fields: Any) -> Chosen:
        """See Builder."""
        return given

    def plan(self, kernel: str, **fields: Any) -> KernelPlan:
        """See Builder."""
        return _NO_PLAN

    def pack(self, kernel: str, weight: Tensor, nbytes: int, **fields: Any) -> Tensor:
        """See Builder."""
        return weight

    def step(self, kernel: str, **fields: Any) -> None:
        """See Builder."""


def _channels_last(given: Sequence[Tensor], shape: Shape) -> Order | None:
    # An image without a batch is a part of one with a batch, whose order has no name.
    return "channels_last" if len(shape) == 4 else None


def _pooled(given: Sequence[Tensor], shape: Shape) -> Order | None:
    from pnnx_fast.ops.pooling import may_have_lines

    return None if may_have_lines(given[0]) else _channels_last(given, shape)


def _plain(given: Sequence[Tensor], shape: Shape) -> Order:
    return "plain"


def _like_first(given: Sequence[Tensor], shape: Shape) -> Order:
    return given[0]


def _like_rows(given: Sequence[Tensor], shape: Shape) -> Order:
    return given[0] if given[0].strides[-1:] == (1,) else "plain"


def _like_any(given: Sequence[Tensor], shape: Shape) -> Order:
    from pnnx_fast.ops.elementwise import order_of

    return order_of(given, shape)


def _like_most(given: Sequence[Tensor], shape: Shape) -> Order:
    return "channels_last" if prefer_channels_last(given) else "plain"


_ORDERS: dict[str, Callable[[Sequence[Tensor], Shape], Order | None]] = {
    "nn.Conv2d": _channels_last,
    "fused.Conv2d": _channels_last,
    "nn.ConvTranspose2d": _channels_last,
    "fused.ConvTranspose2d": _channels_last,
    "nn.MaxPool2d": _pooled,
    "nn.Linear": _plain,
    "fused.Linear": _plain,
    "nn.LayerNorm": _like_rows,
    "nn.BatchNorm2d": _like_first,
    "fused.BatchNorm2d": _like_first,
    "nn.ChannelShuffle": _like_first,
    "pnnx.Expression": _like_any,
    "torch.cat": _like_most,
}
"""Frequent operators whose result is always new memory: the order of its dimensions, from the inputs and its shape.

None where only lowering tells."""


class Sketch(DryLowering):
    """A dry lowering that takes what the file notes of an operator's result, instead of lowering the operator.

    It does so where the shapes of all inputs are the noted ones. ``assumed`` holds what it took, by operand.
    """

    def __init__(self, isa: str, nthreads: int, constants: Constants) -> None:
        super().__init__(isa, nthreads, constants)
        self.assumed: dict[str, Tensor] = {}

    def _call(self, op: Operator, values: Mapping[str, Value]) -> Value:
        noted = self._noted(op, values)
        if noted is None:
            return super()._call(op, values)
        self.assumed[op.outputs[0].name] = noted
        return noted

    def _noted(self, op: Operator, values: Mapping[str, Value]) -> Tensor | None:
        order_of = _ORDERS.get(op.type)
        shape = op.outputs[0].shape if len(op.outputs) == 1 and op.outputs[0].dtype == "f32" else None
        if order_of is None or shape is None or min(shape, default=0) < 0:
            return None
        given = [values[operand.name] for operand in op.inputs]
        for operand, value in zip(op.inputs, given, strict=True):
            if not isinstance(value, Tensor) or value.shape != operand.shape:
                return None
        if op.type in CONCATENATIONS and not _joins(op, given, shape):
            return None
        order = None if all(t.is_constant for t in given) else order_of(given, shape)
        return None if order is None else self.empty(shape, np.float32, order)


def lower_joined(like: Lowering, ops: Sequence[Operator], values: Mapping[str, Value], outputs: Sequence[str]) -> Stage:
    """Lower operators after a dry lowering up to the last concatenation, with what is joined placed where it goes.

    ``like`` has the settings. Where a file notes other shapes than there are, a place may be that of another operand:
    then nothing is sketched.
    """
    settings = like.isa, like.nthreads, like.constants
    sketch = Sketch(*settings)
    try:
        stage = _lower_after(sketch, ops, values, outputs)
        if _hold(sketch.assumed, stage.values):
            return stage
    except Exception:  # by wrong notes, or for what follows to tell
        pass
    return _lower_after(DryLowering(*settings), ops, values, outputs)


def _lower_after(
    dry: DryLowering, ops: Sequence[Operator], values: Mapping[str, Value], outputs: Sequence[str]
) -> Stage:
    last = max(i for i, op in enumerate(ops) if op.type in CONCATENATIONS)
    known = dry.run(ops[: last + 1], dict(values), ()).values
    places = find_placements(ops[: last + 1], known, set(values))
    lowering = Lowering(dry.isa, dry.nthreads, dry.constants, places)
    lowering.carried, lowering.held = dry.carried, dry.held
    return lowering.run(ops, dict(values), outputs)


def _hold(assumed: Mapping[str, Tensor], values: Mapping[str, Value]) -> bool:
    """Whether operands, as far as they are known, have shapes and dtypes that were assumed."""
    pairs = [(values[name], tensor) for name, tensor in assumed.items() if name in values]
    return all(isinstance(v, Tensor) and v.shape == t.shape and v.dtype == t.dtype for v, t in pairs)


class Span:
    """Entries [start, start + length) along the axis of a concatenation, named by its operand.

    ``made`` is what goes there as the first lowering had it: the part may be a view that means another one elsewhere.
    """

    __slots__ = ("length", "made", "start", "target")

    def __init__(self, target: str, start: int, length: int, made: Tensor) -> None:
        self.target, self.start, self.length, self.made = target, start, length, made


class Placement:
    """Where operands go: ``spans`` maps the operand of a producer to its place in a concatenation."""

    def __init__(self, spans: dict[str, Span], targets: dict[str, tuple[Tensor, int]]) -> None:
        self._spans, self._targets = spans, targets
        self._made: dict[str, Tensor] = {}
        self._taken: set[str] = set()

    def place(self, name: str, shape: Sequence[int], dtype: DType, strides: Sequence[int]) -> Tensor | None:
        """Return the slice for an operand, None when it has no place or asks for another memory order.

        It is given away once: operators that are made of others ask for the memory of a part of theirs, too.
        """
        if name in self._taken:
            return None
        self._taken.add(name)
        made = self._made.get(name)
        if made is not None:
            return made if made.shape == tuple(shape) and made.dtype == dtype else None
        span = self._spans.get(name)
        if span is None or span.made.dtype != dtype or not span.made.has_layout(shape, strides):
            return None
        return self._slice(span)

    def _slice(self, span: Span) -> Tensor | None:
        part, made = self._whole(span.target).narrow(self._targets[span.target][1], span.start, span.length), span.made
        if part.dtype != made.dtype:
            return None
        if part.shape == made.shape:
            return part if _same_order(part, made.strides) else None
        # The concatenation takes a reshaped view: a place that is one dense block serves any shape.
        if made.size != part.size or not part.is_dense:
            return None
        block = Tensor(part.buffer, made.shape, made.dtype, made.strides, part.offset)
        return block if block.is_dense else None

    def _whole(self, name: str) -> Tensor:
        if name not in self._made:
            like = self._targets[name][0]
            nested = self._slice(self._spans[name]) if name in self._spans else None
            self._made[name] = nested or Tensor(Buffer("arena", like.nbytes), like.shape, like.dtype, like.strides)
        return self._made[name]


def _same_order(part: Tensor, strides: Sequence[int]) -> bool:
    """Whether a dense tensor with ``strides`` may be replaced by ``part``: same order, gaps between pixels only.

    One in plain order has no gaps at all, even where pixels of a single row and column lie channels last in both.
    """
    a = [s for s, n in zip(part.strides, part.shape, strict=True) if n != 1]
    b = [s for s, n in zip(strides, part.shape, strict=True) if n != 1]
    if a == b:
        return True
    if tuple(strides) == dense_strides(part.shape):
        return False
    dims = range(len(a))
    ordered = sorted(dims, key=lambda d: a[d]) == sorted(dims, key=lambda d: b[d])
    return ordered and len(part.shape) >= 3 and is_channels_last(part) and part.shape[1] != 1


def find_placements(ops: Sequence[Operator], values: Mapping[str, Value], given: set[str]) -> Placement | None:
    """Find operands to place, from the tensors of a first lowering; ``given`` are operands from outside."""
    whole = _whole_buffers(ops, values, given)
    spans: dict[str, Span] = {}
    targets: dict[str, tuple[Tensor, int]] = {}
    taken: set[Buffer] = set()
    for op in ops:
        out = values.get(op.outputs[0].name) if op.type in CONCATENATIONS and op.outputs else None
        if not isinstance(out, Tensor) or out.size == 0 or whole.get(out.buffer) != op.outputs[0].name:
            continue
        axis = _axis(op, out.ndim)
        parts = [values.get(operand.name) for operand in op.inputs]
        if axis is None or not all(isinstance(p, Tensor) for p in parts):
            continue
        targets[op.outputs[0].name] = (out, axis)
        # An empty vector may stand among parts of any rank.
        for first, owner, length in _runs([p for p in parts if isinstance(p, Tensor) and p.ndim == out.ndim], axis):
            name = whole.get(owner.buffer)
            if name is None or owner.buffer in taken or owner.dtype != out.dtype:
                continue
            made = values[name]
            if isinstance(made, Tensor) and _same_order(out.narrow(axis, first, length), owner.strides):
                spans[name] = Span(op.outputs[0].name, first, length, made)
                taken.add(owner.buffer)
    spans.update(_prefixes([op for op in ops if op.outputs and op.outputs[0].name in targets], spans, targets))
    return Placement(spans, targets) if spans else None


def _prefixes(
    ops: Sequence[Operator], spans: Mapping[str, Span], targets: Mapping[str, tuple[Tensor, int]]
) -> dict[str, Span]:
    """Spans of concatenations whose inputs begin a later one: each is the first part of the next (DenseNet)."""
    found: dict[str, Span] = {}
    lists = [[operand.name for operand in op.inputs] for op in ops]
    for i, op in enumerate(ops):
        name = op.outputs[0].name
        out, axis = targets[name]
        for later, names in zip(ops[i + 1 :], lists[i + 1 :], strict=True):
            whole, other = targets[later.outputs[0].name]
            begins = names[: len(lists[i])] == lists[i] and len(names) > len(lists[i]) and other == axis
            if begins and name not in spans and whole.dtype == out.dtype:
                if _same_order(whole.narrow(axis, 0, out.shape[axis]), out.strides):
                    found[name] = Span(later.outputs[0].name, 0, out.shape[axis], out)
                break
    return found


def _axis(op: Operator, ndim: int) -> int | None:
    value = op.value("dim", 0)
    return value % ndim if isinstance(value, int) and ndim else None


def _joins(op: Operator, parts: Sequence[Tensor], shape: Shape) -> bool:
    """Whether parts give a shape when they are joined."""
    axis = _axis(op, len(shape))
    if axis is None or any(p.ndim != len(shape) for p in parts):
        return False
    total = sum(p.shape[axis] for p in parts)
    return all((*p.shape[:axis], total, *p.shape[axis + 1 :]) == shape for p in parts)


def _whole_buffers(ops: Sequence[Operator], values: Mapping[str, Value], given: set[str]) -> dict[Buffer, str]:
    """Buffers that are exactly one operand's dense tensor, with that operand's name (the first producer's)."""
    whole: dict[Buffer, str] = {}
    for op in ops:
        for operand in op.outputs:
            value = values.get(operand.name)
            if not isinstance(value, Tensor) or value.buffer.kind != "arena" or operand.name in given:
                continue
            if value.buffer not in whole:
                covers = value.offset == 0 and value.is_dense and value.nbytes == value.buffer.nbytes
                whole[value.buffer] = operand.name if covers and value.size else ""
    return {buffer: name for buffer, name in whole.items() if name}


def _runs(parts: Sequence[Tensor], axis: int) -> list[tuple[int, Tensor, int]]:
    """(first entry, tensor of the whole buffer, length) of inputs that are a buffer, alone or as consecutive slices."""
    runs: list[tuple[int, Tensor, int]] = []
    at = i = 0
    while i < len(parts):
        head, length, j = parts[i], parts[i].shape[axis], i + 1
        while j < len(parts) and _follows(head, length, parts[j], axis):
            length += parts[j].shape[axis]
            j += 1
        if head.offset == 0:
            sizes = (*head.shape[:axis], length, *head.shape[axis + 1 :])
            joined = head if j == i + 1 else head.as_strided(sizes, head.strides)
            if joined.nbytes == head.buffer.nbytes and joined.is_dense:
                runs.append((at, joined, length))
        at += length
        i = j
    return runs


def _follows(head: Tensor, length: int, tail: Tensor, axis: int) -> bool:
    offset = head.offset + length * head.strides[axis] * head.dtype.itemsize
    return tail.buffer is head.buffer and tail.offset == offset and tail.strides == head.strides
