"""Recurrent layers of quantised ncnn models: the state is rounded to int8 before every step."""

from __future__ import annotations

from pnnx_fast.ops.recurrent import Stack, run_stack
from pnnx_fast.ops.registry import operator
from pnnx_fast.ops.symbolic import Builder, Tensor, Value


@operator("ncnn.LSTMInt8")
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
    stack = Stack("lstm_f32", hidden_size, num_layers, bidirectional, batch_first, weights, proj_size, rounded=True)
    return run_stack(b, stack, input, initial_h, initial_c)


@operator("ncnn.GRUInt8")
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
    stack = Stack("gru_f32", hidden_size, num_layers, bidirectional, batch_first, weights, rounded=True)
    return run_stack(b, stack, input, initial_h, None)


@operator("ncnn.RNNInt8")
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
    stack = Stack("rnn_f32", hidden_size, num_layers, bidirectional, batch_first, weights, rounded=True)
    return run_stack(b, stack, input, initial_h, None)
