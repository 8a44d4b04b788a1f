"""How far two results are apart, in the one measure that zoo, peers and tables share; numpy only."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Parts", "relative_error", "split", "worst_error"]

Array = NDArray[Any]
Parts = Sequence[tuple[int, int]]


def split(outputs: Sequence[Array], parts: Parts = ()) -> Iterator[tuple[str, Array]]:
    """Outputs with a label each; those of two or more axes in `parts` of axis 1 when there are any."""
    for number, output in enumerate(outputs):
        if not parts:
            yield f"out{number}", output
        for first, last in parts:
            yield f"out{number}[:, {first}:{last}]", output[:, first:last]


def relative_error(actual: Array, expected: Array) -> float:
    """Largest absolute difference over the largest expected value; infinite for other shapes or NaN."""
    if actual.shape != expected.shape:
        return float("inf")
    if expected.size == 0:
        return 0.0
    if np.issubdtype(expected.dtype, np.integer) or expected.dtype == np.bool_:
        return 0.0 if np.array_equal(actual, expected) else float("inf")
    difference = float(np.max(np.abs(actual.astype(np.float64) - expected)))
    largest = float(np.max(np.abs(expected)))
    if not np.isfinite(difference):
        return float("inf")
    return difference / largest if largest else (0.0 if difference == 0.0 else float("inf"))


def worst_error(actual: Sequence[Array], expected: Sequence[Array], parts: Parts = ()) -> float:
    """Largest `relative_error` over all outputs and parts; infinite when their number differs."""
    if len(actual) != len(expected) or any(a.shape != b.shape for a, b in zip(actual, expected, strict=True)):
        return float("inf")
    pairs = zip(split(actual, parts), split(expected, parts), strict=True)
    return max(relative_error(a, b) for (_, a), (_, b) in pairs)
