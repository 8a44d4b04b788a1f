"""Additions of a convolution's or linear layer's result to another tensor become its residual input.

The fused operator takes the place of the addition, where both of its inputs are known. Runs before activations are
fused, so that ``relu(conv(x) + y)`` becomes one operator.
"""

from __future__ import annotations

from pnnx_fast.ir import Graph, Operand, Operator
from pnnx_fast.passes.rewriting import only_consumer

__all__ = ["fuse_residual"]

RESIDUAL_TYPES: dict[str, str] = {
    "nn.Conv2d": "fused.Conv2d",
    "nn.Linear": "fused.Linear",
}


def fuse_residual(graph: Graph) -> bool:
    """Fuse ``add(@0,@1)`` of two tensors of one shape into the later of their producers."""
    position = {op: i for i, op in enumerate(graph.ops)}
    changed = False
    for add in list(graph.ops):
        if add.type != "pnnx.Expression" or len(add.inputs) != 2 or add.inputs[0] is add.inputs[1]:
            continue
        if str(add.params["expr"].value).replace(" ", "") not in ("add(@0,@1)", "add(@1,@0)"):
            continue
        candidates = [x for x in add.inputs if _fusable(x, add)]
        if not candidates:
            continue
        own = max(candidates, key=lambda x: position.get(x.producer, -1) if x.producer else -1)
        other = add.inputs[1] if own is add.inputs[0] else add.inputs[0]
        if own.producer is not None:
            _fuse(graph, own.producer, add, other)
            position[own.producer] = position[add]
            changed = True
    return changed


def _fusable(x: Operand, add: Operator) -> bool:
    producer = x.producer
    other = add.inputs[1] if x is add.inputs[0] else add.inputs[0]
    return (
        producer is not None
        and producer.type in RESIDUAL_TYPES
        and only_consumer(x) is add
        and x.shape is not None
        and x.shape == other.shape
        and x.dtype == other.dtype == "f32"
    )


def _fuse(graph: Graph, op: Operator, add: Operator, other: Operand) -> None:
    op.type = RESIDUAL_TYPES[op.type]
    op.add_input(other, "residual")
    graph.ops.remove(op)
    graph.ops.insert(graph.ops.index(add), op)
    graph.replace_uses(add.outputs[0], op.outputs[0])
    graph.remove_operator(add)
