"""Deformable convolution and region alignment against their definitions, written as plain loops."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from graph_of_one import run

from pnnx_fast import Graph, Model
from pnnx_fast.errors import IndexRangeError, ShapeError

RNG = np.random.default_rng(0)


def real(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def at(plane: np.ndarray, y: float, x: float) -> float:
    """Value between four pixels; those outside count as zero."""
    top, left, total = math.floor(y), math.floor(x), 0.0
    for i in (top, top + 1):
        for j in (left, left + 1):
            if 0 <= i < plane.shape[0] and 0 <= j < plane.shape[1]:
                total += float(plane[i, j]) * (1 - abs(y - i)) * (1 - abs(x - j))
    return total


def deformed(
    x: np.ndarray,
    offset: np.ndarray,
    mask: np.ndarray | None,
    w: np.ndarray,
    stride: tuple[int, int],
    pad: tuple[int, int],
    dilation: tuple[int, int],
    groups: int,
) -> np.ndarray:
    """The sum over taps of weight times the image at a shifted place."""
    n, _, oh, ow = offset.shape
    out, per_group, kh, kw = w.shape
    parts = offset.shape[1] // (2 * kh * kw)
    y = np.zeros((n, out, oh, ow))
    for b, o, r, c in np.ndindex(*y.shape):
        for i, ki, kj in np.ndindex(per_group, kh, kw):
            channel = (o // (out // groups)) * per_group + i
            tap = (channel // (x.shape[1] // parts)) * kh * kw + ki * kw + kj
            row = r * stride[0] - pad[0] + ki * dilation[0] + float(offset[b, 2 * tap, r, c])
            column = c * stride[1] - pad[1] + kj * dilation[1] + float(offset[b, 2 * tap + 1, r, c])
            share = 1.0 if mask is None else float(mask[b, tap, r, c])
            y[b, o, r, c] += float(w[o, i, ki, kj]) * share * at(x[b, channel], row, column)
    return y


@pytest.mark.parametrize(
    ("groups", "parts", "masked", "geometry"),
    [
        (1, 1, True, {}),
        (2, 1, False, {"stride": 2, "padding": 1}),
        (2, 4, True, {"padding": (1, 0), "dilation": (1, 2)}),
    ],
)
def test_deformable_convolution(groups: int, parts: int, masked: bool, geometry: dict[str, Any]) -> None:
    x, w, bias = real(2, 4, 6, 7), real(6, 4 // groups, 3, 2), real(6)
    pair = {k: v if isinstance(v, tuple) else (v, v) for k, v in geometry.items()}
    stride, pad, dilation = pair.get("stride", (1, 1)), pair.get("padding", (0, 0)), pair.get("dilation", (1, 1))
    spans = (2 * dilation[0] + 1, dilation[1] + 1)
    out = [(s + 2 * p - k) // t + 1 for s, p, k, t in zip((6, 7), pad, spans, stride, strict=True)]
    offset, mask = real(2, 2 * parts * 6, *out), np.abs(real(2, parts * 6, *out)) if masked else None
    given = [x, offset, *([] if mask is None else [mask])]
    got = run("torchvision.ops.DeformConv2d", *given, weights={"weight": w, "bias": bias}, groups=groups, **geometry)
    want = deformed(x, offset, mask, w, stride, pad, dilation, groups) + bias[:, None, None]
    np.testing.assert_allclose(got, want, 0, 1e-4 * np.abs(want).max())


def test_deformable_convolution_of_many_channels(isa: str) -> None:
    """Vectors of channels, images of a batch, an own offset for each half of the channels, two threads."""
    x, w = real(3, 38, 5, 6), real(7, 38, 3, 3)
    offset, mask = real(3, 36, 5, 6) * 3, real(3, 18, 5, 6)
    given: dict[str, Any] = {"weights": {"weight": w}, "padding": 1, "isa": isa, "threads": 2}
    got = run("torchvision.ops.DeformConv2d", x, offset, mask, **given)
    want = deformed(x, offset, mask, w, (1, 1), (1, 1), (1, 1), 1)
    np.testing.assert_allclose(got, want, 0, 1e-4 * np.abs(want).max())
    np.testing.assert_array_equal(got, run("torchvision.ops.DeformConv2d", x, offset, mask, **given))


def test_deformable_convolution_of_doubles() -> None:
    x, w = RNG.standard_normal((2, 4, 6, 7)), RNG.standard_normal((6, 2, 3, 3))
    offset, mask = 2 * RNG.standard_normal((2, 36, 6, 7)), RNG.random((2, 18, 6, 7))
    got = run("torchvision.ops.DeformConv2d", x, offset, mask, weights={"weight": w}, groups=2, padding=1)
    assert got.dtype == np.float64
    np.testing.assert_allclose(got, deformed(x, offset, mask, w, (1, 1), (1, 1), (1, 1), 2), 0, 1e-12)


def test_deformable_convolution_is_checked() -> None:
    x, w = real(1, 4, 5, 6), real(7, 4, 3, 3)
    offset, mask = real(1, 18, 5, 6), real(1, 9, 5, 6)
    for arrays in [(x, offset[:, :17]), (x, offset[..., 1:]), (x, offset, mask[:, 1:]), (x[:, 1:], offset)]:
        with pytest.raises(ShapeError):
            run("torchvision.ops.DeformConv2d", *arrays, weights={"weight": w}, padding=1)
    with pytest.raises(ShapeError):
        run("torchvision.ops.DeformConv2d", x, np.tile(offset, (1, 3, 1, 1)), weights={"weight": w}, padding=1)


def test_deformable_convolution_and_activation() -> None:
    x, offset, weights = real(1, 4, 5, 6), real(1, 18, 5, 6), {"weight": real(7, 4, 3, 3)}
    got = run("fused.DeformConv2d", x, offset, weights=weights, padding=1, activation="relu")
    want = run("torchvision.ops.DeformConv2d", x, offset, weights=weights, padding=1)
    np.testing.assert_array_equal(got, np.maximum(want, 0))


def aligned(
    x: np.ndarray, boxes: np.ndarray, size: tuple[int, int], scale: float, ratio: int, half: bool
) -> np.ndarray:
    """Mean over sampling points of each bin; points beyond one pixel outside of the image count as zero."""
    y = np.zeros((len(boxes), x.shape[1], *size))
    for k, box in enumerate(boxes.astype(np.float64)):
        x0, y0, x1, y1 = box[1:] * scale - (0.5 if half else 0.0)
        extent = [v if half else max(v, 1.0) for v in (y1 - y0, x1 - x0)]
        count = [ratio if ratio > 0 else max(math.ceil(e / n), 0) for e, n in zip(extent, size, strict=True)]
        for c, i, j in np.ndindex(x.shape[1], *size):
            total = 0.0
            for a, b in np.ndindex(*count):
                row = y0 + extent[0] / size[0] * (i + (a + 0.5) / count[0])
                column = x0 + extent[1] / size[1] * (j + (b + 0.5) / count[1])
                if -1 <= row <= x.shape[2] and -1 <= column <= x.shape[3]:
                    place = (min(max(row, 0), x.shape[2] - 1), min(max(column, 0), x.shape[3] - 1))
                    total += at(x[int(box[0]), c], *place)
            y[k, c, i, j] = total / max(count[0] * count[1], 1)
    return y


@pytest.mark.parametrize("ratio", [2, -1, 0])
@pytest.mark.parametrize("half", [True, False])
def test_region_alignment(ratio: int, half: bool) -> None:
    x = real(2, 3, 8, 9)
    boxes = np.array([[0, 1, 2, 12, 13], [1, 0, 0, 3, 2.5], [0, -6, -5, 30, 4], [1, 3, 3, 3, 3]], np.float32)
    params = {"output_size": (3, 2), "spatial_scale": 0.5, "sampling_ratio": ratio, "aligned": half}
    want = aligned(x, boxes, (3, 2), 0.5, ratio, half)
    for kind in ("torchvision.ops.RoIAlign", "torchvision.ops.roi_align"):
        np.testing.assert_allclose(run(kind, x, boxes, **params), want, 0, 1e-4 * np.abs(want).max())


@pytest.mark.parametrize("ratio", [2, -1, 0])
@pytest.mark.parametrize("half", [True, False])
def test_region_alignment_of_doubles(ratio: int, half: bool) -> None:
    x, far = RNG.standard_normal((2, 3, 8, 9)), [1, -3e8, -2e15, 4e300, 1e18]
    boxes = np.array([[0, 1, 2, 12, 13], [1, 0, 0, 3, 2.5], [0, -6, -5, 30, 4], [1, 3, 3, 3, 3], [0, 9, 9, 8, 2]])
    params = {"output_size": (3, 2), "spatial_scale": 0.5, "sampling_ratio": ratio, "aligned": half}
    got = run("torchvision.ops.RoIAlign", x, boxes, **params)
    assert got.dtype == np.float64
    np.testing.assert_allclose(got, aligned(x, boxes, (3, 2), 0.5, ratio, half), 0, 1e-12)
    assert np.isfinite(run("torchvision.ops.RoIAlign", x, np.array([far, [1, 0, 0, 1e-320, 3]]), **params)).all()
    assert (run("torchvision.ops.RoIAlign", x, np.array([[0, 0, np.nan, 3, 3]]), **params) == 0).all()
    with pytest.raises(IndexRangeError):
        run("torchvision.ops.RoIAlign", x, np.array([[2, 0, 0, 3, 3.0]]), **params)
    assert run("torchvision.ops.RoIAlign", x, boxes[:0], **params).shape == (0, 3, 3, 2)


@pytest.mark.parametrize("half", [True, False])
@pytest.mark.parametrize("ratio", [1, 2])
def test_region_alignment_in_one_image(isa: str, ratio: int, half: bool) -> None:
    x = real(1, 21, 8, 9)
    boxes = np.array([[0, 1, 2, 12, 13], [0, -6, -5, 30, 4], [0, 3, 3, 3, 3], [0, 9, -40, 11, 60]], np.float32)
    params = {"output_size": (3, 2), "spatial_scale": 0.5, "sampling_ratio": ratio, "aligned": half}
    want = aligned(x, boxes, (3, 2), 0.5, ratio, half)
    got = run("torchvision.ops.RoIAlign", x, boxes, isa=isa, threads=2, **params)
    np.testing.assert_allclose(got, want, 0, 1e-4 * np.abs(want).max())
    boxes[1, 0] = 1
    with pytest.raises(IndexRangeError):
        run("torchvision.ops.RoIAlign", x, boxes, **params)


def test_boxes_that_overlap_a_better_one_are_left_out() -> None:
    # Shares of the better box: 0.6 with the second, exactly 0.5 with the third, none with the fourth.
    boxes = np.float32([[0, 0, 4, 4], [0, 1, 4, 5], [0, 0, 4, 2], [8, 8, 9, 9], [8, 8, 8, 8], [8, 8, 8, 8]])
    scores = np.float32([0.9, 0.8, 0.7, 0.95, 0.1, 0.1])
    parts = "pnnx.custom_op.torchvision.nms"
    for share, wanted in ((0.5, [3, 0, 2, 4, 5]), (0.49, [3, 0, 4, 5]), (0.7, [3, 0, 1, 2, 4, 5])):
        got = Model(_choice(parts, share), num_threads=1)(boxes, scores)
        assert got.dtype == np.int64
        assert got.tolist() == wanted
    assert Model(_choice(parts, 0.5))(boxes[:0], scores[:0]).shape == (0,)
    with pytest.raises(ShapeError, match="every box has a score"):
        Model(_choice(parts, 0.5))(boxes, scores[:3])
    with pytest.raises(ShapeError, match="boxes are rows"):
        Model(_choice(parts, 0.5))(boxes[:, :3], scores)


def _choice(kind: str, share: float) -> Graph:
    return Graph.parse(
        f"7767517\n4 3\npnnx.Input a 0 1 boxes\npnnx.Input b 0 1 scores\n"
        f"{kind} n 2 1 boxes scores y arg_2={share} $arg_0=boxes $arg_1=scores\npnnx.Output out 1 0 y\n"
    )


@pytest.mark.parametrize("most, kept", [(0.6, [0]), (0.61, [0, 1])])
def test_shares_are_compared_with_numbers_of_more_digits(most: float, kept: list[int]) -> None:
    """Three fifths in float32 are more than 0.6."""
    boxes, scores = np.float32([[0, 0, 5, 1], [0, 0, 3, 1]]), np.float32([0.9, 0.8])
    assert run("pnnx.custom_op.torchvision.nms", boxes, scores, arg_2=most).tolist() == kept
