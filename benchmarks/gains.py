"""``python -m benchmarks gains``: how much faster our engine gets with more threads, on models of the zoo.

Numbers of threads take turns as engines do elsewhere, and a gain is that of two neighbouring bursts, the median of all
rounds, so that a slow spell of the machine strikes both. Beside it stands what the machine allows: its threads gain at
arithmetic and at reading memory, which the last rows tell, and each step does both.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import median

from benchmarks import peers, probe, records, report, zoo
from benchmarks.contest import Measurement, Settings, burst, ensure
from benchmarks.engines import OURS
from benchmarks.manifest import ModelSpec, select
from benchmarks.process import Worker

__all__ = ["add_arguments", "allowed", "gain", "main"]

Steps = Sequence[tuple[float, float]]

_HEADS = ("model", "batch")
_MEGABYTES = 256
_GAINED = "gained by {}"
_ALLOWED = "allowed by {}"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--models", default="all", help="models or sets, separated by commas (default: all)")
    parser.add_argument("--threads", default="1,2", help="numbers of threads (default: 1,2)")
    parser.add_argument("--batch", default="1", help="sizes of the batch (default: 1)")
    parser.add_argument("--rounds", type=int, default=11, help="rounds of bursts (default: 11)")
    parser.add_argument("--seconds", type=float, default=0.3, help="length of a burst (default: 0.3)")
    parser.add_argument("--json", type=Path, help="record of everything measured")


def main(options: argparse.Namespace) -> int:
    """Measure, print a table and keep the record."""
    threads, batches = peers.numbers(options.threads), peers.numbers(options.batch)
    specs = select(options.models.split(","))
    ensure(specs, batches)
    machine, rows = _machine(threads), []
    for spec in specs:
        for batch in batches:
            done, steps = _measure(spec, batch, threads, Settings(options.rounds, options.seconds))
            row = _row((spec.name, str(batch)), done)
            row.values.update(_allowances(steps, machine[0], threads))
            rows.append(row)
            zoo.progress(f"{spec.name}, batch {batch}: {', '.join(f'{v:.2f}' for v in row.values.values())}\n")
    rows += machine
    table = records.Table("Milliseconds by threads, and speed gained", _HEADS, rows, compared=False)
    record = records.simple("gains", peers.environment(), [table])
    print(records.simple_tables(record) + "\n" + peers.describe(record["environment"]))
    if options.json:
        records.write(options.json, record)
    return 0


def _machine(threads: Sequence[int]) -> list[report.Row]:
    """What the probe gains: its times are none of a model's, so only the gains are kept."""
    first, *more = threads
    arithmetic = {n: probe.peak_flops(n) for n in threads}
    memory = {n: _bandwidth(n) for n in threads}
    return [
        report.Row((name, ""), {_GAINED.format(n): speed[n] / speed[first] for n in more})
        for name, speed in (("(arithmetic)", arithmetic), ("(reading memory)", memory))
    ]


def _bandwidth(threads: int) -> float:
    return probe.bandwidth(threads, _MEGABYTES // threads)


def _row(labels: tuple[str, ...], done: dict[int, Measurement]) -> report.Row:
    """Milliseconds for each number of threads, then the gains."""
    times = {f"{n} thread{'s' if n > 1 else ''}, ms": 1e3 * outcome.seconds for n, outcome in done.items()}
    first, *more = done
    return report.Row(labels, times | {_GAINED.format(n): gain(done[first], done[n]) for n in more})


def _allowances(steps: Steps, arithmetic: report.Row, threads: Sequence[int]) -> dict[str, float]:
    """What the machine allows each number of threads but the first."""
    gains = {n: arithmetic.values[_GAINED.format(n)] for n in threads[1:]}
    return {_ALLOWED.format(n): allowed(steps, gains[n], _bandwidth(n)) for n in gains}


def allowed(steps: Steps, arithmetic: float, bandwidth: float) -> float:
    """Gain of more threads if each step were either `arithmetic` times as fast or as fast as its bytes are read.

    Parameters
    ----------
    steps : seconds that a step takes on the fewer threads, and the bytes it moves, for each step
    arithmetic : what the machine gains at arithmetic by more threads
    bandwidth : bytes/s that more threads read together
    """
    least = sum(max(seconds / arithmetic, min(seconds, moved / bandwidth)) for seconds, moved in steps)
    return sum(seconds for seconds, _ in steps) / least


def gain(few: Measurement, many: Measurement) -> float:
    """Median of the gains from burst to neighbouring burst, of fewer threads to more."""
    gains = [[median(slow) / median(fast)] for slow, fast in zip(few.bursts, many.bursts, strict=True)]
    return report.of_bursts(gains, [max(pair) for pair in zip(few.queued, many.queued, strict=True)])


def _measure(
    spec: ModelSpec, batch: int, threads: Sequence[int], settings: Settings
) -> tuple[dict[int, Measurement], Steps]:
    """Bursts of calls for each number of threads, in turn, of which the first round does not count; and the steps."""
    done = {n: Measurement() for n in threads}
    with ExitStack() as stack:
        workers = {n: stack.enter_context(Worker(OURS, spec, batch, n)) for n in threads}
        for worker in workers.values():
            worker.ask("open")
            worker.pause()
        for number in range(settings.rounds + 1):
            for n in threads if number % 2 else reversed(threads):
                burst(workers[n], done[n], settings, warm_up=number == 0)
        workers[threads[0]].resume()
        return done, workers[threads[0]].ask("steps")["steps"]
