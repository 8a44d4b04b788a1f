"""Sums of convolutions and batch norms of one tensor become a single convolution.

Networks that are trained with several branches (RepVGG, MobileOne, ACNet) leave such sums when nobody has merged them
before saving. Most sums join other things, as inputs tell at a glance: what merges branches is not imported for them.

Source: Ding et al., RepVGG: Making VGG-style ConvNets Great Again, CVPR 2021 (structural re-parameterization).
"""

from __future__ import annotations

from pnnx_fast.ir import Graph, Operator

__all__ = ["merge_branches"]

LAYERS = ("nn.Conv", "nn.BatchNorm")
"""Beginnings of the types of what makes branches."""


def merge_branches(graph: Graph) -> bool:
    """Merge the branches of every sum that are linear in one tensor, where one of them is a convolution."""
    changed = False
    for op in list(graph.ops):
        if op.type == "pnnx.Expression" and _may_join_branches(op):
            from pnnx_fast.passes.branches import merge_terms

            changed |= merge_terms(graph, op)
    if changed:
        from pnnx_fast.passes.fold_batch_norm import fold_batch_norm

        fold_batch_norm(graph)
    return changed


def _may_join_branches(op: Operator) -> bool:
    """Whether several inputs come from layers, of which one shares its tensor with another or is added to it."""
    makers = [x.producer for x in op.inputs]
    sources = [m.inputs[0] for m in makers if m is not None and m.inputs and m.type.startswith(LAYERS)]
    return len(sources) > 1 and (len({*sources}) < len(sources) or not set(op.inputs).isdisjoint(sources))
