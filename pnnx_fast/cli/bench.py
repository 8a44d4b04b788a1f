"""Time a model, whole or step by step, at several thread counts and batch sizes."""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable

import pnnx_fast
from pnnx_fast._core import program as core
from pnnx_fast.cli.arrays import random_inputs


def _counts(text: str) -> list[int]:
    try:
        values = [int(part) for part in text.split(",")]
    except ValueError:
        values = []
    if not values or min(values) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a comma-separated list of positive numbers")
    return values


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``pnnx-fast bench``."""
    parser.add_argument("model", help=".pnnx.param file, or a folder that holds one")
    parser.add_argument("--bin", help="weights, by default the .bin beside the .param")
    parser.add_argument("--threads", type=_counts, default=None, help="e.g. 1,2; by default all CPUs")
    parser.add_argument("--batch", type=_counts, default=None, help="batch sizes, e.g. 1,8; by default as recorded")
    parser.add_argument("--seconds", type=float, default=1.0, help="time spent on each combination")
    parser.add_argument("--isa", choices=core.ISAS, help="instruction set level")
    parser.add_argument("--profile", action="store_true", help="also print the time of every step")


def run(args: argparse.Namespace) -> int:
    """Carry out ``pnnx-fast bench``."""
    graph = pnnx_fast.Graph.load(args.model, args.bin)
    print(f"{'threads':>7} {'batch':>6} {'median ms':>10} {'best ms':>10} {'per item ms':>12} {'runs':>6}")
    for threads in args.threads or [core.default_threads()]:
        model = pnnx_fast.Model(graph, threads, isa=args.isa)
        for batch in args.batch or [None]:
            arrays = random_inputs(model, batch)
            if sys.stderr.isatty():
                print(f"running with {threads} thread(s) …", end="\r", file=sys.stderr)
            times = measure(lambda m=model, a=arrays: m(*a), args.seconds)  # type: ignore[misc]
            items = arrays[0].shape[0] if arrays and arrays[0].ndim else 1
            middle, best = statistics.median(times) * 1e3, min(times) * 1e3
            print(f"{threads:7} {items:6} {middle:10.3f} {best:10.3f} {middle / max(items, 1):12.3f} {len(times):6}")
            if args.profile:
                print(model.profile(*arrays))
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
