"""Layers, forms and masks that keep their ONNX names, against PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from graph_of_one import run

from pnnx_fast.errors import ParameterError, ShapeError

torch = pytest.importorskip("torch")
F = torch.nn.functional
pytestmark = pytest.mark.torch

RNG = np.random.default_rng(0)
X = RNG.standard_normal((3, 4, 5)).astype("f4")
COUNTS = RNG.integers(0, 9, (3, 4))
IMAGE = RNG.standard_normal((2, 8, 5, 6)).astype("f4")
CLASSES = np.int64([[0, 4, -1], [-5, 5, 2]])
HEADS = [RNG.standard_normal((2, 4, n, 8)).astype("f4") for n in (3, 5, 5)]
FLAT = [RNG.standard_normal((2, n, c)).astype("f4") for n, c in ((3, 16), (5, 8), (5, 12))]
MASK = RNG.random((3, 5)) > 0.4
BOXES = np.float32([[0, 0, 4, 4], [1, 0.5, 3, 5], [2, 2, 2.2, 2.3]])
THETA = RNG.standard_normal((2, 2, 3)).astype("f4")


def heads(q: Any, k: Any, v: Any) -> Any:
    q, k, v = (x.unflatten(2, (n, -1)).transpose(1, 2) for x, n in ((q, 4), (k, 2), (v, 2)))
    return F.scaled_dot_product_attention(q, k, v, enable_gqa=True).transpose(1, 2).flatten(2)


def regions(x: Any, boxes: Any, index: Any) -> Any:
    """Means of two by two samples in one cell a box."""
    rows = []
    for (x1, y1, x2, y2), i in zip(boxes.tolist(), index.tolist(), strict=True):
        places = [[(lo + (hi - lo) * s - 0.5) for s in (0.25, 0.75)] for lo, hi in ((x1, x2), (y1, y2))]
        grid = torch.tensor([[[2 * a / 5 - 1, 2 * b / 4 - 1] for a in places[0]] for b in places[1]])
        rows.append(F.grid_sample(x[i : i + 1], grid[None], align_corners=True, padding_mode="border").mean((2, 3)))
    return torch.cat(rows)[..., None, None]


def standardized(x: Any, axes: tuple[int, ...]) -> Any:
    return (x - x.mean(axes, True)) / x.std(axes, correction=0, keepdim=True)


def turned(x: Any, lengths: Any) -> Any:
    rows = [torch.cat([row[:n].flip(0), row[n:]]) for row, n in zip(x, lengths.tolist(), strict=True)]
    return torch.stack(rows)


Row = tuple[str, tuple[Any, ...], dict[str, Any], Callable[..., Any]]

ROWS: list[Row] = [
    ("Softsign", (X,), {}, F.softsign),
    ("ThresholdedRelu", (X,), {"alpha": 0.3}, lambda x: F.threshold(x, 0.3, 0)),
    ("Swish", (X,), {"alpha": 0.5}, lambda x: x * torch.sigmoid(0.5 * x)),
    ("Mean", (X, X[0], X[1, :1]), {}, lambda x, y, z: (x + y + z) / 3),
    ("Mean", (X,), {}, lambda x: x),
    ("CastLike", (X, COUNTS), {}, lambda x, y: x.long()),
    ("ReduceLogSum", (X * X,), {"axes": 1}, lambda x: x.sum(1, True).log()),
    ("ReduceLogSum", (X * X,), {"noop_with_empty_axes": 1}, torch.log),
    ("ReduceSumSquare", (X,), {"axes": (0, -1), "keepdims": 0}, lambda x: (x * x).sum((0, 2))),
    ("ReduceSumSquare", (COUNTS.astype("i4"),), {}, lambda x: (x * x).sum((0, 1), True, dtype=torch.int32)),
    ("LpNormalization", (X,), {"axis": 1}, lambda x: F.normalize(x, dim=1)),
    ("LpNormalization", (X * (X > 9),), {"p": 1}, lambda x: x),
    ("MeanVarianceNormalization", (IMAGE,), {}, lambda x: standardized(x, (0, 2, 3))),
    ("MeanVarianceNormalization", (X,), {"axes": 1}, lambda x: standardized(x, (1,))),
    ("GlobalLpPool", (IMAGE,), {"p": 1}, lambda x: x.abs().sum((2, 3), True)),
    ("Hardmax", (COUNTS.astype("f4"),), {"axis": 0}, lambda x: F.one_hot(x.argmax(0), 3).T.float()),
    ("Transpose", (X,), {}, lambda x: x.permute(2, 1, 0)),
    ("Transpose", (X,), {"perm": (1, 2, 0)}, lambda x: x.permute(1, 2, 0)),
    ("Size", (X,), {}, lambda x: torch.tensor(60)),
    ("DepthToSpace", (IMAGE,), {"blocksize": 2, "mode": "CRD"}, lambda x: F.pixel_shuffle(x, 2)),
    (
        "DepthToSpace",
        (IMAGE,),
        {"blocksize": 2},
        lambda x: F.pixel_shuffle(x.unflatten(1, (4, 2)).transpose(1, 2).flatten(1, 2), 2),
    ),
    (
        "Pad",
        (X,),
        {"pads": (1, 0, -1, 0, 2, 1), "constant_value": 2.5},
        lambda x: F.pad(x, (-1, 1, 0, 2, 1, 0), value=2.5),
    ),
    ("Pad", (COUNTS,), {"pads": (1, 2), "axes": -1}, lambda x: F.pad(x, (1, 2))),
    (
        "Pad",
        (X,),
        {"pads": (0, 2, 0, 1), "axes": (1, 2), "mode": "edge"},
        lambda x: F.pad(x, (2, 1, 0, 0), "replicate"),
    ),
    ("Pad", (X,), {"pads": (2, 1), "axes": (2,), "mode": "wrap"}, lambda x: F.pad(x, (2, 1), "circular")),
    ("CenterCropPad", (IMAGE,), {"shape": (2, 9), "axes": (2, 3)}, lambda x: F.pad(x[:, :, 1:3], (1, 2))),
    ("ReverseSequence", (X, np.int64([1, 4, 2])), {"batch_axis": 0, "time_axis": 1}, turned),
    ("ReverseSequence", (X, np.int64([0, 3, 2, 2])), {}, lambda x, n: turned(x.transpose(0, 1), n).transpose(0, 1)),
    ("Compress", (X, np.bool_([1, 0, 1])), {"axis": 1}, lambda x, c: x[:, [0, 2]]),
    ("Compress", (X, np.bool_([0, 1, 1])), {}, lambda x, c: x.flatten()[1:3]),
    ("EyeLike", (COUNTS,), {"k": 1, "dtype": 1}, lambda x: torch.ones(3, 4).triu(1).tril(1)),
    (
        "OneHot",
        (CLASSES, np.float32([-1, 2])),
        {"depth": 5, "axis": 1},
        lambda i, v: torch.where((i % 5)[:, None] == torch.arange(5)[:, None], v[1], v[0]).where(i[:, None] < 5, v[0]),
    ),
    ("HannWindow", (), {"size": 9}, lambda: torch.hann_window(9)),
    ("HannWindow", (), {"size": 9, "periodic": 0}, lambda: torch.hann_window(9, False)),
    ("HammingWindow", (), {"size": 9}, lambda: torch.hamming_window(9, True, 25 / 46, 21 / 46)),
    (
        "BlackmanWindow",
        (),
        {"size": 4, "output_datatype": 11},
        lambda: torch.blackman_window(4, dtype=torch.float64),
    ),
    ("AffineGrid", (THETA,), {"size": (2, 3, 4, 5)}, lambda t: F.affine_grid(t, (2, 3, 4, 5), False)),
    (
        "AffineGrid",
        (THETA,),
        {"size": (2, 3, 4, 5), "align_corners": 1},
        lambda t: F.affine_grid(t, (2, 3, 4, 5), True),
    ),
    ("RoiAlign", (IMAGE, BOXES, np.int64([0, 1, 1])), {"sampling_ratio": 2}, regions),
    (
        "RoiAlign",
        (IMAGE, BOXES, np.int64([0, 1, 1])),
        {"sampling_ratio": 2, "coordinate_transformation_mode": "output_half_pixel"},
        lambda x, r, i: regions(x, torch.cat([r[:, :2], torch.maximum(r[:, 2:], r[:, :2] + 1)], 1) + 0.5, i),
    ),
    ("Attention", tuple(HEADS), {"is_causal": 1}, lambda *v: F.scaled_dot_product_attention(*v, is_causal=True)),
    ("Attention", (*HEADS, MASK), {"scale": 0.3}, lambda *v: F.scaled_dot_product_attention(*v, scale=0.3)),
    ("Attention", tuple(FLAT), {"q_num_heads": 4, "kv_num_heads": 2}, heads),
]
SIZES = {"sizes": (2, 8, 13, 4)}
ROWS += [
    ("Resize", (IMAGE,), {"scales": (1.0, 1.0, 2.0, 2.0)}, lambda x: F.interpolate(x, scale_factor=2)),
    (
        "Resize",
        (IMAGE,),
        {**SIZES, "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"},
        lambda x: F.interpolate(x, (13, 4)),
    ),
    (
        "Resize",
        (IMAGE,),
        {**SIZES, "nearest_mode": "round_prefer_ceil"},
        lambda x: F.interpolate(x, (13, 4), mode="nearest-exact"),
    ),
    (
        "Resize",
        (X,),
        {"sizes": (3, 4, 3), "coordinate_transformation_mode": "align_corners", "nearest_mode": "ceil"},
        lambda x: x[..., ::2],
    ),
    ("Resize", (X,), {"sizes": (3, 1, 5), "coordinate_transformation_mode": "pytorch_half_pixel"}, lambda x: x[:, :1]),
]


@pytest.mark.parametrize(("kind", "arrays", "params", "oracle"), ROWS, ids=lambda v: v if isinstance(v, str) else "")
def test_matches_torch(kind: str, arrays: Any, params: dict[str, Any], oracle: Callable[..., Any]) -> None:
    want = oracle(*(torch.from_numpy(np.array(a)) for a in arrays)).numpy()
    got = run(kind, *arrays, **params)
    assert got.dtype == want.dtype
    np.testing.assert_allclose(got, want, 1e-4, 1e-5)


FAULTS: list[tuple[str, tuple[Any, ...], dict[str, Any], type[Exception], str]] = [
    ("CastLike", (X,), {"target_type": 1}, ParameterError, "not in the file"),
    ("GlobalLpPool", (COUNTS,), {}, ShapeError, "batch, channels"),
    ("Hardmax", (X[:0],), {"axis": 0}, ShapeError, "empty dimension"),
    ("Transpose", (X,), {"perm": (0, 1, 1)}, ParameterError, "no order of 3"),
    ("DepthToSpace", (IMAGE,), {"blocksize": 3}, ShapeError, "no blocks"),
    ("DepthToSpace", (IMAGE,), {"blocksize": 2, "mode": "X"}, ParameterError, "unknown mode"),
    ("Pad", (X,), {"pads": (1, 2)}, ParameterError, "6 sides"),
    ("Pad", (X,), {"pads": (1, 2), "axes": 0, "mode": "X"}, ParameterError, "unknown mode"),
    ("CenterCropPad", (X,), {"shape": (1, 2)}, ParameterError, "as many sizes"),
    ("ReverseSequence", (X, np.int64([1, 2])), {}, ShapeError, "one length"),
    ("ReverseSequence", (X, np.int64([1, 4, 2, 2])), {}, IndexError, "4"),
    ("Compress", (X, np.bool_([1] * 5)), {"axis": 1}, ShapeError, "one truth value"),
    ("EyeLike", (X,), {}, ShapeError, "matrices"),
    ("EyeLike", (COUNTS,), {"dtype": 8}, ParameterError, "unknown type"),
    ("OneHot", (CLASSES, X[0, 0]), {"depth": 5}, ShapeError, "two values"),
    ("HannWindow", (), {"size": -1}, ParameterError, "-1 places"),
    ("RoiAlign", (IMAGE, BOXES, np.int64([0])), {}, ShapeError, "an image each"),
    ("RoiAlign", (IMAGE, BOXES, np.int64([0, 0, 0])), {"mode": "max"}, ParameterError, "only means"),
    ("Attention", tuple(FLAT), {"q_num_heads": 3, "kv_num_heads": 2}, ShapeError, "do not fit"),
    ("Attention", tuple(HEADS), {"softcap": 2.0}, ParameterError, "upper bound"),
]


@pytest.mark.parametrize(
    ("kind", "arrays", "params", "error", "text"), FAULTS, ids=lambda v: v if isinstance(v, str) else ""
)
def test_faults_name_what_is_wrong(kind: str, arrays: Any, params: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        run(kind, *arrays, **params)
