"""Expressions as Python source for PyTorch. `python_calls` asks for the text of an expression over named operands;
nothing here knows operators or graphs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np

from pnnx_fast.errors import ExpressionError
from pnnx_fast.expression import FUNCTIONS, TORCH_DTYPES, Call, Constant, DTypeName, Input, Node, parse
from pnnx_fast.expression.tree import fold

__all__ = ["Fragment", "Kind", "literal", "spell", "tree"]

Kind = Literal["tensor", "number", "list"]

_LARGEST = float(np.finfo(np.float32).max)


class Fragment(NamedTuple):
    """Source text, and what it evaluates to: PyTorch's functions want tensors where the language takes numbers."""

    text: str
    kind: Kind


def tree(text: str, where: str) -> Node:
    """Tree of an expression; errors name the operator."""
    try:
        return parse(text)
    except ExpressionError as error:
        raise ExpressionError(error.reason, error.text, error.position, operator=where) from None


def literal(value: object) -> str:
    """Source of a constant, also of those that have no literal in Python."""
    if isinstance(value, DTypeName):
        return value.name
    if isinstance(value, float) and not math.isfinite(value):
        return f"float('{value}')"
    if isinstance(value, float) and abs(value) > _LARGEST and _rounds_to_finite(value):
        # Files hold single precision in so few digits that the extremes come out too large for PyTorch.
        return repr(math.copysign(_LARGEST, value))
    if isinstance(value, complex):
        return f"complex({literal(value.real)}, {literal(value.imag)})"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(literal, value)) + "]"
    return repr(value)


def _rounds_to_finite(value: float) -> bool:
    with np.errstate(over="ignore"):
        return bool(np.isfinite(np.float32(value)))


_INFIX = {
    "add": "+", "sub": "-", "mul": "*", "div": "/", "floor_divide": "//", "remainder": "%",
    "and": "&", "or": "|", "xor": "^", "lshift": "<<", "rshift": ">>",
    "bitwise_and": "&", "bitwise_or": "|", "bitwise_xor": "^", "bitwise_left_shift": "<<", "bitwise_right_shift": ">>",
    "eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">=",
}  # fmt: skip


_ACTIVATIONS = frozenset({
    "celu", "elu", "gelu", "hardshrink", "hardsigmoid", "hardswish", "hardtanh", "leaky_relu", "logsigmoid",
    "mish", "prelu", "relu", "relu6", "selu", "silu", "softplus", "softshrink", "softsign", "tanhshrink",
    "threshold",
})  # fmt: skip
"""Functions of ``torch.nn.functional``; all others are functions of torch."""
_NEED_TENSORS = frozenset({
    "atan2", "complex", "fmod", "logaddexp", "logical_and", "logical_or", "logical_xor", "max", "maximum",
    "min", "minimum",
})  # fmt: skip
"""Functions of torch that take no numbers."""

# A minus binds less than a power.
_NUMBER_FORMS = {
    "abs": "abs({0})", "max": "max({0}, {1})", "maximum": "max({0}, {1})", "min": "min({0}, {1})",
    "minimum": "min({0}, {1})", "neg": "(-{0})", "positive": "{0}", "pow": "(({0}) ** {1})", "reciprocal": "(1 / {0})",
    "round": "round({0})", "rsqrt": "(1 / math.sqrt({0}))", "sign": "(({0} > 0) - ({0} < 0))",
    "square": "(({0}) ** 2)", "logical_not": "(not {0})", "int": "int({0})",
}  # fmt: skip
_MATH = frozenset(name for name in FUNCTIONS if hasattr(math, name))
"""Functions of numbers that Python has under the same name."""


def spell(root: Node, inputs: Sequence[Fragment]) -> Fragment:
    """Source of an expression over inputs of these texts.

    Examples
    --------
    >>> from pnnx_fast.expression import parse
    >>> spell(parse("add(mul(@0,2),size(@0,1))"), [Fragment("v_x", "tensor")]).text
    '((v_x * 2) + v_x.size(1))'
    """

    def combine(node: Node, children: list[Fragment]) -> Fragment:
        if isinstance(node, Input):
            if node.index >= len(inputs):
                raise ExpressionError(f"there is no input @{node.index}")
            return inputs[node.index]
        if isinstance(node, Constant):
            return Fragment(literal(node.value), "number")
        if isinstance(node, Call):
            return _call(node.name, children)
        return Fragment("[" + ", ".join(c.text for c in children) + "]", "list")

    return fold(root, combine)


def _call(name: str, args: list[Fragment]) -> Fragment:
    texts = [a.text for a in args]
    numbers = all(a.kind == "number" for a in args)
    kind: Kind = "number" if numbers else "tensor"
    if name == "size":
        return _size(texts)
    if name in _INFIX:
        return Fragment(f"({texts[0]} {_INFIX[name]} {texts[1]})", kind)
    if name == "rsub":
        return Fragment(f"({texts[1]} - {texts[0]})", kind)
    if name in TORCH_DTYPES or name == "int":
        return _cast(name, texts[0], numbers)
    if numbers and name in _NUMBER_FORMS:
        return Fragment(_NUMBER_FORMS[name].format(*texts), kind)
    if numbers and name in _MATH:
        return Fragment(f"math.{name}({', '.join(texts)})", kind)
    if name in _NEED_TENSORS or numbers:
        texts = [f"torch.tensor({a.text})" if a.kind == "number" else a.text for a in args]
    if name == "gelu_tanh":
        return Fragment(f"F.gelu({texts[0]}, approximate='tanh')", "tensor")
    if name not in FUNCTIONS:
        raise ExpressionError(f"the function {name!r} has no equivalent in Python source")
    return Fragment(f"{'F' if name in _ACTIVATIONS else 'torch'}.{name}({', '.join(texts)})", "tensor")


def _size(texts: list[str]) -> Fragment:
    if len(texts) == 1:
        return Fragment(f"list({texts[0]}.size())", "list")
    return Fragment(f"{texts[0]}.size({texts[1]})", "number")


def _cast(name: str, text: str, number: bool) -> Fragment:
    if not number:
        return Fragment(f"{text}.to({'torch.int64' if name == 'int' else name})", "tensor")
    dtype = None if name == "int" else TORCH_DTYPES[name]
    kind = "i" if dtype is None else dtype.kind
    function = {"b": "bool", "i": "int", "u": "int", "f": "float", "c": "complex"}[kind]
    return Fragment(f"{function}({text})", "number")
