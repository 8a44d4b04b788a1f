"""The readers in C on mutated files, with bounds and arithmetic checked by the compiler."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent
CORE = Path(__file__).parents[2] / "csrc"
COMPILER = shutil.which("cc")
FLAGS = ["-std=gnu11", "-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]

TARGETS = {
    "zip": ("zip/*.bin", 200_000, ["store/zip_read.c"]),
    "text": ("text/*.txt", 20_000, [f"text/{n}.c" for n in ("decimal", "float_text", "ncnn_lex", "number", "scan")]),
}
"""Target: seeds, number of mutations, sources."""


@pytest.mark.slow
@pytest.mark.skipif(COMPILER is None or not CORE.is_dir(), reason="there is no C compiler or no sources")
@pytest.mark.parametrize("name", TARGETS)
def test_mutations_under_sanitizers(name: str, tmp_path: Path) -> None:
    seeds, count, sources = TARGETS[name]
    program = tmp_path / name
    files = [FOLDER / name / f"fuzz_{name}.c", *(CORE / source for source in [*sources, "base/status.c"])]
    command = [str(COMPILER), *FLAGS, f"-I{CORE}", f"-I{FOLDER}", *map(str, files), "-lm", "-o", str(program)]
    if subprocess.run(command, capture_output=True).returncode:
        pytest.skip("the compiler has no sanitizers")
    words = [str(program), str(count), *map(str, sorted(FOLDER.glob(seeds)))]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
