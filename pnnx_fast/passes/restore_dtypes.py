"""Result types that the converter dropped come back from its notes.

``torch.sum(x, dtype=torch.float64)`` is written without its dtype; the types noted at the operands still tell. It is
needed for right results, so this pass always runs.
"""

from __future__ import annotations

from pnnx_fast.ir import Graph, Operator

__all__ = ["restore_dtypes"]

WIDENING = frozenset({"torch.sum", "torch.prod", "torch.cumsum", "torch.cumprod"})
"""Operators that give i64 for integers when no dtype is asked for."""

KEEPING = frozenset({"torch.mean", "F.softmax", "F.log_softmax", "F.softmin"})
"""Operators that keep the dtype of their input when no dtype is asked for."""

NAMES = {"f16": "torch.half", "f32": "torch.float", "f64": "torch.double", "i32": "torch.int", "i64": "torch.long"}


def restore_dtypes(graph: Graph) -> bool:
    """Give operators the dtype that their results are noted with; returns whether any was missing."""
    found = False
    for op in graph.ops:
        name = _missing(op)
        if name is not None:
            op.params["dtype"] = name
            found = True
    return found


def _missing(op: Operator) -> str | None:
    if (op.type not in WIDENING and op.type not in KEEPING) or not op.inputs or not op.outputs:
        return None
    if "dtype" in op.params or "dtype" in op.inputnames:
        return None
    given, noted = op.inputs[0].dtype or "", op.outputs[0].dtype or ""
    natural = "i64" if op.type in WIDENING and given[:1] in ("i", "u", "b") and not given.startswith("bf") else given
    return NAMES.get(noted) if given and noted != natural else None
