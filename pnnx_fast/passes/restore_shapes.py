"""What the shapes noted at operands tell of operators that the converter wrote wrongly: indices of several dimensions
that it cut off, sizes that it left behind those of a reshape, paddings up to a multiple with the wrong sign, writes
into a part of a tensor that became writes into the written values, pixel shuffles that swallowed a reshape.

Masks of attention are made by such indexing, patches by such reshapes, boxes of detectors by such writes. It is needed
for right results, so this pass always runs; the simplifications, whose evidence is the sizes in the file, run it first.
"""

from __future__ import annotations

from pnnx_fast.ir import Graph, Operator
from pnnx_fast.ir.notes import leading_sizes, lost_whole, mesh_shape, raised_pad, shuffled_shape

__all__ = ["restore_shapes"]

_PARAMETERS = {"Tensor.reshape": ("shape", leading_sizes), "F.pad": ("pad", raised_pad)}
"""Parameters by operator type, and what tells their values, or None where they are right."""


def restore_shapes(graph: Graph) -> bool:
    """Make reshapes of indexings by a whole mesh, mend sizes, widths and writes; returns whether there was any."""
    found = False
    for op in list(graph.ops):
        shape = mesh_shape(op) if op.type == "Tensor.index" else None
        if shape is not None:
            op.type = "Tensor.reshape"
            del op.params["expr"]
            op.params["shape"] = list(shape)
            op.inputnames = ["input"]
            found = True
        elif op.type == "nn.PixelShuffle":
            shape = shuffled_shape(op)
            if shape is not None:
                _reshape_before(graph, op, shape)
                found = True
        elif op.type == "Tensor.slice_copy":
            whole = lost_whole(op)
            if whole is not None:
                op.set_input(0, whole)
                found = True
        elif op.type in _PARAMETERS:
            key, tell = _PARAMETERS[op.type]
            value = tell(op)
            if value is not None:
                op.params[key] = value
                found = True
    return found


def _reshape_before(graph: Graph, op: Operator, shape: tuple[int, ...]) -> None:
    x = op.inputs[0]
    y = graph.new_operand(graph.free_name(f"{x.name}_flat"))
    y.shape, y.dtype = shape, x.dtype
    graph.new_operator_before(
        "Tensor.reshape", f"{op.name}_reshape", op, inputs=[x], outputs=[y], inputnames=["input"],
        params={"shape": list(shape)},
    )  # fmt: skip
    op.set_input(0, y)
