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
    """Base of layers; subclasses implement ``forward``.

    Parameters
    ----------
    layer_name : str

    Examples
    --------
    >>> class Double(Layer):
    ...     def forward(self, inputs, batch):
    ...         return [2 * x for x in inputs]
    >>> Double("twice").forward([np.float32([1, 2]), np.float32([3, 4])], batch=2)
    [array([2., 4.], dtype=float32), array([6., 8.], dtype=float32)]
    """

    def __init__(self, layer_name: str = "") -> None:
        self.layer_name = layer_name

    def forward(self, inputs: Sequence[Array], batch: int) -> list[Array]:
        """Outputs for the samples.

        Parameters
        ----------
        inputs : sequence of ndarray
            Operand k is ``inputs[k * batch : (k + 1) * batch]``.
        batch : int
            Number of samples.

        Returns
        -------
        list of ndarray
            One a sample, all of one shape.

        Raises
        ------
        StatusError
            When the class has no ``forward`` of its own.
        """
        codes = StatusCode.FUNCTION_NOT_IMPLEMENT, InferStatus.FAILED_LAYER_NOT_IMPLEMENT
        raise StatusError(f"{type(self).__name__} has no forward", *codes)


class ParamLayer(Layer):
    """Base of layers with weights and, maybe, a bias.

    Parameters
    ----------
    layer_name : str
    weights : sequence of array_like
        An array each.
    bias : sequence of array_like, optional
        An array each.

    Examples
    --------
    >>> layer = ParamLayer("scale")
    >>> layer.init_weight_param(2, channels=1, height=1, width=2)
    >>> layer.set_weights([1, 2, 3, 4])
    >>> [w.tolist() for w in layer.weights]
    [[[[1.0, 2.0]]], [[[3.0, 4.0]]]]
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
        """Make weights of zeros.

        Parameters
        ----------
        count : int
            Number of weights.
        channels, height, width : int
            Sizes of each, which is float32.
        """
        self._weights = [np.zeros((channels, height, width), np.float32) for _ in range(count)]

    def init_bias_param(self, count: int, channels: int, height: int, width: int) -> None:
        """Make biases of zeros.

        Parameters
        ----------
        count : int
            Number of biases.
        channels, height, width : int
            Sizes of each, which is float32.
        """
        self._bias = [np.zeros((channels, height, width), np.float32) for _ in range(count)]

    def set_weights(self, weights: Sequence[Any]) -> None:
        """Set the weights.

        Parameters
        ----------
        weights : sequence of array_like, or of float
            An array each, or as many numbers as the present weights have elements.

        Raises
        ------
        StatusError
            When there are more or fewer numbers.
        """
        self._weights = _filled(getattr(self, "_weights", []), weights)

    def set_bias(self, bias: Sequence[Any]) -> None:
        """Set the biases.

        Parameters
        ----------
        bias : sequence of array_like, or of float
            An array each, or as many numbers as the present biases have elements.

        Raises
        ------
        StatusError
            When there are more or fewer numbers.
        """
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
    r"""Creators by operator type.

    Examples
    --------
    >>> class Scale(Layer):
    ...     def __init__(self, factor):
    ...         super().__init__("scale")
    ...         self.factor = factor
    ...     def forward(self, inputs, batch):
    ...         return [self.factor * x for x in inputs]
    >>> LayerRegisterer.register_creator(lambda parameters, attributes: Scale(parameters["by"]), "mine.Scale")
    >>> text = "7767517\n3 2\npnnx.Input in 0 1 x #x=(1,2)f32\nmine.Scale s 1 1 x y by=3\npnnx.Output out 1 0 y\n"
    >>> pnnx_fast.Model(pnnx_fast.Graph.parse(text))(np.float32([[1, 2]]))
    array([[3., 6.]], dtype=float32)
    >>> LayerRegisterer.create_layer("mine.Scale", {"by": 4}, {}).factor
    4
    >>> LayerRegisterer.unregister("mine.Scale")
    """

    _creators: dict[str, Creator] = {}

    @classmethod
    def register_creator(cls, creator: Creator, *types: str) -> None:
        """Register a creator for operator types.

        Parameters
        ----------
        creator : callable
            Makes a :class:`Layer` from two mappings: values of parameters and arrays of weights, by name.
        *types : str
            Operator types.

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

        Parameters
        ----------
        *types : str
            Operator types.

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

        Parameters
        ----------
        kind : str
            Operator type.
        parameters : mapping of str to value
        attributes : mapping of str to ndarray
            Weights.

        Returns
        -------
        Layer
            What the creator gives.

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
