"""All operators: one function an operator type, in a file a family. ``load_all`` registers them."""

from __future__ import annotations

import importlib
import pkgutil

__all__ = ["load_all"]

_loaded = False


def load_all() -> None:
    """Import every family module of this package, which registers its operators; later calls do nothing."""
    global _loaded
    if _loaded:
        return
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")
    _loaded = True
