"""Mapped files that weights are views of: what maps them, gives their memory back, and tells when they were changed.

Knows buffers and operators' attributes, not formats.
"""

from __future__ import annotations

import mmap
import os
import stat
from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np

from pnnx_fast._core import store
from pnnx_fast._types import Array, PathLike
from pnnx_fast.errors import FormatError

if TYPE_CHECKING:
    from pnnx_fast.ir.operator import Operator

__all__ = ["MappedFile", "file_of", "files_of", "is_mapped", "map_file", "release", "require_unchanged"]

WORTH_RELEASING = 1 << 16
"""Smaller pieces share their pages with others."""


class MappedFile(mmap.mmap):
    """A file mapped for reading.

    Whoever writes to the file changes what is mapped, and reading what was cut off ends the process.
    """

    path: str
    _status: os.stat_result

    @property
    def has_changed(self) -> bool:
        """Whether somebody has written to the file. Another one in its place does not change what is mapped."""
        if self.size() != self._status.st_size:
            return True
        try:
            now = os.stat(self.path)
        except OSError:
            return False
        known = self._status
        same = (now.st_dev, now.st_ino) == (known.st_dev, known.st_ino)
        return same and (now.st_size, now.st_mtime_ns) != (known.st_size, known.st_mtime_ns)


def map_file(path: PathLike) -> MappedFile | bytes:
    """Map a file for reading. What cannot be mapped, such as an empty file or a pipe, is read."""
    with open(path, "rb") as file:
        status = os.fstat(file.fileno())
        if stat.S_ISREG(status.st_mode) and status.st_size:
            with suppress(OSError):  # some file systems cannot
                mapped = MappedFile(file.fileno(), 0, access=mmap.ACCESS_READ)
                mapped.path, mapped._status = os.path.abspath(path), status
                return mapped
        return file.read()


def _owner(data: Any) -> Any:
    """What the memory of an array or a memoryview belongs to."""
    while True:
        if type(data) is memoryview:
            data = data.obj
        elif isinstance(data, np.ndarray):
            data = data.base
        else:
            return data


def is_mapped(array: Array) -> bool:
    """Whether an array is a view of a mapped file that may not be written to through it."""
    return not array.flags.writeable and isinstance(_owner(array), mmap.mmap)


def file_of(data: Any) -> MappedFile | None:
    """Return the file, mapped by :func:`map_file`, that an array or a buffer is a view of."""
    owner = _owner(data)
    return owner if isinstance(owner, MappedFile) else None


def files_of(ops: Iterable[Operator]) -> set[MappedFile]:
    """Return the files that attributes of operators are views of."""
    return {file for op in ops for attr in op.attrs.values() if (file := file_of(attr.data)) is not None}


def require_unchanged(files: Iterable[MappedFile]) -> None:
    """Raise for files that were written to since they were mapped.

    Raises
    ------
    FormatError
    """
    for file in files:
        if file.has_changed:
            reason = "the file was changed after weights were loaded from it; load it anew, replace files by renaming"
            raise FormatError(reason, path=file.path)


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
