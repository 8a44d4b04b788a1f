"""PyTorch's names of dtypes as parameters of operators. Names are looked up in the table of the expression language."""

from __future__ import annotations

from typing import Any

import numpy as np

from pnnx_fast._types import DType
from pnnx_fast.errors import ParameterError

__all__ = ["NUMBERS", "dtype_of"]

NUMBERS: dict[type, str] = {bool: "bool", int: "int64", float: "float32", complex: "complex64"}
"""Dtypes of tensors that PyTorch makes of numbers."""


def dtype_of(name: Any, default: DType | str) -> DType:
    """Numpy dtype that holds a PyTorch dtype, the default for None."""
    if name is None:
        return np.dtype(default)
    # Few operators name a dtype, and the table takes time to import.
    from pnnx_fast.expression.types import TORCH_DTYPES

    if name not in TORCH_DTYPES:
        raise ParameterError(f"unknown dtype {name!r}", parameter="dtype")
    return TORCH_DTYPES[name]
