"""Convolutions, attention and recurrent cells of float64, a type that is wanted for its accuracy.

The functions emit what the kernels' emitters do for float32, into the same tensors.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pnnx_fast._types import Array, Shape
from pnnx_fast.errors import ShapeError
from pnnx_fast.expression.activations import CODES
from pnnx_fast.expression.reference import sigmoid
from pnnx_fast.ops._conv_parts import Convolution
from pnnx_fast.ops._epilogue import finish
from pnnx_fast.ops._window import window_fields
from pnnx_fast.ops.linear import multiply
from pnnx_fast.ops.symbolic import Builder, Tensor

__all__ = ["attend_double", "convolve_double", "run_cells"]


def convolve_double(b: Builder, c: Convolution) -> None:
    """Emit one convolution; the sizes of its result tell how many zeros lie behind the input."""
    x, weight, bias, residual, y, stride, before, dilation, groups, act = c
    if not y.size:
        return
    if x.shape[1] != weight.shape[1] * groups:
        raise ShapeError("channels do not fit the weight", expected=weight.shape[1] * groups, actual=x.shape)
    plain = residual is None and act["act"] == CODES["none"]
    made = y if plain else b.empty(y.shape, y.dtype, "channels_last")
    window: dict[str, Any] = {"stride": (1, *stride), "before": (0, *before), "dilation": (1, *dilation)}
    ends = (b.channels_last(x), made)
    if x.ndim == 5:
        window = {key: value[1:] for key, value in window.items()}
    source, target = (t if t.ndim == 5 else t.unsqueeze(2) for t in ends)
    taps = weight.shape[2:] if x.ndim == 5 else (1, *weight.shape[2:])
    fields = window_fields(source, target, None, taps, **window, groups=groups, act=act)
    plan = b.plan("conv_f64", **fields)
    added = None if bias is None else b.contiguous(bias)
    b.step(
        "conv_f64", x=source, y=target, w=_columns(b, weight, groups), bias=added,
        scratch=b.scratch(plan.scratch_bytes), **fields, **plan.chosen,
        flops=2 * y.size * math.prod(weight.shape[1:]), label=plan.label,
    )  # fmt: skip
    if not plain:
        b.copy(finish(b, made, residual, act), y)


def _columns(b: Builder, weight: Tensor, groups: int) -> Tensor:
    """A weight (oc, ic / groups, taps…) as the kernel reads it: (group, taps…, ic / groups, oc / groups), dense."""
    each, (outputs, *strides) = weight.shape[0] // groups, weight.strides
    split = weight.as_strided((groups, each, *weight.shape[1:]), (each * outputs, outputs, *strides))
    taps = range(3, split.ndim)
    if each == 1 and weight.shape[1] == 1:
        return b.contiguous(split.permute([*taps, 0, 1, 2]))
    return b.contiguous(split.permute([0, *taps, 2, 1]))


def attend_double(
    b: Builder,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    y: Tensor,
    mask: Tensor | None,
    scale: float,
    causal: bool,
    mask_drops: bool,
    filling: float | None,
    empty_nan: bool,
) -> None:
    """Emit softmax(scale q kᵀ + mask) v, as ``attend`` says."""

    batch, heads, queries, _ = q.shape
    groups, keys = k.shape[1:3]

    def weigh(scores: Array, *masks: Array) -> Array:
        for m in masks:
            if m.ndim == 5:
                m = np.concatenate([m[0]] * (len(scores) // m.shape[1]))
            hidden = np.where(m ^ mask_drops, 0.0, -np.inf) if m.dtype == np.bool_ else m.astype(np.float64)
            scores = scores + hidden if filling is None else np.where(m, filling, scores)
        if causal:
            scores = np.where(np.tri(*scores.shape[-2:]) > 0, scores, -np.inf)
        top = scores.max(-1, keepdims=True, initial=-np.inf)
        shares = np.exp(scores - np.where(top == -np.inf, 0.0, top))
        total = shares.sum(-1, keepdims=True)
        return np.asarray(shares / np.where(total == 0, np.nan if empty_nan else 1.0, total))

    def grouped(rows: int, columns: int) -> Shape:
        return (batch, groups, heads // max(1, groups), rows, columns)

    if not keys:
        b.copy(b.constant(np.array(np.nan if empty_nan else 0.0)).expand(y.shape), y)
        return
    rows = b.reshape(q, grouped(queries, q.shape[3]))
    columns, values = k.permute((0, 1, 3, 2)).unsqueeze(2), v.unsqueeze(2)
    scores = multiply(b, rows, columns, alpha=scale, y=b.empty(grouped(queries, keys), np.float64))
    every = b.reshape(scores, (batch, heads, queries, keys))
    shares = b.host(weigh, [every] if mask is None else [every, mask], [(every.shape, np.float64)])[0]
    made = b.empty(grouped(queries, v.shape[3]), np.float64)
    multiply(b, b.reshape(shares, scores.shape), values, y=made)
    b.copy(b.reshape(made, y.shape), y)


def run_cells(
    kind: str, x: Array, weights: Mapping[str, Array], states: Sequence[Array], backward: bool, time: int
) -> tuple[Array, Array]:
    """Outputs of one direction of a recurrent layer (lstm, gru, rnn, or relu for an rnn), and its last cell state."""
    steps = np.moveaxis(x, time, 0)
    w_hh, w_hr = weights["weight_hh"], weights.get("weight_hr")
    hidden = w_hh.shape[0] // {"lstm": 4, "gru": 3}.get(kind, 1)
    h = states[0] if states else np.zeros((steps.shape[1], w_hh.shape[1]))
    c = states[1] if len(states) > 1 else np.zeros((steps.shape[1], hidden))
    inputs = steps @ weights["weight_ih"].T + weights.get("bias_ih", 0.0)
    outputs = np.empty((*steps.shape[:2], w_hh.shape[1]))
    for t in reversed(range(len(steps))) if backward else range(len(steps)):
        own = h @ w_hh.T + weights.get("bias_hh", 0.0)
        a, o = (np.split(part, part.shape[1] // hidden, 1) for part in (inputs[t], own))
        if kind == "lstm":
            c = sigmoid(a[1] + o[1]) * c + sigmoid(a[0] + o[0]) * np.tanh(a[2] + o[2])
            h = sigmoid(a[3] + o[3]) * np.tanh(c)
            h = h if w_hr is None else h @ w_hr.T
        elif kind == "gru":
            update = sigmoid(a[1] + o[1])
            h = (1 - update) * np.tanh(a[2] + sigmoid(a[0] + o[0]) * o[2]) + update * h
        else:
            h = np.maximum(a[0] + o[0], 0) if kind == "relu" else np.tanh(a[0] + o[0])
        outputs[t] = h
    return np.moveaxis(outputs, 0, time), c
