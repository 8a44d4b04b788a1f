"""PyTorch's names of dtypes as parameters of operators. Names are looked up in the table of the expression language."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import numpy as np

from pnnx_fast._types import DType
from pnnx_fast.errors import ParameterError
from pnnx_fast.ops.symbolic import Builder, Tensor

__all__ = ["NUMBERS", "dtype_of", "in_single"]

P = ParamSpec("P")
R = TypeVar("R")

NUMBERS: dict[type, str] = {bool: "bool", int: "int64", float: "float32", complex: "complex64"}
"""Dtypes of tensors that PyTorch makes of numbers."""


def dtype_of(name: Any, default: DType | str) -> DType:
    """Numpy dtype that holds a PyTorch dtype, the default for None."""
    if name is None:
        return np.dtype(default)
    # Few operators name a dtype, and the table takes time to import.
    from pnnx_fast.expression.types import TORCH_DTYPES

    if not isinstance(name, str) or name not in TORCH_DTYPES:
        raise ParameterError(f"unknown dtype {name!r}", parameter="dtype")
    return TORCH_DTYPES[name]


def in_single(function: Callable[P, R]) -> Callable[P, R]:
    """Let an operator compute in float32 where its first tensor is of half precision, and round what comes out."""

    @functools.wraps(function)
    def wide(*args: P.args, **kwargs: P.kwargs) -> R:
        first = next((a for a in args if isinstance(a, Tensor)), None)
        if first is None or first.dtype != np.float16:
            return function(*args, **kwargs)
        b: Any = args[0]
        given: Any = [_cast(b, a, np.float16, np.float32) for a in args]
        named: Any = {k: _cast(b, a, np.float16, np.float32) for k, a in kwargs.items()}
        result: Any = function(*given, **named)
        if isinstance(result, (tuple, list)):
            return type(result)([_cast(b, r, np.float32, np.float16) for r in result])  # type: ignore[return-value]
        rounded: Any = _cast(b, result, np.float32, np.float16)
        return rounded  # type: ignore[no-any-return]

    return wide


def _cast(b: Builder, value: Any, source: type, target: type) -> Any:
    return b.cast(value, target) if isinstance(value, Tensor) and value.dtype == source else value
