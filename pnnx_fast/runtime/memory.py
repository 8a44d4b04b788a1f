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
import time
import weakref
from collections import deque
from functools import cache
from pathlib import Path

import numpy as np

from pnnx_fast._core import program as core
from pnnx_fast._types import Array
from pnnx_fast.errors import LimitError, ParameterError

__all__ = ["aligned_bytes", "check_memory", "memory_limit", "small_pages"]

HUGE = 2 << 20
"""Size of a huge page, and its alignment."""


def aligned_bytes(nbytes: int) -> Array:
    """Uninitialised memory at a 64-byte boundary; large blocks lie on huge pages where the system has them.

    Where small pages can be joined later, a block begins with them: the first touch of a huge page may have to wait
    until the host of a virtual machine finds memory for all of it.
    """
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
    whole = np.frombuffer(block, np.uint8)
    start = -whole.__array_interface__["data"][0] % HUGE
    if _pages_join():
        block.madvise(mmap.MADV_NOHUGEPAGE)
        small_pages.add(block, start, start + nbytes)
    elif hasattr(mmap, "MADV_HUGEPAGE"):
        block.madvise(mmap.MADV_HUGEPAGE)
    return whole[start : start + nbytes]


class SmallPages:
    """Blocks that are still on small pages, and the thread that joins these while programs run again and again.

    Readers and writers are not disturbed, beyond a moment at the page in hand. A process that forks joins no more:
    children share the pages, and each would make its own of them.
    """

    def __init__(self) -> None:
        self._blocks: deque[tuple[weakref.ref[mmap.mmap], int, int]] = deque()
        self._runs = 0
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(before=self._blocks.clear, after_in_child=self._begin_anew)

    def __bool__(self) -> bool:
        return bool(self._blocks)

    def add(self, block: mmap.mmap, begin: int, end: int) -> None:
        """Note bytes [begin, end) of a mapping, whose start is aligned."""
        self._blocks.append((weakref.ref(block), begin, end))

    def join(self) -> None:
        """Have all blocks joined; to be called after every run but a program's first."""
        self._runs += 1
        with self._lock:
            if self._thread is None and self._blocks:
                self._thread = threading.Thread(target=self._work, name="pnnx_fast pages", daemon=True)
                try:
                    self._thread.start()
                except RuntimeError:  # no more threads: pages stay small
                    self._thread = None
                    self._blocks.clear()

    def _begin_anew(self) -> None:
        self._lock = threading.Lock()
        self._thread = None

    def _work(self) -> None:
        while True:
            with self._lock:
                if not self._blocks:
                    self._thread = None
                    return
            runs, start = self._runs, time.perf_counter()
            self._join_one()
            if self._runs != runs:
                # Runs in a row get at least as much of the time.
                time.sleep(time.perf_counter() - start)

    def _join_one(self) -> None:
        with contextlib.suppress(IndexError):  # cleared meanwhile
            reference, begin, end = self._blocks.popleft()
            block = reference()
            if block is not None:
                core.join_pages(np.frombuffer(block, np.uint8).__array_interface__["data"][0] + begin)
                if begin + HUGE < end:
                    self._blocks.appendleft((reference, begin + HUGE, end))


small_pages = SmallPages()

_pages_join = cache(core.pages_join)


VARIABLE = "PNNX_FAST_MEMORY_LIMIT"
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_WITHOUT_END = 1 << 62


def memory_limit() -> int:
    """Bytes that a tensor, or activations and results of a run together, may take.

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
    with contextlib.suppress(OSError, ValueError):
        present = min(present, int(Path("/sys/fs/cgroup/memory.max").read_text(encoding="ascii")))
    return present


def check_memory(nbytes: int, what: str) -> None:
    """Compare with the limit.

    Raises
    ------
    LimitError
    """
    if nbytes > memory_limit():
        size, most = (f"{n / (1 << 30):.3g} GiB" for n in (nbytes, memory_limit()))
        raise LimitError(f"{size} of memory are wanted, more than the limit of {most} ({VARIABLE})", path=what)
