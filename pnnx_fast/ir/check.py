"""Consistency of a graph: what must hold between its operators and operands, parameters and weights.

Used by :meth:`Graph.validate`, and by whatever reads graphs without asking at every operator; changes nothing. Kernels
take sizes from the weights, so a weight that is larger than the parameters say would be used in part, without a word.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from pnnx_fast.errors import GraphError, ParameterError, ShapeError
from pnnx_fast.ir.attribute import Attribute
from pnnx_fast.ir.dtypes import by_numpy, by_text
from pnnx_fast.ir.operator import Operand, Operator
from pnnx_fast.ir.parameter import per_axis

__all__ = [
    "contradictions",
    "lacks_weight",
    "problems",
    "require_connections",
    "require_data",
    "require_weights",
    "selects_number",
]

_CONNECTED = ("nn.", "F.", "Tensor.", "pnnx.Output", "prim::TupleIndex", "prim::TupleUnpack")
"""Beginnings of operator types that take something, be it an attribute of that name."""


def require_connections(ops: Sequence[Operator]) -> None:
    """Raise for operators that lack what passes and writers count on: inputs, outputs of types there are, an
    expression, data.

    Raises
    ------
    GraphError
        Naming every such operator.
    """
    found = []
    for op in ops:
        if not op.inputs and "input" not in op.attrs and op.type.startswith(_CONNECTED) and not selects_number(op):
            found.append(f"{op.where} has no input")
        if not op.outputs and op.type != "pnnx.Output":
            found.append(f"{op.where} has no output")
        if op.outputs and op.type == "pnnx.Output":
            found.append(f"{op.where} has outputs, which nothing makes")
        if op.type == "pnnx.Expression" and "expr" not in op.params:
            found.append(f"{op.where} has no 'expr'")
        if op.type == "pnnx.Attribute" and not op.attrs:
            found.append(f"{op.where} has no data")
        for operand in op.outputs:
            if operand.dtype not in by_text and operand.dtype is not None:
                found.append(f"{op.where}: {_unknown_dtype(operand)}")
    if found:
        raise GraphError(found)


def _unknown_dtype(operand: Operand) -> str:
    row = by_numpy.get(str(operand.dtype))
    return f"operand {operand.name} has unknown dtype {operand.dtype}" + (f", here called {row.text}" if row else "")


def selects_number(op: Operator) -> bool:
    """Whether an operator takes the only entry of a constant tensor, written as a number in the place of its input."""
    fits = op.type == "Tensor.select" and not op.inputs and op.has_param("input")
    return fits and isinstance(op.params["input"].value, int | float)


def problems(ops: Sequence[Operator], operands: Mapping[str, Operand]) -> list[str]:
    """Return one sentence for every problem, in the order of operators."""
    found = list(_of_weights(ops))
    slots: dict[Operand, list[Operator]] = {}
    for op in ops:
        for operand in op.inputs:
            slots.setdefault(operand, []).append(op)
        found += [f"{op.name}: {text}" for text in _of_operator(op, operands)]
    present = set(ops)
    for operand in operands.values():
        found += _of_operand(operand, slots.get(operand, []), present)
    return found


def _of_weights(ops: Sequence[Operator]) -> Iterator[str]:
    """Operators of one name share their weights: a module that is called several times.

    Constants of one name are constants of their own: the converter's low levels call all that a module holds after it.
    """
    seen: dict[str, Attribute] = {}
    for op in ops:
        if op.type == "pnnx.Attribute":
            continue
        for key, attr in op.attrs.items():
            if isinstance(attr, Attribute) and seen.setdefault(f"{op.name}.{key}", attr) != attr:
                yield f"{op.name}: another weight is called {op.name}.{key}, too"


def _of_operator(op: Operator, operands: Mapping[str, Operand]) -> Iterator[str]:
    for operand in (*op.inputs, *op.outputs):
        if operands.get(operand.name) is not operand:
            yield f"operand {operand.name} is not in the graph"
    for operand in op.inputs:
        if operand.producer is None:
            yield f"input {operand.name} has no producer"
    for operand in op.outputs:
        if operand.producer is not op:
            other = "nothing" if operand.producer is None else operand.producer.name
            yield f"output {operand.name} has {other} as its producer"
    if op.inputnames and len(op.inputnames) != len(op.inputs):
        yield f"{len(op.inputnames)} names for {len(op.inputs)} inputs"
    attrs: Mapping[str, object] = op.attrs
    for key, attr in attrs.items():
        if not isinstance(attr, Attribute):
            yield f"attribute {key} is a {type(attr).__name__}; Attribute(value) makes one"
        elif attr.dtype is not None and attr.dtype not in by_text:
            yield f"attribute {key} has unknown dtype {attr.dtype}"
        elif attr.dtype is not None and memoryview(attr.data).nbytes != attr.nbytes:
            yield f"attribute {key} has {memoryview(attr.data).nbytes} bytes, its shape needs {attr.nbytes}"
    if lacks_weight(op):
        yield "attribute weight is missing, which the parameters announce"
    if _denies_bias(op):
        yield "attribute bias is there, but the parameters say bias=False"
    if _lacks_bias(op):
        yield "attribute bias is missing, which the parameters announce"
    for key, expected, actual in contradictions(op):
        yield f"attribute {key} has shape {actual}, the parameters say {expected}"


def _of_operand(operand: Operand, users: list[Operator], present: set[Operator]) -> Iterator[str]:
    if operand.dtype is not None and operand.dtype not in by_text:
        yield _unknown_dtype(operand)
    producer = operand.producer
    if producer is not None and (producer not in present or operand not in producer.outputs):
        yield f"operand {operand.name} has {producer.name} as its producer, which does not put it out"
    if Counter(operand.consumers) != Counter(users):
        listed, real = (sorted(x.name for x in side) for side in (operand.consumers, users))
        yield f"operand {operand.name} lists consumers {listed}, but is an input of {real}"


# -- weights ---------------------------------------------------------------------------------------------------

Shapes = Callable[[Mapping[str, Any]], Mapping[str, tuple[int, ...]]]


def _linear(p: Mapping[str, Any]) -> Mapping[str, tuple[int, ...]]:
    return {"weight": (p["out_features"], p["in_features"]), "bias": (p["out_features"],)}


def _convolution(rank: int, first: str = "out_channels", second: str = "in_channels") -> Shapes:
    return lambda p: {
        "weight": (p[first], p[second] // p["groups"], *per_axis(p["kernel_size"], rank)),
        "bias": (p["out_channels"],),
    }


def _features(name: str) -> Shapes:
    return lambda p: dict.fromkeys(("weight", "bias", "running_mean", "running_var"), tuple(per_axis(p[name])))


def _recurrent(gates: int) -> Shapes:
    """What depends on the input; the operator compares the other weights with the hidden size."""
    return lambda p: dict.fromkeys(
        ("weight_ih_l0", "weight_ih_l0_reverse"), (gates * p["hidden_size"], p["input_size"])
    )


def _attention(p: Mapping[str, Any]) -> Mapping[str, tuple[int, ...]]:
    n = p["embed_dim"]
    return {
        "in_proj_weight": (3 * n, n), "in_proj_bias": (3 * n,), "bias_k": (1, 1, n), "bias_v": (1, 1, n),
        "q_proj_weight": (n, n), "k_proj_weight": (n, p.get("kdim") or n), "v_proj_weight": (n, p.get("vdim") or n),
        "out_proj.weight": (n, n), "out_proj.bias": (n,),
    }  # fmt: skip


_SHAPES: dict[str, Shapes] = {
    "nn.Linear": _linear,
    "nn.Embedding": lambda p: {"weight": (p["num_embeddings"], p["embedding_dim"])},
    "nn.PReLU": _features("num_parameters"),
    "nn.GroupNorm": _features("num_channels"),
    "nn.LayerNorm": _features("normalized_shape"),
    "nn.RMSNorm": _features("normalized_shape"),
    "nn.LSTM": _recurrent(4),
    "nn.GRU": _recurrent(3),
    "nn.RNN": _recurrent(1),
    "nn.MultiheadAttention": _attention,
    **{f"nn.Conv{n}d": _convolution(n) for n in (1, 2, 3)},
    **{f"nn.ConvTranspose{n}d": _convolution(n, "in_channels", "out_channels") for n in (1, 2, 3)},
    **{f"nn.{kind}Norm{n}d": _features("num_features") for kind in ("Batch", "Instance") for n in (1, 2, 3)},
}
"""Operator type -> shapes of its weights, by name."""


def contradictions(op: Operator) -> Iterator[tuple[str, tuple[int, ...], tuple[int, ...]]]:
    """Weights of a module, each with the shape that its parameters tell and the one it has, where these differ.

    What parameters leave open is not asked; missing and mistyped ones are errors of the operator.
    """
    shapes = _SHAPES.get(op.type) if op.attrs else None
    if shapes is None:
        return
    try:
        expected = shapes(op.values())
    except (KeyError, TypeError, ZeroDivisionError):
        return
    for key, attr in op.attrs.items():
        if key in expected and isinstance(attr, Attribute) and tuple(attr.shape) != expected[key]:
            yield key, expected[key], tuple(attr.shape)


def lacks_weight(op: Operator) -> bool:
    """Whether a normalisation that says it has a weight comes without one."""
    if "Norm" not in op.type or op.type not in _SHAPES or op.has_attr("weight") or len(op.inputs) != 1:
        return False
    return any(op.value(key) is True for key in ("affine", "elementwise_affine"))


_BIASED = tuple(kind for kind in _SHAPES if kind == "nn.Linear" or "Conv" in kind)
"""Modules whose parameter of that name tells whether they have a bias."""


def _denies_bias(op: Operator) -> bool:
    """Whether a module comes with a bias that its parameters say it has not."""
    return op.type in _BIASED and op.has_attr("bias") and op.value("bias") is False


def _lacks_bias(op: Operator) -> bool:
    """Whether a module comes without the bias that its parameters announce; running it finds that, too."""
    return op.type in _BIASED and len(op.inputs) == 1 and not op.has_attr("bias") and op.value("bias") is True


def require_data(ops: Iterable[Operator]) -> None:
    """Raise for a weight without data, as graphs that were read from text have them.

    Raises
    ------
    ParameterError
        Naming the operator and the weight.
    """
    for op in ops:
        for key, attr in op.attrs.items():
            if not memoryview(attr.data).nbytes and attr.nbytes:
                reason = f"the weight {key!r} has no data; text alone has none, Graph.load reads it from a .bin file"
                raise ParameterError(reason, operator=op.where)


def require_weights(ops: Iterable[Operator]) -> None:
    """Raise for a module whose weights are missing, or have other shapes than its parameters say.

    Raises
    ------
    ParameterError, ShapeError
        Naming the operator and the weight.
    """
    for op in ops:
        if lacks_weight(op):
            raise ParameterError("the weight 'weight' is missing", operator=op.where)
        for key, expected, actual in contradictions(op):
            reason = f"the weight {key!r} contradicts the parameters"
            raise ShapeError(reason, operator=op.where, expected=expected, actual=actual)
