"""Additions of a convolution's, linear or attention layer's result to another tensor become its residual input.

The fused operator takes the place of the addition, where both of its inputs are known. ``fuse_residual`` runs before
activations are fused, so that ``relu(conv(x) + y)`` becomes one operator; ``fuse_late_residual`` runs after that and
takes ``silu(conv(x)) + y``.
"""

from __future__ import annotations

from pnnx_fast.ir import Graph, Operand, Operator
from pnnx_fast.passes.moves import expressions_of_two, only_consumer, other_input

__all__ = ["fuse_late_residual", "fuse_residual"]

RESIDUAL_TYPES: dict[str, str] = {
    "nn.Conv1d": "fused.Conv1d",
    "nn.Conv2d": "fused.Conv2d",
    "nn.Linear": "fused.Linear",
    "int8.Conv2d": "fused.Int8Conv2d",
    "int8.Linear": "fused.Int8Linear",
    "nn.MultiheadAttention": "fused.MultiheadAttention",
}

SUMS = {"add(@0,@1)", "add(@1,@0)"}


def fuse_residual(graph: Graph) -> bool:
    """Fuse sums whose term comes from a layer without activation."""
    return _fuse_sums(graph, set(RESIDUAL_TYPES))


def fuse_late_residual(graph: Graph) -> bool:
    """Fuse sums whose term comes from a layer with an activation."""
    return _fuse_sums(graph, set(RESIDUAL_TYPES.values()))


def _fuse_sums(graph: Graph, types: set[str]) -> bool:
    position = {op: i for i, op in enumerate(graph.ops)}
    changed = False
    for add in expressions_of_two(graph, SUMS):
        candidates = [x for x in add.inputs if _fusable(x, add, types)]
        if not candidates:
            continue
        # The later producer, so that few operators lie between it and the sum.
        own = max(candidates, key=lambda x: position[x.producer] if x.producer else -1)
        if own.producer is not None:
            _fuse(graph, own.producer, add, other_input(add, own))
            position[own.producer] = position[add]
            changed = True
    return changed


def _fusable(x: Operand, add: Operator, types: set[str]) -> bool:
    producer = x.producer
    other = other_input(add, x)
    return (
        producer is not None
        and producer.type in types
        and "residual" not in producer.inputnames
        and len(producer.outputs) == 1
        and only_consumer(x) is add
        and x.shape is not None
        and x.shape == other.shape
        and x.dtype == other.dtype == "f32"
    )


def _fuse(graph: Graph, op: Operator, add: Operator, other: Operand) -> None:
    op.add_input(other, "residual")
    if op.type in RESIDUAL_TYPES:
        op.type = RESIDUAL_TYPES[op.type]
    else:
        op.params["residual_late"] = True
    graph.ops.remove(op)
    graph.ops.insert(graph.place_of(add), op)
    graph.replace_uses(add.outputs[0], op.outputs[0])
    graph.remove_operator(add)
