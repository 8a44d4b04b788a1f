"""Writes into a part of a tensor become operators of their own.

The converter turns ``x[0] += 1`` into a copy (``Tensor.copy``) whose first input is a chain of views of ``x`` and whose
result stands for the whole changed ``x``. Its higher levels write that as ``Tensor.slice_copy``; its lower levels leave
it, and then only the graph knows which tensor the views belong to. This pass finds it and says so with
``fused.WriteView`` (whole tensor, view of it, values). It is needed for right results, so it always runs.
"""

from __future__ import annotations

from pnnx_fast.ir import Graph, Operator
from pnnx_fast.ir.notes import written_views
from pnnx_fast.passes.rewriting import unused_operand

__all__ = ["restore_writes"]


def restore_writes(graph: Graph) -> bool:
    """Rewrite copies into views; returns whether there were any."""
    found = False
    for op in list(graph.ops):
        if op.type in ("Tensor.copy", "aten::copy") and len(op.inputs) >= 2:
            chain = written_views(op)
            if chain:
                _rewrite(graph, op, chain)
                found = True
    return found


def _rewrite(graph: Graph, op: Operator, chain: list[Operator]) -> None:
    # The views are made again over a dense form of the tensor, so that they are views in memory, too.
    dense = unused_operand(graph, f"{op.name}_dense")
    graph.new_operator_before("fused.Dense", dense.name, op, inputs=[chain[0].inputs[0]], outputs=[dense])
    view = dense
    for i, link in enumerate(chain):
        made = unused_operand(graph, f"{op.name}_view{i}")
        wiring = {"inputs": [view, *link.inputs[1:]], "inputnames": link.inputnames, "params": link.params}
        graph.new_operator_before(link.type, made.name, op, outputs=[made], **wiring)
        view = made
    written = unused_operand(graph, f"{op.name}_written")
    inputs = [dense, view, op.inputs[1]]
    graph.new_operator_before("fused.WriteView", written.name, op, inputs=inputs, outputs=[written])
    graph.replace_uses(op.outputs[0], written)
    graph.remove_operator(op)
