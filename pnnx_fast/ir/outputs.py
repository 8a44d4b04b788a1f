"""What a model returns, part by part: its outputs through tuples, lists, and expressions that make lists.

Converters write a list of tensors as ``expr=[@0,@1]``. A part that is an operand goes by the operand's name; one that
the expression computes, as in ``[add(@0,1)]``, has the name of the list with its place behind it: ``7.0``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeAlias, Union

import numpy as np

from pnnx_fast.errors import ExpressionError, LimitError
from pnnx_fast.ir.dtypes import by_numpy, by_text
from pnnx_fast.ir.operator import Operand, Operator

if TYPE_CHECKING:
    from pnnx_fast.expression import Node
    from pnnx_fast.ir.graph import Graph

__all__ = [
    "MAX_DEPTH",
    "MAX_PARTS",
    "Names",
    "Returned",
    "flat",
    "leaves",
    "named",
    "names",
    "returned",
    "too_many_parts",
]

MAX_PARTS, MAX_DEPTH = 1 << 16, 64
"""Lists and tuples of lists and tuples: parts on all levels together, and levels. A few operators that each name the
one before twice would otherwise fill the memory."""

USUAL_PARTS = 16
"""Parts that any output may have besides."""

Returned: TypeAlias = Union[Operand, "list[Returned]"]
"""An operand, or a list of what a tuple or list consists of."""

Names: TypeAlias = Union[str, "list[Names]"]
"""Names in the place of the operands."""


def returned(graph: Graph) -> list[Returned]:
    """Return what each output of a graph consists of. Parts that an expression computes are operands of no graph.

    Raises
    ------
    LimitError
        When there are more than so many parts or levels.

    Examples
    --------
    >>> graph = pnnx_fast.Graph.parse('''7767517
    ... 4 3
    ... pnnx.Input           in  0 1 x #x=(2)f32
    ... pnnx.Expression      e   1 1 x y expr=[@0,neg(@0)]
    ... prim::TupleConstruct t   2 1 x y z
    ... pnnx.Output          out 1 0 z
    ... ''')
    >>> returned(graph)
    [[Operand(x:(2)f32), [Operand(x:(2)f32), Operand(y.1:(2)f32)]]]
    """
    outputs = graph.outputs
    walk = _Walk(MAX_PARTS + USUAL_PARTS * len(outputs))
    return [walk.operand(x, 0) for x in outputs]


def leaves(found: Sequence[Returned]) -> Iterator[Operand]:
    """Yield the operands of what :func:`returned` gives, in order."""
    for part in found:
        if isinstance(part, list):
            yield from leaves(part)
        else:
            yield part


def names(found: Sequence[Returned]) -> list[Names]:
    """Return the names in what :func:`returned` gives."""
    return [names(part) if isinstance(part, list) else part.name for part in found]


def named(name: Names, value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the parts of a result with their names. One is a list where the graph does not tell what it consists of.

    Examples
    --------
    >>> list(named(["x", ["y", "z"]], (1, [2, [3, 4]])))
    [('x', 1), ('y', 2), ('z', [3, 4])]
    """
    if isinstance(name, str):
        yield name, value
        return
    for pair in zip(name, value, strict=True):
        yield from named(*pair)


def flat(value: Any) -> list[Any]:
    """Return what lists and tuples in lists and tuples consist of.

    Examples
    --------
    >>> flat((1, [2, [3, 4]]))
    [1, 2, 3, 4]
    """
    return [leaf for part in value for leaf in flat(part)] if isinstance(value, (list, tuple)) else [value]


def too_many_parts(where: str) -> LimitError:
    """The error about lists and tuples that are too large or too deep."""
    return LimitError(f"lists and tuples of more than {MAX_PARTS} parts or {MAX_DEPTH} levels", path=where)


class _Walk:
    """A way through lists in lists that ends, whatever the file says."""

    def __init__(self, most: int) -> None:
        self.left = most

    def operand(self, x: Operand, depth: int) -> Returned:
        self.count(depth)
        maker = x.producer
        if maker is None:
            return x
        if maker.type in ("prim::TupleConstruct", "prim::ListConstruct"):
            return [self.operand(part, depth + 1) for part in maker.inputs]
        items = _items(maker)
        return x if items is None else self.items(items, maker, x.name, depth + 1)

    def items(self, items: Sequence[Node], maker: Operator, name: str, depth: int) -> list[Returned]:
        return [self.item(item, maker, f"{name}.{i}", depth) for i, item in enumerate(items)]

    def item(self, item: Node, maker: Operator, name: str, depth: int) -> Returned:
        from pnnx_fast.expression import Input, ListNode

        if isinstance(item, Input) and item.index < len(maker.inputs):
            return self.operand(maker.inputs[item.index], depth)
        self.count(depth)
        if isinstance(item, ListNode):
            return self.items(item.children, maker, name, depth + 1)
        made = Operand(name)
        made.producer = maker
        with suppress(Exception):  # a mistake in an expression is left to the operator's function, which names it
            _note(made, item, maker.inputs)
        return made

    def count(self, depth: int) -> None:
        self.left -= 1
        if self.left < 0 or depth > MAX_DEPTH:
            raise too_many_parts("pnnx.Output")


def _note(made: Operand, item: Node, inputs: Sequence[Operand]) -> None:
    """Set shape and dtype of what an expression gives, where those of its operands are known."""
    from pnnx_fast.expression import TensorType, evaluate, inputs_of

    kinds: list[TensorType | None] = [None] * len(inputs)
    for i in inputs_of(item):
        shape, dtype = inputs[i].shape, inputs[i].dtype
        if shape is None or dtype is None or min(shape, default=0) < 0:
            return
        kinds[i] = TensorType(np.dtype(by_text[dtype].computed), shape)
    value = evaluate(item, kinds)
    if isinstance(value, TensorType):
        made.shape, made.dtype = value.shape, by_numpy[value.dtype.name].text


def _items(op: Operator) -> Sequence[Node] | None:
    """Entries of the list that an expression makes, None for other operators. Mistakes are left to its function."""
    text = str(op.value("expr")) if op.type == "pnnx.Expression" and len(op.outputs) == 1 else ""
    if not text.startswith("["):
        return None
    from pnnx_fast.expression import ListNode, parse  # few models need it

    try:
        root = parse(text)
    except ExpressionError:
        return None
    return root.children if isinstance(root, ListNode) else None
