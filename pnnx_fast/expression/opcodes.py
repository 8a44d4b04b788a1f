"""Names of the operations of the expression VM; the place in the list is the code.

The same list in the same order is `csrc/kernels/expression_ops.def`, which gives the operations their bodies.
"""

from __future__ import annotations

__all__ = ["FIRST", "OF_TYPE", "OPCODES", "SECOND", "TYPES"]

_NAMES = [
    "copy", "abs", "neg", "sign", "square", "reciprocal", "sqrt", "rsqrt", "floor", "ceil", "round", "trunc", "exp",
    "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh",
    "tanh", "asinh", "acosh", "atanh", "erf", "erfc", "lgamma", "digamma", "erfinv", "relu", "relu6", "hardsigmoid",
    "hardswish", "sigmoid", "silu", "gelu", "gelu_tanh", "mish", "selu", "logsigmoid", "softsign", "tanhshrink",
    "logical_not", "to_bool", "isnan", "isinf", "isfinite", "add", "sub", "rsub", "mul", "div", "floor_divide",
    "remainder", "fmod", "pow", "maximum", "minimum", "at_least", "at_most", "atan2", "hypot", "logaddexp", "eq", "ne",
    "lt", "le", "gt", "ge", "logical_and", "logical_or", "logical_xor", "leaky_relu", "hardshrink", "softshrink", "elu",
    "celu", "where", "clamp", "clip", "threshold", "softplus", "half", "bfloat16", "bitwise_and", "bitwise_or",
    "bitwise_xor", "bitwise_not", "left_shift", "right_shift",
]  # fmt: skip

#: Cheap operations that pair up: one of FIRST on x and y, then one of SECOND on that and z, in one loop.
FIRST = ("add", "sub", "mul", "at_least", "at_most")
SECOND = ("add", "sub", "rsub", "mul", "at_least", "at_most")

#: Code of every operation.
OPCODES: dict[str, int] = {
    name: code for code, name in enumerate([*_NAMES, *(f"{first}_{second}" for first in FIRST for second in SECOND)])
}

#: Types that the VM computes in; the place in the list is the code.
TYPES = ("float32", "float64", "int64", "int32", "uint8", "int16", "int8")

_BITS = frozenset(("bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_not", "left_shift", "right_shift"))
_OF_INTEGERS = _BITS | {
    "copy", "abs", "neg", "sign", "square", "relu", "relu6", "logical_not", "to_bool", "add", "sub", "mul", "maximum",
    "rsub", "minimum", "at_least", "at_most", "eq", "ne", "lt", "le", "gt", "ge", "logical_and", "logical_or",
    "logical_xor", "where", "clamp", "clip", "threshold", "isnan", "isinf", "isfinite",
    "floor_divide", "remainder", "fmod",
}  # fmt: skip

#: The operations that each type has; those other than float32 know a reversed difference as a difference only.
OF_TYPE: dict[str, frozenset[str]] = dict.fromkeys(TYPES, _OF_INTEGERS) | {
    "float32": frozenset(_NAMES) - _BITS,
    "float64": frozenset(_NAMES) - _BITS - {"half", "bfloat16", "logaddexp"},
}
