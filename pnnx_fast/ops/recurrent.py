"""Recurrent layers: LSTM, GRU and RNN. What depends on the input alone is a matrix product over all steps or long spans
of them; the rest is a kernel call that takes these steps one by one."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from pnnx_fast._types import Array, DType
from pnnx_fast.errors import ParameterError, ShapeError
from pnnx_fast.expression.activations import activation_fields
from pnnx_fast.ops.convolution import as_computed
from pnnx_fast.ops.linear import multiply_rows
from pnnx_fast.ops.registry import operator
from pnnx_fast.ops.symbolic import Builder, Results, Tensor, Value

GATES = {"lstm_f32": 4, "gru_f32": 3, "rnn_f32": 1}
"""Blocks of rows in the weights of each kernel's layers."""

SPAN_BYTES, SPAN_ROWS = 1 << 21, 96
"""Size that the input products of a span of steps should have, and the least rows."""

NO_ACTIVATION = activation_fields("none", [])


class Stack:
    """What describes a stack of recurrent layers; ``rounded`` tells whether a state becomes int8 before every step."""

    # A dataclass would take longer to make than this whole file to import.
    __slots__ = ("batch_first", "bidirectional", "hidden", "kernel", "layers", "proj", "relu", "rounded", "weights")

    def __init__(
        self,
        kernel: str,
        hidden: int,
        layers: int,
        bidirectional: bool,
        batch_first: bool,
        weights: Mapping[str, Tensor],
        proj: int = 0,
        relu: bool = False,
        rounded: bool = False,
    ) -> None:
        self.kernel, self.hidden, self.layers, self.weights = kernel, hidden, layers, weights
        self.bidirectional, self.batch_first = bidirectional, batch_first
        self.proj, self.relu, self.rounded = proj, relu, rounded

    @property
    def suffixes(self) -> tuple[str, ...]:
        """Endings of the weight names, one a direction."""
        return ("", "_reverse") if self.bidirectional else ("",)

    @property
    def out(self) -> int:
        """Length of the output of one direction."""
        return self.proj or self.hidden

    def weight(self, b: Builder, name: str, shape: tuple[int, ...], dtype: type = np.float32) -> Tensor:
        """Return a weight in the type that is computed in, checked."""
        found = self.weights.get(name)
        if found is None or not found.is_constant:
            raise ParameterError(f"the weight {name!r} is missing or not a constant", parameter=name)
        if found.shape != shape:
            raise ShapeError(f"the weight {name!r}", expected=shape, actual=found.shape)
        return b.cast(found, dtype)


