"""Decoding of detectors as ncnn's layers do it: boxes of scores, sorted, without those that overlap better ones.

Boxes are decoded in numpy and chosen by a kernel; their number depends on data, so a program ends there. Used by nets
of ``pnnx_fast.ncnn`` only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np

from pnnx_fast._types import Array
from pnnx_fast.errors import ParameterError, ShapeError
from pnnx_fast.ops.axis import extremes
from pnnx_fast.ops.registry import Floats, Ints, operator
from pnnx_fast.ops.symbolic import Builder, Tensor, Value


def _pick(
    b: Builder, boxes: Tensor | None, scores: Tensor, limit: float, top: int, keep: int, vague: bool = True
) -> tuple[Tensor, Tensor]:
    """For each row of scores (classes, n): indexes and scores, best first, of boxes that overlap no better one.

    Of the ``top`` best at most ``keep`` are left. Scores -inf take no part; what is left over holds -1 and -inf. Equal
    scores are in the order that ncnn's exchanges leave, which decides which one of equal boxes is kept. Boxes that
    share 0 of an area of 0 overlap if ``vague``, as in the ncnn package, where they do so in all detectors but one.
    """
    classes, n = scores.shape
    if n >= 1 << 31:
        raise ShapeError("boxes of a detector", expected="less than 2^31", actual=n)
    top = max(0, min(n, top))
    keep = max(0, min(keep, top))
    index, best = b.empty((classes, keep), np.int64), b.empty((classes, keep), np.float32)
    fields: dict[str, Any] = {"n": n, "classes": classes, "top": top, "keep": keep, "limit": limit}
    fields["variant"] = int(vague)
    fields |= {"score_stride": scores.strides[1], "class_stride": scores.strides[0]}
    scratch = b.scratch(b.plan("pick_boxes_f32", **fields).scratch_bytes)
    work = classes * n * 64
    b.step("pick_boxes_f32", flops=work, boxes=boxes, scores=scores, index=index, best=best, scratch=scratch, **fields)
    return index, best


def _table(labels: Array, scores: Array, boxes: Array) -> Array:
    """Rows (label, score, x0, y0, x1, y1) of one image."""
    rows = np.concatenate([labels[:, None], scores[:, None], boxes], 1)
    return rows.astype(np.float32)[None]


def _one_image(*inputs: Tensor, rank: int = 0) -> None:
    for x in inputs:
        if x.shape[0] != 1:
            raise ShapeError("detections of several images at once", expected=1, actual=x.shape[0])
        if rank and x.ndim != rank + 1:
            raise ShapeError("dimensions of a detector's input", expected=rank, actual=x.ndim - 1)


def _exp(values: Array) -> Array:
    grown: Array = np.exp(values)
    return grown


def _sigmoid(values: Array) -> Array:
    result: Array = 1 / (1 + _exp(-values))
    return result


@operator("ncnn.DetectionOutput", native=False)
def detection_output(
    b: Builder,
    location: Tensor,
    confidence: Tensor,
    priorbox: Tensor,
    *,
    num_class: int,
    nms_threshold: float,
    nms_top_k: int,
    keep_top_k: int,
    confidence_threshold: float,
    variances: Floats,
) -> Value:
    """Boxes of a single-shot detector from offsets to prior boxes."""
    _one_image(location, confidence, priorbox)
    by_class = num_class == -233
    if not by_class and num_class < 1:
        raise ParameterError(f"num_class must be positive or -233, not {num_class}", parameter="num_class")

    # The first row of priors holds boxes, the second their variances; without classes given, the rows are the boxes.
    values = priorbox.size if by_class else priorbox.shape[-1]
    n = values // 4
    per_box = confidence.size // n if by_class and n else num_class
    if values % 4 or location.size < values or confidence.size % max(n if by_class else num_class, 1):
        actual = location.shape, confidence.shape, priorbox.shape
        raise ShapeError("boxes, priors and scores of a detector", actual=actual)
    if not by_class and (priorbox.ndim < 3 or priorbox.shape[1] < 2 or confidence.size < n * num_class):
        raise ShapeError("priors and scores of a detector", actual=(confidence.shape, priorbox.shape))

    def decode(loc: Array, conf: Array, prior: Array) -> tuple[Array, Array]:
        boxes = (prior if by_class else prior[0, 0]).reshape(-1, 4)
        spread = np.asarray(variances, np.float32) if by_class else prior[0, 1].reshape(-1, 4)
        offsets = loc.reshape(-1)[: boxes.size].reshape(-1, 4) * spread
        scores = conf.reshape(-1, n) if by_class else conf.reshape(-1, num_class)[:n].T
        chosen = (scores[1:] > confidence_threshold) & (scores[0] < 1.0 - confidence_threshold)
        return _moved(boxes, offsets), np.where(chosen, scores[1:], np.float32(-np.inf))

    shapes = [((n, 4), np.float32), ((max(per_box - 1, 0), n), np.float32)]
    boxes, scores = b.host(decode, [location, confidence, priorbox], shapes)
    index, best = _pick(b, boxes, scores, nms_threshold, nms_top_k, nms_top_k)
    order, _ = _pick(b, None, b.reshape(best, (1, best.size)), 0.0, best.size, keep_top_k)

    def rows(boxes: Array, index: Array, best: Array, order: Array) -> Array:
        order = order[order >= 0]
        return _table(order // max(index.shape[1], 1) + 1, best.reshape(-1)[order], boxes[index.reshape(-1)[order]])

    return b.dynamic(rows, [boxes, index, best, order])


def _moved(boxes: Array, offsets: Array) -> Array:
    """Boxes with centres moved and sizes scaled by offsets."""
    size = boxes[:, 2:] - boxes[:, :2]
    centre = (boxes[:, :2] + boxes[:, 2:]) * np.float32(0.5) + offsets[:, :2] * size
    half = _exp(offsets[:, 2:]) * size * np.float32(0.5)
    return np.concatenate([centre - half, centre + half], 1)


def _cells(x: Array, biases: Array, scale: tuple[float, float]) -> Array:
    """Boxes of a grid of anchors: ``x`` is (anchors, 4, h, w), the result (anchors, h, w, 4)."""
    _, _, h, w = x.shape
    cx = (np.arange(w) + _sigmoid(x[:, 0])) / w
    cy = (np.arange(h)[:, None] + _sigmoid(x[:, 1])) / h
    half_w = _exp(x[:, 2]) * biases[:, 0, None, None] / scale[0] * 0.5
    half_h = _exp(x[:, 3]) * biases[:, 1, None, None] / scale[1] * 0.5
    return np.stack([cx - half_w, cy - half_h, cx + half_w, cy + half_h], -1).astype(np.float32)


def _maps(b: Builder, x: Tensor, num_box: int, num_class: int) -> Tensor:
    """One image (1, c, h, w) as (anchors, 5 + classes, h, w)."""
    _, c, h, w = x.shape
    if c != num_box * (5 + num_class) or num_class < 1:
        raise ShapeError("channels of a detector", expected=num_box * (5 + num_class), actual=c)
    return b.reshape(x, (num_box, 5 + num_class, h, w))


_Found = tuple[Array, Array, Array]
"""Labels, scores and boxes of all cells; the score is -inf where there is no object."""


def _joined(found: Sequence[_Found], threshold: float) -> _Found:
    """All scales behind each other, those that are not sure enough with score -inf."""
    labels, scores, boxes = (
        np.concatenate([part[i].reshape(-1, *part[i].shape[3:]) for part in found]) for i in range(3)
    )
    return labels, np.where(scores >= threshold, scores, np.float32(-np.inf))[None], boxes


def _decoded(
    b: Builder, decode: Callable[..., _Found], arrays: Sequence[Tensor], cells: int, limit: float, vague: bool = True
) -> tuple[Tensor, ...]:
    """Emit the decoding of boxes and the choice among them: labels, boxes, and indexes and scores of the best."""
    shapes = [((cells,), np.int64), ((1, cells), np.float32), ((cells, 4), np.float32)]
    labels, scores, boxes = b.host(decode, arrays, shapes)
    return labels, boxes, *_pick(b, boxes, scores, limit, cells, cells, vague)


def _best_rows(labels: Array, boxes: Array, index: Array, best: Array) -> Array:
    """Rows of the boxes that were chosen; label 0 is the background."""
    index = index[index >= 0]
    return _table(labels[index] + 1.0, best[0, : len(index)], boxes[index])


@operator("ncnn.YoloDetectionOutput", native=False)
def yolo_detection_output(
    b: Builder,
    *inputs: Any,
    num_class: int,
    num_box: int,
    confidence_threshold: float,
    nms_threshold: float,
    biases: Floats,
) -> Value:
    """Boxes of a YOLOv2 detector."""
    _one_image(*inputs, rank=3)
    anchors = np.asarray(biases, np.float32).reshape(-1, 2)[:num_box]

    def decode(*arrays: Array) -> _Found:
        found = []
        for x in arrays:
            grown = _exp(x[:, 5:] - x[:, 5:].max(1, keepdims=True))
            classes = grown / grown.sum(1, keepdims=True)
            scores = _sigmoid(x[:, 4]) * classes.max(1)
            found.append((classes.argmax(1), scores, _cells(x[:, :4], anchors, (x.shape[3], x.shape[2]))))
        return _joined(found, confidence_threshold)

    def rows(labels: Array, boxes: Array, index: Array, best: Array, first: Array) -> Array:
        # ncnn works in place and leaves its first input alone when there is nothing to tell.
        return _best_rows(labels, boxes, index, best) if (index >= 0).any() else first.copy()

    maps = [_maps(b, x, num_box, num_class) for x in inputs]
    chosen = _decoded(b, decode, maps, sum(x.size // (5 + num_class) for x in inputs), nms_threshold)
    return b.dynamic(rows, [*chosen, inputs[0]])


@operator("ncnn.Yolov3DetectionOutput", native=False)
def yolov3_detection_output(
    b: Builder,
    *inputs: Any,
    num_class: int,
    num_box: int,
    confidence_threshold: float,
    nms_threshold: float,
    biases: Floats,
    mask: Ints,
    anchors_scale: Floats,
) -> Value:
    """Boxes of a YOLOv3 detector of several scales."""
    _one_image(*inputs, rank=3)
    anchors = np.asarray(biases, np.float32).reshape(-1, 2)
    chosen = np.asarray(mask, np.int64).reshape(-1)
    scales = np.asarray(anchors_scale, np.float32).reshape(-1)
    if len(chosen) < num_box * len(inputs) or len(scales) < len(inputs) or chosen.max(initial=0) >= len(anchors):
        raise ParameterError("mask, biases and anchors_scale do not fit the number of inputs", parameter="mask")

    def decode(*arrays: Array) -> _Found:
        found = []
        for i, (x, best, labels) in enumerate(zip(arrays[::3], arrays[1::3], arrays[2::3], strict=True)):
            net = int(scales[i] * x.shape[3]), int(scales[i] * x.shape[2])
            # ncnn forms the product of both sigmoids in this way.
            scores = 1 / (1 + _exp(-x[:, 4]) * (1 + _exp(-best)))
            found.append((labels, scores, _cells(x, anchors[chosen[i * num_box : (i + 1) * num_box]], net)))
        return _joined(found, confidence_threshold)

    arrays = list[Tensor]()
    for x in inputs:
        maps = _maps(b, x, num_box, num_class)
        best, labels = extremes(b, "argmax_f32", maps.narrow(1, 5, num_class), 1, True)
        arrays += [maps.narrow(1, 0, 5), cast(Tensor, best), labels]
    cells = sum(x.size // (5 + num_class) for x in inputs)
    return b.dynamic(_best_rows, _decoded(b, decode, arrays, cells, nms_threshold, False))


def _anchors(base: int, ratios: Sequence[float], scales: Sequence[float]) -> Array:
    """Boxes round the centre of a cell, by ratio and scale."""
    rows = []
    for ratio in ratios:
        width = round(base / ratio**0.5)
        height = round(width * ratio)
        rows += [(base - width * s, base - height * s, base + width * s, base + height * s) for s in scales]
    return np.array(rows, np.float32) * np.float32(0.5)


@operator("ncnn.Proposal", native=False)
def proposal(
    b: Builder,
    score: Tensor,
    bbox: Tensor,
    im_info: Tensor,
    *,
    feat_stride: int,
    base_size: int,
    pre_nms_top_n: int,
    after_nms_top_n: int,
    nms_thresh: float,
    min_size: int,
) -> Value:
    """Regions that a proposal network suggests, and their scores."""
    _one_image(score, bbox, rank=3)
    anchors = _anchors(base_size, (0.5, 1.0, 2.0), (8.0, 16.0, 32.0))
    count, (h, w) = len(anchors), score.shape[2:]
    if im_info.size < 3 or score.shape[1] != 2 * count or bbox.shape[1] != 4 * count:
        raise ShapeError("channels of scores and boxes", expected=(2 * count, 4 * count), actual=bbox.shape[1])

    def decode(scores: Array, deltas: Array, info: Array) -> tuple[Array, Array]:
        shifts = np.stack(np.meshgrid(np.arange(w), np.arange(h)), -1).astype(np.float32) * feat_stride
        boxes = anchors[:, None, None] + np.concatenate([shifts, shifts], -1)
        moved = _moved(boxes.reshape(-1, 4), deltas.reshape(count, 4, h * w).transpose(0, 2, 1).reshape(-1, 4))
        height, width, scale = info.reshape(-1)[:3]
        moved = np.clip(moved, 0, np.array([width - 1, height - 1] * 2, np.float32))
        large = ((moved[:, 2:] - moved[:, :2] + 1) >= min_size * scale).all(1)
        return moved, np.where(large, scores[0, count:].reshape(-1), np.float32(-np.inf))[None]

    cells = count * h * w
    boxes, ranks = b.host(decode, [score, bbox, im_info], [((cells, 4), np.float32), ((1, cells), np.float32)])
    index, best = _pick(b, boxes, ranks, nms_thresh, pre_nms_top_n if pre_nms_top_n > 0 else cells, after_nms_top_n)

    def rows(boxes: Array, index: Array, best: Array) -> tuple[Array, Array]:
        index = index[index >= 0]
        return boxes[index][None, :, None], best[0, : len(index)][None, :, None, None]

    return b.dynamic(rows, [boxes, index, best])
