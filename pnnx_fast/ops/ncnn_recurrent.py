"""Recurrent layers of quantised ncnn models: the state is rounded to int8 before every step. numpy steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pnnx_fast._types import Array
from pnnx_fast.ops.registry import operator
from pnnx_fast.ops.symbolic import Builder, Tensor, Value


def _rounded(h: Array) -> Array:
    """A state (n, size) after rounding to int8 with a scale of its own for each of the batch."""
    largest = np.abs(h).max(1, keepdims=True)
    scale = np.where(largest == 0, 1, 127 / np.where(largest == 0, 1, largest)).astype(np.float32)
    scaled = h * scale
    kept: Array = np.clip(np.trunc(scaled + np.copysign(np.float32(0.5), scaled)), -127, 127) / scale
    return kept


def _sigmoid(x: Array) -> Array:
    with np.errstate(over="ignore"):
        y: Array = 1 / (1 + np.exp(-x))
    return y


def _lstm(x: Array, r: Array, bias: Array, h: Array, c: Array) -> tuple[Array, Array]:
    """One step: inputs and state times weights, the old cell; returns state and cell."""
    i, f, g, o = np.split(x + r + bias, 4, 1)
    c = _sigmoid(f) * c + _sigmoid(i) * np.tanh(g)
    return _sigmoid(o) * np.tanh(c), c


def _gru(x: Array, r: Array, bias: Array, h: Array, c: Array) -> tuple[Array, Array]:
    (xr, xz, xn), (rr, rz, rn) = np.split(x, 3, 1), np.split(r + bias, 3, 1)
    z = _sigmoid(xz + rz)
    n = np.tanh(xn + _sigmoid(xr + rr) * rn)
    return (1 - z) * n + z * h, c


def _rnn(x: Array, r: Array, bias: Array, h: Array, c: Array) -> tuple[Array, Array]:
    return np.tanh(x + r + bias), c


Step = Callable[[Array, Array, Array, Array, Array], tuple[Array, Array]]


def _emit(b: Builder, step: Step, x: Tensor, states: list[Tensor | None], o: dict[str, Any]) -> Value:
    """Emit one layer of one or two directions as a numpy step; returns the output and the last states."""
    n, length, _ = x.shape
    directions, hidden = 2 if o["bidirectional"] else 1, o["hidden_size"]
    outputs = o.get("proj_size") or hidden
    names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh", "weight_hr")
    weights = {k: v.numpy() for k, v in o["weights"].items()}
    has_cell = step is _lstm
    given = [s for s in states if s is not None]

    def run(sequence: Array, *initial: Array) -> tuple[Array, ...]:
        y = np.empty((n, length, directions * outputs), np.float32)
        last_h = np.zeros((directions, n, outputs), np.float32)
        last_c = np.zeros((directions, n, hidden), np.float32)
        for d in range(directions):
            w = [weights.get(f"{name}_l0{'_reverse' if d else ''}") for name in names]
            h = initial[0][d] if initial else last_h[d]
            c = initial[1][d] if len(initial) > 1 else last_c[d]
            projected = sequence @ w[0].T + w[2]  # type: ignore[union-attr]
            for t in range(length)[:: -1 if d else 1]:
                h, c = step(projected[:, t], _rounded(h) @ w[1].T, w[3], h, c)  # type: ignore[union-attr, arg-type]
                h = h if w[4] is None else h @ w[4].T
                y[:, t, d * outputs : (d + 1) * outputs] = h
            last_h[d], last_c[d] = h, c
        return (y, last_h, last_c) if has_cell else (y, last_h)

    shapes = [(n, length, directions * outputs), (directions, n, outputs), (directions, n, hidden)]
    results = b.host(run, [x, *given], [(s, np.float32) for s in shapes[: 3 if has_cell else 2]])
    return tuple(results)


@operator("ncnn.LSTMInt8", native=False)
def lstm_int8(
    b: Builder,
    input: Tensor,
    initial_h: Tensor | None = None,
    initial_c: Tensor | None = None,
    *,
    input_size: int,
    hidden_size: int,
    num_layers: int = 1,
    bias: bool = True,
    batch_first: bool = True,
    bidirectional: bool = False,
    proj_size: int = 0,
    **weights: Tensor,
) -> Value:
    """Long short-term memory with states rounded to int8."""
    o = {"hidden_size": hidden_size, "bidirectional": bidirectional, "proj_size": proj_size, "weights": weights}
    return _emit(b, _lstm, input, [initial_h, initial_c], o)


@operator("ncnn.GRUInt8", native=False)
def gru_int8(
    b: Builder,
    input: Tensor,
    initial_h: Tensor | None = None,
    *,
    input_size: int,
    hidden_size: int,
    num_layers: int = 1,
    bias: bool = True,
    batch_first: bool = True,
    bidirectional: bool = False,
    **weights: Tensor,
) -> Value:
    """Gated recurrent unit with states rounded to int8."""
    o = {"hidden_size": hidden_size, "bidirectional": bidirectional, "weights": weights}
    return _emit(b, _gru, input, [initial_h], o)


@operator("ncnn.RNNInt8", native=False)
def rnn_int8(
    b: Builder,
    input: Tensor,
    initial_h: Tensor | None = None,
    *,
    input_size: int,
    hidden_size: int,
    num_layers: int = 1,
    nonlinearity: str = "tanh",
    bias: bool = True,
    batch_first: bool = True,
    bidirectional: bool = False,
    **weights: Tensor,
) -> Value:
    """Plain recurrent unit with states rounded to int8."""
    o = {"hidden_size": hidden_size, "bidirectional": bidirectional, "weights": weights}
    return _emit(b, _rnn, input, [initial_h], o)
