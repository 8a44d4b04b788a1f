"""Levels that differ from another one in some kernels are tested with these alone."""

from __future__ import annotations

import pytest

from pnnx_fast._core.program import ISAS

VNNI, TILES = {"int8"}, {"int8", "split"}
OWN = {"avx512vnni": VNNI, "avx512vnni_emulated": VNNI, "amx": TILES, "amx_emulated": TILES}
"""Of such levels, the last words of the modules that test their own kernels."""


@pytest.fixture
def isa(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    kind = metafunc.module.__name__.rpartition("_")[2]
    given = any("isa" in mark.args[0] for mark in metafunc.definition.iter_markers("parametrize"))
    if "isa" in metafunc.fixturenames and not given:
        metafunc.parametrize("isa", [isa for isa in ISAS if kind in OWN.get(isa, {kind})], indirect=True)
