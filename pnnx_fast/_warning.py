"""Warnings that point at the application's line, however deep in the package the cause is met.

Used by whatever reads and writes files on the side; it knows nothing of them.
"""

from __future__ import annotations

import functools
import os
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["muted", "warn", "warnings_given"]

_INNER = (os.path.dirname(__file__) + os.sep, functools.__file__)
"""Where files begin whose lines are not the application's: this package, and properties that it computes once."""


_thread = threading.local()


@contextmanager
def muted() -> Iterator[None]:
    """Keep this thread's warnings to itself. Filters of :mod:`warnings` belong to all threads of a process."""
    before, _thread.muted = getattr(_thread, "muted", False), True
    try:
        yield
    finally:
        _thread.muted = before


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the line outside this package that led here."""
    if getattr(_thread, "muted", False):
        return
    _thread.given = warnings_given() + 1
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_INNER):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)


def warnings_given() -> int:
    """Count the warnings of this thread so far, also those that filters hide."""
    return getattr(_thread, "given", 0)
