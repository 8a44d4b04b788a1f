"""What a call costs when there is next to nothing to compute: from Python, and for each step inside."""

from __future__ import annotations

import argparse

from benchmarks import peers, report
from benchmarks.engines import OURS
from benchmarks.manifest import select

__all__ = ["add_arguments", "main"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--threads", default="1,2", help="numbers of threads (default: 1,2)")
    parser.add_argument("--peers", help="other engines (default: all but torch.compile)")
    parser.add_argument("--rounds", type=int, default=5, help="rounds of bursts (default: 5)")
    parser.add_argument("--nice", type=int, default=0, help="priority of bursts, below 0 needs rights")


def main(options: argparse.Namespace) -> int:
    """``python -m benchmarks overhead``: one operator, many, and what one more of them costs."""
    names = peers.chosen_engines(options.peers, ["torch.compile"])
    one, many = select(["overhead"])
    peers.ensure([one, many], [1])
    settings = peers.Settings(options.rounds, 0.3, least_calls=100, nice=options.nice)
    rows = []
    for threads in peers.numbers(options.threads):
        single = peers.measure(one, 1, threads, names, settings)
        chain = peers.measure(many, 1, threads, names, settings)
        steps = many.sizes["length"]
        both = [single.row(("1", str(threads))), chain.row((str(steps), str(threads)))]
        first, last = (row.values for row in both)
        step = {n: (last[n] - first[n]) / (steps - 1) for n in names if n in first and n in last}
        rows += [*both, report.Row(("each further one", str(threads)), step)]
    heads = ("operators", "threads")
    print(report.markdown(rows, heads, names, OURS, lambda seconds: f"{seconds * 1e6:.2f}"))
    print("Medians in µs. " + peers.describe(peers.environment()))
    return 0
