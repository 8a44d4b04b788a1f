"""Rare losses written with numpy: arrays and Python numbers in the order of TorchScript's schemas.

The others are expressions (:mod:`pnnx_fast.ops.losses`). :mod:`pnnx_fast.ops.aten_numpy` makes operators of these.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pnnx_fast._memory import check_numbers
from pnnx_fast._types import Array
from pnnx_fast.errors import IndexRangeError, ShapeError

__all__ = ["LOSSES"]

MEAN, SUM = 1, 2
"""TorchScript's numbers for what becomes of the losses of the entries; 0 leaves them."""


def _reduced(values: Array, reduction: int, count: Any = None) -> Array:
    if reduction == MEAN:
        return np.asarray(values.sum() / (values.size if count is None else count), values.dtype)
    return np.asarray(values.sum(), values.dtype) if reduction == SUM else values


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
    gaps = 1 - (np.take_along_axis(rows, index, -1)[..., None] - rows[:, None])
    counted = (gaps > 0) & named[..., None] & ~wanted[:, None]  # NaN is above nothing
    values = np.where(counted, gaps, 0).sum((1, 2)) / count
    return _reduced(np.asarray(values.reshape(x.shape[:-1]), x.dtype), reduction)


LOSSES: dict[str, Callable[..., Array]] = {
    "ctc_loss": _ctc,
    "multilabel_margin_loss": _multilabel,
}
"""TorchScript name -> loss."""
