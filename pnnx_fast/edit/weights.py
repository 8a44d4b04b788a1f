"""Conversion of weights to another floating-point type."""

from __future__ import annotations

from pnnx_fast.errors import ParameterError
from pnnx_fast.ir import Attribute, Graph

__all__ = ["to"]

_FLOATS = ("f32", "f64", "f16", "bf16")
_SPELLINGS = {"fp32": "f32", "float32": "f32", "fp16": "f16", "float16": "f16", "bfloat16": "bf16", "float64": "f64"}


def to(graph: Graph, dtype: str) -> Graph:
    """Return a graph whose modules hold floating-point weights of another type, which makes files smaller.

    Constants that take part in computation as operands (``pnnx.Attribute``) keep their type, as it decides the type
    of results.

    Parameters
    ----------
    graph : Graph
    dtype : {"f32", "f64", "f16", "bf16"}
        numpy's and PyTorch's names are understood, too.
    """
    wanted = _SPELLINGS.get(dtype, dtype)
    if wanted not in _FLOATS:
        raise ParameterError(f"weights can be {', '.join(_FLOATS)}, not {dtype!r}")
    result = graph.copy()
    for op in result.ops:
        if op.type == "pnnx.Attribute":
            continue
        for key, attr in op.attrs.items():
            if attr.dtype in _FLOATS and attr.dtype != wanted:
                op.attrs[key] = Attribute(attr.numpy(), wanted)
    return result
