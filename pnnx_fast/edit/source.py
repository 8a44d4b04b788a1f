"""What the Python source of a graph is written from: the graph with all that its notes tell, and with the constants
that a run of it starts with.
"""

from __future__ import annotations

from pnnx_fast import passes
from pnnx_fast.ir import Graph
from pnnx_fast.ir.check import require_connections
from pnnx_fast.ir.folded import changed_constant, is_constant
from pnnx_fast.passes.restore_dtypes import restore_dtypes
from pnnx_fast.passes.restore_shapes import restore_shapes
from pnnx_fast.passes.restore_writes import warn_of_lost_writes
from pnnx_fast.runtime.doubts import name_doubts, name_kept
from pnnx_fast.runtime.own_cells import separate_constants

__all__ = ["for_source"]


def for_source(graph: Graph, has_weights: bool = False) -> Graph:
    """A copy of a graph as its source shall compute it; it may have a file of weights.

    Dtypes and shapes are those of the notes, and constants what they were before the converter's own run changed them.
    What cannot be mended, and writes that the source has no words for, are warned of.

    Parameters
    ----------
    graph : Graph
        Stays as it is.
    has_weights : bool
        Whether there is a file of weights, which holds constants as they are.

    Returns
    -------
    Graph

    Raises
    ------
    GraphError
        When an operator lacks an input, a result or data that its type needs.

    Examples
    --------
    >>> from pnnx_fast.demo import model_path
    >>> graph = Graph.load(model_path())
    >>> mended = for_source(graph)
    >>> mended is not graph, graph.diff(mended)
    (True, [])
    """
    require_connections(graph.ops)
    warn_of_lost_writes(graph, "its Python source")
    mended = graph.copy()
    if not has_weights:  # a file of weights has these once
        separate_constants(mended)
    restore_dtypes(mended)
    restore_shapes(mended)
    if not any(map(changed_constant, mended.ops)):
        return mended
    # Few graphs have such constants.
    from pnnx_fast.runtime.own_run import wind_back
    from pnnx_fast.runtime.session import default_isa

    ran = mended.copy()
    passes.restore(ran)
    known = wind_back(ran, default_isa())
    name_doubts(ran.ops, known)
    if has_weights:
        name_kept(graph.ops, ran.ops, known)
    # Several constants may have one name, but not one operand.
    data = {op.outputs[0].name: op.attrs["data"] for op in ran.ops if is_constant(op)}
    for op in mended.ops:
        if is_constant(op):
            op.attrs["data"] = data.get(op.outputs[0].name, op.attrs["data"])
    return mended
