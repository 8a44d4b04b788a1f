"""Fractional pooling written with numpy: windows whose places come from random numbers that are given.

It knows nothing of graphs or lowering; :mod:`pnnx_fast.ops.aten_numpy` makes operators of it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence

import numpy as np

from pnnx_fast._memory import check_numbers
from pnnx_fast._types import Array
from pnnx_fast.errors import ShapeError

__all__ = ["fractional_max_pool"]


def _starts(samples: Array, size: int, count: int, width: int) -> Array:
    """Where the windows of each plane begin along a dimension: one row a plane, one number each."""
    places = np.full((len(samples), count), size - width)
    if count > 1:
        step = samples.dtype.type(size - width) / samples.dtype.type(count - 1)
        numbers = np.arange(count - 1).astype(samples.dtype)
        shifted = (numbers + samples[:, None]) * step
        places[:, :-1] = shifted.astype(np.int64) - (samples[:, None] * step).astype(np.int64)
    return places


def fractional_max_pool(rank: int) -> Callable[..., tuple[Array, Array]]:
    """Largest entries of windows at random places, and where in their plane they are. torch.nn.FractionalMaxPool2d."""

    def pool(x: Array, kernel: Sequence[int], sizes: Sequence[int], samples: Array) -> tuple[Array, Array]:
        """Largest entries of windows at random places, and where in their plane they are."""
        *lead, channels = x.shape[:-rank]
        volume = x.shape[-rank:]
        planes = x.reshape(-1, *volume) if x.size else x.reshape(math.prod(x.shape[:-rank]), *volume)
        samples = samples[: math.prod(lead)]  # more than there are pictures do no harm
        if samples.shape != (math.prod(lead), channels, rank):
            raise ShapeError("one random number a plane and dimension", actual=samples.shape)
        if any(k < 1 or k + n - 1 > size for k, n, size in zip(kernel, sizes, volume, strict=True)):
            raise ShapeError("windows do not fit", expected=volume, actual=[*kernel, *sizes])
        check_numbers(len(planes) * math.prod(sizes))
        # The first number is for the width of pictures, but for the depth of volumes.
        numbers = np.clip(samples.reshape(len(planes), rank)[:, :: -1 if rank == 2 else 1], 0, 1)
        starts = [_starts(numbers[:, d], volume[d], sizes[d], kernel[d]) for d in range(rank)]
        best = np.full((len(planes), *sizes), -np.inf, x.dtype)
        where = np.zeros(best.shape, np.int64)
        for at in itertools.product(*map(range, kernel)):
            place = np.zeros((len(planes), *[1] * rank), np.int64)
            for d in range(rank):
                shape = [len(planes), *(sizes[d] if e == d else 1 for e in range(rank))]
                place = place * volume[d] + (starts[d] + at[d]).reshape(shape)
            flat = place.reshape(len(planes), -1)
            found = np.take_along_axis(planes.reshape(len(planes), -1), flat, 1).reshape(best.shape)
            first = at == (0,) * rank
            better = (found > best) | np.isnan(found) | first
            best, where = np.where(better, found, best), np.where(better, place, where)
        whole = (*x.shape[:-rank], *sizes)
        return best.reshape(whole), where.reshape(whole)

    return pool
