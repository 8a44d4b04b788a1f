"""What operators are given beside tensors, whether their types name it or tell it by place."""

from __future__ import annotations

from typing import Any

from pnnx_fast.ir import Operator
from pnnx_fast.ir.literals import MISSING, literal
from pnnx_fast.ops.aten_tables import FORWARDED

__all__ = ["arguments"]

_ORDERS = {**FORWARDED, **dict.fromkeys(("scatter", "scatter_reduce"), ("", "input dim index src reduce include_self"))}


def arguments(op: Operator) -> dict[str, Any]:
    """Values of an operator's parameters, also of constants that it takes as inputs, by name or position."""
    named = {name: literal(x) for name, x in op.slots() if name}
    given = {**op.values(), **{name: value for name, value in named.items() if value is not MISSING}}
    for names in map(str.split, _ORDERS.get(op.type.removeprefix("aten::"), ("",))[1:]):
        if op.type.startswith("aten::") and len(names) >= len(op.inputs):
            values = {name: literal(x) for name, x in zip(names, op.inputs, strict=False)}
            given.update((name, value) for name, value in values.items() if value is not MISSING)
            break
    return given
