"""Operators that do nothing in evaluation mode disappear, so that their neighbours meet."""

from __future__ import annotations

from pnnx_fast.ir import Graph
from pnnx_fast.passes.moves import bypass

__all__ = ["IDENTITIES", "drop_identity"]

IDENTITIES = frozenset(
    {
        "nn.Dropout",
        "nn.Dropout2d",
        "nn.Dropout3d",
        "nn.AlphaDropout",
        "nn.Identity",
        "torch.clone",
        "Tensor.clone",
        "Tensor.contiguous",
    }
)


def drop_identity(graph: Graph) -> bool:
    """Remove identities with one input and one output."""
    dead = [op for op in graph.ops if op.type in IDENTITIES and len(op.inputs) == len(op.outputs) == 1]
    for op in dead:
        bypass(graph, op)
    return bool(dead)
