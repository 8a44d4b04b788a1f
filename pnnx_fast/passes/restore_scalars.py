"""Constants without dimensions, which the converter writes as vectors of one entry, lose that dimension again.

Nothing at the constant tells; but operands without dimensions are those that have no note. So the note of a result, or
that there is none, tells what its operands had. Needed for right results, so this pass always runs.
"""

from __future__ import annotations

import re

from pnnx_fast.ir import Attribute, Graph, Operand, Operator

__all__ = ["restore_scalars"]

_NUMBERS = re.compile(r"(?<![\w.])(bool|float|int|size)\(")
"""Functions of expressions that give numbers, which have no notes either."""

_WIDER = {"F.embedding", "torch.stack"}
"""Operators whose result has one dimension more than an operand."""

_ALWAYS = {"aten::index_fill": 0, "torch.cat": 1}
"""Dimensions that operands have in any case."""


def restore_scalars(graph: Graph) -> bool:
    """Take the dimension of constants of one entry whose users tell that they had none; returns whether any did."""
    if not any(x.shape for op in graph.ops if op.type == "pnnx.Input" for x in op.outputs):
        return False  # a file without notes
    found = False
    for op in graph.ops:
        if not _is_short(op):
            continue
        x = op.outputs[0]
        if _ranks_told(x) == {0}:
            ((key, vector),) = op.attrs.items()
            op.attrs[key] = Attribute.from_data(vector.dtype, (), vector.data)
            x.shape = ()
            found = True
    return found


def _is_short(op: Operator | None) -> bool:
    """Whether an operator is a constant of one entry, with one dimension or none."""
    if op is None or op.type != "pnnx.Attribute" or len(op.attrs) != 1 or len(op.outputs) != 1:
        return False
    return next(iter(op.attrs.values())).shape in ((1,), ())


def _ranks_told(x: Operand) -> set[int | None]:
    """Dimensions that a constant of one entry has as an operand of operators, also of those that take lists."""
    readers = [(user, x) for user in x.consumers]
    lists = [user.outputs[0] for user in x.consumers if user.type == "prim::ListConstruct" and user.outputs]
    readers += [(user, made) for made in lists for user in made.consumers]
    return {_rank_told(*reader) for reader in readers} - {None}


def _rank_told(op: Operator, x: Operand) -> int | None:
    """Dimensions that a constant of one entry has as an operand of an operator, None where this does not tell."""
    if op.type in _ALWAYS:
        return _ALWAYS[op.type]
    made = op.outputs[0].shape if len(op.outputs) == 1 else None
    if op.type in _WIDER:
        return None if made is None or (op.type == "F.embedding" and x is not _index_of(op)) else len(made) - 1
    if op.type == "pnnx.Expression":
        if not op.has_param("expr") or _NUMBERS.search(op.params["expr"].text):
            return None
    elif not _is_arithmetic(op):
        return None
    if not all(y.shape is None or _is_short(y.producer) for y in op.inputs):
        return None  # beside tensors with dimensions it makes no difference
    return 0 if made is None else len(made)


def _is_arithmetic(op: Operator) -> bool:
    from pnnx_fast.passes.restore_narrow import ARITHMETIC  # few graphs have such constants

    return op.type in ARITHMETIC


def _index_of(op: Operator) -> Operand:
    return op.named_input("input") or op.inputs[0]
