"""PyTorch's losses written with numpy: arrays and Python numbers in the order of TorchScript's schemas.

Models that return their loss use them. :mod:`pnnx_fast.ops.aten_numpy` makes operators of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pnnx_fast._memory import check_numbers
from pnnx_fast._types import Array
from pnnx_fast.errors import IndexRangeError, ShapeError
from pnnx_fast.ops.matrix_functions import cosine_similarity

__all__ = ["LOSSES"]

MEAN, SUM = 1, 2
"""TorchScript's numbers for what becomes of the losses of the entries; 0 leaves them."""


def _reduced(values: Array, reduction: int, count: Any = None) -> Array:
    if reduction == MEAN:
        return np.asarray(values.sum() / (values.size if count is None else count), values.dtype)
    return np.asarray(values.sum(), values.dtype) if reduction == SUM else values


def _pairwise(function: Callable[..., Array]) -> Callable[..., Array]:
    """Loss of two arrays entry by entry, with one number that shapes it."""

    def loss(x: Array, y: Array, reduction: int = MEAN, *rest: Any) -> Array:
        return _reduced(np.asarray(function(x, y, *rest), np.result_type(x, y)), reduction)

    loss.__doc__ = function.__doc__
    return loss


def _smooth(x: Array, y: Array, beta: float = 1.0) -> Array:
    gap = np.abs(x - y)
    return np.asarray(np.where(gap < beta, 0.5 * gap * gap / (beta or 1.0), gap - 0.5 * beta))


def _huber(x: Array, y: Array, delta: float = 1.0) -> Array:
    gap = np.abs(x - y)
    return np.asarray(np.where(gap <= delta, 0.5 * gap * gap, delta * (gap - 0.5 * delta)))


def _divergence(x: Array, y: Array, log_target: bool = False) -> Array:
    if log_target:
        return np.asarray(np.exp(y) * (y - x))
    return np.where(y > 0, y * (np.log(np.where(y > 0, y, 1)) - x), 0)


def _binary(x: Array, y: Array, weight: Array | None = None, reduction: int = MEAN) -> Array:
    logs = [np.maximum(np.log(v), -100) for v in (x, 1 - x)]
    values = -(y * logs[0] + (1 - y) * logs[1])
    return _reduced(np.asarray(values if weight is None else values * weight, x.dtype), reduction)


def _binary_of_logits(
    x: Array, y: Array, weight: Array | None = None, positive: Array | None = None, reduction: int = MEAN
) -> Array:
    soft = np.maximum(-x, 0) + np.log1p(np.exp(-np.abs(x)))
    factor = 1 if positive is None else (positive - 1) * y + 1
    values = (1 - y) * x + factor * soft
    return _reduced(np.asarray(values if weight is None else values * weight, x.dtype), reduction)


def _likelihood(x: Array, y: Array, weight: Array | None = None, reduction: int = MEAN, ignored: int = -100) -> Array:
    """Minus the entry of each row that a class names."""
    axis = 1 if x.ndim > 1 else 0
    kept = y != ignored
    index = np.where(kept, y, 0)
    if index.size and not 0 <= index.min() <= index.max() < x.shape[axis]:
        raise IndexRangeError(int(index.max()), x.shape[axis])
    picked = np.take_along_axis(x, np.expand_dims(index, axis), axis).squeeze(axis)
    share = np.where(kept, 1 if weight is None else weight[index], 0).astype(x.dtype)
    return _reduced(np.asarray(-picked * share), reduction, share.sum())


