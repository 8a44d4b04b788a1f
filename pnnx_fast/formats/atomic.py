"""Files that appear whole or not at all.

Writers of this package write to a temporary file beside the target, sync it and rename it over the
target, so that a crash or an exception leaves the old file. Nothing here knows what is written.
"""

from __future__ import annotations

import io
import os
import stat
from types import TracebackType
from typing import Self

from pnnx_fast._types import PathLike

__all__ = ["AtomicFile"]


class AtomicFile:
    """A binary file that replaces `path` when it is committed.

    As a context manager it commits at the end of the block, unless an exception leaves it. A target that
    exists and is not a regular file (a pipe, ``/dev/stdout``) is written directly.

    Parameters
    ----------
    path : str or os.PathLike
        The file to replace; through a symbolic link, what it points to.

    Attributes
    ----------
    file : io.BufferedWriter
        Where to write.

    Raises
    ------
    OSError
        The folder does not exist or may not be written.

    Examples
    --------
    >>> import os, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "a.bin")
    ...     with AtomicFile(path) as target:
    ...         _ = target.file.write(b"all of it")
    ...         before = os.path.exists(path)
    ...     print(before, os.path.getsize(path))
    False 9
    """

    def __init__(self, path: PathLike) -> None:
        self._done = True
        self._target = os.path.realpath(os.fspath(path))
        self._temporary: str | None = None
        try:
            mode = os.stat(self._target).st_mode
        except FileNotFoundError:
            mode = None
        if mode is not None and stat.S_ISDIR(mode):
            raise IsADirectoryError(f"{os.fspath(path)} is a directory")
        if mode is not None and not stat.S_ISREG(mode):
            self.file = open(self._target, "wb")  # noqa: SIM115
        else:
            self.file = self._open_beside(mode)
        self._done = False

    def _open_beside(self, mode: int | None) -> io.BufferedWriter:
        folder = os.path.dirname(self._target)
        self._temporary = os.path.join(folder, f".{os.urandom(8).hex()}.tmp")
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
        try:
            descriptor = os.open(self._temporary, flags, 0o666)
        except OSError as error:
            raise OSError(error.errno, error.strerror, self._target) from None
        if mode is not None:
            os.chmod(self._temporary, stat.S_IMODE(mode))
        return open(descriptor, "wb")

    def commit(self) -> None:
        """Sync the file and rename it over the target."""
        if self._done:
            return
        try:
            self.file.flush()
            if self._temporary is not None:
                os.fsync(self.file.fileno())
            self.file.close()
            if self._temporary is not None:
                os.replace(self._temporary, self._target)
        except BaseException:
            self.discard()
            raise
        self._done = True
        if self._temporary is not None:
            _sync_folder(os.path.dirname(self._target))

    def discard(self) -> None:
        """Delete what was written; the old file stays."""
        if self._done:
            return
        self._done = True
        try:
            self.file.close()
        finally:
            if self._temporary is not None:
                os.unlink(self._temporary)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.commit()
        else:
            self.discard()

    def __del__(self) -> None:
        self.discard()


def _sync_folder(folder: str) -> None:
    """Make the rename durable where folders can be synced; the content is safe already."""
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(descriptor)
    except OSError:
        pass
    finally:
        os.close(descriptor)
