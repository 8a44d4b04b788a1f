"""Operators whose results nothing needs disappear."""

from __future__ import annotations

from pnnx_fast.ir import Graph

__all__ = ["drop_dead"]


def drop_dead(graph: Graph) -> bool:
    """Remove dead operators and orphaned operands."""
    return graph.dead_code_elimination() > 0
