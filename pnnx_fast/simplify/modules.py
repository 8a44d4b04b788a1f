"""Functions with constant weights become modules; modules take in batch normalisation and padding.

`_STATIC` has a row for each function: the module's types, which weights it takes, and how its parameters follow from
them. Constants of a graph (``pnnx.Attribute``) are shared or told apart here, too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pnnx_fast._types import Shape
from pnnx_fast.expression import Call, Constant, Input, ListNode
from pnnx_fast.ir import Attributes, Graph, Operator
from pnnx_fast.ir.literals import constant, expression
from pnnx_fast.ir.parameter import per_axis
from pnnx_fast.passes.fold_batch_norm import CHANNEL_AXIS, fold_batch_norms
from pnnx_fast.passes.moves import become, bypass, pairs, unused_operand
from pnnx_fast.simplify.table import simplification

__all__: list[str] = []

Params = dict[str, Any]


@dataclass(frozen=True)
class _Static:
    """How a function with constant weights becomes a module.

    `weights` maps input slots to attributes; those with a question mark may be missing. `build` takes the function's
    parameters, the weights' shapes and the rank of the input, and returns the module's type and parameters.
    """

    weights: Mapping[str, str]
    build: Callable[[Params, Mapping[str, Shape], int], tuple[str, Params] | None]


def _convolution(dims: int, transposed: bool) -> _Static:
    kind = f"nn.ConvTranspose{dims}d" if transposed else f"nn.Conv{dims}d"

    def build(p: Params, shapes: Mapping[str, Shape], rank: int) -> tuple[str, Params] | None:
        weight, groups = shapes["weight"], p.get("groups", 1)
        padding = p.get("padding", 0)
        if len(weight) != dims + 2 or rank not in (0, dims + 2):
            return None
        made: Params = {
            "bias": "bias" in shapes,
            "dilation": per_axis(p.get("dilation", 1), dims),
            "groups": groups,
            "in_channels": weight[0] if transposed else weight[1] * groups,
            "kernel_size": list(weight[2:]),
            "out_channels": weight[1] * groups if transposed else weight[0],
            "padding": padding if isinstance(padding, str) else per_axis(padding, dims),
            "stride": per_axis(p.get("stride", 1), dims),
        }
        if transposed:
            made["output_padding"] = per_axis(p.get("output_padding", 0), dims)
        else:
            made["padding_mode"] = "zeros"
        return kind, made

    return _Static({"weight": "weight", "bias": "bias?"}, build)


def _batch_norm(p: Params, shapes: Mapping[str, Shape], rank: int) -> tuple[str, Params] | None:
    dims = {2: 1, 3: 1, 4: 2, 5: 3}.get(rank)
    if dims is None or p.get("training") is True:
        return None
    count = shapes["running_mean"][0]
    return f"nn.BatchNorm{dims}d", {"affine": "weight" in shapes, "eps": p.get("eps", 1e-5), "num_features": count}


def _instance_norm(p: Params, shapes: Mapping[str, Shape], rank: int) -> tuple[str, Params] | None:
    dims = {3: 1, 4: 2, 5: 3}.get(rank)
    if dims is None or "weight" not in shapes:
        return None
    made = {
        "affine": True,
        "eps": p.get("eps", 1e-5),
        "num_features": shapes["weight"][0],
        "track_running_stats": False,
    }
    return f"nn.InstanceNorm{dims}d", made


def _group_norm(p: Params, shapes: Mapping[str, Shape], rank: int) -> tuple[str, Params] | None:
    if "weight" not in shapes:
        return None
    made = {"affine": True, "eps": p.get("eps", 1e-5), "num_groups": p["num_groups"]}
    return "nn.GroupNorm", {**made, "num_channels": shapes["weight"][0]}


def _layer_norm(kind: str) -> Callable[[Params, Mapping[str, Shape], int], tuple[str, Params] | None]:
    def build(p: Params, shapes: Mapping[str, Shape], rank: int) -> tuple[str, Params] | None:
        if "weight" not in shapes or (kind == "nn.RMSNorm" and p.get("eps") is None):
            return None
        made = {"elementwise_affine": True, "eps": p.get("eps", 1e-5)}
        return kind, {**made, "normalized_shape": list(shapes["weight"])}

    return build


def _linear(p: Params, shapes: Mapping[str, Shape], rank: int) -> tuple[str, Params] | None:
    if len(shapes["weight"]) != 2 or shapes.get("bias", shapes["weight"][:1]) != shapes["weight"][:1]:
        return None
    out, count = shapes["weight"]
    return "nn.Linear", {"bias": "bias" in shapes, "in_features": count, "out_features": out}


def _embedding(p: Params, shapes: Mapping[str, Shape], rank: int) -> tuple[str, Params]:
    count, size = shapes["weight"]
    made = {"embedding_dim": size, "num_embeddings": count, "sparse": bool(p.get("sparse", False))}
    return "nn.Embedding", made | ({"padding_idx": p["padding_idx"]} if p.get("padding_idx") is not None else {})


def _prelu(p: Params, shapes: Mapping[str, Shape], rank: int) -> tuple[str, Params] | None:
    if len(shapes["weight"]) != 1:
        return None
    return "nn.PReLU", {"num_parameters": shapes["weight"][0]}


_STATISTICS = {"running_mean": "running_mean", "running_var": "running_var"}
_AFFINE = {"weight": "weight?", "bias": "bias?"}
_STATIC: dict[str, dict[str, _Static]] = {
    "batchnorm": {"F.batch_norm": _Static(_STATISTICS | _AFFINE, _batch_norm)},
    "groupnorm": {"F.group_norm": _Static(_AFFINE, _group_norm)},
    "instancenorm": {"F.instance_norm": _Static(_AFFINE, _instance_norm)},
    "layernorm": {"F.layer_norm": _Static(_AFFINE, _layer_norm("nn.LayerNorm"))},
    "rmsnorm": {"F.rms_norm": _Static({"weight": "weight?"}, _layer_norm("nn.RMSNorm"))},
    "conv": {f"F.conv{d}d": _convolution(d, False) for d in (1, 2, 3)},
    "convtranspose": {f"F.conv_transpose{d}d": _convolution(d, True) for d in (1, 2, 3)},
    "linear": {"F.linear": _Static({"weight": "weight", "bias": "bias?"}, _linear)},
    "embedding": {"F.embedding": _Static({"weight": "weight"}, _embedding)},
    "prelu": {"F.prelu": _Static({"weight": "weight"}, _prelu)},
}  # fmt: skip
"""Passes fuse_static_*, with the functions that each one takes."""


def _fuse_static(graph: Graph, table: Mapping[str, _Static]) -> int:
    count = 0
    for op in list(graph.ops):
        row = table.get(op.type)
        if row is None or not op.inputnames:
            continue
        slots = {name: x for name, x in zip(op.inputnames, op.inputs, strict=True) if name in row.weights}
        attrs = {name: constant(x) for name, x in slots.items()}
        others = [x for name, x in zip(op.inputnames, op.inputs, strict=True) if name not in row.weights]
        found = {name: attr for name, attr in attrs.items() if attr is not None}
        needed = [name for name, target in row.weights.items() if not target.endswith("?")]
        written = any(name not in slots and op.value(name) is not None for name in row.weights)  # as a number
        if len(found) != len(attrs) or len(others) != 1 or any(name not in found for name in needed) or written:
            continue
        made = row.build(op.values(), {k: a.shape for k, a in found.items()}, len(others[0].shape or ()))
        if made is None:
            continue
        op.set_inputs(others)
        become(op, made[0], **made[1])
        op.attrs = Attributes({name: attr.copy() for name, attr in found.items()})
        count += 1
    if count:
        graph.dead_code_elimination()
    return count


def _add_static(family: str, table: Mapping[str, _Static]) -> None:
    def fuse(graph: Graph) -> int:
        return _fuse_static(graph, table)

    become = "becomes a module" if len(table) == 1 else "become modules"
    fuse.__name__, fuse.__doc__ = f"fuse_static_{family}", f"{', '.join(table)} with constant weights {become}."
    simplification(5)(fuse)


@simplification(5, asked=True)
def attribute_unpooling(graph: Graph) -> int:
    """Every reader of a constant gets one of its own."""
    count = 0
    for op in [op for op in graph.ops if op.type == "pnnx.Attribute" and len(op.outputs) == 1]:
        x = op.outputs[0]
        for i, user in enumerate(list(x.consumers)[1:], 1):
            twin = unused_operand(graph, f"{x.name}_{i}", x.shape, x.dtype)
            graph.new_operator_after(op.type, f"{op.name}_{i}", op, outputs=[twin], attrs=dict(op.attrs))
            user.set_input(user.inputs.index(x), twin)
            count += 1
    return count


for _family, _table in _STATIC.items():
    _add_static(_family, _table)


@simplification(5)
def attribute_pooling(graph: Graph) -> int:
    """Equal constants become one."""
    seen: dict[tuple[Any, ...], list[Operator]] = {}
    count = 0
    for op in list(graph.ops):
        attr = constant(op.outputs[0]) if op.type == "pnnx.Attribute" and len(op.outputs) == 1 else None
        if attr is None:
            continue
        family = seen.setdefault((attr.dtype, attr.shape, bytes(memoryview(attr.data)[:64])), [])
        twin = next((o for o in family if constant(o.outputs[0]) == attr), None)
        if twin is None:
            family.append(op)
            continue
        graph.replace_uses(op.outputs[0], twin.outputs[0])
        graph.remove_operator(op)
        count += 1
    return count


# -- Batch normalisation ----------------------------------------------------------------------------------------------


def _add_batch_norm(kinds: Sequence[str]) -> None:
    def fuse(graph: Graph) -> int:
        return fold_batch_norms(graph, kinds)

    dims = kinds[0][-2:] if kinds[0][-1] == "d" else ""
    stem = kinds[0].removeprefix("nn.").lower()
    fuse.__name__ = f"fuse_{stem}_batchnorm{dims}"
    fuse.__doc__ = f"{kinds[0]} takes in the batch normalisation that alone follows it."
    simplification(5)(fuse)


for _kind in CHANNEL_AXIS:
    _add_batch_norm([_kind])


# -- Padding ----------------------------------------------------------------------------------------------------------

_MODES = {"constant": "zeros", "reflect": "reflect", "replicate": "replicate", "circular": "circular"}
_NAMES = {"Zero": "zeros", "Reflection": "reflect", "Replication": "replicate", "Circular": "circular"}
_PADS = {f"nn.{name}Pad{dims}d": (dims, mode) for name, mode in _NAMES.items() for dims in (1, 2)}
_PADDING = {*_PADS, "F.pad", "nn.ConstantPad1d", "nn.ConstantPad2d"}


def _padding(op: Operator, dims: int) -> tuple[list[int], str] | None:
    """Padding by axis and mode of an operator that pads both ends of all spatial axes alike."""
    if op.type in _PADS and _PADS[op.type][0] == dims:
        pads, mode = op.value("padding"), _PADS[op.type][1]
    elif op.type in ("F.pad", f"nn.ConstantPad{dims}d"):
        pads = op.value("pad", op.value("padding"))
        mode = _MODES.get(str(op.value("mode", "constant")), "")
        if op.value("value") not in (None, 0):
            return None
    else:
        return None
    pads = [pads] * (2 * dims) if isinstance(pads, int) else pads
    if not isinstance(pads, list) or len(pads) != 2 * dims or not mode or any(p < 0 for p in pads):
        return None
    sides = [(pads[2 * i], pads[2 * i + 1]) for i in reversed(range(dims))]
    return ([a for a, _ in sides], mode) if all(a == b for a, b in sides) else None


def _fuse_pad(graph: Graph, dims: int) -> int:
    count = 0
    for op, follower in pairs(graph, _PADDING, (f"nn.Conv{dims}d",)):
        found = _padding(op, dims) if len(op.inputs) == 1 else None
        own = follower.value("padding", [0])
        if found is None or isinstance(own, str):
            continue
        pads, mode = found
        free = not any(per_axis(own, dims))
        both_zero = mode == "zeros" and follower.value("padding_mode", "zeros") == "zeros"
        if not free and not both_zero:
            continue
        follower.params["padding"] = [a + b for a, b in zip(pads, per_axis(own, dims), strict=True)]
        follower.params["padding_mode"] = mode
        bypass(graph, op)
        count += 1
    return count


@simplification(5)
def fuse_pad_conv1d(graph: Graph) -> int:
    """nn.Conv1d takes in the padding before it."""
    return _fuse_pad(graph, 1)


@simplification(5)
def fuse_pad_conv2d(graph: Graph) -> int:
    """nn.Conv2d takes in the padding before it."""
    return _fuse_pad(graph, 2)


# -- Level 3 ----------------------------------------------------------------------------------------------------------


@simplification(3)
def fuse_dynamic_adaptive_pool(graph: Graph) -> int:
    """Adaptive pooling to the size of its input along an axis says so with 0."""
    count = 0
    for op in list(graph.ops):
        if not op.type.startswith(("F.adaptive_", "nn.Adaptive")) or not op.has_input("output_size"):
            continue
        x, wanted = op.inputs[0], op.named_input("output_size")
        maker = wanted.producer if wanted is not None else None
        node = expression(maker)
        if not isinstance(node, ListNode) or maker is None or x.shape is None or any(y is not x for y in maker.inputs):
            continue
        first = len(x.shape) - len(node.children)
        words: list[int] = []
        for i, child in enumerate(node.children):
            own = {Call("size", [Input(0), Constant(d)]) for d in (first + i, first + i - len(x.shape))}
            if child in own:
                words.append(0)
            elif isinstance(child, Constant) and isinstance(child.value, int):
                words.append(child.value)
        if len(words) == len(node.children):
            op.remove_input(op.inputnames.index("output_size"))
            op.params["output_size"] = words
            count += 1
    return count


@simplification(3)
def expand_quantization_modules(graph: Graph) -> int:
    """Quantised modules with a ReLU inside become the module and an nn.ReLU."""
    names = {f"nn.intrinsic.quantized.ConvReLU{d}d": f"nn.quantized.Conv{d}d" for d in (1, 2, 3)}
    names["nn.intrinsic.quantized.LinearReLU"] = "nn.quantized.Linear"
    found = [op for op in graph.ops if op.type in names]
    for op in found:
        op.type = names[op.type]
        y = op.outputs[0]
        inner = unused_operand(graph, f"{y.name}_relu", y.shape, y.dtype)
        op.add_output(inner)
        graph.new_operator_after("nn.ReLU", f"{op.name}_relu", op, inputs=[inner], outputs=[y])
    return len(found)


@simplification(3)
def assign_unique_name(graph: Graph) -> int:
    """Operators without a name, or with one that is taken, get one of their own; their weights follow."""
    taken: set[str] = set()
    count = 0
    for op in graph.ops:
        if not op.name or op.name in taken:
            number = next(i for i in range(len(graph.ops) + 1) if f"pnnx_unique_{i}" not in taken)
            op.name = f"pnnx_unique_{number}"
            count += 1
        taken.add(op.name)
    return count
