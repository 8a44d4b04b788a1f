"""Operators that keep their ONNX names, against PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from graph_of_one import run

import pnnx_fast
from pnnx_fast.errors import ParameterError, ShapeError

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch

RNG = np.random.default_rng(0)
X = RNG.standard_normal((3, 4, 5)).astype("f4")
TIES = RNG.integers(0, 3, (3, 8, 5))
PLACES = RNG.integers(0, 4, (3, 2, 5))
ONCE = np.argsort(RNG.random((3, 4, 5)), 1)[:, :2]
UPDATES = RNG.standard_normal((3, 2, 5)).astype("f4")
ODD = np.float32([np.nan, np.inf, -np.inf, 0, 1])
SIGNED = RNG.integers(-9, 9, (3, 4))
BATCHED = RNG.integers(-4, 4, (3, 2, 1))


def scattered(how: str) -> Callable[..., Any]:
    return lambda x, i, u: x.scatter_reduce(1, i, u, how)


def put(x: Any, i: Any, u: Any, how: Callable[[Any, Any], Any]) -> Any:
    y = x.clone()
    for place, row in zip(i.tolist(), u, strict=True):
        y[tuple(place)] = how(y[tuple(place)], row)
    return y


ROWS: list[tuple[str, tuple[Any, ...], dict[str, Any], Callable[..., Any]]] = [
    ("ReduceMax", (X,), {"axes": 1}, lambda x: x.amax(1, True)),
    ("ReduceMax", (X,), {"axes": (0, -1), "keepdims": 0}, lambda x: x.amax((0, 2))),
    ("ReduceMax", (TIES,), {}, lambda x: x.amax((0, 1, 2), True)),
    ("ReduceMax", (X,), {"noop_with_empty_axes": 1}, lambda x: x),
    ("ReduceMin", (X,), {"axes": (2,), "keepdims": 1}, lambda x: x.amin(2, True)),
    ("ReduceMin", (X > 0,), {"axes": 0, "keepdims": 0}, lambda x: x.all(0)),
    ("ArgMax", (X,), {}, lambda x: x.argmax(0, True)),
    ("ArgMax", (TIES,), {"axis": 1, "keepdims": 0, "select_last_index": 1}, lambda x: 7 - x.flip(1).argmax(1)),
    ("ArgMin", (X,), {"axis": -1, "keepdims": 0}, lambda x: x.argmin(-1)),
    ("ArgMin", (TIES,), {"axis": 1, "select_last_index": 1}, lambda x: 7 - x.flip(1).argmin(1, True)),
    ("TopK", (X,), {"K": 3}, lambda x: x.topk(3)),
    ("TopK", (TIES,), {"K": 4, "axis": 1}, lambda x: [t[:, :4] for t in x.sort(dim=1, descending=True, stable=True)]),
    ("TopK", (TIES,), {"K": 8, "axis": 1, "largest": 0}, lambda x: x.sort(dim=1, stable=True)),
    ("CumSum", (X,), {"axis": 1}, lambda x: x.cumsum(1)),
    ("CumSum", (TIES.astype("i4"),), {"axis": -2}, lambda x: x.cumsum(1, dtype=torch.int32)),
    ("CumSum", (X,), {"axis": 0, "reverse": 1}, lambda x: x.flip(0).cumsum(0).flip(0)),
    ("CumSum", (TIES,), {"axis": 1, "exclusive": 1}, lambda x: x.cumsum(1) - x),
    ("CumSum", (TIES,), {"axis": 1, "exclusive": 1, "reverse": 1}, lambda x: x.flip(1).cumsum(1).flip(1) - x),
    ("GatherElements", (X, PLACES), {"axis": 1}, lambda x, i: x.gather(1, i)),
    ("GatherElements", (X, PLACES - 4), {"axis": -2}, lambda x, i: x.gather(1, i + 4)),
    ("GatherND", (X, np.int64([[0, -1], [2, 1]])), {}, lambda x, i: x[i[:, 0], i[:, 1]]),
    (
        "GatherND",
        (X, BATCHED),
        {"batch_dims": 1},
        lambda x, i: torch.stack([x[n, i[n, :, 0]] for n in range(3)]),
    ),
    ("ScatterElements", (X, ONCE, UPDATES), {"axis": 1}, lambda x, i, u: x.scatter(1, i, u)),
    ("ScatterElements", (X, ONCE - 4, UPDATES), {"axis": 1}, lambda x, i, u: x.scatter(1, i + 4, u)),
    ("ScatterElements", (X, PLACES, UPDATES), {"axis": 1, "reduction": "add"}, scattered("sum")),
    ("ScatterElements", (X, PLACES, UPDATES), {"axis": 1, "reduction": "mul"}, scattered("prod")),
    ("ScatterElements", (X, PLACES, UPDATES), {"axis": -2, "reduction": "max"}, scattered("amax")),
    ("ScatterElements", (X, PLACES, UPDATES), {"axis": 1, "reduction": "min"}, scattered("amin")),
    ("ScatterND", (X, np.int64([[0, 1], [-1, 2]]), UPDATES[0]), {}, lambda x, i, u: put(x, i, u, lambda a, b: b)),
    ("NonZero", (TIES,), {}, lambda x: x.nonzero().T),
    ("IsNaN", (ODD,), {}, torch.isnan),
    ("IsInf", (ODD,), {}, torch.isinf),
    ("IsInf", (ODD,), {"detect_negative": 0}, torch.isposinf),
    ("IsInf", (ODD,), {"detect_positive": 0}, torch.isneginf),
    ("IsInf", (ODD,), {"detect_positive": 0, "detect_negative": 0}, lambda x: torch.zeros(5, dtype=torch.bool)),
    ("Mod", (SIGNED, np.int64([4, -3, 2, 5])), {}, torch.remainder),
    ("Mod", (X, ODD[4:]), {"fmod": 1}, torch.fmod),
    ("Trilu", (X,), {}, torch.triu),
    ("Trilu", (X,), {"k": 1}, lambda x: torch.triu(x, 1)),
    ("Trilu", (X > 0,), {"k": -1, "upper": 0}, lambda x: torch.tril(x, -1)),
]
ROWS += [
    ("ScatterND", (X, np.int64([[0, 1], [2, -1], [0, 1]]), UPDATES[:, 0]), {"reduction": name}, function)
    for name, function in {
        "add": lambda x, i, u: put(x, i, u, torch.add),
        "mul": lambda x, i, u: put(x, i, u, torch.mul),
        "max": lambda x, i, u: put(x, i, u, torch.maximum),
        "min": lambda x, i, u: put(x, i, u, torch.minimum),
    }.items()
]


@pytest.mark.parametrize(("kind", "arrays", "params", "oracle"), ROWS, ids=lambda v: v if isinstance(v, str) else "")
def test_matches_torch(kind: str, arrays: Any, params: dict[str, Any], oracle: Callable[..., Any]) -> None:
    want = oracle(*(torch.from_numpy(np.array(a)) for a in arrays))
    want = [w.numpy() for w in ([want] if isinstance(want, torch.Tensor) else want)]
    got = run(kind, *arrays, outputs=len(want), **params)
    for g, w in zip(got if len(want) > 1 else [got], want, strict=True):
        assert g.dtype == w.dtype
        np.testing.assert_allclose(g, w, 1e-5, 1e-6)


GRAPH = """7767517
5 4
pnnx.Input               in0                      0 1 0 #0=(3,4,5)f32
pnnx.Expression          pnnx_expr_0              0 1 1 expr=3
TopK                     TopK_0                   2 2 0 1 2 3 axis=1 largest=0 sorted=1 #0=(3,4,5)f32
pnnx.Output              out0                     1 0 2 #2=(3,3,5)f32
pnnx.Output              out1                     1 0 3 #3=(3,3,5)i64
"""


def test_a_number_as_an_operand(tmp_path: Any) -> None:
    (tmp_path / "m.pnnx.param").write_text(GRAPH)
    (tmp_path / "m.pnnx.bin").write_bytes(b"PK\5\6" + bytes(18))
    values, places = pnnx_fast.load(tmp_path / "m.pnnx.param")(X)
    np.testing.assert_array_equal(values, np.sort(X, 1)[:, :3])
    np.testing.assert_array_equal(places, np.argsort(X, 1)[:, :3])


def test_faults_name_what_is_wrong() -> None:
    with pytest.raises(ParameterError, match="between 0 and 5"):
        run("TopK", X, K=6, outputs=2)
    with pytest.raises(ParameterError, match="unknown reduction 'mean'"):
        run("ScatterElements", X, PLACES, UPDATES, reduction="mean")
    with pytest.raises(ShapeError, match="empty dimension"):
        run("ArgMax", X[:0], select_last_index=1)
    with pytest.raises(ShapeError, match="too many indices"):
        run("GatherND", X, np.zeros((2, 4), np.int64))
    with pytest.raises(ShapeError, match="too few dimensions"):
        run("GatherND", X, np.zeros((2, 1), np.int64), batch_dims=2)
    with pytest.raises(ShapeError, match="as many dimensions"):
        run("GatherElements", X, np.zeros(4, np.int64))
    for reduction in ("none", "max"):
        with pytest.raises(IndexError):
            run("ScatterND", X, np.int64([[3]]), UPDATES[:1].repeat(2, 1), reduction=reduction)
