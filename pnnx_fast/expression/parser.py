"""Recursive-descent parser from text to tree. It checks function names and argument counts against the
function table.

The descent is written with generators that a loop resumes, so it lives on the heap: nesting in a file cannot
overflow Python's stack.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, TypeAlias

from pnnx_fast.errors import ExpressionError, did_you_mean
from pnnx_fast.expression.functions import FUNCTIONS, Function
from pnnx_fast.expression.lex import Token, TokenKind, tokens
from pnnx_fast.expression.tree import Call, Constant, Input, ListNode, Node
from pnnx_fast.expression.types import TORCH_DTYPES, DTypeName

__all__ = ["MAX_DEPTH", "parse", "with_whole_casts"]

#: Deepest nesting that is read.
MAX_DEPTH = 4096

_NAMED = {"None": None, "True": True, "False": False}
_Descent: TypeAlias = Generator["_Descent", Any, Node]


def parse(text: str) -> Node:
    """Parse one expression.

    Besides the regular form ``name(a,b)`` two forms that converters write are understood: empty argument
    slots (``add(@0,,mul(@1,2))``) are skipped, and a function name followed by a comma (``log1p,@0``) takes
    as many of the following values as the function has arguments. Where brackets close too early
    (``exp(log1p),@0``) the names count as prefix notation.

    Parameters
    ----------
    text : str
        For example ``"add(mul(@0,2),@1)"`` or ``"[size(@0,1),-1]"``.

    Returns
    -------
    Node
        The root of an immutable tree.

    Raises
    ------
    ExpressionError
        With the place of the first mistake.

    Examples
    --------
    >>> str(parse("add(@0,,mul(@1,2))"))
    'add(@0,mul(@1,2))'
    """
    parser = _Parser(text)
    try:
        root = _descend(parser.value())
        parser.expect_end()
    except ExpressionError:
        prefix = parser.prefix_order()
        if prefix is None:
            raise
        return prefix
    return root


def with_whole_casts(text: str) -> Node | None:
    """Parse what a converter wrote of casts that it took for words; None where that is no prefix notation.

    It reads expressions from the back, where an operator takes as many values as it needs. A dtype is a value then, and
    what it was to cast is left over, though the order of the words is still right.

    Examples
    --------
    >>> str(with_whole_casts("[int(torch.int),floor(@0)]"))
    '[int(torch.int(floor(@0)))]'
    """
    try:
        return _Parser(text).prefix_order()
    except ExpressionError:
        return None


def _descend(start: _Descent) -> Node:
    active = [start]
    result: Node | None = None
    while active:
        try:
            active.append(active[-1].send(result))
            result = None
        except StopIteration as finished:
            active.pop()
            result = finished.value
    assert result is not None
    return result


class _Parser:
    """Tokens of one expression and the place reached in them."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = tokens(text)
        self.at = 0
        self.depth = 0
        if not self.tokens:
            raise ExpressionError("the expression is empty", text, 0)

    def error(self, reason: str, token: Token | None) -> ExpressionError:
        return ExpressionError(reason, self.text, token.start if token else len(self.text))

    def peek(self) -> Token | None:
        return self.tokens[self.at] if self.at < len(self.tokens) else None

    def next_is(self, kind: str) -> bool:
        token = self.peek()
        return token is not None and token.kind == kind

    def accept(self, kind: str) -> bool:
        found = self.next_is(kind)
        self.at += found
        return found

    def expect_end(self) -> None:
        token = self.peek()
        if token is not None:
            raise self.error(f"{token.text!r} follows a complete expression", token)

    def prefix_order(self) -> Node | None:
        """Tree of a text with bare function names, read as prefix notation without brackets; None when it is none."""
        after = [*self.tokens[1:], None]
        bare = any(
            t.text in FUNCTIONS and (f is None or f.kind != TokenKind.OPEN)
            for t, f in zip(self.tokens, after, strict=True)
            if t.kind == TokenKind.NAME
        )
        stack: list[Node | None] = []
        for token in reversed(self.tokens) if bare and len(self.tokens) <= MAX_DEPTH else ():
            if token.kind == TokenKind.CLOSE_LIST:
                stack.append(None)
            elif token.kind == TokenKind.OPEN_LIST or (token.kind == TokenKind.NAME and token.text in FUNCTIONS):
                taken = self.taken(token, stack)
                if taken is None:
                    return None
                stack.append(ListNode(taken) if token.kind == TokenKind.OPEN_LIST else Call(token.text, taken))
            elif token.kind == TokenKind.NAME:
                if token.text not in _NAMED:
                    return None
                stack.append(Constant(_NAMED[token.text], token.text))
            elif token.kind not in (TokenKind.OPEN, TokenKind.CLOSE, TokenKind.COMMA):
                stack.append(Input(int(token.text[1:])) if token.kind == TokenKind.INPUT else self.number(token))
        return stack[0] if len(stack) == 1 else None

    @staticmethod
    def taken(token: Token, stack: list[Node | None]) -> list[Node] | None:
        """Arguments of a function, or entries of a list up to its end, from the top of the stack."""
        found: list[Node] = []
        count = FUNCTIONS[token.text].least if token.kind == TokenKind.NAME else -1
        if token.text == "size" and len(stack) > 1 and isinstance(stack[-2], Constant):
            count = 2  # of one dimension
        while len(found) != count:
            node = stack.pop() if stack else None
            if node is None:
                return found if count < 0 else None
            found.append(node)
        return found

    def value(self) -> _Descent:
        """Value := input | number | named constant | list | call."""
        token = self.peek()
        if token is None:
            raise self.error("the expression ends where a value is expected", None)
        self.at += 1
        if token.kind == TokenKind.NAME:
            return (yield from self.name(token))
        if token.kind == TokenKind.OPEN_LIST:
            return ListNode((yield from self.items(token, TokenKind.CLOSE_LIST)))
        if token.kind == TokenKind.INPUT:
            return Input(int(token.text[1:]))
        return self.number(token)

    def number(self, token: Token) -> Node:
        if token.kind == TokenKind.INT:
            number = int(token.text)
            if not -(2**63) <= number < 2**63:
                raise self.error("the integer does not fit in 64 bits", token)
            return Constant(number, token.text)
        if token.kind == TokenKind.FLOAT:
            return Constant(_real(token.text), token.text)
        if token.kind == TokenKind.COMPLEX:
            return Constant(complex(token.text.replace("nan.0", "nan").replace("+-", "-")), token.text)
        raise self.error(f"expected a value, found {token.text!r}", token)

    def name(self, token: Token) -> _Descent:
        if token.text in _NAMED:
            return Constant(_NAMED[token.text], token.text)
        bracket = self.next_is(TokenKind.OPEN)
        if token.text in TORCH_DTYPES and not bracket:
            return Constant(DTypeName(token.text), token.text)
        function = FUNCTIONS.get(token.text)
        if function is None:
            raise self.error(f"there is no function {token.text!r}{did_you_mean(token.text, FUNCTIONS)}", token)
        if bracket:
            self.at += 1
            args = yield from self.items(token, TokenKind.CLOSE)
            self.check_count(function, len(args), token)
            return Call(token.text, args)
        if self.next_is(TokenKind.COMMA):
            return Call(token.text, (yield from self.following(function, token)))
        raise self.error(f"{token.text!r} is a function, '(' is expected after it", self.peek())

    def check_count(self, function: Function, count: int, token: Token) -> None:
        low, high = function.least, function.most
        if not low <= count <= high:
            wanted = str(low) if low == high else f"{low} to {high}"
            raise self.error(f"{token.text!r} takes {wanted} argument{'s' * (high != 1)}, {count} given", token)

    def nested(self, token: Token) -> Generator[_Descent, Any, Node]:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise self.error(f"nested deeper than {MAX_DEPTH} levels", token)
        node: Node = yield self.value()
        self.depth -= 1
        return node

    def items(self, opening: Token, closing: str) -> Generator[_Descent, Any, list[Node]]:
        """Values up to `closing`; slots between commas may be empty."""
        found: list[Node] = []
        while not self.accept(closing):
            if self.accept(TokenKind.COMMA):
                continue
            if self.peek() is None:
                raise self.error(f"{closing!r} is missing", None)
            found.append((yield from self.nested(opening)))
            token = self.peek()
            if token is not None and token.kind not in (TokenKind.COMMA, closing):
                raise self.error(f"expected ',' or {closing!r}, found {token.text!r}", token)
        return found

    def following(self, function: Function, token: Token) -> Generator[_Descent, Any, list[Node]]:
        """The arguments of a function that is written without brackets."""
        found: list[Node] = []
        while len(found) < function.least:
            if not self.accept(TokenKind.COMMA):
                self.check_count(function, len(found), token)
            found.append((yield from self.nested(token)))
        return found


def _real(text: str) -> float:
    return float("nan") if text.endswith("nan.0") else float(text)
