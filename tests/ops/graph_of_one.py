"""Runs a graph of a single operator: the tests of operator families compare what comes out with PyTorch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

import pnnx_fast
from pnnx_fast._types import Array

NO_WEIGHTS: Mapping[str, Array] = {}


def run(
    kind: str,
    *arrays: Array,
    names: Sequence[str] = (),
    weights: Mapping[str, Array] = NO_WEIGHTS,
    outputs: int = 1,
    last: bool = False,
    isa: str | None = None,
    threads: int = 1,
    **params: Any,
) -> Any:
    """Results of one operator; ``last`` hands it a channels-last view of the first array."""
    graph = pnnx_fast.Graph()
    operands = []
    given = list(arrays)
    for i, array in enumerate(arrays):
        operand = graph.new_operand(f"in{i}")
        graph.new_operator("pnnx.Input", f"input{i}", outputs=[operand])
        if i == 0 and last and array.ndim > 2:
            given[0] = np.ascontiguousarray(np.moveaxis(array, 1, -1))
            dims = [0, array.ndim - 1, *range(1, array.ndim - 1)]
            view = graph.new_operand("view")
            graph.new_operator("Tensor.permute", "view", inputs=[operand], outputs=[view], params={"dims": dims})
            operand = view
        operands.append(operand)
    results = [graph.new_operand(f"out{i}") for i in range(outputs)]
    attrs = {key: pnnx_fast.Attribute(value) for key, value in weights.items()}
    wiring = {"inputs": operands, "outputs": results, "inputnames": names}
    graph.new_operator(kind, "op", params=params, attrs=attrs, **wiring)
    for i, result in enumerate(results):
        graph.new_operator("pnnx.Output", f"output{i}", inputs=[result])
    return pnnx_fast.Model(graph, threads, isa=isa)(*given)
