"""Files that appear whole or not at all, several together.

Writers of this package write to temporary files beside the targets, sync all of them and only then rename them, in the
order of opening, so that an exception, a full disk or a crash leaves the old files. Only a crash between two renames
leaves a new file beside an old one. Nothing here knows what is written.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from types import TracebackType
from typing import IO, Self

from pnnx_fast._types import Target
from pnnx_fast.errors import ParameterError

__all__ = ["AtomicFiles"]


class AtomicFiles:
    """Files that take the places of old ones at the end of a ``with`` block, unless an exception leaves it.

    Examples
    --------
    >>> import os, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "a.bin")
    ...     with AtomicFiles() as files:
    ...         _ = files.open(path).write(b"all of it")
    ...         before = os.path.exists(path)
    ...     print(before, os.path.getsize(path))
    False 9
    """

    def __init__(self) -> None:
        self._files: list[_Unfinished] = []

    def open(self, target: Target) -> IO[bytes]:
        """Return the file to write to.

        Parameters
        ----------
        target : path or binary file object
            The file to replace; through a symbolic link, what it points to. What exists and is not a regular file (a
            pipe, ``/dev/stdout``) is written directly. A file object is returned as it is.

        Raises
        ------
        ParameterError
            The file is open already.
        OSError
            The folder does not exist or may not be written.
        """
        if not isinstance(target, str | os.PathLike):
            return target
        try:
            mode = os.stat(target).st_mode
        except FileNotFoundError:
            mode = None
        if mode is not None and stat.S_ISDIR(mode):
            raise IsADirectoryError(f"{os.fspath(target)} is a directory")
        if mode is not None and not stat.S_ISREG(mode):  # what names a pipe points to may be no path
            self._files.append(_Unfinished(os.fspath(target), None))
            return self._files[-1].file
        path = os.path.realpath(os.fspath(target))
        if any(path == file.path for file in self._files):
            raise ParameterError(f"two files cannot both be {os.fspath(target)}")
        temporary = os.path.join(os.path.dirname(path), f".{os.urandom(8).hex()}.tmp")
        self._files.append(_Unfinished(path, temporary))
        if mode is not None:
            os.chmod(temporary, stat.S_IMODE(mode))
        return self._files[-1].file

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                for file in self._files:
                    file.complete()
                for file in self._files:
                    file.replace()
        finally:
            for file in self._files:
                file.discard()
        if kind is None:
            for folder in {os.path.dirname(file.path) for file in self._files if file.replaced}:
                _sync(folder)


class _Unfinished:
    """A file of a temporary name, or without one a target that is written directly."""

    def __init__(self, path: str, temporary: str | None) -> None:
        self.path, self.temporary, self.replaced = path, temporary, False
        if temporary is None:
            self.file = open(path, "wb")  # noqa: SIM115
            return
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
        try:
            descriptor = os.open(temporary, flags, 0o666)
        except OSError as error:
            raise OSError(error.errno, error.strerror, path) from None
        self.file = open(descriptor, "wb")  # noqa: SIM115

    def complete(self) -> None:
        """Have all of the content on the disk: what a disk or a quota refuses comes up here at the latest."""
        self.file.flush()
        if self.temporary is not None:
            os.fsync(self.file.fileno())
        self.file.close()

    def replace(self) -> None:
        """Rename the file to its path."""
        if self.temporary is not None:
            os.replace(self.temporary, self.path)
            self.replaced = True

    def discard(self) -> None:
        """Close the file and delete it, unless it has its path."""
        with suppress(OSError):  # has been told by `complete`, or follows another error
            self.file.close()
        if self.temporary is not None and not self.replaced:
            with suppress(OSError):
                os.unlink(self.temporary)


def _sync(folder: str) -> None:
    """Make renames durable where folders can be synced; the content is safe already."""
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    with suppress(OSError):
        os.fsync(descriptor)
    os.close(descriptor)
