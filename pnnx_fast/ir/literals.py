"""What operands are worth that a graph writes as operators without inputs: constants and literal expressions.

The simplifications and the writer of Python source ask here; running asks the operators themselves.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from pnnx_fast._types import Array
from pnnx_fast.errors import ExpressionError
from pnnx_fast.expression import Constant, ListNode, Node, TensorType, evaluate, inputs_of, is_word, parse
from pnnx_fast.expression.types import DTypeName
from pnnx_fast.ir.attribute import Attribute
from pnnx_fast.ir.dtypes import by_text
from pnnx_fast.ir.operator import Operand, Operator

__all__ = ["MISSING", "constant", "constant_array", "expression", "literal", "tensor_type", "type_of_text"]

MISSING = object()
"""What `literal` returns for an operand whose value is not known."""


@lru_cache(maxsize=256)
def _parse(text: str) -> Node | None:
    """Tree of an expression, None where it has none. Passes ask for one after another several times."""
    try:
        return parse(text)
    except ExpressionError:
        return None


def expression(op: Operator | None) -> Node | None:
    """Tree of a ``pnnx.Expression``, None for anything else."""
    if op is None or op.type != "pnnx.Expression" or len(op.outputs) != 1:
        return None
    node = _parse(str(op.params["expr"].value))
    return node if node is not None and max(inputs_of(node), default=-1) < len(op.inputs) else None


def constant(x: Operand) -> Attribute | None:
    """Data of an operand that is a constant of the graph, None for anything else."""
    op = x.producer
    return op.attrs.get("data") if op is not None and op.type == "pnnx.Attribute" else None


def constant_array(x: Operand) -> Array | None:
    """Value of an operand that is a constant of the graph, None for anything else."""
    data = constant(x)
    return None if data is None or data.dtype is None else data.numpy()


def literal(x: Operand | None) -> Any:
    """Value of an operand that is a number, a list of numbers, None or a word; MISSING otherwise."""
    op = None if x is None else x.producer
    if op is None or op.inputs:
        return MISSING
    if op.type == "prim::Constant":
        return op.value("value")
    if op.type == "pnnx.Expression" and is_word(op.params["expr"].text):
        return op.params["expr"].text
    node = expression(op)
    return MISSING if node is None else _value(node)


def _value(node: Node) -> Any:
    if isinstance(node, Constant):
        return MISSING if isinstance(node.value, DTypeName) else node.value
    if not isinstance(node, ListNode):
        return MISSING
    items = [_value(child) for child in node.children]
    return MISSING if any(item is MISSING for item in items) else items


def tensor_type(x: Operand) -> TensorType | None:
    """Type of an operand as far as types of results depend on it: sizes do not matter, their number does."""
    row = by_text.get(x.dtype or "")
    return None if row is None or x.shape is None else TensorType(np.dtype(row.computed), (1,) * len(x.shape))


def type_of_text(op: Operator, text: str) -> np.dtype[np.generic] | None:
    """Type of the tensor that a text gives as an expression of an operator's inputs; None where it is not known."""
    given = [tensor_type(x) for x in op.inputs]
    if None in given:
        return None
    try:
        made = evaluate(text, given)
    except (ExpressionError, ArithmeticError, ValueError, TypeError):
        return None
    return made.dtype if isinstance(made, TensorType) else None
