"""Result types that the converter dropped come back from its notes.

``torch.sum(x, dtype=torch.float64)`` is written without its dtype, and a division of integers without its rounding; the
types noted at the operands still tell. So they do of comparisons in place, which are written like those that give bool.
These passes are needed for right results, so they always run.
"""

from __future__ import annotations

from pnnx_fast.ir import Graph
from pnnx_fast.ir.notes import missing_dtype, rounded_quotients, written_truth
from pnnx_fast.passes.moves import as_tree, become_expression

__all__ = ["restore_dtypes", "restore_truth"]


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


def restore_truth(graph: Graph) -> bool:
    """Give comparisons in place the type of what they write to; returns whether there were any."""
    found = False
    for op in graph.ops:
        name = written_truth(op)
        if name is None:
            continue
        from pnnx_fast.expression import Call  # few models need it

        node = as_tree(op)
        if node is not None:
            become_expression(op, str(Call(name, [node])), list(op.inputs))
            found = True
    return found
