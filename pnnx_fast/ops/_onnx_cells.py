"""Recurrent cells of ONNX in numpy, with all that the compiled layers do without: several lengths, peepholes, bounds, a
reset gate before the product, other activations.

Names and formulas are those of the ONNX operators LSTM, GRU and RNN.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pnnx_fast._types import Array
from pnnx_fast.errors import ParameterError
from pnnx_fast.expression import reference as ref

__all__ = ["ACTIVATIONS", "Cell", "activations", "check_lengths", "run_direction"]

Activation = Callable[[Array], Array]


ACTIVATIONS: dict[str, tuple[Callable[[Array, Any, Any], Array], float, float]] = {
    "sigmoid": (lambda x, a, b: ref.sigmoid(x), 0.0, 0.0),
    "tanh": (lambda x, a, b: np.tanh(x), 0.0, 0.0),
    "relu": (lambda x, a, b: np.maximum(x, 0), 0.0, 0.0),
    "affine": (lambda x, a, b: a * x + b, 1.0, 0.0),
    "leakyrelu": (lambda x, a, b: ref.leaky_relu(x, a), 0.01, 0.0),
    "thresholdedrelu": (lambda x, a, b: np.where(x > a, x, 0), 1.0, 0.0),
    "scaledtanh": (lambda x, a, b: a * np.tanh(b * x), 1.0, 1.0),
    "hardsigmoid": (lambda x, a, b: np.clip(a * x + b, 0, 1), 0.2, 0.5),
    "elu": (lambda x, a, b: ref.elu(x, a), 1.0, 0.0),
    "softsign": (lambda x, a, b: ref.softsign(x), 0.0, 0.0),
    "softplus": (lambda x, a, b: np.logaddexp(x, 0), 0.0, 0.0),
}
"""Functions of a value, alpha and beta, and what these two are where nothing is said, as for the ONNX operators."""

WITH_ALPHA = {"affine", "leakyrelu", "thresholdedrelu", "scaledtanh", "hardsigmoid", "elu"}
WITH_BETA = {"affine", "scaledtanh", "hardsigmoid"}


def activations(names: Sequence[str], alpha: Sequence[float], beta: Sequence[float]) -> list[Activation]:
    """Functions of these names; each takes the next alpha and beta, as far as there are some and it has such a one."""
    alphas, betas = iter(alpha), iter(beta)
    found: list[Activation] = []
    for name in names:
        if name.lower() not in ACTIVATIONS:
            raise ParameterError(f"unknown activation {name!r}", parameter="activations")
        function, a, b = ACTIVATIONS[name.lower()]
        a = next(alphas, a) if name.lower() in WITH_ALPHA else a
        b = next(betas, b) if name.lower() in WITH_BETA else b
        found.append(lambda x, function=function, a=a, b=b: function(x, a, b))  # type: ignore[misc]
    return found


class Cell:
    """What a direction computes with: its kind, functions, options and weights (rows in ONNX's order of gates)."""

    __slots__ = ("bound", "coupled", "functions", "kind", "peepholes", "reset_late", "w", "wb", "r", "rb")

    def __init__(
        self,
        kind: str,
        functions: Sequence[Activation],
        weights: Sequence[Array],
        bias: Array | None,
        peepholes: Array | None = None,
        *,
        clip: float | None = None,
        input_forget: bool = False,
        linear_before_reset: bool = False,
    ) -> None:
        self.kind, self.functions, (self.w, self.r) = kind, functions, weights
        self.wb, self.rb = np.zeros((2, len(self.w)), self.w.dtype) if bias is None else np.split(bias, 2)
        self.peepholes = (0.0, 0.0, 0.0) if peepholes is None else np.split(peepholes, 3)
        self.bound, self.coupled, self.reset_late = clip, input_forget, linear_before_reset

    def step(self, x: Array, h: Array, c: Array) -> tuple[Array, Array]:
        """States after one step; ``x`` is its input's product with the weights, and their bias."""
        return {"LSTM": self._lstm, "GRU": self._gru, "RNN": self._rnn}[self.kind](x, h, c)

    def _clipped(self, x: Array) -> Array:
        return x if not self.bound else np.clip(x, -self.bound, self.bound)

    def _lstm(self, x: Array, h: Array, c: Array) -> tuple[Array, Array]:
        f, g, last = self.functions
        i, o, forget, new = np.split(x + h @ self.r.T + self.rb, 4, 1)
        p_input, p_output, p_forget = self.peepholes
        i = f(self._clipped(i + p_input * c))
        forget = 1 - i if self.coupled else f(self._clipped(forget + p_forget * c))
        c = forget * c + i * g(self._clipped(new))
        return f(self._clipped(o + p_output * c)) * last(c), c

    def _gru(self, x: Array, h: Array, c: Array) -> tuple[Array, Array]:
        f, g = self.functions
        n = h.shape[1]
        update, reset = np.split(x[:, : 2 * n] + h @ self.r[: 2 * n].T + self.rb[: 2 * n], 2, 1)
        update, reset = f(self._clipped(update)), f(self._clipped(reset))
        inner, bias = self.r[2 * n :].T, self.rb[2 * n :]
        own = reset * (h @ inner + bias) if self.reset_late else (reset * h) @ inner + bias
        return (1 - update) * g(self._clipped(x[:, 2 * n :] + own)) + update * h, c

    def _rnn(self, x: Array, h: Array, c: Array) -> tuple[Array, Array]:
        return self.functions[0](self._clipped(x + h @ self.r.T + self.rb)), c


def run_direction(cell: Cell, x: Array, lengths: Array | None, h: Array, c: Array, backward: bool) -> tuple[Array, ...]:
    """Outputs (steps, batch, hidden) and last states of one direction; behind its length a sequence gives zeros."""
    steps, rows = x.shape[:2]
    y = np.zeros((steps, rows, h.shape[1]), x.dtype)
    inputs = x @ cell.w.T + cell.wb
    ends = np.full(rows, steps) if lengths is None else lengths
    for t in reversed(range(steps)) if backward else range(steps):
        live = (t < ends)[:, None]
        new_h, new_c = cell.step(inputs[t], h, c)
        h, c = np.where(live, new_h, h), np.where(live, new_c, c)
        y[t] = np.where(live, new_h, 0)
    return y, h, c


def check_lengths(lengths: Array, steps: int) -> None:
    """Raise unless sequences have 0 to ``steps`` entries."""
    if lengths.size and not 0 <= int(lengths.min()) <= int(lengths.max()) <= steps:
        raise ParameterError(f"sequences have 0 to {steps} entries", parameter="sequence_lens")
