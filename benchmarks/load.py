"""From importing an engine to its first result in a fresh process: time, and the most memory ever used.

Conversions to an engine's own format are made before and not counted. Files are in the page cache and modules are
compiled, as the second start of a program finds them; numpy, in which all engines get their input, is imported before.
The variant with a cache fills it in the round that does not count.

Memory that a process touches first costs much less when the kernel has free pages at hand than when a virtual machine
must get them from its host, which takes free pages back after a few seconds: an engine that follows a hungry one would
seem fast. So when a worker waits for its command, this process touches and releases as much memory as the hungriest
engine has used, and rounds begin with another engine each.
"""

from __future__ import annotations

import argparse
import mmap
import os
import shutil
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks import peers, records, report, zoo
from benchmarks.contest import convert, ensure
from benchmarks.engines import CACHED, OURS, NotInstalled, cache_folder
from benchmarks.manifest import ModelSpec, select
from benchmarks.process import Worker, WorkerError

__all__ = ["add_arguments", "main"]

_TABLES = {
    "load": ("import and load, ms", 1e3),
    "first": ("import to first result, ms", 1e3),
    "memory": ("peak memory of the process, MB", 1.0),
}
_OPEN_SECONDS = 900.0
_LEAST_RECYCLED, _MARGIN = 512.0, 1.25
"""MB made ready in any case, and how much more than the hungriest engine has used."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    peers.add_selection(parser)
    parser.add_argument("--repeats", type=int, default=3, help="processes an engine and model (default: 3)")
    parser.add_argument("--json", type=Path, help="write everything measured to this file")


def _measure(spec: ModelSpec, batch: int, threads: int, names: list[str], repeats: int) -> dict[str, Any]:
    """Figures of each process, by engine; a text instead says why an engine was left out."""
    found: dict[str, Any] = {name: [] for name in names}
    shutil.rmtree(cache_folder(zoo.load(spec, batch)), ignore_errors=True)
    recycled = _LEAST_RECYCLED
    for number in range(repeats + 1):  # the first fills the page cache
        first = number % len(names)
        for name in names[first:] + names[:first]:
            if isinstance(found[name], str):
                continue
            try:
                convert(name, spec, batch, threads)
                with Worker(name, spec, batch, threads) as worker:
                    worker.ask("ready")
                    _recycle(recycled)
                    figures = worker.ask("open", timeout=_OPEN_SECONDS)
            except (WorkerError, FileNotFoundError, NotInstalled) as error:
                found[name] = str(error)
                continue
            recycled = max(recycled, figures["memory"] * _MARGIN)
            if number:
                found[name].append(figures)
    return found


def _recycle(megabytes: float) -> None:
    """Leave the kernel with so many free pages that belong to this machine, huge ones among them."""
    # Shared memory, the default, is touched and released in small pages, and whole huge pages are taken from elsewhere.
    private = {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS} if hasattr(mmap, "MAP_ANONYMOUS") else {}
    with mmap.mmap(-1, int(megabytes) << 20, **private) as memory:
        if hasattr(mmap, "MADV_HUGEPAGE"):
            memory.madvise(mmap.MADV_HUGEPAGE)
        memory[:: mmap.PAGESIZE] = b"x" * len(range(0, len(memory), mmap.PAGESIZE))


def _row(labels: tuple[str, ...], found: dict[str, Any], key: str) -> report.Row:
    values = {n: median(f[key] for f in figures) for n, figures in found.items() if isinstance(figures, list)}
    failures = {n: reason for n, reason in found.items() if isinstance(reason, str)}
    return report.Row(labels, values, failures)


def _keep_compiled_modules() -> None:
    """Let workers find bytecode beside the modules, as in an installed package, where this environment writes none."""
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


def _show(scale: float, value: float) -> str:
    return f"{value * scale:.0f}"


def main(options: argparse.Namespace) -> int:
    """``python -m benchmarks load``."""
    names = list(dict.fromkeys([OURS, CACHED, *peers.chosen_engines(options.peers)]))
    specs = select(options.models.split(",") if options.models else None, "target")
    threads, batches = peers.numbers(options.threads), peers.numbers(options.batch)
    ensure(specs, batches)
    _keep_compiled_modules()
    found = {}
    for n in threads:
        for batch in batches:
            for spec in specs:
                zoo.progress(f"{spec.name}, batch {batch}, threads {n}\n")
                figures = _measure(spec, batch, n, names, options.repeats)
                found[spec.name, str(n), str(batch)] = figures
    heads = ("model", "threads", "batch")
    tables = []
    for key, (title, scale) in _TABLES.items():
        rows = [_row(labels, figures, key) for labels, figures in found.items()]
        tables.append(records.Table(title, heads, rows, scale, 0))
        print(f"### {title}\n")
        print(report.markdown(rows, heads, names, OURS, partial(_show, scale)))
        print(report.summary(rows, OURS))
    facts = peers.environment()
    print(peers.describe(facts))
    if options.json:
        records.write(options.json, records.simple("load", facts, tables))
    return 0
