"""The table of ncnn's layer types: one function a type, from parameters and weights to what builds its operators.

A layer function reads its parameters and weights and returns a function that takes the tracer and the operands and
emits operators of the project. It raises ParameterError for parameters that ncnn would refuse.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pnnx_fast.ir import Operand
from pnnx_fast.ncnn.values import Params, Weights

__all__ = ["Build", "LayerDef", "LayerFunction", "find", "layer"]

Build = Callable[..., Operand | Sequence[Operand] | None]
"""Called with the tracer and the input operands; returns one operand an output."""

LayerFunction = Callable[[Params, Weights], Build]


@dataclass(frozen=True, slots=True)
class LayerDef:
    """One layer type.

    ``one_blob_only`` and ``inplace`` are what ncnn says of it before parameters are known. ``dynamic`` layers have
    outputs whose shape depends on data, so that nothing behind them can be built before they have run.
    """

    name: str
    function: LayerFunction
    one_blob_only: bool
    inplace: bool
    dynamic: bool


_layers: dict[str, LayerDef] = {}


def layer(
    *names: str, one_blob_only: bool = True, inplace: bool = False, dynamic: bool = False
) -> Callable[[LayerFunction], LayerFunction]:
    """Register a layer function for one or more types."""

    def register(function: LayerFunction) -> LayerFunction:
        for name in names:
            _layers[name] = LayerDef(name, function, one_blob_only, inplace, dynamic)
        return function

    return register


def find(name: str) -> LayerDef | None:
    """Return the definition of a layer type, None when there is none."""
    return _layers.get(name)
