"""ONNX's recurrent layers, where the converter leaves them under their ONNX names.

Files say nothing of inputs that are left out, so those behind the weights are told by their shapes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pnnx_fast._types import Array
from pnnx_fast.errors import ParameterError, ShapeError
from pnnx_fast.ops.recurrent import GATES, Stack, run_stack
from pnnx_fast.ops.registry import operator
from pnnx_fast.ops.shape import flip
from pnnx_fast.ops.symbolic import Builder, Results, Tensor, Value

ORDERS = {"lstm_f32": (0, 2, 3, 1), "gru_f32": (1, 0, 2), "rnn_f32": (0,)}
"""Blocks of rows of ONNX's weights in the order of PyTorch's: i o f c, and z r h."""

USUAL = {"lstm_f32": ["sigmoid", "tanh", "tanh"], "gru_f32": ["sigmoid", "tanh"], "rnn_f32": ["tanh"]}


def _check_options(kernel: str, dirs: int, options: dict[str, Any]) -> bool:
    """Refuse what the layers do not know; returns whether the activation is relu."""
    given = options.get("activations")
    names = [str(v).lower() for v in ([given] if isinstance(given, str) else given or USUAL[kernel] * dirs)]
    relu = kernel == "rnn_f32" and names == ["relu"] * dirs
    if names != USUAL[kernel] * dirs and not relu:
        raise ParameterError(f"unknown activations {given!r}", parameter="activations")
    for key in ("clip", "input_forget"):
        if options.get(key):
            raise ParameterError("is not supported", parameter=key)
    if kernel == "gru_f32" and not options.get("linear_before_reset"):
        raise ParameterError("the reset gate must act behind the product", parameter="linear_before_reset")
    return relu


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

            key = ("onnx recurrent", kernel, name, d, whole.buffer, whole.offset)
            found[f"{name}_l0{ending}"] = b.cached(key, make)
    return found


def _layer(b: Builder, kernel: str, X: Tensor, W: Tensor, R: Tensor, rest: tuple[Any, ...], o: dict[str, Any]) -> Value:
    gates = GATES[kernel]
    if X.ndim != 3 or W.ndim != 3 or R.ndim != 3 or W.shape[0] not in (1, 2):
        raise ShapeError("inputs and weights have three dimensions", operand="X, W, R", actual=list(X.shape))
    dirs, hidden = W.shape[0], R.shape[2]
    if W.shape != (dirs, gates * hidden, X.shape[2]) or R.shape != (dirs, gates * hidden, hidden):
        raise ShapeError("the weights do not fit", operand="W, R", expected=X.shape[2], actual=list(W.shape))
    direction, layout = o.get("direction") or "forward", o.get("layout") or 0
    if (direction == "bidirectional") != (dirs == 2) or direction not in ("forward", "reverse", "bidirectional"):
        raise ParameterError(f"{direction!r} does not fit {dirs} direction(s)", parameter="direction")
    relu = _check_options(kernel, dirs, o)
    states, bias = [], None
    for t in (t for t in rest if isinstance(t, Tensor)):
        if t.ndim == 3:
            states.append(t.permute((1, 0, 2)) if layout else t)
        elif t.shape == (dirs, 2 * gates * hidden) and bias is None:
            bias = t
        elif t.ndim != 1 or not t.is_constant or (t.numpy() != X.shape[1 if layout else 0]).any():
            raise ParameterError("sequences of several lengths and peepholes are not supported", parameter="inputs")
    if kernel == "lstm_f32" and len(states) == 1:
        raise ParameterError("both initial states or none", parameter="initial_c")
    time = 1 if layout else 0
    stack = Stack(kernel, hidden, 1, dirs == 2, bool(layout), _weights(b, kernel, W, R, bias, hidden), relu=relu)
    back = direction == "reverse"
    h, c = (*states, None, None)[:2]
    y, *last = run_stack(b, stack, flip(b, X, dims=time) if back else X, h, c)
    y = b.reshape(flip(b, y, dims=time) if back else y, (*y.shape[:2], dirs, hidden))
    whole = y if layout else y.permute((0, 2, 1, 3))
    return Results((whole, *(s if s is None or not layout else s.permute((1, 0, 2)) for s in last)))


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
            "activations": activations, "clip": clip, "direction": direction, "input_forget": input_forget,
            "layout": layout, "linear_before_reset": linear_before_reset,
        }  # fmt: skip
        return _layer(b, kernel, X, W, R, rest, options)

    layer.__doc__ = f"A layer of {what}, in one direction or both. ONNX, torch.nn.{name}."
    operator(name)(layer)


_recurrent("lstm_f32", "long short-term memory cells", "LSTM")
_recurrent("gru_f32", "gated recurrent units", "GRU")
_recurrent("rnn_f32", "plain recurrent units", "RNN")
