"""Where files lie: the two of a PNNX model, and what this user keeps from run to run.

Paths are strings: loading a model imports no :mod:`pathlib`, which takes longer than reading a small graph.
"""

from __future__ import annotations

import os
from typing import Any

from pnnx_fast.errors import FormatError, ParameterError

__all__ = ["bin_path", "cache_folder", "model_files", "param_path"]


def cache_folder() -> str:
    """Return this package's folder among the user's caches; nobody has made it yet."""
    caches = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(caches, "pnnx_fast")


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
