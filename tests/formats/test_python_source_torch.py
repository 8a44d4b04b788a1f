"""Generated modules under PyTorch: every conformance case gives its golden output."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pnnx_fast import Graph

torch = pytest.importorskip("torch")
DATA = Path(os.environ.get("PNNX_FAST_DATA", "missing")) / "conformance" / "cases"
CASES = sorted(path.parent for path in DATA.glob("*/*/golden.npz") if (path.parent / "model.pnnx.param").exists())


def _module(path: Path) -> dict[str, Any]:
    space: dict[str, Any] = {"__name__": "generated", "__file__": str(path)}
    exec(compile(path.read_text("utf-8"), str(path), "exec"), space)
    return space


def _flat(value: Any) -> list[Any]:
    if isinstance(value, list | tuple):
        return [x for item in value for x in _flat(item)]
    return [value.detach().resolve_conj().numpy() if isinstance(value, torch.Tensor) else np.asarray(value)]


def _difference(folder: Path, work: Path) -> str | None:
    meta = json.loads((folder / "meta.json").read_text())
    golden = np.load(folder / "golden.npz")
    Graph.load(folder / "model.pnnx.param").python(work / "m.py", folder / "model.pnnx.bin")
    inputs = [torch.tensor(golden[f"in{i}"]) for i in range(sum(k.startswith("in") for k in golden.files))]
    outputs = [golden[f"out{i}"] for i in range(sum(k.startswith("out") for k in golden.files))]
    with torch.no_grad():
        got = _flat(_module(work / "m.py")["Model"]().eval()(*inputs))
    if len(got) != len(outputs):
        return f"{len(got)} outputs instead of {len(outputs)}"
    for a, b in zip(got, outputs, strict=True):
        if a.squeeze().shape != b.squeeze().shape or a.dtype.kind != b.dtype.kind:
            return f"{a.dtype}{a.shape} instead of {b.dtype}{b.shape}"
        if meta.get("random"):
            continue
        scale = np.abs(b[np.isfinite(b)]).max(initial=1.0)
        if not np.allclose(
            a.reshape(b.shape), b, rtol=0, atol=(2e-2 if meta.get("bf16") else 1e-4) * scale, equal_nan=True
        ):
            return "other values"
    return None


@pytest.mark.filterwarnings("ignore")
@pytest.mark.skipif(not CASES, reason="no conformance cases here")
def test_generated_modules_give_the_golden_outputs(tmp_path: Path) -> None:
    faults = {}
    for folder in CASES:
        try:
            fault = _difference(folder, tmp_path)
        except Exception as error:
            fault = f"{type(error).__name__}: {error}"
        if fault:
            faults["/".join(folder.parts[-2:])] = fault
    assert not faults


@pytest.mark.filterwarnings("ignore")
def test_module_runs_with_its_own_weights_and_exports(tmp_path: Path) -> None:
    lines = ["7767517", "3 2", "pnnx.Input in 0 1 x #x=(2,4)f32", "pnnx.Output out 1 0 y", ""]
    graph = Graph.parse("\n".join(lines[:3] + ["F.softmax s 1 1 x y dim=1 $input=x"] + lines[3:]))
    graph.python(tmp_path / "m.py")
    space = _module(tmp_path / "m.py")
    y = space["test_inference"]()
    assert y.shape == (2, 4)
    space["export_torchscript"](str(tmp_path / "m.pt"))
    assert torch.allclose(torch.jit.load(str(tmp_path / "m.pt"))(*space["ready"]()[1]), y)
    # The exporter needs no package beyond PyTorch, but reading the file back would.
    space["export_onnx"](str(tmp_path / "m.onnx"))
    assert (tmp_path / "m.onnx").stat().st_size > 0
