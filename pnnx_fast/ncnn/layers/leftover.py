"""Operators that PNNX could not turn into ncnn layers and left in the file under their own names.

ncnn refuses such files; here they run, as long as they have no parameters, which the format cannot express.
"""

from __future__ import annotations

from pnnx_fast.ir import Operand
from pnnx_fast.ncnn.layers.registry import Build, LayerDef
from pnnx_fast.ncnn.tracer import Tracer
from pnnx_fast.ncnn.values import Params, Weights

__all__ = ["leftover"]


def leftover(name: str) -> LayerDef | None:
    """Return a definition for an operator type of PNNX, None when there is no such operator."""
    from pnnx_fast.ops import registry

    if "." not in name or name.startswith(("ncnn.", "fused.", "pnnx.")) or registry.find(name) is None:
        return None

    def function(p: Params, w: Weights) -> Build:
        return lambda t, *inputs: _emit(t, name, inputs)

    return LayerDef(name, function, one_blob_only=False, inplace=False, dynamic=False)


def _emit(t: Tracer, name: str, inputs: tuple[Operand, ...]) -> list[Operand]:
    return t.emit_many(name, 1, *inputs)
