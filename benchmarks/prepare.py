"""``python -m benchmarks prepare``: engines convert models before measurements need them; what is there is kept.

Measurements do so themselves where a file is missing, which may take minutes a model for engines that compile.
"""

from __future__ import annotations

import argparse
import os
import time

from benchmarks import peers, zoo
from benchmarks.contest import convert, ensure
from benchmarks.engines import ENGINES, NotInstalled
from benchmarks.manifest import select
from benchmarks.process import WorkerError

__all__ = ["add_arguments", "main"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    peers.add_selection(parser)
    parser.add_argument("--nice", type=int, default=0, help="priority given away (default: 0)")


def main(options: argparse.Namespace) -> int:
    """Convert what is missing; 1 when an engine could not."""
    os.nice(options.nice)
    names = peers.chosen_engines(options.peers)
    specs = select(options.models.split(",") if options.models else None, "target")
    threads, batches = peers.numbers(options.threads), peers.numbers(options.batch)
    ensure(specs, batches)
    failed = 0
    for batch, spec, n, name in ((b, s, n, e) for b in batches for s in specs for n in threads for e in names):
        where = f"{spec.name}, batch {batch}, threads {n}, {name}: "
        try:
            path = ENGINES[name].converted_path(zoo.load(spec, batch), n)
            if path is None or path.is_file():
                continue
            begin = time.monotonic()
            convert(name, spec, batch, n)
            zoo.progress(f"{where}{time.monotonic() - begin:.0f} s\n")
        except (WorkerError, FileNotFoundError, NotInstalled) as error:
            failed += 1
            zoo.progress(f"{where}{error}\n")
    return 1 if failed else 0
