"""Splits the text of an expression into tokens with their places. Used by the parser alone; knows no
function names.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import NamedTuple

from pnnx_fast.errors import ExpressionError

__all__ = ["MAX_TEXT", "Token", "TokenKind", "is_word", "tokens"]

#: Longest expression that is read.
MAX_TEXT = 1 << 20


#: Names that are values.
_VALUES = frozenset(("True", "False", "None", "inf", "nan"))


def is_word(text: str) -> bool:
    """Whether an expression without inputs is a lone word: a string that an operator takes, left by the converter."""
    return text.isidentifier() and text not in _VALUES


class TokenKind(Enum):
    """What a token is."""

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


class Token(NamedTuple):
    """One token; ``text[start:end]`` of the expression is its text."""

    kind: TokenKind
    text: str
    start: int
    end: int


_REAL = r"(?:\d+\.?\d*(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?|inf|nan(?:\.0)?)"
# A token is what lies between brackets, commas and blanks; its form decides the kind, the first that matches
# wins. The first character decides which forms come into question, so that those are compiled which a model needs.
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz"
_FORMS = [
    ("@", TokenKind.INPUT, r"@\d{1,9}"),
    ("+-0123456789", TokenKind.INT, r"[+-]?\d{1,40}"),
    ("+-.0123456789in", TokenKind.FLOAT, rf"[+-]?{_REAL}"),
    # printf("%e+%ej") writes "1.0e+00+-2.0e+00j" for a negative imaginary part.
    ("+-.0123456789in", TokenKind.COMPLEX, rf"(?:[+-]?{_REAL}(?=[+-]))?(?:\+(?=-))?[+-]?{_REAL}j"),
    (_LETTERS, TokenKind.NAME, r"[A-Za-z_][A-Za-z0-9_.]*"),
]
_PUNCTUATION = {kind.value: kind for kind in TokenKind if len(kind.value) == 1}
_SPLIT = re.compile(r"[(),\[\]]|[^\s(),\[\]]+")


def tokens(text: str) -> list[Token]:
    """Tokens of an expression in order.

    Parameters
    ----------
    text : str
        The expression, at most `MAX_TEXT` characters.

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
    for match in _SPLIT.finditer(text):
        piece, start = match.group(), match.start()
        kind = _PUNCTUATION.get(piece) or _classify(piece)
        if kind is None:
            shown = piece if len(piece) <= 40 else piece[:37] + "..."
            raise ExpressionError(f"{shown!r} is neither an input, a number nor a name", text, start)
        found.append(Token(kind, piece, start, match.end()))
    return found


def _classify(piece: str) -> TokenKind | None:
    if len(piece) > 128:
        return None
    first = piece[0]
    forms = [(kind, form) for begins, kind, form in _FORMS if first in begins or not first.isascii()]
    return next((kind for kind, form in forms if re.fullmatch(form, piece)), None)
