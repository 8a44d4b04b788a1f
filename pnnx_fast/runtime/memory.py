"""Memory for packed weights and activations: aligned blocks, on huge pages where they are large."""

from __future__ import annotations

import mmap

import numpy as np

from pnnx_fast._types import Array

__all__ = ["aligned_bytes"]

HUGE = 2 << 20
"""Size of a huge page, and its alignment."""


def aligned_bytes(nbytes: int) -> Array:
    """Uninitialised memory at a 64-byte boundary; large blocks lie on huge pages where the system has them."""
    if nbytes < HUGE:
        raw = np.empty(nbytes + 64, np.uint8)
        start = -raw.__array_interface__["data"][0] % 64
        return raw[start : start + nbytes]
    # Memory that is shared (the default) would not get huge pages, and a forked child would write into it.
    private = {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS} if hasattr(mmap, "MAP_ANONYMOUS") else {}
    try:
        block = mmap.mmap(-1, nbytes + 2 * HUGE, **private)
    except OSError as error:
        raise MemoryError(f"cannot allocate {nbytes} bytes") from error
    if hasattr(mmap, "MADV_HUGEPAGE"):
        block.madvise(mmap.MADV_HUGEPAGE)
    whole = np.frombuffer(block, np.uint8)
    start = -whole.__array_interface__["data"][0] % HUGE
    return whole[start : start + nbytes]
