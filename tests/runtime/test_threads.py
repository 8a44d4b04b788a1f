"""The thread team as callers see it: many models and Python threads at once, fork, idle helpers, default sizes."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import pnnx_fast
from pnnx_fast import Graph, Model
from pnnx_fast._core import program as core

TEXT = """7767517
6 5
pnnx.Input a 0 1 x #x=(1,8,40,40)f32
nn.AvgPool2d p 1 1 x y kernel_size=(3,3) stride=(1,1) padding=(1,1)
F.gelu g 1 1 y z
F.softmax s 1 1 z t dim=1
pnnx.Expression e 2 1 t x u expr=add(mul(@0,@1),@1)
pnnx.Output o 1 0 u
"""


FORKING = (
    "import os, sys, warnings, numpy, pnnx_fast\n"
    "warnings.simplefilter('ignore')\n"
    f"model = pnnx_fast.Model(pnnx_fast.Graph.parse('''{TEXT}'''), 3)\n"
    "x = numpy.ones((1, 8, 40, 40), numpy.float32)\n"
    "before = model(x)\n"
    "child = os.fork()\n"
    "same = all(numpy.array_equal(model(x), before) for _ in range(5))\n"
    f"another = pnnx_fast.Model(pnnx_fast.Graph.parse('''{TEXT}'''), 3)\n"
    "same &= numpy.array_equal(another(x), before)\n"
    "if child == 0:\n"
    "    os._exit(0 if same else 1)\n"
    "sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) or not same)\n"
)


def _input(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((1, 8, 40, 40), np.float32)


def test_results_do_not_depend_on_who_computes() -> None:
    expected = [Model(Graph.parse(TEXT), 1)(_input(i)) for i in range(4)]
    models = [Model(Graph.parse(TEXT), n) for n in (2, 3, 5)]
    wrong: list[str] = []

    def work(number: int) -> None:
        for i in range(60):
            model = models[(number + i) % 3]
            if not np.allclose(model(_input(i % 4)), expected[i % 4], rtol=1e-5, atol=1e-6):
                wrong.append(f"thread {number}, call {i}, {model}")

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_bits_are_the_same_at_every_call() -> None:
    model = Model(Graph.parse(TEXT), 3)
    first = model(_input(0))
    assert all(np.array_equal(model(_input(0)), first) for _ in range(20))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_child_process_has_a_team_of_its_own() -> None:
    subprocess.run([sys.executable, "-c", FORKING], check=True, timeout=60)


def _in_process(team: str, code: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PNNX_FAST_TEAM": team}
    return subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize("test", ["results_do_not_depend_on_who_computes", "bits_are_the_same_at_every_call"])
def test_openmp_team(test: str) -> None:
    code = f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r}); import test_threads as t; t.test_{test}()"
    result = _in_process("openmp", f"{code}; print(t.core.team())")
    if "no thread team" in result.stderr:
        pytest.skip("built without OpenMP")
    assert result.stdout == "openmp\n", result.stderr


def test_only_its_team_loads_openmp() -> None:
    code = f"import sys, pnnx_fast; pnnx_fast.Model(pnnx_fast.Graph.parse({TEXT!r}), 2); print(*sys.modules)"
    assert "pnnx_fast._core.openmp" not in _in_process("threads", code).stdout
    assert b"libgomp" not in Path(core.__file__).read_bytes()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_openmp_team_after_fork() -> None:
    result = _in_process("openmp", FORKING)
    assert result.returncode == 0 or "no thread team" in result.stderr, result.stderr


CROWDED = (
    "import os, time, numpy, pnnx_fast\n"
    "cpus = os.sched_getaffinity(0)\n"
    "{prefix}\n"
    "others = set(os.listdir('/proc/self/task'))\n"
    f"model = pnnx_fast.Model(pnnx_fast.Graph.parse('''{TEXT}'''), 5)\n"
    "x = numpy.ones((1, 8, 40, 40), numpy.float32)\n"
    "first = model(x)\n"
    "assert all(numpy.array_equal(model(x), first) for _ in range(300))\n"
    "helpers = set(os.listdir('/proc/self/task')) - others\n"
    "time.sleep(0.2)\n"
    "assert all(os.sched_getaffinity(int(t)) == os.sched_getaffinity(0) for t in helpers)\n"
)


@pytest.mark.skipif(sys.platform != "linux", reason="helpers take turns on Linux only")
@pytest.mark.parametrize("prefix", ["", "os.sched_setaffinity(0, {min(cpus)})"])
def test_more_threads_than_processors(prefix: str) -> None:
    subprocess.run([sys.executable, "-c", CROWDED.replace("{prefix}", prefix)], check=True, timeout=60)


def test_unknown_team() -> None:
    result = _in_process("ropes", f"import pnnx_fast\npnnx_fast.Model(pnnx_fast.Graph.parse({TEXT!r}))")
    assert "PNNX_FAST_TEAM: no thread team 'ropes'" in result.stderr


def test_helpers_do_not_spin_when_idle() -> None:
    model = Model(Graph.parse(TEXT), 4)
    for _ in range(5):
        model(_input(0))
    time.sleep(0.05)
    before = time.process_time()
    time.sleep(0.3)
    assert time.process_time() - before < 0.1


def _default(prefix: str, **variables: str) -> int:
    code = f"import os\n{prefix}\nfrom pnnx_fast._core import program\nprint(program.default_threads())"
    inherited = {key: value for key, value in os.environ.items() if key != "OMP_NUM_THREADS"}
    result = subprocess.run(
        [sys.executable, "-c", code], env=inherited | variables, capture_output=True, text=True, check=True
    )
    return int(result.stdout)


def test_default_number_of_threads() -> None:
    assert core.default_threads() == pnnx_fast.show_config()["default_threads"] >= 1
    assert _default("", OMP_NUM_THREADS="1") == 1
    assert _default("", OMP_NUM_THREADS="2,1") == min(2, _default(""))
    assert _default("", OMP_NUM_THREADS="nonsense") == _default("", OMP_NUM_THREADS="")
    if hasattr(os, "sched_setaffinity"):
        assert _default("os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})") == 1
