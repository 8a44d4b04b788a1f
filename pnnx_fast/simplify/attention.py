"""Attention in pieces becomes F.scaled_dot_product_attention, and with the layers around it nn.MultiheadAttention.

The pieces are found as the pass of the same purpose finds them when a model is loaded; here they become operators that
PyTorch has, too.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from pnnx_fast._types import Array
from pnnx_fast.expression import Input
from pnnx_fast.ir import Attributes, Graph, Operand, Operator, Parameters
from pnnx_fast.ir.literals import constant_array
from pnnx_fast.passes.fuse_attention import Attention, Mask, find_attention, key_rows, mask_operand
from pnnx_fast.passes.moves import RESHAPES, new_constant, only_consumer, permutation, sole_producer, unused_operand
from pnnx_fast.simplify.expressions import sizes
from pnnx_fast.simplify.table import simplification

__all__: list[str] = []

# -- Scaled dot products ----------------------------------------------------------------------------------------------


@simplification(5)
def fuse_scaled_dot_product_attention(graph: Graph) -> int:
    """Product, scale, mask, softmax and product become F.scaled_dot_product_attention."""
    count = 0
    for op in list(graph.ops):
        found = find_attention(op)
        if found is not None and len(found.scores) >= 3 and _fuse_product(graph, op, found):
            graph.dead_code_elimination()
            count += 1
    return count


def _fuse_product(graph: Graph, op: Operator, found: Attention) -> bool:
    if found.columns or min(found.scores) < 0 or not _has_one_mask(found):
        return False
    key = key_rows(graph, found, op)
    mask = _mask(graph, found, op)
    width = (found.query.shape or (-1,))[-1]
    op.type = "F.scaled_dot_product_attention"
    op.params = Parameters(dropout_p=0.0, is_causal=False)
    op.set_inputs([found.query, key, found.value], ["query", "key", "value"])
    if mask is not None:
        op.add_input(mask, "attn_mask")
    else:
        op.params["attn_mask"] = None
    if width <= 0 or abs(found.scale * width**0.5 - 1) > 1e-6:
        op.params["scale"] = found.scale
    return True


def _constant_mask(mask: Mask) -> Array | None:
    data = constant_array(mask.inputs[0]) if isinstance(mask.node, Input) else None
    return None if data is None or data.dtype.kind != "f" else data  # a mask of bool would hide


def _has_one_mask(found: Attention) -> bool:
    """Whether the sum of the masks can be written as one: they are constant, or floats added to the plain scores."""
    if any(m.filling is not None for m in found.masks):
        return False
    if all(_constant_mask(m) is not None and m.sizes is not None for m in found.masks):
        return all(math.prod(m.sizes or ()) == math.prod(found.scores) for m in found.masks)
    floats = all((x.dtype or "").startswith("f") for m in found.masks for x in m.inputs)
    return floats and all(m.view is None for m in found.masks)


def _mask(graph: Graph, found: Attention, before: Operator) -> Operand | None:
    arrays = [_constant_mask(m) for m in found.masks]
    plain = len(found.masks) == 1 and found.masks[0].view is None
    if plain or any(a is None for a in arrays):
        return mask_operand(graph, found.masks, before)
    total: Array | float = 0.0
    for m, data in zip(found.masks, arrays, strict=True):
        total = total + np.broadcast_to(data, m.sizes or ()).reshape(found.scores)  # type: ignore[arg-type]
    name = f"{before.name}_mask"
    return new_constant(graph, np.asarray(total), name, name, before) if found.masks else None


# -- Multi-head attention ---------------------------------------------------------------------------------------------


@dataclass
class _Projection:
    """Where queries, keys or values come from: the operand before the layer, rows of the layer's weight, its bias."""

    source: Operand
    weight: Array
    bias: Array | None


def _layer(split: Operator) -> Operator | None:
    """The linear layer over (n, length, features) whose result is cut into heads, its first two axes staying."""
    op = sole_producer(split.inputs[0])
    if op is None or op.type != "nn.Linear":
        return None
    source, heads = op.inputs[0].shape or (), split.outputs[0].shape or ()
    return op if len(source) == 3 and source[:2] == heads[:2] else None


