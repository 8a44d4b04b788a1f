"""Runs generated modules, and compares them with what a graph computes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pnnx_fast import Graph, Model
from pnnx_fast.ir.outputs import flat

torch = pytest.importorskip("torch")


def module(path: Path) -> dict[str, Any]:
    space: dict[str, Any] = {"__name__": "generated", "__file__": str(path)}
    exec(compile(path.read_text("utf-8"), str(path), "exec"), space)
    return space


def arrays_of(value: Any) -> list[np.ndarray]:
    """Arrays of what a generated module returns."""
    return [x.detach().resolve_conj().numpy() if isinstance(x, torch.Tensor) else np.asarray(x) for x in flat(value)]


def runs_alike(graph: Graph, work: Path, *arrays: Any, tolerance: float = 1e-5) -> str:
    graph.python(work / "alike.py")
    with torch.no_grad():
        got = arrays_of(module(work / "alike.py")["Model"]().eval()(*map(torch.from_numpy, arrays)))[0]
    np.testing.assert_allclose(got, Model(graph, num_threads=1)(*arrays), atol=tolerance)
    return (work / "alike.py").read_text("utf-8")
