"""``python -m benchmarks everything``: all measurements of `docs/measurements`, a record each, then the report.

A measurement that fails does not stop the others, and one whose record is there already is not repeated.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

from benchmarks import pages

__all__ = ["RUNS", "add_arguments", "main"]

RUNS = {
    "peers": "peers --models all --threads 1,2 --peers all",
    "peers8": "peers --models all --threads 1,2 --batch 8 --peers all --rounds 5 --budget 15",
    "others": "peers --models others --threads 1,2 --rounds 5",
    "families": "peers --models families --threads 1,2 --rounds 5",
    "contended": "peers --models target --threads 1,2 --contended --rounds 4",
    "profile": "profile --models all",
    "kernels": "kernels --isa avx2,avx512vnni,amx",
    "operators": "operators",
    "overhead": "overhead",
    "load": "load --models target --threads 2",
    "scaling": "scaling --models resnet18 --sizes 320,448 --rounds 3",
    "gains": "gains",
    "ncnn": "ncnn --threads 1,2 --rounds 3",
    "check": "check",
    "formats": "formats",
}
"""Command of each record, as that page tells them."""

_NEEDS = {"ncnn": "PNNX_FAST_DATA"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--records", type=Path, required=True, help="folder for the records; those there are kept")
    parser.add_argument("--only", help=f"some of {', '.join(RUNS)}, separated by commas")
    parser.add_argument("--models", help="models in place of those of the page, where a measurement takes models")
    parser.add_argument("--again", action="store_true", help="measure again what is there")
    pages.add_write(parser)


def main(options: argparse.Namespace) -> int:
    """Measure what is missing; 1 when something failed."""
    names = options.only.split(",") if options.only else list(RUNS)
    for name in names:
        if name not in RUNS:
            raise ValueError(f"no measurement {name!r}; there are {', '.join(RUNS)}")
    options.records.mkdir(parents=True, exist_ok=True)
    failed = [name for name in names if not _run(name, options)]
    found = sorted(map(str, options.records.glob("*.json")))
    if options.write and found:
        failed += [] if _start(["report", "--write", *options.write, "--json", *found]) == 0 else ["report"]
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


def _run(name: str, options: argparse.Namespace) -> bool:
    """Whether a record is there in the end."""
    path = options.records / f"{name}.json"
    command = [*RUNS[name].split(), "--json", str(path)]
    partly = command[0] == "peers"
    if options.models and "--models" in command:
        command[command.index("--models") + 1] = options.models
    if name in _NEEDS and _NEEDS[name] not in os.environ:
        print(f"== {name}: left out, {_NEEDS[name]} is not set", flush=True)
        return True
    if path.is_file() and not options.again:
        if not partly:
            print(f"== {name}: there", flush=True)
            return True
        command.append("--resume")
    print(f"== python -m benchmarks {' '.join(command)}", flush=True)
    begin = time.monotonic()
    code = _start(command)
    print(f"== {name}: {time.monotonic() - begin:.0f} s{'' if code == 0 else f', ended with {code}'}", flush=True)
    return bool(path.is_file())


def _start(command: list[str]) -> int:
    return subprocess.run([sys.executable, "-m", "benchmarks", *command]).returncode
