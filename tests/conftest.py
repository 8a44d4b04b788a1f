"""What all tests share: ISA levels, the folder of shared data, settings of hypothesis."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from pnnx_fast._core.program import ISAS

# Interpreters that tests start must find the installed package, not the sources in the current folder.
os.environ["PYTHONSAFEPATH"] = "1"

# Fourier transforms with AVX-512 in the MKL of PyTorch 2.13 corrupt memory now and then: processes abort inside of
# torch.fft.ifftn, for a tensor of (1, 3, 120, 120). Those with AVX2 do not.
os.environ.setdefault("MKL_ENABLE_INSTRUCTIONS", "AVX2")

# How fast examples are made and run says something about the machine, not about the package.
settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")


@pytest.fixture(params=ISAS)
def isa(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="session")
def data_path() -> Path:
    path = os.environ.get("PNNX_FAST_DATA")
    if not path:
        pytest.skip("PNNX_FAST_DATA is not set")
    return Path(path)
