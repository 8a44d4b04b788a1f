"""Constants that hold what the converter's own run wrote there are wound back to what they were before.

Graph networks add up messages in ``torch.zeros(n, c).index_add_(0, edges, x)``. The converter runs a model once, with
ones for its inputs, before it notes its constants: the zeros, which are noted as a constant, hold that run's sums. Here
the part of the graph up to such a write runs once with the same inputs. Where that tells of one value that filled the
constant before, the constant becomes that again; where it does not, :mod:`pnnx_fast.runtime.doubts` warns.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from functools import partial

import numpy as np

from pnnx_fast._types import Array
from pnnx_fast.errors import LimitError
from pnnx_fast.ir import Attribute, Graph, Operator, dtypes
from pnnx_fast.ir.folded import changed_constant, versions_of

__all__ = ["wind_back"]

TRIED = 4
"""Of writes behind each other, how many of the last may have been the last in place."""

TOLERANCE = 1e-4
"""What rounding may leave of a difference, as a share of the largest number."""

MOST_NUMBERS, MOST_BYTES = 1 << 24, 1 << 30
"""Numbers that inputs may have together, and memory of a run: opening a file stays cheap where running it is not."""

MOST_OPERATORS, MOST_FLOPS = 1 << 17, 100_000_000_000
"""What all runs for a file may look at and compute together: seconds."""

Run = Callable[[Array], Array]


def wind_back(graph: Graph, isa: str) -> None:
    """Put back what filled constants before the converter's run wrote there, where a run like it tells."""
    ops = list(graph.topological())
    inputs = _ones(graph)
    if inputs is None:
        return
    own = _OwnRun(graph, isa, inputs)
    for constant in dict.fromkeys(filter(None, map(changed_constant, ops))):
        data = constant.attrs["data"]
        for last in versions_of(constant, ops)[: -TRIED - 1 : -1]:
            before = _before(data.numpy(), partial(own.up_to, constant.name, last))
            if before is not None:
                constant.attrs["data"] = Attribute(np.full(data.shape, before, data.numpy().dtype), data.dtype)
                break


def _ones(graph: Graph) -> list[Array] | None:
    """The inputs of the converter's run; None where sizes are unknown or large."""
    for x in graph.inputs:
        if x.shape is None or min(x.shape, default=1) < 0 or x.dtype not in dtypes.by_text:
            return None
    if sum(math.prod(x.shape or ()) for x in graph.inputs) > MOST_NUMBERS:
        return None
    return [np.ones(x.shape or (), dtypes.by_text[x.dtype or ""].computed) for x in graph.inputs]


class _OwnRun:
    """The converter's run, repeated up to an operator as often as the limits above allow."""

    def __init__(self, graph: Graph, isa: str, inputs: list[Array]) -> None:
        self._graph, self._isa, self._inputs = graph, isa, inputs
        self._operators, self._flops = MOST_OPERATORS, MOST_FLOPS

    def up_to(self, constant: str, last: Operator) -> Run:
        """The result of an operator as a function of a constant."""
        from pnnx_fast.runtime.session import Model

        self._operators -= len(self._graph.ops)
        self._require(self._operators >= 0)
        part = self._graph.copy()
        part.remove_operators([op for op in part.ops if op.type == "pnnx.Output"])
        twins = {op.name: op for op in part.ops}
        part.new_operator("pnnx.Output", part.free_name("own_run"), inputs=[twins[last.name].outputs[0]])
        varied = twins[constant]
        varied.type = "pnnx.Input"
        varied.outputs[0].shape, varied.outputs[0].dtype = varied.attrs["data"].shape, varied.attrs["data"].dtype
        varied.attrs.clear()
        place = part.inputs.index(varied.outputs[0])
        part.dead_code_elimination()
        model = Model.reading(lambda: part, None, 1, isa=self._isa, optimize=False, own_run=False)

        def run(value: Array) -> Array:
            arrays = [*self._inputs[:place], value, *self._inputs[place:]]
            work = model.work(*arrays)
            self._flops -= work["flops"]
            self._require(self._flops >= 0 and work["arena_bytes"] <= MOST_BYTES)
            return np.asarray(model(*arrays))

        return run

    def _require(self, holds: bool) -> None:
        if not holds:
            raise LimitError("the converter's run would take too long to repeat")


def _before(data: Array, up_to: Callable[[], Run]) -> float | int | bool | None:
    """The one value that filled a constant before a run wrote to it; None where there was no such value."""
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            run = up_to()
            again = run(data)
            if again.shape != data.shape or again.dtype != data.dtype:
                return None
            if data.dtype.kind == "b" or _close(again, data):
                return _unwritten(data, run)
            return _one_value(data - (again - data), np.maximum(np.abs(data), np.abs(again)).max())
    except Exception:  # Limits, and users' operators raise what they like; then the constant stays as it is.
        return None


def _close(x: Array, y: Array) -> bool:
    return bool(np.allclose(x, y, TOLERANCE, TOLERANCE * np.abs(y[np.isfinite(y)]).max(initial=0), equal_nan=True))


def _unwritten(data: Array, run: Run) -> float | int | bool | None:
    """The value where a write that replaces left a constant alone: what passes through, also where it is changed."""
    others = [~data] if data.dtype.kind == "b" else [data + data.dtype.type(1), data - data.dtype.type(1)]
    if data.dtype.kind == "f":
        # Extremes replace only what they exceed, and a large number may swallow a step of one.
        others += [np.full_like(data, np.inf), np.full_like(data, -np.inf)]
    left = np.logical_and.reduce([run(other) == other for other in others])
    values = data[left]
    same = values.size and not left.all() and bool((values == values[0]).all())
    return values[0].item() if same else None


def _one_value(values: Array, scale: float) -> float | int | None:
    if values.dtype.kind not in "fiu" or not np.isfinite(values).all():
        return None
    slack = TOLERANCE * float(scale) if values.dtype.kind == "f" else 0.0
    middle = float(np.median(values))
    if np.abs(values - middle).max() > slack:
        return None
    return round(middle) if abs(middle - round(middle)) <= slack else middle
