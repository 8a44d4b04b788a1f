"""Operators that keep their ONNX names, against PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from graph_of_one import call, run

import pnnx_fast
from pnnx_fast.errors import ParameterError, ShapeError

torch = pytest.importorskip("torch")
F = torch.nn.functional
pytestmark = pytest.mark.torch

RNG = np.random.default_rng(0)
X = RNG.standard_normal((3, 4, 5)).astype("f4")
TIES = RNG.integers(0, 3, (3, 8, 5))
PLACES = RNG.integers(0, 4, (3, 2, 5))
ONCE = np.argsort(RNG.random((3, 4, 5)), 1)[:, :2]
UPDATES = RNG.standard_normal((3, 2, 5)).astype("f4")
ODD = np.float32([np.nan, np.inf, -np.inf, 0, 1])
SIGNED = RNG.integers(-9, 9, (3, 4))
BLOCKS = RNG.standard_normal((2, 18, 10)).astype("f4")
GRID = RNG.uniform(-1, 1, (1, 2, 3, 2)).astype("f4")
PAIRS = RNG.standard_normal((3, 5, 2)).astype("f4")
LINES = RNG.standard_normal((3, 20)).astype("f4")
LABELS = RNG.integers(0, 4, (3, 5))
FOUND = [0, 1, 3, 4], [0, 1, 1, 2, 3, 2], [1, 2, 2, 1]
BATCHED = RNG.integers(-4, 4, (3, 2, 1))


def parts(x: Any) -> Any:
    return torch.view_as_real(x)


def frames(x: Any, n: int, hop: int, window: Any) -> Any:
    return parts(torch.stft(x, n, hop, n, window, center=False, return_complex=True)).permute(0, 2, 1, 3)


def arrays(*values: Any) -> list[Any]:
    return [torch.tensor(v) for v in values]


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
    ("Gather", (X, PLACES[0]), {"axis": 1}, lambda x, i: x[:, i]),
    ("Gather", (X, np.int32([[[-3]], [[2]]])), {}, lambda x, i: x[i.long()]),
    ("Gather", (X, np.int64(-2)), {"axis": -1}, lambda x, i: x[..., 3]),
    ("Gather", (X,), {"axis": 2, "indices": (4, -5)}, lambda x: x[..., [4, 0]]),
    ("Gather", (X,), {"indices": 1}, lambda x: x[1]),
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
    (
        "Col2Im",
        (BLOCKS[..., :8],),
        {"image_shape": (4, 6), "block_shape": (3, 3)},
        lambda x: F.fold(x, (4, 6), (3, 3)),
    ),
    (
        "Col2Im",
        (BLOCKS[..., :6],),
        {"image_shape": (5, 4), "block_shape": (2, 3), "pads": (1, 1, 1, 1), "strides": (2, 3), "dilations": (2, 1)},
        lambda x: F.fold(x, (5, 4), (2, 3), (2, 1), (1, 1), (2, 3)),
    ),
    (
        "Col2Im",  # one row more in front, one column more behind
        (BLOCKS[..., :9].astype("f8"),),
        {"image_shape": (3, 4), "block_shape": (3, 3), "pads": (2, 0, 0, 1)},
        lambda x: F.fold(x, (5, 5), (3, 3))[:, :, 2:, :4],
    ),
    (
        "Col2Im",
        (BLOCKS,),
        {"image_shape": (20,), "block_shape": 3, "strides": 2, "pads": (0, 1)},
        lambda x: F.fold(x[..., :10], (1, 21), (1, 3), stride=(1, 2))[:, :, 0, :20],
    ),
    (
        "Col2Im",
        (BLOCKS[..., :8],),
        {"image_shape": (2, 4, 6), "block_shape": (1, 3, 3), "strides": (2, 1, 1)},
        lambda x: torch.stack([y := F.fold(x, (4, 6), (3, 3)), 0 * y], 2),
    ),
    ("torch.eq", (TIES,), {"other": (0, 1, 2, 1, 0)}, lambda x: x == torch.tensor([0, 1, 2, 1, 0])),
    ("torch.gt", (X,), {"other": (0.1, -0.5, 0.0, 2.0, 1e-3)}, lambda x: x > torch.tensor([0.1, -0.5, 0.0, 2, 1e-3])),
    ("F.grid_sample", (X[None], GRID), {"mode": "linear"}, lambda x, g: F.grid_sample(x, g, align_corners=False)),
    ("F.grid_sample", (X[None], GRID), {"mode": "cubic"}, lambda x, g: F.grid_sample(x, g, "bicubic", "zeros", False)),
    ("DFT", (X[..., None],), {"axis": 1}, lambda x: parts(torch.fft.fft(x[..., 0], dim=1))),
    ("DFT", (PAIRS,), {}, lambda x: parts(torch.fft.fft(torch.view_as_complex(x), dim=1))),
    ("DFT", (PAIRS,), {"inverse": 1, "dft_length": 9}, lambda x: parts(torch.fft.ifft(torch.view_as_complex(x), 9))),
    (
        "DFT",
        (X[..., None],),
        {"onesided": 1, "axis": -2, "dft_length": 4},
        lambda x: parts(torch.fft.rfft(x[..., 0], 4)),
    ),
    (
        "DFT",
        (PAIRS,),
        {"onesided": 1, "inverse": 1, "axis": -2},
        lambda x: torch.fft.irfft(torch.view_as_complex(x), 8)[..., None],
    ),
    (
        "DFT",
        (PAIRS,),
        {"onesided": 1, "inverse": 1, "axis": 0, "dft_length": 7},
        lambda x: torch.fft.irfft(torch.view_as_complex(x), 7, 0)[..., None],
    ),
    (
        "STFT",
        (LINES[..., None],),
        {"frame_step": 5, "frame_length": 8},
        lambda x: frames(x[..., 0], 8, 5, torch.ones(8)),
    ),
    ("STFT", (LINES[..., None], X[0, 0]), {"frame_step": 3}, lambda x, w: frames(x[..., 0], 5, 3, w)),
    (
        "STFT",
        (LINES.reshape(3, 10, 2),),
        {"frame_step": 2, "frame_length": 6, "onesided": 0},
        lambda x: frames(torch.view_as_complex(x), 6, 2, torch.ones(6)),
    ),
    ("Unique", (TIES,), {}, lambda x: x.unique()),
    ("Unique", (np.int64([2, 1, 1, 3, 4, 3]),), {"sorted": 0}, lambda x: arrays([2, 1, 3, 4], *FOUND)),
    (
        "Unique",
        (np.int64([[1, 0, 0], [1, 0, 0], [2, 3, 4]]),),
        {"axis": 0},
        lambda x: arrays([[1, 0, 0], [2, 3, 4]], [0, 2], [0, 0, 1], [2, 1]),
    ),
    (
        "Unique",
        (np.float32([[5, 0, 5], [7, 0, 7]]),),
        {"axis": -1, "sorted": 0},
        lambda x: [x[:, :2], *arrays([0, 1], [0, 1, 0], [2, 1])],
    ),
    ("Det", (X[:, :3, :3],), {}, torch.det),
    ("Det", (X[0, :, :4].astype("f8"),), {}, torch.det),
    ("BitShift", (np.uint8([1, 200, 3]), np.uint8([1])), {"direction": "LEFT"}, lambda x, y: x << y),
    ("BitShift", (SIGNED,), {"direction": "RIGHT", "Y": 1}, lambda x: x >> 1),
    (
        "SoftmaxCrossEntropyLoss",
        (X, LABELS),
        {"ignore_index": 2},
        lambda x, i: [F.cross_entropy(x, i, ignore_index=2), x.log_softmax(1)],
    ),
    (
        "SoftmaxCrossEntropyLoss",
        (X, LABELS, UPDATES[0, 0, :4]),
        {"reduction": "sum"},
        lambda x, i, w: F.cross_entropy(x, i, w, reduction="sum"),
    ),
    (
        "NegativeLogLikelihoodLoss",
        (X, LABELS, UPDATES[0, 0, :4]),
        {"reduction": "none", "ignore_index": 1},
        lambda x, i, w: F.nll_loss(x, i, w, ignore_index=1, reduction="none"),
    ),
    ("NegativeLogLikelihoodLoss", (X, LABELS), {}, F.nll_loss),
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
    with pytest.raises(ShapeError, match="without dimensions"):
        run("Gather", np.float32(1), np.int64([0]))
    for index in (np.int64([[3]]), np.int32([-4])):
        with pytest.raises(IndexError):
            run("Gather", X, index)
    with pytest.raises(IndexError):
        run("Gather", X, indices=(0, 5), axis=2)
    with pytest.raises(ShapeError, match="do not fit"):
        run("Col2Im", BLOCKS, image_shape=(4, 6, 1), block_shape=(3, 3, 1))
    with pytest.raises(ShapeError, match="do not fit"):
        run("Col2Im", np.zeros((2, 0, 1)), image_shape=(1 << 20, 1 << 20, 1), block_shape=(1 << 20, 1 << 20, 1))
    with pytest.raises(ParameterError, match="as many sizes"):
        run("Col2Im", BLOCKS, image_shape=(4, 6), block_shape=(3, 3, 1))
    with pytest.raises(ParameterError, match="pads not negative"):
        run("Col2Im", BLOCKS, image_shape=(4, 6), block_shape=(3, 3), pads=(0, 0, -1, 0))
    with pytest.raises(ParameterError, match="depends on ONNX's version"):
        run("DFT", X[..., None])
    with pytest.raises(ParameterError, match="the parts of numbers"):
        run("DFT", PAIRS, axis=-1)
    with pytest.raises(ShapeError, match="two of complex numbers"):
        run("DFT", X, axis=1)
    with pytest.raises(ShapeError, match="real numbers"):
        run("DFT", PAIRS, onesided=1)
    with pytest.raises(ShapeError, match="complex numbers"):
        run("DFT", X[..., :1], onesided=1, inverse=1, axis=0)
    with pytest.raises(ShapeError, match="at least one sample"):
        run("DFT", PAIRS, dft_length=0)
    with pytest.raises(ShapeError, match="shorter than a frame"):
        run("STFT", LINES[..., None], frame_step=1, frame_length=21)
    with pytest.raises(ShapeError, match=r"\(batch, samples, parts\)"):
        run("STFT", X[..., None], frame_step=1)
    with pytest.raises(ShapeError, match="square"):
        run("Det", X)
    with pytest.raises(ParameterError, match="unknown direction"):
        run("BitShift", TIES, Y=1, direction="UP")
    with pytest.raises(ParameterError, match="unknown reduction"):
        run("SoftmaxCrossEntropyLoss", X, LABELS, reduction="product")
    with pytest.raises(IndexError):
        run("NegativeLogLikelihoodLoss", X, LABELS - 100)
    with pytest.raises(ShapeError, match="does not fit"):
        run("GatherElements", np.ones((3, 4), np.float32), np.zeros((60, 4), np.int64), axis=1)
    with pytest.raises(ShapeError, match="a slice for each tuple"):
        run("ScatterND", np.ones(2, np.float32), np.zeros((2, 3, 1), np.int64), np.ones(3, np.float32), reduction="mul")
    for reduction in ("none", "max"):
        with pytest.raises(IndexError):
            run("ScatterND", X, np.int64([[3]]), UPDATES[:1].repeat(2, 1), reduction=reduction)


def test_resizing_by_factors_that_are_no_floats() -> None:
    """Sizes are products in float32, as onnxruntime has them; a tensor that keeps its sizes is copied."""
    for n, factor, size in ((90, 0.7, 63), (45, 1.4, 63), (50, 2.3, 115)):
        assert run("Resize", np.zeros((1, 1, 3, n), np.float32), scales=(1.0, 1.0, 1.0, factor)).shape[3] == size
    x = np.float32([[[[0.1257, -0.1321]]]])
    for mode in ("nearest", "linear"):
        np.testing.assert_array_equal(run("Resize", x, scales=(1.0, 1.0, 1.0, 1.25), mode=mode), x)


def test_entries_that_files_have_as_numbers() -> None:
    x = np.arange(20, dtype=np.float32).reshape(4, 5)
    want = x.copy()
    want[2, 3] = 7
    np.testing.assert_array_equal(call("ScatterND", (x, np.int64([[2, 3]]), np.float32(7)), 1), want)
    want = x.copy()
    want[2] = 1
    np.testing.assert_array_equal(call("ScatterND", (x, np.int64(2), np.ones((1, 5), np.float32)), 1), want)
    want = x.copy()
    want[0, 2] = 9
    got = call("ScatterElements", (x, np.int64(2), np.float32(9)), 1, {"axis": 1})
    np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(call("GatherElements", (x, np.int64(2)), 1, {"axis": 1}), x[:1, 2:3])
