"""Times the engines on models of the zoo: a process an engine, rounds in turn, results checked first.

Only one engine works at any time: the others are stopped, so that neither their thread pools nor their memory
traffic disturb it. Other commands (load, overhead, scaling) use `Worker` and `measure` from here.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import select as polling
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any

from benchmarks import engines as catalogue
from benchmarks import probe, report, zoo
from benchmarks.engines import ENGINES, OURS
from benchmarks.manifest import ModelSpec, select
from benchmarks.priority import set_priority

__all__ = [
    "Measurement",
    "Result",
    "Settings",
    "Worker",
    "WorkerError",
    "add_arguments",
    "burst",
    "ensure",
    "main",
    "measure",
]

TOLERANCE = 1e-2
_OPEN_SECONDS = 900.0
_COMMAND_SECONDS = 120.0
_THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


class WorkerError(RuntimeError):
    """An engine failed, crashed or took too long."""


class Worker:
    """A worker process; leaves nothing behind when its ``with`` block ends."""

    def __init__(self, engine: str, spec: ModelSpec, batch: int, threads: int) -> None:
        self._start(["benchmarks.worker", engine, spec.name, str(batch), str(threads)], threads)

    def _start(self, module: Sequence[str], threads: int) -> None:
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 – closed by __exit__
        environment = os.environ | dict.fromkeys(_THREAD_VARIABLES, str(threads))
        self._process = subprocess.Popen(
            [sys.executable, "-m", *module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            env=environment,
            start_new_session=True,
        )

    def __enter__(self) -> Worker:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with suppress(ProcessLookupError):  # engines that compile start processes of their own
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout, self._log):
            if stream is not None:
                with suppress(OSError):
                    stream.close()

    def pause(self) -> None:
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def set_priority(self, nice: int) -> None:
        set_priority(self._process.pid, nice)

    def ask(self, command: str, *arguments: object, timeout: float = _COMMAND_SECONDS) -> dict[str, Any]:
        """Answer to one command.

        Raises
        ------
        WorkerError
            The engine failed, crashed, or gave no answer in time.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps([command, *arguments]).encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise WorkerError(self._last_words()) from None
        ready, _, _ = polling.select([self._process.stdout], [], [], timeout)
        if not ready:
            raise WorkerError(f"no answer to {command} in {timeout:.0f} s")
        line = self._process.stdout.readline()
        if not line:
            raise WorkerError(self._last_words())
        answer: dict[str, Any] = json.loads(line)
        if "failed" in answer:
            raise WorkerError(answer["failed"])
        return answer

    def _last_words(self) -> str:
        code = self._process.wait(timeout=10)
        self._log.seek(0)
        lines = self._log.read().decode(errors="replace").strip().splitlines()
        return f"process ended with {code}: {lines[-1][:200] if lines else ''}"


@dataclass(frozen=True)
class Settings:
    """How long and how often."""

    rounds: int = 7
    seconds: float = 0.3
    least_calls: int = 2
    nice: int = 0


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
    def disturbed(self) -> bool:
        """Whether too few bursts had the processors to themselves."""
        return sum(share <= report.CALM for share in self.queued) < min(3, len(self.queued))


@dataclass
class Result:
    """All engines on one model."""

    model: str
    batch: int
    threads: int
    flops: int
    engines: dict[str, Measurement] = field(default_factory=dict)

    def row(self, labels: Sequence[str], extra: Sequence[str] = ()) -> report.Row:
        done = {name: m for name, m in self.engines.items() if m.failure is None}
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


def convert(engine: str, spec: ModelSpec, batch: int) -> None:
    """Have an engine write its own format, in a process whose memory counts for nothing."""
    path = ENGINES[engine].converted_path(zoo.load(spec, batch))
    if path is not None and not path.is_file():
        with Worker(engine, spec, batch, os.cpu_count() or 1) as worker:
            worker.ask("convert", timeout=_OPEN_SECONDS)


