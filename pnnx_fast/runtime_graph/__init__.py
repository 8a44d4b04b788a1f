"""The runtime in KuiperInfer's stages: load, build, set inputs, forward, get outputs.

`status` holds the codes and the exception that carries them, `views` what one sees of operators, `expression` the
expression layer, `layers` the registerer of layers, `tensor` the tensor, `graph` the stages themselves. All numbers
come from the same programs as those of :class:`pnnx_fast.Model`.
"""

from __future__ import annotations

from pnnx_fast.runtime_graph.expression import ExpressionLayer, ExpressionParser, Token, TokenNode, TokenType
from pnnx_fast.runtime_graph.graph import GraphState, LayerTime, RuntimeGraph
from pnnx_fast.runtime_graph.layers import Layer, LayerRegisterer, ParamLayer
from pnnx_fast.runtime_graph.status import InferStatus, ParseParameterAttrStatus, StatusCode, StatusError
from pnnx_fast.runtime_graph.tensor import (
    Tensor,
    tensor_broadcast,
    tensor_clone,
    tensor_create,
    tensor_element_add,
    tensor_element_multiply,
    tensor_is_same,
    tensor_padding,
)
from pnnx_fast.runtime_graph.views import (
    RuntimeAttribute,
    RuntimeDataType,
    RuntimeOperand,
    RuntimeOperator,
    RuntimeParameter,
    RuntimeParameterType,
)

__all__ = [
    "ExpressionLayer",
    "ExpressionParser",
    "GraphState",
    "InferStatus",
    "Layer",
    "LayerRegisterer",
    "LayerTime",
    "ParamLayer",
    "ParseParameterAttrStatus",
    "RuntimeAttribute",
    "RuntimeDataType",
    "RuntimeGraph",
    "RuntimeOperand",
    "RuntimeOperator",
    "RuntimeParameter",
    "RuntimeParameterType",
    "StatusCode",
    "StatusError",
    "Tensor",
    "Token",
    "TokenNode",
    "TokenType",
    "tensor_broadcast",
    "tensor_clone",
    "tensor_create",
    "tensor_element_add",
    "tensor_element_multiply",
    "tensor_is_same",
    "tensor_padding",
]