def _spans(steps: int, rows: int, row_bytes: int) -> list[tuple[int, int]]:
    """First step and number of steps of the parts in which a layer is computed.

    The input products are many times as large as the input. Where those of all steps would leave the caches before the
    cells read them, they are computed for a span of steps at a time, which still has rows enough for a matrix product.
    """
    total = steps * rows * row_bytes
    if total <= 2 * SPAN_BYTES:
        return [(0, steps)]
    count = max(1, min(steps, -(-total // SPAN_BYTES), steps * rows // SPAN_ROWS))
    edges = [steps * i // count for i in range(count + 1)]
    return [(start, end - start) for start, end in itertools.pairwise(edges)]


def _biases(b: Builder, stack: Stack, layer: int) -> tuple[Tensor | None, list[Tensor | None]]:
    """Biases that the input product adds, and those inside the new gate of a GRU, one a direction."""
    rows = GATES[stack.kernel] * stack.hidden
    if f"bias_ih_l{layer}" not in stack.weights:
        return None, [None] * len(stack.suffixes)
    pairs = [
        [stack.weight(b, f"bias_{part}_l{layer}{suffix}", (rows,)) for part in ("ih", "hh")]
        for suffix in stack.suffixes
    ]
    gru = stack.kernel == "gru_f32"
    kept = 2 * stack.hidden if gru else rows

    def add() -> Any:
        sums = [pair[0].numpy().copy() for pair in pairs]
        for total, (_, hh) in zip(sums, pairs, strict=True):
            total[:kept] += hh.numpy()[:kept]
        return np.concatenate(sums)

    key = ("recurrent biases", stack.kernel, *(t.identity for pair in pairs for t in pair))
    inner = [pair[1].narrow(0, kept, stack.hidden) if gru else None for pair in pairs]
    return b.cached(key, add), inner


def _packed(b: Builder, weight: Tensor, gates: int, rows: int = 0, dirs: int = 1) -> tuple[Tensor, int, int]:
    """Packed weights, in which way, as suits so many rows and directions, and bytes that their products then need."""
    fields = {"gates": gates, "units": weight.shape[0] // gates, "k": weight.shape[1]}
    plan = b.plan("recurrent_pack_f32", **fields, rows=rows, dirs=dirs)
    fields |= {"rows": 0, "dirs": 1, "variant": plan.variant}
    packed = b.pack("recurrent_pack_f32", weight, plan.packed_bytes, **fields)
    return packed, plan.variant, plan.scratch_bytes


def _products(b: Builder, steps: int, rows: int, width: int, time: int) -> Tensor:
    """Room for the products of the input, with ``time`` as the dimension of the steps.

    The rows of a step lie near each other, a cache line further than their width, which often is a power of two: the
    cells read some of each row, and would find all of them in the same few lines of the cache.
    """
    line = 64 // 4 if rows > 1 else 0
    products = b.empty((steps, rows, width + line), np.float32).narrow(2, 0, width)
    return products.permute((1, 0, 2)) if time else products


def _layer(
    b: Builder, stack: Stack, layer: int, x: Tensor, y: Tensor, h0: Tensor | None, c0: Tensor | None, c: Tensor | None
) -> None:
    """Emit one layer from ``x`` to ``y``; states are (directions, batch, length)."""
    if x.dtype == np.float64:
        _layer_double(b, stack, layer, x, y, h0, c0, c)
        return
    gates, hidden, out = GATES[stack.kernel], stack.hidden, stack.out
    names = [f"l{layer}{suffix}" for suffix in stack.suffixes]
    shapes = {"ih": (gates * hidden, x.shape[2]), "hh": (gates * hidden, out), "hr": (out, hidden)}
    w_ih, w_hh = ([stack.weight(b, f"weight_{k}_{n}", shapes[k]) for n in names] for k in ("ih", "hh"))
    w_hr = [stack.weight(b, f"weight_hr_{n}", shapes["hr"]) for n in names] if stack.proj else []
    bias, inner = _biases(b, stack, layer)
    refs: dict[str, Any] = {"y": y, "h0": h0, "c0": c0, "c": c}
    time, batch = (1, 0) if stack.batch_first else (0, 1)
    steps, rows = x.shape[time], x.shape[batch]
    for i, ending in enumerate(stack.suffixes):
        refs["w" + ending], form, room = _packed(b, w_hh[i], gates, rows, len(names))
        refs["wr" + ending] = _packed(b, w_hr[i], 1)[0] if w_hr else None
        refs["bias" + ending] = inner[i]
    width = len(names) * gates * hidden
    spans = _spans(steps, rows, 4 * width)
    most = max(length for _, length in spans)
    products = _products(b, most, rows, width, time)
    scratch = b.scratch(4 * len(names) * rows * hidden if stack.proj else 0)
    rounded = b.scratch(4 * b.nthreads * rows * out if stack.rounded else 0)
    paired = b.scratch(room)
    for first, length in spans:
        g = products.narrow(time, 0, length)
        for d, (weight, start) in enumerate(zip(w_ih, (first, steps - first - length), strict=False)):
            at, count = d * gates * hidden, gates * hidden
            own = None if bias is None else bias.narrow(0, at, count)
            part = g.narrow(2, at, count)
            multiply_rows(b, x.narrow(time, start, length), weight, own, None, NO_ACTIVATION, part)
        b.step(
            stack.kernel, **refs, gates=g, scratch=scratch, rounded=rounded, paired=paired,
            first=first, steps=length, total=steps, rows=rows, hidden=hidden, out=out, relu=int(stack.relu), form=form,
            gst=g.strides[time], gsn=g.strides[batch], yst=y.strides[time], ysn=y.strides[batch],
            flops=2 * len(names) * length * rows * hidden * (gates * out + stack.proj),
        )  # fmt: skip


def _layer_double(
    b: Builder, stack: Stack, layer: int, x: Tensor, y: Tensor, h0: Tensor | None, c0: Tensor | None, c: Tensor | None
) -> None:
    """Emit one layer of float64."""
    from pnnx_fast.ops._double import run_cells

    rows, out = GATES[stack.kernel] * stack.hidden, stack.out
    shapes = {"weight_ih": (rows, x.shape[2]), "weight_hh": (rows, out), "bias_ih": (rows,), "bias_hh": (rows,)}
    shapes |= {"weight_hr": (out, stack.hidden)} if stack.proj else {}
    kinds = [k for k in shapes if k.startswith("weight") or f"bias_ih_l{layer}" in stack.weights]
    batch = x.shape[0 if stack.batch_first else 1]
    final = (len(stack.suffixes), batch, stack.hidden)
    for d, ending in enumerate(stack.suffixes):
        weights = [stack.weight(b, f"{k}_l{layer}{ending}", shapes[k], np.float64) for k in kinds]
        states = [t.select(0, d) for t in (h0, c0) if t is not None]
        part = y.narrow(2, d * out, out)

        def run(x: Array, *given: Array, backward: bool = bool(d), some: int = len(weights)) -> Any:
            named = dict(zip(kinds, given, strict=False))
            kind = "relu" if stack.relu else stack.kernel.partition("_")[0]
            return run_cells(kind, x, named, given[some:], backward, 1 if stack.batch_first else 0)

        results = b.host(run, [x, *weights, *states], [(part.shape, x.dtype), (final[1:], x.dtype)])
        b.copy(results[0], part)
        if c is not None:
            b.copy(results[1], c.select(0, d))


def run_stack(b: Builder, stack: Stack, input: Tensor, h: Tensor | None, c: Tensor | None) -> tuple[Value, ...]:
    """Emit all layers; returns output, final h and, of an LSTM, final c."""
    if stack.layers < 1 or stack.hidden < 1 or stack.proj < 0:
        raise ParameterError(
            "num_layers and hidden_size must be positive, proj_size 0 or more", parameter="hidden_size"
        )
    steps = 1 if stack.batch_first and input.ndim == 3 else 0
    if input.ndim not in (2, 3) or 0 in (input.shape[steps], input.shape[-1]):
        raise ShapeError(
            "a recurrent layer takes (steps, batch, features) or (steps, features), neither without steps nor features",
            actual=input.shape,
        )
    x = as_computed(b, input)[0]
    assert x is not None
    batched = x.ndim == 3
    if not batched:
        x = x.unsqueeze(0 if stack.batch_first else 1)
        h, c = (None if s is None else s.unsqueeze(1) for s in (h, c))
    dirs, lstm = len(stack.suffixes), stack.kernel == "lstm_f32"
    time, batch = (1, 0) if stack.batch_first else (0, 1)
    states = (stack.layers * dirs, x.shape[batch])
    h0, c0 = (_state(b, s, (*states, n), x.dtype) for s, n in ((h, stack.out), (c, stack.hidden)))
    hn = b.result((*states, stack.out), x.dtype, index=1) if b.output_count > 1 else None
    cn = b.result((*states, stack.hidden), x.dtype, index=2) if lstm else None
    for layer in range(stack.layers):
        last = layer == stack.layers - 1
        shape = (*x.shape[:2], dirs * stack.out)
        y = b.result(shape, x.dtype) if last else b.empty(shape, x.dtype)
        own = [None if s is None else s.narrow(0, layer * dirs, dirs) for s in (h0, c0, cn)]
        _layer(b, stack, layer, x, y, *own)
        if hn is not None:
            for d in range(dirs):
                final = y.select(time, 0 if d else x.shape[time] - 1).narrow(1, d * stack.out, stack.out)
                b.copy(final, hn.select(0, layer * dirs + d))
        x = y
    each = dirs * (3 if stack.proj else 2)
    if len(stack.weights) not in (stack.layers * each, stack.layers * (each + 2 * dirs)):
        raise ParameterError("the weights are those of other layers", parameter="num_layers")
    results = (x, hn, cn) if lstm else (x, hn)
    squeezed = [r if r is None or batched else r.squeeze([batch if r is x else 1]) for r in results]
    return tuple(r if r is None else b.cast(r, input.dtype) for r in squeezed)


def _state(b: Builder, state: Tensor | None, shape: tuple[int, ...], dtype: DType) -> Tensor | None:
    if state is None:
        return None
    if state.shape != shape:
        raise ShapeError("initial state", expected=shape, actual=state.shape)
    return b.contiguous(b.cast(state, dtype))


def _outputs(b: Builder, results: tuple[Value, ...], swapped: int) -> Value:
    """Outputs in the graph's order: converters may mark that the output comes last when all are named."""
    return Results((*results[1:], results[0]) if swapped and b.output_count > 1 else results)


def _lstm_layers(rounded: bool) -> Callable[..., Value]:
    def lstm(
        b: Builder,
        input: Tensor,
        initial_h: Tensor | None = None,
        initial_c: Tensor | None = None,
        *,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        bidirectional: bool = False,
        proj_size: int = 0,
        pnnx_rnn_output_swapped: int = 0,
        **weights: Tensor,
    ) -> Value:
        """Layers of long short-term memory cells. torch.nn.LSTM."""
        if initial_c is None:
            initial_c = initial_h  # a tensor that serves as both is named once
        elif initial_h is None:
            raise ParameterError("an LSTM takes both initial states or none", parameter="initial_h")
        sizes = (hidden_size, num_layers, bidirectional, batch_first)
        stack = Stack("lstm_f32", *sizes, weights, proj_size, rounded=rounded)
        return _outputs(b, run_stack(b, stack, input, initial_h, initial_c), pnnx_rnn_output_swapped)

    return lstm


def _gru_layers(rounded: bool) -> Callable[..., Value]:
    def gru(
        b: Builder,
        input: Tensor,
        initial_h: Tensor | None = None,
        *,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        bidirectional: bool = False,
        pnnx_rnn_output_swapped: int = 0,
        **weights: Tensor,
    ) -> Value:
        """Layers of gated recurrent units. torch.nn.GRU."""
        stack = Stack("gru_f32", hidden_size, num_layers, bidirectional, batch_first, weights, rounded=rounded)
        return _outputs(b, run_stack(b, stack, input, initial_h, None), pnnx_rnn_output_swapped)

    return gru


def _rnn_layers(rounded: bool) -> Callable[..., Value]:
    def rnn(
        b: Builder,
        input: Tensor,
        initial_h: Tensor | None = None,
        *,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        nonlinearity: str = "tanh",
        bias: bool = True,
        batch_first: bool = False,
        bidirectional: bool = False,
        pnnx_rnn_output_swapped: int = 0,
        **weights: Tensor,
    ) -> Value:
        """Layers of plain recurrent units. torch.nn.RNN."""
        if nonlinearity not in ("tanh", "relu"):
            raise ParameterError(f"nonlinearity must be tanh or relu, not {nonlinearity!r}", parameter="nonlinearity")
        sizes, relu = (hidden_size, num_layers, bidirectional, batch_first), nonlinearity == "relu"
        stack = Stack("rnn_f32", *sizes, weights, relu=relu, rounded=rounded)
        return _outputs(b, run_stack(b, stack, input, initial_h, None), pnnx_rnn_output_swapped)

    return rnn


for _name, _layers in (("LSTM", _lstm_layers), ("GRU", _gru_layers), ("RNN", _rnn_layers)):
    operator(f"nn.{_name}")(_layers(False))
    # Of quantised ncnn models: the state is rounded to int8 before every step.
    operator(f"ncnn.{_name}Int8")(_layers(True))
