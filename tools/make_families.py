"""Writes pnnx_fast/ops/families.py, which says what family registers which operator types; --check only compares."""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path

from pnnx_fast.ops import registry
from pnnx_fast.ops.families import FAMILIES

TARGET = Path(__file__).parents[1] / "pnnx_fast" / "ops" / "families.py"

HEAD = '''"""Which family (module of this package) registers which operator types.

With it the registry imports only the families that a model needs. Written by tools/make_families.py.
"""

from __future__ import annotations

__all__ = ["FAMILIES"]

FAMILIES: dict[str, str] = {
'''


def render() -> str:
    """Return the module's text."""
    FAMILIES.clear()  # the old table would have an operator's new module import the one that it has left
    families: dict[str, list[str]] = {}
    for name in registry.types():
        package, _, family = registry.require(name).function.__module__.rpartition(".")
        if package == "pnnx_fast.ops":
            families.setdefault(family, []).append(name)
    lines = [HEAD]
    for family, names in sorted(families.items()):
        text = textwrap.wrap(" ".join(names), 110, break_long_words=False, break_on_hyphens=False)
        lines += [f'    "{family}": """\n', *(f"        {line}\n" for line in text), '    """,\n']
    return "".join([*lines, "}\n"])


if __name__ == "__main__":
    text = render()
    if "--check" in sys.argv:
        sys.exit(0 if TARGET.exists() and TARGET.read_text("utf-8") == text else f"{TARGET} is out of date")
    TARGET.write_text(text, "utf-8")
