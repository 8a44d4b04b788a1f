"""What the Python source of a graph is written from: the graph with all that its notes tell, and with the constants
that a run of it starts with.
"""

from __future__ import annotations

from pnnx_fast import passes
from pnnx_fast._warning import warn
from pnnx_fast.ir import Graph, Operator
from pnnx_fast.ir.check import require_connections
from pnnx_fast.ir.folded import changed_constant, filled_with
from pnnx_fast.passes.restore_dtypes import restore_dtypes
from pnnx_fast.passes.restore_shapes import restore_shapes
from pnnx_fast.passes.restore_writes import warn_of_lost_writes
from pnnx_fast.runtime.doubts import name_doubts

__all__ = ["for_source"]


def for_source(graph: Graph, has_weights: bool = False) -> Graph:
    """A copy of a graph as its source shall compute it; it may have a file of weights.

    Dtypes and shapes are those of the notes, and constants what they were before the converter's own run changed them.
    What cannot be mended, and writes that the source has no words for, are warned of.
    """
    require_connections(graph.ops)
    warn_of_lost_writes(graph, "its Python source")
    mended = graph.copy()
    restore_dtypes(mended)
    restore_shapes(mended)
    if not any(map(changed_constant, graph.ops)):
        return mended
    # Few graphs have such constants.
    from pnnx_fast.runtime.own_run import wind_back
    from pnnx_fast.runtime.session import default_isa

    ran = graph.copy()
    passes.restore(ran)
    name_doubts(ran.ops, wind_back(ran, default_isa()))
    if has_weights:
        _warn_of_weights(graph, ran)
    # Several constants may have one name, but not one operand.
    data = {op.outputs[0].name: op.attrs["data"] for op in ran.ops if _is_constant(op)}
    for op in mended.ops:
        if _is_constant(op):
            op.attrs["data"] = data.get(op.outputs[0].name, op.attrs["data"])
    return mended


def _warn_of_weights(graph: Graph, mended: Graph) -> None:
    """Warn of a mended constant that the source reads from a file; those of one value it spells out."""
    made = {op.outputs[0].name: op for op in mended.ops if _is_constant(op)}
    for op in filter(_is_constant, graph.ops):
        now = made.get(op.outputs[0].name, op)
        if now.attrs["data"] is not op.attrs["data"] and filled_with(now, mended.ops) is None:
            warn(f"{op.where} is in the file of weights as the converter's own run left it: results may be wrong")
            return


def _is_constant(op: Operator) -> bool:
    return op.type == "pnnx.Attribute" and "data" in op.attrs and bool(op.outputs)
