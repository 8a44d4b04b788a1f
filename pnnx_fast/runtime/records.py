"""What a step of a finished program is, for profiles and dumps. Programs that only run do without this module."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["StepRecord"]


class StepRecord(NamedTuple):
    """One step: the kernel and its choice, the operator that it came from, its work."""

    kernel: str
    label: str
    operator: str
    type: str
    flops: int
    bytes: int
    serial: bool
