"""The shapes that the parameters of modules give their weights: a model whose weights contradict them is refused.

Kernels take sizes from the weights, so a weight that is too large would otherwise be used in part, without a word.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from pnnx_fast.errors import ParameterError, ShapeError
from pnnx_fast.ir.attribute import Attribute
from pnnx_fast.ir.operator import Operator

__all__ = ["contradictions", "lacks_weight", "require_weights"]

Shapes = Callable[[Mapping[str, Any]], Mapping[str, tuple[int, ...]]]


def _sizes(value: Any, rank: int = 1) -> tuple[int, ...]:
    """A size for every dimension, of which one may stand for all."""
    return tuple(value) if isinstance(value, (list, tuple)) else (value,) * rank


def _linear(p: Mapping[str, Any]) -> Mapping[str, tuple[int, ...]]:
    return {"weight": (p["out_features"], p["in_features"]), "bias": (p["out_features"],)}


def _convolution(rank: int, first: str = "out_channels", second: str = "in_channels") -> Shapes:
    return lambda p: {
        "weight": (p[first], p[second] // p["groups"], *_sizes(p["kernel_size"], rank)),
        "bias": (p["out_channels"],),
    }


def _features(name: str) -> Shapes:
    return lambda p: dict.fromkeys(("weight", "bias", "running_mean", "running_var"), _sizes(p[name]))


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
        expected = shapes({key: parameter.value for key, parameter in op.params.items()})
    except (KeyError, TypeError, ZeroDivisionError):
        return
    for key, attr in op.attrs.items():
        if key in expected and isinstance(attr, Attribute) and tuple(attr.shape) != expected[key]:
            yield key, expected[key], tuple(attr.shape)


def lacks_weight(op: Operator) -> bool:
    """Whether a normalisation that says it has a weight comes without one."""
    if "Norm" not in op.type or op.type not in _SHAPES or op.has_attr("weight") or len(op.inputs) != 1:
        return False
    return any(key in op.params and op.params[key].value is True for key in ("affine", "elementwise_affine"))


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
