"""Write a model as the source of a PyTorch module."""

from __future__ import annotations

import argparse
from pathlib import Path

import pnnx_fast
from pnnx_fast._files import bin_path, param_path
from pnnx_fast.cli.arguments import add_bin, add_model
from pnnx_fast.cli.files import require_apart


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``pnnx-fast python``."""
    add_model(parser)
    add_bin(parser)
    parser.add_argument(
        "-o", "--output", metavar="FILE", help="the .py file, by default X_pnnx_fast.py beside the model"
    )


def run(args: argparse.Namespace) -> int:
    """Carry out ``pnnx-fast python``."""
    source = Path(param_path(args.model))
    graph = pnnx_fast.Graph.load(source, args.bin)
    # The converter's own source, against which one may want to compare, is X_pnnx.py.
    stem = source.name.removesuffix(".param").removesuffix(".pnnx").replace(".", "_")
    target = source.with_name(f"{stem}_pnnx_fast.py") if args.output is None else Path(args.output)
    weights = Path(bin_path(source) if args.bin is None else args.bin)
    require_apart(target, [source, weights])
    graph.python(target, weights if weights.exists() else None)
    print(target)
    return 0
