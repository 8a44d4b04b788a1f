"""Memory of weights and arenas: aligned, private to the process, small blocks side by side."""

from __future__ import annotations

import errno
import mmap
import os
from pathlib import Path

import numpy as np
import pytest

from pnnx_fast import _memory
from pnnx_fast._memory import HUGE, aligned_bytes, check_memory
from pnnx_fast.errors import LimitError
from pnnx_fast.ir.mapped import release
from pnnx_fast.runtime.constants import CHUNK, Constants


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


def test_memory_needs_no_system_that_takes_advice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Deaf(mmap.mmap):
        """Of a kernel without huge pages, and of a process that has all of its memory locked."""

        def madvise(self, *_: int) -> None:
            raise OSError(errno.EINVAL, "Invalid argument")

    monkeypatch.setattr(mmap, "mmap", Deaf)
    aligned_bytes(HUGE)[:] = 1
    path = tmp_path / "data"
    path.write_bytes(b"\1" * HUGE)
    with path.open("rb") as file:
        mapped = np.frombuffer(Deaf(file.fileno(), 0, access=mmap.ACCESS_READ), np.uint8)
    release(mapped)
    assert (mapped == 1).all()


def test_packed_weights_do_not_overlap():
    constants = Constants()
    blocks = [constants.allocate(n) for n in (100, 0, HUGE, CHUNK // 2, CHUNK // 2, CHUNK, 64)]
    for value, block in enumerate(blocks):
        assert block.size == 0 or block.ctypes.data % 64 == 0
        block[:] = value
    assert all((block == value).all() for value, block in enumerate(blocks))
    assert np.sum([b.size for b in blocks]) == 100 + HUGE + 2 * CHUNK + 64


@pytest.mark.parametrize(
    ("groups", "files", "least"),
    [
        ("0::/\n", {"memory.max": "max\n"}, None),
        ("0::/a/b\n", {"a/memory.max": "3000\n", "a/b/memory.max": "max\n", "memory.max": "5000\n"}, 3000),
        ("0::/host/path\n", {"memory.max": "4000\n"}, 4000),
        ("9:cpu,cpuacct:/x\n7:memory:/x\n", {"memory/x/memory.limit_in_bytes": "700\n", "x/memory.max": "1\n"}, 700),
        (None, {"memory.max": "1\n"}, None),
    ],
    ids=["no limit", "of a parent", "seen from a container", "first version", "other systems"],
)
def test_the_limit_of_control_groups(tmp_path, groups, files, least):
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, "utf-8")
    if groups is not None:
        (tmp_path / "cgroup").write_text(groups, "utf-8")
    found = _memory._granted(str(tmp_path / "cgroup"), str(tmp_path))
    assert found == (_memory._WITHOUT_END if least is None else least)


def test_limits_are_told_in_fitting_units(monkeypatch):
    monkeypatch.setenv("PNNX_FAST_MEMORY_LIMIT", "900")
    with pytest.raises(LimitError, match=r"a: 8\.8 KiB of memory are needed, the limit is 900 bytes"):
        check_memory(9000, "a")
