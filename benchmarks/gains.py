"""``python -m benchmarks gains``: how much faster our engine gets with more threads, on models of the zoo.

Numbers of threads take turns as engines do elsewhere, so that a slow spell of the machine strikes all of them. Last
stands what the machine itself gains: at arithmetic and at reading memory, without any engine.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from benchmarks import peers, probe, records, report, zoo
from benchmarks.contest import Measurement, Settings, burst, ensure
from benchmarks.engines import OURS
from benchmarks.manifest import ModelSpec, select
from benchmarks.process import Worker

__all__ = ["add_arguments", "main"]

_HEADS = ("model", "batch")
_MEGABYTES = 256


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--models", default="all", help="models or sets, separated by commas (default: all)")
    parser.add_argument("--threads", default="1,2", help="numbers of threads (default: 1,2)")
    parser.add_argument("--batch", default="1", help="sizes of the batch (default: 1)")
    parser.add_argument("--rounds", type=int, default=7, help="rounds of bursts (default: 7)")
    parser.add_argument("--seconds", type=float, default=0.3, help="length of a burst (default: 0.3)")
    parser.add_argument("--json", type=Path, help="record of everything measured")


def main(options: argparse.Namespace) -> int:
    """Measure, print a table and keep the record."""
    threads, batches = peers.numbers(options.threads), peers.numbers(options.batch)
    specs = select(options.models.split(","))
    ensure(specs, batches)
    rows = []
    for spec in specs:
        for batch in batches:
            times = _times(spec, batch, threads, Settings(options.rounds, options.seconds))
            rows.append(_row((spec.name, str(batch)), times))
            zoo.progress(f"{spec.name}, batch {batch}: {' and '.join(f'{t * 1e3:.2f}' for t in times.values())} ms\n")
    rows += _machine(threads)
    table = records.Table("Milliseconds by threads, and speed gained", _HEADS, rows, compared=False)
    record = records.simple("gains", peers.environment(), [table])
    print(records.simple_tables(record) + "\n" + peers.describe(record["environment"]))
    if options.json:
        records.write(options.json, record)
    return 0


def _machine(threads: Sequence[int]) -> list[report.Row]:
    """What the probe gains: its times are none of a model's, so only the gains are kept."""
    arithmetic = {n: 1 / probe.peak_flops(n) for n in threads}
    memory = {n: 1 / probe.bandwidth(n, _MEGABYTES // n) for n in threads}
    labelled = (("(arithmetic)", ""), arithmetic), (("(reading memory)", ""), memory)
    return [report.Row(labels, _gains(seconds)) for labels, seconds in labelled]


def _row(labels: tuple[str, ...], seconds: dict[int, float]) -> report.Row:
    """Milliseconds for each number of threads, then the gains."""
    times = {f"{n} thread{'s' if n > 1 else ''}, ms": 1e3 * time for n, time in seconds.items()}
    return report.Row(labels, times | _gains(seconds))


def _gains(seconds: dict[int, float]) -> dict[str, float]:
    """Speed with each further number of threads over that with the first."""
    first, *more = seconds
    return {f"gained by {n}": seconds[first] / seconds[n] for n in more}


def _times(spec: ModelSpec, batch: int, threads: Sequence[int], settings: Settings) -> dict[int, float]:
    """Median seconds of a call for each number of threads, bursts in turn; the first round does not count."""
    done = {n: Measurement() for n in threads}
    with ExitStack() as stack:
        workers = {n: stack.enter_context(Worker(OURS, spec, batch, n)) for n in threads}
        for worker in workers.values():
            worker.ask("open")
            worker.pause()
        for number in range(settings.rounds + 1):
            for n in threads if number % 2 else reversed(threads):
                burst(workers[n], done[n], settings, warm_up=number == 0)
    return {n: outcome.seconds for n, outcome in done.items()}
