"""The C core under other compilers than the one that built the package: no warnings."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SYSTEM = {"CMAKE_SYSTEM_NAME": "Linux", "CMAKE_SYSTEM_PROCESSOR": "aarch64"}
COMPILERS = {
    "clang": {"CMAKE_C_FLAGS_RELEASE": "-fsyntax-only"},
    "aarch64-linux-gnu-gcc": {**SYSTEM, "CMAKE_C_FLAGS_RELEASE": "-O2"},  # GCC warns of what it finds while optimising
}


@pytest.mark.slow
@pytest.mark.parametrize("compiler", COMPILERS)
def test_other_compilers_warn_of_nothing(compiler: str, tmp_path: Path) -> None:
    missing = [tool for tool in ("cmake", "make", compiler) if shutil.which(tool) is None]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}")
    options = {"CMAKE_C_COMPILER": compiler, "PF_ISAS": "generic", "PF_OPENMP": "OFF", "PF_WERROR": "OFF"}
    given = [f"-D{key}={value}" for key, value in (options | COMPILERS[compiler]).items()]
    configure = ["cmake", "-S", ROOT, "-B", tmp_path, "-G", "Unix Makefiles", *given]
    subprocess.run(configure, check=True, capture_output=True)
    command = ["cmake", "--build", tmp_path, "--parallel", "2", "--target", "pf_kernels_generic"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
