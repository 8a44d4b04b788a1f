"""Reverse Polish form of a tree and its evaluation with a stack on numpy: the reference for every other
evaluator.

Used by tests, by host steps of the runtime and, with tensor types in place of arrays, by lowering.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pnnx_fast.errors import ExpressionError
from pnnx_fast.expression.apply import apply
from pnnx_fast.expression.functions import FUNCTIONS
from pnnx_fast.expression.parser import parse
from pnnx_fast.expression.tree import Call, Constant, Input, ListNode, Node, position_of, postorder
from pnnx_fast.expression.types import TensorType, Value

__all__ = ["evaluate", "to_rpn"]


def to_rpn(root: Node) -> list[Node]:
    """Nodes in reverse Polish order: operands first, then the call or list that takes ``len(node.children)``
    of them.

    Examples
    --------
    >>> from pnnx_fast.expression.tree import Call
    >>> [n.name if isinstance(n, Call) else str(n) for n in to_rpn(parse("add(mul(@0,2),@1)"))]
    ['@0', '2', 'mul', '@1', 'add']
    """
    return list(postorder(root))


def evaluate(expression: Node | str, inputs: Sequence[Any]) -> Value:
    """Value of an expression.

    Parameters
    ----------
    expression : Node or str
        A parsed expression or its text.
    inputs : sequence
        Value of ``@i`` at place i: an array of any shape (a 0-d array is a tensor, not a number), a
        `TensorType`, a Python number or a list of numbers.

    Returns
    -------
    array, TensorType, number, list, DTypeName or None
        An array as soon as an operand is one; a `TensorType` (dtype and shape, no data) when an operand is
        one; Python numbers and lists otherwise. The array may share memory with an input.

    Raises
    ------
    ExpressionError
        When the text does not parse, an input is missing, or types or shapes do not fit; the message shows
        the place.

    Examples
    --------
    >>> import numpy as np
    >>> evaluate("add(mul(@0,2),@1)", [np.float32([1, 2]), np.float32([10])])
    array([12., 14.], dtype=float32)
    >>> evaluate("[size(@0,1),-1]", [np.zeros((2, 3))])
    [3, -1]
    """
    root = parse(expression) if isinstance(expression, str) else expression
    stack: list[Value] = []
    for node in to_rpn(root):
        count = len(node.children)
        args = stack[len(stack) - count :]
        del stack[len(stack) - count :]
        try:
            stack.append(_step(node, args, inputs))
        except ExpressionError as error:
            raise type(error)(error.reason, *position_of(root, node)) from None
    return stack.pop()


def _step(node: Node, args: list[Value], inputs: Sequence[Any]) -> Value:
    if isinstance(node, Call):
        return apply(FUNCTIONS[node.name], args)
    if isinstance(node, ListNode):
        return args
    if isinstance(node, Constant):
        return node.value
    assert isinstance(node, Input)
    if node.index >= len(inputs):
        raise ExpressionError(f"@{node.index} is used, but there are {len(inputs)} inputs")
    return _operand(inputs[node.index])


def _operand(value: Any) -> Value:
    if value is None or isinstance(value, bool | int | float | complex | list | np.ndarray | TensorType):
        return value
    if isinstance(value, tuple):
        return list(value)
    return np.asarray(value)
