"""Files of the command line: models, whose paths are arguments, and what is written, which never replaces its model."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from pnnx_fast.errors import ParameterError

__all__ = ["model_path", "require_apart"]


def model_path(text: str) -> Path:
    """Path of a model, as an object: of a text with line feeds, ``load`` would think that it is the model itself."""
    if not text:
        raise argparse.ArgumentTypeError("the path of a model is empty")
    return Path(text)


def require_apart(target: str | os.PathLike[str], sources: Iterable[str | os.PathLike[str]]) -> None:
    """Raise an error when the file to write is one of those that are read, by whatever path."""
    for source in sources:
        with suppress(OSError):  # one of them does not exist
            if os.path.samefile(target, source):
                raise ParameterError(f"{os.fspath(target)} is a file of the model, which it would replace")
