"""List the operator types that run, or describe one."""

from __future__ import annotations

import argparse
import ast
import difflib
import inspect
import re
import sys
import textwrap
from collections.abc import Iterator, Mapping
from types import FunctionType

from pnnx_fast._core import program
from pnnx_fast.ops import registry
from pnnx_fast.ops._conv_choice import Choice
from pnnx_fast.ops.plugins import load_plugins
from pnnx_fast.ops.signature import EMPTY, OPEN, POSITIONAL, VARIADIC

_WORDS = {POSITIONAL: "tensor", VARIADIC: "tensors", OPEN: "weights"}
"""What parameters of a function are, by kind; those that are only given by name are parameters of the operator."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``pnnx-fast ops``."""
    parser.add_argument("type", nargs="?", help="an operator type such as nn.Conv2d")


def run(args: argparse.Namespace) -> int:
    """Carry out ``pnnx-fast ops``."""
    if args.type is None:
        load_plugins()
        for name in registry.types():
            found = registry.find(name)
            assert found is not None
            print(f"{name:40} {_by(found):8} {found.summary}")
        return 0
    found = registry.find(args.type)
    if found is None:
        load_plugins()
        found = registry.find(args.type)
    if found is None:
        near = difflib.get_close_matches(args.type, registry.types(), 3)
        hint = f"; there are {', '.join(near)}" if near else ""
        print(f"pnnx-fast: no function is registered for {args.type}{hint}", file=sys.stderr)
        return 1
    print(f"{args.type}: {found.summary}")
    print(f"run by    {_by(found)} code, {found.function.__module__}.{found.function.__name__}")
    kernels = kernels_of(found)
    if kernels:
        print(f"kernels   {', '.join(kernels)}")
    for key, parameter in found.parameters.items():
        default = "" if parameter.default is EMPTY else f" = {parameter.default!r}"
        print(f"{_WORDS.get(parameter.kind, 'parameter'):10}{key}{default}")
    return 0


def _by(found: registry.OperatorDef) -> str:
    return "compiled" if found.native else "numpy"


def kernels_of(found: registry.OperatorDef) -> list[str]:
    """Names of kernels in the code of an operator and of the functions of the package that it may call.

    Which of them runs is decided by shapes and dtypes; a profile of a model tells (``pnnx-fast bench``).
    """
    patterns: set[str] = set()
    seen: set[object] = set()
    stack: list[object] = [found.function]
    while stack:
        item = stack.pop()
        if isinstance(item, str):
            patterns.add(re.escape(item))
        elif isinstance(item, Mapping):
            stack += item.values()
        elif isinstance(item, tuple | list | set | frozenset):
            stack += item
        elif isinstance(item, Choice):
            stack += [item.kernel, item.pack]
        elif isinstance(item, FunctionType) and item not in seen and item.__module__.startswith("pnnx_fast.ops"):
            seen.add(item)
            stack += [cell.cell_contents for cell in item.__closure__ or ()]
            stack += [item.__globals__.get(name) for name in item.__code__.co_names]
            patterns.update(_words(item))
    known = [re.compile(p) for p in patterns if len(p.replace(".*", "")) > 2]
    return sorted(name for name in program.KERNELS if any(p.fullmatch(name) for p in known))


def _words(function: FunctionType) -> Iterator[str]:
    """Texts in a function's source as patterns, with a gap where a formatted text has a value."""
    for node in ast.walk(ast.parse(textwrap.dedent(inspect.getsource(function)))):
        if isinstance(node, ast.JoinedStr):
            parts = (str(v.value) if isinstance(v, ast.Constant) else None for v in node.values)
            yield "".join(".*" if part is None else re.escape(part) for part in parts)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield re.escape(node.value)
