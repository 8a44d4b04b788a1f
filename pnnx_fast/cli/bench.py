"""Time a model at several thread counts and batch sizes, whole or step by step; or time single kernels."""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable

import pnnx_fast
from pnnx_fast._core import program as core
from pnnx_fast.cli import kernel_shapes, kernels
from pnnx_fast.cli.arguments import add_autotune, add_bin, add_isa, add_model, add_size, duration, positives
from pnnx_fast.cli.arrays import given_sizes, random_inputs
from pnnx_fast.runtime.session import default_isa


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``pnnx-fast bench``."""
    add_model(parser, nargs="?")
    add_bin(parser)
    add_autotune(parser)
    parser.add_argument(
        "--threads", type=positives, metavar="N,…", help="numbers of threads, e.g. 1,2; by default all CPUs"
    )
    parser.add_argument("--batch", type=positives, metavar="N,…", help="batch sizes, e.g. 1,8; by default as recorded")
    add_size(parser)
    parser.add_argument(
        "--seconds", type=duration, metavar="N", help="time to spend on each combination (default: 1; kernels: 0.1)"
    )
    add_isa(parser)
    parser.add_argument("--profile", action="store_true", help="also print the time of every step")
    parser.add_argument("--kernels", action="store_true", help="time single kernels; * marks what a model would use")
    parser.add_argument(
        "--shape",
        type=kernel_shapes.parse,
        action="append",
        help=f"with --kernels: an operator such as conv:64x56x56,oc=128,k=3,s=2 or linear:128x768 (may be repeated); "
        f"kinds: {', '.join(kernel_shapes.OPTIONS)}",
    )
    parser.add_argument(
        "--group",
        type=kernel_shapes.of_groups,
        metavar="NAME,…",
        help=f"with --kernels: the shapes of {', '.join(kernel_shapes.GROUPS)} (default: all)",
    )


def run(args: argparse.Namespace) -> int:
    """Carry out ``pnnx-fast bench``."""
    if args.kernels or args.shape or args.group:
        if args.model is not None or args.batch or args.size or args.profile or args.autotune:
            raise argparse.ArgumentTypeError(
                "--kernels, --shape and --group time kernels, without a model, --batch, --size, --profile or --autotune"
            )
        return _run_kernels(args)
    if args.model is None:
        raise argparse.ArgumentTypeError("a model is needed, or --kernels")
    seconds = 1.0 if args.seconds is None else args.seconds
    graph = pnnx_fast.Graph.load(args.model, args.bin)
    sizes = given_sizes([x.name for x in graph.inputs], args.size)
    print(f"{'threads':>7} {'batch':>6} {'median ms':>10} {'best ms':>10} {'per item ms':>12} {'runs':>6}")
    for threads in args.threads or [core.default_threads()]:
        model = pnnx_fast.Model(graph, threads, isa=args.isa, autotune=args.autotune)
        for batch in args.batch or [None]:
            arrays = random_inputs(model, sizes, batch)
            if sys.stderr.isatty():
                print(f"running with {threads} thread(s) …", end="\r", file=sys.stderr)
            times = measure(lambda m=model, a=arrays: m(*a), seconds)  # type: ignore[misc]
            items = arrays[0].shape[0] if arrays and arrays[0].ndim else 1
            middle, best = statistics.median(times) * 1e3, min(times) * 1e3
            print(f"{threads:7} {items:6} {middle:10.3f} {best:10.3f} {middle / max(items, 1):12.3f} {len(times):6}")
            if args.profile:
                print(model.profile(*arrays))
    return 0


def _run_kernels(args: argparse.Namespace) -> int:
    """A line for each algorithm at each shape: rates, share of the measured peak, the dispatcher's choice."""
    isa = args.isa or default_isa()
    seconds = 0.1 if args.seconds is None else args.seconds
    shapes = args.shape or args.group or kernel_shapes.of_groups("all")
    width = max(len(shape.text) for shape in shapes)
    for threads in args.threads or [core.default_threads()]:
        most = kernels.peak(isa, threads)
        print(f"{isa}, {threads} thread(s), peak {most * 1e-9:.0f} GFLOP/s")
        print(f"{'shape':{width}} {'':1} {'algorithm':24} {'ms':>9} {'GFLOP/s':>8} {'of peak':>7} {'GB/s':>7}")
        for shape in shapes:
            for t in kernels.time_shape(isa, threads, shape, seconds):
                rates = f"{t.flops / t.seconds * 1e-9:8.1f} {t.flops / t.seconds / most:7.1%}" if t.flops else " " * 16
                mark, rate = "*" if t.chosen else " ", t.nbytes / t.seconds * 1e-9
                print(f"{t.shape:{width}} {mark} {t.algorithm:24} {t.seconds * 1e3:9.4f} {rates} {rate:7.1f}")
    return 0


def measure(call: Callable[[], object], seconds: float) -> list[float]:
    """Times of repeated calls in seconds, after a warm-up, for about the given time."""
    call()
    times: list[float] = []
    end = time.perf_counter() + seconds
    while not times or time.perf_counter() < end:
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return times
