"""Programs as documents that a file can hold; ``cache.py`` reads them."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from pnnx_fast._types import Array
from pnnx_fast.ops.symbolic import Buffer, Tensor
from pnnx_fast.runtime.cache import LINE
from pnnx_fast.runtime.compiler import Chain
from pnnx_fast.runtime.executable import Runnable, Slot
from pnnx_fast.runtime.lower import HostStep
from pnnx_fast.runtime.parts import Parts
from pnnx_fast.runtime.program import Program, pack_values, weights_ahead

__all__ = ["saved"]


class _Block:
    """All constants of a program, one after the other at cache lines."""

    def __init__(self) -> None:
        self.arrays: list[Array] = []
        self._size = 0
        self._places: dict[Buffer, int] = {}

    def place(self, t: Tensor) -> int:
        """Offset of a constant's first element."""
        array = t.buffer.array
        assert array is not None
        if t.buffer not in self._places:
            self._places[t.buffer] = self._size
            self.arrays.append(array)
            self._size += -(-array.nbytes // LINE) * LINE
        return self._places[t.buffer] + t.offset


class _Layouts:
    """Kernels with the names of their fields, once each: to read them for every step would take most of the time."""

    def __init__(self) -> None:
        self.rows: list[list[str]] = []

    def row(self, kernel: str, values: dict[str, Any], serial: bool) -> list[Any]:
        """Return what a step is without its names."""
        layout = [kernel, *values]
        if layout not in self.rows:
            self.rows.append(layout)
        return [self.rows.index(layout), serial, list(values.values())]


def saved(runnable: Runnable) -> tuple[dict[str, Any] | None, list[Array]]:
    """Return the document of a program and its constants; None when no document can hold it."""
    program: Any = runnable.program if isinstance(runnable, (Chain, Parts)) else runnable
    if (isinstance(runnable, Chain) and not runnable.is_whole) or not isinstance(program, Program):
        return None, []
    steps = [step for step in program.steps if not isinstance(step, HostStep) and step.kernel != "native"]
    if len(steps) < len(program.steps):
        return None, []
    block, layouts, bases = _Block(), _Layouts(), 2 + program.ninputs + len(program.output_types)

    def reference(t: Tensor, aligned: bool) -> tuple[int, int]:
        return (bases, block.place(t)) if t.buffer.kind == "const" else program.reference(t, aligned)

    try:
        document = {
            "isa": program.isa,
            "nthreads": program.nthreads,
            "bases": bases,
            "arena_bytes": program.arena_bytes,
            "steps": [layouts.row(s.kernel, _plain(pack_values(s, reference)), s.serial) for s in steps],
            "layouts": layouts.rows,
            "ahead": [[i, block.place(t), n] for i, (t, n) in weights_ahead(steps, program.nthreads).items()],
            "structure": [_nested(v) for v in program.structure],
            "outputs": [[list(shape), dtype.str] for shape, dtype in program.output_types],
            "records": json.dumps([list(record) for record in program.records()]),
            "parts": runnable.count if isinstance(runnable, Parts) else 1,
            "together": runnable.together if isinstance(runnable, Parts) else 1,
        }
    except TypeError:
        return None, []
    return document, block.arrays


def _plain(value: Any) -> Any:
    """Return a value of a field as JSON has it."""
    if isinstance(value, dict):
        return {key: _plain(v) for key, v in value.items()}
    if isinstance(value, (tuple, list)):
        return [_plain(v) for v in value]
    if isinstance(value, np.generic):
        return value.item()
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise TypeError(f"{type(value).__name__} cannot be kept")


def _nested(value: Any) -> Any:
    """Return an output's structure as JSON has it."""
    if isinstance(value, Slot):
        return {"slot": value.index}
    if isinstance(value, tuple):
        return {"tuple": [_nested(v) for v in value]}
    return [_nested(v) for v in value] if isinstance(value, list) else _plain(value)
