"""What this machine can do at most: FLOP/s of fused multiply-adds and bytes/s of memory, measured now.

A small C program is compiled into a temporary directory when a compiler is there; numpy's matrix product and
copy are used otherwise.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np

from benchmarks.priority import set_priority

__all__ = ["add_arguments", "bandwidth", "main", "peak_flops"]

_SOURCE = Path(__file__).with_name("probe.c")
_MEGABYTE = 1 << 20


@cache
def _program() -> tuple[tempfile.TemporaryDirectory[str], Path] | None:
    """The compiled program and the directory that keeps it alive; None without a compiler."""
    compiler = next((found for name in ("cc", "gcc", "clang") if (found := shutil.which(name))), None)
    if compiler is None:
        return None
    directory = tempfile.TemporaryDirectory(prefix="pnnx-fast-probe-")
    path = Path(directory.name) / "probe"
    for flags in (["-march=native"], ["-mcpu=native"], []):
        command = [compiler, "-O2", *flags, str(_SOURCE), "-o", str(path), "-lpthread"]
        if subprocess.run(command, capture_output=True).returncode == 0:
            return directory, path
    directory.cleanup()
    return None


def _run(nice: int, *arguments: object) -> float | None:
    program = _program()
    if program is None:
        return None
    command = [str(program[1]), *map(str, arguments)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as process:
        if nice:
            set_priority(process.pid, nice)
        text, _ = process.communicate()
    return float(text) if process.returncode == 0 else None


@cache
def peak_flops(threads: int, nice: int = 0) -> float:
    """Most single-precision FLOP/s of `threads` threads: independent multiply-adds that stay in registers."""
    measured = _run(nice, "fma", threads)
    return measured if measured is not None else _matrix_product_flops()


@cache
def bandwidth(threads: int, megabytes: int = 256, nice: int = 0) -> float:
    """Most bytes/s that `threads` threads read together, each from an array of `megabytes`."""
    measured = _run(nice, "read", threads, megabytes)
    return measured if measured is not None else _copy_bandwidth(megabytes)


def _matrix_product_flops() -> float:
    size = 1024
    a = np.random.default_rng(0).standard_normal((size, size), dtype=np.float32)
    return 2 * size**3 / min(_times(lambda: a @ a))


def _copy_bandwidth(megabytes: int) -> float:
    source = np.ones(megabytes * _MEGABYTE // 4, np.float32)
    target = np.empty_like(source)
    return 2 * source.nbytes / min(_times(lambda: np.copyto(target, source)))


def _times(run: Callable[[], object]) -> list[float]:
    times = []
    for _ in range(9):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return times


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--threads", default=",".join(str(n + 1) for n in range(min(2, os.cpu_count() or 1))))
    parser.add_argument("--nice", type=int, default=0, help="priority, below 0 needs rights")
    parser.add_argument("--json", type=Path, help="write the figures to this file")


def main(options: argparse.Namespace) -> int:
    """``python -m benchmarks probe``."""
    figures = {}
    how = "C program" if _program() else "numpy (no compiler found; its own threads)"
    print(f"| threads | GFLOP/s | L2 GB/s (0.5 MB) | L3 GB/s (8 MB) | memory GB/s (256 MB) |\n|{' ---: |' * 5}")
    for n in (int(word) for word in options.threads.split(",")):
        row = {"gflops": peak_flops(n, options.nice) / 1e9}
        row |= {f"gbytes_{size}": bandwidth(n, size, options.nice) / 1e9 for size in (0, 8, 256)}
        figures[str(n)] = row
        print(f"| {n} | " + " | ".join(f"{value:.1f}" for value in row.values()) + " |")
    print(f"\nMeasured by: {how}.")
    if options.json:
        options.json.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    return 0
