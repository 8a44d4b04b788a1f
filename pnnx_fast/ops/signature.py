"""What the signature of an operator's function says. Used by the registry alone; knows no operator."""

from __future__ import annotations

import inspect
from itertools import islice
from types import FunctionType
from typing import Any

__all__ = ["EMPTY", "NAMED", "OPEN", "POSITIONAL", "VARIADIC", "Formal", "read_signature"]

EMPTY = inspect.Parameter.empty
POSITIONAL, NAMED = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY
VARIADIC, OPEN = inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD


class Formal:
    """A parameter of an operator's function; ``kind`` and ``default`` are those of :class:`inspect.Parameter`."""

    __slots__ = ("annotation", "default", "kind")

    def __init__(self, kind: Any, default: Any = EMPTY, annotation: Any = EMPTY) -> None:
        self.kind, self.default, self.annotation = kind, default, annotation


def read_signature(function: Any) -> dict[str, Formal]:
    """Parameters after the builder. Plain functions are read directly, which is much faster than inspect."""
    if type(function) is not FunctionType or function.__dict__ or function.__code__.co_posonlyargcount:
        found = list(inspect.signature(function).parameters.items())[1:]
        return {name: Formal(p.kind, p.default, p.annotation) for name, p in found}
    code, hints = function.__code__, function.__annotations__
    names = iter(code.co_varnames)
    ordered, only = (list(islice(names, n)) for n in (code.co_argcount, code.co_kwonlyargcount))
    defaults = dict(zip(reversed(ordered), reversed(function.__defaults__ or ()), strict=False))
    defaults |= function.__kwdefaults__ or {}
    kinds: dict[str, Any] = dict.fromkeys(ordered[1:], POSITIONAL)
    if code.co_flags & inspect.CO_VARARGS:
        kinds[next(names)] = VARIADIC
    kinds |= dict.fromkeys(only, NAMED)
    if code.co_flags & inspect.CO_VARKEYWORDS:
        kinds[next(names)] = OPEN
    return {name: Formal(kind, defaults.get(name, EMPTY), hints.get(name, EMPTY)) for name, kind in kinds.items()}
