"""A module that a model uses at several places takes its input alone, not its weights once more.

The converter writes the weights of such a module, for example an embedding that encoder and decoder share, as further
inputs in front of the real one. This pass drops inputs that are constants equal to a weight of the operator. Needed for
right results, so it always runs.
"""

from __future__ import annotations

from pnnx_fast.ir import Graph

__all__ = ["restore_modules"]


def restore_modules(graph: Graph) -> bool:
    """Drop weights among the inputs of modules; returns whether there were any."""
    found = False
    for op in graph.ops:
        if op.type.startswith("nn.") and op.attrs and len(op.inputs) > 1:
            weights = [i for i in range(len(op.inputs)) if op.repeats_weight(i)]
            if weights and len(weights) < len(op.inputs):
                for i in reversed(weights):
                    op.remove_input(i)
                found = True
    return found
