"""Constants that hold what the converter's own run wrote there are wound back to what they were before.

Graph networks add up messages in ``torch.zeros(n, c).index_add_(0, edges, x)``. The converter runs a model once, with
ones for its inputs, before it notes its constants: the zeros, which are noted as a constant, hold that run's sums. Here
the part of the graph up to such a write runs once with the same inputs. Where that tells of one value that filled the
constant before, the constant becomes that again; where it does not, :mod:`pnnx_fast.runtime.doubts` warns.

Masks are all true in such a run, and of what they filled nothing is left. PyTorch's own modules make numbers of them
by ``zeros_like(mask).masked_fill_(mask, -inf)``; there it was zeros.

Recurrent cells write to more than one value, which :mod:`pnnx_fast.runtime.own_cells` tells.

The converter may have been given other inputs than ones (its option ``input``). Of what it added up then, the sum is
known all the same where it is that of a constant, wherever its entries went.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from pnnx_fast._types import Array
from pnnx_fast._warning import muted
from pnnx_fast.errors import LimitError
from pnnx_fast.ir import Attribute, Graph, Operand, Operator, dtypes
from pnnx_fast.ir.folded import FILLS, changed_constant, filling, versions_of
from pnnx_fast.ir.levels import spellings

if TYPE_CHECKING:
    from pnnx_fast.runtime.own_cells import Cells

__all__ = ["wind_back"]

TRIED = 4
"""Of writes behind each other, how many of the last may have been the last in place."""

TOLERANCE = 1e-4
"""What rounding may leave of a difference, as a share of the largest number."""

MOST_NUMBERS, MOST_BYTES = 1 << 24, 1 << 30
"""Numbers that inputs may have together, and memory of a run: opening a file stays cheap where running it is not."""

MOST_OPERATORS, MOST_FLOPS = 1 << 17, 100_000_000_000
"""What all runs for a file may look at and compute together: seconds."""

SUMS = spellings("scatter_add")
ATTENTION = {"nn.MultiheadAttention", "aten::_transformer_encoder_layer_fwd"}
LITERALS = ("prim::Constant", "pnnx.Expression")

Run = Callable[[Array], Array]


def wind_back(graph: Graph, isa: str) -> set[Operator]:
    """Put back what filled constants before the converter's run wrote there; returns those that now are as they were.

    A run like it may also tell that nothing was written.
    """
    ops = list(graph.topological())
    changes = [(op, constant) for op in ops if (constant := changed_constant(op)) is not None]
    constants = list(dict.fromkeys(constant for _, constant in changes))
    known: set[Operator] = set()
    cells = _cells([op for op, _ in changes if op.type == "pnnx.Expression"], ops)
    for constant in constants:
        before = 0 if _was_mask(constant) else _before_sums(constant, versions_of(constant, ops))
        if before is not None:
            _fill(constant, before)
            known.add(constant)
    constants = [constant for constant in constants if constant not in known]
    inputs = _ones(graph)
    own = None if inputs is None else OwnRun(graph, isa, inputs, ops, constants)
    for constant in constants:
        data = constant.attrs["data"].numpy()
        found: Array | float | int | None = None
        if cells is not None and constant in cells:
            found = cells.before(constant, own)
        elif own is not None:
            tried = versions_of(constant, ops)[: -TRIED - 1 : -1]
            told = (_before(data, partial(own.up_to, constant, last)) for last in tried)
            found = next((value for value in told if value is not None), None)
        if found is None and _was_padding(constant):
            found = 0
        if found is not None:
            known.add(constant)
            if found is not data:
                _fill(constant, found)
    return known


def _cells(sums: Sequence[Operator], ops: Sequence[Operator]) -> Cells | None:
    """What tells of constants in recurrent cells, where sums write to some."""
    if not sums:
        return None
    from pnnx_fast.runtime.own_cells import Cells

    return Cells(sums, ops)


def _fill(constant: Operator, value: float | Array) -> None:
    data = constant.attrs["data"]
    constant.attrs["data"] = Attribute.owning(np.full(data.shape, value, data.numpy().dtype), data.dtype)


def _was_mask(constant: Operator) -> bool:
    """Whether a constant is a mask's zeros that the run, with a mask that is all true, filled with minus infinity."""
    return _takes_masks(constant) and bool((constant.attrs["data"].numpy() == -np.inf).all())


def _was_padding(constant: Operator) -> bool:
    """Whether a constant is the zeros of attention's mask of keys, a row for each batch, of a run with other inputs.

    A square one may be a mask of later positions that the model has.
    """
    data = constant.attrs["data"].numpy()
    if data.ndim != 2 or data.shape[0] == data.shape[1] or not _takes_masks(constant):
        return False
    readers = {op.type for made in constant.outputs[0].consumers for x in made.outputs for op in x.consumers}
    return bool(readers) and readers <= ATTENTION and bool(((data == -np.inf) | (data == 0)).all())


