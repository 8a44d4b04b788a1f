"""Names of the operations of the expression VM; the place in the list is the code.

The same list in the same order is `csrc/kernels/expression_ops.def`, which gives the operations their bodies.
"""

from __future__ import annotations

__all__ = ["FIRST", "OPCODES", "SECOND"]

_NAMES = [
    "copy", "abs", "neg", "sign", "square", "reciprocal", "sqrt", "rsqrt", "floor", "ceil", "round", "trunc", "exp",
    "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh",
    "tanh", "asinh", "acosh", "atanh", "erf", "erfc", "lgamma", "relu", "relu6", "hardsigmoid", "hardswish",
    "sigmoid", "silu", "gelu", "gelu_tanh", "mish", "selu", "logsigmoid", "softsign", "tanhshrink", "logical_not",
    "to_bool", "isnan", "isinf", "isfinite", "add", "sub", "rsub", "mul", "div", "floor_divide", "remainder", "fmod",
    "pow", "maximum", "minimum", "at_least", "at_most", "atan2", "logaddexp", "eq", "ne", "lt", "le", "gt", "ge",
    "logical_and", "logical_or", "logical_xor", "leaky_relu", "hardshrink", "softshrink", "elu", "celu", "where",
    "clamp", "clip", "threshold", "softplus",
]  # fmt: skip

#: Cheap operations that pair up: one of FIRST on x and y, then one of SECOND on that and z, in one loop.
FIRST = ("add", "sub", "mul", "at_least", "at_most")
SECOND = ("add", "sub", "rsub", "mul", "at_least", "at_most")

#: Code of every operation.
OPCODES: dict[str, int] = {
    name: code for code, name in enumerate([*_NAMES, *(f"{first}_{second}" for first in FIRST for second in SECOND)])
}
