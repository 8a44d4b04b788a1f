"""Pooling over one region of an image as ncnn's layers do it. Used by nets of ``pnnx_fast.ncnn`` only."""

from __future__ import annotations

import numpy as np

from pnnx_fast.errors import ParameterError, ShapeError
from pnnx_fast.ops._regions import pool_regions
from pnnx_fast.ops.registry import operator
from pnnx_fast.ops.shape import concatenate
from pnnx_fast.ops.symbolic import Builder, Tensor


def _region(b: Builder, input: Tensor, roi: Tensor, width: int, height: int) -> Tensor:
    """For each image its number, and the first four numbers of its region."""
    n = input.shape[0] if input.ndim == 4 else 0
    if not n or not roi.ndim or roi.shape[0] != n or roi.size < 4 * n:
        raise ShapeError("a region of each image", expected="(n, c, h, w) and 4 numbers of each", actual=input.shape)
    if width < 1 or height < 1:
        raise ParameterError(f"pooled size {width} x {height} must be positive", parameter="pooled_width")
    numbers = b.constant(np.arange(n, dtype=np.float32)[:, None])
    return concatenate(b, [numbers, b.reshape(b.cast(roi, np.float32), (n, roi.size // n)).narrow(1, 0, 4)], 1)


@operator("ncnn.ROIPooling")
def roi_pooling(
    b: Builder, input: Tensor, roi: Tensor, *, pooled_width: int, pooled_height: int, spatial_scale: float
) -> Tensor:
    """Maximum over the bins of a region."""
    region = _region(b, input, roi, pooled_width, pooled_height)
    bins = pooled_height, pooled_width
    return pool_regions(b, input, region, "maximum", bins, spatial_scale, channels=input.shape[1], indexed=True)


@operator("ncnn.PSROIPooling")
def psroi_pooling(
    b: Builder,
    input: Tensor,
    roi: Tensor,
    *,
    pooled_width: int,
    pooled_height: int,
    spatial_scale: float,
    output_dim: int,
) -> Tensor:
    """Mean over the bins of a region, each bin from channels of its own."""
    region = _region(b, input, roi, pooled_width, pooled_height)
    channels = output_dim * pooled_width * pooled_height
    if input.shape[1] != channels:
        raise ShapeError("channels", expected=channels, actual=input.shape[1])
    bins = pooled_height, pooled_width
    return pool_regions(b, input, region, "places", bins, spatial_scale, channels=output_dim, indexed=True)


@operator("ncnn.ROIAlign")
def roi_align(
    b: Builder,
    input: Tensor,
    roi: Tensor,
    *,
    pooled_width: int,
    pooled_height: int,
    spatial_scale: float,
    sampling_ratio: int,
    aligned: bool,
    version: int,
) -> Tensor:
    """Mean over positions between pixels in the bins of a region; version 0 is ncnn's own, 1 is Detectron's."""
    region = _region(b, input, roi, pooled_width, pooled_height)
    return pool_regions(
        b,
        input,
        region,
        "cut bins" if version == 0 else "equal bins",
        (pooled_height, pooled_width),
        spatial_scale,
        channels=input.shape[1],
        ratio=sampling_ratio,
        aligned=aligned,
        indexed=True,
    )
