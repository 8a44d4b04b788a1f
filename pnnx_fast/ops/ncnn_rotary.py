"""Rotary embeddings, which ncnn has as a layer. Used by nets of ``pnnx_fast.ncnn`` only."""

from __future__ import annotations

from typing import Any

import numpy as np

from pnnx_fast.errors import ShapeError
from pnnx_fast.ops.attention import dense_rows
from pnnx_fast.ops.registry import operator
from pnnx_fast.ops.symbolic import Builder, Tensor


@operator("ncnn.RotaryEmbed")
def rotary_embed(b: Builder, input: Tensor, cos: Tensor, sin: Tensor, *, neighbours: bool) -> Tensor:
    """Rows of (n, heads, rows, 2 half) turned by angles (n, rows, half): pairs of neighbours, or of both halves."""
    if input.ndim != 4 or input.shape[3] % 2:
        raise ShapeError("rows of pairs, by head", expected="(n, heads, rows, even)", actual=input.shape)
    n, heads, rows, size = input.shape
    for name, x in (("cos", cos), ("sin", sin)):
        if x.shape != (n, rows, size // 2):
            raise ShapeError("angles of each pair", operand=name, expected=(n, rows, size // 2), actual=x.shape)
    x, c, s = (dense_rows(b, b.cast(t, np.float32)) for t in (input, cos, sin))
    y = b.result(input.shape, np.float32)
    fields: dict[str, Any] = {"n": n, "heads": heads, "rows": rows, "half": size // 2, "neighbours": int(neighbours)}
    for name, t in {"x": x, "y": y}.items():
        fields |= dict(zip((f"{name}sn", f"{name}sh", f"{name}sr"), t.strides[:3], strict=True))
    for name, t in {"c": c, "s": s}.items():
        fields |= dict(zip((f"{name}sn", f"{name}sr"), t.strides[:2], strict=True))
    b.step("rotary_f32", x=x, c=c, s=s, y=y, **fields, flops=3 * y.size)
    return y
