"""The operations of the expression VM, which `csrc/kernels/expression_ops.def` lists, and the types that have them."""

from __future__ import annotations

from pnnx_fast._core.program import codes

__all__ = ["FIRST", "OF_TYPE", "OPCODES", "SECOND", "TYPES"]

#: Code of every operation.
OPCODES = codes("operation")

#: Cheap operations that pair up: one of FIRST on x and y, then one of SECOND on that and z, in one loop.
FIRST = tuple(name for name in OPCODES if f"{name}_add" in OPCODES)
SECOND = tuple(name for name in OPCODES if f"{FIRST[0]}_{name}" in OPCODES)

#: Codes of the types that the VM computes in.
TYPES = {name: code for name, code in codes("dtype").items() if name not in ("bool", "float16")}

_BITS = frozenset(("bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_not", "left_shift", "right_shift"))
_OF_INTEGERS = _BITS | {
    "copy", "abs", "neg", "sign", "square", "relu", "relu6", "logical_not", "to_bool", "add", "sub", "mul", "maximum",
    "rsub", "minimum", "at_least", "at_most", "eq", "ne", "lt", "le", "gt", "ge", "logical_and", "logical_or",
    "logical_xor", "where", "clamp", "clip", "threshold", "isnan", "isinf", "isfinite",
    "floor_divide", "remainder", "fmod",
}  # fmt: skip
_OF_FLOATS = frozenset(OPCODES).difference(_BITS, (f"{first}_{second}" for first in FIRST for second in SECOND))

#: The operations that each type has; those other than float32 know a reversed difference as a difference only.
OF_TYPE: dict[str, frozenset[str]] = dict.fromkeys(TYPES, _OF_INTEGERS) | {
    "float32": _OF_FLOATS,
    "float64": _OF_FLOATS - {"half", "bfloat16", "logaddexp", "where_nan", "number_within", "frac"},
}
