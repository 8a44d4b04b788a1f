"""The architecture as a test: who may import whom, no Python in the C core, no ISA leaks, no oversized files."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "pnnx_fast"

ALLOWED: dict[str, set[str]] = {
    "errors": set(),
    "_types": set(),
    "_collector": set(),
    "_files": {"errors"},
    "_memory": {"errors", "_types"},
    "_warning": set(),
    "_core": {"errors"},
    "expression": {"_core", "errors", "_types"},
    "ir": {"_core", "errors", "_types", "_collector", "_memory", "expression"},
    "formats": {"_core", "errors", "_types", "_collector", "_files", "_memory", "expression", "ir"},
    "ops": {"_core", "errors", "_types", "_memory", "expression", "ir"},
    "passes": {"errors", "_types", "_warning", "expression", "ir"},
    "runtime": {
        *("_core", "errors", "_types", "_collector", "_files", "_memory", "_warning"),
        *("expression", "ir", "ops", "passes"),
    },
    "simplify": {"_core", "errors", "_types", "expression", "ir", "passes", "runtime"},
    "edit": {"errors", "_types", "_warning", "expression", "ir", "ops", "passes", "runtime", "simplify"},
    "runtime_graph": {"errors", "_types", "expression", "ir", "ops", "runtime"},
    "ncnn": {"_core", "errors", "_types", "_memory", "_warning", "ir", "formats", "ops", "runtime"},
    "native_abi": {"errors"},
    "native": {"errors", "_types", "native_abi", "ir", "ops"},
    "demo": {"_types"},
}
"""Package -> packages that it may import, in functions, too. What is not listed (cli, the root) may import all."""

LATE: dict[str, set[str]] = {
    # Graphs have methods `load`, `save` and those that edit them, for people; packages of this one do without them.
    "ir/codec.py": {"formats"},
    "ir/editing.py": {"edit"},
    # The version, and where the package lies.
    "runtime/autotune.py": {"__init__"},
    "runtime/cache.py": {"__init__"},
    "native.py": {"__init__"},
}
"""Files -> what they import besides, against the direction."""


def test_every_package_has_a_layer() -> None:
    names = {path.stem for path in PACKAGE.iterdir() if path.suffix == ".py" or path.is_dir()}
    assert names - {"__pycache__"} == ALLOWED.keys() | {"cli", "__init__", "__main__"}


def _named(node: ast.AST) -> list[str]:
    """Modules and names in them that a statement imports, or a call of ``import_module`` with a plain string."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        assert node.module is not None, "imports are absolute"
        return [f"{node.module}.{alias.name}" for alias in node.names]
    if isinstance(node, ast.Call) and "import_module" in ast.unparse(node.func):
        return [str(a.value) for a in node.args[:1] if isinstance(a, ast.Constant)]
    return []


def _imports(node: ast.AST) -> set[str]:
    """Names below ``pnnx_fast`` that are imported anywhere but under ``if TYPE_CHECKING``; itself is ``__init__``."""
    found = {(name.split(".") + ["__init__"])[1] for name in _named(node) if f"{name}.".startswith("pnnx_fast.")}
    if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
        return found.union(*map(_imports, node.orelse))
    return found.union(*map(_imports, ast.iter_child_nodes(node)))


def _cython_imports(text: str) -> set[str]:
    return set(re.findall(r"^ *(?:from|import|cimport) +pnnx_fast\.(\w+)", text, re.MULTILINE))


@pytest.mark.parametrize("layer", ALLOWED)
def test_imports_point_one_way(layer: str) -> None:
    home = PACKAGE / layer
    files = sorted(home.rglob("*.p[yx]*")) if home.is_dir() else [home.with_suffix(".py")]
    for path in files:
        if path.suffix not in (".py", ".pyx", ".pxi"):
            continue
        text, name = path.read_text("utf-8"), path.relative_to(PACKAGE).as_posix()
        found = _imports(ast.parse(text)) if path.suffix == ".py" else _cython_imports(text)
        late = LATE.get(name, set())
        assert found - ALLOWED[layer] - {layer} == late, f"{name} must not import these, or need not be listed: {late}"


def test_imports_in_functions_are_seen() -> None:
    text = """
        import os, pnnx_fast.a
        if TYPE_CHECKING:
            from pnnx_fast.b import B
        else:
            from pnnx_fast.c import C
        def f():
            from pnnx_fast import d
            return lambda: importlib.import_module("pnnx_fast.e.f")
        class G:
            import pnnx_fast
    """
    assert _imports(ast.parse(textwrap.dedent(text))) == {"a", "c", "d", "e", "__init__"}
    assert _cython_imports("from pnnx_fast.a import A\ncdef f():\n    import pnnx_fast.b\n") == {"a", "b"}


def test_core_is_free_of_python() -> None:
    for path in (ROOT / "csrc").rglob("*.[ch]"):
        assert "Python.h" not in path.read_text("utf-8"), path


def test_only_the_team_knows_threads() -> None:
    for path in (ROOT / "csrc").rglob("*.[ch]"):
        if not path.name.startswith("team_"):
            assert not re.search(r"omp\.h|pthread\.h|#\s*pragma\s+omp", path.read_text("utf-8")), path


@pytest.mark.parametrize("suffix", ["py", "pyx", "pxi", "c", "h", "def"])
def test_files_stay_small(suffix: str) -> None:
    for folder in ("pnnx_fast", "csrc", "tests", "benchmarks"):
        for path in (ROOT / folder).rglob(f"*.{suffix}"):
            lines = path.read_text("utf-8").count("\n")
            assert lines <= 500, f"{path.relative_to(ROOT)} has {lines} lines"


def test_functions_fit_a_screen() -> None:
    for folder in ("pnnx_fast", "benchmarks", "tests", "tools"):
        for path in (ROOT / folder).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text("utf-8"))):
                if isinstance(node, ast.FunctionDef) and node.end_lineno is not None:
                    text = node.body[0] if ast.get_docstring(node) is not None else None
                    documented = text.end_lineno - text.lineno + 1 if text is not None and text.end_lineno else 0
                    lines = node.end_lineno - node.lineno + 1 - documented
                    assert lines <= 60, (
                        f"{node.name} in {path.relative_to(ROOT)} has {lines} lines without its docstring"
                    )


def test_modules_of_tests_have_names_of_their_own() -> None:
    names = [p.name for p in (ROOT / "tests").rglob("*.py") if p.name != "conftest.py"]
    assert sorted(names) == sorted(set(names))


@pytest.mark.skipif(shutil.which("objdump") is None, reason="objdump is not installed")
@pytest.mark.parametrize("level", [("generic", r"%[yz]mm"), ("avx2", r"%zmm")])
def test_objects_hold_no_newer_instructions(level: tuple[str, str]) -> None:
    isa, forbidden = level
    objects = sorted((ROOT / "build").rglob(f"pf_kernels_{isa}.dir/**/*.o"))
    if not objects:
        pytest.skip("no build folder here")
    for path in objects:
        listing = subprocess.run(["objdump", "-d", path], capture_output=True, text=True, check=True).stdout
        assert not re.search(forbidden, listing), path.name
