"""Direct calls of single kernels on numpy arrays: autotuning, kernel tests."""

from __future__ import annotations

from typing import Any

import numpy as np

from pnnx_fast._core import program as core

__all__ = ["call", "plan"]


def _value(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return (0, value.__array_interface__["data"][0])
    if isinstance(value, tuple) and value and isinstance(value[0], np.ndarray):
        return tuple(_value(v) for v in value)
    return value


def call(isa: str, kernel: str, nthreads: int = 1, **fields: Any) -> None:
    """Run one kernel; arrays stand for memory references, ``None`` for absent ones."""
    values = {key: _value(value) for key, value in fields.items()}
    core.Program(isa, [(kernel, values, False, False)], 0, nthreads).run(())


def plan(isa: str, kernel: str, nthreads: int = 1, **fields: Any) -> tuple[int, int, int, str, dict[str, int]]:
    """Variant, packed bytes, scratch bytes, label and chosen fields of a planned kernel for the given fields."""
    return core.plan(isa, kernel, {key: _value(value) for key, value in fields.items()}, nthreads)
