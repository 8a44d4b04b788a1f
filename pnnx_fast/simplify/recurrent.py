"""Recurrent modules of several layers; and, as the last pass of all, the names of operands."""

from __future__ import annotations

from pnnx_fast.ir import Attributes, Graph, Operator
from pnnx_fast.ir.notes import RECURRENT
from pnnx_fast.simplify.table import simplification

__all__: list[str] = []


@simplification(5, asked=True)
def unroll_rnn_op(graph: Graph) -> int:
    """Recurrent modules of several layers become one module a layer, where no states go in or come out."""
    found = [op for op in graph.ops if op.type in RECURRENT and op.value("num_layers", 1) > 1]
    found = [op for op in found if len(op.inputs) == 1 and not any(x.consumers for x in op.outputs[1:])]
    for op in found:
        _unroll(graph, op)
    return len(found)


def _unroll(graph: Graph, op: Operator) -> None:
    layers, both = op.value("num_layers"), bool(op.value("bidirectional", False))
    width = (op.value("proj_size", 0) or op.value("hidden_size")) * (2 if both else 1)
    x, y = op.inputs[0], op.outputs[0]
    for i in range(layers):
        last = i == layers - 1
        result = y if last else graph.new_operand(f"{y.name}_layer{i}")
        if not last:
            result.dtype = y.dtype
            result.shape = y.shape
        made = graph.new_operator_before(op.type, f"{op.name}_{i}", op, inputs=[x])
        made.params = op.params.copy()
        made.params["num_layers"] = 1
        made.params["input_size"] = op.value("input_size") if i == 0 else width
        made.attrs = Attributes({_first(k, i): a for k, a in op.attrs.items() if _layer(k) == i})
        made.add_output(result)
        x = result
    graph.remove_operator(op)


def _layer(key: str) -> int:
    return int(key.partition("_l")[2].removesuffix("_reverse"))


def _first(key: str, layer: int) -> str:
    return key.replace(f"_l{layer}", "_l0")


@simplification(5)
def canonicalize(graph: Graph) -> int:
    """Operands are renamed to 0, 1, 2, … in the order in which operators put them out."""
    before = [x.name for x in graph.operands]
    graph.canonicalize()
    return int(before != [x.name for x in graph.operands])
