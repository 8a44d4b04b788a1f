"""Applies one function of the table to evaluated arguments: arrays, tensor types without data, numbers,
lists.

The stack machine and lowering share it, so that both decide dtypes, broadcasting and Python-number arithmetic
alike.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np

from pnnx_fast._types import Array, DType, Shape
from pnnx_fast.errors import BroadcastError, ExpressionError
from pnnx_fast.expression.functions import FUNCTIONS, Function
from pnnx_fast.expression.rules import Signature
from pnnx_fast.expression.types import TensorType, Value, convert, element_type

__all__ = ["MADE_OF_OTHERS", "apply", "broadcast", "keeps_numbers", "signature_of"]

_BOOL = np.dtype(np.bool_)
_WIDER: dict[DType, DType] = {np.dtype(a): np.dtype(b) for a, b in (("f2", "f4"), ("f4", "f8"), ("c8", "c16"))}


def apply(function: Function, args: Sequence[Value]) -> Value:
    """Value of a function: an array, or a `TensorType` when an argument is one, or a number without any
    tensor.

    Raises
    ------
    ExpressionError
        When types or shapes do not fit.
    """
    if function.name == "size":
        return _size(args)
    arguments = function.complete(args)
    signature, tensor = signature_of(function, arguments)
    if any(isinstance(a, TensorType) for a in arguments):
        operands = [a for a in arguments[: function.operands] if isinstance(a, np.ndarray | np.generic | TensorType)]
        return TensorType(signature.result, broadcast([tuple(a.shape) for a in operands]))
    if not tensor and function.name == "int":
        return _truncated(arguments[0])
    broadcast([np.shape(a) for a in arguments[: function.operands] if a is not None])
    parts = MADE_OF_OTHERS.get(function.name) if signature.compute == np.float16 else None
    if parts is not None:
        return cast(Value, parts(lambda name, *values: apply(FUNCTIONS[name], values), args[0]))
    result = _compute(function, arguments, signature)
    return result if tensor else result.item()


Caller = Callable[..., Any]
"""Gives the value of a function, by name, of values."""

MADE_OF_OTHERS: dict[str, Callable[[Caller, Any], Any]] = {
    "softsign": lambda call, x: call("div", x, call("add", call("abs", x), 1)),
    "tanhshrink": lambda call, x: call("sub", x, call("tanh", x)),
}
"""What PyTorch makes of other functions, each of which rounds half precision; other types see no difference."""


_EXACT_NUMBERS = {"mul", "div", "floor_divide"}


def keeps_numbers(function: Function, index: int) -> bool:
    """Whether a number beside tensors of half precision is not rounded to it, as PyTorch has it of second operands."""
    return index >= function.operands or (index == 1 and function.name in _EXACT_NUMBERS)


def signature_of(function: Function, arguments: Sequence[Any]) -> tuple[Signature, bool]:
    """dtypes of a call with completed arguments, and whether its result is a tensor."""
    operands = arguments[: function.operands]
    types = [element_type(a) for i, a in enumerate(operands) if a is not None or i < function.least]
    for constant in arguments[function.operands :]:
        element_type(constant)
    tensor = any(isinstance(a, np.ndarray | np.generic | TensorType) for a in arguments)
    return function.rule(types, tensor), tensor


def broadcast(shapes: Sequence[Shape]) -> Shape:
    """Common shape of operands.

    Raises
    ------
    BroadcastError
        When two sizes differ and neither is 1.
    """
    rank = max(map(len, shapes), default=0)
    padded = [(1,) * (rank - len(s)) + tuple(s) for s in shapes]
    result = []
    for sizes in zip(*padded, strict=True):
        others = {n for n in sizes if n != 1}
        if len(others) > 1:
            raise BroadcastError(f"shapes {' and '.join(map(str, shapes))} do not broadcast")
        result.append(others.pop() if others else 1)
    return tuple(result)


def _compute(function: Function, arguments: Sequence[Any], signature: Signature) -> Array:
    compute = signature.compute
    if compute == np.float16 or function.in_double:
        compute = _WIDER.get(compute, compute)
    arrays: list[Array | None] = []
    for index, argument in enumerate(arguments):
        if argument is None:
            arrays.append(None)
            continue
        array = np.asarray(argument)
        if array.dtype == object:
            raise ExpressionError("a number does not fit in 64 bits")
        if signature.compute == np.float16 and (array.ndim or not keeps_numbers(function, index)):
            array = array if index == function.mask else convert(array, signature.compute)
        arrays.append(convert(array, _BOOL if index == function.mask else compute))
    with np.errstate(all="ignore"):
        return convert(np.asarray(function.reference(*arrays)), signature.result)


def _size(args: Sequence[Value]) -> Value:
    tensor = args[0]
    if not isinstance(tensor, np.ndarray | np.generic | TensorType):
        raise ExpressionError("'size' needs a tensor")
    shape = [int(n) for n in tensor.shape]
    if len(args) == 1:
        return list(shape)
    dim = args[1]
    if isinstance(dim, bool) or not isinstance(dim, int):
        raise ExpressionError("the dimension of 'size' must be an integer")
    if not -len(shape) <= dim < len(shape):
        raise ExpressionError(f"dimension {dim} is outside a tensor of rank {len(shape)}")
    return shape[dim]


def _truncated(value: Any) -> int:
    if isinstance(value, complex) or not math.isfinite(value):
        raise ExpressionError(f"{value} is not convertible to an integer")
    return int(value)
