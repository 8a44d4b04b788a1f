"""PyTorch's order statistics written with numpy: arrays and Python numbers in the order of TorchScript's schemas.

They know nothing of graphs or lowering; :mod:`pnnx_fast.ops.aten_numpy` makes operators of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pnnx_fast._types import Array
from pnnx_fast.errors import ParameterError


def mode(x: Array, dim: int = -1, keepdim: bool = False) -> tuple[Array, Array]:
    """Smallest of the most frequent entries along a dimension, and its last place; NaN equals nothing."""

    def of_line(line: Array) -> Array:
        order = _inserted(line) if line.dtype.kind == "f" and np.isnan(line).any() else np.argsort(line, kind="stable")
        values = line[order]
        ends = np.append(np.flatnonzero(values[1:] != values[:-1]), len(values) - 1)
        return np.asarray(order[ends[np.diff(ends, prepend=-1).argmax()]]).reshape(1)

    if not x.size and x.shape[dim]:  # no lines, of which numpy would not know what they give
        return _taken(x, np.zeros_like(x.take([0], dim), np.int64), dim, keepdim)
    return _taken(x, np.apply_along_axis(of_line, dim, x).astype(np.int64), dim, keepdim)


def _inserted(line: Array) -> Array:
    """Order of a line that holds NaN as PyTorch sorts it here: a short one as if NaN were neither less nor more."""
    if len(line) > 16:
        return np.argsort(line, kind="stable")
    order: list[int] = []
    for i, value in enumerate(line):
        place = len(order)
        while place and value < line[order[place - 1]]:
            place -= 1
        order.insert(0 if order and value < line[order[0]] else place, i)
    return np.asarray(order)


def _taken(x: Array, index: Array, dim: int, keepdim: bool) -> tuple[Array, Array]:
    values = np.take_along_axis(x, index, dim)
    return (values, index) if keepdim else (values.squeeze(dim), index.squeeze(dim))


def quantiles(skip: bool) -> Callable[..., Array]:
    """Quantiles along a dimension; with ``skip`` of the entries that are numbers, else NaN where one is missing."""

    def run(x: Array, q: Any, dim: int | None = None, keepdim: bool = False, interpolation: str = "linear") -> Array:
        """Quantiles along a dimension, by ranks in the type of the values."""
        lines = x.reshape(-1) if dim is None or not x.ndim else np.moveaxis(x, dim, -1)
        wanted = np.asarray(q, x.dtype)
        if not np.all((wanted >= 0) & (wanted <= 1)):
            raise ParameterError("quantiles lie between 0 and 1", parameter="q")
        found = _at(np.sort(lines, -1), wanted.reshape(-1), skip, interpolation)
        if keepdim:
            kept = (1,) * x.ndim if dim is None else tuple(1 if d == dim % x.ndim else n for d, n in enumerate(x.shape))
            found = found.reshape(-1, *kept)
        return found[0] if wanted.ndim == 0 else found

    return run


_ROUNDED: dict[str, Callable[[Array], Array]] = {"lower": np.floor, "higher": np.ceil, "nearest": np.rint}


def _at(lines: Array, wanted: Array, skip: bool, interpolation: str) -> Array:
    """Quantiles of sorted lines, the quantiles as the first dimension. The arithmetic is PyTorch's, NaN comes last."""
    missing = np.count_nonzero(np.isnan(lines), -1, keepdims=True)
    last = lines.shape[-1] - 1
    ends = np.maximum(last - missing, 0) if skip else last
    ranks = wanted * np.asarray(ends, lines.dtype)
    if not skip:
        ranks = np.where(missing > 0, np.asarray(last, lines.dtype), ranks)
    if interpolation not in ("linear", "midpoint", *_ROUNDED):
        raise ParameterError(f"unknown interpolation {interpolation!r}", parameter="interpolation")
    ranks = _ROUNDED.get(interpolation, np.asarray)(np.broadcast_to(ranks, (*lines.shape[:-1], wanted.size)))
    below, above = (np.take_along_axis(lines, f(ranks).astype(np.int64), -1) for f in (np.floor, np.ceil))
    if interpolation in _ROUNDED:
        return np.moveaxis(below, -1, 0)
    weight = np.asarray(0.5, lines.dtype) if interpolation == "midpoint" else ranks - np.floor(ranks)
    gap = above - below
    return np.moveaxis(np.where(weight < 0.5, below + weight * gap, above - gap * (1 - weight)), -1, 0)
