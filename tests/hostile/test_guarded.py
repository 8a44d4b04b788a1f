"""No kernel reads or writes beyond the end of its memory: see ``guarded.py``, which runs in processes of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from pnnx_fast._core import program as core

SCRIPT = Path(__file__).parent / "guarded.py"
OTHERS = ("int64", "int32", "uint8", "bool", "complex64", "float64", "float16", "int8")


def guarded(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "ignore", str(SCRIPT), *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=300)


@pytest.mark.parametrize("isa", core.ISAS)
def test_stored_calls_stay_inside(isa: str) -> None:
    done = guarded(isa)
    assert done.returncode == 0, done.stdout[-100:] + done.stderr[-2000:]


def test_stored_calls_with_other_types_stay_inside() -> None:
    done = guarded(core.ISAS[-1], *OTHERS)
    assert done.returncode == 0, done.stdout[-100:] + done.stderr[-2000:]


def test_what_is_written_behind_a_result_is_seen() -> None:
    assert guarded(core.ISAS[0], "canary").returncode < 0
