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
    noted: Sequence[tuple[int, ...]] = (),
    **params: Any,
) -> Any:
    """Results of one operator; ``last`` hands it a channels-last view of the first array.

    Shapes of results given as ``noted`` stand in the graph, those of the arrays beside them.
    """
    graph = pnnx_fast.Graph()
    operands = []
    given = list(arrays)
    for i, array in enumerate(arrays):
        operand = graph.new_operand(f"in{i}")
        operand.shape = array.shape if noted else None
        graph.new_operator("pnnx.Input", f"input{i}", outputs=[operand])
        if i == 0 and last and array.ndim > 2:
            given[0] = np.ascontiguousarray(np.moveaxis(array, 1, -1))
            dims = [0, array.ndim - 1, *range(1, array.ndim - 1)]
            view = graph.new_operand("view")
            graph.new_operator("Tensor.permute", "view", inputs=[operand], outputs=[view], params={"dims": dims})
            operand = view
        operands.append(operand)
    results = [graph.new_operand(f"out{i}") for i in range(outputs)]
    for result, shape in zip(results, noted, strict=False):
        result.shape = shape
    attrs = {key: pnnx_fast.Attribute(value) for key, value in weights.items()}
    wiring = {"inputs": operands, "outputs": results, "inputnames": names}
    graph.new_operator(kind, "op", params=params, attrs=attrs, **wiring)
    for i, result in enumerate(results):
        graph.new_operator("pnnx.Output", f"output{i}", inputs=[result])
    return pnnx_fast.Model(graph, threads, isa=isa)(*given)


class Weight(np.ndarray):
    """An array that is a constant of the graph."""


def call(
    kind: str,
    values: tuple[Any, ...],
    outputs: int,
    params: Mapping[str, Any] | None = None,
    isa: str | None = None,
) -> Any:
    """Results of one operator; arrays are inputs, anything else constants, lists of arrays a list operator."""
    graph, arrays, operands, count = pnnx_fast.Graph(), [], [], 0

    def operand_of(value: Any) -> Any:
        nonlocal count
        count += 1
        operand = graph.new_operand(f"v{count}")
        if isinstance(value, Weight):
            attrs = {"data": pnnx_fast.Attribute(value.view(np.ndarray))}
            graph.new_operator("pnnx.Attribute", f"o{count}", outputs=[operand], attrs=attrs)
        elif isinstance(value, np.ndarray):
            arrays.append(np.ascontiguousarray(value).reshape(value.shape))
            graph.new_operator("pnnx.Input", f"o{count}", outputs=[operand])
        elif isinstance(value, list) and value and isinstance(value[0], np.ndarray):
            name = f"o{count}"
            graph.new_operator("prim::ListConstruct", name, inputs=[operand_of(v) for v in value], outputs=[operand])
        else:
            given = tuple(value) if isinstance(value, list) else value
            graph.new_operator("prim::Constant", f"o{count}", outputs=[operand], params={"value": given})
        return operand

    operands = [operand_of(v) for v in values]
    results = [graph.new_operand(f"out{i}") for i in range(outputs)]
    graph.new_operator(kind, "op", inputs=operands, outputs=results, params=params or {})
    for i, result in enumerate(results):
        graph.new_operator("pnnx.Output", f"output{i}", inputs=[result])
    return pnnx_fast.Model(graph, isa=isa)(*arrays)
