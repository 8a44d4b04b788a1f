"""Products with a gate, a factor for each channel from a sigmoid, move into the 1x1 convolution that alone reads them.

This is the end of a squeeze-and-excite block. The convolution may multiply its weights in place of its input; a sigmoid
is at most one, so that neither overflows where the other would not.
"""

from __future__ import annotations

from pnnx_fast.expression.activations import recognize
from pnnx_fast.ir import Graph, Operand, Operator
from pnnx_fast.passes.moves import expressions_of_two, is_pointwise, only_consumer, other_input

__all__ = ["fuse_gate"]

PRODUCTS = {"mul(@0,@1)", "mul(@1,@0)"}

CONVOLUTIONS = {"nn.Conv2d", "fused.Conv2d"}

SIGMOIDS = {"sigmoid", "hardsigmoid"}


def fuse_gate(graph: Graph) -> bool:
    """Make the gate of every such product an input of the convolution, under the name ``gate``."""
    changed = False
    for product in expressions_of_two(graph, PRODUCTS):
        conv = only_consumer(product.outputs[0])
        gates = [x for x in product.inputs if _is_gate(x)]
        if conv is None or len(gates) != 1 or not _scales_weights_of(conv, product.outputs[0]):
            continue
        x = other_input(product, gates[0])
        if not _has_channels_of(x, gates[0]):
            continue
        conv.type = "fused.Conv2d"
        conv.set_input(0, x)
        conv.add_input(gates[0], "gate")
        graph.remove_operator(product)
        changed = True
    return changed


def _is_gate(x: Operand) -> bool:
    """Whether an operand has one pixel and comes from a sigmoid."""
    maker = x.producer
    if maker is None or x.dtype != "f32" or x.shape is None or len(x.shape) != 4 or tuple(x.shape[2:]) != (1, 1):
        return False
    if "activation" in maker.params:
        return maker.params["activation"].value in SIGMOIDS
    found = recognize(maker.type, maker.values())
    return found is not None and found[0] in SIGMOIDS


def _has_channels_of(x: Operand, gate: Operand) -> bool:
    """Whether images and channels of ``x`` are those of a gate."""
    if x.shape is None or gate.shape is None or x.dtype != "f32":
        return False
    return len(x.shape) == 4 and x.shape[:2] == gate.shape[:2]


def _scales_weights_of(conv: Operator, x: Operand) -> bool:
    """Whether an operator is a 1x1 convolution of ``x`` with weights of its own."""
    if conv.type not in CONVOLUTIONS or conv.inputs[0] is not x or "gate" in conv.inputnames:
        return False
    return "weight" in conv.attrs and is_pointwise(conv)
