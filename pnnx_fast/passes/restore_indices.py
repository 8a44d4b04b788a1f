"""Indices of several dimensions that the converter cut off come back where they only reshape, sizes that it left
behind those of a reshape go, and paddings up to a multiple get their widths.

Masks of attention are made by such indexing, patches by such reshapes. It is needed for right results, so this pass
always runs; the simplifications, whose evidence is the sizes in the file, run it first.
"""

from __future__ import annotations

from pnnx_fast.ir import Graph
from pnnx_fast.ir.notes import leading_sizes, mesh_shape, raised_pad

__all__ = ["restore_indices"]


def restore_indices(graph: Graph) -> bool:
    """Make reshapes of indexings by a whole mesh, and mend reshapes and paddings; returns whether there was any."""
    found = False
    for op in graph.ops:
        if op.type == "Tensor.index":
            shape = mesh_shape(op)
            if shape is not None:
                op.type = "Tensor.reshape"
                del op.params["expr"]
                op.params["shape"] = list(shape)
                op.inputnames = ["input"]
                found = True
        elif op.type == "Tensor.reshape":
            sizes = leading_sizes(op)
            if sizes is not None:
                op.params["shape"] = sizes
                found = True
        elif op.type == "F.pad":
            widths = raised_pad(op)
            if widths is not None:
                op.params["pad"] = widths
                found = True
    return found
