"""Every conformance case gives its golden output after all simplifications."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest
from archives import arrays

from pnnx_fast import Graph, Model
from pnnx_fast.ir.outputs import flat
from pnnx_fast.simplify import PASSES, simplify

DATA = Path(os.environ.get("PNNX_FAST_DATA", "missing")) / "conformance" / "cases"
CASES = sorted(path.parent for path in DATA.glob("*/*/golden.npz") if (path.parent / "model.pnnx.param").exists())


def _difference(folder: Path, passes: list[str]) -> str | None:
    meta = json.loads((folder / "meta.json").read_text())
    golden = arrays(folder / "golden.npz")
    graph = Graph.load(folder / "model.pnnx.param")
    simplify(graph, passes)
    graph.validate()
    inputs = [golden[f"in{i}"] for i in range(sum(k.startswith("in") for k in golden))]
    outputs = [golden[f"out{i}"] for i in range(sum(k.startswith("out") for k in golden))]
    got = flat(Model(graph, num_threads=1)(*inputs))
    if len(got) != len(outputs):
        return f"{len(got)} outputs instead of {len(outputs)}"
    for a, b in zip(got, outputs, strict=True):
        if a.squeeze().shape != b.squeeze().shape or a.dtype.kind != b.dtype.kind:
            return f"{a.dtype}{a.shape} instead of {b.dtype}{b.shape}"
        scale = np.abs(b[np.isfinite(b)]).max(initial=1.0)
        bound = (2e-2 if meta.get("bf16") else 1e-4) * scale
        if not meta.get("random") and not np.allclose(a.reshape(b.shape), b, rtol=0, atol=bound, equal_nan=True):
            return "other values"
    return None


@pytest.mark.filterwarnings("ignore")
@pytest.mark.skipif(not CASES, reason="no conformance cases here")
def test_simplified_models_give_the_golden_outputs() -> None:
    faults = {}
    for folder in CASES:
        try:
            fault = _difference(folder, list(PASSES))
        except Exception as error:
            fault = f"{type(error).__name__}: {error}"
        if fault:
            faults["/".join(folder.parts[-2:])] = fault
    assert not faults
