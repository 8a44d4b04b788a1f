"""Questions about shapes alone, which passes ask of the recorded ones and lowering of the real ones."""

from __future__ import annotations

import math
from collections.abc import Sequence

__all__ = ["dense_strides", "may_be", "split_place"]


def dense_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Strides in elements of a C-contiguous array.

    Examples
    --------
    >>> dense_strides((2, 3, 4))
    (12, 4, 1)
    """
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        if size > 1:
            step *= size
    return tuple(strides[::-1])


def may_be(shape: Sequence[int], noted: Sequence[int]) -> bool:
    """Whether two shapes may be the same, where sizes below zero stand for any.

    Examples
    --------
    >>> may_be((1, 8), (-1, 8)), may_be((1, 8), (-1, 7))
    (True, False)
    """
    return len(shape) == len(noted) and all(m == n or min(m, n) < 0 for m, n in zip(shape, noted, strict=True))


def split_place(shape: Sequence[int], view: Sequence[int]) -> int | None:
    """Place of the one size of a shape that a view writes as a product of several; None where views differ otherwise.

    Examples
    --------
    >>> split_place((512, 3), (8, 64, 3))
    0
    """
    more = len(view) - len(shape)
    for i in range(len(shape) if more > 0 else 0):
        whole = math.prod(view[i : i + more + 1])
        if (*view[:i], whole, *view[i + more + 1 :]) == tuple(shape):
            return i
    return None
