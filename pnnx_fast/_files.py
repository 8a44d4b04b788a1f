"""Where files lie: the two of a PNNX model, and what this user keeps from run to run; and how the latter is written.

Paths are strings: loading a model imports no :mod:`pathlib`, which takes longer than reading a small graph.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import IO, Any

from pnnx_fast.errors import FormatError, ParameterError

__all__ = ["bin_path", "cache_folder", "kept_file", "model_files", "param_path"]


def cache_folder() -> str:
    """Return this package's folder among the user's caches; nobody has made it yet."""
    caches = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(caches, "pnnx_fast")


@contextmanager
def kept_file(path: str, mode: int) -> Iterator[IO[bytes]]:
    """Open a file for what can be made again: it takes the place of ``path`` at the end, unless an error comes first.

    Nothing waits for the disk, unlike for files that users save. Folders are made where they are missing.
    """
    folder, name = os.path.split(os.path.abspath(path))
    os.makedirs(folder, mode=mode | (mode & 0o444) >> 2, exist_ok=True)
    # A name that nobody can foresee, and no file that is there already: the folder may be one that others write to.
    unfinished = os.path.join(folder, f".{name}.{os.urandom(8).hex()}")
    try:
        with open(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
            yield file
        os.replace(unfinished, path)
    finally:
        with suppress(OSError):
            os.unlink(unfinished)


def param_path(path: str | os.PathLike[str]) -> str:
    """Return the ``.param`` file itself, or the only one in a directory."""
    path = os.fspath(path)
    if not os.path.isdir(path):
        return path
    names = sorted(os.listdir(path))
    found = [n for n in names if n.endswith(".pnnx.param")] or [n for n in names if n.endswith(".param")]
    if len(found) != 1:
        listed = ", ".join(found) or "none"
        raise FormatError(f"expected one .pnnx.param file in the directory, found {listed}", path=path)
    return os.path.join(path, found[0])


def bin_path(param: str | os.PathLike[str]) -> str:
    """Return the weight file that belongs to a ``.param`` file."""
    return os.fspath(param).removesuffix(".param") + ".bin"


def model_files(param: Any, bin: Any) -> tuple[str, str]:
    """Return both files of a model; they must be files with names."""
    if not isinstance(param, str | os.PathLike) or not (bin is None or isinstance(bin, str | os.PathLike)):
        raise ParameterError("only models in files can be cached, not bytes or file objects")
    path = param_path(param)
    return path, bin_path(path) if bin is None else os.fspath(bin)
