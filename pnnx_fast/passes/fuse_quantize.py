"""Rounding to int8 moves into int8 layers: into the one that makes the floats, or into the one that reads the int8."""

from __future__ import annotations

from pnnx_fast.ir import Graph, Operator
from pnnx_fast.passes.moves import absorb, bypass, is_pointwise, only_consumer

__all__ = ["fuse_quantize"]

LAYERS = frozenset({"int8.Conv2d", "fused.Int8Conv2d", "int8.Linear", "fused.Int8Linear"})


def fuse_quantize(graph: Graph) -> bool:
    """Fuse every ``int8.Quantize`` with one scale that has such a neighbour."""
    changed = False
    for op in list(graph.ops):
        if op.type != "int8.Quantize" or len(op.inputs) != 1 or op.attrs:
            continue
        scale = op.value("scale", 1.0)
        maker, reader = op.inputs[0].producer, only_consumer(op.outputs[0])
        if scale == 0:
            continue
        if maker is not None and _gives_floats(maker) and only_consumer(op.inputs[0]) is op:
            maker.params["output_scale"] = scale
            maker.outputs[0].dtype = "i8"
            absorb(graph, maker, op)
            changed = True
        elif reader is not None and _reads_once(reader) and reader.inputs[0] is op.outputs[0]:
            reader.params["input_scale"] = scale
            bypass(graph, op)
            changed = True
    return changed


def _gives_floats(op: Operator) -> bool:
    return op.type in LAYERS and "output_scale" not in op.params


def _reads_once(op: Operator) -> bool:
    """Whether a layer reads each number of its input once, so that it may as well round it."""
    if op.type not in LAYERS or "input_scale" in op.params or op.inputs[0].dtype != "i8":
        return False
    return "kernel_size" not in op.params or is_pointwise(op)
