"""Operators from numba, Cython and a package in an environment of its own, from source to result."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import numpy as np
import pytest

from pnnx_fast import Graph, Model, native
from pnnx_fast.errors import NativeOperatorError
from pnnx_fast.ops import registry

EXAMPLES = Path(__file__).parents[1] / "examples"
COMPILER = shutil.which("cc") or shutil.which("gcc")

GRAPH = """7767517
3 2
pnnx.Input a 0 1 x #x={shape}f32
{type} e 1 1 x y {params}
pnnx.Output o 1 0 y
"""


def model(type: str, shape: str, params: str = "") -> Model:
    return Model(Graph.parse(GRAPH.format(type=type, shape=shape, params=params)), num_threads=2)


def run(*words: str, cwd: Path, env: dict[str, str] | None = None) -> str:
    done = subprocess.run(words, cwd=cwd, env={**os.environ, **(env or {})}, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_a_numba_cfunc(tmp_path: Path) -> None:
    pytest.importorskip("numba")
    assert run(sys.executable, str(EXAMPLES / "numba_op.py"), cwd=tmp_path).strip() == (
        "[[1.0, 3.0, 6.0, 10.0], [0.0, 0.0, 3.0, 4.0]]"
    )


@pytest.mark.skipif(COMPILER is None, reason="there is no C compiler")
def test_a_cython_api_function(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("Cython")
    pytest.importorskip("setuptools")
    source = shutil.copytree(EXAMPLES / "cython_op", tmp_path / "source")
    run(sys.executable, "setup.py", "-q", "build_ext", "--inplace", cwd=source)
    monkeypatch.syspath_prepend(str(source))
    import scale_rows  # type: ignore[import-not-found]

    types = native.define("test.scale_rows", run=scale_rows.__pyx_capi__["scale_rows"])
    try:
        x = np.random.default_rng(0).standard_normal((1000, 7), np.float32)
        net = model("test.scale_rows", "(1000,7)")
        for _ in range(10):
            np.testing.assert_array_equal(net(x), x * np.arange(1, 1001, dtype=np.float32)[:, None])
        assert next(s.kernel for s in net.profile(x).steps).startswith("native")
        with pytest.raises(NativeOperatorError, match="returned 1"):
            model("test.scale_rows", "(3)")(x[0, :3])
    finally:
        for name in types:
            registry.unregister(name)


@pytest.mark.skipif(COMPILER is None, reason="there is no C compiler")
def test_the_example_package_in_an_environment_of_its_own(tmp_path: Path) -> None:
    pytest.importorskip("setuptools", minversion="70.1")  # which builds wheels by itself
    source = shutil.copytree(EXAMPLES / "native_op", tmp_path / "source")
    options = ["--quiet", "--no-deps", "--no-index", "--disable-pip-version-check"]
    pip = [sys.executable, "-m", "pip"]
    run(*pip, "wheel", *options, "--no-build-isolation", "-w", str(tmp_path), str(source), cwd=tmp_path)
    run(sys.executable, "-m", "venv", "--without-pip", "--system-site-packages", "venv", cwd=tmp_path)
    python = tmp_path / "venv" / ("Scripts" if os.name == "nt" else "bin") / "python"
    purelib = run(str(python), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=tmp_path).strip()
    # The environment sees the pnnx_fast that is tested, wherever that is installed.
    here = sysconfig.get_path("purelib")
    (Path(purelib) / "tested.pth").write_text(f"import site; site.addsitedir({here!r})\n", "utf-8")
    wheel = next(tmp_path.glob("*.whl"))
    run(*pip, "--python", str(python), "install", *options, str(wheel), cwd=tmp_path)
    script = "import numpy as np, pnnx_fast\n"
    text = GRAPH.format(type="example.MovingAverage", shape="(2,3)", params="window=2")
    script += f"model = pnnx_fast.Model(pnnx_fast.Graph.parse({text!r}))\n"
    script += "print(model(np.float32([[2, 4, 8], [1, 1, 1]])).tolist())\n"
    assert run(str(python), "-c", script, cwd=tmp_path).strip() == "[[2.0, 3.0, 6.0], [1.0, 1.0, 1.0]]"
    names = "import importlib.metadata as m; print([p.name for p in m.entry_points(group='pnnx_fast.operators')])"
    assert "moving" in run(str(python), "-c", names, cwd=tmp_path)
