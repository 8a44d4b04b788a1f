"""The language of pnnx.Expression and, through its function table, every element-wise operator.

Layers, each knowing those before it: `types` (torch dtypes and promotion), `rules` and `reference` (dtypes
and numpy bodies), `functions` (the table), `lex`, `tree`, `parser`, `apply`, `rpn` (reverse Polish form,
evaluation on numpy), `opcodes` and `compile` (code of the expression VM). `operators` and `activations` tell which
operators of a graph are such functions.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pnnx_fast.expression.functions import FUNCTIONS, Function
    from pnnx_fast.expression.lex import Token, TokenKind, is_word, tokens
    from pnnx_fast.expression.parser import parse
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
    "is_word",
    "parse",
    "substitute",
    "to_rpn",
    "tokens",
]

_HOMES = {
    **dict.fromkeys(("FUNCTIONS", "Function"), "functions"),
    **dict.fromkeys(("Token", "TokenKind", "is_word", "tokens"), "lex"),
    **dict.fromkeys(("parse",), "parser"),
    **dict.fromkeys(("evaluate", "to_rpn"), "rpn"),
    **dict.fromkeys(("Call", "Constant", "Input", "ListNode", "Node", "inputs_of", "substitute"), "tree"),
    **dict.fromkeys(("DTypeName", "TORCH_DTYPES", "TensorType", "Value"), "types"),
}
"""Where the names live; models without expressions do not pay for importing them."""


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value
