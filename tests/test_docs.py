"""Examples in documents and docstrings run; generated pages are what the registries say."""

from __future__ import annotations

import doctest
import importlib
import importlib.util
import inspect
import pkgutil
import re
from pathlib import Path

import numpy as np
import pytest

import pnnx_fast

ROOT = Path(__file__).parents[1]
MODULES = [
    name
    for _, name, _ in pkgutil.walk_packages(pnnx_fast.__path__, "pnnx_fast.")
    if not name.endswith("__main__") and not name.startswith("pnnx_fast._core.")
]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("benchmarks/*.md")])
FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS


@pytest.mark.parametrize("name", ["guide.md", "editing.md", "formats.md", "ncnn.md", "extending.md"])
def test_documents(name: str) -> None:
    failed, tried = doctest.testfile(str(ROOT / "docs" / name), module_relative=False, optionflags=FLAGS)
    assert failed == 0
    assert tried > 0


def _anchors(page: Path) -> set[str]:
    """Names by which GitHub knows the headings of a page."""
    heads = re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```", "", page.read_text("utf-8"), flags=re.M | re.S), re.M)
    return {re.sub(r"[^\w -]", "", head.lower()).replace(" ", "-") for head in heads}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text("utf-8")):
        place, _, anchor = target.partition("#")
        if "://" in place:
            continue
        other = (page.parent / place).resolve() if place else page
        assert other.exists(), target
        assert not anchor or anchor in _anchors(other), target


@pytest.mark.parametrize("name", ["pnnx_fast", *MODULES])
def test_docstrings(name: str) -> None:
    module = importlib.import_module(name)
    failed, _ = doctest.testmod(module, optionflags=FLAGS, extraglobs={"np": np, "pnnx_fast": pnnx_fast})
    assert failed == 0


def _of_few_words(name: str) -> bool:
    """Whether it is a question about the machine, or a kind of error: an example would say no more than its line."""
    return name.startswith(("errors.", "ncnn.cpu_", "ncnn.get_", "ncnn.set_", "ncnn.create_gpu", "ncnn.destroy_gpu"))


def test_public_names_have_examples() -> None:
    found = {}
    for name in pnnx_fast.__all__:
        value = getattr(pnnx_fast, name)
        inner = value.__all__ if inspect.ismodule(value) else ()
        found |= {f"{name}.{part}": getattr(value, part) for part in inner} or {name: value}
    found = {name: value for name, value in found.items() if inspect.isclass(value) or inspect.isfunction(value)}
    assert len(found) > 100
    assert [k for k, v in found.items() if not _of_few_words(k) and "Examples" not in (inspect.getdoc(v) or "")] == []


def test_generated_pages_are_up_to_date() -> None:
    spec = importlib.util.spec_from_file_location("make_docs", ROOT / "tools" / "make_docs.py")
    assert spec is not None
    assert spec.loader is not None
    make_docs = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(make_docs)
    for page, make in make_docs.PAGES.items():
        assert (ROOT / "docs" / page).read_text("utf-8") == make(), "run tools/make_docs.py"
