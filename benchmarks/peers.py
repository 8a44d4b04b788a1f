"""``python -m benchmarks peers``: engines in turn on models of the zoo, as a table and a record for reports.

Other commands take the options of engines, threads and batches from here, and the facts about the machine.
"""

from __future__ import annotations

import argparse
import math
import os
import platform
import sys
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks import engines as catalogue
from benchmarks import probe, records, report, zoo
from benchmarks.contest import Result, Settings, ensure, measure
from benchmarks.engines import CACHED, ENGINES, OURS
from benchmarks.manifest import select

__all__ = [
    "add_arguments",
    "add_selection",
    "chosen_engines",
    "describe",
    "environment",
    "main",
    "numbers",
    "peer_names",
]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_selection(parser)
    parser.add_argument("--rounds", type=int, default=7, help="rounds of bursts (default: 7)")
    parser.add_argument("--seconds", type=float, default=0.3, help="length of a burst (default: 0.3)")
    parser.add_argument(
        "--budget", type=float, default=40.0, help="seconds of bursts a model, three rounds aside (default: 40)"
    )
    parser.add_argument("--nice", type=int, default=0, help="priority of bursts, below 0 needs rights")
    parser.add_argument("--contended", action="store_true", help="beside one process that keeps a processor busy")
    parser.add_argument("--quick", action="store_true", help="set quick, few short rounds")
    parser.add_argument("--json", type=Path, help="record of everything measured, written after every model")
    parser.add_argument("--resume", action="store_true", help="leave out what the record holds already")


def add_selection(parser: argparse.ArgumentParser) -> None:
    """Options that all timing commands share."""
    parser.add_argument("--models", help="models or sets, separated by commas (default: set target)")
    parser.add_argument("--threads", default="1,2", help="numbers of threads (default: 1,2)")
    parser.add_argument("--batch", default="1", help="sizes of the batch (default: 1)")
    some = f"engines beside {OURS}, or 'all' (default: {', '.join(peer_names())})"
    parser.add_argument("--peers", help=some)


def peer_names(slow: bool = False) -> list[str]:
    """The engines that take part when none is named; those that need minutes to prepare a model only if `slow`."""
    return [name for name, engine in ENGINES.items() if name not in (OURS, CACHED) and (slow or not engine.slow)]


def chosen_engines(words: str | None) -> list[str]:
    """Our engine and the peers named by an option.

    Raises
    ------
    ValueError
        An engine is unknown.
    """
    names = peer_names(slow=words == "all") if words in (None, "all") else str(words).split(",")
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


# ---- measuring ----


def _limits(threads: int, nbytes: int, nice: int) -> dict[str, float]:
    """Peak FLOP/s, and bytes/s at which the threads read as much memory as a call must move."""
    megabytes = max(1, nbytes / threads / (1 << 20))
    size = min(512, 1 << math.ceil(math.log2(megabytes)))
    return {"peak_flops": probe.peak_flops(threads, nice), "read_bytes": probe.bandwidth(threads, size, nice)}


def _settings(options: argparse.Namespace) -> Settings:
    if options.quick:
        return Settings(3, 0.1, nice=options.nice, contended=options.contended)
    return Settings(
        options.rounds, options.seconds, nice=options.nice, budget=options.budget, contended=options.contended
    )


def main(options: argparse.Namespace) -> int:
    """Measure, print a table and keep the record."""
    names = chosen_engines(options.peers)
    specs = select(options.models.split(",") if options.models else None, "quick" if options.quick else "target")
    threads, batches = numbers(options.threads), numbers(options.batch)
    ensure(specs, batches)
    kind = "contended" if options.contended else "peers"
    document: dict[str, Any] = {"kind": kind, "environment": environment(), "engines": names, "results": []}
    if options.resume and options.json and options.json.is_file():
        before = records.read(options.json)
        document["results"] = before["results"]
        document["engines"] = list(dict.fromkeys([*before["engines"], *names]))
    known = {(r["model"], r["batch"], r["threads"]) for r in document["results"]}
    jobs = [(spec, batch, n) for batch in batches for n in threads for spec in specs]
    for number, (spec, batch, n) in enumerate(jobs, start=1):
        where = f"[{number}/{len(jobs)}] {spec.name}, batch {batch}, threads {n}: "
        if (spec.name, batch, n) in known or not zoo.is_built(spec.name, batch):
            zoo.progress(f"{where}{'known' if zoo.is_built(spec.name, batch) else 'NOT BUILT'}\n")
            continue
        result = measure(spec, batch, n, names, _settings(options), partial(_say, where))
        document["results"].append(_record(result, options.nice))
        if options.json:
            records.write(options.json, document)
        zoo.progress(f"{where}{_verdict(result)}\n")
        _warn(result)
    print(records.table(document) + "\n\n" + describe(document["environment"]))
    return 0


def _record(result: Result, nice: int) -> dict[str, Any]:
    labels = {"model": result.model, "batch": result.batch, "threads": result.threads}
    work = {"flops": result.flops, "bytes": result.nbytes, **_limits(result.threads, result.nbytes, nice)}
    return {**labels, **work, "engines": {name: m.record() for name, m in result.engines.items()}}


def _verdict(result: Result) -> str:
    row = result.row(())
    best, share = report.best_peer(row, OURS), report.ratio(row, OURS)
    if best is None or share is None:
        return "no comparison"
    left_out = f"; left out: {', '.join(row.failures)}" if row.failures else ""
    return f"{row.values[OURS] * 1e3:.2f} ms, {best} {row.values[best] * 1e3:.2f} ms, ratio {share:.2f}{left_out}"


def _say(where: str, text: str) -> None:
    if sys.stderr.isatty():
        zoo.progress(where + text)


def _warn(result: Result) -> None:
    """Name engines that took more processors than they were given; tell when other processes disturbed."""
    timed = {name: m for name, m in result.engines.items() if m.failure is None and m.bursts}
    for name, outcome in timed.items():
        if outcome.busy > result.threads * 1.15:
            kept = f"{name} kept {outcome.busy:.1f} processors busy with {result.threads} threads"
            print(f"note: {kept} on {result.model}", file=sys.stderr)
    disturbed = [name for name, outcome in timed.items() if outcome.disturbed]
    if disturbed:
        print(f"note: other processes disturbed {', '.join(disturbed)} on {result.model}", file=sys.stderr)
