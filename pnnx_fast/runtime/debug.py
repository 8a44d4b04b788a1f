"""Environment variables that the runtime reads, declared in one table."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from pnnx_fast.ir import Graph

__all__ = ["KNOBS", "graph_dumper"]

KNOBS: dict[str, str] = {
    "OMP_NUM_THREADS": "upper limit of the default number of threads",
    "PNNX_FAST_DUMP": "folder that receives the graph after every pass, as .pnnx.param text",
    "PNNX_FAST_TUNING": "file that remembers what autotuning measured",
    "PNNX_FAST_ISA": "default instruction set level, e.g. avx2",
    "PNNX_FAST_TEAM": "thread team: threads or openmp",
}
"""Name and meaning of each variable."""


def graph_dumper() -> Callable[[str, Graph], None] | None:
    """Return a function that writes a graph to the folder PNNX_FAST_DUMP names, None when it names none."""
    folder = os.environ.get("PNNX_FAST_DUMP")
    if not folder:
        return None
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    count = 0

    def write(name: str, graph: Graph) -> None:
        nonlocal count
        with open(os.devnull, "wb") as weights:
            graph.save(target / f"{count:02}_{name}.pnnx.param", weights)
        count += 1

    return write
