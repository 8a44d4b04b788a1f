"""Times engines in turn on one model: a process an engine, results checked first, only one working at any time.

The others are stopped meanwhile, so that neither their thread pools nor their memory traffic disturb it. Used by the
commands that compare engines; knows no command line, no tables and no files but the zoo's.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from benchmarks import engines as catalogue
from benchmarks import report, zoo
from benchmarks.engines import ENGINES, OURS
from benchmarks.manifest import ModelSpec
from benchmarks.process import Worker, WorkerError, competitor

__all__ = ["Measurement", "Result", "Settings", "burst", "convert", "ensure", "measure"]

TOLERANCE = 1e-2
FAR_BEHIND = ((1, 2.0), (3, 1.5))
"""After so many bursts, so many times slower than the fastest other engine: no best peer any more, and done early."""

_OPEN_SECONDS = 900.0
_LEAST_ROUNDS = 3


@dataclass(frozen=True)
class Settings:
    """How long and how often. No further round starts when `budget` seconds would be exceeded."""

    rounds: int = 7
    seconds: float = 0.3
    least_calls: int = 2
    nice: int = 0
    budget: float = 40.0
    contended: bool = False


@dataclass
class Measurement:
    """What one engine did; `failure` says why it was left out."""

    bursts: list[list[float]] = field(default_factory=list)
    queued: list[float] = field(default_factory=list)
    busy: float = 0.0
    error: float | None = None
    failure: str | None = None

    @property
    def seconds(self) -> float:
        return report.of_bursts(self.bursts, self.queued)

    @property
    def calm(self) -> int:
        """Bursts that had the processors to themselves."""
        return sum(share <= report.CALM for share in self.queued)

    @property
    def disturbed(self) -> bool:
        """Whether too few bursts did."""
        return self.calm < min(3, len(self.queued))

    def record(self) -> dict[str, Any]:
        """What is kept of it in a file: bursts as their medians."""
        if self.failure is not None or not self.bursts:
            return {"failure": self.failure or "was not timed", "error": self.error}
        medians = [median(burst) for burst in self.bursts]
        kept = {"seconds": self.seconds, "bursts": medians, "queued": self.queued, "busy": self.busy}
        return kept | {"error": self.error, "calls": sum(map(len, self.bursts)), "disturbed": self.disturbed}


@dataclass
class Result:
    """All engines on one model; `nbytes` is what a call must move at least: weights, inputs and outputs."""

    model: str
    batch: int
    threads: int
    flops: int
    nbytes: int = 0
    engines: dict[str, Measurement] = field(default_factory=dict)

    def row(self, labels: Sequence[str], extra: Sequence[str] = ()) -> report.Row:
        done = {name: m for name, m in self.engines.items() if m.failure is None and m.bursts}
        return report.Row(
            tuple(labels),
            {name: m.seconds for name, m in done.items()},
            {name: m.failure for name, m in self.engines.items() if m.failure is not None},
            {name: m.error for name, m in done.items() if m.error is not None},
            tuple(extra),
        )


def ensure(specs: Sequence[ModelSpec], batches: Sequence[int]) -> None:
    """Build what the zoo lacks, in a process of its own so that its memory is free afterwards."""
    for batch in {1, *batches}:
        missing = [spec.name for spec in specs if not zoo.is_built(spec.name, batch)]
        if missing:
            options = ["--models", ",".join(missing), "--batch", str(batch)]
            subprocess.run([sys.executable, "-m", "benchmarks", "zoo", *options], stdout=sys.stderr)


def convert(engine: str, spec: ModelSpec, batch: int, threads: int) -> None:
    """Have an engine write its own format, in a process whose memory counts for nothing."""
    path = ENGINES[engine].converted_path(zoo.load(spec, batch), threads)
    if path is not None and not path.is_file():
        with Worker(engine, spec, batch, threads) as worker:
            worker.ask("convert", timeout=_OPEN_SECONDS)


def _least_traffic(model: zoo.ZooModel) -> int:
    """Bytes of weights, inputs and outputs in single precision."""
    entries = model.meta["inputs"] + model.meta["outputs"]
    sizes = [4 if entry["dtype"] == "float32" else 8 for entry in entries]
    for number, entry in enumerate(entries):
        for length in entry["shape"]:
            sizes[number] *= length
    return int(4 * model.meta["parameters"] + sum(sizes))


def measure(
    spec: ModelSpec,
    batch: int,
    threads: int,
    names: Sequence[str],
    settings: Settings,
    say: Callable[[str], None] = lambda text: None,
) -> Result:
    """Open, check and time the engines `names` in turn."""
    model = zoo.load(spec, batch)
    result = Result(spec.name, batch, threads, int(model.meta["flops"]), _least_traffic(model))
    result.engines = {name: Measurement() for name in names}
    with ExitStack() as stack:
        say("opening")

        # Processes are started here, not by the threads that wait for them: they die with the thread that started them.
        workers = {name: stack.enter_context(Worker(name, spec, batch, threads)) for name in names}
        with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
            opened = [
                pool.submit(_open, workers[name], name, spec, batch, threads, result.engines[name]) for name in names
            ]
        running = {name: workers[name] for name, job in zip(names, opened, strict=True) if job.result()}
        if settings.contended:
            stack.enter_context(competitor())
        _take_turns(running, result, settings, say)
    return result


def _take_turns(running: dict[str, Worker], result: Result, settings: Settings, say: Callable[[str], None]) -> None:
    """Rounds of bursts, each beginning with another engine; the first does not count."""
    order, spent = list(running), 0.0
    for number in range(settings.rounds + 1):
        say(f"round {number}/{settings.rounds}")
        begin = time.perf_counter()
        for name in order[number % max(1, len(order)) :] + order[: number % max(1, len(order))]:
            if result.engines[name].failure is None and not _is_done(name, result, settings):
                burst(running[name], result.engines[name], settings, warm_up=number == 0)
        took = time.perf_counter() - begin
        spent += took
        if number >= _LEAST_ROUNDS and spent + took > settings.budget:
            break


def _is_done(name: str, result: Result, settings: Settings) -> bool:
    """Whether more bursts of an engine could change neither the best peer nor our ratio to it."""
    mine = result.engines[name]
    done = len(mine.bursts) if settings.contended else mine.calm
    others = [m.seconds for other, m in result.engines.items() if other not in (OURS, name) and m.bursts]
    if name == OURS or not others:
        return False
    return any(done >= least and mine.seconds > times * min(others) for least, times in FAR_BEHIND)


def _open(worker: Worker, name: str, spec: ModelSpec, batch: int, threads: int, outcome: Measurement) -> bool:
    """Whether a worker is open, checked and paused; the reason is in `outcome` where it is not."""
    try:
        convert(name, spec, batch, threads)
        worker.ask("open", timeout=_OPEN_SECONDS)
        outcome.error = float(worker.ask("check")["error"])
    except (WorkerError, FileNotFoundError, catalogue.NotInstalled) as error:
        outcome.failure = str(error)
    else:
        if not outcome.error <= TOLERANCE:
            outcome.failure = f"wrong result: error {outcome.error:.1e}"
    if outcome.failure is not None:
        worker.__exit__(None, None, None)
        return False
    worker.pause()
    return True


def burst(worker: Worker, outcome: Measurement, settings: Settings, warm_up: bool) -> None:
    """Let one engine work for a while; a warm-up is short and not counted."""
    worker.resume()
    if settings.nice and warm_up:
        worker.set_priority(settings.nice)
    length = settings.seconds / 3 if warm_up else settings.seconds
    try:
        answer = worker.ask("burst", length, 1 if warm_up else settings.least_calls)
    except WorkerError as error:
        outcome.failure = str(error)
        return
    worker.pause()
    if not warm_up:
        outcome.bursts.append(answer["times"])
        if not settings.contended:  # there everybody waits, and that is what is measured
            outcome.queued.append(answer["queued"])
        outcome.busy = max(outcome.busy, answer["busy"])
