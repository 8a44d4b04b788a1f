"""Bindings of the C core: convert, check, release the GIL, raise. No policy lives here."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

_COMPILED = frozenset({"exporter", "openmp", "program", "store", "text"})


def __getattr__(name: str) -> ModuleType:
    """Import a compiled module; where there are only sources, say so instead of what Python would say."""
    if name not in _COMPILED:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return import_module(f"{__name__}.{name}")
    except ModuleNotFoundError as error:
        raise ImportError(
            f"{__path__[0]} holds sources without compiled modules. Start Python in another folder to import the "
            "installed package, or install the checkout in editable form"
        ) from error
