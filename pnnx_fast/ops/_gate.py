"""Gated units: products of one half of an image's channels with the other half, activated. Used by expressions, of
which they are the case that may join convolutions in a chain."""

from __future__ import annotations

from collections.abc import Sequence

from pnnx_fast.expression.activations import activation_fields
from pnnx_fast.expression.tree import Call, Input, Node
from pnnx_fast.ops._window import window_fields
from pnnx_fast.ops.symbolic import Builder, Tensor, Value

__all__ = ["gate"]

ACTIVATIONS = {"sigmoid", "silu", "gelu", "tanh"}
"""Functions of a gate, which bear the same name in expressions and among activations of kernels."""

ONE = (1, 1)
"""The window of a gate, in the words of convolutions, whose chains it may join."""


def gate(b: Builder, node: Node, inputs: Sequence[Value], last: bool) -> Tensor | None:
    """Emit an expression over ``inputs`` as a gated unit, if that is what it is: halves of channels-last images."""
    found = _factors(node, inputs)
    if found is None:
        return None
    x, other, activation = found
    low, high = (x, other) if x.offset < other.offset else (other, x)
    images, channels, height, width = x.shape
    if high.offset - low.offset != 4 * channels or channels == 1 or x.size == 0:
        return None
    both = Tensor(low.buffer, (images, 2 * channels, height, width), low.dtype, low.strides, low.offset)
    y = (b.result if last else b.empty)(x.shape, x.dtype, "channels_last")
    b.step(
        "gate_f32",
        x=both,
        y=y,
        first=int(low is other),
        flops=y.size,
        label=activation,
        variant=0,
        **window_fields(both, y, None, ONE, ONE, (0, 0), ONE, 1, activation_fields(activation)),
    )
    return y


def _factors(node: Node, inputs: Sequence[Value]) -> tuple[Tensor, Tensor, str] | None:
    """The plain factor, the one that may be activated, and how."""
    if not isinstance(node, Call) or node.name != "mul" or len(node.children) != 2:
        return None
    left, right = node.children
    if isinstance(left, Call):
        left, right = right, left
    activation = "none"
    if isinstance(right, Call) and right.name in ACTIVATIONS and len(right.children) == 1:
        activation, right = right.name, right.children[0]
    if not (isinstance(left, Input) and isinstance(right, Input)):
        return None
    x, other = inputs[left.index], inputs[right.index]
    if not (isinstance(x, Tensor) and isinstance(other, Tensor) and x.buffer is other.buffer and x.ndim == 4):
        return None
    same = x.shape == other.shape and x.strides == other.strides and x.dtype == other.dtype == "float32"
    return (x, other, activation) if same and x.strides[1] == 1 else None
