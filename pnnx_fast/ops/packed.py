"""Sequences of several lengths, packed: all first steps, then all second ones, and so on, without padding.

This is what ``torch.nn.utils.rnn.pack_padded_sequence`` makes; recurrent layers in numpy run over it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pnnx_fast._memory import check_numbers
from pnnx_fast._types import Array
from pnnx_fast.errors import ParameterError, ShapeError
from pnnx_fast.ops._onnx_cells import Cell, activations, run_direction
from pnnx_fast.ops.aten_numpy import numpy_step
from pnnx_fast.ops.registry import operator
from pnnx_fast.ops.symbolic import Builder, Results, Tensor, Value

__all__ = ["run_packed"]

_GATES = {"LSTM": (0, 3, 1, 2), "GRU": (1, 0, 2), "RNN": (0,)}
"""Where the gates of a cell are among PyTorch's rows of weights."""


def pack(x: Array, lengths: Array, batch_first: bool = False) -> tuple[Array, Array]:
    """Padded sequences step by step, and how many entries each step has.

    >>> pack(np.float32([[[1], [2], [3]], [[4], [0], [0]]]), np.array([3, 1]), True)[0].ravel()
    array([1., 4., 2., 3.], dtype=float32)
    """
    x = x.swapaxes(0, 1) if batch_first else x
    if lengths.ndim != 1 or lengths.dtype.kind not in "iu" or len(lengths) != x.shape[1] or not lengths.size:
        raise ShapeError("a length for each sequence is needed", expected=[x.shape[1]], actual=list(lengths.shape))
    if (np.diff(lengths) > 0).any() or lengths[-1] < 1 or lengths[0] > len(x):
        raise ParameterError(f"lengths from {len(x)} down to 1 are needed, the longest first", parameter="lengths")
    live = np.arange(int(lengths[0]))[:, None] < lengths
    return x[: len(live)][live], live.sum(1)


def pad(
    data: Array, sizes: Array, batch_first: bool = False, value: float = 0.0, total_length: int = -1
) -> tuple[Array, Array]:
    """Padded sequences of packed ones, and their lengths.

    A total length below the longest one is what the converter's own run had, where a model gives none.

    >>> pad(np.float32([[1], [4], [2], [3]]), np.array([2, 1, 1]), True)[0][..., 0]
    array([[1., 2., 3.],
           [4., 0., 0.]], dtype=float32)
    """
    ends = sizes.dtype.kind in "iu" and sizes.ndim == 1 and sizes.size and sizes[-1] > 0 and (np.diff(sizes) <= 0).all()
    if not ends or int(sizes.sum()) != len(data):
        raise ShapeError("the sizes of steps do not fit the entries", expected=len(data), actual=list(sizes.shape))
    live = np.arange(int(sizes[0])) < sizes[:, None]
    shape = (max(len(sizes), total_length), live.shape[1], *data.shape[1:])
    check_numbers(int(np.prod(shape, dtype=np.float64)))
    padded = np.full(shape, value, data.dtype)
    padded[: len(sizes)][live] = data
    return (padded.swapaxes(0, 1) if batch_first else padded), live.sum(0)


@operator("aten::_pack_padded_sequence", native=False)
def pack_padded_sequence(b: Builder, *values: Any) -> Value:
    """Padded sequences, packed. torch.nn.utils.rnn.pack_padded_sequence."""
    return numpy_step(pack, True)(b, *values)


@operator("aten::_pad_packed_sequence", native=False)
def pad_packed_sequence(b: Builder, *values: Any) -> Value:
    """Packed sequences, padded, and their lengths. torch.nn.utils.rnn.pad_packed_sequence."""
    return numpy_step(pad, True)(b, *values)


def run_packed(
    b: Builder,
    kind: str,
    function: str,
    data: Tensor,
    sizes: Tensor,
    states: Sequence[Tensor],
    weights: Mapping[str, Tensor],
    layers: int,
    bidirectional: bool,
) -> Value:
    """Recurrent layers over packed sequences: packed outputs, and the states after the last entry of each.

    Parameters
    ----------
    b : Builder
    kind : str
        LSTM, GRU or RNN.
    function : str
        tanh or relu, for RNN.
    data, sizes : Tensor
        Entries (n, features), and how many each step has.
    states : sequence of Tensor
        First states (layers · directions, sequences, hidden): one, of LSTM two.
    weights : mapping of str to Tensor
        By PyTorch's names.
    layers : int
    bidirectional : bool
    """
    names, directions = list(weights), 1 + bidirectional
    ends = [f"_l{i}{suffix}" for i in range(layers) for suffix in ("", "_reverse")[:directions]]
    count, hidden = states[0].shape[0], states[0].shape[-1]
    if count != len(ends) or any(s.shape != states[0].shape or s.ndim != 3 for s in states):
        raise ShapeError("initial state", expected=[len(ends), "…", hidden], actual=list(states[0].shape))
    used = {"LSTM": ["sigmoid", "tanh", "tanh"], "GRU": ["sigmoid", "tanh"], "RNN": [function]}[kind]

    def run(entries: Array, steps: Array, *arrays: Array) -> tuple[Array, ...]:
        first, given = arrays[: len(states)], dict(zip(names, arrays[len(states) :], strict=True))
        x, lengths = pad(entries, steps)
        if first[0].shape[1] != len(lengths):
            raise ShapeError("initial state", expected=[count, len(lengths), hidden], actual=list(first[0].shape))
        live = np.arange(len(x))[:, None] < lengths
        last: list[tuple[Array, ...]] = []
        for i in range(layers):
            outputs = []
            for d in range(directions):
                k = i * directions + d
                h, c = first[0][k], first[-1][k]  # without cells, c is not read
                y, *after = run_direction(_cell(kind, used, given, ends[k]), x, lengths, h, c, d == 1)
                outputs.append(y)
                last.append(tuple(after[: len(states)]))
            x = np.concatenate(outputs, -1)
        return x[live], *(np.stack(part) for part in zip(*last, strict=True))

    results = [((data.shape[0], directions * hidden), data.dtype), *((s.shape, s.dtype) for s in states)]
    return Results(b.host(run, [data, sizes, *states, *weights.values()], results))


def _cell(kind: str, functions: Sequence[str], weights: Mapping[str, Array], end: str) -> Cell:
    def ordered(name: str) -> Any:
        found = weights.get(name + end)
        if found is None:
            return None
        gates = np.split(found, len(_GATES[kind]))
        return np.concatenate([gates[i] for i in _GATES[kind]])

    biases = [ordered(name) for name in ("bias_ih", "bias_hh")]
    return Cell(
        kind,
        activations(functions, (), ()),
        [ordered("weight_ih"), ordered("weight_hh")],
        None if biases[0] is None else np.concatenate(biases),
        linear_before_reset=True,
    )
