"""Every stored call of an operator gives the stored results, without PyTorch."""

from __future__ import annotations

from typing import Any

import golden_store
import numpy as np
import pytest
from aten_cases import gives_list
from graph_of_one import call, run

ENTRIES = golden_store.read()


def results(entry: dict[str, Any]) -> list[Any]:
    kind, count = entry["kind"], len(entry["outputs"])
    if "args" in entry:
        got = call(kind, tuple(entry["args"]), 1 if gives_list(kind) else count)
    else:
        params = {k: tuple(v) if isinstance(v, list) else v for k, v in entry["params"]}
        weights = dict(entry["weights"])
        got = run(kind, *entry["inputs"], names=entry["names"], weights=weights, outputs=count, **params)
    return list(got) if isinstance(got, (tuple, list)) else [got]


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda e: e["kind"])
def test_matches_golden(entry: dict[str, Any]) -> None:
    for g, w in zip(results(entry), entry["outputs"], strict=True):
        assert np.asarray(g).dtype == w.dtype
        assert np.shape(g) == w.shape
        size = np.abs(w[np.isfinite(w)]).max(initial=0) if w.dtype.kind in "fc" else 0
        np.testing.assert_allclose(g, w, 1e-4, 1e-4 * size if w.dtype.kind in "fc" else 0)


def test_there_are_goldens() -> None:
    assert len(ENTRIES) > 1000
