"""Print a model, or draw it as SVG, HTML or Graphviz text."""

from __future__ import annotations

import argparse

from pnnx_fast._files import model_files
from pnnx_fast.cli.arguments import add_bin, add_model, add_size, graph_alone
from pnnx_fast.cli.arrays import given_sizes
from pnnx_fast.cli.files import require_apart


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``pnnx-fast show``."""
    add_model(parser)
    add_bin(parser)
    add_size(parser)
    for kind, form in (("svg", "as SVG"), ("html", "in an HTML page"), ("dot", "as text for Graphviz")):
        parser.add_argument(f"--{kind}", metavar="FILE", help=f"draw the model {form} instead of printing it")


def run(args: argparse.Namespace) -> int:
    """Carry out ``pnnx-fast show``."""
    from pnnx_fast.formats import dot
    from pnnx_fast.formats.atomic import AtomicFiles

    pictures = {"svg": dot.svg, "html": lambda g: dot.html(g, args.model.name), "dot": dot.dot}
    targets = {kind: path for kind in pictures if (path := getattr(args, kind)) is not None}
    for path in targets.values():
        require_apart(path, model_files(args.model, args.bin))
    graph = graph_alone(args.model, args.bin)
    sizes = given_sizes([x.name for x in graph.inputs], args.size)
    if sizes:
        graph.infer_shapes(sizes)
    with AtomicFiles() as files:
        for kind, path in targets.items():
            files.open(path).write((pictures[kind](graph) + "\n").encode())
    if not targets:
        print(graph)
        statistics = graph.statistics()
        print(f"\n{statistics.table()}\n\n{statistics}")
    return 0
