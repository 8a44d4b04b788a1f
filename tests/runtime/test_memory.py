"""Memory of weights and arenas: aligned, private to the process, small blocks side by side."""

from __future__ import annotations

import mmap
import os
import re
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pnnx_fast.runtime import memory
from pnnx_fast.runtime.constants import CHUNK, Constants
from pnnx_fast.runtime.memory import HUGE, SmallPages, aligned_bytes, small_pages


@pytest.mark.parametrize("size", [1, 100, HUGE - 1, HUGE, 3 * HUGE + 7])
def test_blocks_are_aligned_and_as_long_as_asked(size):
    block = aligned_bytes(size)
    assert block.nbytes == size
    assert block.ctypes.data % 64 == 0
    block[:] = 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_forked_child_writes_into_memory_of_its_own():
    block = aligned_bytes(HUGE)
    block[:] = 1
    child = os.fork()
    if child == 0:
        block[:] = 2
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert (block == 1).all()


def test_packed_weights_do_not_overlap():
    constants = Constants()
    blocks = [constants.allocate(n) for n in (100, 0, HUGE, CHUNK // 2, CHUNK // 2, CHUNK, 64)]
    for value, block in enumerate(blocks):
        assert block.size == 0 or block.ctypes.data % 64 == 0
        block[:] = value
    assert all((block == value).all() for value, block in enumerate(blocks))
    assert np.sum([b.size for b in blocks]) == 100 + HUGE + 2 * CHUNK + 64


def _huge_bytes(block: np.ndarray) -> int:
    """Bytes of the mapping around a block that lie on huge pages."""
    address, inside = block.ctypes.data, False
    for line in Path("/proc/self/smaps").read_text(encoding="ascii").splitlines():
        if found := re.match(r"([0-9a-f]+)-([0-9a-f]+) ", line):
            inside = int(found[1], 16) <= address < int(found[2], 16)
        elif inside and line.startswith("AnonHugePages:"):
            return int(line.split()[1]) << 10
    return 0


@pytest.mark.skipif(not memory._pages_join(), reason="pages cannot be joined here")
def test_pages_are_joined_by_and_by_and_keep_their_contents():
    block = aligned_bytes(3 * HUGE)
    block[:] = np.arange(block.size, dtype=np.uint8)
    assert _huge_bytes(block) == 0
    _join_all(small_pages)
    assert _huge_bytes(block) > 0
    assert (block == np.arange(block.size, dtype=np.uint8)).all()


@pytest.mark.skipif(not memory._pages_join(), reason="pages cannot be joined here")
def test_blocks_that_are_gone_are_forgotten():
    pages = SmallPages()
    pages.join()
    assert pages._thread is None
    block, empty = aligned_bytes(4 * HUGE), aligned_bytes(2 * HUGE)
    block[:] = 1
    pages.add(_mapping(block), 0, 4 * HUGE)
    pages.add(_mapping(empty), 0, 2 * HUGE)
    del block
    _join_all(pages)
    assert not pages


def _join_all(pages: SmallPages) -> None:
    end = time.monotonic() + 60
    pages.join()
    while (pages or pages._thread) and time.monotonic() < end:
        time.sleep(0.001)


def _mapping(block: np.ndarray) -> mmap.mmap:
    owner: Any = block
    while not isinstance(owner, mmap.mmap):
        owner = owner.base if isinstance(owner, np.ndarray) else owner.obj
    return owner


@pytest.mark.skipif(not hasattr(os, "fork") or not memory._pages_join(), reason="no fork, or no pages to join")
def test_a_process_that_forks_joins_no_more():
    block = aligned_bytes(HUGE)
    assert small_pages
    child = os.fork()
    if child == 0:
        os._exit(bool(small_pages))
    assert os.waitpid(child, 0)[1] == 0
    assert not small_pages
    assert block.size == HUGE
