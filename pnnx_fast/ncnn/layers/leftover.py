"""Operators that PNNX could not turn into ncnn layers and left in the file under their own names.

ncnn refuses such files. Their parameters are lost, as the format cannot express them, so only those run here that have
none, and those that say by being left what their parameters were.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from pnnx_fast.errors import ParameterError
from pnnx_fast.ir import Operand
from pnnx_fast.ncnn.layers.registry import Build, LayerDef
from pnnx_fast.ncnn.tracer import Tracer
from pnnx_fast.ncnn.values import Params, Weights

__all__ = ["leftover"]

# PNNX makes SDPA layers of all attention but the causal one. Heads of keys are shared where there are fewer of them.
_TELLING: Mapping[str, Mapping[str, Any]] = {"F.scaled_dot_product_attention": {"is_causal": True, "enable_gqa": True}}


def leftover(name: str) -> LayerDef | None:
    """Return a definition for an operator type of PNNX, None when there is no such operator."""
    from pnnx_fast.ops import registry

    if "." not in name or name.startswith(("ncnn.", "fused.", "pnnx.")):
        return None
    definition = registry.find(name)
    if definition is None:
        return None
    known = _TELLING.get(name)
    lost = [k for k, p in definition.parameters.items() if p.kind is inspect.Parameter.KEYWORD_ONLY]

    def build(t: Tracer, *inputs: Operand) -> list[Operand]:
        if lost and known is None:
            raise ParameterError(f"{name} was not converted, and the file does not tell its {', '.join(lost)}")
        return t.emit_many(name, 1, *inputs, **(known or {}))

    def function(p: Params, w: Weights) -> Build:
        return build

    return LayerDef(name, function, one_blob_only=False, inplace=False, dynamic=False)
