"""Single operators against PyTorch: every row of the table, plain, from a view, and behind a channels-last producer."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from graph_of_one import run

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore::UserWarning")]

from operator_cases import CASES, Case  # noqa: E402


def sample(spec: str, seed: int) -> np.ndarray:
    """Values of "dtype dims…"; p4 is positive, u4 in (0, 1), q4 above 1."""
    kind, *dims = spec.split()
    rng, shape = np.random.default_rng(seed), tuple(map(int, dims))
    if kind in ("i8", "i4"):
        return np.asarray(rng.integers(1, 7, shape), kind)
    if kind == "b1":
        return np.asarray(rng.integers(0, 2, shape), bool)
    if kind == "c8":
        return np.asarray(rng.standard_normal(shape) + 1j * rng.standard_normal(shape), kind)
    if kind in ("u4", "q4"):
        return np.asarray(rng.random(shape) * 0.8 + (0.1 if kind == "u4" else 1.0), "f4")
    values = rng.standard_normal(shape)
    return np.asarray(np.abs(values) + 0.1 if kind == "p4" else values, kind.replace("p", "f"))


def resolve(case: Case) -> Any:
    """PyTorch's function for a row, taking tensors and then parameters."""
    home, name = case.kind.rsplit(".", 1)
    if case.call is not None:
        return case.call
    if home == "nn":
        return lambda *x, **params: getattr(torch.nn, name)(**params)(*x)
    spaces = {"F": torch.nn.functional, "torch": torch, "Tensor": torch.Tensor, "torch.fft": torch.fft}
    return getattr(spaces.get(home, torch.linalg), name)


LAYOUTS = [(c, last) for c in CASES for last in (False, True) if not last or (c.inputs and c.inputs[0].count(" ") > 2)]


@pytest.mark.parametrize(("case", "last"), LAYOUTS, ids=lambda v: v.kind if isinstance(v, Case) else str(v))
def test_matches_torch(case: Case, last: bool) -> None:
    arrays = [sample(spec, i) for i, spec in enumerate(case.inputs)]
    want = resolve(case)(*(torch.from_numpy(np.array(a)) for a in arrays), **case.params)
    parts = list(want) if isinstance(want, (tuple, list)) else [want]
    got = run(case.kind, *arrays, last=last, outputs=len(parts), **case.params)
    for g, w in zip(got if len(parts) > 1 else [got], parts, strict=True):
        w = w.resolve_conj().resolve_neg().numpy()
        assert np.asarray(g).dtype == w.dtype
        assert np.shape(g) == w.shape
        size = np.abs(w[np.isfinite(w)]).max(initial=0) if w.dtype.kind in "fc" else 0
        np.testing.assert_allclose(g, w, 0, 1e-4 * size if w.dtype.kind in "fc" else 0)
