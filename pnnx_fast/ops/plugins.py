"""Operators that installed packages bring: the entry points of the group ``pnnx_fast.operators``.

They are looked up when a model names a type that nothing is registered for, so nobody else pays for the search. What
an entry point does is its own business; it registers through the public functions.
"""

from __future__ import annotations

import threading
from importlib import metadata

from pnnx_fast.errors import PnnxFastError

__all__ = ["GROUP", "load_plugins"]

GROUP = "pnnx_fast.operators"

_loaded: set[str] = set()
_lock = threading.RLock()


def load_plugins() -> list[str]:
    """Load what has not been loaded yet and return the names; a callable is called, a module is just imported.

    Raises
    ------
    PnnxFastError
        Naming the entry point that failed; the next call tries it again.
    """
    found = []
    with _lock:
        for point in metadata.entry_points(group=GROUP):
            if point.value in _loaded:
                continue
            try:
                register = point.load()
                if callable(register):
                    register()
            except Exception as error:
                raise PnnxFastError(f"the operator plugin {point.name} ({point.value}) failed: {error}") from error
            _loaded.add(point.value)
            found.append(point.name)
    return found
