"""Arguments that several subcommands take, and the forms of their values.

A fault that only shows when the arguments are seen together is an ``argparse.ArgumentTypeError``, too: ``main`` makes
an exit code of it.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pnnx_fast._core import program
from pnnx_fast._files import param_path
from pnnx_fast.cli.files import model_path

if TYPE_CHECKING:
    from pnnx_fast.ir import Graph

__all__ = [
    "add_autotune",
    "add_bin",
    "add_isa",
    "add_model",
    "add_size",
    "add_threads",
    "duration",
    "graph_alone",
    "names",
    "natural",
    "numbers",
    "positive",
    "positives",
]


def add_model(parser: argparse.ArgumentParser, name: str = "model", **how: Any) -> None:
    """Declare a model as a positional argument; ``how`` goes to argparse."""
    parser.add_argument(name, type=model_path, **{"help": ".pnnx.param file, or a folder that holds one", **how})


def add_bin(parser: argparse.ArgumentParser) -> None:
    """Declare ``--bin``."""
    parser.add_argument("--bin", metavar="FILE", help="weights, by default the .bin beside the .param")


def graph_alone(model: str | os.PathLike[str], bin: str | None) -> Graph:
    """Load a graph for those who look at it; its weights may be missing, as in reports of faults."""
    from pnnx_fast.ir import Graph

    path = Path(param_path(model))
    try:
        return Graph.load(path, bin)
    except FileNotFoundError as error:
        if bin is not None or not path.is_file():
            raise
        print(f"pnnx-fast: there are no weights: {error}", file=sys.stderr)
        return Graph.parse(path.read_text("utf-8", "surrogateescape"))


def add_threads(parser: argparse.ArgumentParser) -> None:
    """Declare ``--threads`` as one number."""
    parser.add_argument("--threads", type=positive, metavar="N", help="number of threads, by default all CPUs")


def add_isa(parser: argparse.ArgumentParser) -> None:
    """Declare ``--isa``."""
    parser.add_argument("--isa", choices=program.ISAS, help="instruction set level, by default the best one")


def add_autotune(parser: argparse.ArgumentParser) -> None:
    """Declare ``--autotune``."""
    parser.add_argument("--autotune", action="store_true", help="measure kernels, use and remember the fastest")


def add_size(parser: argparse.ArgumentParser) -> None:
    """Declare ``--size``, which may be repeated, as pairs of a name (empty without one) and sizes."""
    parser.add_argument(
        "--size",
        action="append",
        type=_named_sizes,
        default=[],
        metavar="[NAME=]N,…",
        help="sizes of an input whose file leaves some free, e.g. 1,3,224,224; with its name where there are several",
    )


def _named_sizes(text: str) -> tuple[str, list[int]]:
    name, _, sizes = text.rpartition("=")
    return name, positives(sizes)


def natural(text: str) -> int:
    """A whole number that is not negative."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 0 up")
    return int(text)


def positive(text: str) -> int:
    """A whole number of at least 1."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive whole number")
    return int(text)


def positives(text: str) -> list[int]:
    """Positive whole numbers, separated by commas."""
    try:
        return [positive(part) for part in text.split(",")]
    except argparse.ArgumentTypeError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a comma-separated list of positive numbers") from None


def duration(text: str) -> float:
    """A number of seconds that is not negative."""
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds from 0 up")
    return seconds


def numbers(text: str) -> list[float]:
    """Finite numbers, separated by commas."""
    try:
        values = [float(part) for part in text.split(",")]
    except ValueError:
        values = [math.nan]
    if not all(map(math.isfinite, values)):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number or a comma-separated list of numbers")
    return values


def names(text: str) -> list[str]:
    """Names, separated by commas."""
    found = text.split(",")
    if not all(found):
        raise argparse.ArgumentTypeError(f"{text!r} is not a name or a comma-separated list of names")
    return found
