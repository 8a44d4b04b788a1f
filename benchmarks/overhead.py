"""What a call costs when there is next to nothing to compute: from Python, and for each step inside."""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from statistics import median

import numpy as np

from benchmarks import peers, records, report
from benchmarks.contest import Settings, ensure, measure
from benchmarks.manifest import select
from pnnx_fast._core import program as core

__all__ = ["add_arguments", "main"]

_STEPS = 1000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--threads", default="1,2", help="numbers of threads (default: 1,2)")
    parser.add_argument("--peers", help="other engines (default: those of peers)")
    parser.add_argument("--rounds", type=int, default=5, help="rounds of bursts (default: 5)")
    parser.add_argument("--json", type=Path, help="record of everything measured")
    parser.add_argument("--nice", type=int, default=0, help="priority of bursts, below 0 needs rights")


def _step_cost(threads: int, serial: bool) -> float:
    """Seconds that a step costs which does next to nothing; one that all threads share ends at a barrier."""
    y = np.zeros(16, np.float32)
    fields = {"y": (0, y.__array_interface__["data"][0]), "itemsize": 4, "rank": 1, "shape": (1,), "ys": (1,)}
    steps = [("fill", {**fields, "bits": 0, "bits_high": 0}, serial, False)] * _STEPS
    program = core.Program(core.ISAS[-1], steps, 0, threads)
    times: list[float] = []
    while len(times) < 3 or (sum(times) < 0.3 and len(times) < 200):
        start = time.perf_counter()
        program.run(())
        times.append(time.perf_counter() - start)
    return median(times) / _STEPS


def main(options: argparse.Namespace) -> int:
    """``python -m benchmarks overhead``: one operator, many, and what one more of them costs; steps and barriers."""
    names = peers.chosen_engines(options.peers)
    one, many = select(["overhead"])
    ensure([one, many], [1])
    settings = Settings(options.rounds, 0.3, least_calls=100, nice=options.nice)
    rows, inside = [], []
    for threads in peers.numbers(options.threads):
        single = measure(one, 1, threads, names, settings)
        chain = measure(many, 1, threads, names, settings)
        steps = many.sizes["length"]
        both = [single.row(("1", str(threads))), chain.row((str(steps), str(threads)))]
        first, last = (row.values for row in both)
        step = {n: (last[n] - first[n]) / (steps - 1) for n in names if n in first and n in last}
        rows += [*both, report.Row(("each further one", str(threads)), step)]
        alone, together = _step_cost(threads, True), _step_cost(threads, False)
        inside.append(report.Row((str(threads),), {"on one thread": alone, "on all, with a barrier": together}))
    tables = [
        records.Table("Median of a call, µs", ("operators", "threads"), rows, 1e6),
        records.Table("A step that does nothing, ns", ("threads",), inside, 1e9, 0, compared=False),
    ]
    document = records.simple("overhead", peers.environment(), tables)
    print(records.simple_tables(document) + "\n" + peers.describe(document["environment"]))
    if options.json:
        records.write(options.json, document)
    return 0
