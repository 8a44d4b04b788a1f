"""Result types that the converter dropped come back from its notes.

``torch.sum(x, dtype=torch.float64)`` is written without its dtype, and a division of integers without its rounding; the
types noted at the operands still tell. It is needed for right results, so this pass always runs.
"""

from __future__ import annotations

from pnnx_fast.ir import Graph
from pnnx_fast.ir.notes import missing_dtype, rounded_quotients

__all__ = ["restore_dtypes"]


def restore_dtypes(graph: Graph) -> bool:
    """Give operators the dtype that their results are noted with; returns whether any was missing."""
    found = False
    for op in graph.ops:
        if op.type == "pnnx.Expression":
            text = rounded_quotients(op)
            if text and text != op.params["expr"].text:
                op.params["expr"] = text
                found = True
            continue
        name = missing_dtype(op)
        if name is not None:
            op.params["dtype"] = name
            found = True
    return found
