"""ncnn's shape expressions: a comma-separated list of prefix calls over sizes of blobs, such as ``/(0w,2),0h,64``.

``0w`` is the width of the first blob; h, d, c and n (the batch) likewise. Integers stay integers until a division;
results are truncated. Used by the layers Reshape, Interp and Crop.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence

import numpy as np

from pnnx_fast.errors import ParameterError

__all__ = ["blob_count", "count", "evaluate"]

Number = int | float
_SIZE = re.compile(r"([0-9])([whdcn])\Z")
_INTEGER = re.compile(r"[+-]?\d+\Z")
_LIMIT = 2**31


def _sign(a: Number) -> Number:
    return (a > 0) - (a < 0)


def _remainder(a: float, b: float) -> float:
    r = math.fmod(a, b)
    return r + b if a * b < 0 else r


def _integer_division(a: Number, b: Number) -> Number:
    # C++ divides integers towards zero.
    if isinstance(a, int) and isinstance(b, int):
        return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
    return float(math.floor(a / b))


_EITHER_1: dict[str, Callable[[Number], Number]] = {
    "abs": abs,
    "neg": lambda a: -a,
    "sign": _sign,
    "square": lambda a: a * a,
    "trunc": math.trunc,
    "ceil": math.ceil,
    "floor": math.floor,
    "round": lambda a: int(math.copysign(math.floor(abs(a) + 0.5), a)),
}
_EITHER_2: dict[str, Callable[[Number, Number], Number]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "//": _integer_division,
    "max": max,
    "min": min,
}
_FLOAT_1: dict[str, Callable[[float], float]] = {
    name: getattr(math, name)
    for name in (
        "acos", "acosh", "asin", "asinh", "atan", "atanh", "cos", "cosh", "erf", "exp", "log", "log10", "sin", "sinh",
        "sqrt", "tan", "tanh",
    )
}  # fmt: skip
_FLOAT_1 |= {"reciprocal": lambda a: 1 / a, "rsqrt": lambda a: 1 / math.sqrt(a)}
_FLOAT_2: dict[str, Callable[[float, float], float]] = {
    "/": lambda a, b: a / b,
    "atan2": math.atan2,
    "fmod": math.fmod,
    "pow": math.pow,
    "remainder": _remainder,
    "logaddexp": lambda a, b: math.log(math.exp(a) + math.exp(b)),
}
_INTEGER_2: dict[str, Callable[[int, int], int]] = {
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
    "lshift": lambda a, b: a << b,
    "rshift": lambda a, b: a >> b,
}


def _tokens(text: str) -> list[str]:
    return [token for token in re.split(r"[(),]", text) if token]


def blob_count(text: str) -> int:
    """Number of blobs that an expression refers to: the highest number plus one.

    Examples
    --------
    >>> blob_count("/(0w,2),1h")
    2
    """
    return max((int(m.group(1)) + 1 for m in map(_SIZE.match, _tokens(text)) if m), default=0)


def count(text: str) -> int:
    """Number of values of an expression list, found without evaluating it.

    Raises
    ------
    ParameterError
        When the text is malformed.

    Examples
    --------
    >>> count("/(0w,2),0h,64")
    3
    """
    depth = 0
    for token in reversed(_tokens(text)):
        if token in _EITHER_1 or token in _FLOAT_1:
            takes = 1
        elif any(token in table for table in (_EITHER_2, _FLOAT_2, _INTEGER_2)):
            takes = 2
        else:
            takes = 0
            if not _SIZE.match(token):
                try:
                    _literal(token)
                except ValueError as error:
                    raise ParameterError(f"shape expression {text!r}: {error}") from None
        if takes > depth:
            raise ParameterError(f"shape expression {text!r}: arguments are missing at {token!r}")
        depth += 1 - takes
    return depth


def _literal(token: str) -> Number:
    try:
        value = int(token) if _INTEGER.match(token) else float(token)
    except ValueError:
        raise ValueError(f"unknown word {token!r}") from None
    return int(value) if isinstance(value, int) or value.is_integer() else _single(value)


def evaluate(text: str, sizes: Sequence[dict[str, int]]) -> list[int]:
    """Evaluate a list of expressions.

    Parameters
    ----------
    text : str
    sizes : sequence of dict
        For each blob its w, h, d, c and n.

    Returns
    -------
    list of int

    Raises
    ------
    ParameterError
        When the text is malformed or refers to a blob that is not there, or on a division by zero.

    Examples
    --------
    >>> evaluate("/(0w,2),0h,64", [{"w": 7, "h": 5}])
    [3, 5, 64]
    """
    stack: list[Number] = []
    for token in reversed(_tokens(text)):
        try:
            _push(token, stack, sizes)
        except (ArithmeticError, ValueError, IndexError) as error:
            raise ParameterError(
                f"shape expression {text!r}: {error or 'arguments are missing'} at {token!r}"
            ) from None
    return [int(v) for v in reversed(stack)]


def _push(token: str, stack: list[Number], sizes: Sequence[dict[str, int]]) -> None:
    size = _SIZE.match(token)
    if size:
        index = int(size.group(1))
        if index >= len(sizes):
            raise ValueError(f"there is no blob {index}")
        stack.append(sizes[index][size.group(2)])
        return
    value = _value(token, stack)
    if not math.isfinite(value) or abs(value) >= _LIMIT:
        raise ValueError(f"{value} is not a size")
    stack.append(value)


def _value(token: str, stack: list[Number]) -> Number:
    if token in _EITHER_1:
        return _EITHER_1[token](stack.pop())
    if token in _FLOAT_1:
        return _single(_FLOAT_1[token](float(stack.pop())))
    for table in (_EITHER_2, _FLOAT_2, _INTEGER_2):
        if token in table:
            a, b = stack.pop(), stack.pop()
            if table is _FLOAT_2:
                return _single(_FLOAT_2[token](float(a), float(b)))
            if table is _INTEGER_2:
                return _INTEGER_2[token](int(a), min(int(b), 31) if "shift" in token else int(b))
            result = _EITHER_2[token](a, b)
            return result if isinstance(result, int) else _single(result)
    return _literal(token)


def _single(value: float) -> float:
    """Round to float32, in which ncnn computes."""
    with np.errstate(over="ignore"):
        return float(np.float32(value))
