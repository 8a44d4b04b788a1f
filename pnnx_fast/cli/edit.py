"""Change a model and write it: cut out a part, rename, set the batch, free sizes, simplify, convert weights."""

from __future__ import annotations

import argparse
import os
import sys

import pnnx_fast
from pnnx_fast import edit
from pnnx_fast.cli.arguments import add_bin, add_model, add_size, names, positive
from pnnx_fast.cli.arrays import given_sizes
from pnnx_fast.edit.weights import float_type
from pnnx_fast.errors import ParameterError
from pnnx_fast.ir.dtypes import FLOATS


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``pnnx-fast edit``."""
    add_model(parser)
    add_bin(parser)
    parser.add_argument("output", help=".pnnx.param file to write")
    parser.add_argument(
        "--from", dest="start", type=names, metavar="OPERAND,…", help="keep a part: operands that become its inputs"
    )
    parser.add_argument(
        "--to", dest="end", type=names, metavar="OPERAND,…", help="keep a part: operands that become its outputs"
    )
    parser.add_argument(
        "--remove", action="append", default=[], metavar="OPERATOR", help="take an operator out (may be repeated)"
    )
    parser.add_argument(
        "--rename",
        action="append",
        default=[],
        metavar="OLD=NEW",
        help="rename an operand or an operator (may be repeated)",
    )
    parser.add_argument("--batch", type=positive, metavar="N", help="set the batch size of all inputs")
    parser.add_argument("--dynamic", metavar="INPUT:AXIS,…", help="free the sizes of axes, e.g. 0:0,0:2; or: batch")
    add_size(parser)
    parser.add_argument(
        "--simplify",
        nargs="?",
        const=(),
        type=_passes,
        metavar="PASS,…",
        help="run PNNX's simplifications: all, or those named (without names it comes after the files)",
    )
    parser.add_argument(
        "--dtype", type=_dtype, metavar="TYPE", help=f"store the weights as {', '.join(FLOATS)} (or float16, fp16, …)"
    )
    parser.add_argument(
        "--constants", action="store_true", help="with --dtype: convert constants between operators, too"
    )


def run(args: argparse.Namespace) -> int:
    """Carry out ``pnnx-fast edit``."""
    if args.constants and args.dtype is None:
        raise argparse.ArgumentTypeError("--constants goes with --dtype")
    graph = pnnx_fast.Graph.load(args.model, args.bin)
    if args.start or args.end:
        start = args.start or [x.name for x in graph.inputs]
        end = args.end or [x.name for x in graph.outputs]
        graph = graph.extract(start, end)
    for name in args.remove:
        edit.remove(graph, name)
    for pair in args.rename:
        old, sign, new = pair.partition("=")
        if not sign:
            raise argparse.ArgumentTypeError(f"--rename wants OLD=NEW, not {pair!r}")
        edit.rename(graph, old, new)
    fixed = _set_sizes(graph, args)
    for name in fixed:
        print(f"pnnx-fast: the sizes of {name} stay fixed", file=sys.stderr)
    if args.simplify is not None:
        graph.simplify(args.simplify or None)
    if args.dtype is not None:
        graph = graph.to(args.dtype, args.constants)
    graph.save(args.output)
    return 0


def _set_sizes(graph: pnnx_fast.Graph, args: argparse.Namespace) -> list[str]:
    """Set the batch, free sizes, or only fill in all that follow from those given; names of what stays fixed."""
    sizes = given_sizes([x.name for x in graph.inputs], args.size)
    fixed: list[str] = []
    if args.batch is not None:
        fixed += graph.change_batch(args.batch, shapes=sizes)
        sizes = {}
    if args.dynamic is not None:
        fixed += graph.make_dynamic(_axes(args.dynamic), sizes)
    elif sizes:
        graph.infer_shapes(sizes)
    return fixed


def _passes(text: str) -> list[str]:
    """What follows --simplify; a file there is meant as the model."""
    if os.sep in text or text.endswith(".param"):
        raise argparse.ArgumentTypeError(f"there is no pass {text!r}; without names --simplify comes after the files")
    return names(text)


def _dtype(text: str) -> str:
    try:
        return float_type(text)
    except ParameterError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _axes(text: str) -> dict[str, list[int]] | None:
    if text == "batch":
        return None
    axes: dict[str, list[int]] = {}
    for item in text.split(","):
        name, _, axis = item.rpartition(":")
        if not name or not axis.removeprefix("-").isdecimal():
            raise argparse.ArgumentTypeError(f"--dynamic wants INPUT:AXIS or batch, not {item!r}")
        axes.setdefault(name, []).append(int(axis))
    return axes
