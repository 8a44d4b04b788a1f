"""What the stored results of operators cover: the page docs/operators_tested.md and a column of docs/operators.md."""

from __future__ import annotations

import importlib
import sys
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from pnnx_fast.ir.dtypes import by_numpy

ROOT = Path(__file__).parents[1]

HEAD = """# What the stored results cover

Written by `tools/make_docs.py` from `tests/ops/goldens`: results of PyTorch that every test run compares with. One
line for each type: dtypes and ranks of the inputs, and the values that each parameter takes. Types that are random or
have no PyTorch function are tested elsewhere; `tests/ops/test_registry_is_tested.py` names those tests.

| type | cases | inputs | parameters |
|---|---|---|---|
"""


@cache
def goldens() -> dict[str, list[dict[str, Any]]]:
    """Stored cases by type."""
    folder = str(ROOT / "tests" / "ops")
    sys.path.insert(0, folder)
    try:
        store = importlib.import_module("golden_store")
    finally:
        sys.path.remove(folder)
    found: dict[str, list[dict[str, Any]]] = {}
    for entry in store.read():
        found.setdefault(entry["kind"], []).append(entry)
    return found


def _arrays(value: Any) -> list[np.ndarray]:
    if isinstance(value, np.ndarray):
        return [value]
    return [a for v in value for a in _arrays(v)] if isinstance(value, list) else []


def _inputs(entry: dict[str, Any]) -> list[np.ndarray]:
    return _arrays(entry.get("inputs", entry.get("args")))


def dtypes_of(name: str) -> str:
    """Dtypes of the inputs of a type's cases."""
    return " ".join(sorted({by_numpy[a.dtype.name].text for e in goldens().get(name, []) for a in _inputs(e)}))


def _row(name: str) -> str:
    entries = goldens()[name]
    shapes = {", ".join(f"{by_numpy[a.dtype.name].text} {a.ndim}d" for a in _inputs(e)) or "none" for e in entries}
    values: dict[str, set[str]] = {}
    for entry in entries:
        for key, value in entry.get("params", []):
            values.setdefault(key, set()).add(str(value))
        if "args" in entry:
            plain = [str(v) for v in entry["args"] if not _arrays(v)]
            values.setdefault("by position", set()).add(", ".join(plain) or "none")
    text = "; ".join(f"{k} = {' / '.join(sorted(v))}" for k, v in sorted(values.items()))
    cells = (name, str(len(entries)), " / ".join(sorted(shapes)), text)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n"


def render_tested() -> str:
    """Return the page about tests."""
    return HEAD + "".join(map(_row, sorted(goldens())))
