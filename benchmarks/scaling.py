"""How time grows with the batch, the size of the picture and the number of threads."""

from __future__ import annotations

import argparse
from itertools import product

from benchmarks import peers, report, zoo
from benchmarks.engines import OURS
from benchmarks.manifest import ModelSpec, select

__all__ = ["add_arguments", "main"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--models", default="resnet18", help="models, separated by commas (default: resnet18)")
    parser.add_argument("--threads", default="1,2", help="numbers of threads (default: 1,2)")
    parser.add_argument("--batch", default="1,2,4,8", help="sizes of the batch (default: 1,2,4,8)")
    parser.add_argument("--sizes", help="heights and widths of pictures, for batch 1 (default: the recorded)")
    parser.add_argument("--peers", help="other engines (default: all but torch.compile)")
    parser.add_argument("--rounds", type=int, default=5, help="rounds of bursts (default: 5)")
    parser.add_argument("--nice", type=int, default=0, help="priority of bursts, below 0 needs rights")


def _cases(options: argparse.Namespace) -> list[tuple[ModelSpec, int]]:
    """Models with batches at the recorded size, then other sizes with batch 1."""
    specs = select(options.models.split(","))
    cases = list(product(specs, peers.numbers(options.batch)))
    sizes = peers.numbers(options.sizes) if options.sizes else []
    return cases + [(spec.resized(size), 1) for spec in specs for size in sizes]


def main(options: argparse.Namespace) -> int:
    """``python -m benchmarks scaling``: time for one picture or sequence, then the gain by threads."""
    names = peers.chosen_engines(options.peers, ["torch.compile"])
    threads, cases = peers.numbers(options.threads), _cases(options)
    settings = peers.Settings(options.rounds, nice=options.nice)
    rows, gains = [], []
    for spec, batch in cases:
        peers.ensure([spec], [batch])
        times: dict[int, dict[str, float]] = {}
        for n in threads:
            zoo.progress(f"{spec.name}, batch {batch}, threads {n}\n")
            whole = peers.measure(spec, batch, n, names, settings).row((spec.name, str(batch), str(n)))
            times[n] = whole.values
            each = {name: value / batch for name, value in whole.values.items()}
            rows.append(report.Row(whole.labels, each, whole.failures))
        for n in threads[1:]:
            gain = [_gain(times[threads[0]], times[n], name) for name in names]
            gains.append(f"| {spec.name} | {batch} | {threads[0]} → {n} | " + " | ".join(gain) + " |")
    heads = ("model", "batch", "threads")
    print(report.markdown(rows, heads, names, OURS, lambda seconds: f"{seconds * 1e3:.2f}"))
    print("Medians in ms for one picture or sequence. " + peers.describe(peers.environment()))
    if gains:
        print("| model | batch | threads | " + " | ".join(names) + " |")
        print("|" + " --- |" * 3 + " ---: |" * len(names))
        print("\n".join(gains) + "\n\nSpeed gained by more threads.")
    return 0


def _gain(before: dict[str, float], after: dict[str, float], name: str) -> str:
    return f"{before[name] / after[name]:.2f}" if name in before and name in after else ""
