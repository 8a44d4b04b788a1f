"""Chains of element-wise operators become one pnnx.Expression, so that intermediate tensors stay in cache.

Runs after the passes that look for single element-wise operators. Where a part of a chain is smaller than the whole, or
needs other types, is not its business: the element-wise operators cut expressions up as they need.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pnnx_fast.ir import Graph, Operand, Operator
from pnnx_fast.passes.moves import as_tree, become

if TYPE_CHECKING:
    from pnnx_fast.expression import Node

__all__ = ["fuse_expression"]

MAX_SIZE = 256
"""Nodes of the largest expression that is made."""

OTHERS = frozenset(
    ("pnnx.Input", "pnnx.Output", "torch.cat", "torch.stack", "torch.chunk", "torch.split", "torch.tensor_split")
    + ("torch.flatten", "torch.permute", "torch.transpose", "torch.unsqueeze", "torch.squeeze", "torch.mean")
    + ("Tensor.view", "Tensor.reshape", "Tensor.permute", "Tensor.select", "Tensor.slice", "F.pad", "F.softmax")
    + ("F.max_pool2d", "F.avg_pool2d", "F.adaptive_avg_pool2d", "F.interpolate", "F.upsample", "nn.Softmax")
    + ("nn.MaxPool2d", "nn.AvgPool2d", "nn.AdaptiveAvgPool2d", "nn.Upsample", "nn.ChannelShuffle")
)
"""Frequent types that are no expressions: where they stand between others, nobody needs to know expressions."""


def fuse_expression(graph: Graph) -> bool:
    """Merge every element-wise operator into the element-wise operator that alone reads its result."""
    nodes: dict[Operator, Node | None] = {}
    grown: dict[Operator, Node] = {}
    for op in list(graph.ops):
        node = _known(op, nodes) if _may_be(op) and any(map(_may_be, (x.producer for x in op.inputs))) else None
        if node is None:
            continue
        for operand in dict.fromkeys(op.inputs):
            producer = operand.producer
            if producer is None or not _feeds_only(operand, op):
                continue
            inner = _known(producer, nodes)
            merged = None if inner is None else _merged(op, node, operand, producer, inner)
            if merged is None:
                continue
            nodes[op] = grown[op] = node = merged
            grown.pop(producer, None)
            graph.remove_operator(producer)
    for op, node in grown.items():
        become(op, "pnnx.Expression", expr=str(node))
    return bool(grown)


def _may_be(op: Operator | None) -> bool:
    """Whether an operator may be an expression: not one without inputs (a number, or a word), none with weights."""
    return op is not None and bool(op.inputs) and op.type not in OTHERS and not op.attrs


def _known(op: Operator, nodes: dict[Operator, Node | None]) -> Node | None:
    """The expression of an operator, whose text is read once: those that grow are long."""
    if op not in nodes:
        nodes[op] = _expression(op)
    return nodes[op]


def _expression(op: Operator) -> Node | None:
    if not _may_be(op):
        return None
    from pnnx_fast.expression import Call

    node = as_tree(op)
    return node if isinstance(node, Call) and len(op.outputs) == 1 else None


def _feeds_only(operand: Operand, op: Operator) -> bool:
    return all(consumer is op for consumer in operand.consumers)


def _merged(op: Operator, node: Node, operand: Operand, producer: Operator, inner: Node) -> Node | None:
    """Let `op` read the producer's inputs; returns its new expression, None if that were too large."""
    from pnnx_fast.expression import Input, substitute

    if node.size + inner.size > MAX_SIZE:
        return None
    inputs = [x for x in op.inputs if x is not operand]
    inputs += [x for x in producer.inputs if x not in inputs]
    place = {x: Input(inputs.index(x)) for x in inputs}
    moved = substitute(inner, {i: place[x] for i, x in enumerate(producer.inputs)})
    node = substitute(node, {i: moved if x is operand else place[x] for i, x in enumerate(op.inputs)})
    if node.size > MAX_SIZE:
        return None
    op.set_inputs(inputs)
    return node
