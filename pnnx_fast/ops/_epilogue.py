"""What kernels do to the result of a layer before they store it, as expressions: for float64, whose kernels do not, and
for residuals that are larger than the result.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pnnx_fast.expression.activations import CODES
from pnnx_fast.ops.elementwise import intermediate
from pnnx_fast.ops.symbolic import Builder, Tensor

__all__ = ["finish"]

ACTIVATIONS = {code: f"{name}(@0)" for name, code in CODES.items()}
ACTIVATIONS |= {CODES["none"]: "", CODES["clip"]: "clamp(@0,@1,@2)", CODES["leaky_relu"]: "leaky_relu(@0,@1)"}
"""Expressions of the kernels' activations; the numbers behind the tensor are their parameters."""


def finish(b: Builder, y: Tensor, residual: Tensor | None, act: Mapping[str, Any]) -> Tensor:
    """Return ``y`` plus a residual, which broadcast to each other, and activated before or after that."""
    steps: list[tuple[str, list[Any]]] = [(ACTIVATIONS[act["act"]], [act["act_a"], act["act_b"]])]
    if residual is not None:
        steps.insert(len(steps) if act.get("z_late") else 0, ("add(@0,@1)", [residual]))
    for text, more in steps:
        y = intermediate(b, text, y, *more) if text else y
    return y
