"""Where files lie: the two of a PNNX model, and what this user keeps from run to run."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from pnnx_fast.errors import FormatError, ParameterError

__all__ = ["bin_path", "cache_folder", "model_files", "param_path"]


def cache_folder() -> Path:
    """Return this package's folder among the user's caches; nobody has made it yet."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pnnx_fast"


def param_path(path: Path) -> Path:
    """Return the ``.param`` file itself, or the only one in a directory."""
    if not path.is_dir():
        return path
    found = sorted(path.glob("*.pnnx.param")) or sorted(path.glob("*.param"))
    if len(found) != 1:
        names = ", ".join(x.name for x in found) or "none"
        raise FormatError(f"expected one .pnnx.param file in the directory, found {names}", path=str(path))
    return found[0]


def bin_path(param: Path) -> Path:
    """Return the weight file that belongs to a ``.param`` file."""
    return param.with_suffix(".bin") if param.suffix == ".param" else param.with_name(param.name + ".bin")


def model_files(param: Any, bin: Any) -> tuple[Path, Path]:
    """Return both files of a model; they must be files with names."""
    if not isinstance(param, str | os.PathLike) or not (bin is None or isinstance(bin, str | os.PathLike)):
        raise ParameterError("only models in files can be cached, not bytes or file objects")
    path = param_path(Path(param))
    return path, bin_path(path) if bin is None else Path(bin)
