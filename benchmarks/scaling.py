"""How time grows with the batch, the size of the picture and the number of threads."""

from __future__ import annotations

import argparse
from itertools import product
from pathlib import Path

from benchmarks import peers, records, report, zoo
from benchmarks.contest import Settings, ensure, measure
from benchmarks.engines import OURS
from benchmarks.manifest import ModelSpec, select

__all__ = ["add_arguments", "main"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--models", default="resnet18", help="models, separated by commas (default: resnet18)")
    parser.add_argument("--threads", default="1,2", help="numbers of threads (default: 1,2)")
    parser.add_argument("--batch", default="1,2,4,8", help="sizes of the batch (default: 1,2,4,8)")
    parser.add_argument("--sizes", help="heights and widths of pictures, for batch 1 (default: the recorded)")
    parser.add_argument("--peers", help="other engines (default: those of peers)")
    parser.add_argument("--rounds", type=int, default=5, help="rounds of bursts (default: 5)")
    parser.add_argument("--json", type=Path, help="record of everything measured")
    parser.add_argument("--nice", type=int, default=0, help="priority of bursts, below 0 needs rights")


def _cases(options: argparse.Namespace) -> list[tuple[ModelSpec, int]]:
    """Models with batches at the recorded size, then other sizes with batch 1."""
    specs = select(options.models.split(","))
    cases = list(product(specs, peers.numbers(options.batch)))
    sizes = peers.numbers(options.sizes) if options.sizes else []
    return cases + [(spec.resized(size), 1) for spec in specs for size in sizes]


def main(options: argparse.Namespace) -> int:
    """``python -m benchmarks scaling``: time for one picture or sequence, then the gain by threads."""
    names = peers.chosen_engines(options.peers)
    threads, cases = peers.numbers(options.threads), _cases(options)
    settings = Settings(options.rounds, nice=options.nice)
    rows, gains = [], []
    for spec, batch in cases:
        ensure([spec], [batch])
        times: dict[int, dict[str, float]] = {}
        for n in threads:
            zoo.progress(f"{spec.name}, batch {batch}, threads {n}\n")
            whole = measure(spec, batch, n, names, settings).row((spec.name, str(batch), str(n)))
            times[n] = whole.values
            each = {name: value / batch for name, value in whole.values.items()}
            rows.append(report.Row(whole.labels, each, whole.failures))
        for n in threads[1:]:
            first, then = times[threads[0]], times[n]
            gain = {name: first[name] / then[name] for name in names if name in first and name in then}
            gains.append(report.Row((spec.name, str(batch), f"{threads[0]} → {n}"), gain))
    heads = ("model", "batch", "threads")
    print(report.markdown(rows, heads, names, OURS, lambda seconds: f"{seconds * 1e3:.2f}"))
    facts = peers.environment()
    print("Medians in ms for one picture or sequence. " + peers.describe(facts))
    if gains:
        print(report.plain(gains, heads, names, lambda value: f"{value:.2f}") + "\nSpeed gained by more threads.")
    if options.json:
        tables = [records.Table("Median for one picture or sequence, ms", heads, rows, 1e3)]
        tables.append(records.Table("Speed gained by more threads", heads, gains, compared=False))
        records.write(options.json, records.simple("scaling", facts, tables))
    return 0
