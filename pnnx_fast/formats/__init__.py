"""File formats: every reader and writer, one module a format.

Each turns files into a graph or a graph into files; none knows the runtime. Importing this package makes the
PNNX format available to ``Graph.load`` and ``Graph.save``.
"""

from __future__ import annotations

from pnnx_fast.formats import pnnx_model
from pnnx_fast.formats.pnnx_param import Limits
from pnnx_fast.ir import codec

__all__ = ["Limits", "pnnx_model"]

codec.register(pnnx_model)
