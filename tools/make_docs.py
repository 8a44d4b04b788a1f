"""Writes the generated pages in docs; with --check, only says whether they are up to date."""

from __future__ import annotations

import inspect
import sys
from pathlib import Path

from pnnx_fast.ops import registry
from pnnx_fast.simplify import PASSES

sys.path.insert(0, str(Path(__file__).parent))
from tested_page import dtypes_of, render_tested  # type: ignore[import-not-found]

DOCS = Path(__file__).parents[1] / "docs"

HEAD = """# Operators

Written by `tools/make_docs.py` from the registry. *native*: float32 runs on compiled kernels or is a mere change of
strides; *numpy*: a numpy step. *dtypes* are those of the inputs that the [stored results](operators_tested.md) cover.
Inputs come first, parameters after the star, with their defaults.

| type | how | dtypes | source | inputs and parameters | what |
|---|---|---|---|---|---|
"""


def row(name: str) -> str:
    """Return one line of the table."""
    definition = registry.find(name)
    assert definition is not None
    parts = []
    star = False
    for key, parameter in definition.parameters.items():
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY and not star and definition.variadic is None:
            parts.append("\\*")
            star = True
        text = f"\\*{key}" if parameter.kind is inspect.Parameter.VAR_POSITIONAL else key
        if parameter.default is not inspect.Parameter.empty:
            text += f"={parameter.default}"
        parts.append(text.replace("|", "\\|"))
    how = "native" if definition.native else "numpy"
    source = definition.function.__module__.replace("pnnx_fast.ops.", "") + ".py"
    summary = definition.summary.replace("|", "\\|")
    return f"| {name} | {how} | {dtypes_of(name)} | {source} | {', '.join(parts)} | {summary} |\n"


def render() -> str:
    """Return the whole page."""
    return HEAD + "".join(row(name) for name in registry.types() if _is_ours(name))


def _is_ours(name: str) -> bool:
    definition = registry.find(name)
    return definition is not None and definition.function.__module__.startswith("pnnx_fast.")


PASSES_HEAD = """# Simplifications by name

`graph.simplify()` makes of a graph what PNNX's converter would have written at its full optimisation level: from
files of level 1, from other tools, or after editing. It needs no PyTorch. `graph.simplify(["fuse_silu", …])` runs
some of the passes below until none changes anything, and returns how often each one did; on the command line,
`pnnx-fast edit a.pnnx.param b.pnnx.param --simplify fuse_silu,eliminate_dropout`.

Sizes that the file records as fixed count as fixed; call `make_dynamic` first for others. Passes marked *asked* run
only when named. The patterns of PNNX's passes for models of the transformers package are covered by the passes
without that word in their name. The names are PNNX's. `pnnx_fast.simplify.PASSES[name].rules` holds the patterns of
those that are made of rules, to copy from. Operators run here whether simplified or not: this is for files that
others read, and for people who read them.

PNNX's level 0 calls all constants of a module by one name. They are told apart here by their order, but PNNX itself,
which looks for names, reads the last one for all.

| pass | level | what |
|---|---|---|
"""


def render_passes() -> str:
    """Return the page of the simplifications."""
    rows = (f"| {p.name} | {p.level}{', asked' if p.asked else ''} | {p.summary} |\n" for p in PASSES.values())
    return PASSES_HEAD + "".join(rows)


PAGES = {"operators.md": render, "operators_tested.md": render_tested, "simplify.md": render_passes}
"""Each generated page of docs, and what makes its text."""

if __name__ == "__main__":
    for page, make in PAGES.items():
        text = make()
        target = DOCS / page
        if "--check" not in sys.argv:
            target.write_text(text, "utf-8")
        elif not target.exists() or target.read_text("utf-8") != text:
            sys.exit(f"docs/{page} is out of date")