def _takes_masks(constant: Operator) -> bool:
    """Whether all that is done with a constant is that masks of its shape are written to it as minus infinity."""
    x, data = constant.outputs[0], constant.attrs["data"]
    return data.numpy().dtype.kind == "f" and all(
        op.type in FILLS and filling(op) == -np.inf and op.inputs[0] is x and op.inputs[1].shape == data.shape
        for op in x.consumers
    )


def _before_sums(constant: Operator, writes: Sequence[Operator]) -> float | int | None:
    """The value that filled a constant to which one write has added the entries of another, at places unknown."""
    if len(writes) != 1 or writes[0].type not in SUMS or len(writes[0].inputs) < 3:
        return None
    target, *others = (x for x in writes[0].inputs if x.producer is None or x.producer.type not in LITERALS)
    source, index = others[-1], others[0]
    maker = source.producer
    if len(others) != 2 or target is not constant.outputs[0] or maker is None or maker.type != "pnnx.Attribute":
        return None
    data, added = constant.attrs["data"].numpy(), maker.attrs["data"].numpy()
    if data.dtype.kind not in "fi" or added.dtype.kind not in "fi" or index.shape != added.shape or (added <= 0).any():
        return None
    rest = (data.sum(dtype=np.float64) - added.sum(dtype=np.float64)) / data.size
    value = _one_value(np.full(1, rest), float(np.abs(data).max()))
    # Sums leave some entries as they were, and make none smaller.
    least = data.min()
    return least.item() if value is not None and abs(least - value) <= TOLERANCE * np.abs(data).max() else None


def _ones(graph: Graph) -> list[Array] | None:
    """The inputs of the converter's run; None where sizes are unknown or large."""
    for x in graph.inputs:
        if x.shape is None or min(x.shape, default=1) < 0 or x.dtype not in dtypes.by_text:
            return None
    if sum(math.prod(x.shape or ()) for x in graph.inputs) > MOST_NUMBERS:
        return None
    return [np.ones(x.shape or (), dtypes.by_text[x.dtype or ""].computed) for x in graph.inputs]


class OwnRun:
    """The converter's run, repeated in parts as often as the limits above allow.

    What does not depend on a constant that may be wrong is computed once, and kept where other operators read it. So
    the runs for many constants together look at each operator a few times.
    """

    def __init__(
        self, graph: Graph, isa: str, inputs: list[Array], ops: Sequence[Operator], constants: Sequence[Operator]
    ) -> None:
        self._isa, self._known = isa, dict(zip(graph.inputs, inputs, strict=True))
        self._operators, self._flops, self._bytes = MOST_OPERATORS, MOST_FLOPS, MOST_BYTES
        self._place = {op: i for i, op in enumerate(ops)}
        self._turns = {op: i for i, op in enumerate(constants)}
        """For each operator, which of the constants is the last that it depends on (-1: none), …"""
        self._fed: set[Operator] = set()
        """… and those that depend on inputs; what they compute may be kept."""
        for op in ops:
            makers = [x.producer for x in op.inputs if x.producer is not None]
            self._turns.setdefault(op, max((self._turns[maker] for maker in makers), default=-1))
            if op.type == "pnnx.Input" or not self._fed.isdisjoint(makers):
                self._fed.add(op)

    def up_to(self, constant: Operator, last: Operator) -> Run:
        """The result of an operator as a function of a constant; those before it are as they will stay."""
        turn = self._turns[constant]
        sure = [op for op in self._behind([last]) if op in self._fed and self._turns[op] < turn and _is_kept(op)]
        inside = set(sure)
        wanted = [x for op in sure for x in op.outputs if not inside.issuperset(x.consumers)]
        if wanted:
            makers = list(dict.fromkeys(x.producer for x in wanted if x.producer is not None))
            for x, result in zip(wanted, self._runner(self._part(self._behind(makers), wanted))([]), strict=True):
                if result.shape == x.shape and result.dtype == dtypes.by_text[x.dtype or ""].computed:
                    self._known[x] = result
                    self._bytes -= result.nbytes
        run = self._runner(self._part(self._behind([last]), last.outputs[:1], constant))
        return lambda value: run([value])[0]

    def _behind(self, last: Sequence[Operator]) -> list[Operator]:
        """Operators that some need, in order, without what is known."""
        found, waiting = set(last), list(last)
        while waiting:
            for x in waiting.pop().inputs:
                if x.producer is not None and x.producer not in found and x not in self._known:
                    found.add(x.producer)
                    waiting.append(x.producer)
        return sorted(found, key=self._place.__getitem__)

    def _part(
        self, ops: Sequence[Operator], wanted: Sequence[Operand], varied: Operator | None = None
    ) -> tuple[Graph, list[Array]]:
        """A graph of its own that computes some operands, and what it takes but for the values of a constant."""
        self._operators -= len(ops)
        self._require(self._operators >= 0)
        part, makers = Graph(), set(ops)
        twins: dict[Operand, Operand] = {}
        given = [x for x in dict.fromkeys(x for op in ops for x in op.inputs) if x.producer not in makers]
        for x in dict.fromkeys([*given, *(x for op in ops for x in op.outputs)]):
            twins[x] = part.new_operand(x.name)
            twins[x].shape, twins[x].dtype = x.shape, x.dtype
        for x in given:
            part.new_operator("pnnx.Input", x.name, outputs=[twins[x]])
        for op in ops:
            outputs = [twins[x] for x in op.outputs]
            if op is varied:
                part.new_operator("pnnx.Input", op.name, outputs=outputs)
                outputs[0].shape, outputs[0].dtype = op.attrs["data"].shape, op.attrs["data"].dtype
                continue
            carried: dict[str, Any] = {"inputnames": op.inputnames, "params": op.params, "attrs": op.attrs}
            inputs = [twins[x] for x in op.inputs]
            part.new_operator(op.type, op.name, inputs=inputs, outputs=outputs, **carried)
        part.new_operator("pnnx.Output", "own_run", inputs=[twins[x] for x in wanted])
        return part, [self._known[x] for x in given]

    def _runner(self, part: tuple[Graph, list[Array]]) -> Callable[[list[Array]], list[Array]]:
        """What runs a graph on what it takes and some more."""
        from pnnx_fast.runtime.session import Model

        graph, known = part
        model = Model.reading(lambda: graph, None, 1, isa=self._isa, optimize=False, own_run=False)

        def run(more: list[Array]) -> list[Array]:
            arrays = [*known, *more]
            work = model.work(*arrays)
            self._flops -= work["flops"]
            self._require(self._flops >= 0 and work["arena_bytes"] <= self._bytes)
            return list(map(np.asarray, model.results(*arrays)))

        return run

    def _require(self, holds: bool) -> None:
        if not holds:
            raise LimitError("the converter's run would take too long to repeat")


