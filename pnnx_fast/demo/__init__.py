"""The bundled demo model: handwritten digits of 8x8 pixels, with held-out pictures (examples/train_digits.py)."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np

from pnnx_fast._types import Array

__all__ = ["Digits", "load_digits", "model_path"]


class Digits(NamedTuple):
    """Held-out pictures, their digits, and what PyTorch makes of them.

    Attributes
    ----------
    pictures : ndarray of float32, shape (n, 1, 8, 8)
        Grey values from 0 to 1.
    labels : ndarray of int64, shape (n,)
        The digits, from 0 to 9.
    probabilities : ndarray of float32, shape (n, 10)
        PyTorch's results for the pictures.

    Examples
    --------
    >>> digits = load_digits()
    >>> digits.pictures.shape
    (450, 1, 8, 8)
    >>> digits.labels[:5].tolist(), digits.probabilities[:5].argmax(1).tolist()
    ([2, 0, 4, 9, 4], [2, 0, 4, 9, 4])
    """

    pictures: Array
    labels: Array
    probabilities: Array


def model_path() -> Path:
    """Path of the model's ``.pnnx.param`` file.

    Returns
    -------
    pathlib.Path

    Examples
    --------
    >>> import pnnx_fast
    >>> pnnx_fast.load(model_path()).inputs
    (TensorInfo(name='0', shape=(1, 1, 8, 8), dtype=dtype('float32')),)
    """
    return Path(__file__).parent / "digits.pnnx.param"


def load_digits() -> Digits:
    """Read the held-out digits.

    Returns
    -------
    Digits

    Examples
    --------
    >>> import pnnx_fast
    >>> digits = load_digits()
    >>> found = pnnx_fast.load(model_path())(digits.pictures).argmax(1)
    >>> print(f"{(found == digits.labels).mean():.1%} of {len(found)} digits are right")
    99.3% of 450 digits are right
    """
    with np.load(Path(__file__).parent / "digits.npz") as data:
        pictures = data["pictures"].astype(np.float32) / 16
        return Digits(pictures, data["labels"].astype(np.int64), data["probabilities"])
