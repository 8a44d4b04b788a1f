"""Activations move into the operator that produces their input, when nothing else reads that input.

Those of a concatenation move into the operators that produce its parts.
"""

from __future__ import annotations

from pnnx_fast.expression.activations import recognize
from pnnx_fast.ir import Graph
from pnnx_fast.passes.moves import absorb, concatenated, only_consumer

__all__ = ["FUSED_TYPES", "fuse_activation"]

FUSED_TYPES: dict[str, str] = {
    "nn.Conv1d": "fused.Conv1d",
    "nn.Conv2d": "fused.Conv2d",
    "nn.Conv3d": "fused.Conv3d",
    "nn.ConvTranspose1d": "fused.ConvTranspose1d",
    "nn.ConvTranspose2d": "fused.ConvTranspose2d",
    "nn.ConvTranspose3d": "fused.ConvTranspose3d",
    "torchvision.ops.DeformConv2d": "fused.DeformConv2d",
    "nn.Linear": "fused.Linear",
    "int8.Conv2d": "fused.Int8Conv2d",
    "int8.Linear": "fused.Int8Linear",
    "nn.BatchNorm2d": "fused.BatchNorm2d",
    "nn.GroupNorm": "fused.GroupNorm",
}
"""Operators that can apply an activation, and the internal types under which they do.

A fused type takes the parameters of the original and ``activation``, ``activation_params`` and, where the function has
such a slot, ``residual`` (an input that is added before the activation).
"""


_CAN_APPLY = frozenset(FUSED_TYPES) | frozenset(FUSED_TYPES.values())


def fuse_activation(graph: Graph) -> bool:
    """Fuse every activation whose input comes from an operator of ``FUSED_TYPES``, or from several of them."""
    changed = False
    for op in list(graph.ops):
        makers = concatenated(op, _CAN_APPLY) if op.type == "torch.cat" else [op] if op.type in _CAN_APPLY else []
        if not makers or any("activation" in m.params for m in makers):
            continue
        follower = only_consumer(op.outputs[0])
        found = recognize(follower.type, follower.values()) if follower and len(follower.inputs) == 1 else None
        if follower is None or found is None:
            continue
        for maker in makers:
            maker.type = FUSED_TYPES.get(maker.type, maker.type)
            maker.params["activation"], numbers = found
            if numbers:  # files have no empty lists
                maker.params["activation_params"] = numbers
        absorb(graph, op, follower)
        changed = True
    return changed
