"""Reads manifest.toml and knows where the zoo's files are; used by every command; imports no engine."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

__all__ = ["ModelSpec", "model_directory", "models", "select", "sets", "zoo_root"]

_PATH = Path(__file__).with_name("manifest.toml")


@dataclass(frozen=True)
class ModelSpec:
    """One line of the manifest, perhaps at another input size (``name@size``)."""

    name: str
    maker: str
    sizes: dict[str, Any] = field(default_factory=dict)
    parts: tuple[tuple[int, int], ...] = ()
    hidden: bool = False
    revision: int = 1

    @property
    def base(self) -> str:
        """Name without the size: what the weights depend on."""
        return self.name.partition("@")[0]

    def resized(self, size: int) -> ModelSpec:
        """The same model and weights with pictures of another size."""
        if "picture" not in self.sizes:
            raise ValueError(f"{self.name} takes no pictures, so it has no other size")
        return replace(self, name=f"{self.base}@{size}", sizes={**self.sizes, "picture": size})


def _read() -> dict[str, Any]:
    return tomllib.loads(_PATH.read_text(encoding="utf-8"))


def models() -> dict[str, ModelSpec]:
    """All models, in the order in which they are built and listed."""
    result = {}
    for name, row in _read()["models"].items():
        sizes = {key: value for key, value in row.items() if key not in ("maker", "parts", "hidden", "revision")}
        parts = tuple((int(first), int(last)) for first, last in row.get("parts", ()))
        result[name] = ModelSpec(name, row["maker"], sizes, parts, row.get("hidden", False), row.get("revision", 1))
    return result


def sets() -> dict[str, list[str]]:
    """Named selections of models."""
    return {name: list(names) for name, names in _read()["sets"].items()}


def select(words: Sequence[str] | None, default: str = "all") -> list[ModelSpec]:
    """Models named by `words`: names, ``name@size``, sets, or ``all``; without words those of `default`.

    Raises
    ------
    ValueError
        A word is neither a model nor a set.
    """
    table, groups = models(), sets()
    groups["all"] = [name for name, spec in table.items() if not spec.hidden]
    chosen: dict[str, ModelSpec] = {}
    for word in words or [default]:
        base, _, size = word.partition("@")
        if word not in groups and base not in table:
            known = f"models: {', '.join(groups['all'])}; sets: {', '.join(groups)}"
            raise ValueError(f"no model or set {word!r}; {known}")
        if size and not size.isdigit():
            raise ValueError(f"{word!r}: the size after '@' must be a whole number")
        for name in groups.get(word, [base]):
            spec = table[name].resized(int(size)) if size else table[name]
            chosen[spec.name] = spec
    return list(chosen.values())


def zoo_root() -> Path:
    """Directory of the built models: ``PNNX_FAST_ZOO``, or ``~/.cache/pnnx_fast/zoo``."""
    place = os.environ.get("PNNX_FAST_ZOO")
    return Path(place).expanduser() if place else Path.home() / ".cache" / "pnnx_fast" / "zoo"


def model_directory(name: str, batch: int = 1) -> Path:
    """Directory of one built model; other batch sizes than 1 live beside it."""
    return zoo_root() / (name if batch == 1 else f"{name}-b{batch}")
