"""Run a model on arrays or pictures.

Prints a summary of every output, or the best classes with ``--top``; writes arrays with ``--output``.
"""

from __future__ import annotations

import argparse
import math
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import pnnx_fast
from pnnx_fast._types import Array
from pnnx_fast.cli.arguments import (
    add_autotune,
    add_bin,
    add_isa,
    add_model,
    add_size,
    add_threads,
    natural,
    numbers,
    positive,
)
from pnnx_fast.cli.arrays import given_sizes, is_picture, load_inputs, random_inputs
from pnnx_fast.formats.atomic import AtomicFiles
from pnnx_fast.ir.outputs import flat


def _target(text: str) -> Path:
    if Path(text).suffix not in (".npy", ".npz"):
        raise argparse.ArgumentTypeError(f"{text!r} ends neither in .npy nor in .npz")
    if not Path(text).parent.is_dir():
        raise argparse.ArgumentTypeError(f"there is no folder {str(Path(text).parent)!r}")
    return Path(text)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``pnnx-fast run``."""
    add_model(parser)
    add_bin(parser)
    parser.add_argument(
        "--input",
        action="append",
        default=[],
        metavar="FILE",
        help=".npy, .npz (by the names of inputs) or a picture (resized where the input's height and width are known), "
        "once for each input; without it, random numbers",
    )
    add_size(parser)
    parser.add_argument(
        "--output", type=_target, metavar="FILE", help="write the outputs: .npy for a single one, .npz for several"
    )
    parser.add_argument("--labels", metavar="FILE", help="text file with one class name a line")
    parser.add_argument(
        "--top",
        type=positive,
        metavar="N",
        help="print the N best classes of the first output, for each item of a batch",
    )
    add_threads(parser)
    add_isa(parser)
    add_autotune(parser)
    parser.add_argument(
        "--cache", metavar="FOLDER", help="folder that keeps the compiled model, for a quicker next start"
    )
    parser.add_argument(
        "--mean", type=numbers, default=[0.0], help="subtract from a picture's values of 0 to 255, e.g. 104,117,123"
    )
    parser.add_argument("--scale", type=numbers, default=[1.0], help="multiply by after that, e.g. 0.017,0.017,0.017")
    parser.add_argument("--bgr", action="store_true", help="give the channels of a picture as blue, green, red")
    parser.add_argument(
        "--seed", type=natural, default=0, metavar="N", help="seed of random inputs, and of operators that draw numbers"
    )


def run(args: argparse.Namespace) -> int:
    """Carry out ``pnnx-fast run``."""
    if (args.bgr or args.mean != [0.0] or args.scale != [1.0]) and not any(map(is_picture, args.input)):
        raise argparse.ArgumentTypeError("--mean, --scale and --bgr are for pictures, and no --input is one")
    options = {"num_threads": args.threads, "isa": args.isa, "autotune": args.autotune, "seed": args.seed}
    model = pnnx_fast.load(args.model, args.bin, **options, cache=args.cache or False)
    if args.output is not None and args.output.suffix == ".npy" and len(model.outputs) != 1:
        raise argparse.ArgumentTypeError(f"--output: .npy holds one array, the model has {len(model.outputs)} outputs")
    sizes = given_sizes([i.name for i in model.inputs], args.size)
    if args.input:
        arrays = load_inputs(model, args.input, sizes, args)
    else:
        arrays = random_inputs(model, sizes, seed=args.seed)
        print("pnnx-fast: no --input given: running on random numbers", file=sys.stderr)
    results = model.run(dict(zip((i.name for i in model.inputs), arrays, strict=True)))
    named = {name: array for pair in results.items() for name, array in _numbered(*pair)}
    if args.top or args.labels:
        _print_top(np.asarray(next(iter(named.values()), np.empty(0))), args.top or 5, args.labels)
    else:
        for name, value in named.items():
            _print_summary(name, np.asarray(value))
    if args.output is not None:
        _write(args.output, named)
    return 0


def _numbered(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """The arrays of a list with their places behind its name."""
    if not isinstance(value, list | tuple):
        yield name, value
        return
    for i, array in enumerate(flat(value)):
        yield f"{name}.{i}", array


def _print_summary(name: str, value: Array) -> None:
    text = f"{name}: {value.dtype}{list(value.shape)}"
    if value.size and value.dtype.kind in "fiu":
        text += f" min {value.min():.6g} max {value.max():.6g} mean {value.mean():.6g}"
    print(text)


def _print_top(scores: Array, count: int, labels: str | None) -> None:
    """The best classes of every item of a batch."""
    names = Path(labels).read_text("utf-8", "replace").splitlines() if labels else []
    items = scores if scores.ndim > 1 else scores[None]
    rows = items.astype(np.float64).reshape(len(items), math.prod(items.shape[1:]))
    if labels and len(names) != rows.shape[1]:
        print(f"pnnx-fast: {labels} has {len(names)} lines for {rows.shape[1]} classes", file=sys.stderr)
    for number, row in enumerate(rows):
        if len(rows) > 1:
            print(f"item {number}")
        for index in np.argsort(-row, kind="stable")[:count]:
            name = names[index] if index < len(names) else ""
            print(f"{row[index]:10.6f}  {index:5d}  {name}".rstrip())


def _write(path: Path, named: dict[str, Array]) -> None:
    with AtomicFiles() as files:
        file = files.open(path)
        if path.suffix == ".npy":
            np.save(file, next(iter(named.values())))
            return
        # Not by `np.savez`, which has names of its own among its parameters.
        with zipfile.ZipFile(file, "w") as archive:
            for name, value in named.items():
                with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                    np.lib.format.write_array(member, np.asarray(value))
