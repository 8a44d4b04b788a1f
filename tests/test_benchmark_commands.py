"""The benchmark commands run, on a tiny model in place of the zoo and without other engines; figures decide nothing."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

# Last, so that the installed package is found before the sources beside the benchmarks.
sys.path.append(str(Path(__file__).parents[1]))

import pnnx_fast
from benchmarks import everything, gains
from benchmarks.contest import Measurement
from pnnx_fast import demo

ROOT = Path(__file__).parents[1]
ISA = pnnx_fast.show_config()["isa_levels"][0]


def entry(name: str, array: Any) -> dict[str, Any]:
    return {"name": name, "shape": list(array.shape), "dtype": array.dtype.name}


@pytest.fixture(scope="module")
def zoo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A zoo whose two hidden models are the bundled one."""
    place = tmp_path_factory.mktemp("zoo")
    source = Path(demo.__file__).parent / "digits.pnnx.param"
    model = pnnx_fast.load(source)
    rng = np.random.default_rng(0)
    inputs = {name: rng.random([1, *(model.inputs[0].shape or ())[1:]], np.float32) for name in ("in0", "in_b0")}
    outputs = {name.replace("in", "out"): model(array) for name, array in inputs.items()}
    meta = {"recipe": 1, "revision": 1, "batch": 1, "flops": 10**6, "parameters": 1000, "onnx_opset": None}
    meta |= {"inputs": [entry("in0", inputs["in0"])], "outputs": [entry("out0", outputs["out0"])], "rounding": 1e-7}
    for name in ("one_step", "many_steps"):
        directory = place / name
        directory.mkdir()
        for suffix in (".param", ".bin"):
            shutil.copy(source.with_suffix(suffix), directory / f"model.pnnx{suffix}")
        np.savez(directory / "golden.npz", **inputs, **outputs)
        (directory / "meta.json").write_text(json.dumps(meta))
    return place


def run(zoo: Path, *arguments: object, code: int = 0) -> str:
    environment = {**os.environ, "PNNX_FAST_ZOO": str(zoo)}
    environment.pop("PYTHONSAFEPATH", None)
    command = [sys.executable, "-m", "benchmarks", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment, timeout=120)
    assert done.returncode == code, done.stderr
    return done.stdout


QUICK = ("--rounds", 1, "--seconds", 0.02)


def test_peers(zoo: Path, tmp_path: Path) -> None:
    path = tmp_path / "peers.json"
    options = ("peers", "--models", "one_step,many_steps", "--peers", "", "--threads", "1", "--json", path)
    head, _, first, second, *_ = run(zoo, *options, *QUICK).splitlines()
    assert head.startswith("| model | threads | batch | pnnx_fast | best peer | ratio | error | of peak | of limit |")
    assert first.startswith("| one_step | 1 | 1 |")
    assert second.startswith("| many_steps | 1 | 1 |")
    document = json.loads(path.read_text())
    (measured,) = document["results"][0]["engines"].values()
    assert measured["seconds"] > 0
    assert measured["error"] < 1e-5
    assert document["results"][0]["peak_flops"] > 1e8
    before = path.stat().st_mtime_ns
    assert run(zoo, *options, "--resume").splitlines()[0] == head
    assert path.stat().st_mtime_ns == before


def test_contended(zoo: Path) -> None:
    text = run(zoo, "peers", "--models", "one_step", "--peers", "", "--threads", "1", "--contended", *QUICK)
    assert "| one_step | 1 | 1 |" in text


def test_engines_that_fail_are_named(zoo: Path) -> None:
    text = run(zoo, "peers", "--models", "one_step", "--peers", "onnxruntime", "--threads", "1", *QUICK)
    assert "- ✗ onnxruntime (one_step 1 1): " in text


def test_prepare(zoo: Path) -> None:
    """There is nothing to do for ours, and an engine that cannot is named by the code."""
    run(zoo, "prepare", "--models", "one_step", "--peers", "ncnn", "--threads", "1")
    run(zoo, "prepare", "--models", "one_step", "--peers", "AOTInductor", "--threads", "1", code=1)
    assert not [path.name for path in (zoo / "one_step").iterdir() if path.name.startswith("peer")]


