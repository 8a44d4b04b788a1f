"""Arrays whose last byte lies just before a page that must not be touched.

A kernel that reads or writes beyond the end of its operand crashes the test run instead of passing by luck.
"""

from __future__ import annotations

import ctypes
import mmap

import numpy as np

_libc = ctypes.CDLL(None, use_errno=True)


def guarded(array: np.ndarray) -> np.ndarray:
    """Copy of a C-contiguous array, followed by an inaccessible page; the mapping lives as long as views of it."""
    page = mmap.PAGESIZE
    size = -(-array.nbytes // page) * page
    memory = mmap.mmap(-1, size + page)
    base = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    if _libc.mprotect(ctypes.c_void_p(base + size), ctypes.c_size_t(page), 0):
        raise OSError(ctypes.get_errno(), "mprotect")
    result = np.frombuffer(memory, array.dtype, array.size, size - array.nbytes).reshape(array.shape)
    result[...] = array
    return result
