"""Reproducible weights, inputs and param texts of a case, for goldens and tests alike."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
from layer_cases import Case

from pnnx_fast.formats.ncnn_bin import write_weight
from pnnx_fast.formats.ncnn_param import read_text
from pnnx_fast.ncnn.layers import find
from pnnx_fast.ncnn.values import LoadedWeights, Params


def random(case: Case) -> np.random.Generator:
    """Generator that depends on the case alone."""
    return np.random.default_rng(zlib.crc32(case.name.encode()))


def inputs(case: Case) -> list[Any]:
    """Arrays of a case."""
    rng = random(case)
    low, high = case.values
    arrays = []
    for i, shape in enumerate(case.shapes):
        if i in case.ints:
            arrays.append(rng.integers(int(low), int(high) + 1, shape).astype(np.int32))
        else:
            arrays.append(rng.uniform(low, high, shape).astype(np.float32))
    for i, values in case.fixed:
        arrays[i] = np.array(values, np.float32).reshape(case.shapes[i])
    return arrays


def text(case: Case) -> str:
    """The param file: inputs a0, a1 … and outputs b0, b1 …"""
    count, outputs = len(case.shapes), case.outputs
    names = [f"a{i}" for i in range(count)]
    tops = [f"b{i}" for i in range(outputs)]
    lines = ["7767517", f"{count + 1} {count + outputs}", *(f"Input {n} 0 1 {n}" for n in names)]
    lines.append(f"{case.type} layer {count} {outputs} {' '.join(names + tops)} {case.params}")
    return "\n".join(lines) + "\n"


# How many offsets the recurrent layers of the cases have, which stay float in an int8 layer.
_RECURRENT_OFFSETS = {"LSTM": 16, "GRU": 16, "RNN": 4}


class _Recorder:
    """Weights made up as a layer asks for them, and the bytes that hold them."""

    def __init__(self, case: Case) -> None:
        self.case, self.rng, self.data = case, random(case), b""

    def load(self, count: int, type: int) -> Any:
        values = self.rng.uniform(-1, 1, count).astype(np.float32)
        if type == 1 or self.case.type == "BatchNorm":
            # Scales and variances must be positive, and large enough to be useful as scales of int8.
            values = np.abs(values) + 0.5
            if "int8" in self.case.options:
                values = np.abs(values) * 30
        options = self.case.options
        if type == 1:
            self.data += write_weight(values)
        elif type == 2:
            values = self.rng.integers(-128, 128, count).astype(np.int8)
            self.data += values.tobytes() + bytes(-count % 4)
        elif "int8" in options and count != _RECURRENT_OFFSETS.get(self.case.type):
            whole = self.case.type == "Gemm" and count == 5
            values = values if whole else self.rng.integers(-127, 128, count).astype(np.int8)
            self.data += write_weight(values, "fp32" if whole else "int8")
        elif "fp16" in options:
            self.data += write_weight(values, "fp16")
            values = values.astype(np.float16)
        else:
            self.data += write_weight(values, "fp32")
        return values


def weights(case: Case) -> bytes:
    """The weight file of a case."""
    definition = find(case.type)
    assert definition is not None
    record = read_text(text(case).encode()).layers[-1]
    recorder = _Recorder(case)
    definition.function(Params(record.params), LoadedWeights(recorder))
    return recorder.data
