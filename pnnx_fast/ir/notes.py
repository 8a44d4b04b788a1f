"""What the types noted at operands tell of things that the converter left out: the dtype of a sum, the rounding of a
quotient. Used by the pass that restores them and by the writer of Python source; it changes no graph.
"""

from __future__ import annotations

import re

from pnnx_fast.ir.operator import Operator

__all__ = ["KEEPING", "WIDENING", "missing_dtype", "rounded_quotients"]

WIDENING = frozenset({"torch.sum", "torch.prod", "torch.cumsum", "torch.cumprod"})
"""Operators that give i64 for integers when no dtype is asked for."""

KEEPING = frozenset({"torch.mean", "F.softmax", "F.log_softmax", "F.softmin"})
"""Operators that keep the dtype of their input when no dtype is asked for."""

_NAMES = {"f16": "torch.half", "f32": "torch.float", "f64": "torch.double", "i32": "torch.int", "i64": "torch.long"}
_INTEGERS = frozenset({"i64", "i32", "i16", "i8", "u8"})
_QUOTIENT = re.compile(r"\bdiv\(")


def missing_dtype(op: Operator) -> str | None:
    """The ``dtype`` that an operator was called with but is written without, as PNNX spells it."""
    if (op.type not in WIDENING and op.type not in KEEPING) or not op.inputs or not op.outputs:
        return None
    if "dtype" in op.params or "dtype" in op.inputnames:
        return None
    given, noted = op.inputs[0].dtype or "", op.outputs[0].dtype or ""
    natural = "i64" if op.type in WIDENING and given[:1] in ("i", "u", "b") and not given.startswith("bf") else given
    return _NAMES.get(noted) if given and noted != natural else None


def rounded_quotients(op: Operator) -> str:
    """The text of an expression in which a quotient of integers that is noted as an integer is rounded down.

    ``torch.div(x, 80, rounding_mode="floor")`` is written as ``div(@0,80)``.
    """
    text = op.params["expr"].text if "expr" in op.params else ""
    if "div(" not in text or not op.inputs or len(op.outputs) != 1:
        return text
    if op.outputs[0].dtype not in _INTEGERS or not all(x.dtype in _INTEGERS for x in op.inputs):
        return text
    return _QUOTIENT.sub("floor_divide(", text)
