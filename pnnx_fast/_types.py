"""Type aliases used across the package; no logic."""

from __future__ import annotations

import os
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[Any]
DType: TypeAlias = np.dtype[Any]
Shape: TypeAlias = tuple[int, ...]
PathLike: TypeAlias = str | os.PathLike[str]
