"""Which convolution kernel serves which shape."""

from __future__ import annotations

from typing import Any

from pnnx_fast.ops.symbolic import Builder

__all__ = ["choose"]


def choose(b: Builder, geometry: dict[str, Any]) -> tuple[str, str]:
    """Names of the kernel and of its packing kernel for the fields of a convolution."""
    if geometry["groups"] == geometry["ic"] and geometry["groups"] > 1 and geometry["oc"] % geometry["ic"] == 0:
        return "conv_depthwise_f32", "conv_depthwise_pack_f32"
    return "conv_f32", "conv_pack_f32"
