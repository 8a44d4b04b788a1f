"""Indices of several dimensions that the converter cut off come back where they only reshape.

Masks of attention are made by such indexing. It is needed for right results, so this pass always runs; the
simplifications, whose evidence is the sizes in the file, run it first.
"""

from __future__ import annotations

from pnnx_fast.ir import Graph
from pnnx_fast.ir.notes import mesh_shape

__all__ = ["restore_indices"]


def restore_indices(graph: Graph) -> bool:
    """Make reshapes of indexings by a whole mesh; returns whether there was any."""
    found = False
    for op in graph.ops:
        shape = mesh_shape(op) if op.type == "Tensor.index" else None
        if shape is not None:
            op.type = "Tensor.reshape"
            del op.params["expr"]
            op.params["shape"] = list(shape)
            op.inputnames = ["input"]
            found = True
    return found
