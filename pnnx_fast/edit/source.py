"""What the Python source of a graph is written from: the graph with the constants that a run of it starts with."""

from __future__ import annotations

from pnnx_fast import passes
from pnnx_fast.ir import Graph
from pnnx_fast.ir.folded import changed_constant
from pnnx_fast.passes.restore_writes import warn_of_lost_writes
from pnnx_fast.runtime.doubts import name_doubts

__all__ = ["for_source"]


def for_source(graph: Graph) -> Graph:
    """A graph as its source shall compute it: where the converter's own run changed constants, a copy with them mended.

    What cannot be mended, and writes that the source has no words for, are warned of.
    """
    warn_of_lost_writes(graph, "its Python source")
    if not any(map(changed_constant, graph.ops)):
        return graph
    # Few graphs have such constants.
    from pnnx_fast.runtime.own_run import wind_back
    from pnnx_fast.runtime.session import default_isa

    ran = graph.copy()
    passes.restore(ran)
    wind_back(ran, default_isa())
    name_doubts(ran.ops)
    mended = graph.copy()
    data = {op.name: op.attrs["data"] for op in ran.ops if op.type == "pnnx.Attribute" and "data" in op.attrs}
    for op in mended.ops:
        if op.type == "pnnx.Attribute" and op.name in data:
            op.attrs["data"] = data[op.name]
    return mended
