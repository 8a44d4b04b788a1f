"""Types used across the package; no logic."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from typing import IO
    from typing import Protocol as Protocol

    import numpy.typing as npt

    Array: TypeAlias = npt.NDArray[Any]
else:
    Array = np.ndarray  # numpy.typing takes a while to import
    Protocol = object  # nobody asks at run time what follows a protocol
DType: TypeAlias = np.dtype[Any]
Shape: TypeAlias = tuple[int, ...]
PathLike: TypeAlias = str | os.PathLike[str]
Buffer: TypeAlias = bytes | bytearray | memoryview
Source: TypeAlias = "PathLike | Buffer | IO[bytes]"  # a text, because to make the union takes longer than this module
"""What a file of a model is read from."""
Target: TypeAlias = "PathLike | IO[bytes]"
"""What it is written to."""

# Floats that are strings in files. The converter puts ".0" behind NaN, as behind whole numbers, but not behind inf.
SPECIAL_FLOATS = {"inf": np.inf, "-inf": -np.inf} | dict.fromkeys(("nan", "-nan", "nan.0", "-nan.0"), np.nan)
