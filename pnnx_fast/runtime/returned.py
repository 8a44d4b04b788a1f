"""What functions of operators give back, checked before anything is made of it.

Lowering asks about values of operators that users registered and about lists in lists, programs about the arrays of
numpy steps. A function that forgets its ``return`` is an error here that names the operator. Knows nothing of graphs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from numbers import Number
from typing import Any

import numpy as np

from pnnx_fast._types import Array
from pnnx_fast.errors import AtOperator, LimitError, OperatorError, ParameterError, PnnxFastError, ShapeError
from pnnx_fast.ir.outputs import MAX_DEPTH, MAX_PARTS, too_many_parts
from pnnx_fast.ops.registry import users_own
from pnnx_fast.ops.symbolic import Tensor, Value

__all__ = [
    "as_array",
    "check_nesting",
    "check_value",
    "check_values",
    "computed",
    "named_error",
]


def computed(function: Callable[..., Any], given: Sequence[Any], where: str) -> tuple[Any, ...]:
    """Call a function of arrays; errors name the operator ``where``."""
    try:
        produced = function(*given)
    except Exception as error:
        named = named_error(error, where)
        if named is error:
            raise
        raise named from error
    return produced if isinstance(produced, tuple) else (produced,)


def named_error(error: Exception, where: str) -> Exception:
    """The error with the type and name of the operator that was being lowered or run."""
    if isinstance(error, AtOperator):
        return error.at(where)
    if isinstance(error, MemoryError):
        return LimitError(str(error) or "out of memory", path=where)
    if isinstance(error, LimitError):
        place = error.path or ""
        return (
            error
            if place.startswith(where)
            else LimitError(f"{place}: {error.reason}" if place else error.reason, path=where)
        )
    if isinstance(error, PnnxFastError):
        return error
    if users_own([where.partition(" ")[0]]):
        told = f": {error}" if str(error) else ""
        return OperatorError(f"its function raised {type(error).__name__}{told}", operator=where)
    # Parameters that no check foresaw: the model is at fault, so the error is one of ours.
    return ParameterError(f"cannot be computed: {error or type(error).__name__}", operator=where)


def as_array(part: Any, where: str) -> Array:
    """Array of what a numpy step gave for one output."""
    try:
        array = np.asarray(part)
    except ValueError as error:
        raise ParameterError(f"its numpy function returned no array: {error}", operator=where) from None
    if array.dtype.kind not in "biufc":
        raise ParameterError(f"its numpy function returned {_described(part)}, not an array of numbers", operator=where)
    return array


def check_values(parts: Sequence[Any], count: int, where: str) -> None:
    """Check what a function whose results' shapes depend on data gave for so many outputs."""
    if len(parts) < count:
        raise ShapeError(
            "the function gives fewer results than the graph names", operator=where, expected=count, actual=len(parts)
        )
    for part in parts:
        _check(part, where, (np.ndarray, Number, str), "an array or a number")


def check_value(value: Value, where: str) -> None:
    """Check what the function of an operator gave while lowering."""
    _check(value, where, (Tensor, Number, str), "a tensor of the builder or a number")


def _check(value: Any, where: str, kinds: tuple[type, ...], wanted: str) -> None:
    if isinstance(value, (list, tuple)):
        for part in value:
            _check(part, where, kinds, wanted)
    elif not isinstance(value, kinds) or (isinstance(value, np.ndarray) and value.dtype.kind not in "biufc"):
        raise ParameterError(f"its function returned {_described(value)}, not {wanted}", operator=where)


def check_nesting(value: list[Value] | tuple[Value, ...], where: str) -> None:
    """Refuse lists and tuples that no size of the file justifies."""
    level: list[Value] = [value]
    parts = 0
    for _ in range(MAX_DEPTH):
        level = [part for row in level for part in row if isinstance(part, (list, tuple))]
        if not level:
            return
        parts += sum(map(len, level))
        if parts > MAX_PARTS:
            break
    raise too_many_parts(where)


def _described(value: Any) -> str:
    return "None" if value is None else f"a value of type {type(value).__name__}"