def _cross_entropy(
    x: Array, y: Array, weight: Array | None = None, reduction: int = MEAN, ignored: int = -100, smoothing: float = 0.0
) -> Array:
    axis = 1 if x.ndim > 1 else 0
    shifted = x - x.max(axis, keepdims=True)
    logs = shifted - np.log(np.exp(shifted).sum(axis, keepdims=True))
    shape = [-1 if d == axis else 1 for d in range(x.ndim)]
    scale = np.ones((), x.dtype) if weight is None else weight.reshape(shape)
    if y.dtype.kind == "f":
        target = y * (1 - smoothing) + smoothing / x.shape[axis]
        values = -(logs * target * scale).sum(axis)
        return _reduced(np.asarray(values, x.dtype), reduction, x.size // x.shape[axis])
    main = _likelihood(logs, y, weight, reduction, ignored)
    if smoothing == 0:
        return main
    kept = y != ignored
    spread = np.asarray(np.where(kept, -(logs * scale).sum(axis), 0), x.dtype)
    share = np.where(kept, 1 if weight is None else weight[np.where(kept, y, 0)], 0).sum()
    rest = _reduced(spread, reduction, share) / x.shape[axis]
    return np.asarray((1 - smoothing) * main + smoothing * rest, x.dtype)


def _cosine(x: Array, y: Array, target: Array, margin: float = 0.0, reduction: int = MEAN) -> Array:
    angle = cosine_similarity(x, y, x.ndim - 1, 1e-8)
    values = np.where(target == 1, 1 - angle, np.maximum(angle - margin, 0))
    return _reduced(np.asarray(values, x.dtype), reduction)


def _triplet(
    anchor: Array, near: Array, far: Array, margin: float = 1.0, p: float = 2.0, eps: float = 1e-6, swap: bool = False,
    reduction: int = MEAN,
) -> Array:  # fmt: skip
    def distance(x: Array, y: Array) -> Array:
        return np.asarray(np.linalg.norm(x - y + x.dtype.type(eps), p, -1))

    apart = distance(anchor, far)
    if swap:
        apart = np.minimum(apart, distance(near, far))
    return _reduced(np.asarray(np.maximum(margin + distance(anchor, near) - apart, 0), anchor.dtype), reduction)


def _ranking(x: Array, y: Array, target: Array, margin: float = 0.0, reduction: int = MEAN) -> Array:
    return _reduced(np.asarray(np.maximum(-target * (x - y) + margin, 0), x.dtype), reduction)


def _hinge(x: Array, target: Array, margin: float = 1.0, reduction: int = MEAN) -> Array:
    values = np.where(target == -1, np.maximum(margin - x, 0), 0) + np.where(target == 1, x, 0)
    return _reduced(np.asarray(values, x.dtype), reduction)


def _soft_margin(x: Array, target: Array, reduction: int = MEAN) -> Array:
    return _reduced(np.asarray(np.log1p(np.exp(-target * x)), x.dtype), reduction)


def _poisson(x: Array, y: Array, log_input: bool, full: bool, eps: float, reduction: int = MEAN) -> Array:
    values = np.exp(x) - y * x if log_input else x - y * np.log(x + eps)
    if full:
        large = np.where(y > 1, y, 2)
        values = values + np.where(y > 1, large * np.log(large) - large + 0.5 * np.log(2 * np.pi * large), 0)
    return _reduced(np.asarray(values, x.dtype), reduction)


def _multi_margin(
    x: Array, y: Array, p: int = 1, margin: float = 1.0, weight: Array | None = None, reduction: int = MEAN
) -> Array:
    """How far the score of the right class of a row is from a margin above each other one."""
    rows, index = np.atleast_2d(x), np.atleast_1d(y)
    if index.size and not 0 <= index.min() <= index.max() < rows.shape[1]:
        raise IndexRangeError(int(index.max()), rows.shape[1])
    right = np.expand_dims(index, 1)
    gaps = np.maximum(margin - np.take_along_axis(rows, right, 1) + rows, 0) ** p
    np.put_along_axis(gaps, right, 0, 1)
    share = 1 if weight is None else weight[right]
    values = np.asarray((gaps * share).sum(1) / rows.shape[1], x.dtype)
    return _reduced(values if x.ndim > 1 else values[0], reduction)


def _alignment(logs: Array, labels: Array, blank: int) -> Any:
    """Minus the log-likelihood of labels, between which blanks may stand, given log-probabilities (time, class)."""
    states = np.full(2 * len(labels) + 1, blank)
    states[1::2] = labels
    # A blank between two labels may be left out where they differ.
    skips = np.zeros(len(states), bool)
    skips[2:] = (states[2:] != blank) & (states[2:] != states[:-2])
    scores = np.full(len(states), -np.inf)
    scores[0] = 0.0
    for t, row in enumerate(logs[:, states]):
        before = np.concatenate(([-np.inf], scores[:-1]))
        if t:
            further = np.where(skips, np.concatenate(([-np.inf, -np.inf], scores[:-2]))[: len(states)], -np.inf)
            scores = np.logaddexp(np.logaddexp(scores, before), further) + row
        else:
            scores = np.where(np.arange(len(states)) < 2, row, -np.inf)
    if not len(logs):
        return np.inf if len(labels) else 0.0
    return -np.logaddexp(scores[-1], scores[-2]) if len(labels) else -scores[-1]


def _ctc(
    logs: Array, targets: Array, lengths: Any, target_lengths: Any, blank: int = 0, reduction: int = MEAN,
    zero_infinity: bool = False,
) -> Array:  # fmt: skip
    """Connectionist temporal classification."""
    items = logs if logs.ndim == 3 else logs[:, None]
    times, wanted = (np.atleast_1d(np.asarray(n, np.int64)) for n in (lengths, target_lengths))
    count, classes = items.shape[1:]
    if len(times) != count or len(wanted) != count or not 0 <= blank < classes:
        raise ShapeError("ctc_loss: lengths do not fit the batch", expected=count, actual=[len(times), len(wanted)])
    padded = targets.ndim == 2
    room = targets.shape[1] if padded else targets.size - int(wanted.sum()) + int(wanted.max(initial=0))
    if count and (min(times.min(), wanted.min()) < 0 or times.max() > len(items) or wanted.max() > room):
        raise ShapeError("ctc_loss: lengths are larger than the data", expected=[len(items), room],
                         actual=[int(times.max()), int(wanted.max())])  # fmt: skip
    if padded and len(targets) != count:
        raise ShapeError("ctc_loss: targets do not fit the batch", expected=count, actual=len(targets))
    starts = np.cumsum(wanted) - wanted
    losses = np.zeros(count)
    for i, (time, length, start) in enumerate(zip(times, wanted, starts, strict=True)):
        labels = targets[i, :length] if padded else targets.reshape(-1)[start : start + length]
        if labels.size and not 0 <= labels.min() <= labels.max() < classes:
            raise IndexRangeError(int(labels.max()), classes)
        losses[i] = _alignment(items[:time, i].astype(np.float64), labels, blank)
    if zero_infinity:
        losses[np.isinf(losses)] = 0.0
    if reduction == MEAN:
        losses = losses / np.maximum(wanted, 1)
    values = np.asarray(losses, logs.dtype)
    return _reduced(values if logs.ndim == 3 else values[0], reduction)


def _multilabel(x: Array, y: Array, reduction: int = MEAN) -> Array:
    """Distances of the entries of classes from those of the others; classes end at the first -1."""
    rows, classes = np.atleast_2d(x), np.atleast_2d(y)
    count = rows.shape[-1]
    check_numbers(rows.size * count)
    named = np.cumprod(classes >= 0, -1, dtype=bool)
    if classes.size and int(classes.max()) >= count:
        raise IndexRangeError(int(classes.max()), count)
    index = np.where(named, classes, 0)
    wanted = np.zeros(rows.shape, bool)
    row, place = np.nonzero(named)
    wanted[row, index[row, place]] = True
    gaps = np.maximum(1 - (np.take_along_axis(rows, index, -1)[..., None] - rows[:, None]), 0)
    values = (gaps * named[..., None] * ~wanted[:, None]).sum((1, 2)) / count
    return _reduced(np.asarray(values.reshape(x.shape[:-1]), x.dtype), reduction)


LOSSES: dict[str, Callable[..., Array]] = {
    "binary_cross_entropy": _binary,
    "binary_cross_entropy_with_logits": _binary_of_logits,
    "cosine_embedding_loss": _cosine,
    "cross_entropy_loss": _cross_entropy,
    "ctc_loss": _ctc,
    "hinge_embedding_loss": _hinge,
    "huber_loss": _pairwise(_huber),
    "kl_div": _pairwise(_divergence),
    "l1_loss": _pairwise(lambda x, y: np.abs(x - y)),
    "margin_ranking_loss": _ranking,
    "multi_margin_loss": _multi_margin,
    "multilabel_margin_loss": _multilabel,
    "mse_loss": _pairwise(lambda x, y: np.square(x - y)),
    "nll_loss_nd": _likelihood,
    "poisson_nll_loss": _poisson,
    "smooth_l1_loss": _pairwise(_smooth),
    "soft_margin_loss": _soft_margin,
    "triplet_margin_loss": _triplet,
}
"""TorchScript name -> loss."""
