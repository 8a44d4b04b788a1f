"""Arguments at the edge of what PyTorch takes: empty or tiny tensors, and those that it refuses, of rarer operators."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from graph_of_one import call, run
from test_composed_torch import check, compare, real, t

from pnnx_fast.errors import IndexRangeError, LimitError, ParameterError, PnnxFastError, ShapeError

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.filterwarnings("ignore")

NOTHING = np.zeros(0, np.float32)
ROWS = np.float32([[1, 2, 5], [3, 1, 4]])
PAIR = np.int64([0, 1])
COMPLEX = np.complex64([1 + 2j, 3])


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
def test_bins_of_a_histogram_follow_from_the_type_of_the_entries(dtype: str) -> None:
    samples = [(real("f8", n) + 1).astype(dtype) for n in (1, 7, 1000)]
    samples.append(np.array([-10, -5.01, -4.99, -0.02, 0, np.nan, np.inf], dtype))
    for x in samples:
        for bins in (1, 3, 100):
            for low, high in ((-3, 3), (0, 0.1), (-10, 0)):
                check("histc", x, bins, low, high)
    for x in (samples[1], samples[2], samples[0][:0]):
        check("histc", x, 7, 0, 0)
    for bad in ((samples[3], 3, 0, 0), (samples[0], 3, 2, 1), (samples[0], 0, 0, 1)):
        with pytest.raises(ParameterError, match="no histogram"):
            call("aten::histc", bad, 1)


@pytest.mark.parametrize("kind", ["softmax", "log_softmax", "softmin"])
@pytest.mark.parametrize("dtype", ["i8", "u1", "?"])
def test_softmax_of_no_integers_is_nothing(kind: str, dtype: str) -> None:
    if (kind, dtype) == ("softmin", "?"):
        return  # truth values are not negated
    x = np.zeros((0, 3), dtype)
    for dim in (0, 1):
        compare(run(f"F.{kind}", x, dim=dim), getattr(torch.nn.functional, kind)(t(x), dim))
    with pytest.raises(ShapeError, match="floating"):
        run(f"F.{kind}", np.ones((2, 3), dtype), dim=1)


@pytest.mark.parametrize("dtype", ["u1", "i1", "i8", "f4"])
def test_softmin_negates_in_the_type_of_its_input(dtype: str) -> None:
    x = np.array([[0, 1, 2]], dtype)
    for name in ("float32", "float64"):
        want = torch.nn.functional.softmin(t(x), 1, dtype=getattr(torch, name))
        compare(run("F.softmin", x, dim=1, dtype=f"torch.{name}"), want)


def test_batch_norm_of_nothing() -> None:
    one, names = np.ones(1, np.float32), ("input", "running_mean", "running_var")
    compare(
        run("F.batch_norm", NOTHING, one, one, names=names),
        torch.nn.functional.batch_norm(*map(t, (NOTHING, one, one))),
    )
    with pytest.raises(ShapeError, match="at least 2"):
        run("F.batch_norm", one, one, one, names=names)


def test_covariances_and_choices_of_nothing() -> None:
    for x in (ROWS[:, :0].copy(), np.array(1, "f4"), ROWS[0], ROWS[:1].copy()):
        compare(call("aten::cov", (x, 1, None, None), 1), torch.cov(t(x)))
    check("combinations", ROWS[0], 0, False)


@pytest.mark.parametrize("accumulate", [False, True])
def test_complex_numbers_put_at_places_of_any_shape(accumulate: bool) -> None:
    check("put", np.array(1 + 0j, "c8"), np.array(0), COMPLEX[:1], accumulate)
    check("put", COMPLEX, PAIR[None], COMPLEX[::-1].copy(), accumulate)


@pytest.mark.parametrize("dtype", ["i2", "u1", "f4", "?"])
@pytest.mark.parametrize("size", [[], [1], [2]], ids=str)
def test_sums_to_a_size(dtype: str, size: list[int]) -> None:
    for x in (np.array(3, dtype), np.array([3, 4], dtype)):
        if len(size) <= x.ndim:
            compare(call("aten::sum_to_size", (x, size), 1), t(x).sum_to_size(size))


@pytest.mark.parametrize("name", ["tril_indices", "triu_indices"])
def test_places_of_triangles_have_the_type_asked_for(name: str) -> None:
    for number, dtype in ((None, torch.int64), (3, torch.int32), (4, torch.int64)):
        want = getattr(torch, name)(2, 3, 1, dtype=dtype)
        compare(call(f"aten::{name}", (2, 3, 1, number, None, None, None), 1), want)


REFUSED: list[tuple[str, tuple[Any, ...], type[PnnxFastError]]] = [
    *[("diagonal_scatter", (np.eye(3), np.ones(s), 0, 0, 1), ShapeError) for s in ((1,), (2,), (1, 3), ())],
    *[("bincount", (np.array(x), None, 0), ShapeError) for x in ([-1], [[1]], [1.5])],
    ("bincount", (np.array([2**63 - 1]), None, 0), LimitError),
    ("one_hot", (np.array([-1, 2]), -1), IndexRangeError),
    ("one_hot", (np.array([2**62]), -1), LimitError),
    ("one_hot", (PAIR[:0], -1), ShapeError),
    *[("norm", (np.ones(3, d), p), ShapeError) for d in ("i8", "?") for p in (0, 2)],
    ("linalg_vector_norm", (PAIR, 2, None, False, None), ShapeError),
    ("dist", (PAIR, PAIR, 2.0), ShapeError),
    ("cartesian_prod", ([ROWS, ROWS[0]],), ShapeError),
    ("cartesian_prod", ([ROWS],), ShapeError),
    ("combinations", (ROWS, 2, False), ShapeError),
    ("combinations", (ROWS[0], -1, False), ParameterError),
    *[("cov", (ROWS, 1, np.array(w), None), ShapeError) for w in ([1, -1, 2], [[1, 1, 2]], [1, 2])],
    ("cov", (ROWS[None], 1, None, None), ShapeError),
    ("corrcoef", (ROWS[None],), ShapeError),
    *[("index_reduce", (ROWS, 0, PAIR, np.ones(s, "f4"), "prod"), ShapeError) for s in ((6,), (1, 2, 3), (3, 2))],
    ("index_reduce", (ROWS[0], 0, PAIR[:1], np.array(3, "f4"), "prod"), ShapeError),
    ("binary_cross_entropy", (ROWS / 9, ROWS[:, :1] / 9, None, 1), ShapeError),
    ("binary_cross_entropy_with_logits", (ROWS, ROWS[0], None, None, 1), ShapeError),
    *[("index_put", (ROWS[:0], [PAIR], np.array(1, "f4"), a), IndexRangeError) for a in (False, True)],
    ("index_put", (ROWS[:, :0], [PAIR, PAIR], np.array(1, "f4"), False), IndexRangeError),
    *[(name, (COMPLEX, [0], False), ShapeError) for name in ("amax", "amin")],
    *[(name, (COMPLEX,), ShapeError) for name in ("max", "min")],
    ("logcumsumexp", (COMPLEX, 0), ShapeError),
    ("cosine_similarity", (PAIR, PAIR, 0, 1e-8), ShapeError),
    ("trapezoid", (PAIR > 0, PAIR, -1), ShapeError),
    ("cumulative_trapezoid", (ROWS, PAIR, -1), ShapeError),
]


@pytest.mark.parametrize(("name", "values", "error"), REFUSED)
def test_what_pytorch_refuses_too(name: str, values: tuple[Any, ...], error: type[PnnxFastError]) -> None:
    with pytest.raises(error, match=f"aten::{name} op"):
        call(f"aten::{name}", values, 1)


@pytest.mark.parametrize("kind", ["addcmul", "addcdiv"])
@pytest.mark.parametrize("types", [("f4", "f2", "f2"), ("f8", "f4", "f2"), ("i8", "i2", "i2"), ("f2", "f4", "f2")])
def test_products_and_quotients_are_formed_in_the_common_type(kind: str, types: tuple[str, ...]) -> None:
    if kind == "addcdiv" and types[0] == "i8":
        return  # quotients of integers are refused
    given = [np.array([300, 7]).astype(t) for t in types]
    want = getattr(torch, kind)(*map(torch.from_numpy, given), value=2)
    got = call(f"aten::{kind}", (*given, 2), 1)
    assert str(want.dtype) == f"torch.{got.dtype}"
    np.testing.assert_allclose(got, want.numpy(), rtol=1e-6 if got.dtype != np.float16 else 1e-3)


@pytest.mark.parametrize("weight", [0.25, 0.75, 1.0, -2.0, np.float32([0.25, 0.75, 1.0]), np.float32([1, 1, 0.5])])
def test_ends_of_lines_are_exact(weight: Any) -> None:
    a, b = np.float32([1e8, 1e4, 3e38]), np.float32([1, 1e-3, -3e38])
    want = torch.lerp(torch.from_numpy(a), torch.from_numpy(b), torch.from_numpy(weight) if np.ndim(weight) else weight)
    np.testing.assert_array_equal(call("aten::lerp", (a, b, weight), 1), want.numpy())
