"""Reads manifest.toml and knows where the zoo's files are; used by every command; imports no engine."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

__all__ = ["ModelSpec", "model_directory", "models", "select", "sets", "zoo_root"]

_PATH = Path(__file__).with_name("manifest.toml")


@dataclass(frozen=True)
class ModelSpec:
    """One line of the manifest."""

    name: str
    maker: str
    sizes: dict[str, Any] = field(default_factory=dict)
    parts: tuple[tuple[int, int], ...] = ()


def _read() -> dict[str, Any]:
    return tomllib.loads(_PATH.read_text(encoding="utf-8"))


def models() -> dict[str, ModelSpec]:
    """All models, in the order in which they are built and listed."""
    result = {}
    for name, row in _read()["models"].items():
        sizes = {key: value for key, value in row.items() if key not in ("maker", "parts")}
        parts = tuple((int(first), int(last)) for first, last in row.get("parts", ()))
        result[name] = ModelSpec(name, row["maker"], sizes, parts)
    return result


def sets() -> dict[str, list[str]]:
    """Named selections of models."""
    return {name: list(names) for name, names in _read()["sets"].items()}


def select(words: Sequence[str] | None, default: str | None = None) -> list[ModelSpec]:
    """Models named by `words` (names, sets, or ``all``); without words those of set `default`, or all.

    Raises
    ------
    ValueError
        A word is neither a model nor a set.
    """
    table, groups = models(), sets()
    if not words:
        words = [default or "all"]
    names: list[str] = []
    for word in words:
        if word == "all":
            names.extend(table)
        elif word in groups:
            names.extend(groups[word])
        elif word in table:
            names.append(word)
        else:
            known = f"models: {', '.join(table)}; sets: {', '.join(groups)}"
            raise ValueError(f"no model or set {word!r}; {known}")
    return [table[name] for name in dict.fromkeys(names)]


def zoo_root() -> Path:
    """Directory of the built models: ``PNNX_FAST_ZOO``, or ``~/.cache/pnnx_fast/zoo``."""
    place = os.environ.get("PNNX_FAST_ZOO")
    return Path(place).expanduser() if place else Path.home() / ".cache" / "pnnx_fast" / "zoo"


def model_directory(name: str, batch: int = 1) -> Path:
    """Directory of one built model; other batch sizes than 1 live beside it."""
    return zoo_root() / (name if batch == 1 else f"{name}-b{batch}")
