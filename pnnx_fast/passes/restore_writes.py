"""Writes into a part of a tensor become operators of their own.

The converter turns ``x[0] += 1`` into a copy (``Tensor.copy``) whose first input is a chain of views of ``x`` and whose
result stands for the whole changed ``x``. Its higher levels write that as ``Tensor.slice_copy``; its lower levels leave
it, and then only the graph knows which tensor the views belong to. This pass finds it and says so with
``fused.WriteView`` (whole tensor, view of it, values). It is needed for right results, so it always runs.
"""

from __future__ import annotations

from pnnx_fast.ir import Graph, Operand, Operator
from pnnx_fast.ir.literals import MISSING, literal
from pnnx_fast.ir.notes import written_views
from pnnx_fast.passes.moves import succeed, unused_operand

__all__ = ["restore_writes"]

_BOUNDS = {"select": ("dim", "select"), "slice": ("dim", "start", "end", "step")}
"""Arguments of a view behind its tensor, in order, as ``Tensor.slice_copy`` calls them."""


def restore_writes(graph: Graph) -> bool:
    """Rewrite copies into views; returns whether there were any."""
    found = False
    for op in list(graph.ops):
        if op.type in ("Tensor.copy", "aten::copy") and len(op.inputs) >= 2 and op.outputs:
            chain = written_views(op)
            if chain:
                _rewrite(graph, op, chain)
                found = True
    return found


def _rewrite(graph: Graph, op: Operator, chain: list[Operator]) -> None:
    # The views are made again over a dense form of the tensor, so that they are views in memory, too.
    dense = unused_operand(graph, f"{op.name}_dense")
    graph.new_operator_before("fused.Dense", dense.name, op, inputs=[chain[0].inputs[0]], outputs=[dense])
    view, values = dense, op.inputs[1]
    views = [dense]
    fixed = _fixed_links(chain)
    for i, link in enumerate(chain if fixed == len(chain) else chain[:-1]):
        made = unused_operand(graph, f"{op.name}_view{i}")
        wiring = {"inputs": [view, *link.inputs[1:]], "inputnames": link.inputnames, "params": link.params}
        graph.new_operator_before(link.type, made.name, op, outputs=[made], **wiring)
        view = made
        views.append(view)
    for i in reversed(range(fixed, len(chain))):
        values = _replaced(graph, op, chain[i], views[i], values)
    written = unused_operand(graph, f"{op.name}_written")
    inputs = [dense, views[fixed], values]
    graph.new_operator_before("fused.WriteView", written.name, op, inputs=inputs, outputs=[written])
    succeed(graph, op, {op.outputs[0]: written})


def _fixed_links(chain: list[Operator]) -> int:
    """Number of views before the first one whose place is computed: what that one gives is a copy when a model runs."""
    for i, link in enumerate(chain):
        if any(literal(x) is MISSING for x in link.inputs[1:]):
            slices = all(part.type.rpartition(".")[2].removeprefix("aten::") in _BOUNDS for part in chain[i:])
            return i if slices else len(chain)
    return len(chain)


def _replaced(graph: Graph, op: Operator, link: Operator, whole: Operand, values: Operand) -> Operand:
    """What a tensor becomes when values are written to a slice of it whose place is computed."""
    params = {"select" if key == "index" else key: value for key, value in link.params.items()}
    names = [name for name in _BOUNDS[link.type.rpartition(".")[2].removeprefix("aten::")] if name not in params]
    given = link.inputnames[1:] if any(link.inputnames) else names[: len(link.inputs) - 1]
    made = unused_operand(graph, f"{op.name}_replaced")
    wiring = {
        "inputs": [whole, values, *link.inputs[1:]],
        "inputnames": ["input", "src", *("select" if name == "index" else name for name in given)],
        "params": params,
    }
    graph.new_operator_before("Tensor.slice_copy", made.name, op, outputs=[made], **wiring)
    return made
