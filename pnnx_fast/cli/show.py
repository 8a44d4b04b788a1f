"""Print a model, or draw it as SVG, HTML or Graphviz text."""

from __future__ import annotations

import argparse
from pathlib import Path

from pnnx_fast.cli.arguments import add_bin, add_model, add_size, graph_alone
from pnnx_fast.cli.arrays import given_sizes


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

    graph = graph_alone(args.model, args.bin)
    sizes = given_sizes([x.name for x in graph.inputs], args.size)
    if sizes:
        graph.infer_shapes(sizes)
    pictures = {"svg": dot.svg, "html": lambda g: dot.html(g, Path(args.model).name), "dot": dot.dot}
    drawn = False
    for kind, draw in pictures.items():
        path = getattr(args, kind)
        if path is not None:
            Path(path).write_text(draw(graph) + "\n", "utf-8")
            drawn = True
    if not drawn:
        print(graph)
        statistics = graph.statistics()
        print(f"\n{statistics.table()}\n\n{statistics}")
    return 0
