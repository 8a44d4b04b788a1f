"""Reductions over dimensions, and the indexes of the largest values."""

from __future__ import annotations

from typing import Any

from pnnx_fast.errors import ParameterError, ShapeError
from pnnx_fast.ir import Operand
from pnnx_fast.ncnn.layers.registry import Build, layer
from pnnx_fast.ncnn.layers.shape import axis_of
from pnnx_fast.ncnn.tracer import Tracer, number, shape_of
from pnnx_fast.ncnn.values import Params, Weights

# What is done before, which operator reduces, with which parameters, and what is done after.
_OPERATIONS: tuple[tuple[str, str, dict[str, Any], str], ...] = (
    ("", "torch.sum", {}, ""),
    ("", "torch.norm", {"p": 1.0}, ""),
    ("square(@0)", "torch.sum", {}, ""),
    ("", "torch.mean", {}, ""),
    ("", "torch.amax", {}, ""),
    ("", "torch.amin", {}, ""),
    ("", "torch.prod", {}, ""),
    ("", "torch.norm", {"p": 1.0}, ""),
    ("", "torch.norm", {"p": 2.0}, ""),
    ("", "torch.sum", {}, "log(@0)"),
    ("", "torch.logsumexp", {}, ""),
)


@layer("Reduction")
def reduction(p: Params, w: Weights) -> Build:
    """Sum, mean, extreme, product, norm or logarithm over dimensions."""
    before, name, params, after = _OPERATIONS[p.choice(0, 0, len(_OPERATIONS))]
    everything, coefficient, axes, keep = p.flag(1, 1), p.float(2, 1.0), p.ints(3), p.flag(4)
    if not p.flag(5) and axes:
        raise ParameterError("the file is too old: its reduction axes count the batch")

    def build(t: Tracer, x: Operand) -> Operand:
        rank = len(shape_of(x)) - 1
        dims = list(range(1, rank + 1)) if everything or rank == 1 else sorted({axis_of(a, x) for a in axes})
        y = t.expression(before, x) if before else x
        kept = keep
        if not dims:
            # Axes that are only the batch's, which the file leaves out: each value is reduced by itself.
            y, dims, kept = t.reshape(y, (*shape_of(y), 1)), [rank + 1], False
        if name == "torch.prod":
            for d in reversed(dims):
                y = t.emit(name, y, dim=d, keepdim=kept)
        else:
            y = t.emit(name, y, dim=dims, keepdim=kept, **params)
        if len(shape_of(y)) == 1:
            y = t.reshape(y, (shape_of(y)[0], 1))
        if after:
            y = t.expression(after, y)
        return y if coefficient == 1.0 else t.expression(f"mul(@0,{number(coefficient)})", y)

    return build


@layer("ArgMax")
def arg_max(p: Params, w: Weights) -> Build:
    """Indexes of the largest values of the whole blob, with the values if wanted."""
    values, count = p.flag(0), p.count(1, 1)

    def build(t: Tracer, x: Operand) -> Operand:
        flat = t.flatten(x)
        n, size = shape_of(flat)
        if count > size:
            raise ShapeError("more values than there are", expected=f"<= {size}", actual=count)
        best, index = t.emit_many("torch.topk", 2, flat, k=count, dim=1, largest=True, sorted=True)
        index = t.reshape(t.cast(index), (n, 1, count))
        return t.concat([t.reshape(best, (n, 1, count)), index], 1) if values else index

    return build
