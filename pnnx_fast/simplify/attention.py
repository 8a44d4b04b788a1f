"""Attention in pieces becomes F.scaled_dot_product_attention, and with the layers around it nn.MultiheadAttention.

The pieces are written in so many ways (scales before or after the product, masks in one or two sums, reshapes between
them, keys transposed in one or two steps) that there would be a hundred patterns; one walk goes up from the second
product instead.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from pnnx_fast._types import Array
from pnnx_fast.expression import Call, Constant, Input, Node
from pnnx_fast.ir import Attribute, Graph, Operand, Operator
from pnnx_fast.ir.literals import expression
from pnnx_fast.passes.moves import new_constant, only_consumer
from pnnx_fast.simplify.literals import sizes
from pnnx_fast.simplify.noops import permutation, value
from pnnx_fast.simplify.table import simplification

__all__: list[str] = []

_PRODUCTS = ("torch.matmul", "torch.bmm")
_RESHAPES = ("Tensor.reshape", "Tensor.view")


@dataclass
class _Scores:
    """What lies between the two products: the first one, the factor, masks with the sizes at which they are added."""

    product: Operator
    scale: float = 1.0
    masks: list[tuple[Operand, tuple[int, ...]]] = field(default_factory=list)


# -- Scaled dot products ----------------------------------------------------------------------------------------------


@simplification(5)
def fuse_scaled_dot_product_attention(graph: Graph) -> int:
    """Product, scale, mask, softmax and product become F.scaled_dot_product_attention."""
    count = 0
    for op in list(graph.ops):
        if op.type not in _PRODUCTS or len(op.inputs) != 2:
            continue
        softmax = _sole_producer(op.inputs[0])
        if softmax is None or softmax.type not in ("F.softmax", "nn.Softmax", "torch.softmax"):
            continue
        rank = len(softmax.inputs[0].shape or ())
        if rank < 3 or value(softmax, "dim") not in (-1, rank - 1) or value(softmax, "dtype") is not None:
            continue
        scores = _scores(softmax.inputs[0])
        if scores is not None and _fuse_product(graph, op, scores):
            graph.dead_code_elimination()
            count += 1
    return count


def _sole_producer(x: Operand) -> Operator | None:
    return x.producer if len(x.consumers) == 1 else None


def _scores(x: Operand) -> _Scores | None:
    """Walk up from the input of the softmax to the first product."""
    found = _Scores(Operator("", ""))
    while True:
        op = _sole_producer(x)
        if op is None or (op.type in _RESHAPES and len(op.inputs) != 1):
            return None
        if op.type in _PRODUCTS and len(op.inputs) == 2:
            found.product = op
            return found
        if op.type in _RESHAPES:
            x = op.inputs[0]
            continue
        step = _affine(expression(op), op.inputs)
        shape = sizes(x)
        if step is None or shape is None:
            return None
        source, factor, mask = step
        if factor != 1.0 and found.masks:
            return None  # a scale below the sum of a mask would have to scale the mask
        found.scale *= factor
        if mask is not None:
            found.masks.append((mask, shape))
        x = source


def _affine(node: Node | None, inputs: Sequence[Operand]) -> tuple[Operand, float, Operand | None] | None:
    """(scores, factor, mask) of an expression of the form scores · factor + mask."""
    mask: Operand | None = None
    if isinstance(node, Call) and node.name == "add":
        a, b = node.children
        flip = isinstance(a, Input) and not (isinstance(b, Input) and _is_product(inputs[a.index]))
        a, b = (b, a) if flip else (a, b)
        if not isinstance(b, Input):
            return None
        node, mask = a, inputs[b.index]
    factor = 1.0
    if isinstance(node, Call) and node.name in ("mul", "div"):
        rest, number = node.children
        if isinstance(rest, Constant) and node.name == "mul":
            rest, number = number, rest
        if not isinstance(number, Constant) or not isinstance(number.value, int | float) or number.value == 0:
            return None
        factor = float(number.value) if node.name == "mul" else 1.0 / number.value
        node = rest
    return (inputs[node.index], factor, mask) if isinstance(node, Input) else None


def _is_product(x: Operand) -> bool:
    """Whether an operand descends from a product rather than from a constant."""
    for _ in range(8):
        op = x.producer
        if op is None or not op.inputs:
            return False
        if op.type in _PRODUCTS:
            return True
        x = op.inputs[0]
    return False


def _fuse_product(graph: Graph, op: Operator, scores: _Scores) -> bool:
    first = scores.product
    query, keys = first.inputs
    scale = scores.scale
    maker = _sole_producer(query)
    step = _affine(expression(maker), maker.inputs) if maker is not None else None
    if step is not None and step[2] is None:
        query, scale = step[0], scale * step[1]
    key = _transposed(graph, keys, op)
    shape = sizes(first.outputs[0])
    if key is None or shape is None or len(query.shape or ()) != len(shape):
        return False
    mask = _mask(graph, scores, shape, op)
    if mask is False:
        return False
    width = (query.shape or (-1,))[-1]
    op.remove_input(0)
    values = op.inputs[0]
    op.remove_input(0)
    op.inputnames = []
    op.type = "F.scaled_dot_product_attention"
    op.params.clear()
    op.params.update(dropout_p=0.0, is_causal=False)
    for name, x in (("query", query), ("key", key), ("value", values)):
        op.add_input(x, name)
    if isinstance(mask, Operand):
        op.add_input(mask, "attn_mask")
    else:
        op.params["attn_mask"] = None
    if width <= 0 or abs(scale * width**0.5 - 1) > 1e-6:
        op.params["scale"] = scale
    return True


def _transposed(graph: Graph, keys: Operand, before: Operator) -> Operand | None:
    """The operand whose last two axes are swapped to give `keys`, made by a permutation where it takes another one."""
    maker = keys.producer
    order = permutation(maker) if maker is not None else None
    if maker is None or order is None or len(order) < 3:
        return None
    order = [*order[:-2], order[-1], order[-2]]
    if order == list(range(len(order))):
        return maker.inputs[0]
    made = graph.new_operand(graph.free_name(f"{keys.name}_key"))
    shape = maker.inputs[0].shape
    made.shape, made.dtype = None if shape is None else tuple(shape[d] for d in order), keys.dtype
    name = f"{maker.name}_key"
    graph.new_operator_before("Tensor.permute", name, before, inputs=[maker.inputs[0]], outputs=[made],
                              inputnames=["input"], params={"dims": order})  # fmt: skip
    return made


def _constant(x: Operand) -> Array | None:
    op = x.producer
    return op.attrs["data"].numpy() if op is not None and op.type == "pnnx.Attribute" and "data" in op.attrs else None


def _mask(graph: Graph, scores: _Scores, shape: tuple[int, ...], before: Operator) -> Operand | bool:
    """The one mask of the scores: True for none, False when it cannot be made."""
    if not scores.masks:
        return True
    if len(scores.masks) == 1 and scores.masks[0][1] == shape:
        return scores.masks[0][0] if (scores.masks[0][0].dtype or "").startswith("f") else False
    total: Array | float = 0.0
    for x, at in scores.masks:
        data = _constant(x)
        if data is None or int(np.prod(at)) != int(np.prod(shape)):
            return False
        total = total + np.broadcast_to(data, at).reshape(shape)
    name = f"{before.name}_mask"
    return new_constant(graph, np.asarray(total), name, name, before)


# -- Multi-head attention ---------------------------------------------------------------------------------------------


@dataclass
class _Projection:
    """Where queries, keys or values come from: the operand before the layer, rows of the layer's weight, its bias."""

    source: Operand
    weight: Array
    bias: Array | None


