"""A staged interface to the runtime, for people who know KuiperInfer: load, build, set inputs, forward, get outputs.

`status` holds the codes and the exception that carries them, `views` what one sees of operators, `expression` the
expression layer, `layers` the registerer of layers, `graph` the stages themselves. All numbers come from the same
programs as those of :class:`pnnx_fast.Model`.
"""

from __future__ import annotations

from pnnx_fast.runtime_graph.expression import ExpressionLayer, ExpressionParser, Token, TokenNode, TokenType
from pnnx_fast.runtime_graph.graph import GraphState, LayerTime, RuntimeGraph
from pnnx_fast.runtime_graph.layers import Layer, LayerRegisterer
from pnnx_fast.runtime_graph.status import InferStatus, ParseParameterAttrStatus, StatusCode, StatusError
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
    "Token",
    "TokenNode",
    "TokenType",
]
