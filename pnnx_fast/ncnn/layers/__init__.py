"""All ncnn layers, a file a family. Importing this package fills the table of ``registry``."""

from __future__ import annotations

import importlib
import pkgutil

from pnnx_fast.ncnn.layers.registry import LayerDef, find

__all__ = ["LayerDef", "find"]

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")
