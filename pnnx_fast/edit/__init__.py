"""Edit graphs: cut, join, rename, rewrite patterns, change sizes and types, compare.

Functions take a graph; those that need shapes or values use the runtime. `Graph` has the frequent ones as methods.
"""

from __future__ import annotations

from pnnx_fast.edit.compare import Comparison, compare, diff
from pnnx_fast.edit.sizes import change_batch, infer_shapes, make_dynamic
from pnnx_fast.edit.source import for_source
from pnnx_fast.edit.structure import extract, insert, merge, remove, rename, replace
from pnnx_fast.edit.weights import to
from pnnx_fast.ir.match import Match, Rule, find, rewrite
from pnnx_fast.simplify import simplify

__all__ = [
    "Comparison",
    "Match",
    "Rule",
    "change_batch",
    "compare",
    "diff",
    "extract",
    "find",
    "for_source",
    "infer_shapes",
    "insert",
    "make_dynamic",
    "merge",
    "remove",
    "rename",
    "replace",
    "rewrite",
    "simplify",
    "to",
]
