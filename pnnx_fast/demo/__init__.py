"""The bundled demo model: handwritten digits of 8x8 pixels, with held-out pictures (examples/train_digits.py)."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np

from pnnx_fast._types import Array

__all__ = ["Digits", "load_digits", "model_path"]


class Digits(NamedTuple):
    """Held-out pictures (n, 1, 8, 8) float32 in 0..1, their digits (n), and PyTorch's probabilities (n, 10)."""

    pictures: Array
    labels: Array
    probabilities: Array


def model_path() -> Path:
    """Path of the model's ``.pnnx.param`` file."""
    return Path(__file__).parent / "digits.pnnx.param"


def load_digits() -> Digits:
    """Read the held-out digits."""
    with np.load(Path(__file__).parent / "digits.npz") as data:
        pictures = data["pictures"].astype(np.float32) / 16
        return Digits(pictures, data["labels"].astype(np.int64), data["probabilities"])
