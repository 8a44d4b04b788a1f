"""Operators of torchvision: deformable convolution and region-of-interest pooling, as numpy steps."""

from __future__ import annotations

import itertools

import numpy as np

from pnnx_fast._types import Array
from pnnx_fast.errors import IndexRangeError, ShapeError
from pnnx_fast.ops._window import spatial, window_counts
from pnnx_fast.ops.convolution import as_float32
from pnnx_fast.ops.registry import Ints, operator
from pnnx_fast.ops.symbolic import Builder, Tensor


def sample_bilinear(image: Array, y: Array, x: Array) -> Array:
    """Values of ``image`` (c, h, w) at fractional positions (any shape s); outside it is zero. Returns (c, *s)."""
    _, h, w = image.shape
    top, left = np.floor(y).astype(np.int64), np.floor(x).astype(np.int64)
    out = np.zeros((image.shape[0], *y.shape), np.float32)
    for i, j in itertools.product((0, 1), (0, 1)):
        row, column = top + i, left + j
        weight = (1 - np.abs(y - row)) * (1 - np.abs(x - column))
        inside = (row >= 0) & (row < h) & (column >= 0) & (column < w)
        values = image[:, np.clip(row, 0, h - 1), np.clip(column, 0, w - 1)]
        out += values * np.where(inside, weight, 0).astype(np.float32)
    return out


@operator("torchvision.ops.DeformConv2d", native=False)
def deform_conv2d(
    b: Builder,
    input: Tensor,
    offset: Tensor,
    mask: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    *,
    stride: Ints = 1,
    padding: Ints = 0,
    dilation: Ints = 1,
    groups: int = 1,
    in_channels: int | None = None,
    out_channels: int | None = None,
    kernel_size: Ints | None = None,
) -> Tensor:
    """Convolution whose taps are moved by learned offsets. torchvision.ops.DeformConv2d."""
    if weight is None:
        raise ShapeError("the weight is missing", operand="weight")
    n, c, h, w = input.shape
    oc, _, kh, kw = weight.shape
    s, p, d = (spatial(v, 2, k) for v, k in ((stride, "stride"), (padding, "padding"), (dilation, "dilation")))
    oh, ow = window_counts((h, w), (kh, kw), s, d, p, p)
    if offset.ndim != 4 or offset.shape[1] % (2 * kh * kw) or offset.shape[2:] != (oh, ow):
        raise ShapeError("offsets do not fit", operand="offset", expected=(n, 2 * kh * kw, oh, ow), actual=offset.shape)
    parts = offset.shape[1] // (2 * kh * kw)
    base_y = np.arange(oh)[:, None] * s[0] - p[0]
    base_x = np.arange(ow)[None, :] * s[1] - p[1]
    given = [t for t in as_float32(b, input, offset, weight, mask, bias) if t is not None]

    def compute(x: Array, moves: Array, weights: Array, *rest: Array) -> Array:
        extra = list(rest)
        scale = extra.pop(0) if mask is not None else None
        shift = extra.pop(0) if bias is not None else np.zeros(oc, np.float32)
        moves = moves.reshape(n, parts, kh * kw, 2, oh, ow)
        columns = np.empty((n, c, kh * kw, oh, ow), np.float32)
        for item, part, tap in itertools.product(range(n), range(parts), range(kh * kw)):
            y = base_y + tap // kw * d[0] + moves[item, part, tap, 0]
            z = base_x + tap % kw * d[1] + moves[item, part, tap, 1]
            channels = slice(part * c // parts, (part + 1) * c // parts)
            values = sample_bilinear(x[item, channels], y, z)
            if scale is not None:
                values = values * scale.reshape(n, parts, kh * kw, oh, ow)[item, part, tap]
            columns[item, channels, tap] = values
        grouped = columns.reshape(n, groups, c // groups * kh * kw, oh * ow)
        rows = weights.reshape(groups, oc // groups, -1)
        return (rows @ grouped).reshape(n, oc, oh, ow) + shift[:, None, None]

    return b.cast(b.host(compute, given, [((n, oc, oh, ow), np.float32)])[0], input.dtype)


@operator("torchvision.ops.RoIAlign", "torchvision.ops.roi_align", native=False)
def roi_align(
    b: Builder,
    input: Tensor,
    rois: Tensor,
    *,
    output_size: Ints,
    spatial_scale: float = 1.0,
    sampling_ratio: int = -1,
    aligned: bool = False,
) -> Tensor:
    """Averages of bilinear samples in the cells of each box. torchvision.ops.RoIAlign."""
    ph, pw = spatial(output_size, 2, "output_size")
    if rois.ndim != 2 or rois.shape[1] != 5:
        raise ShapeError("boxes are rows of (image, x1, y1, x2, y2)", operand="rois", actual=rois.shape)
    shape = (rois.shape[0], input.shape[1], ph, pw)

    def pool(x: Array, boxes: Array) -> Array:
        out = np.zeros(shape, np.float32)
        for i, box in enumerate(boxes):
            if not 0 <= box[0] < len(x):
                raise IndexRangeError(int(box[0]), len(x))
            x1, y1, x2, y2 = box[1:] * spatial_scale - (0.5 if aligned else 0.0)
            width, height = (x2 - x1, y2 - y1) if aligned else (max(x2 - x1, 1.0), max(y2 - y1, 1.0))
            rows = sampling_ratio if sampling_ratio > 0 else int(np.ceil(height / ph))
            columns = sampling_ratio if sampling_ratio > 0 else int(np.ceil(width / pw))
            if rows < 1 or columns < 1:
                continue
            y = y1 + (np.arange(ph * rows) + 0.5) * (height / ph / rows)
            z = x1 + (np.arange(pw * columns) + 0.5) * (width / pw / columns)
            samples = _sample_clamped(x[int(box[0])], y[:, None], z[None, :])
            out[i] = samples.reshape(-1, ph, rows, pw, columns).mean((2, 4))
        return out

    x, boxes = as_float32(b, input, rois)
    assert x is not None
    assert boxes is not None
    return b.cast(b.host(pool, [x, boxes], [(shape, np.float32)])[0], input.dtype)


def _sample_clamped(image: Array, y: Array, x: Array) -> Array:
    """Bilinear samples that repeat the border up to one pixel outside and are zero beyond."""
    _, h, w = image.shape
    y, x = np.broadcast_arrays(y, x)
    inside = (y >= -1) & (y <= h) & (x >= -1) & (x <= w)
    values = sample_bilinear(image, np.clip(y, 0, h - 1), np.clip(x, 0, w - 1))
    return np.where(inside, values, np.float32(0))
