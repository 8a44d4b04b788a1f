"""The step that maps the channels of an image: batch and group norms, and products with a gate."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pnnx_fast.ops.symbolic import Builder, Tensor

__all__ = ["emit_channels"]


def emit_channels(
    b: Builder,
    kernel: str,
    x: Tensor,
    y: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    act: Mapping[str, Any],
    groups: int = 1,
    eps: float = 0.0,
) -> None:
    """Emit a kernel of kind ``channels`` from float32 (n, c, …) to ``y``; weight and bias have c dense numbers."""
    b.step(
        kernel,
        flops=8 * x.size,
        inplace=(y, x),
        x=x, w=weight, b=bias, y=y, n=x.shape[0], c=x.shape[1],
        rank=x.ndim - 2, shape=x.shape[2:], xs=x.strides, ys=y.strides, groups=groups, eps=eps, **act,
    )  # fmt: skip
