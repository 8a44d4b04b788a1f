"""Brings the operator type ``example.MovingAverage`` to pnnx_fast; the entry point calls ``register``."""

from __future__ import annotations

from pathlib import Path

from pnnx_fast import native


def register() -> None:
    (library,) = Path(__file__).parent.glob("_operators*.so")
    native.load_library(library)
