"""ONNX's recurrent layers, where the converter leaves them under their ONNX names.

Files say nothing of inputs that are left out, so those behind the weights are told by their shapes. What PyTorch's
layers do too is compiled; cells with other options run in numpy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pnnx_fast._types import Array
from pnnx_fast.errors import ParameterError, ShapeError
from pnnx_fast.ops._onnx_cells import Cell, activations, check_lengths, run_direction
from pnnx_fast.ops.recurrent import GATES, Stack, run_stack
from pnnx_fast.ops.registry import operator
from pnnx_fast.ops.shape import flip
from pnnx_fast.ops.symbolic import Builder, Results, Tensor, Value

ORDERS = {"lstm_f32": (0, 2, 3, 1), "gru_f32": (1, 0, 2), "rnn_f32": (0,)}
"""Blocks of rows of ONNX's weights in the order of PyTorch's: i o f c, and z r h."""

KINDS = {"lstm_f32": "LSTM", "gru_f32": "GRU", "rnn_f32": "RNN"}

USUAL = {"lstm_f32": ["sigmoid", "tanh", "tanh"], "gru_f32": ["sigmoid", "tanh"], "rnn_f32": ["tanh"]}


class Given:
    """Inputs behind the weights, told by their shapes: bias, lengths of sequences, initial states, peepholes."""

    __slots__ = ("bias", "lengths", "peepholes", "states")

    def __init__(self, tensors: Sequence[Tensor], dirs: int, gates: int, hidden: int, rows: int, steps: int) -> None:
        self.bias: Tensor | None = None
        self.lengths: Tensor | None = None
        self.peepholes: Tensor | None = None
        self.states: list[Tensor] = []
        for t in tensors:
            if t.ndim == 3:
                self.states.append(t)
            elif t.shape == (dirs, 2 * gates * hidden) and self.bias is None:
                self.bias = t
            elif t.shape == (rows,) and t.dtype.kind == "i":
                whole = t.is_constant and bool((t.numpy() == steps).all())
                self.lengths = None if whole else t
            elif t.shape == (dirs, 3 * hidden) and gates == GATES["lstm_f32"]:
                self.peepholes = t
            else:
                raise ShapeError("an input that fits nothing", operand="inputs", actual=list(t.shape))
        if len(self.states) == 1 and gates == GATES["lstm_f32"]:
            raise ParameterError("both initial states or none", parameter="initial_c")


def _names(kernel: str, dirs: int, given: Any) -> list[str]:
    """Names of the activations of all directions."""
    names = [given] if isinstance(given, str) else [str(v) for v in given or USUAL[kernel] * dirs]
    if len(names) != len(USUAL[kernel]) * dirs:
        raise ParameterError(f"{len(USUAL[kernel])} activations a direction", parameter="activations")
    return [name.lower() for name in names]


def _is_compiled(kernel: str, given: Given, names: list[str], dirs: int, options: Mapping[str, Any]) -> bool:
    """Whether the layers of PyTorch can do it."""
    usual = names == USUAL[kernel] * dirs or (kernel == "rnn_f32" and names == ["relu"] * dirs)
    late = kernel != "gru_f32" or options["linear_before_reset"]
    odd = given.lengths is not None or given.peepholes is not None or options["clip"] or options["input_forget"]
    return bool(usual and late and not odd)


def _weights(b: Builder, kernel: str, W: Tensor, R: Tensor, B: Tensor | None, hidden: int) -> dict[str, Tensor]:
    """PyTorch's weights of ONNX's."""
    dirs, gates = W.shape[0], GATES[kernel]
    rows = np.concatenate([np.arange(g * hidden, (g + 1) * hidden) for g in ORDERS[kernel]])
    found = {}
    for d, ending in enumerate(("", "_reverse")[:dirs]):
        parts = {"weight_ih": (W, 0), "weight_hh": (R, 0)}
        parts |= {} if B is None else {"bias_ih": (B, 0), "bias_hh": (B, gates * hidden)}
        for name, (whole, first) in parts.items():
            if not whole.is_constant:
                raise ParameterError("the weights must be constants", parameter=name)

            def make(whole: Tensor = whole, d: int = d, first: int = first) -> Array:
                return np.ascontiguousarray(whole.numpy()[d][rows + first])

            key = ("onnx recurrent", kernel, name, d, whole.identity)
            found[f"{name}_l0{ending}"] = b.cached(key, make)
    return found


def _layer(b: Builder, kernel: str, X: Tensor, W: Tensor, R: Tensor, rest: tuple[Any, ...], o: dict[str, Any]) -> Value:
    gates = GATES[kernel]
    if X.ndim != 3 or W.ndim != 3 or R.ndim != 3 or W.shape[0] not in (1, 2):
        raise ShapeError("inputs and weights have three dimensions", operand="X, W, R", actual=list(X.shape))
    dirs, hidden = W.shape[0], R.shape[2]
    if W.shape != (dirs, gates * hidden, X.shape[2]) or R.shape != (dirs, gates * hidden, hidden):
        raise ShapeError("the weights do not fit", operand="W, R", expected=X.shape[2], actual=list(W.shape))
    direction, layout = o["direction"] or "forward", o["layout"] or 0
    if (direction == "bidirectional") != (dirs == 2) or direction not in ("forward", "reverse", "bidirectional"):
        raise ParameterError(f"{direction!r} does not fit {dirs} direction(s)", parameter="direction")
    names = _names(kernel, dirs, o["activations"])
    # The batch comes first in all of them, or in none.
    rows, steps = X.shape[:2] if layout else X.shape[1::-1]
    given = Given([t for t in rest if isinstance(t, Tensor)], dirs, gates, hidden, rows, steps)
    if layout:
        given.states = [t.permute((1, 0, 2)) for t in given.states]
    if _is_compiled(kernel, given, names, dirs, o):
        weights = _weights(b, kernel, W, R, given.bias, hidden)
        stack = Stack(kernel, hidden, 1, dirs == 2, bool(layout), weights, relu=names[0] == "relu")
        y, *last = _compiled(b, stack, X, given.states, direction == "reverse")
    else:
        x = X.permute((1, 0, 2)) if layout else X
        y, *last = _in_numpy(b, KINDS[kernel], x, W, R, given, names, direction, o)
        y = y.permute((1, 0, 2, 3)) if layout else y
    whole = y if layout else y.permute((0, 2, 1, 3))
    return Results((whole, *(s if s is None or not layout else s.permute((1, 0, 2)) for s in last)))


def _compiled(b: Builder, stack: Stack, x: Tensor, states: Sequence[Tensor], back: bool) -> tuple[Any, ...]:
    """Outputs in the order of the input, with a dimension of directions, and last states."""
    time = 1 if stack.batch_first else 0
    h, c = (*states, None, None)[:2]
    y, *last = run_stack(b, stack, flip(b, x, dims=time) if back else x, h, c)
    y = flip(b, y, dims=time) if back else y
    return b.reshape(y, (*y.shape[:2], len(stack.suffixes), stack.hidden)), *last


def _in_numpy(
    b: Builder,
    kind: str,
    x: Tensor,
    W: Tensor,
    R: Tensor,
    given: Given,
    names: list[str],
    direction: str,
    options: Mapping[str, Any],
) -> tuple[Tensor, ...]:
    """The same of (steps, batch, features), with everything that ONNX allows."""
    dirs, hidden, (steps, rows) = W.shape[0], R.shape[2], x.shape[:2]
    alpha, beta = ([*np.atleast_1d(options[f"activation_{k}"] or ())] for k in ("alpha", "beta"))
    functions = activations(names, alpha, beta)
    each = len(names) // dirs
    extras = {key: options[key] for key in ("clip", "input_forget", "linear_before_reset")}
    optional = [given.bias, given.peepholes, given.lengths, *given.states]
    there = [t is not None for t in optional]

    def run(x: Array, w: Array, r: Array, *arrays: Array) -> tuple[Array, ...]:
        source = iter(arrays)
        bias, peepholes, lengths, *states = [next(source) if known else None for known in there]
        if lengths is not None:
            check_lengths(lengths, steps)
        h, c = (*states, None, None)[:2]
        zeros = np.zeros((dirs, rows, hidden), x.dtype)
        h, c = (zeros if s is None else s for s in (h, c))
        parts = []
        for d in range(dirs):
            own = [None if part is None else part[d] for part in (bias, peepholes)]
            cell = Cell(kind, functions[d * each : (d + 1) * each], (w[d], r[d]), *own, **extras)
            parts.append(run_direction(cell, x, lengths, h[d], c[d], direction == "reverse" or d == 1))
        y, h, c = (np.stack(part, axis) for part, axis in zip(zip(*parts, strict=True), (2, 0, 0), strict=True))
        return (y, h, c) if kind == "LSTM" else (y, h)

    state = ((dirs, rows, hidden), x.dtype)
    results = [((steps, rows, dirs, hidden), x.dtype), state, *([state] if kind == "LSTM" else [])]
    return tuple(b.host(run, [x, W, R, *(t for t in optional if t is not None)], results))


def _recurrent(kernel: str, what: str, name: str) -> None:
    def layer(
        b: Builder,
        X: Tensor,
        W: Tensor,
        R: Tensor,
        *rest: Any,
        activation_alpha: Any = None,
        activation_beta: Any = None,
        activations: Any = None,
        clip: float | None = None,
        direction: str = "forward",
        hidden_size: int | None = None,
        input_forget: bool = False,
        layout: int = 0,
        linear_before_reset: bool = False,
    ) -> Value:
        options = {
            "activation_alpha": activation_alpha, "activation_beta": activation_beta, "activations": activations,
            "clip": clip, "direction": direction, "input_forget": input_forget, "layout": layout,
            "linear_before_reset": linear_before_reset,
        }  # fmt: skip
        return _layer(b, kernel, X, W, R, rest, options)

    layer.__doc__ = f"A layer of {what}, in one direction or both. ONNX, torch.nn.{name}."
    operator(name)(layer)


_recurrent("lstm_f32", "long short-term memory cells", "LSTM")
_recurrent("gru_f32", "gated recurrent units", "GRU")
_recurrent("rnn_f32", "plain recurrent units", "RNN")
