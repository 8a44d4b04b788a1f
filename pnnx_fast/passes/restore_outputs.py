"""Inputs and outputs of recurrent layers and attention get their roles back from the converter's notes.

The converter drops outputs that nobody uses, swaps others, puts a mask where the query belongs, and leaves out what a
layer takes twice; what is left is told apart by the shapes and types that it notes at the operands. Needed for right
results, so this pass always runs.
"""

from __future__ import annotations

from collections.abc import Sequence

from pnnx_fast._warning import warn
from pnnx_fast.ir import Graph, Operand, Operator
from pnnx_fast.ir.masks import DOUBTFUL, EACH_HEAD, attention_masks, means_taking_part
from pnnx_fast.ir.notes import RECURRENT, SEVERAL_OUTPUTS, attention_roles, query_shape, recurrent_roles
from pnnx_fast.ir.repeated import repeated_inputs
from pnnx_fast.passes.moves import only_follower, succeed, unused_operand

__all__ = ["like", "restore_outputs", "with_outputs"]


def restore_outputs(graph: Graph) -> bool:
    """Rewire recurrent layers and attention whose notes contradict the usual order; returns whether any was."""
    found, doubt = False, None
    for given in list(graph.ops):
        op = _unpack_results(graph, given) if given.type in SEVERAL_OUTPUTS else given
        found |= op is not given
        if op.type in RECURRENT:
            found |= _restore_recurrent(graph, op)
        elif op.type in ONNX_LAYERS:
            found |= _restore_states(graph, op)
        elif op.type == "nn.MultiheadAttention":
            rewired, told = _restore_keys(op)
            found, doubt = found or rewired, doubt or told
            found |= _restore_meaning(graph, op)
            standing = _restore_weights(graph, op)
            found |= _restore_mask(graph, standing) or standing is not op
    if doubt is not None:
        warn(f"{doubt}: its results may be wrong")
    return found


_SWAPPED = "pnnx_rnn_output_swapped"
"""The converter's mark of a layer whose sequence is its last output."""

ONNX_LAYERS = {"LSTM": ("y", "h", "c"), "GRU": ("y", "h"), "RNN": ("y", "h")}
"""ONNX's recurrent layers; only the sequence that they give has a dimension of directions beside that of steps."""


def _restore_states(graph: Graph, op: Operator) -> bool:
    """Put the sequence of an ONNX layer in front of its states, where nothing read it and it was dropped."""
    roles, count = ONNX_LAYERS[op.type], len(op.outputs)
    if not 0 < count < len(roles) or any(len(y.shape or ()) != 3 for y in op.outputs):
        return False
    _replace_outputs(graph, op, roles[: count + 1], roles[1 : count + 1])
    return True


def like(graph: Graph, name: str, old: Operand | None) -> Operand:
    """An operand that takes the place of another one, or of none."""
    return unused_operand(graph, name) if old is None else unused_operand(graph, name, old.shape, old.dtype)


def with_outputs(graph: Graph, op: Operator, suffix: str, outputs: Sequence[Operand]) -> Operator:
    """The operator once more in front of itself, with outputs in the usual order."""
    params = {k: v for k, v in op.params.items() if k != _SWAPPED}
    wiring = {"inputs": op.inputs, "inputnames": op.inputnames, "attrs": op.attrs, "params": params}
    return graph.new_operator_before(op.type, f"{op.name}_{suffix}", op, outputs=outputs, **wiring)


def _replace_outputs(graph: Graph, op: Operator, roles: Sequence[str], present: Sequence[str]) -> Operator:
    """Give an operator one output a role; those that it has keep their users. Returns the operator that stands."""
    kept = dict(zip(present, op.outputs, strict=True))
    made = [like(graph, f"{op.name}_{role}", kept.get(role)) for role in roles]
    ordered = with_outputs(graph, op, "ordered", made)
    succeed(graph, op, {kept[role]: operand for role, operand in zip(roles, made, strict=True) if role in kept})
    return ordered


