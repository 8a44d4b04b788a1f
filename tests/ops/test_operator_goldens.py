"""Every stored call of an operator gives the stored results, without PyTorch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import golden_store
import numpy as np
import pytest
from aten_cases import gives_list
from graph_of_one import call, run

from pnnx_fast.ops import registry
from pnnx_fast.runtime import batches

ENTRIES = golden_store.read()


def results(entry: dict[str, Any], noted: Sequence[tuple[int, ...]] = (), isa: str | None = None) -> list[Any]:
    kind, count = entry["kind"], len(entry["outputs"])
    if "args" in entry:
        got = call(kind, tuple(entry["args"]), 1 if gives_list(kind) else count, isa=isa)
    else:
        params = {k: tuple(v) if isinstance(v, list) else v for k, v in entry["params"]}
        weights = dict(entry["weights"])
        wiring: dict[str, Any] = {"names": entry["names"], "weights": weights, "outputs": count}
        got = run(kind, *entry["inputs"], **wiring, noted=noted, isa=isa, **params)
    return list(got) if isinstance(got, (tuple, list)) else [got]


def check(got: list[Any], want: list[Any]) -> None:
    for g, w in zip(got, want, strict=True):
        assert np.asarray(g).dtype == w.dtype
        assert np.shape(g) == w.shape
        size = np.abs(w[np.isfinite(w)]).max(initial=0) if w.dtype.kind in "fc" else 0
        np.testing.assert_allclose(g, w, 1e-4, 1e-4 * size if w.dtype.kind in "fc" else 0)


def states_rows(kind: str) -> bool:
    definition = registry.find(kind)
    return definition is not None and definition.rows is not None


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda e: e["kind"])
def test_matches_golden(entry: dict[str, Any]) -> None:
    check(results(entry), entry["outputs"])


@pytest.mark.parametrize("kind", sorted({e["kind"] for e in ENTRIES if states_rows(e["kind"])}))
def test_row_by_row(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Operators that are said not to mix the rows of a batch give the same results for a row at a time."""
    monkeypatch.setattr(batches, "best_part", lambda *given: (1, False))
    for entry in ENTRIES:
        if entry["kind"] == kind and "args" not in entry:
            check(results(entry, [w.shape for w in entry["outputs"]]), entry["outputs"])


def test_there_are_goldens() -> None:
    assert len(ENTRIES) > 1000
