"""Arithmetic of detectors' applications on numpy arrays, with ncnn's names: boxes, overlaps, softmax, sigmoid."""

from __future__ import annotations

import numpy as np

from pnnx_fast._types import Array

__all__ = ["area_of", "iou_of", "make_grid", "nms", "sigmoid", "softmax", "xywh2xyxy", "xyxy2xywh"]


def xywh2xyxy(x: Array) -> Array:
    """Boxes (n, 4) by centre and size as boxes by two corners.

    Examples
    --------
    >>> xywh2xyxy(np.array([[5.0, 5.0, 2.0, 4.0]])).tolist()
    [[4.0, 3.0, 6.0, 7.0]]
    """
    centre, half = x[:, :2], x[:, 2:4] / 2
    boxes: Array = np.concatenate([centre - half, centre + half], 1).astype(x.dtype, copy=False)
    return boxes


def xyxy2xywh(x: Array) -> Array:
    """Boxes (n, 4) by two corners as boxes by centre and size."""
    first, last = x[:, :2], x[:, 2:4]
    boxes: Array = np.concatenate([(first + last) / 2, last - first], 1).astype(x.dtype, copy=False)
    return boxes


def make_grid(nx: int = 20, ny: int = 20) -> Array:
    """Coordinates (x, y) of the cells of a grid: (1, ny, nx, 2)."""
    grid: Array = np.stack(np.meshgrid(np.arange(nx), np.arange(ny)), -1).astype(np.float32)
    return grid[None]


def sigmoid(x: Array) -> Array:
    """``1 / (1 + exp(-x))``; no overflow for large negative values."""
    half: Array = 0.5 * (1 + np.tanh(0.5 * np.asarray(x)))
    return half


def softmax(x: Array) -> Array:
    """Softmax over the last axis; the argument stays as it is."""
    grown = np.exp(x - np.max(x, axis=-1, keepdims=True))
    shares: Array = grown / grown.sum(axis=-1, keepdims=True)
    return shares


def area_of(left_top: Array, right_bottom: Array) -> Array:
    """Areas of boxes given by two corners (…, 2); 0 for corners in the wrong order."""
    sides = np.clip(right_bottom - left_top, 0.0, None)
    areas: Array = sides[..., 0] * sides[..., 1]
    return areas


def iou_of(boxes0: Array, boxes1: Array, eps: float = 1e-5) -> Array:
    """Shared area over common area of boxes (…, 4) by two corners, broadcast against each other."""
    first = np.maximum(boxes0[..., :2], boxes1[..., :2])
    last = np.minimum(boxes0[..., 2:], boxes1[..., 2:])
    shared = area_of(first, last)
    both = area_of(boxes0[..., :2], boxes0[..., 2:]) + area_of(boxes1[..., :2], boxes1[..., 2:])
    ratios: Array = shared / (both - shared + eps)
    return ratios


def nms(boxes: Array, scores: Array, iou_threshold: float, top_k: int = -1, candidate_size: int = 200) -> list[int]:
    """Indexes of boxes, best first, that overlap no better kept one by more than a threshold.

    Parameters
    ----------
    boxes : ndarray
        (n, 4), two corners.
    scores : ndarray
        (n,).
    iou_threshold : float
    top_k : int
        Most boxes to keep; all when it is not positive.
    candidate_size : int
        Only so many boxes with the highest scores are looked at.

    Examples
    --------
    >>> nms(np.array([[0, 0, 4, 4], [0, 0, 4, 5], [9, 9, 10, 10.0]]), np.array([0.5, 0.9, 0.7]), 0.5)
    [1, 2]
    """
    left, kept = np.argsort(scores)[-candidate_size:][::-1], list[int]()
    while left.size and (top_k <= 0 or len(kept) < top_k):
        best, left = left[0], left[1:]
        kept.append(int(best))
        left = left[iou_of(boxes[left], boxes[best][None]) <= iou_threshold]
    return kept
