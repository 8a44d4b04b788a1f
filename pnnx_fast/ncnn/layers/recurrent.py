"""Recurrent layers: LSTM, GRU and plain RNN, in one or both directions, with states that come and go as blobs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from pnnx_fast._types import Array
from pnnx_fast.errors import ParameterError, ShapeError
from pnnx_fast.ir import Attribute, Operand
from pnnx_fast.ncnn.layers.int8 import fake_quantize
from pnnx_fast.ncnn.layers.registry import Build, layer
from pnnx_fast.ncnn.tracer import Tracer, shape_of
from pnnx_fast.ncnn.values import Params, Weights

# PyTorch's order of an LSTM's gates (i f g o) in ncnn's (I F O G).
_LSTM_ORDER = [0, 1, 3, 2]
FORWARD, REVERSE, BOTH = range(3)


class _Recurrent:
    """One recurrent layer.

    Parameters
    ----------
    gates : int
        Blocks of rows of the weights: 4, 3 or 1.
    biases : int
        Blocks of the bias: 4, 4 or 1.
    """

    def __init__(self, p: Params, w: Weights, kind: str, gates: int, biases: int) -> None:
        self.kind, self.gates = kind, gates
        self.outputs, size, self.direction = p.count(0), p.count(1), p.choice(2, FORWARD, 3)
        self.hidden = p.count(3, self.outputs) if kind == "nn.LSTM" else self.outputs
        self.directions = 2 if self.direction == BOTH else 1
        self.int8 = p.flag(8)
        rows = self.directions * gates * self.hidden
        if size % rows:
            raise ParameterError(f"{size} weights for {self.hidden} cells")
        self.inputs = size // rows
        shape = (self.directions, gates * self.hidden)
        self.weight_x = w.load(*shape, self.inputs)
        self.bias = w.load(self.directions, biases, self.hidden)
        self.weight_h = w.load(*shape, self.outputs)
        self.project = w.load(self.directions, self.outputs, self.hidden) if self.hidden != self.outputs else None
        self.scales = [w.load(*shape, type=1) for _ in range(2)] if self.int8 else []
        self._ready: dict[str, Attribute] = {}

    def _blocks(self, array: Array) -> Array:
        """Rows of one direction in PyTorch's order of gates."""
        if self.kind != "nn.LSTM":
            return array
        blocks: Array = array.reshape(4, self.hidden, *array.shape[1:])
        return blocks[_LSTM_ORDER].reshape(array.shape)

    def _biases(self, values: Array) -> tuple[Array, Array]:
        """Biases of inputs and of states, which a GRU keeps apart for its new gate."""
        if self.kind == "nn.GRU":
            state = np.zeros((3, self.hidden), np.float32)
            state[2] = values[3]
            return values[:3].reshape(-1), state.reshape(-1)
        together = self._blocks(values.reshape(-1))
        return together, np.zeros_like(together)

    def _weights(self) -> dict[str, Attribute]:
        """Weights under PyTorch's names; a layer that only goes backwards keeps the forward names."""
        if self._ready:
            return self._ready
        for d in range(self.directions):
            ending = "_l0_reverse" if d else "_l0"
            bias_x, bias_h = self._biases(self.bias.numpy()[d].astype(np.float32))
            arrays = {
                "weight_ih": self._blocks(self._dequantised(self.weight_x, 0, d)),
                "weight_hh": self._blocks(self._dequantised(self.weight_h, 1, d)),
                "bias_ih": bias_x,
                "bias_hh": bias_h,
            }
            if self.project is not None:
                arrays["weight_hr"] = self.project.numpy()[d]
            self._ready |= {name + ending: Attribute.owning(a) for name, a in arrays.items()}
        return self._ready

    def _dequantised(self, weight: Attribute, which: int, direction: int) -> Array:
        array: Array = weight.numpy()[direction].astype(np.float32, copy=False)
        if not self.int8 or weight.dtype != "i8":
            return array
        scaled: Array = array / self.scales[which].numpy()[direction][:, None]
        return scaled

    def __call__(self, t: Tracer, x: Operand, *given: Operand) -> list[Operand]:
        if len(shape_of(x)) != 3 or shape_of(x)[2] != self.inputs:
            raise ShapeError("a sequence of vectors", expected=["n", "length", self.inputs], actual=list(shape_of(x)))
        x, *states = t.together(x, *given)
        backwards = self.direction == REVERSE
        x = t.emit("torch.flip", x, dims=[1]) if backwards else x
        made = self._emit(t, x, [self._rows(t, state) for state in states])
        y = t.emit("torch.flip", made[0], dims=[1]) if backwards else made[0]
        return [y, *(t.permute(state, [1, 0, 2]) for state in made[1:])]

    def _rows(self, t: Tracer, state: Operand) -> Operand:
        """One row of a state for each direction: ncnn takes the first ones of whatever it is given."""
        n, *rest, width = shape_of(state)
        rows = math.prod(rest)
        if rows < self.directions:
            raise ShapeError("rows of a state", expected=self.directions, actual=rows)
        return t.cut(t.reshape(state, (n, rows, width)), 1, 0, self.directions)

    def _emit(self, t: Tracer, x: Operand, states: Sequence[Operand]) -> list[Operand]:
        extra: dict[str, Any] = {"proj_size": self.outputs} if self.project is not None else {}
        if self.kind == "nn.RNN":
            extra = {"nonlinearity": "tanh"}
        names = ["input", "initial_h", "initial_c"][: 1 + len(states)]
        parameters = {
            "input_size": self.inputs,
            "hidden_size": self.hidden,
            "num_layers": 1,
            "bias": True,
            "batch_first": True,
            "bidirectional": self.directions == 2,
            **extra,
        }
        # The quantised form has a type of its own: it rounds the input of every step.
        name = f"ncnn.{self.kind[3:]}Int8" if self.int8 else self.kind
        outputs = 3 if self.kind == "nn.LSTM" else 2
        x = fake_quantize(t, x, [2]) if self.int8 else x
        inputs = [x, *(t.permute(s, [1, 0, 2]) for s in states)]
        return t.emit_many(name, outputs, *inputs, names=names, attrs=self._weights(), **parameters)


@layer("LSTM", one_blob_only=False)
def lstm(p: Params, w: Weights) -> Build:
    """Long short-term memory."""
    return _Recurrent(p, w, "nn.LSTM", 4, 4)


@layer("GRU", one_blob_only=False)
def gru(p: Params, w: Weights) -> Build:
    """Gated recurrent unit."""
    return _Recurrent(p, w, "nn.GRU", 3, 4)


@layer("RNN", one_blob_only=False)
def rnn(p: Params, w: Weights) -> Build:
    """Plain recurrent unit with tanh."""
    return _Recurrent(p, w, "nn.RNN", 1, 1)
