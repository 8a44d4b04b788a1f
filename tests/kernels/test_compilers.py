"""The C core under other compilers than the one that built the package: no warnings."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TOOLS = [shutil.which(tool) for tool in ("cmake", "clang", "make")]


@pytest.mark.slow
@pytest.mark.skipif(None in TOOLS, reason="there is no Clang, or no CMake")
def test_clang_warns_of_nothing(tmp_path: Path) -> None:
    options = {"CMAKE_C_COMPILER": "clang", "CMAKE_C_FLAGS_RELEASE": "-fsyntax-only", "PF_ISAS": "generic"}
    options |= {"PF_OPENMP": "OFF", "PF_WERROR": "OFF"}
    given = [f"-D{key}={value}" for key, value in options.items()]
    configure = ["cmake", "-S", ROOT, "-B", tmp_path, "-G", "Unix Makefiles", *given]
    subprocess.run(configure, check=True, capture_output=True)
    command = ["cmake", "--build", tmp_path, "--target", "pf_kernels_generic"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
