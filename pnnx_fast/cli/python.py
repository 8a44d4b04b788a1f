"""Write a model as the source of a PyTorch module."""

from __future__ import annotations

import argparse
from pathlib import Path

import pnnx_fast
from pnnx_fast.cli.arguments import add_model


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``pnnx-fast python``."""
    add_model(parser)
    parser.add_argument("-o", "--output", metavar="FILE", help="the .py file, by default beside the model")


def run(args: argparse.Namespace) -> int:
    """Carry out ``pnnx-fast python``."""
    source = Path(args.model)
    graph = pnnx_fast.Graph.load(source)
    if args.output is None:
        name = source.name.removesuffix(".param").replace(".", "_") + ".py"
        target = source / "model.py" if source.is_dir() else source.with_name(name)
    else:
        target = Path(args.output)
    weights = source.with_suffix(".bin")
    graph.python(target, weights if source.is_file() and weights.exists() else None)
    print(target)
    return 0
