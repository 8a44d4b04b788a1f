"""List the operators that can be run, or describe one."""

from __future__ import annotations

import argparse
import inspect
import sys

from pnnx_fast.ops import registry


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``pnnx-fast ops``."""
    parser.add_argument("type", nargs="?", help="an operator type such as nn.Conv2d")


def run(args: argparse.Namespace) -> int:
    """Carry out ``pnnx-fast ops``."""
    if args.type is None:
        for name in registry.types():
            found = registry.find(name)
            assert found is not None
            print(f"{name:40} {_by(found):8} {found.summary}")
        return 0
    found = registry.find(args.type)
    if found is None:
        print(f"pnnx-fast: no function is registered for {args.type}", file=sys.stderr)
        return 1
    print(f"{args.type}: {found.summary}")
    print(f"run by   {_by(found)} code, {found.function.__module__}.{found.function.__name__}")
    for key, parameter in found.parameters.items():
        kind = "tensor" if key in found.slots else "weights" if parameter.kind is parameter.VAR_KEYWORD else "parameter"
        default = "" if parameter.default is inspect.Parameter.empty else f" = {parameter.default!r}"
        print(f"{kind:9}{key}{default}")
    return 0


def _by(found: registry.OperatorDef) -> str:
    return "compiled" if found.native else "numpy"
