"""Questions about shapes alone, which passes ask of the recorded ones and lowering of the real ones."""

from __future__ import annotations

import math
from collections.abc import Sequence

__all__ = ["split_place"]


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
