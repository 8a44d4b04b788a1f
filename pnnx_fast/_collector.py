"""A pause of Python's garbage collector while a model is loaded or a large graph is made.

Modules, graphs and programs are many small objects that all stay alive: the collector would walk them over and over
and find nothing, which makes building a graph take more than linear time. Knows nothing of what is made.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["collector_paused"]


@contextmanager
def collector_paused() -> Iterator[None]:
    """Stop automatic collections inside the block; afterwards they are on or off as before.

    If modules were imported inside, all objects count as old afterwards, as if collections had spared them: the
    collector need not look at them at once. Blocks that import nothing leave garbage of the caller where it is young.
    """
    enabled, modules = gc.isenabled(), len(sys.modules)
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            if len(sys.modules) > modules and gc.get_freeze_count() == 0:
                gc.freeze()
                gc.unfreeze()
            gc.enable()