def measure(
    spec: ModelSpec,
    batch: int,
    threads: int,
    names: Sequence[str],
    settings: Settings,
    say: Callable[[str], None] = lambda text: None,
) -> Result:
    """Open, check and time the engines `names` in turn."""
    result = Result(spec.name, batch, threads, int(zoo.load(spec, batch).meta["flops"]))
    with ExitStack() as stack:
        running: dict[str, Worker] = {}
        for name in names:
            say(f"opening {name}")
            outcome = result.engines[name] = Measurement()
            worker = _opened(name, spec, batch, threads, outcome, stack)
            if worker is not None:
                running[name] = worker
        order = list(running)
        for number in range(settings.rounds + 1):
            say(f"round {number}/{settings.rounds}")
            for name in order[number % max(1, len(order)) :] + order[: number % max(1, len(order))]:
                if result.engines[name].failure is None:
                    burst(running[name], result.engines[name], settings, warm_up=number == 0)
    return result


def _opened(
    name: str, spec: ModelSpec, batch: int, threads: int, outcome: Measurement, stack: ExitStack
) -> Worker | None:
    """A checked and paused worker, or None with the reason in `outcome`."""
    try:
        convert(name, spec, batch)
        worker = stack.enter_context(Worker(name, spec, batch, threads))
        worker.ask("open", timeout=_OPEN_SECONDS)
        outcome.error = float(worker.ask("check")["error"])
    except (WorkerError, FileNotFoundError, catalogue.NotInstalled) as error:
        outcome.failure = str(error)
        return None
    if not outcome.error <= TOLERANCE:
        outcome.failure = f"wrong result: error {outcome.error:.1e}"
        worker.__exit__(None, None, None)
        return None
    worker.pause()
    return worker


def burst(worker: Worker, outcome: Measurement, settings: Settings, warm_up: bool) -> None:
    worker.resume()
    if settings.nice and warm_up:
        worker.set_priority(settings.nice)
    try:
        answer = worker.ask("burst", settings.seconds, settings.least_calls)
    except WorkerError as error:
        outcome.failure = str(error)
        return
    worker.pause()
    if not warm_up:
        outcome.bursts.append(answer["times"])
        outcome.queued.append(answer["queued"])
        outcome.busy = max(outcome.busy, answer["busy"])


# ---- command line ----


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_selection(parser)
    parser.add_argument("--rounds", type=int, default=7, help="rounds of bursts (default: 7)")
    parser.add_argument("--seconds", type=float, default=0.3, help="length of a burst (default: 0.3)")
    parser.add_argument("--nice", type=int, default=0, help="priority of bursts, below 0 needs rights")
    parser.add_argument("--quick", action="store_true", help="set quick, few short rounds, no torch.compile")
    parser.add_argument("--json", type=Path, help="write everything measured to this file")
    parser.add_argument("--picture", type=Path, help="draw the speeds to this file (needs matplotlib)")


def add_selection(parser: argparse.ArgumentParser) -> None:
    """Options that all timing commands share."""
    parser.add_argument("--models", help="models or sets, separated by commas (default: set target)")
    parser.add_argument("--threads", default="1,2", help="numbers of threads (default: 1,2)")
    parser.add_argument("--batch", default="1", help="sizes of the batch (default: 1)")
    parser.add_argument("--peers", help=f"engines beside {OURS} (default: all of {', '.join(peer_names())})")


def peer_names() -> list[str]:
    return [name for name in ENGINES if name != OURS]


def chosen_engines(words: str | None, without: Sequence[str] = ()) -> list[str]:
    """Our engine and the peers named by an option.

    Raises
    ------
    ValueError
        An engine is unknown.
    """
    names = words.split(",") if words is not None else [n for n in peer_names() if n not in without]
    for name in filter(None, names):
        if name not in ENGINES:
            raise ValueError(f"no engine {name!r}; there are {', '.join(ENGINES)}")
    return list(dict.fromkeys([OURS, *filter(None, names)]))


