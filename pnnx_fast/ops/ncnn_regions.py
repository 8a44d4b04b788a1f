"""Pooling over one region of an image as ncnn's layers do it. Used by nets of ``pnnx_fast.ncnn`` only."""

from __future__ import annotations

import numpy as np

from pnnx_fast.errors import ParameterError, ShapeError
from pnnx_fast.ops._regions import pool_regions
from pnnx_fast.ops.registry import operator
from pnnx_fast.ops.symbolic import Builder, Tensor


def _region(b: Builder, input: Tensor, roi: Tensor, width: int, height: int) -> Tensor:
    """The first four numbers of ``roi`` as the row of a region."""
    if input.ndim != 4 or input.shape[0] != 1 or roi.size < 4:
        raise ShapeError("one image and one region", expected="(1, c, h, w) and 4 numbers", actual=input.shape)
    if width < 1 or height < 1:
        raise ParameterError(f"pooled size {width} x {height} must be positive", parameter="pooled_width")
    return b.reshape(b.cast(roi, np.float32), (1, roi.size)).narrow(1, 0, 4)


@operator("ncnn.ROIPooling")
def roi_pooling(
    b: Builder, input: Tensor, roi: Tensor, *, pooled_width: int, pooled_height: int, spatial_scale: float
) -> Tensor:
    """Maximum over the bins of a region."""
    region = _region(b, input, roi, pooled_width, pooled_height)
    bins = pooled_height, pooled_width
    return pool_regions(b, input, region, "maximum", bins, spatial_scale, channels=input.shape[1])


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
    return pool_regions(b, input, region, "places", bins, spatial_scale, channels=output_dim)


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
    )
