"""Programs from a folder give the bits of programs that are made, on converted test programs where they are at hand."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pnnx_fast

DATA = os.environ.get("PNNX_FAST_DATA")
CASES = sorted(p.parent for p in Path(DATA).glob("conformance/cases/*/*/golden.npz"))[::6] if DATA else []


def _inputs(case: Path) -> list[Any]:
    with np.load(case / "golden.npz") as arrays:
        names = [name for name in arrays.files if name.startswith("in")]
        return [arrays[name] for name in sorted(names, key=lambda name: int(name[2:]))]


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, (list, tuple)):
        return type(a) is type(b) and len(a) == len(b) and all(map(_same, a, b))
    if isinstance(a, np.ndarray):
        return a.dtype == b.dtype and np.array_equal(a, b, equal_nan=a.dtype.kind in "fc")
    return bool(a == b)


@pytest.mark.skipif(not CASES, reason="PNNX_FAST_DATA is not set")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_cached_programs_give_the_same_bits(case: Path, tmp_path: Path) -> None:
    inputs = _inputs(case)
    results = [
        pnnx_fast.load(case, seed=1, **options)(*inputs) for options in ({}, {"cache": tmp_path}, {"cache": tmp_path})
    ]
    assert _same(results[0], results[1])
    assert _same(results[0], results[2])
