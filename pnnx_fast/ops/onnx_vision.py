"""Boxes and regions of images of ONNX that the converter leaves under their ONNX names."""

from __future__ import annotations

from typing import Any

import numpy as np

from pnnx_fast._types import Array
from pnnx_fast.errors import ParameterError, ShapeError
from pnnx_fast.ops._regions import pool_regions
from pnnx_fast.ops._window import per_axis
from pnnx_fast.ops.registry import Ints, operator
from pnnx_fast.ops.sampling import affine_grid
from pnnx_fast.ops.symbolic import Builder, Tensor, Value
from pnnx_fast.ops.vision import apart, roi_align


@operator("AffineGrid")
def grid_of_map(b: Builder, theta: Tensor, size: Ints, *, align_corners: bool = False) -> Tensor:
    """Places of the pixels of an image under affine maps. ONNX, torch.nn.functional.affine_grid."""
    return affine_grid(b, theta, size=size, align_corners=align_corners)


@operator("RoiAlign")
def aligned_regions(
    b: Builder,
    X: Tensor,
    rois: Tensor,
    batch_indices: Any,
    *,
    coordinate_transformation_mode: str = "half_pixel",
    mode: str = "avg",
    output_height: int = 1,
    output_width: int = 1,
    sampling_ratio: int = 0,
    spatial_scale: float = 1.0,
) -> Tensor:
    """Averages of bilinear samples in the cells of each box. ONNX, torchvision.ops.RoIAlign."""
    if mode != "avg" or coordinate_transformation_mode not in ("half_pixel", "output_half_pixel"):
        raise ParameterError("only means are taken, of places with or without half a pixel", parameter="mode")
    index = batch_indices if isinstance(batch_indices, Tensor) else b.constant(np.array(batch_indices).reshape(-1))
    if rois.ndim != 2 or rois.shape[1] != 4 or index.shape not in ((rois.shape[0],), ()):
        raise ShapeError("boxes are rows of four places, with an image each", operand="rois", actual=list(rois.shape))
    whole = b.empty((rois.shape[0], 5), rois.dtype)
    b.copy(b.cast(index, rois.dtype).expand((rois.shape[0],)), whole.select(1, 0))
    b.copy(rois, whole.narrow(1, 1, 4))
    half = coordinate_transformation_mode == "half_pixel"
    size = (output_height, output_width)
    return roi_align(
        b, X, whole, output_size=size, spatial_scale=spatial_scale, sampling_ratio=sampling_ratio, aligned=half
    )


@operator("MaxRoiPool")
def region_maxima(b: Builder, X: Tensor, rois: Tensor, *, pooled_shape: Ints, spatial_scale: float = 1.0) -> Tensor:
    """Maxima in the cells of each box, whose ends are rounded to pixels. ONNX, torchvision.ops.RoIPool."""
    height, width = per_axis(pooled_shape, 2, "pooled_shape")
    if X.ndim != 4 or rois.ndim != 2 or rois.shape[1] != 5 or min(height, width) < 1:
        raise ShapeError("boxes are rows of an image and four places", operand="rois", actual=list(rois.shape))
    x, boxes = b.cast(X, np.float32), b.cast(rois, np.float32)
    size = (height, width)
    y = pool_regions(b, x, boxes, "maximum", size, spatial_scale, channels=X.shape[1], indexed=True)
    return b.cast(y, X.dtype)


@operator("NonMaxSuppression", native=False)
def best_boxes(
    b: Builder,
    boxes: Tensor,
    scores: Tensor,
    max_output_boxes_per_class: int = 0,
    iou_threshold: float = 0.0,
    score_threshold: float | None = None,
    *,
    center_point_box: bool = False,
) -> Value:
    """Image, class and place of boxes that overlap no better one by more than a share. ONNX, torchvision.ops.nms."""
    if boxes.ndim != 3 or boxes.shape[2] != 4 or scores.ndim != 3:
        raise ShapeError("boxes are (image, box, 4), scores (image, class, box)", operand="boxes", actual=boxes.shape)
    if (scores.shape[0], scores.shape[2]) != boxes.shape[:2]:
        raise ShapeError("every box has scores", operand="scores", expected=boxes.shape[:2], actual=scores.shape)

    def run(places: Array, marks: Array) -> Array:
        first, second = places[..., :2], places[..., 2:]
        if center_point_box:
            first, second = first - second / 2, first + second / 2
        corners = np.concatenate([np.minimum(first, second), np.maximum(first, second)], -1)
        rows = [np.zeros((0, 3), np.int64)]
        for image, kind in np.ndindex(*marks.shape[:2] if marks.size else (0, 0)):
            mark = marks[image, kind]
            given = np.arange(len(mark)) if score_threshold is None else np.nonzero(mark > score_threshold)[0]
            kept = given[apart(corners[image, given], mark[given], iou_threshold, max_output_boxes_per_class)]
            rows.append(np.stack([np.full(len(kept), image), np.full(len(kept), kind), kept], 1))
        return np.concatenate(rows)

    return b.dynamic(run, [boxes, scores])
