"""Decoding of detectors as ncnn's layers do it: boxes of scores, sorted, without those that overlap better ones.

The number of boxes depends on data, so these are numpy steps. Used by nets of ``pnnx_fast.ncnn`` only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pnnx_fast._types import Array
from pnnx_fast.errors import ParameterError, ShapeError
from pnnx_fast.ops.registry import Floats, Ints, operator
from pnnx_fast.ops.symbolic import Builder, Tensor, Value


def best_first(scores: Array) -> Array:
    """Indexes from the highest score to the lowest, equal ones in the order that ncnn's exchanges leave."""
    order = np.argsort(-scores, kind="stable")
    in_order = scores[order]
    if not (in_order[1:] == in_order[:-1]).any():
        return order
    # The ranks of the scores, which are exchanged by halves as ncnn does: which one of equal boxes comes first decides
    # which ones are kept.
    ranks, indexes = scores.tolist(), list(range(len(scores)))
    ranges = [(0, len(ranks) - 1)]
    while ranges:
        low, high = ranges.pop()
        i, j, middle = low, high, ranks[(low + high) // 2]
        while i <= j:
            while ranks[i] > middle:
                i += 1
            while ranks[j] < middle:
                j -= 1
            if i <= j:
                ranks[i], ranks[j] = ranks[j], ranks[i]
                indexes[i], indexes[j] = indexes[j], indexes[i]
                i, j = i + 1, j - 1
        ranges += [r for r in ((low, j), (i, high)) if r[0] < r[1]]
    return np.array(indexes, np.int64)


_BLOCK = 64


def without_overlaps(boxes: Array, limit: float) -> Array:
    """Indexes of boxes (x0, y0, x1, y1), best first, that overlap no better kept one by more than ``limit``."""
    areas = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    left = np.arange(len(boxes))
    kept: list[int] = []
    while left.size:
        # Some boxes against all others at once; among themselves they go one by one.
        some = left[:_BLOCK]
        overlaps = _overlaps(boxes[some], areas[some], boxes[left], areas[left], limit)
        alive = np.ones(len(some), bool)
        for i in range(len(some)):
            if alive[i]:
                alive[i + 1 :] &= ~overlaps[i, i + 1 : len(some)]
        kept += some[alive].tolist()
        left = left[len(some) :][~overlaps[alive, len(some) :].any(0)]
    return np.array(kept, np.int64)


def _overlaps(a: Array, areas_a: Array, b: Array, areas_b: Array, limit: float) -> Array:
    """Whether boxes of ``a`` share more than ``limit`` of their common area with boxes of ``b``: (a, b)."""
    wide = np.minimum(a[:, None, 2], b[:, 2]) - np.maximum(a[:, None, 0], b[:, 0])
    high = np.minimum(a[:, None, 3], b[:, 3]) - np.maximum(a[:, None, 1], b[:, 1])
    common = np.maximum(wide, 0) * np.maximum(high, 0)
    over: Array = common / (areas_a[:, None] + areas_b - common) > limit
    return over


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

    def decode(loc: Array, conf: Array, prior: Array) -> Array:
        # The first row holds boxes, the second their variances; without classes given, the rows are the boxes.
        prior = prior[0] if prior.ndim > 1 else prior
        rows = prior.size if by_class else prior.shape[-1]
        if rows % 4 or loc.size < rows or conf.size % (rows // 4 or 1 if by_class else num_class):
            raise ShapeError("boxes, priors and scores of a detector", actual=(loc.shape, conf.shape, prior.shape))
        boxes = prior.reshape(-1, 4) if by_class else prior[0].reshape(-1, 4)
        spread = np.asarray(variances, np.float32) if by_class else prior[1].reshape(-1, 4)
        offsets = loc.reshape(-1)[: boxes.size].reshape(-1, 4) * spread
        scores = conf.reshape(-1, len(boxes)).T if by_class else conf.reshape(-1, num_class)[: len(boxes)]
        return _select(_moved(boxes, offsets), scores)

    def _select(boxes: Array, scores: Array) -> Array:
        foreground = scores[:, 0] < 1.0 - confidence_threshold
        picked: list[tuple[int, int]] = []
        for label in range(1, scores.shape[1]):
            index = np.flatnonzero(foreground & (scores[:, label] > confidence_threshold))
            index = index[best_first(scores[index, label])][:nms_top_k]
            picked += [(label, int(i)) for i in index[without_overlaps(boxes[index], nms_threshold)]]
        labels = np.array([label for label, _ in picked], np.int64)
        index = np.array([i for _, i in picked], np.int64)
        order = best_first(scores[index, labels])[:keep_top_k]
        labels, index = labels[order], index[order]
        return _table(labels, scores[index, labels], boxes[index])

    return b.dynamic(decode, [location, confidence, priorbox])


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


def _boxes_of(x: Array, num_box: int, num_class: int) -> Array:
    """One image (1, c, h, w) as (anchors, 5 + classes, h, w)."""
    _, c, h, w = x.shape
    if c != num_box * (5 + num_class):
        raise ShapeError("channels of a detector", expected=num_box * (5 + num_class), actual=c)
    return x.reshape(num_box, 5 + num_class, h, w)


def _finish(found: Sequence[tuple[Array, Array, Array]], limit: float) -> Array:
    """Rows of what overlaps nothing better, from (labels, scores, boxes) of every scale."""
    labels, scores, boxes = (np.concatenate([part[i] for part in found]) for i in range(3))
    order = best_first(scores)
    order = order[without_overlaps(boxes[order], limit)]
    # Label 0 is the background.
    return _table(labels[order] + 1.0, scores[order], boxes[order])


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

    def decode(*arrays: Array) -> Array:
        found = []
        for array in arrays:
            x = _boxes_of(array, num_box, num_class)
            grown = _exp(x[:, 5:] - x[:, 5:].max(1, keepdims=True))
            classes = grown / grown.sum(1, keepdims=True)
            scores = _sigmoid(x[:, 4]) * classes.max(1)
            keep = scores >= confidence_threshold
            boxes = _cells(x[:, :4], anchors, (x.shape[3], x.shape[2]))
            found.append((classes.argmax(1)[keep], scores[keep], boxes[keep]))
        # ncnn works in place and leaves its first input alone when there is nothing to tell.
        return _finish(found, nms_threshold) if any(len(part[1]) for part in found) else arrays[0]

    return b.dynamic(decode, list(inputs))


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

    def decode(*arrays: Array) -> Array:
        found = []
        for i, array in enumerate(arrays):
            x = _boxes_of(array, num_box, num_class)
            net = int(scales[i] * x.shape[3]), int(scales[i] * x.shape[2])
            best = x[:, 5:].max(1)
            # ncnn forms the product of both sigmoids in this way.
            scores = 1 / (1 + _exp(-x[:, 4]) * (1 + _exp(-best)))
            keep = scores >= confidence_threshold
            boxes = _cells(x[:, :4], anchors[chosen[i * num_box : (i + 1) * num_box]], net)
            found.append((x[:, 5:].argmax(1)[keep], scores[keep], boxes[keep]))
        return _finish(found, nms_threshold)

    return b.dynamic(decode, list(inputs))


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
        boxes, ranks = moved[large], scores[0, count:].reshape(-1)[large]
        order = best_first(ranks)
        order = order[:pre_nms_top_n] if pre_nms_top_n > 0 else order
        order = order[without_overlaps(boxes[order], nms_thresh)][:after_nms_top_n]
        return boxes[order][None, :, None].astype(np.float32), ranks[order][None, :, None, None]

    return b.dynamic(decode, [score, bbox, im_info])
