"""Shapes of a graph at given sizes of its inputs, operator by operator, as the runtime's lowering finds them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from pnnx_fast import passes
from pnnx_fast.errors import ParameterError
from pnnx_fast.ir import Graph, Operand, Operator
from pnnx_fast.ir.dtypes import COMPUTED_AS, by_numpy, by_text
from pnnx_fast.ir.notes import written_views
from pnnx_fast.ops.symbolic import Buffer, Tensor, Value
from pnnx_fast.runtime.constants import Constants
from pnnx_fast.runtime.lower import Lowering
from pnnx_fast.runtime.session import default_isa

__all__ = ["Shapes", "Walk", "walked"]

Shapes = Mapping[str, Sequence[int]]


class Walk:
    """Lowering of a graph operator by operator, at given sizes of the inputs."""

    def __init__(self, graph: Graph, shapes: Shapes) -> None:
        self._lowering = Lowering(default_isa(), 1, Constants(0))
        self.values: dict[str, Value] = {}
        for i, x in enumerate(graph.inputs):
            row = by_text.get(x.dtype or "f32")
            if row is None:
                raise ParameterError(f"input {x.name} has an unknown dtype {x.dtype}")
            dtype = np.dtype(row.computed)
            shape = tuple(shapes[x.name])
            count = int(np.prod(shape, dtype=np.int64))
            self.values[x.name] = Tensor(Buffer("input", count * dtype.itemsize, None, i), shape, dtype)

    def step(self, op: Operator) -> None:
        """Lower one operator, and learn the shapes of its results.

        What follows a result whose shape depends on data has no shape before a run.
        """
        if op.is_end or any(x.name not in self.values for x in op.inputs):
            return
        chain = written_views(op) if op.type in ("Tensor.copy", "aten::copy") and op.inputs else []
        if chain:
            # The result stands for the whole tensor that is written to.
            self.values[op.outputs[0].name] = self.values[chain[0].inputs[0].name]
            return
        # An operator that is taken once more may have been mended since.
        self._lowering.carried.pop(op, None)
        self._lowering.run([op], self.values, ())

    def shape(self, x: Operand) -> tuple[int, ...] | None:
        """Shape of an operand, None when it is not known."""
        value = self.values.get(x.name)
        return tuple(value.shape) if isinstance(value, Tensor) else None

    def dtype(self, x: Operand) -> str | None:
        """Dtype of an operand in PNNX's words; one that is computed as a larger type stays as noted."""
        value = self.values.get(x.name)
        name = np.dtype(value.dtype).name if isinstance(value, Tensor) else ""
        if name and COMPUTED_AS.get(x.dtype or "") == name:
            return x.dtype
        return by_numpy[name].text if name in by_numpy else None


def walked(graph: Graph, shapes: Shapes) -> tuple[Graph, Walk]:
    """A copy of a graph with what the converter left out, and the walk through all of it."""
    restored = graph.copy()
    passes.restore(restored)
    walk = Walk(restored, shapes)
    for op in restored.topological():
        walk.step(op)
    return restored, walk
