"""The thread team, programs and users' operators under ThreadSanitizer, as a C program without Python."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DRIVER = Path(__file__).with_name("team_driver.c")
SOURCES = [
    *(ROOT / "csrc" / "base" / name for name in ("team_choice.c", "team_threads.c", "turns.c", "cpus.c")),
    *(ROOT / "csrc" / "exec" / name for name in ("program.c", "native.c")),
]
COMPILER = shutil.which("cc") or shutil.which("gcc")
FOUND_A_RACE = 66


def build(path: Path, *flags: str) -> Path:
    assert COMPILER is not None
    words = ["-std=gnu11", "-O1", "-g", *flags, f"-I{ROOT / 'csrc'}", f"-I{ROOT / 'csrc' / 'include'}"]
    command = [COMPILER, *words, str(DRIVER), *map(str, SOURCES), "-o", str(path), "-lpthread"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode and "sanitize" in " ".join(flags):
        pytest.skip("the compiler has no ThreadSanitizer")
    assert done.returncode == 0, done.stderr
    return path


def run(program: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(program), *words], capture_output=True, text=True, timeout=60)


@pytest.mark.skipif(COMPILER is None, reason="there is no C compiler")
def test_results_and_times_without_it(tmp_path: Path) -> None:
    program = build(tmp_path / "driver", "-Wall", "-Wextra", "-Werror")
    for words in [(), ("clock",), ("choose",)]:
        done = run(program, *words)
        assert done.returncode == 0, done.stdout


@pytest.mark.skipif(COMPILER is None, reason="there is no C compiler")
def test_no_races(tmp_path: Path) -> None:
    program = build(tmp_path / "driver", "-fsanitize=thread")
    if run(program, "race").returncode != FOUND_A_RACE:
        pytest.skip("ThreadSanitizer does not work here")
    for words in [(), ("clock",), ("choose",)]:
        done = run(program, *words)
        assert done.returncode == 0, done.stderr[-5000:]
