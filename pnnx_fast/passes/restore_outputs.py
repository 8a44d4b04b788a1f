"""Outputs and masks of recurrent layers and attention get their roles back from the converter's notes.

The converter drops outputs that nobody uses, swaps others, and puts a mask where the query belongs; what is left is
told apart by the shapes and types that it notes at the operands. Needed for right results, so this pass always runs.
"""

from __future__ import annotations

from collections.abc import Sequence

from pnnx_fast.ir import Graph, Operand, Operator
from pnnx_fast.passes.rewriting import unused_operand

__all__ = ["restore_outputs"]

RECURRENT = {
    "nn.LSTM": ("yhc", "hcy", "yh", "hc", "yc", "hy", "cy", "y", "h", "c"),
    "nn.GRU": ("yh", "hy", "y", "h"),
    "nn.RNN": ("yh", "hy", "y", "h"),
}
"""Outputs that may be left: the sequence, the last hidden state, the last cell state; the usual order first."""

Sizes = Sequence[int]


def restore_outputs(graph: Graph) -> bool:
    """Rewire recurrent layers and attention whose notes contradict the usual order; returns whether any was."""
    found = False
    for op in list(graph.ops):
        if op.type in RECURRENT:
            found |= _restore_recurrent(graph, op)
        elif op.type == "nn.MultiheadAttention":
            found |= _restore_mask(graph, op)
            found |= _restore_weights(graph, op)
    return found


def _fits(operand: Operand, shape: Sizes) -> bool:
    noted = operand.shape
    return (
        noted is not None
        and len(noted) == len(shape)
        and all(a == b or a < 0 or b < 0 for a, b in zip(noted, shape, strict=True))
    )


def _number(op: Operator, key: str, default: int) -> int:
    value = op.params[key].value if key in op.params else default
    return int(value) if isinstance(value, (int, bool)) else default


def _replace_outputs(graph: Graph, op: Operator, roles: Sequence[str], present: Sequence[str]) -> None:
    """Give an operator one output a role; those that it has keep their users."""
    kept = dict(zip(present, op.outputs, strict=True))
    made = []
    for role in roles:
        operand = unused_operand(graph, f"{op.name}_{role}")
        if role in kept:
            operand.shape, operand.dtype = kept[role].shape, kept[role].dtype
        made.append(operand)
    params = {k: v for k, v in op.params.items() if k != "pnnx_rnn_output_swapped"}
    wiring = {"inputs": op.inputs, "inputnames": op.inputnames, "attrs": op.attrs, "params": params}
    graph.new_operator_before(op.type, f"{op.name}_ordered", op, outputs=made, **wiring)
    for role, operand in zip(roles, made, strict=True):
        if role in kept:
            graph.replace_uses(kept[role], operand)
    graph.remove_operator(op)


def _restore_recurrent(graph: Graph, op: Operator) -> bool:
    given = op.inputs[0].shape
    if given is None or len(given) not in (2, 3) or any(o.shape is None for o in op.outputs):
        return False
    directions = 2 if _number(op, "bidirectional", 0) else 1
    hidden = _number(op, "hidden_size", 0)
    out = _number(op, "proj_size", 0) or hidden
    batched = len(given) == 3
    batch = [given[0 if _number(op, "batch_first", 0) else 1]] if batched else []
    count = _number(op, "num_layers", 1) * directions
    shapes = {"y": [*given[:-1], directions * out], "h": [count, *batch, out], "c": [count, *batch, hidden]}
    orders = [o for o in RECURRENT[op.type] if len(o) == len(op.outputs)]
    if _number(op, "pnnx_rnn_output_swapped", 0):
        orders.sort(key=lambda o: o.endswith("y"), reverse=True)
    for order in orders:
        if all(_fits(o, shapes[role]) for o, role in zip(op.outputs, order, strict=True)):
            usual = RECURRENT[op.type][0]
            if usual.startswith(order) and "pnnx_rnn_output_swapped" not in op.params:
                return False
            _replace_outputs(graph, op, usual, order)
            return True
    return False


def _restore_mask(graph: Graph, op: Operator) -> bool:
    """Bring a mask that stands among query, key and value to its own slot."""
    names = list(op.inputnames) or [""] * len(op.inputs)
    flat = {i for i, o in enumerate(op.inputs) if o.shape is not None and len(o.shape) == 2}
    odd = flat if len(flat) < len(op.inputs) else set()
    masks = [i for i, o in enumerate(op.inputs) if (o.dtype == "bool" or i in odd) and names[i] != "attn_mask"]
    if len(masks) != 1 or len(op.inputs) < 2:
        return False
    mask = op.inputs[masks[0]]
    values = [o for i, o in enumerate(op.inputs) if i != masks[0]]
    sides = [o.shape for o in (values[0], values[min(1, len(values) - 1)])]
    if any(s is None for s in (*sides, mask.shape)):
        return False
    first = 0 if _number(op, "batch_first", 0) else 1
    query, key = (s or () for s in sides)
    padding = len(query) == 3 and mask.shape == (query[first], key[1 - first]) and query[first] != query[1 - first]
    wiring = {
        "inputs": [*values, mask],
        "inputnames": [*[""] * len(values), "key_padding_mask" if padding else "attn_mask"],
        "attrs": op.attrs,
        "params": op.params,
    }
    made = [unused_operand(graph, f"{op.name}_masked{i}") for i in range(len(op.outputs))]
    for operand, old in zip(made, op.outputs, strict=True):
        operand.shape, operand.dtype = old.shape, old.dtype
        graph.replace_uses(old, operand)
    graph.new_operator_before(op.type, f"{op.name}_masked", op, outputs=made, **wiring)
    graph.remove_operator(op)
    return True


def _restore_weights(graph: Graph, op: Operator) -> bool:
    """Say when the weights of all heads are wanted, and when the weights alone are."""
    query = op.inputs[0].shape if op.inputs else None
    last = op.outputs[-1].shape if op.outputs else None
    if query is None or last is None or len(query) not in (2, 3):
        return False
    embed, rank = _number(op, "embed_dim", 0), len(query)
    if len(last) == rank + 1:
        op.params["average_attn_weights"] = False
    elif len(op.outputs) == 2 or _fits(op.outputs[0], [*query[:-1], embed]):
        return False
    if len(op.outputs) == 1:
        _replace_outputs(graph, op, ("y", "weights"), ("weights",))
    return True
