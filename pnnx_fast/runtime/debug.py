"""Graphs written to a folder after every pass, for those who look for a fault in one."""

from __future__ import annotations

import os
from collections.abc import Callable

from pnnx_fast.ir import Graph

__all__ = ["graph_dumper"]


def graph_dumper(folder: str) -> Callable[[str, Graph], None]:
    """Return a function that writes a graph without weights to a folder, under the name of a pass."""
    os.makedirs(folder, exist_ok=True)
    count = 0

    def write(name: str, graph: Graph) -> None:
        nonlocal count
        with open(os.devnull, "wb") as weights:
            graph.save(os.path.join(folder, f"{count:02}_{name}.pnnx.param"), weights)
        count += 1

    return write
