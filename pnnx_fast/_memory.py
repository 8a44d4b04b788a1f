"""Memory for packed weights and activations: aligned blocks, on huge pages where they are large, and a limit.

A file of a few bytes can ask for results of any size. So there is a limit, with which callers compare what they are
about to take.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import re
import threading
from functools import cache
from typing import Any
from weakref import finalize

import numpy as np

from pnnx_fast._types import Array
from pnnx_fast.errors import LimitError, ParameterError

__all__ = ["Tally", "aligned_bytes", "check_memory", "check_numbers", "format_bytes", "memory_limit"]

HUGE = 2 << 20
"""Size of a huge page, and its alignment."""

HUGE_FROM = HUGE // 2
"""Bytes from which on a block gets huge pages: the first touch of so many small ones takes longer than that of one."""


def aligned_bytes(nbytes: int) -> Array:
    """Uninitialised memory at a 64-byte boundary; large blocks lie on huge pages where the system has them."""
    if nbytes < HUGE_FROM:
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
        with contextlib.suppress(OSError):  # some kernels are built without them
            block.madvise(mmap.MADV_HUGEPAGE)
    whole = np.frombuffer(block, np.uint8)
    start = -whole.__array_interface__["data"][0] % HUGE
    return whole[start : start + nbytes]


VARIABLE = "PNNX_FAST_MEMORY_LIMIT"
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_WITHOUT_END = 1 << 62


def memory_limit() -> int:
    """Bytes that a tensor may take, or together: activations and results of a run, constants that a model computes,
    weights of a file that were deflated.

    Three quarters of the machine's memory, or of what its control group grants, unless the environment variable
    ``PNNX_FAST_MEMORY_LIMIT`` names another size (``500M``, ``8G``; 0 means no limit).
    """
    return _limit(os.environ.get(VARIABLE, ""))


@cache
def _limit(text: str) -> int:
    if not text:
        return _present() // 4 * 3
    match = re.fullmatch(r"(\d{1,18})\s*([KMGT]?)i?B?", text.strip(), re.IGNORECASE)
    if match is None:
        raise ParameterError(f"{VARIABLE} is {text!r}; a number of bytes, or one with K, M, G or T, is expected")
    return min(int(match[1]) * _UNITS[match[2].upper()], _WITHOUT_END) or _WITHOUT_END


def _present() -> int:
    """Bytes of memory that this process may hope for."""
    try:
        present = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        present = 1 << 38
    return min(present, _granted())


def _granted(groups: str = "/proc/self/cgroup", mount: str = "/sys/fs/cgroup") -> int:
    """The least that the control groups of the process grant, from its own to the root, all that a container sees."""
    least = _WITHOUT_END
    lines: list[str] = []
    with contextlib.suppress(OSError), open(groups, encoding="utf-8", errors="surrogateescape") as file:
        lines = file.read().splitlines()
    for line in lines:
        _, kinds, path = line.split(":", 2)
        if kinds and "memory" not in kinds.split(","):
            continue
        # The second version has one hierarchy for all kinds, the first one for each.
        folder, name = (f"{mount}/memory", "memory.limit_in_bytes") if kinds else (mount, "memory.max")
        while True:
            with contextlib.suppress(OSError, ValueError), open(f"{folder}{path}/{name}", "rb") as file:
                least = min(least, int(file.read()))  # "max" is no number
            if not path.strip("/"):
                break
            path = path.rpartition("/")[0]
    return least


def format_bytes(nbytes: int) -> str:
    """Return a size with a unit.

    Examples
    --------
    >>> format_bytes(1000), format_bytes(2000), format_bytes(102000000)
    ('1000 bytes', '2.0 KiB', '97.3 MiB')
    """
    unit = max((unit for unit in _UNITS if nbytes >= _UNITS[unit]), key=_UNITS.__getitem__, default="")
    return f"{nbytes / _UNITS[unit]:.1f} {unit}iB" if unit else f"{nbytes} bytes"


def check_memory(nbytes: int, what: str) -> None:
    """Compare with the limit.

    Raises
    ------
    LimitError
    """
    if nbytes > memory_limit():
        size, most = format_bytes(nbytes), format_bytes(memory_limit())
        raise LimitError(f"{size} of memory are needed, the limit is {most} ({VARIABLE})", path=what)


def check_numbers(count: int) -> None:
    """Compare with the limit what so many numbers of eight bytes take, whose count is one of the model's own.

    Raises
    ------
    LimitError
    """
    check_memory(8 * count, f"{count} numbers")


class Tally:
    """Memory of several objects, as long as each is in use, which is compared with the limit together; thread-safe."""

    def __init__(self) -> None:
        self._nbytes = 0
        self._lock = threading.RLock()  # objects may go while another one is added

    def check(self, more: int, what: str) -> None:
        """Compare what is in use, and so many bytes more, with the limit.

        Raises
        ------
        LimitError
        """
        others = " and others that are in use" if self._nbytes else ""
        check_memory(self._nbytes + more, what + others)

    def add(self, holder: Any, nbytes: int) -> None:
        """Count the memory of an object until it goes."""
        self._change(nbytes)
        finalize(holder, self._change, -nbytes).atexit = False

    def _change(self, nbytes: int) -> None:
        with self._lock:
            self._nbytes += nbytes
