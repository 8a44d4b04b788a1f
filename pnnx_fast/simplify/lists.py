"""Lists and tuples disappear: operators take the elements as inputs and give them as outputs."""

from __future__ import annotations

from collections.abc import Container

from pnnx_fast.ir import Graph, Operand
from pnnx_fast.ir.literals import MISSING, literal
from pnnx_fast.ir.notes import RECURRENT
from pnnx_fast.passes.moves import pairs
from pnnx_fast.passes.restore_tuples import take_apart, taken
from pnnx_fast.simplify.table import simplification

__all__ = ["is_list"]

_CONSTRUCT = ("prim::ListConstruct", "prim::TupleConstruct")
_UNPACK = ("prim::ListUnpack", "prim::TupleUnpack")

_JOINING = frozenset({
    "torch.block_diag", "torch.cartesian_prod", "torch.cat", "torch.column_stack", "torch.concat", "torch.dstack",
    "torch.hstack", "torch.row_stack", "torch.stack", "torch.vstack",
})  # fmt: skip
_SPLITTING = frozenset({
    "Tensor.chunk", "Tensor.split", "torch.aminmax", "torch.broadcast_tensors", "torch.chunk", "torch.cummax",
    "torch.cummin", "torch.dsplit", "torch.frexp", "torch.hsplit", "torch.kthvalue", "torch.max", "torch.median",
    "torch.meshgrid", "torch.min", "torch.mode", "torch.nanmedian", "torch.qr", "torch.slogdet", "torch.sort",
    "torch.split", "torch.std_mean", "torch.svd", "torch.tensor_split", "torch.topk", "torch.unbind",
    "torch.unsafe_chunk", "torch.unsafe_split", "torch.var_mean", "torch.vsplit",
})  # fmt: skip
_POOLS = frozenset(
    name for d in "123" for name in (f"nn.MaxPool{d}d", f"F.max_pool{d}d", f"nn.AdaptiveMaxPool{d}d")
) | frozenset(f"F.adaptive_max_pool{d}d" for d in "123")


def is_list(x: Operand) -> bool:
    """Whether an operand is a list or tuple of several tensors, which has no shape."""
    maker = x.producer
    if maker is None or x.shape is not None:
        return False
    return maker.type in _CONSTRUCT or (maker.type in _SPLITTING and len(maker.outputs) == 1)


def _inline(graph: Graph, types: Container[str]) -> int:
    """Give operators the elements of lists that are built for them."""
    count = 0
    for op in list(graph.ops):
        if op.type not in types:
            continue
        for i in range(len(op.inputs) - 1, -1, -1):
            maker = op.inputs[i].producer
            if maker is None or maker.type not in _CONSTRUCT:
                continue
            slots = list(op.slots())
            slots[i : i + 1] = [("", x) for x in maker.inputs]
            named = any(name for name, _ in slots)
            op.set_inputs([x for _, x in slots], [name for name, _ in slots] if named else ())
            if not maker.outputs[0].consumers:
                graph.remove_operator(maker)
            count += 1
    return count


def _unpack(graph: Graph, types: Container[str]) -> int:
    """Give operators the outputs into which their result is taken apart."""
    count = 0
    for op, unpack in pairs(graph, types, _UNPACK):
        packed: Operand = op.outputs[0]
        for x in list(unpack.outputs):
            op.add_output(x)
        graph.remove_operator(unpack)
        graph.remove_operand(packed)
        count += 1
    return count


@simplification(3)
def fuse_opnto1_tensors(graph: Graph) -> int:
    """Operators that join a list of tensors take the tensors."""
    return _inline(graph, _JOINING)


@simplification(3)
def fuse_einsum_operands(graph: Graph) -> int:
    """torch.einsum takes its operands as inputs, and its equation as a parameter."""
    count = 0
    for op in graph.ops:
        equation = literal(op.inputs[0]) if op.type == "torch.einsum" and op.inputs else MISSING
        if isinstance(equation, str):
            op.params["equation"] = equation
            op.remove_input(0)
            count += 1
    return count + _inline(graph, {"torch.einsum"})


@simplification(3)
def fuse_op1ton_unpack(graph: Graph) -> int:
    """Operators with a list of results have these as outputs."""
    return _unpack(graph, _SPLITTING)


@simplification(3)
def fuse_maxpool_unpack(graph: Graph) -> int:
    """Maximum pooling with indices has two outputs."""
    return _unpack(graph, _POOLS)


@simplification(3)
def fuse_multiheadattention_unpack(graph: Graph) -> int:
    """nn.MultiheadAttention has its result and its weights as outputs; weights that nothing reads go."""
    count = _unpack(graph, {"nn.MultiheadAttention"})
    for op in graph.ops:
        if op.type == "nn.MultiheadAttention" and len(op.outputs) == 2 and not op.outputs[1].consumers:
            graph.remove_operand(op.outputs[1])
            count += 1
    return count


@simplification(3)
def fuse_rnn_unpack(graph: Graph) -> int:
    """Recurrent modules have output and states as outputs, those of nn.LSTM not in a tuple of their own."""
    return take_apart(graph) + _unpack(graph, RECURRENT)


@simplification(3)
def eliminate_tuple_pair(graph: Graph) -> int:
    """A tuple that is built, and taken apart or read by index, disappears."""
    count = 0
    for op in list(graph.ops):
        maker = op.inputs[0].producer if op.type in (*_UNPACK, "prim::TupleIndex") and op.inputs else None
        if maker is None or maker.type not in _CONSTRUCT:
            continue
        elements = taken(op, maker.inputs)
        if len(elements) != len(op.outputs):
            continue
        packed: Operand = op.inputs[0]
        for x, y in zip(op.outputs, elements, strict=True):
            graph.replace_uses(x, y)
        graph.remove_operator(op)
        if not packed.consumers:
            graph.remove_operator(maker)
        count += 1
    return count