def _separate(x: Operand, heads: int, _: int) -> _Projection | None:
    """Heads of a layer of their own: linear, reshape, permute."""
    swap = sole_producer(x)
    split = sole_producer(swap.inputs[0]) if swap is not None and permutation(swap) == [0, 2, 1, 3] else None
    if split is None or split.type not in RESHAPES or (split.outputs[0].shape or ())[2:3] != (heads,):
        return None
    layer = _layer(split)
    if layer is None:
        return None
    bias = layer.attrs["bias"].numpy() if "bias" in layer.attrs else None
    return _Projection(layer.inputs[0], layer.attrs["weight"].numpy(), bias)


def _packed(x: Operand, heads: int, part: int) -> _Projection | None:
    """Heads of a layer for all three: linear, reshape to (n, length, 3, heads, size), permute, unbind."""
    unbind = sole_producer(x)
    if unbind is None or unbind.type != "torch.unbind" or unbind.value("dim") != 0 or unbind.outputs.index(x) != part:
        return None
    swap = sole_producer(unbind.inputs[0])
    split = sole_producer(swap.inputs[0]) if swap is not None and permutation(swap) == [2, 0, 3, 1, 4] else None
    if split is None or split.type not in RESHAPES or (split.outputs[0].shape or ())[2:4] != (3, heads):
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
        if shape is None or len(shape) != 4 or op.value("is_causal") or op.value("scale") is not None:
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
    end = only_consumer(join.outputs[0]) if join is not None and join.type in RESHAPES else None
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
    if all(x is sources[0] for x in sources):
        end.set_inputs(sources[:1], ["input"])
    else:
        end.set_inputs(sources, ["query", "key", "value"])
    if mask is not None:
        end.add_input(mask, "attn_mask")
    end.type = "nn.MultiheadAttention"
    lengths = {"embed_dim": width, "kdim": key.weight.shape[1], "num_heads": heads, "vdim": values.weight.shape[1]}
    flags = {"add_bias_kv": False, "add_zero_attn": False, "batch_first": True, "bias": "in_proj_bias" in attrs}
    end.params = Parameters(flags | lengths)
    end.attrs = Attributes({name: attrs[name] for name in sorted(attrs)})
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
    """A mask of scores (n, heads, length, length) as the module takes it: of two axes, or with n · heads in one.

    Truths say what takes part in the function, and what is hidden in the module.
    """
    shape = sizes(mask)
    lengths = tuple((x.shape or (0,))[-2] if x is not None and len(x.shape or ()) > 1 else 0
                    for x in (op.named_input("query"), op.named_input("key")))  # fmt: skip
    if shape is None or min(lengths) < 1:
        return None
    data = constant_array(mask)
    if data is not None:
        data = ~data if data.dtype == np.bool_ else data
        lead = (1,) * (4 - data.ndim) + data.shape
        groups = () if lead[:2] == (1, 1) else (n * heads,)
        full = np.broadcast_to(data, (n if groups else 1, heads if groups else 1, *lengths))
        return new_constant(graph, full.reshape(*groups, *lengths), f"{op.name}_mask", f"{op.name}_mask", op)
    if int(np.prod(shape[:-2])) != 1 or tuple(shape[-2:]) != lengths or mask.dtype is None:
        return None
    if len(shape) != 2:
        mask = _before(graph, op, "Tensor.reshape", mask, f"{mask.name}_flat", shape=list(lengths))
    return _before(graph, op, "torch.bitwise_not", mask, f"{mask.name}_hidden") if mask.dtype == "bool" else mask


def _before(graph: Graph, op: Operator, kind: str, x: Operand, name: str, **params: Any) -> Operand:
    """The result of an operator on a mask of two axes, in front of an attention."""
    made = unused_operand(graph, name, (x.shape or ())[-2:], x.dtype)
    graph.new_operator_before(
        kind, graph.free_name(f"{op.name}_mask"), op, inputs=[x], outputs=[made], inputnames=["input"], params=params
    )
    return made


@simplification(5)
def fuse_multiheadattention(graph: Graph) -> int:
    """Attention between linear layers of its own for queries, keys and values becomes nn.MultiheadAttention."""
    return _fuse_heads(graph, _separate)


@simplification(5)
def fuse_multiheadattention_sameqkv(graph: Graph) -> int:
    """Attention behind one linear layer for queries, keys and values becomes nn.MultiheadAttention."""
    return _fuse_heads(graph, _packed)
