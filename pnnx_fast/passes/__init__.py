"""Rewriting passes, Graph to Graph, in the order in which they run."""

from __future__ import annotations

from collections.abc import Callable

from pnnx_fast.ir import Graph
from pnnx_fast.passes.drop_dead import drop_dead
from pnnx_fast.passes.drop_identity import drop_identity
from pnnx_fast.passes.fold_batch_norm import fold_batch_norm
from pnnx_fast.passes.fuse_activation import fuse_activation
from pnnx_fast.passes.fuse_expression import fuse_expression
from pnnx_fast.passes.fuse_quantize import fuse_quantize
from pnnx_fast.passes.fuse_residual import fuse_late_residual, fuse_residual
from pnnx_fast.passes.pool_first import pool_first
from pnnx_fast.passes.restore_dtypes import restore_dtypes
from pnnx_fast.passes.restore_outputs import restore_outputs
from pnnx_fast.passes.restore_writes import restore_writes

__all__ = ["PASSES", "RESTORING", "optimize", "restore"]

RESTORING: tuple[Callable[[Graph], bool], ...] = (restore_dtypes, restore_outputs, restore_writes)
"""Passes that say what the converter left unsaid; without them results would be wrong."""

PASSES: tuple[Callable[[Graph], bool], ...] = (
    drop_dead,
    drop_identity,
    fold_batch_norm,
    pool_first,
    fuse_residual,
    fuse_activation,
    fuse_late_residual,
    fuse_quantize,
    fuse_expression,
)
"""Each pass returns whether it changed the graph."""


def restore(graph: Graph) -> None:
    """Run the passes that every graph needs, in place."""
    for rewrite in RESTORING:
        rewrite(graph)


def optimize(graph: Graph, observe: Callable[[str, Graph], None] | None = None) -> None:
    """Run all passes on a graph, in place; ``observe`` is called after each with the pass's name."""
    for rewrite in PASSES:
        rewrite(graph)
        if observe is not None:
            observe(rewrite.__name__, graph)