def numbers(words: str) -> list[int]:
    """Positive whole numbers separated by commas.

    Raises
    ------
    ValueError
        Something else is there.
    """
    found = [int(word) for word in words.split(",") if word.strip().isdigit() and int(word) > 0]
    if len(found) != len(words.split(",")):
        raise ValueError(f"{words!r}: positive whole numbers separated by commas are wanted")
    return found


def environment() -> dict[str, Any]:
    """Machine and versions, as the tables state them."""
    cpu = platform.processor() or platform.machine()
    with suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        cpu = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), cpu)
    versions = {}
    for engine in ENGINES.values():
        with suppress(catalogue.NotInstalled):
            versions[engine.package] = catalogue.version(engine.package)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {"cpu": cpu, "cores": cores, "python": platform.python_version(), "versions": versions}


def describe(facts: dict[str, Any]) -> str:
    versions = ", ".join(f"{name} {number}" for name, number in facts["versions"].items())
    return f"{facts['cpu']}, {facts['cores']} cores, Python {facts['python']}; {versions}.\n"


def _share_of_peak(result: Result, peaks: dict[int, float]) -> str:
    ours = result.engines.get(OURS)
    names = [OURS] if ours is not None and ours.failure is None else list(result.engines)
    done = [result.engines[name].seconds for name in names if result.engines[name].failure is None]
    peak = peaks.get(result.threads)
    return f"{result.flops / min(done) / peak:.0%}" if peak and done else ""


def main(options: argparse.Namespace) -> int:
    """``python -m benchmarks peers``."""
    names = chosen_engines(options.peers, ["torch.compile"] if options.quick else [])
    settings = Settings(3, 0.1) if options.quick else Settings(options.rounds, options.seconds, nice=options.nice)
    default = "quick" if options.quick else "target"
    specs = select(options.models.split(",") if options.models else None, default)
    threads, batches = numbers(options.threads), numbers(options.batch)
    ensure(specs, batches)
    peaks = {n: probe.peak_flops(n, options.nice) for n in threads}
    jobs = [(spec, batch, n) for n in threads for batch in batches for spec in specs]
    results = []
    for number, (spec, batch, n) in enumerate(jobs, start=1):
        where = f"[{number}/{len(jobs)}] {spec.name}, batch {batch}, threads {n}: "
        results.append(measure(spec, batch, n, names, settings, partial(_say, where)))
        zoo.progress(f"{where}done\n")
    rows = [r.row((r.model, str(r.threads), str(r.batch)), (_share_of_peak(r, peaks),)) for r in results]
    heads, extra = ("model", "threads", "batch"), ("of peak",)
    print(report.markdown(rows, heads, names, OURS, lambda seconds: f"{seconds * 1e3:.2f}", extra))
    print(report.summary(rows, OURS))
    facts = environment()
    print(f"Medians in ms. Of peak: {OURS}, or the fastest peer where it is missing. {describe(facts)}")
    _warn(results)
    if options.json:
        document = {"environment": facts, "peak_flops": peaks, "results": [asdict(r) for r in results]}
        options.json.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    if options.picture and not report.picture(rows, names, OURS, options.picture):
        print("no picture: matplotlib is not installed", file=sys.stderr)
    return 0


def _say(where: str, text: str) -> None:
    if sys.stderr.isatty():
        zoo.progress(where + text)


def _warn(results: Sequence[Result]) -> None:
    """Name engines that took more processors than they were given; tell when other processes disturbed."""
    timed = [(r, name, m) for r in results for name, m in r.engines.items() if m.failure is None]
    for result, name, outcome in timed:
        if outcome.busy > result.threads * 1.15:
            kept = f"{name} kept {outcome.busy:.1f} processors busy with {result.threads} threads"
            print(f"note: {kept} on {result.model}", file=sys.stderr)
    disturbed = sum(outcome.disturbed for _, _, outcome in timed)
    if disturbed:
        print(
            f"note: other processes were busy during {disturbed} of {len(timed)} measurements;"
            " their times are too long",
            file=sys.stderr,
        )
