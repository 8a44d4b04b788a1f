"""The expression layer of the staged interface, usable alone: tokens, reverse Polish form, evaluation of batches.

A thin dress over :mod:`pnnx_fast.expression`, so every function of PNNX's expressions works, not ``add`` and ``mul``
alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

import numpy as np

from pnnx_fast.expression import Call, Input, Node, TokenKind, evaluate, parse, tokens
from pnnx_fast.expression.tree import postorder
from pnnx_fast.runtime_graph.status import InferStatus, StatusCode, StatusError

__all__ = ["ExpressionLayer", "ExpressionParser", "Token", "TokenNode", "TokenType"]


class TokenType(IntEnum):
    """Kinds of token; also ``num_index`` of a node that is no input.

    Examples
    --------
    >>> parser = ExpressionParser("add(@0,2.0)")
    >>> parser.tokenizer()
    >>> [token.token_type.name for token in parser.tokens()]
    ['ADD', 'LEFT_BRACKET', 'INPUT_NUMBER', 'COMMA', 'CONSTANT', 'RIGHT_BRACKET']
    """

    LIST_CLOSE = -13
    LIST_OPEN = -12
    CONSTANT = -11
    FUNCTION = -10
    UNKNOWN = -9
    INPUT_NUMBER = -8
    COMMA = -7
    ADD = -6
    MUL = -5
    LEFT_BRACKET = -4
    RIGHT_BRACKET = -3


_NAMES = {"add": TokenType.ADD, "mul": TokenType.MUL}
_KINDS = {
    TokenKind.INPUT: TokenType.INPUT_NUMBER,
    TokenKind.COMMA: TokenType.COMMA,
    TokenKind.OPEN: TokenType.LEFT_BRACKET,
    TokenKind.CLOSE: TokenType.RIGHT_BRACKET,
    TokenKind.OPEN_LIST: TokenType.LIST_OPEN,
    TokenKind.CLOSE_LIST: TokenType.LIST_CLOSE,
    TokenKind.NAME: TokenType.FUNCTION,
}


@dataclass(frozen=True, slots=True)
class Token:
    """A token and its place [start_pos, end_pos) in the statement.

    Attributes
    ----------
    token_type : TokenType
    start_pos, end_pos : int
        Characters, counted from 0.

    Examples
    --------
    >>> parser = ExpressionParser("mul(@0,@12)")
    >>> parser.tokenizer()
    >>> token = parser.tokens()[4]
    >>> token.token_type.name, parser.statement[token.start_pos : token.end_pos]
    ('INPUT_NUMBER', '@12')
    """

    token_type: TokenType
    start_pos: int
    end_pos: int


@dataclass(slots=True)
class TokenNode:
    """A node of the tree of an expression.

    Attributes
    ----------
    num_index : int
        Number of an input, or else a :class:`TokenType`.
    text : str
        What it is in the statement: ``@0``, a number, the name of a function, ``[]`` for a list.
    children : list of TokenNode
        Operands.

    Examples
    --------
    >>> root = ExpressionParser("add(@3,2.0)").generate()[-1]
    >>> TokenType(root.num_index).name, root.left.num_index, root.right.text
    ('ADD', 3, '2.0')
    """

    num_index: int
    text: str
    children: list[TokenNode] = field(default_factory=list)

    @property
    def left(self) -> TokenNode | None:
        """First operand."""
        return self.children[0] if self.children else None

    @property
    def right(self) -> TokenNode | None:
        """Second operand."""
        return self.children[1] if len(self.children) > 1 else None


class ExpressionParser:
    """Parser of one statement.

    Parameters
    ----------
    statement : str
        An expression of PNNX.

    Examples
    --------
    >>> parser = ExpressionParser("add(@0, mul(@1, @2))")
    >>> parser.tokenizer()
    >>> parser.token_str_array()
    ['add', '(', '@0', ',', 'mul', '(', '@1', ',', '@2', ')', ')']
    >>> [node.text for node in parser.generate()]
    ['@0', '@1', '@2', 'mul', 'add']
    """

    def __init__(self, statement: str) -> None:
        self.statement = statement
        self._tokens: list[Token] = []

    def tokenizer(self, retokenize: bool = False) -> None:
        """Cut the statement into tokens; does nothing the second time unless asked to.

        Parameters
        ----------
        retokenize : bool
            Whether to cut it again.

        Raises
        ------
        ExpressionError
            When a character begins no token.
        """
        if retokenize or not self._tokens:
            self._tokens = [Token(_token_type(t.kind, t.text), t.start, t.end) for t in tokens(self.statement)]

    def tokens(self) -> list[Token]:
        """Tokens found so far."""
        return list(self._tokens)

    def token_str_array(self) -> list[str]:
        """Their texts."""
        return [self.statement[t.start_pos : t.end_pos] for t in self._tokens]

    def generate(self) -> list[TokenNode]:
        """Nodes in reverse Polish order.

        Returns
        -------
        list of TokenNode
            Operands before what takes them; the last one is the root.

        Raises
        ------
        ExpressionError
            With the place of a mistake.
        """
        self.tokenizer()
        stack: list[TokenNode] = []
        found: list[TokenNode] = []
        for node in postorder(parse(self.statement)):
            count = len(node.children)
            children = stack[len(stack) - count :]
            del stack[len(stack) - count :]
            stack.append(_token_node(node, children))
            found.append(stack[-1])
        return found

    @staticmethod
    def reverse_polish(root: TokenNode) -> list[TokenNode]:
        """Nodes below a root: operands first, then what takes them.

        Parameters
        ----------
        root : TokenNode

        Returns
        -------
        list of TokenNode
            The root is the last one.
        """
        found: list[TokenNode] = []
        open_: list[tuple[TokenNode, Iterator[TokenNode]]] = [(root, iter(root.children))]
        while open_:
            _node, rest = open_[-1]
            child = next(rest, None)
            if child is None:
                found.append(open_.pop()[0])
            else:
                open_.append((child, iter(child.children)))
        return found


class ExpressionLayer:
    """Evaluates an expression on batches.

    Parameters
    ----------
    statement : str
        An expression of PNNX.

    Raises
    ------
    ExpressionError
        With the place of a mistake.

    Examples
    --------
    >>> layer = ExpressionLayer("add(@0,@1)")
    >>> layer.forward([np.float32([1]), np.float32([2]), np.float32([10]), np.float32([20])], batch=2)
    [array([11.], dtype=float32), array([22.], dtype=float32)]
    """

    def __init__(self, statement: str) -> None:
        self.parser = ExpressionParser(statement)
        self._root = parse(statement)

    def forward(self, inputs: Sequence[Any], batch: int) -> list[Any]:
        """Result for each sample.

        Parameters
        ----------
        inputs : sequence of array_like
            Operand k is ``inputs[k * batch : (k + 1) * batch]``.
        batch : int
            Number of samples.

        Returns
        -------
        list of ndarray
            One a sample.

        Raises
        ------
        StatusError
            When there are no inputs, or their number is no multiple of the batch.
        """
        if not inputs:
            codes = StatusCode.INFER_INPUTS_EMPTY, InferStatus.FAILED_INPUTS_EMPTY
            raise StatusError("the expression layer has no inputs", *codes)
        if batch < 1 or len(inputs) % batch:
            codes = StatusCode.INFER_DIM_MISMATCH, InferStatus.FAILED_ARRAY_SIZE_MISMATCH
            raise StatusError(f"{len(inputs)} inputs are no multiple of a batch of {batch}", *codes)
        return [np.asarray(evaluate(self._root, inputs[i::batch])) for i in range(batch)]


def _token_type(kind: str, text: str) -> TokenType:
    return _NAMES.get(text) or _KINDS.get(kind, TokenType.CONSTANT)


def _token_node(node: Node, children: list[TokenNode]) -> TokenNode:
    if isinstance(node, Input):
        return TokenNode(node.index, str(node))
    if isinstance(node, Call):
        return TokenNode(_NAMES.get(node.name, TokenType.FUNCTION), node.name, children)
    if children:
        return TokenNode(TokenType.LIST_OPEN, "[]", children)
    return TokenNode(TokenType.CONSTANT, str(node))
