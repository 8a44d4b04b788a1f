"""Fixtures shared by all tests: ISA levels, thread counts, the folder of shared data."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pnnx_fast._core.program import ISAS

# Interpreters that tests start must find the installed package, not the sources in the current folder.
os.environ["PYTHONSAFEPATH"] = "1"


@pytest.fixture(params=ISAS)
def isa(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="session")
def data_path() -> Path:
    path = os.environ.get("PNNX_FAST_DATA")
    if not path:
        pytest.skip("PNNX_FAST_DATA is not set")
    return Path(path)