def test_overhead_and_scaling(zoo: Path, tmp_path: Path) -> None:
    path = tmp_path / "overhead.json"
    text = run(zoo, "overhead", "--peers", "", "--threads", "1", "--rounds", 1, "--json", path)
    assert "| 1 | 1 |" in text
    assert "on all, with a barrier" in text
    assert json.loads(path.read_text())["kind"] == "overhead"
    text = run(zoo, "scaling", "--models", "one_step", "--peers", "", "--threads", "1,2", "--batch", "1", "--rounds", 1)
    assert "| one_step | 1 | 2 |" in text
    assert "| one_step | 1 | 1 → 2 |" in text


def test_gains(zoo: Path, tmp_path: Path) -> None:
    path = tmp_path / "gains.json"
    text = run(zoo, "gains", "--models", "one_step", "--rounds", 3, "--seconds", 0.01, "--json", path)
    assert "| model | batch | 1 thread, ms | 2 threads, ms | gained by 2 | allowed by 2 |" in text
    one, arithmetic, _ = json.loads(path.read_text())["tables"][0]["rows"]
    values = one["values"]
    assert min(values.values()) > 0
    assert list(arithmetic["values"]) == ["gained by 2"]


def test_gains_are_those_of_neighbouring_bursts() -> None:
    few = Measurement(bursts=[[2.0, 2.0, 9.0], [8.0], [6.0], [1.0]], queued=[0.0, 0.0, 0.0, 0.9])
    many = Measurement(bursts=[[1.0], [2.0], [3.0], [9.0]], queued=[0.0] * 4)
    assert gains.gain(few, many) == 2.0


def test_memory_limits_the_gain_that_is_allowed() -> None:
    bound_by_arithmetic, bound_by_memory, slower_than_memory = (4.0, 10.0), (3.0, 20.0), (1.0, 90.0)
    steps = [bound_by_arithmetic, bound_by_memory, slower_than_memory]
    assert gains.allowed(steps, arithmetic=2.0, bandwidth=10.0) == 8.0 / (2.0 + 2.0 + 1.0)


def test_load(zoo: Path, tmp_path: Path) -> None:
    path = tmp_path / "load.json"
    run(zoo, "load", "--models", "one_step", "--peers", "", "--threads", "1", "--repeats", 1, "--json", path)
    document = json.loads(path.read_text())
    assert document["kind"] == "load"
    assert all(table["rows"][0]["values"]["pnnx_fast"] > 0 for table in document["tables"])


def test_profile_and_check(zoo: Path, tmp_path: Path) -> None:
    path = tmp_path / "profile.json"
    assert "| one_step | 1 |" in run(zoo, "profile", "--models", "one_step", "--repeat", 2, "--json", path)
    assert json.loads(path.read_text())["profiles"][0]["classes"]
    assert "All within" in run(zoo, "check", "--models", "one_step", "--threads", "1", "--isa", ISA)


def test_kernels_and_report(zoo: Path, tmp_path: Path) -> None:
    path = tmp_path / "kernels.json"
    shapes = ("--shape", "conv:16x8x8", "--shape", "softmax:4x16")
    text = run(zoo, "kernels", *shapes, "--threads", "1", "--isa", ISA, "--seconds", 0, "--json", path)
    assert "| shape | algorithm | ms | GFLOP/s | of peak | GB/s |" in text
    assert "## kernels" in run(zoo, "report", "--json", path)


def test_wrong_words(zoo: Path) -> None:
    run(zoo, "peers", "--models", "nothing", code=2)
    run(zoo, "kernels", "--isa", "abacus", code=2)


def test_everything(zoo: Path, tmp_path: Path) -> None:
    options = ("everything", "--records", tmp_path, "--models", "one_step", "--only", "profile")
    assert "| one_step | 1 |" in run(zoo, *options)
    assert "== profile: there" in run(zoo, *options)
    run(zoo, "everything", "--records", tmp_path, "--only", "nothing", code=2)


def test_commands_of_the_page() -> None:
    page = (ROOT / "docs" / "measurements" / "README.md").read_text("utf-8")
    for name, command in everything.RUNS.items():
        assert f"`python -m benchmarks {command} --json {name}.json`" in page, name
