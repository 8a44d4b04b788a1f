"""Memory of weights that are views of mapped files: readers and packing give it back when they are through with it.

Works on arrays and buffers alone; knows neither files nor formats.
"""

from __future__ import annotations

import mmap
from contextlib import suppress
from typing import Any

import numpy as np

from pnnx_fast._core import store
from pnnx_fast._types import Array

__all__ = ["release"]

WORTH_RELEASING = 1 << 16
"""Smaller pieces share their pages with others."""


def release(array: Array) -> None:
    """Let the system take the pages of an array that is a read-only view of a mapped file; they come back when read."""
    if array.nbytes < WORTH_RELEASING or not hasattr(mmap, "MADV_DONTNEED"):
        return
    owner: Any = array
    while isinstance(owner, (np.ndarray, memoryview)):
        if isinstance(owner, memoryview) and not owner.readonly:
            return
        owner = owner.base if isinstance(owner, np.ndarray) else owner.obj
    if not isinstance(owner, mmap.mmap):
        return
    # A view that is read-only may still be one of a mapping that is not, whose changes would be lost.
    whole = np.frombuffer(owner, np.uint8)
    if whole.flags.writeable:
        return
    start = store.address(array) - store.address(whole)
    first, end = -(-start // mmap.PAGESIZE) * mmap.PAGESIZE, (start + array.nbytes) // mmap.PAGESIZE * mmap.PAGESIZE
    if end > first:
        with suppress(OSError):  # where all memory is locked, pages stay
            owner.madvise(mmap.MADV_DONTNEED, first, end - first)
