"""Activations that kernels apply before they store a result: names, codes and parameters.

Kernels take ``act``, ``act_a`` and ``act_b``; fused operators carry ``activation`` (a name of this table) and
``activation_params``. This module also recognises the graph operators that are such an activation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pnnx_fast._core.program import codes
from pnnx_fast.errors import ParameterError

__all__ = ["CODES", "activation_fields", "recognize"]

CODES = codes("activation")


def activation_fields(name: str, parameters: float | Sequence[float] = ()) -> dict[str, Any]:
    """Kernel fields ``act``, ``act_a``, ``act_b`` of a fused activation."""
    if name not in CODES:
        raise ParameterError(f"unknown activation {name!r}", parameter="activation")
    values = [parameters] if isinstance(parameters, (int, float)) else parameters
    a, b = [*values, 0.0, 0.0][:2]
    return {"act": CODES[name], "act_a": float(a), "act_b": float(b)}


Recognizer = Callable[[Mapping[str, Any]], "tuple[str, list[float]] | None"]


def _plain(name: str) -> Recognizer:
    return lambda params: (name, []) if not params else None


def _clip(params: Mapping[str, Any]) -> tuple[str, list[float]] | None:
    low, high = params.get("min_val", -1.0), params.get("max_val", 1.0)
    if params.keys() - {"min_val", "max_val"} or not all(isinstance(v, (int, float)) for v in (low, high)):
        return None
    return "clip", [float(low), float(high)]


def _leaky(params: Mapping[str, Any]) -> tuple[str, list[float]] | None:
    slope = params.get("negative_slope", 0.01)
    return ("leaky_relu", [float(slope)]) if isinstance(slope, (int, float)) else None


def _gelu(params: Mapping[str, Any]) -> tuple[str, list[float]] | None:
    names = {"none": "gelu", "tanh": "gelu_tanh"}
    name = names.get(str(params.get("approximate") or "none"))
    return (name, []) if name else None


_RECOGNIZERS: dict[str, Recognizer] = {
    **dict.fromkeys(("nn.ReLU", "F.relu"), _plain("relu")),
    **dict.fromkeys(("nn.ReLU6", "F.relu6"), lambda params: ("clip", [0.0, 6.0])),
    **dict.fromkeys(("nn.Sigmoid", "F.sigmoid"), _plain("sigmoid")),
    **dict.fromkeys(("nn.SiLU", "F.silu"), _plain("silu")),
    **dict.fromkeys(("nn.Hardswish", "F.hardswish"), _plain("hardswish")),
    **dict.fromkeys(("nn.Hardsigmoid", "F.hardsigmoid"), _plain("hardsigmoid")),
    **dict.fromkeys(("nn.Tanh", "F.tanh"), _plain("tanh")),
    **dict.fromkeys(("nn.Mish", "F.mish"), _plain("mish")),
    **dict.fromkeys(("nn.Hardtanh", "F.hardtanh"), _clip),
    **dict.fromkeys(("nn.LeakyReLU", "F.leaky_relu"), _leaky),
    **dict.fromkeys(("nn.GELU", "F.gelu"), _gelu),
}


def recognize(kind: str, params: Mapping[str, Any]) -> tuple[str, list[float]] | None:
    """Name and parameters of the activation that an operator type with these parameters is, None if it is none."""
    recognizer = _RECOGNIZERS.get(kind)
    return recognizer(params) if recognizer else None
