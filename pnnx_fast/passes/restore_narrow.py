"""Arithmetic in place keeps the type of what it writes to, which the converter's notes tell.

``x += y`` is written like ``x + y``, whose result has a wider type if ``y`` has one. The pass is needed for right
results, so it always runs.
"""

from __future__ import annotations

import re

import numpy as np

from pnnx_fast.ir import Graph, Operand, Operator
from pnnx_fast.ir.dtypes import by_text
from pnnx_fast.passes.moves import unused_operand

__all__ = ["ARITHMETIC", "restore_narrow"]

_NAMES = """
    add addcdiv addcmul atan2 bitwise_and bitwise_or bitwise_xor copysign div floor_divide fmod hypot mul pow remainder
    sub __and__ __iand__ __ior__ __ixor__ __or__ __xor__
"""

_FLOATING = frozenset({None, "f16", "bf16", "f32", "f64", "c32", "c64", "c128"})

ARITHMETIC = frozenset(f"aten::{name}" for name in _NAMES.split())
"""Operators with a form in place whose results have the common type of their inputs."""


def restore_narrow(graph: Graph) -> bool:
    """Cast results to the type that they are noted with where it is that of an input; returns whether any was."""
    found = False
    for op in list(graph.ops):
        found |= _restore_double(op)
        name = _written_type(op)
        if name is None:
            continue
        if op.type == "pnnx.Expression":
            op.params["expr"] = f"{name}({op.params['expr'].text})"
        else:
            _cast_result(graph, op, name)
        found = True
    return found


def _restore_double(op: Operator) -> bool:
    """Compute in doubles what integers and a number of the graph give, where the result is noted so.

    That number was a tensor of one double, of which the converter keeps the value alone.
    """
    types = {x.dtype for x in op.inputs}
    noted = op.outputs[0].dtype if len(op.outputs) == 1 else None
    if op.type != "pnnx.Expression" or noted != "f64" or not types or types & _FLOATING or not op.has_param("expr"):
        return False
    if _made_by(op) != np.float32:
        return False
    op.params["expr"] = re.sub(r"@\d+", r"torch.double(\g<0>)", op.params["expr"].text)
    return True


def _written_type(op: Operator) -> str | None:
    """The type of what a result was written to, as PNNX spells it, where computing gives another one."""
    noted = op.outputs[0].dtype if len(op.outputs) == 1 else None
    types = {x.dtype for x in op.inputs if x.dtype is not None}
    row = by_text.get(noted or "")
    if row is None or len(types) < 2 or noted not in types:
        return None
    if op.type in ARITHMETIC:
        made = _common_type([x for x in op.inputs if x.dtype is not None])
    elif op.type == "pnnx.Expression" and op.has_param("expr"):
        made = _made_by(op)
    else:
        return None
    return row.spelled if made is not None and made != np.dtype(row.computed) else None


def _common_type(operands: list[Operand]) -> np.dtype[np.generic] | None:
    from pnnx_fast.expression.types import element_type, promote
    from pnnx_fast.ir.literals import tensor_type

    given = [tensor_type(x) for x in operands]
    return None if None in given else promote([element_type(x) for x in given if x], True)


def _made_by(expression: Operator) -> np.dtype[np.generic] | None:
    from pnnx_fast.ir.literals import type_of_text  # few models need it

    return type_of_text(expression, expression.params["expr"].text)


def _cast_result(graph: Graph, op: Operator, name: str) -> None:
    y = op.outputs[0]
    wide = unused_operand(graph, f"{y.name}_wide", y.shape)
    op.add_output(wide)
    cast = graph.new_operator_after("Tensor.to", graph.free_name(f"{op.name}_narrow"), op, inputs=[wide], outputs=[y])
    cast.params["dtype"] = name
