"""Layers of one's own in the staged interface: a class with ``forward``, registered by a creator.

A registered layer becomes an ordinary operator of the runtime, so every way to run a model finds it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from pnnx_fast._types import Array
from pnnx_fast.errors import ParameterError
from pnnx_fast.ops import registry
from pnnx_fast.ops.symbolic import Builder, Tensor, Value
from pnnx_fast.runtime_graph.status import InferStatus, StatusCode, StatusError

__all__ = ["Layer", "LayerRegisterer", "ParamLayer"]

Creator = Callable[[Mapping[str, Any], Mapping[str, Array]], "Layer"]
"""Makes a layer from the operator's parameters and weights."""


class Layer:
    """Base of layers; subclasses implement ``forward``."""

    def __init__(self, layer_name: str = "") -> None:
        self.layer_name = layer_name

    def forward(self, inputs: Sequence[Array], batch: int) -> list[Array]:
        """Outputs for the samples ``inputs``; operand k is ``inputs[k * batch : (k + 1) * batch]``."""
        codes = StatusCode.FUNCTION_NOT_IMPLEMENT, InferStatus.FAILED_LAYER_NOT_IMPLEMENT
        raise StatusError(f"{type(self).__name__} has no forward", *codes)


class ParamLayer(Layer):
    """Base of layers with weights and, maybe, a bias.

    Parameters
    ----------
    layer_name : str
    weights : sequence of array_like
    bias : sequence of array_like, optional
    """

    def __init__(self, layer_name: str = "", weights: Sequence[Any] = (), bias: Sequence[Any] = ()) -> None:
        super().__init__(layer_name)
        self.set_weights(weights)
        self.set_bias(bias)

    @property
    def weights(self) -> list[Array]:
        """The weights, an array each."""
        return self._weights

    @property
    def bias(self) -> list[Array]:
        """The biases, an array each."""
        return self._bias

    def init_weight_param(self, count: int, channels: int, height: int, width: int) -> None:
        """Make ``count`` weights of zeros."""
        self._weights = [np.zeros((channels, height, width), np.float32) for _ in range(count)]

    def init_bias_param(self, count: int, channels: int, height: int, width: int) -> None:
        """Make ``count`` biases of zeros."""
        self._bias = [np.zeros((channels, height, width), np.float32) for _ in range(count)]

    def set_weights(self, weights: Sequence[Any]) -> None:
        """Set the weights from arrays, or from as many numbers as there are elements."""
        self._weights = _filled(getattr(self, "_weights", []), weights)

    def set_bias(self, bias: Sequence[Any]) -> None:
        """Set the biases from arrays, or from as many numbers as there are elements."""
        self._bias = _filled(getattr(self, "_bias", []), bias)


def _filled(present: list[Array], given: Sequence[Any]) -> list[Array]:
    if not len(given) or np.ndim(given[0]):
        return [np.asarray(item) for item in given]
    if len(given) != sum(a.size for a in present):
        codes = StatusCode.PARSE_WEIGHT_ERROR, InferStatus.FAILED_ARRAY_SIZE_MISMATCH
        raise StatusError(f"there are {len(given)} numbers for {sum(a.size for a in present)} elements", *codes)
    cuts = np.cumsum([a.size for a in present])[:-1]
    pieces = np.split(np.asarray(given, np.float32), cuts)
    return [piece.reshape(a.shape) for piece, a in zip(pieces, present, strict=True)]


class LayerRegisterer:
    """Creators by operator type."""

    _creators: dict[str, Creator] = {}

    @classmethod
    def register_creator(cls, creator: Creator, *types: str) -> None:
        """Register a creator for operator types.

        Raises
        ------
        ParameterError
            When a type is known already.
        """
        for name in types:
            if registry.find(name) is not None:
                raise ParameterError(f"operator {name} is registered already")

        def operator(b: Builder, *inputs: Value, parameters: dict[str, Any], attributes: dict[str, Tensor]) -> Value:
            layer = creator(parameters, {key: t.numpy() for key, t in attributes.items()})
            return b.dynamic(lambda *arrays: _run(layer, arrays), inputs)

        registry.operator(*types, native=False, schema=False)(operator)
        cls._creators.update(dict.fromkeys(types, creator))

    @classmethod
    def unregister(cls, *types: str) -> None:
        """Forget creators that were registered here.

        Raises
        ------
        ParameterError
            When there is none for a type.
        """
        for name in types:
            if name not in cls._creators:
                raise ParameterError(f"no creator is registered for {name}")
            del cls._creators[name]
            registry.unregister(name)

    @classmethod
    def create_layer(cls, kind: str, parameters: Mapping[str, Any], attributes: Mapping[str, Array]) -> Layer:
        """Make a layer of a registered type.

        Raises
        ------
        StatusError
            When no creator is registered for the type.
        """
        if kind not in cls._creators:
            codes = StatusCode.FUNCTION_NOT_IMPLEMENT, InferStatus.FAILED_LAYER_NOT_IMPLEMENT
            raise StatusError(f"no creator is registered for {kind}", *codes)
        return cls._creators[kind](parameters, attributes)

    @classmethod
    def layer_types(cls) -> list[str]:
        """All operator types that can be run, sorted: those of the package and those registered here."""
        return registry.types()


def _run(layer: Layer, arrays: Sequence[Array]) -> Array:
    batch = len(arrays[0])
    if any(len(a) != batch for a in arrays):
        codes = StatusCode.INFER_DIM_MISMATCH, InferStatus.FAILED_ARRAY_SIZE_MISMATCH
        raise StatusError("the operands of a layer have different batch sizes", *codes)
    outputs = layer.forward([sample for a in arrays for sample in a], batch)
    if len(outputs) != batch:
        codes = StatusCode.INFER_DIM_MISMATCH, InferStatus.FAILED_ARRAY_SIZE_MISMATCH
        raise StatusError(f"the layer gave {len(outputs)} outputs for a batch of {batch}", *codes)
    return np.stack([np.asarray(y) for y in outputs])
