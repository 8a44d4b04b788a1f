"""dtype rules of element-wise functions: from the element types of the operands to compute and result dtypes.

Each rule is a function that the table of functions names in one column. Evaluation and lowering both ask it,
so a result's dtype is decided in one place. Rules know no values and no function names.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np

from pnnx_fast._types import DType
from pnnx_fast.errors import ExpressionError
from pnnx_fast.expression.types import ElementType, default_float, promote

__all__ = ["Rule", "Signature"]


class Signature:
    """dtype that arguments are converted to before computing, and dtype of the result."""

    __slots__ = ("compute", "result")

    def __init__(self, compute: DType, result: DType) -> None:
        self.compute, self.result = compute, result


Rule: TypeAlias = Callable[[Sequence[ElementType], bool], Signature]

_BOOL = np.dtype(np.bool_)


def _refuse(what: str) -> ExpressionError:
    return ExpressionError(f"not defined for {what}")


def arithmetic(types: Sequence[ElementType], tensor: bool) -> Signature:
    """Promoted dtype in and out."""
    t = promote(types, tensor)
    return Signature(t, t)


def numeric(types: Sequence[ElementType], tensor: bool) -> Signature:
    """As arithmetic, without bool: Python's bool counts as an integer among numbers."""
    t = promote(types, tensor)
    if t.kind == "b":
        if tensor:
            raise _refuse("bool tensors")
        t = np.dtype(np.int64)
    return Signature(t, t)


def subtraction(types: Sequence[ElementType], tensor: bool) -> Signature:
    """As numeric; PyTorch refuses a bool tensor on either side."""
    if tensor and any(t.dtype.kind == "b" for t in types):
        raise _refuse("bool tensors")
    return numeric(types, tensor)


def ordered(types: Sequence[ElementType], tensor: bool) -> Signature:
    """As arithmetic, without complex."""
    t = promote(types, tensor)
    if t.kind == "c":
        raise _refuse("complex numbers")
    return Signature(t, t)


def real(types: Sequence[ElementType], tensor: bool) -> Signature:
    """Neither bool nor complex."""
    ordered(types, tensor)
    return numeric(types, tensor)


def integers_kept(types: Sequence[ElementType], tensor: bool) -> Signature:
    """As arithmetic, where bool becomes int64: the second operand is an integer constant of the function."""
    t = promote(types, tensor)
    if t.kind == "b":
        t = np.dtype(np.int64)
    return Signature(t, t)


def floating(types: Sequence[ElementType], tensor: bool) -> Signature:
    """Integers and bool become the default float."""
    t = promote(types, tensor)
    if t.kind in "biu":
        t = default_float(tensor)
    return Signature(t, t)


def real_floating(types: Sequence[ElementType], tensor: bool) -> Signature:
    """As floating, without complex."""
    ordered(types, tensor)
    return floating(types, tensor)


def magnitude(types: Sequence[ElementType], tensor: bool) -> Signature:
    """Complex in, real out."""
    t = numeric(types, tensor).compute
    return Signature(t, np.dtype(f"f{t.itemsize // 2}") if t.kind == "c" else t)


def part(types: Sequence[ElementType], tensor: bool) -> Signature:
    """Real or imaginary part: the real dtype of a complex one, any other dtype unchanged."""
    t = promote(types, tensor)
    return Signature(t, np.dtype(f"f{t.itemsize // 2}") if t.kind == "c" else t)


def pair(types: Sequence[ElementType], tensor: bool) -> Signature:
    """Two real operands to one complex result."""
    t = real_floating(types, tensor).compute
    t = np.dtype(np.float32) if t.itemsize < 4 else t
    return Signature(t, np.dtype(f"c{t.itemsize * 2}"))


def equality(types: Sequence[ElementType], tensor: bool) -> Signature:
    """Compared in the promoted dtype, bool out."""
    return Signature(promote(types, tensor), _BOOL)


def comparison(types: Sequence[ElementType], tensor: bool) -> Signature:
    """As equality, without complex."""
    return Signature(ordered(types, tensor).compute, _BOOL)


def logical(types: Sequence[ElementType], tensor: bool) -> Signature:
    """Each operand is taken as true where it is not zero."""
    promote(types, tensor)
    return Signature(_BOOL, _BOOL)


def bitwise(types: Sequence[ElementType], tensor: bool) -> Signature:
    """Integers and bool."""
    t = promote(types, tensor)
    if t.kind in "fc":
        raise _refuse(f"{t} operands")
    return Signature(t, t)


def shift(types: Sequence[ElementType], tensor: bool) -> Signature:
    """Integers only."""
    bitwise(types, tensor)
    return numeric(types, tensor)


def selection(types: Sequence[ElementType], tensor: bool) -> Signature:
    """A condition, then two operands that are promoted."""
    if types[0].dtype.kind not in "b" and types[0].dtype != np.uint8:
        raise ExpressionError(f"the condition must be bool, it is {types[0].dtype}")
    return arithmetic(types[1:], tensor)


def kept(types: Sequence[ElementType], tensor: bool) -> Signature:
    """The dtype of the first operand, whatever the others are."""
    return arithmetic(types[:1], tensor)


def to(dtype: DType) -> Rule:
    """A cast: the operand's own dtype in, `dtype` out."""

    def rule(types: Sequence[ElementType], tensor: bool) -> Signature:
        return Signature(types[0].dtype, dtype)

    return rule
