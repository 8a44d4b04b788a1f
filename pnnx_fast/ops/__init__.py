"""All operators: one function an operator type, in a file a family.

A family registers its operators when it is imported, which the registry does when it is asked for one of them;
``load_all`` imports all of them.
"""

from __future__ import annotations

import importlib
from functools import cache, lru_cache

from pnnx_fast.ops.families import FAMILIES

__all__ = ["family_of", "load_all", "types_of"]

_loaded = False


@cache
def types_of(family: str) -> frozenset[str]:
    """Types that a family registers."""
    return frozenset(FAMILIES.get(family, "").split())


@lru_cache(4096)
def family_of(type: str) -> str | None:
    """The family that registers a type. Few are asked for, so that no table of all types is made."""
    return next((f for f, types in FAMILIES.items() if type in types and type in types_of(f)), None)


def load_all() -> None:
    """Import every family module of this package, which registers its operators; later calls do nothing."""
    global _loaded
    if _loaded:
        return
    import pkgutil

    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")
    _loaded = True
