"""Splits the text of an expression into tokens with their places. Used by the parser alone; knows no
function names.
"""

from __future__ import annotations

import re

from pnnx_fast.errors import ExpressionError

__all__ = ["MAX_TEXT", "MAX_VALUES", "Token", "TokenKind", "is_word", "tokens"]

#: Longest expression that is read.
MAX_TEXT = 1 << 20

#: Most inputs, numbers and names of an expression that is read.
MAX_VALUES = 1 << 17


#: Names that are values.
_VALUES = frozenset(("True", "False", "None", "inf", "nan"))

#: Terms of letters, and perhaps those of the result.
_EQUATION = r"(?=.*(?:,|->))[A-Za-z. ]*(?:,[A-Za-z. ]*)*(?:->[A-Za-z. ]*)?"


def is_word(text: str) -> bool:
    """Whether an expression without inputs is a string that an operator takes, left by the converter.

    That is a lone word, or an equation of ``torch.einsum``.
    """
    return text not in _VALUES and (text.isidentifier() or re.fullmatch(_EQUATION, text) is not None)


class TokenKind:
    """What a token is: names of the kinds."""

    INPUT = "input"
    INT = "int"
    FLOAT = "float"
    COMPLEX = "complex"
    NAME = "name"
    COMMA = ","
    OPEN = "("
    CLOSE = ")"
    OPEN_LIST = "["
    CLOSE_LIST = "]"


class Token:
    """One token; ``text[start:end]`` of the expression is its text, and ``kind`` one of :class:`TokenKind`."""

    __slots__ = ("end", "kind", "start", "text")

    def __init__(self, kind: str, text: str, start: int, end: int) -> None:
        self.kind, self.text, self.start, self.end = kind, text, start, end


_REAL = r"(?:\d+\.?\d*(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?|inf|nan(?:\.0)?)"
_FLOAT = rf"[+-]?{_REAL}"
# printf("%e+%ej") writes "1.0e+00+-2.0e+00j" for a negative imaginary part.
_COMPLEX = rf"(?:[+-]?{_REAL}(?=[+-]))?(?:\+(?=-))?[+-]?{_REAL}j"
_PUNCTUATION = frozenset(",()[]")
_APART = str.maketrans({mark: f" {mark} " for mark in _PUNCTUATION})


def tokens(text: str) -> list[Token]:
    """Tokens of an expression in order.

    Parameters
    ----------
    text : str
        The expression, at most `MAX_TEXT` characters with `MAX_VALUES` values.

    Raises
    ------
    ExpressionError
        When a piece of the text is no token; the position is that of the piece.

    Examples
    --------
    >>> [(t.text, t.start, t.end) for t in tokens("add(@0, 2)")]
    [('add', 0, 3), ('(', 3, 4), ('@0', 4, 6), (',', 6, 7), ('2', 8, 9), (')', 9, 10)]
    """
    if len(text) > MAX_TEXT:
        raise ExpressionError(f"the expression has {len(text)} characters, more than {MAX_TEXT}")
    found = []
    end = 0
    pieces = text.translate(_APART).split()
    if len(pieces) > MAX_VALUES and sum(piece not in _PUNCTUATION for piece in pieces) > MAX_VALUES:
        raise ExpressionError(f"the expression has more than {MAX_VALUES} values")
    for piece in pieces:
        start = text.index(piece, end)
        end = start + len(piece)
        kind = piece if piece in _PUNCTUATION else _classify(piece)
        if kind is None:
            shown = piece if len(piece) <= 40 else piece[:37] + "..."
            raise ExpressionError(f"{shown!r} is neither an input, a number nor a name", text, start)
        found.append(Token(kind, piece, start, end))
    return found


def _classify(piece: str) -> str | None:
    """Kind of what lies between brackets, commas and blanks: the first whose form it has.

    Regular expressions are left to numbers with a fraction, because compiling one takes longer than reading a model's
    expressions.
    """
    if len(piece) > 128:
        return None
    if piece[0] == "@":
        return TokenKind.INPUT if piece[1:].isdecimal() and len(piece) <= 10 else None
    digits = piece[1:] if piece[0] in "+-" else piece
    if digits.isdecimal() and len(digits) <= 40:
        return TokenKind.INT
    if not piece[0].isalpha() or piece.startswith(("inf", "nan")):
        if re.fullmatch(_FLOAT, piece):
            return TokenKind.FLOAT
        if re.fullmatch(_COMPLEX, piece):
            return TokenKind.COMPLEX
    is_name = piece.isascii() and piece[0] != "." and piece.replace(".", "_").isidentifier()
    return TokenKind.NAME if is_name else None
