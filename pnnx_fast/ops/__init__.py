"""All operators: one function an operator type, in a file a family.

A family registers its operators when it is imported, which the registry does when it is asked for one of them;
``load_all`` imports all of them.
"""

from __future__ import annotations

import importlib

__all__ = ["load_all"]

_loaded = False


def load_all() -> None:
    """Import every family module of this package, which registers its operators; later calls do nothing."""
    global _loaded
    if _loaded:
        return
    import pkgutil

    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")
    _loaded = True
