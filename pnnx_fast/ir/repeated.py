"""Which of query, key and value attention was given twice, where the converter writes it once; it changes no graph."""

from __future__ import annotations

from collections.abc import Sequence

from pnnx_fast.ir.levels import spellings
from pnnx_fast.ir.masks import MASKS, attention_masks
from pnnx_fast.ir.operator import Operand, Operator

__all__ = ["repeated_inputs"]

_ORDERS = (0, 1, 1), (0, 0, 1), (0, 1, 0)
"""What query, key and value may be of two inputs; the usual order first."""

_SUMS = spellings("add", "add_")
_MOVES = spellings("chunk", "contiguous", "flatten", "permute", "reshape", "select", "slice", "squeeze") | spellings(
    "transpose", "unsqueeze", "view"
)
"""Operators that a query and its values may both have behind them."""

_MOST_UPSTREAM = 40
"""Operators that are looked at for what a query is a sum of."""


def repeated_inputs(op: Operator) -> tuple[list[int], bool] | None:
    """Slots of query, key and value of ``nn.MultiheadAttention``, and whether the file leaves a doubt about them.

    None where these are the inputs in their usual order. The converter writes each tensor once: of ``(q, q, v)`` as of
    ``(q, v, v)`` it leaves ``q`` and ``v``. Numbers of features and rows may tell. Where they do not, a query that is a
    sum of the second input and something else, as in DETR, has a position added, as have the keys. Layers that the
    converter put together itself have names at their slots, and are what they seem.
    """
    if op.type != "nn.MultiheadAttention":
        return None
    masks, _ = attention_masks(op)
    slots = [i for i in range(len(op.inputs)) if i not in masks]
    if len(slots) != 2 or any(op.inputnames[i] not in ("", *MASKS) for i in slots if op.inputnames):
        return None
    given = [op.inputs[i] for i in slots]
    features = [op.value(key) for key in ("embed_dim", "kdim", "vdim")]
    fitting = [order for order in _ORDERS if _fits([given[i].shape for i in order], features)]
    usual = fitting[:1] == [_ORDERS[0]]
    if usual and not (_ORDERS[1] in fitting and _is_term(given[1], given[0])):
        return None
    chosen = _ORDERS[1] if usual else next(iter(fitting), None)
    return None if chosen is None else ([slots[i] for i in chosen], usual)


def _fits(shapes: Sequence[Sequence[int] | None], features: Sequence[object]) -> bool:
    """Whether tensors may be query, key and value, as far as sizes are known."""
    if any(x and x[-1] >= 0 and size is not None and x[-1] != size for x, size in zip(shapes, features, strict=True)):
        return False
    _, key, value = shapes
    return key is None or value is None or key[:-1] == value[:-1]


def _is_term(term: Operand, total: Operand) -> bool:
    """Whether a tensor is a sum of another one and something else, or both are alike views of such tensors."""
    for _ in range(_MOST_UPSTREAM):
        if any(_same(x, term) for x in _terms(total)):
            return True
        before = _before(total, term)
        if before is None:
            return False
        total, term = before
    return False


def _same(x: Operand, y: Operand) -> bool:
    """Whether two operands are one, or alike views of one: low levels have a view for each of its uses."""
    for _ in range(_MOST_UPSTREAM):
        before = _before(x, y) if x is not y else None
        if before is None:
            break
        x, y = before
    return x is y


def _terms(total: Operand) -> list[Operand]:
    """What a tensor is a sum of, through sums that nothing else reads, as level 2 writes them in one expression."""
    from pnnx_fast.expression import Call, Input
    from pnnx_fast.ir.literals import expression  # models without attention need no expressions

    found: list[Operand] = []
    waiting = [total]
    for _ in range(_MOST_UPSTREAM):
        if not waiting:
            break
        x = waiting.pop()
        op, tree = x.producer, expression(x.producer)
        if x is not total and (op is None or len(x.consumers) != 1):
            found.append(x)
        elif op is not None and op.type in _SUMS:
            waiting += op.inputs[:2]
        elif isinstance(tree, Call) and tree.name == "add" and op is not None:
            nodes = [*tree.children]
            while nodes:
                node = nodes.pop()
                if isinstance(node, Input):
                    waiting.append(op.inputs[node.index])
                elif isinstance(node, Call) and node.name == "add":
                    nodes += node.children
        elif x is not total:
            found.append(x)
    return found


def _before(x: Operand, y: Operand) -> tuple[Operand, Operand] | None:
    """What two tensors are alike views of; None where they are not."""
    from pnnx_fast.ir.literals import MISSING, literal

    a, b = x.producer, y.producer
    if a is None or b is None or a.type != b.type or a.type not in _MOVES or not a.inputs:
        return None
    if a.params != b.params or len(a.inputs) != len(b.inputs) or a.outputs.index(x) != b.outputs.index(y):
        return None
    for p, q in zip(a.inputs[1:], b.inputs[1:], strict=True):
        if p is not q and (literal(p) is MISSING or literal(p) != literal(q)):
            return None
    return a.inputs[0], b.inputs[0]
