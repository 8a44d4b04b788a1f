"""Load, run, edit and save PNNX models on the CPU without PyTorch."""

from __future__ import annotations

__version__ = "0.1.0"
