"""Losses of every reduction, with weights, ignored classes and values that are not finite, against PyTorch."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from graph_of_one import call

from pnnx_fast.errors import IndexRangeError, ParameterError, ShapeError

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.filterwarnings("ignore")

ODD = [np.nan, np.inf, -np.inf, 0.0, 1.0, -1.0, 2.0, 0.5]


def real(dtype: str, *shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def chance(dtype: str, *shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).random(shape).astype(dtype)


def t(x: Any) -> Any:
    return torch.from_numpy(np.array(x)) if isinstance(x, np.ndarray) else x


def check(name: str, *values: Any, **named: Any) -> None:
    want = getattr(torch.ops.aten, name)(*map(t, values), **named).numpy()
    got = call(f"aten::{name}", (*values, *named.values()), 1)
    assert got.dtype == want.dtype
    assert got.shape == want.shape
    tolerance = {"float16": 3e-3, "float32": 1e-5, "float64": 1e-12}.get(want.dtype.name, 0)
    np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)


PAIRS: list[tuple[str, tuple[Any, ...], tuple[Any, ...]]] = [
    ("l1_loss", (), ()),
    ("mse_loss", (), ()),
    *[("smooth_l1_loss", (), (beta,)) for beta in (0.0, 0.3, 1.0)],
    *[("huber_loss", (), (delta,)) for delta in (0.3, 1.0)],
    ("soft_margin_loss", (), ()),
    *[("hinge_embedding_loss", (margin,), ()) for margin in (1.0, -0.2)],
    *[("poisson_nll_loss", (log, full, 1e-6), ()) for log in (False, True) for full in (False, True)],
]


@pytest.mark.parametrize(("name", "before", "after"), PAIRS)
@pytest.mark.parametrize("reduction", [0, 1, 2])
def test_pairs(name: str, before: tuple[Any, ...], after: tuple[Any, ...], reduction: int) -> None:
    pairs = [(real(d, 5, 7), real(d, 5, 7, seed=1)) for d in ("f4", "f8")]
    pairs += [(real("f4", 3, 0), real("f4", 3, 0)), (real("f4"), real("f4", seed=1)), (real("f4", 300, 70),) * 2]
    pairs += [tuple(np.array(v, "f4") for v in zip(*itertools.product(ODD, ODD), strict=True))] if not reduction else []
    for x, y in pairs:
        check(name, x, y, *before, reduction, *after)
    if name not in ("soft_margin_loss",):
        check(name, real("f4", 5, 7), np.sign(real("f4", 7, seed=1)), *before, reduction, *after)


@pytest.mark.parametrize(("name", "dtype"), [("mse_loss", "?"), ("smooth_l1_loss", "?"), ("huber_loss", "?")] + [
    ("soft_margin_loss", kind) for kind in ("?", "u1", "i8")
])  # fmt: skip
def test_targets_of_other_types(name: str, dtype: str) -> None:
    check(name, real("f4", 5, 7), (real("f4", 5, 7, seed=1) > 0).astype(dtype), 1)


@pytest.mark.parametrize("reduction", [0, 1, 2])
def test_distributions(reduction: int) -> None:
    odd = tuple(np.array(v, "f4") for v in zip(*itertools.product(ODD, ODD), strict=True))
    for d in ("f4", "f8"):
        x, y = chance(d, 4, 9), chance(d, 4, 9, seed=1)
        x[0, :2], y[1:, :2] = [0, 1], [0, 1]
        for log in (False, True):
            check("kl_div", np.log(x), y, reduction, log_target=log)
            if not reduction:
                check("kl_div", *odd, reduction, log_target=log)
        weights = (None, chance(d, 9, seed=2), chance(d, 4, 9, seed=2))
        for weight in weights:
            check("binary_cross_entropy", x, y, weight, reduction)
            for positive in weights:
                check("binary_cross_entropy_with_logits", 9 * x - 4, y, weight, positive, reduction)
    if not reduction:
        check("binary_cross_entropy_with_logits", *odd, None, None, reduction)


@pytest.mark.parametrize("reduction", [0, 1, 2])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_vectors(reduction: int, dtype: str) -> None:
    x, y, z = (real(dtype, 6, 5, seed=i) for i in range(3))
    x[0] = 0
    target = np.sign(real(dtype, 6, seed=4))
    check("cosine_embedding_loss", x, y, target, 0.1, reduction)
    check("cosine_embedding_loss", x[1], y[1], target[1:2].reshape(()), 0.0, reduction)
    check("margin_ranking_loss", x, y, np.sign(z), 0.3, reduction)
    for swap, p in itertools.product((False, True), (1.0, 2.0, 3.0)):
        check("triplet_margin_loss", x, y, z, 1.0, p, 1e-6, swap, reduction)
    check("triplet_margin_loss", x[1], y[1], z[1], 1.0, 2.0, 1e-6, True, reduction)


@pytest.mark.parametrize("reduction", [0, 1, 2])
def test_angles_of_integers(reduction: int) -> None:
    """Products stay in the type of the vectors, sums do not."""
    x, y = np.array([[100, -100, 3], [1, 2, 3]], "i1"), np.array([[90, 50, -7], [3, 2, 1]], "i1")
    for target in (1, -1):
        check("cosine_embedding_loss", x, y, np.full(2, target, "i1"), 0.1, reduction)
    check("cosine_embedding_loss", x > 2, y > 2, np.array([True, False]), 0.1, reduction)


SHAPES = [(5,), (6, 5), (4, 5, 3), (2, 5, 3, 4), (1, 1), (7, 1)]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("reduction", [0, 1, 2])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_classes(shape: tuple[int, ...], reduction: int, dtype: str) -> None:
    axis = min(len(shape) - 1, 1)
    classes = shape[axis]
    x = 3 * real(dtype, *shape)
    y = np.random.default_rng(1).integers(0, classes, (*shape[:axis], *shape[axis + 1 :]))
    shares = chance(dtype, *shape, seed=3)
    weights = (None, chance(dtype, classes, seed=2))
    for weight, ignored in itertools.product(weights, (-100, 2)):
        check("nll_loss_nd", x, y, weight, reduction, ignored)
        for smoothing in (0.0, 0.15, 1.0):
            check("cross_entropy_loss", x, y, weight, reduction, ignored, smoothing)
            check("cross_entropy_loss", x, np.full_like(y, ignored), weight, reduction, ignored, smoothing)
    for weight, smoothing in itertools.product(weights, (0.0, 0.15)):
        check("cross_entropy_loss", x, shares, weight, reduction, -100, smoothing)


@pytest.mark.parametrize("reduction", [0, 1, 2])
def test_odd_scores(reduction: int) -> None:
    x = np.array(list(itertools.product(ODD, ODD, [0.0, -np.inf])), "f4")
    y = np.arange(len(x)) % 3
    for weight in (None, np.array([0, 1, 2], "f4")):
        check("nll_loss_nd", x, y, weight, reduction, 1)
        for smoothing in (0.0, 0.1):
            check("cross_entropy_loss", x, y, weight, reduction, 1, smoothing)
    check("nll_loss_nd", x[:0], y[:0], None, reduction, -100)
    check("cross_entropy_loss", x[:0], y[:0], None, reduction, -100, 0.1)


@pytest.mark.parametrize("rows", [0, 3])
@pytest.mark.parametrize("reduction", [0, 1, 2])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_no_classes(rows: int, reduction: int, smoothing: float) -> None:
    x, none = real("f4", rows, 0), np.full(rows, -100)
    for weight in (None, x.reshape(-1)):
        check("cross_entropy_loss", x, none, weight, reduction, -100, smoothing)
        check("cross_entropy_loss", x, x, weight, reduction, -100, smoothing)


@pytest.mark.parametrize("name", ["nll_loss_nd", "cross_entropy_loss"])
def test_what_does_not_fit(name: str) -> None:
    x, y = real("f4", 4, 5), np.array([0, 4, 1, 2])
    for bad in (-1, 5, -100):
        with pytest.raises(IndexRangeError, match=f"aten::{name} op: index {bad} is out of range"):
            call(f"aten::{name}", (x, np.where(y == 1, bad, y), None, 1, 3), 1)
    for target, weight in ((y[:3], None), (y[:, None], None), (y, x[0, :4]), (y, x)):
        with pytest.raises(ShapeError):
            call(f"aten::{name}", (x, target, weight, 1, -100), 1)
    with pytest.raises(ShapeError):
        call("aten::cross_entropy_loss", (x, x[:3], None, 1, -100), 1)
    with pytest.raises(ParameterError):
        call("aten::smooth_l1_loss", (x, x, 1, -1.0), 1)
    with pytest.raises(ParameterError):
        call("aten::huber_loss", (x, x, 1, 0.0), 1)


@pytest.mark.parametrize("reduction", [0, 1, 2])
def test_gaps_that_are_no_number_are_not_counted(reduction: int) -> None:
    x, y = real("f4", 3, 4), np.array([[1, 0, -1, 2], [3, -1, 0, 0], [-1, 0, 1, 2]])
    x[0, 2], x[1, 3] = np.nan, np.inf
    check("multilabel_margin_loss", x, y, reduction)