def _is_kept(op: Operator) -> bool:
    """Whether results of an operator may be handed to another graph: whole numbers may be sizes, known before a run."""
    return all(x.dtype in ("f32", "f64") and x.shape is not None and min(x.shape, default=1) >= 0 for x in op.outputs)


def _before(data: Array, up_to: Callable[[], Run]) -> Array | float | int | bool | None:
    """The one value that filled a constant before a run wrote to it; None where there was no such value.

    It is the constant itself where the run writes nothing.
    """
    try:
        with muted(), np.errstate(all="ignore"):
            run = up_to()
            again = run(data)
            if again.shape != data.shape or again.dtype != data.dtype:
                return None
            if _close(again, data):
                return _unwritten(data, run)
            if data.dtype.kind == "b":
                return None
            value = _one_value(data - (again - data), np.maximum(np.abs(data), np.abs(again)).max())
            return value if value is not None and _close(run(np.full_like(data, value)), data) else None
    except Exception:  # Limits, and users' operators raise what they like; then the constant stays as it is.
        return None


def _close(x: Array, y: Array) -> bool:
    return bool(np.allclose(x, y, TOLERANCE, TOLERANCE * np.abs(y[np.isfinite(y)]).max(initial=0), equal_nan=True))


def _unwritten(data: Array, run: Run) -> Array | float | int | bool | None:
    """The value where a write that replaces left a constant alone: what passes through, also where it is changed."""
    others = [~data] if data.dtype.kind == "b" else [data + data.dtype.type(1), data - data.dtype.type(1)]
    if data.dtype.kind == "f":
        # Extremes replace only what they exceed, and a large number may swallow a step of one.
        others += [np.full_like(data, np.inf), np.full_like(data, -np.inf)]
    left = np.logical_and.reduce([run(other) == other for other in others])
    if left.all():
        return data
    values = data[left]
    same = values.size and bool((values == values[0]).all())
    return values[0].item() if same else None


def _one_value(values: Array, scale: float) -> float | int | None:
    if values.dtype.kind not in "fiu" or not np.isfinite(values).all():
        return None
    slack = TOLERANCE * float(scale) if values.dtype.kind == "f" else 0.0
    middle = float(np.median(values))
    if np.abs(values - middle).max() > slack:
        return None
    return round(middle) if abs(middle - round(middle)) <= slack else middle
