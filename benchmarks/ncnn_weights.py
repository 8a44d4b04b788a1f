"""Random weights for an ncnn ``.param``, so that nets of which only the graph is at hand can be compared and timed.

Weights keep the size of values about the same from layer to layer; scales of int8 layers fit their weights. Used by
ncnn_models.py; knows the layers' own order of weights only where a plain small number would not do.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.compare import Array
from pnnx_fast.formats.ncnn_bin import write_weight
from pnnx_fast.ncnn import Net

__all__ = ["size_of", "write_random"]

# What the weights of a layer are, in order: "one" is near 1, "zero" near 0, "out" and "in" are scales of int8.
_ROLES = {
    "BatchNorm": ("one", "zero", "one", "zero"),
    "Scale": ("one", "zero"),
    "LayerNorm": ("one", "zero"),
    "GroupNorm": ("one", "zero"),
    "InstanceNorm": ("one", "zero"),
    "RMSNorm": ("one",),
    "Normalize": ("one",),
    "Quantize": ("in",),
    "Requantize": ("small", "in", "zero"),
    "Dequantize": ("small", "zero"),
}
_CONVOLUTIONS = ("Convolution", "ConvolutionDepthWise", "InnerProduct")
# Below the 2 that keeps the size of values behind rectifiers, because sums of branches make them grow.
_GAIN = 1.5
_LARGEST = 4.0
"""Values that int8 layers hold at most, as their scales assume."""


class _Random:
    """Gives one layer its weights and writes them to a file."""

    def __init__(self, layer: Any, file: Any, rng: np.random.Generator) -> None:
        self._file, self._rng, self._largest = file, rng, 1.0
        self._roles = _roles(layer)
        self._outputs = max(1, layer.params.get_int(0))

    def load(self, count: int, type: int) -> Array:
        """See ``pnnx_fast.ncnn.values.WeightLoader``."""
        role = next(self._roles, "weight" if type == 0 else "zero")
        values = self._values(role, count)
        self._file.write(write_weight(values, None if type else "fp32"))
        return values

    def _values(self, role: str, count: int) -> Array:
        if role in ("in", "out"):
            return np.full(count, 127 / (_LARGEST if role == "in" else self._largest), np.float32)
        noise = self._rng.standard_normal(count, dtype=np.float32)
        if role == "weight":
            noise *= math.sqrt(_GAIN * self._outputs / count) if count > self._outputs else 0.5
            self._largest = max(float(np.abs(noise).max(initial=0)), 1e-6)
            return noise
        centre = {"one": 1.0, "zero": 0.0, "small": 0.01}[role]
        return (np.abs(centre + 0.1 * noise) if role != "zero" else 0.1 * noise).astype(np.float32)


def _roles(layer: Any) -> Iterator[str]:
    if layer.type not in _CONVOLUTIONS:
        return iter(_ROLES.get(layer.type, ()))
    bias = layer.params.get_int(1 if layer.type == "InnerProduct" else 5)
    scales = ("out", "in", "in") if layer.params.get_int(8) else ()
    return iter(("weight", *(("zero",) if bias else ()), *scales))


class _Counting:
    """Adds up sizes; nothing is made."""

    def __init__(self) -> None:
        self.count = 0

    def load(self, count: int, type: int) -> Array:
        """See ``pnnx_fast.ncnn.values.WeightLoader``."""
        self.count += count
        return np.broadcast_to(np.float32(0), (count,))


def size_of(net: Net) -> int:
    """Bytes of the weights of a net of which the parameters are loaded."""
    counting = _Counting()
    for layer in net.layers():
        _builtin(layer).load_weights(counting)
    return 4 * counting.count


def write_random(net: Net, path: Path) -> None:
    """Write weights for a net of which the parameters are loaded."""
    rng = np.random.default_rng(0)
    with path.open("wb") as file:
        for layer in net.layers():
            built = _builtin(layer)
            built.load_weights(_Random(built, file, rng))


def _builtin(layer: Any) -> Any:
    if not hasattr(layer, "load_weights"):
        raise ValueError(f"layer type {layer.type} belongs to an application")
    return layer