def _unpack_results(graph: Graph, op: Operator) -> Operator:
    """Give a module the outputs of its tuple, where these are not in the usual order; returns the operator that stands.

    Files of the lowest level have the order of the trace, without those that nothing reads.
    """
    unpack = only_follower(op)
    if unpack is None or unpack.type != "prim::TupleUnpack":
        return op
    recurrent = op.type in RECURRENT
    usual = tuple(RECURRENT[op.type][0]) if recurrent else ("y", "weights")
    roles = (recurrent_roles if recurrent else attention_roles)(op, unpack.outputs)
    if roles is None or usual[: len(roles)] == tuple(roles):
        return op
    kept = dict(zip(roles, unpack.outputs, strict=True))
    made = {role: like(graph, f"{op.name}_{role}", kept.get(role)) for role in usual}
    standing = with_outputs(graph, op, "unpacked", list(made.values()))
    succeed(graph, unpack, {old: made[role] for role, old in kept.items()})
    graph.remove_operator(op)
    return standing


def _restore_recurrent(graph: Graph, op: Operator) -> bool:
    roles, usual = recurrent_roles(op), RECURRENT[op.type][0]
    if roles is None or (usual.startswith(roles) and _SWAPPED not in op.params):
        return False
    _replace_outputs(graph, op, usual, roles)
    return True


def _restore_keys(op: Operator) -> tuple[bool, str | None]:
    """Give attention the one of two inputs twice that it was given twice; returns whether any was, and a doubt."""
    repeated = repeated_inputs(op)
    if repeated is None:
        return False, None
    slots, doubtful = repeated
    rest = [i for i in range(len(op.inputs)) if i not in slots]
    names = op.inputnames and [op.inputnames[i] for i in (*slots, *rest)]
    op.set_inputs([op.inputs[i] for i in (*slots, *rest)], names)
    query, _, value = op.inputs[:3]
    if not doubtful:
        return True, None
    told = f"takes {query.name} for query and keys, and {value.name}, a term of it, for the values alone"
    return True, f"{op.where} {told}, which the file does not tell"


def _restore_meaning(graph: Graph, op: Operator) -> bool:
    """Turn a mask that says what takes part into one that says what does not.

    The converter makes modules of ``scaled_dot_product_attention``, whose boolean masks mean the opposite.
    """
    found = False
    for i, mask in enumerate(op.inputs):
        if means_taking_part(mask):
            left_out = unused_operand(graph, f"{op.name}_left_out", mask.shape, "bool")
            wiring = {"inputs": [mask], "inputnames": ["input"], "outputs": [left_out]}
            graph.new_operator_before("torch.logical_not", f"{op.name}_left_out", op, **wiring)
            op.set_input(i, left_out)
            found = True
    return found


def _restore_mask(graph: Graph, op: Operator) -> bool:
    """Bring masks that stand among query, key and value to their own slots."""
    masks, doubtful = attention_masks(op)
    if doubtful:
        op.params[DOUBTFUL] = True
    names = list(op.inputnames) or [""] * len(op.inputs)
    if all(names[i] == slot for i, slot in masks.items()):
        return False
    values = [x for i, x in enumerate(op.inputs) if i not in masks]
    wiring = {
        "inputs": [*values, *(op.inputs[i] for i in masks)],
        "inputnames": [*[""] * len(values), *masks.values()],
        "attrs": op.attrs,
        "params": op.params,
    }
    made = [like(graph, f"{op.name}_masked{i}", old) for i, old in enumerate(op.outputs)]
    graph.new_operator_before(op.type, f"{op.name}_masked", op, outputs=made, **wiring)
    succeed(graph, op, dict(zip(op.outputs, made, strict=True)))
    return True


def _restore_weights(graph: Graph, op: Operator) -> Operator:
    """Say when the weights of all heads are wanted, bring the outputs in order; returns the operator that stands."""
    roles = attention_roles(op)
    unpack = only_follower(op)
    if unpack is not None and unpack.type == "prim::TupleUnpack" and len(unpack.outputs) == 2:
        told = unpack.outputs[1]  # files of the lowest level hand out a tuple
    elif "weights" in roles:
        unpack, told = None, op.outputs[roles.index("weights")]
    else:
        return op
    query, weights = query_shape(op), told.shape
    if query is not None and weights is not None and len(weights) == len(query) + 1:
        op.params[EACH_HEAD] = False
    return (
        op if unpack is not None or roles == ("y", "weights") else _replace_outputs(graph, op, ("y", "weights"), roles)
    )
