"""Writes docs/operators.md from the operator registry; with --check, only says whether it is up to date."""

from __future__ import annotations

import inspect
import sys
from pathlib import Path

from pnnx_fast.ops import registry

TARGET = Path(__file__).parents[1] / "docs" / "operators.md"

HEAD = """# Operators

Written by `tools/make_docs.py` from the registry. *native*: float32 runs on compiled kernels or is a mere change of
strides; *numpy*: a numpy step. Inputs come first, parameters after the star, with their defaults.

| type | how | inputs and parameters | what |
|---|---|---|---|
"""


def row(name: str) -> str:
    """Return one line of the table."""
    definition = registry.find(name)
    assert definition is not None
    parts = []
    star = False
    for key, parameter in definition.parameters.items():
        if parameter.kind is parameter.KEYWORD_ONLY and not star and definition.variadic is None:
            parts.append("\\*")
            star = True
        text = f"\\*{key}" if parameter.kind is parameter.VAR_POSITIONAL else key
        if parameter.default is not inspect.Parameter.empty:
            text += f"={parameter.default}"
        parts.append(text.replace("|", "\\|"))
    how = "native" if definition.native else "numpy"
    return f"| {name} | {how} | {', '.join(parts)} | {definition.summary.replace('|', chr(92) + '|')} |\n"


def render() -> str:
    """Return the whole page."""
    return HEAD + "".join(row(name) for name in registry.types() if _is_ours(name))


def _is_ours(name: str) -> bool:
    definition = registry.find(name)
    return definition is not None and definition.function.__module__.startswith("pnnx_fast.")


if __name__ == "__main__":
    text = render()
    if "--check" in sys.argv:
        sys.exit(0 if TARGET.exists() and TARGET.read_text("utf-8") == text else "docs/operators.md is out of date")
    TARGET.write_text(text, "utf-8")
