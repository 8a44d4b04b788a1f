"""Compare the structure and weights of two models. Exit code: 0 equal, 1 different, 2 one cannot be read."""

from __future__ import annotations

import argparse

import pnnx_fast
from pnnx_fast.cli.arguments import add_model


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``pnnx-fast diff``."""
    add_model(parser, "first")
    add_model(parser, "second", help="the other model")
    parser.add_argument("-q", "--quiet", action="store_true", help="print nothing, only set the exit code")


def run(args: argparse.Namespace) -> int:
    """Carry out ``pnnx-fast diff``."""
    first, second = (pnnx_fast.Graph.load(path) for path in (args.first, args.second))
    lines = first.diff(second)
    if not args.quiet:
        for line in lines:
            print(line)
    return 1 if lines else 0
