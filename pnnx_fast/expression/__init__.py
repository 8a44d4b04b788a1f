"""The language of pnnx.Expression and, through its function table, every element-wise operator.

Layers, each knowing those before it: `types` (torch dtypes and promotion), `rules` and `reference` (dtypes
and numpy bodies), `functions` (the table), `lex`, `tree`, `parse`, `apply`, `rpn` (reverse Polish form,
evaluation on numpy).
"""

from __future__ import annotations

from pnnx_fast.expression.functions import FUNCTIONS, Function
from pnnx_fast.expression.lex import Token, TokenKind, tokens
from pnnx_fast.expression.parse import parse
from pnnx_fast.expression.rpn import evaluate, to_rpn
from pnnx_fast.expression.tree import Call, Constant, Input, ListNode, Node, inputs_of, substitute
from pnnx_fast.expression.types import TORCH_DTYPES, DTypeName, TensorType, Value

__all__ = [
    "FUNCTIONS",
    "TORCH_DTYPES",
    "Call",
    "Constant",
    "DTypeName",
    "Function",
    "Input",
    "ListNode",
    "Node",
    "TensorType",
    "Token",
    "TokenKind",
    "Value",
    "evaluate",
    "inputs_of",
    "parse",
    "substitute",
    "to_rpn",
    "tokens",
]
