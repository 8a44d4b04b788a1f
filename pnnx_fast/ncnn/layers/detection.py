"""Layers of detectors: prior boxes, decoding of boxes, proposals and pooling over regions."""

from __future__ import annotations

from typing import Any

import numpy as np

from pnnx_fast._memory import check_numbers
from pnnx_fast._types import Array
from pnnx_fast.errors import ParameterError
from pnnx_fast.ir import Attribute, Operand
from pnnx_fast.ncnn.layers.registry import Build, layer
from pnnx_fast.ncnn.layers.shape import sizes_of
from pnnx_fast.ncnn.tracer import Tracer
from pnnx_fast.ncnn.values import Params, Weights

AUTO = -233


class _PriorBox:
    """Boxes round the cells of a feature map; they depend on sizes alone, so they are constants."""

    def __init__(self, p: Params) -> None:
        self.small, self.large, self.ratios = p.floats(0), p.floats(1), p.floats(2)
        self.variances = [p.float(id, default) for id, default in ((3, 0.1), (4, 0.1), (5, 0.2), (6, 0.2))]
        self.flip, self.clip = p.flag(7, 1), p.flag(8)
        self.image = p.int(9), p.int(10)
        self.step = p.float(11, AUTO), p.float(12, AUTO)
        self.offset, self.rounded, self.inner = p.float(13), p.flag(14), p.flag(15)
        if not self.small or (self.large and len(self.large) < len(self.small)):
            raise ParameterError("sizes of prior boxes are missing")
        self._made: dict[tuple[int, ...], Attribute] = {}

    def __call__(self, t: Tracer, x: Operand, image: Operand | None = None) -> Operand:
        size = sizes_of(x)
        relative = image is None and self.image == (AUTO, AUTO) and not self.large
        other = sizes_of(image) if image is not None else size
        width, height = (other[n] if v == AUTO else v for n, v in zip("wh", self.image, strict=True))
        key = (size["w"], size["h"], width, height)
        if key not in self._made:
            made = self._relative(*key[:2]) if relative else self._absolute(*key)
            self._made[key] = Attribute.owning(made[None])
        return t.constant(self._made[key])

    def _relative(self, w: int, h: int) -> Array:
        """Boxes in units of the image, in one row."""
        step_w = 1.0 / w if self.step[0] == AUTO else self.step[0]
        step_h = 1.0 / h if self.step[1] == AUTO else self.step[1]
        halves = [(s * h / w / 2, s / 2) for s in self.small]
        roots = [np.sqrt(np.float32(r)) for r in self.ratios[1:]]
        halves += [(self.small[0] * h / w * r / 2, self.small[0] / r / 2) for r in roots]
        boxes = self._around(w, h, (step_w, step_h), (self.offset * step_w, self.offset * step_h), np.array(halves))
        return self._clipped(boxes.reshape(-1))

    def _absolute(self, w: int, h: int, width: int, height: int) -> Array:
        """Boxes divided by the size of the image, and their variances, in two rows."""
        step_w = self._cell(width, w) if self.step[0] == AUTO else self.step[0]
        step_h = self._cell(height, h) if self.step[1] == AUTO else self.step[1]
        inner = 1.0 if self.inner else 0.0
        start = self.offset * (step_w - inner), self.offset * (step_h - inner)
        halves = np.array([size for k, s in enumerate(self.small) for size in self._sizes(k, s)]) * 0.5
        boxes = self._around(w, h, (step_w, step_h), start, halves) / np.array([width, height, width, height])
        flat = self._clipped(boxes.reshape(-1))
        return np.stack([flat, np.tile(np.array(self.variances, np.float32), flat.size // 4)])

    def _cell(self, image: int, cells: int) -> float:
        size = image / cells
        return float(np.ceil(size)) if self.rounded else size

    def _sizes(self, k: int, small: float) -> list[tuple[float, float]]:
        """Widths and heights of the boxes of one size."""
        sizes = [(small, small)]
        if self.large:
            middle = float(np.sqrt(np.float32(small * self.large[k])))
            sizes.append((middle, middle))
        for ratio in self.ratios:
            root = float(np.sqrt(np.float32(ratio)))
            sizes.append((small * root, small / root))
            if self.flip:
                sizes.append((small / root, small * root))
        return sizes

    @staticmethod
    def _around(w: int, h: int, step: tuple[float, float], start: tuple[float, float], halves: Array) -> Array:
        """Boxes (h, w, boxes, 4) with given half sizes around the centres of a grid."""
        check_numbers(4 * w * h * len(halves))
        x, y = np.meshgrid(start[0] + np.arange(w) * step[0], start[1] + np.arange(h) * step[1])
        centre = np.stack([x, y], -1)[:, :, None]
        return np.concatenate([centre - halves, centre + halves], -1)

    def _clipped(self, boxes: Array) -> Array:
        return (np.clip(boxes, 0.0, 1.0) if self.clip else boxes).astype(np.float32)


@layer("PriorBox", one_blob_only=False)
def prior_box(p: Params, w: Weights) -> Build:
    """Boxes round the cells of a feature map."""
    return _PriorBox(p)


@layer("DetectionOutput", one_blob_only=False, dynamic=True)
def detection_output(p: Params, w: Weights) -> Build:
    """Boxes of a single-shot detector."""
    params: dict[str, Any] = {
        "num_class": p.int(0),
        "nms_threshold": p.float(1, 0.05),
        "nms_top_k": p.int(2, 300),
        "keep_top_k": p.int(3, 100),
        "confidence_threshold": p.float(4, 0.5),
        "variances": [p.float(id, default) for id, default in ((5, 0.1), (6, 0.1), (7, 0.2), (8, 0.2))],
    }
    p.blobs = 3

    def build(t: Tracer, location: Operand, confidence: Operand, priors: Operand) -> Operand:
        return t.emit("ncnn.DetectionOutput", location, confidence, priors, **params)

    return build


def _yolo_parameters(p: Params) -> dict[str, Any]:
    return {
        "num_class": p.count(0, 20),
        "num_box": p.count(1, 5),
        "confidence_threshold": p.float(2, 0.01),
        "nms_threshold": p.float(3, 0.45),
        "biases": list(p.floats(4)),
    }


@layer("YoloDetectionOutput", one_blob_only=False, inplace=True, dynamic=True)
def yolo_detection_output(p: Params, w: Weights) -> Build:
    """Boxes of a YOLOv2 detector."""
    params = _yolo_parameters(p)
    if len(params["biases"]) < 2 * params["num_box"]:
        raise ParameterError("sizes of anchors are missing")
    return lambda t, *inputs: t.emit("ncnn.YoloDetectionOutput", *inputs, **params)


@layer("Yolov3DetectionOutput", one_blob_only=False, dynamic=True)
def yolov3_detection_output(p: Params, w: Weights) -> Build:
    """Boxes of a YOLOv3 detector of several scales."""
    params = {
        **_yolo_parameters(p),
        "mask": [int(v) for v in p.floats(5)],
        "anchors_scale": list(p.floats(6)),
    }
    return lambda t, *inputs: t.emit("ncnn.Yolov3DetectionOutput", *inputs, **params)


@layer("Proposal", one_blob_only=False, dynamic=True)
def proposal(p: Params, w: Weights) -> Build:
    """Regions that a proposal network suggests."""
    params: dict[str, Any] = {
        "feat_stride": p.int(0, 16),
        "base_size": p.int(1, 16),
        "pre_nms_top_n": p.int(2, 6000),
        "after_nms_top_n": p.int(3, 300),
        "nms_thresh": p.float(4, 0.7),
        "min_size": p.int(5, 16),
    }
    p.blobs = 3

    def build(t: Tracer, score: Operand, boxes: Operand, info: Operand) -> list[Operand]:
        return t.emit_many("ncnn.Proposal", 2, score, boxes, info, **params)

    return build


@layer("ROIPooling", one_blob_only=False)
def roi_pooling(p: Params, w: Weights) -> Build:
    """Maximum over the bins of a region."""
    params: dict[str, Any] = {"pooled_width": p.count(0), "pooled_height": p.count(1), "spatial_scale": p.float(2, 1.0)}
    p.blobs = 2
    return lambda t, x, roi: t.emit("ncnn.ROIPooling", *t.together(x, roi), **params)


@layer("ROIAlign", one_blob_only=False)
def roi_align(p: Params, w: Weights) -> Build:
    """Mean over positions between pixels in the bins of a region."""
    params: dict[str, Any] = {
        "pooled_width": p.count(0),
        "pooled_height": p.count(1),
        "spatial_scale": p.float(2, 1.0),
        "sampling_ratio": p.int(3),
        "aligned": p.flag(4),
        "version": p.choice(5, 0, 2),
    }
    p.blobs = 2
    return lambda t, x, roi: t.emit("ncnn.ROIAlign", *t.together(x, roi), **params)


@layer("PSROIPooling", one_blob_only=False)
def psroi_pooling(p: Params, w: Weights) -> Build:
    """Mean over the bins of a region, each bin from channels of its own."""
    params: dict[str, Any] = {
        "pooled_width": p.count(0, 7),
        "pooled_height": p.count(1, 7),
        "spatial_scale": p.float(2, 0.0625),
        "output_dim": p.count(3),
    }
    p.blobs = 2
    return lambda t, x, roi: t.emit("ncnn.PSROIPooling", *t.together(x, roi), **params)
