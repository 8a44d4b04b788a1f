"""Operators of torchvision: deformable convolution, region-of-interest pooling and the choice of boxes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from pnnx_fast._types import Array
from pnnx_fast.errors import ParameterError, ShapeError
from pnnx_fast.ops._checks import require_dims
from pnnx_fast.ops._regions import check_ratio, pool_regions
from pnnx_fast.ops._window import paddings, per_axis, window_counts
from pnnx_fast.ops.convolution import as_computed, as_float32, check_weights, convolution, epilogue_fields
from pnnx_fast.ops.elementwise import lower_expression
from pnnx_fast.ops.index import OUTSIDE
from pnnx_fast.ops.pooling import adaptive_window, pool
from pnnx_fast.ops.registry import Floats, Ints, operator
from pnnx_fast.ops.sampling import sample
from pnnx_fast.ops.symbolic import Builder, Tensor


@operator("torchvision.ops.DeformConv2d", "fused.DeformConv2d")
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
    activation: str = "none",
    activation_params: Floats = (),
) -> Tensor:
    """Convolution whose taps are moved by learned offsets. torchvision.ops.DeformConv2d."""
    if weight is None:
        raise ShapeError("the weight is missing", operand="weight")
    kernel = weight.shape[2:]
    check_weights(input, weight, groups, 2)
    s, d = per_axis(stride, 2, "stride"), per_axis(dilation, 2, "dilation")
    before, after = paddings(padding, kernel, d, s)
    n, _, *sizes = input.shape
    out, taps = window_counts(sizes, kernel, s, d, before, after), math.prod(kernel)
    parts = offset.shape[1] // (2 * taps) if offset.ndim == 4 else 0
    for name, given, numbers in (("offset", offset, 2), ("mask", mask, 1)):
        wanted = (n, max(parts, 1) * taps * numbers, *out)
        if given is not None and (given.shape != wanted or input.shape[1] % parts):
            raise ShapeError(f"{name}s do not fit", operand=name, expected=wanted, actual=given.shape)
    x, moves, scale, w, bias = as_computed(b, input, offset, mask, weight, bias)
    assert x is not None
    assert moves is not None
    assert w is not None
    places = _moved_places(b, b.reshape(moves, (n, parts, taps, 2, *out)), kernel, s, d, before)
    values = _values_at(b, b.channels_last(x), places, scale)
    # The values of each tap lie below those of the last one, so that a tall window with holes reads one of each.
    columns = b.reshape(values, (n, input.shape[1], taps * out[0], out[1]))
    filters = b.reshape(w, (*w.shape[:2], taps, 1))
    act = epilogue_fields(activation, activation_params)
    y = convolution(b, 2, columns, filters, bias, None, 1, 0, (out[0], 1), groups, "zeros", act)
    return b.cast(y, input.dtype)


def _moved_places(
    b: Builder, moves: Tensor, kernel: Sequence[int], stride: Sequence[int], dilation: Sequence[int],
    before: Sequence[int],
) -> Tensor:  # fmt: skip
    """Row and column, in pixels, that each tap reads at each output position: ``moves`` (…, taps, 2, oh, ow) added."""
    lines = []
    for axis, count in enumerate(moves.shape[-2:]):
        tap = np.indices(kernel)[axis].reshape(-1, 1) * dilation[axis]
        start = tap + np.arange(count) * stride[axis] - before[axis]
        line = np.zeros((len(tap), 2, count), moves.dtype)
        line[:, axis] = start
        lines.append(b.constant(np.expand_dims(line, 3 - axis)))
    places = lower_expression(b, "add(@0,add(@1,@2))", [moves, *lines], temporary=True)
    assert isinstance(places, Tensor)
    return places


def _values_at(b: Builder, x: Tensor, places: Tensor, scale: Tensor | None) -> Tensor:
    """Values (n, c, taps, oh, ow) at ``places`` (n, parts, taps, 2, oh, ow), each part for a share of the channels."""
    n, parts, taps, _, *out = places.shape
    y = b.empty((n, x.shape[1], taps, *out), x.dtype, "channels_last")
    # Sampling asks for columns before rows.
    grid = places.permute((0, 1, 2, 4, 5, 3)).narrow(5, 1, 1)
    grid = grid.as_strided((*grid.shape[:-1], 2), (*grid.strides[:-1], -grid.strides[-1]))
    factors = None if scale is None else b.reshape(scale, (n, parts, taps, *out))
    each = x.shape[1] // parts
    for part in range(parts):
        source, target = (t.narrow(1, part * each, each) for t in (x, y))
        factor = None if factors is None else factors.select(1, part)
        sample(b, source, grid.select(1, part), target, "bilinear", "zeros", "pixels", factor)
    return y


@operator("torchvision.ops.RoIAlign", "torchvision.ops.roi_align")
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
    ph, pw = per_axis(output_size, 2, "output_size")
    require_dims(input, 4, 4)
    if min(ph, pw) < 1:
        raise ParameterError(f"{ph} x {pw} cells of a box", parameter="output_size")
    if rois.ndim != 2 or rois.shape[1] != 5:
        raise ShapeError("boxes are rows of (image, x1, y1, x2, y2)", operand="rois", actual=rois.shape)
    if input.dtype == np.float64:
        from pnnx_fast.ops._double_sampling import mean_regions

        check_ratio(sampling_ratio)

        def run(x: Array, boxes: Array) -> Array:
            return mean_regions(x, boxes, (ph, pw), spatial_scale, sampling_ratio, aligned)

        shape = (rois.shape[0], input.shape[1], ph, pw)
        return b.host(run, [input, b.cast(rois, np.float64)], [(shape, input.dtype)])[0]
    if sampling_ratio > 0 and input.shape[0] == 1 and rois.shape[0]:
        x, boxes = as_float32(b, input, rois)
        assert x is not None
        assert boxes is not None
        lines = (ph * sampling_ratio, pw * sampling_ratio)
        values = _values_in_boxes(b, x, boxes, lines, spatial_scale, aligned)
        averages = pool(b, "avg", values, adaptive_window(lines, (ph, pw)))
        assert isinstance(averages, Tensor)
        return b.cast(averages, input.dtype)

    x, boxes = as_float32(b, input, rois)
    assert x is not None
    assert boxes is not None
    bins, channels = (ph, pw), input.shape[1]
    y = pool_regions(
        b, x, boxes, "equal bins", bins, spatial_scale,
        channels=channels, ratio=sampling_ratio, aligned=aligned, indexed=True,
    )  # fmt: skip
    return b.cast(y, input.dtype)


def _values_in_boxes(b: Builder, x: Tensor, boxes: Tensor, lines: Sequence[int], scale: float, aligned: bool) -> Tensor:
    """Values of one image at as many rows and columns in each box, at equal distances: (boxes, c, rows, columns)."""
    n, (h, w), half = boxes.shape[0], x.shape[2:], 0.5 if aligned else 0.0
    parts = np.stack(np.meshgrid(*((np.arange(k) + 0.5) / k for k in lines), indexing="ij")[::-1])
    low, high = (b.reshape(boxes.narrow(1, k, 2), (n, 2, 1, 1)) for k in (1, 3))
    extent = f"mul(sub(@1,@0),{scale!r})"
    extent = extent if aligned else f"maximum({extent},1.0)"
    start = f"sub(mul(@0,{scale!r}),{half!r})"
    share = b.constant(parts[None].astype(np.float32))
    places = lower_expression(b, f"add({start},mul({extent},@2))", [low, high, share], temporary=True)
    assert isinstance(places, Tensor)
    # The border repeats up to one pixel outside, beyond which there is nothing.
    test = "and(and(ge(@0,-1.0),le(@0,@2)),and(ge(@1,-1.0),le(@1,@3)))"
    inside = lower_expression(
        b, f"where({test},@4,0.0)", [places.select(1, 0), places.select(1, 1), w, h, _known_images(b, x, boxes)],
        temporary=True,
    )  # fmt: skip
    assert isinstance(inside, Tensor)
    image = b.channels_last(x).expand((n, *x.shape[1:]))
    y = b.empty((n, x.shape[1], *lines), np.float32, "channels_last")
    sample(b, image, places.permute((0, 2, 3, 1)), y, "bilinear", "border", "pixels", inside)
    return y


def _known_images(b: Builder, x: Tensor, boxes: Tensor) -> Tensor:
    """Ones (boxes, 1, 1); a box in an image that ``x`` does not hold is a fault of the run."""
    n, index = boxes.shape[0], b.contiguous(b.cast(boxes.select(1, 0), np.int64))
    y = b.empty((n, 1, 1), np.float32)
    b.step(
        "gather_rows", x=b.constant(np.ones(x.shape[0], np.float32)), index=index, y=y, index_size=8, outer=1, count=n,
        size=x.shape[0], wrap=OUTSIDE["fault"], inner=4, xso=4 * x.shape[0], xsr=4, yso=4 * n, ysr=4,
    )  # fmt: skip
    return y


@operator("pnnx.custom_op.torchvision.nms", native=False)
def nms(b: Builder, arg_0: Tensor, arg_1: Tensor, *, arg_2: float) -> Any:
    """Boxes that overlap no better one by more than a share, best first. torchvision.ops.nms."""
    if arg_0.ndim != 2 or arg_0.shape[1] != 4:
        raise ShapeError("boxes are rows of (x1, y1, x2, y2)", operand="arg_0", actual=arg_0.shape)
    if arg_1.shape != arg_0.shape[:1]:
        raise ShapeError("every box has a score", operand="arg_1", expected=arg_0.shape[:1], actual=arg_1.shape)
    # A share in float32 is compared with a number in float64.
    return b.dynamic(lambda boxes, scores: apart(boxes, scores, np.float64(arg_2)), [arg_0, arg_1])


def apart(boxes: Array, scores: Array, most: float, count: int | None = None) -> Array:
    """Places of boxes that overlap no better one by more than a share, best first, perhaps at most so many."""
    left = np.argsort(-scores, kind="stable")
    areas = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    kept: list[Any] = []
    while left.size and (count is None or len(kept) < count):
        best, left = left[0], left[1:]
        kept.append(best)
        low, high = np.maximum(boxes[best, :2], boxes[left, :2]), np.minimum(boxes[best, 2:], boxes[left, 2:])
        shared = np.maximum(high - low, 0).prod(1)
        # Of boxes without an area the quotient is no number, and they stay.
        with np.errstate(divide="ignore", invalid="ignore"):
            left = left[~(shared / (areas[best] + areas[left] - shared) > most)]
    return np.array(kept, np.int64)
