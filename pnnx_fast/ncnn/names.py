"""Names by which the ncnn package's functions take their arguments, where ours has one function for several of its."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar, cast

__all__ = ["also_named"]

F = TypeVar("F", bound=Callable[..., Any])


def also_named(**names: str) -> Callable[[F], F]:
    """Let parameters have other names, too, for those who give them by name.

    Parameters
    ----------
    **names : str
        By the other name, the parameter that it stands for.

    Returns
    -------
    callable
        A decorator. Type checkers know the function's own names only.

    Examples
    --------
    >>> @also_named(index="type", **{"def": "default"})
    ... def pair(type, default=0):
    ...     return type, default
    >>> pair("ReLU", 1), pair(index=2, **{"def": 3})
    (('ReLU', 1), (2, 3))
    >>> pair("ReLU", type="ReLU", index=2)
    Traceback (most recent call last):
    TypeError: pair() got several values for one of: type, index
    """

    def decorate(function: F) -> F:
        @functools.wraps(function)
        def called(*args: Any, **kwargs: Any) -> Any:
            if not kwargs:
                return function(*args)
            own = {names.get(name, name): value for name, value in kwargs.items()}
            if len(own) < len(kwargs):
                raise TypeError(f"{function.__name__}() got several values for one of: {', '.join(kwargs)}")
            return function(*args, **own)

        return cast("F", called)

    return decorate
