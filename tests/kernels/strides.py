"""Strides as kernels count them."""

from __future__ import annotations

from collections.abc import Sequence

from pnnx_fast._types import Array

ALL = slice(None)


def elements(array: Array | None, dims: slice | Sequence[int] = ALL) -> list[int]:
    """Strides in elements, of all or of some dimensions; an absent array has none."""
    if array is None:
        return []
    steps = [s // array.itemsize for s in array.strides]
    return steps[dims] if isinstance(dims, slice) else [steps[d] for d in dims]
