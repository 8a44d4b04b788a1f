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

All operator types that run, written by `tools/make_docs.py` from the registry. `pnnx-fast ops nn.Conv2d` prints one of
them.

- **how**: *native* means that float32 runs on compiled kernels or is a mere change of strides, *numpy* a numpy step.
- **dtypes** are those of the inputs that the [stored results](operators_tested.md) cover. Others may work, too.
- **inputs and parameters**: inputs come first, parameters after the star, with their defaults.

| type | how | dtypes | source | inputs and parameters | what |
|---|---|---|---|---|---|
"""


def row(name: str) -> str:
    """Return one line of the table."""
    definition = registry.require(name)
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
    return definition is not None and definition.own


PASSES_HEAD = """# Simplifications by name

`graph.simplify()` turns a graph into what PNNX's converter would have written at its full optimisation level. Use it on
files made with `optlevel=1`, on files of other tools, or after editing. It needs no PyTorch. Running a model does not
need it: this is for files that others read, and for people who read them.

```python
import pnnx_fast

graph = pnnx_fast.Graph.load("model.pnnx.param")
graph.simplify()  # all passes that are not marked "asked"
graph.simplify(["fuse_silu", "eliminate_dropout"])  # some
graph.save("simple.pnnx.param")
```

It repeats the passes until none changes anything, and returns how often each one did. At the command line:

```bash
pnnx-fast edit model.pnnx.param simple.pnnx.param --simplify
pnnx-fast edit model.pnnx.param simple.pnnx.param --simplify fuse_silu,eliminate_dropout
```

- Sizes that the file records as fixed count as fixed. Call [`make_dynamic`](editing.md#sizes-and-types) first for
  others. Those that depend on data, of which a file records the converter's own run, are noted as free.
- The names are PNNX's. Its passes `fuse_transformers_*` have no counterpart; the passes without that word match these
  patterns, too.
- Passes marked *asked* run only when named.
- PNNX has two scales: its option `optlevel` (0 to 2), and the levels of its passes (0 to 5), which the table shows.
- `pnnx_fast.simplify.PASSES[name].rules` holds the patterns of the passes that are made of rules, to copy from.
- PNNX's `optlevel=0` gives all constants of a module one name. This package tells them apart by their order. PNNX
  itself goes by name, and would read the last one for all.

| pass | pass level | what |
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