def _layer(split: Operator) -> Operator | None:
    """The linear layer over (n, length, features) whose result is cut into heads, its first two axes staying."""
    op = _sole_producer(split.inputs[0])
    if op is None or op.type != "nn.Linear":
        return None
    source, heads = op.inputs[0].shape or (), split.outputs[0].shape or ()
    return op if len(source) == 3 and source[:2] == heads[:2] else None


def _separate(x: Operand, heads: int, _: int) -> _Projection | None:
    """Heads of a layer of their own: linear, reshape, permute."""
    swap = _sole_producer(x)
    split = _sole_producer(swap.inputs[0]) if swap is not None and permutation(swap) == [0, 2, 1, 3] else None
    if split is None or split.type not in _RESHAPES or (split.outputs[0].shape or ())[2:3] != (heads,):
        return None
    layer = _layer(split)
    if layer is None:
        return None
    bias = layer.attrs["bias"].numpy() if "bias" in layer.attrs else None
    return _Projection(layer.inputs[0], layer.attrs["weight"].numpy(), bias)


def _packed(x: Operand, heads: int, part: int) -> _Projection | None:
    """Heads of a layer for all three: linear, reshape to (n, length, 3, heads, size), permute, unbind."""
    unbind = _sole_producer(x)
    if unbind is None or unbind.type != "torch.unbind" or value(unbind, "dim") != 0 or unbind.outputs.index(x) != part:
        return None
    swap = _sole_producer(unbind.inputs[0])
    split = _sole_producer(swap.inputs[0]) if swap is not None and permutation(swap) == [2, 0, 3, 1, 4] else None
    if split is None or split.type not in _RESHAPES or (split.outputs[0].shape or ())[2:4] != (3, heads):
        return None
    layer = _layer(split)
    if layer is None:
        return None
    weight = layer.attrs["weight"].numpy()
    rows = slice(part * len(weight) // 3, (part + 1) * len(weight) // 3)
    bias = layer.attrs["bias"].numpy()[rows] if "bias" in layer.attrs else None
    return _Projection(layer.inputs[0], weight[rows], bias)


def _fuse_heads(graph: Graph, project: Callable[[Operand, int, int], _Projection | None]) -> int:
    count = 0
    for op in [op for op in graph.ops if op.type == "F.scaled_dot_product_attention"]:
        shape = sizes(op.outputs[0])
        slots = [op.named_input(name) for name in ("query", "key", "value")]
        if shape is None or len(shape) != 4 or value(op, "is_causal") or value(op, "scale") is not None:
            continue
        parts = [project(x, shape[1], i) if x is not None else None for i, x in enumerate(slots)]
        end = _output_layer(op)
        if end is None or any(p is None for p in parts):
            continue
        if _write_module(graph, op, end, [p for p in parts if p is not None]):
            graph.dead_code_elimination()
            count += 1
    return count


def _output_layer(op: Operator) -> Operator | None:
    """The linear layer behind permute and reshape that joins the heads."""
    swap = only_consumer(op.outputs[0])
    join = only_consumer(swap.outputs[0]) if swap is not None and permutation(swap) == [0, 2, 1, 3] else None
    end = only_consumer(join.outputs[0]) if join is not None and join.type in _RESHAPES else None
    n, heads, length, width = op.outputs[0].shape or (0, 0, 0, 0)
    joined = join is not None and join.outputs[0].shape == (n, length, heads * width)
    return end if end is not None and end.type == "nn.Linear" and joined else None


def _write_module(graph: Graph, op: Operator, end: Operator, parts: list[_Projection]) -> bool:
    query, key, values = parts
    width, (n, heads, _, _) = len(query.weight), sizes(op.outputs[0]) or (0, 0, 0, 0)
    outer = end.attrs["weight"].numpy()
    if query.weight.shape[1] != width or outer.shape != (width, width) or len(values.weight) != width:
        return False
    mask = op.named_input("attn_mask")
    if mask is not None:
        mask = _module_mask(graph, mask, n, heads, op)
        if mask is None:
            return False
    attrs = _module_weights(parts, outer, end.attrs["bias"].numpy() if "bias" in end.attrs else None)
    sources = [p.source for p in parts]
    end.remove_input(0)
    end.inputnames = []
    names = ["input"] if all(x is sources[0] for x in sources) else ["query", "key", "value"]
    for name, x in zip(names, sources, strict=False):
        end.add_input(x, name)
    if mask is not None:
        end.add_input(mask, "attn_mask")
    end.type = "nn.MultiheadAttention"
    end.params.clear()
    lengths = {"embed_dim": width, "kdim": key.weight.shape[1], "num_heads": heads, "vdim": values.weight.shape[1]}
    end.params.update(add_bias_kv=False, add_zero_attn=False, batch_first=True, bias="in_proj_bias" in attrs, **lengths)
    end.attrs = {name: Attribute(attrs[name]) for name in sorted(attrs)}
    return True


def _module_weights(parts: list[_Projection], outer: Array, outer_bias: Array | None) -> dict[str, Array]:
    """Weights under PyTorch's names: the projections of queries, keys and values in one where they are alike."""
    width = len(outer)
    if all(p.weight.shape[1] == width for p in parts):
        attrs = {"in_proj_weight": np.concatenate([p.weight for p in parts])}
    else:
        attrs = {f"{name}_proj_weight": p.weight for name, p in zip("qkv", parts, strict=True)}
    attrs["out_proj.weight"] = outer
    biases = [*(p.bias for p in parts), outer_bias]
    if any(b is not None for b in biases):
        filled = [np.zeros(width, parts[0].weight.dtype) if b is None else b for b in biases]
        attrs |= {"in_proj_bias": np.concatenate(filled[:3]), "out_proj.bias": filled[3]}
    return attrs


def _module_mask(graph: Graph, mask: Operand, n: int, heads: int, op: Operator) -> Operand | None:
    """A mask of scores (n, heads, length, length) as the module takes it: of two axes, or with n · heads in one."""
    shape = sizes(mask)
    if shape is None:
        return None
    data = _constant(mask)
    if data is not None:
        full = (1,) * (4 - data.ndim) + data.shape
        flat = data.reshape(full[2:]) if full[:2] == (1, 1) else None
        if flat is None:
            flat = np.broadcast_to(data, (n, heads, *full[2:])).reshape(n * heads, *full[2:])
        return new_constant(graph, flat, f"{op.name}_mask", f"{op.name}_mask", op)
    if int(np.prod(shape[:-2])) != 1:
        return None
    if len(shape) == 2:
        return mask
    made = graph.new_operand(graph.free_name(f"{mask.name}_flat"))
    made.shape, made.dtype = shape[-2:], mask.dtype
    graph.new_operator_before("Tensor.reshape", f"{op.name}_mask", op, inputs=[mask], outputs=[made],
                              inputnames=["input"], params={"shape": list(shape[-2:])})  # fmt: skip
    return made


@simplification(5)
def fuse_multiheadattention(graph: Graph) -> int:
    """Attention between linear layers of its own for queries, keys and values becomes nn.MultiheadAttention."""
    return _fuse_heads(graph, _separate)


@simplification(5)
def fuse_multiheadattention_sameqkv(graph: Graph) -> int:
    """Attention behind one linear layer for queries, keys and values becomes nn.MultiheadAttention."""
    return _fuse_heads(graph, _packed)
