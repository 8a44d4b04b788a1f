"""Single operators against PyTorch: every row of the tables, plain and behind a channels-last producer."""

from __future__ import annotations

import numpy as np
import pytest
from graph_of_one import run

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore::UserWarning")]

from module_cases import LAYERS  # noqa: E402
from operator_cases import CASES, Case  # noqa: E402
from oracle import ask  # noqa: E402

ALL = [*CASES, *LAYERS]
LAYOUTS = [(c, last) for c in ALL for last in (False, True) if not last or (c.inputs and c.inputs[0].count(" ") > 2)]


@pytest.mark.parametrize(("case", "last"), LAYOUTS, ids=lambda v: v.kind if isinstance(v, Case) else str(v))
def test_matches_torch(case: Case, last: bool) -> None:
    arrays, weights, want = ask(case)
    names = [n if len(n) > 1 else "" for n in case.names]
    got = run(case.kind, *arrays, names=names, weights=weights, last=last, outputs=len(want), **case.params)
    for g, w in zip(got if len(want) > 1 else [got], want, strict=True):
        assert np.asarray(g).dtype == w.dtype
        assert np.shape(g) == w.shape
        size = np.abs(w[np.isfinite(w)]).max(initial=0) if w.dtype.kind in "fc" else 0
        np.testing.assert_allclose(g, w, 0, 1e-4 * size if w.dtype.kind in "fc" else 0)
