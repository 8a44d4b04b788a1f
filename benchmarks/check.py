"""Our results on the zoo against PyTorch's, on every ISA level and two inputs; times nothing."""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import peers, records, zoo
from benchmarks.compare import Array, worst_error
from benchmarks.contest import ensure
from benchmarks.manifest import ModelSpec, select
from benchmarks.report import Row

__all__ = ["add_arguments", "main"]

TOLERANCE = 1e-4
_PAIRS = (("in", "out"), ("in_b", "out_b"))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--models", help="models or sets, separated by commas (default: all)")
    parser.add_argument("--threads", default="1,2", help="numbers of threads (default: 1,2)")
    parser.add_argument("--isa", help="ISA levels, separated by commas (default: all of this machine)")
    parser.add_argument("--batch", type=int, default=1, help="size of the batch (default: 1)")
    parser.add_argument("--json", type=Path, help="record of the errors")
    parser.add_argument(
        "--recorded",
        action="store_true",
        help="run the files that were made for batch 1 and the first size, whatever the input is",
    )


def _worst(path: Path, model: zoo.ZooModel, isa: str, threads: int) -> float:
    """Largest error on both inputs; infinite when a second run differs from the first."""
    package: Any = importlib.import_module("pnnx_fast")
    loaded = package.load(path, num_threads=threads, isa=isa)

    def run(inputs: Sequence[Array]) -> list[Array]:
        result = loaded(*inputs)
        return [np.array(a) for a in (result if isinstance(result, (tuple, list)) else (result,))]

    worst = 0.0
    for given, expected in _PAIRS:
        inputs = model.arrays(given)
        first, second = run(inputs), run(inputs)
        if any(not np.array_equal(a, b, equal_nan=True) for a, b in zip(first, second, strict=True)):
            return float("inf")
        worst = max(worst, worst_error(first, model.arrays(expected), model.spec.parts))
    return worst


def _levels(words: str | None) -> list[str]:
    package: Any = importlib.import_module("pnnx_fast")
    return words.split(",") if words else list(package.show_config()["isa_levels"])


def _files(spec: ModelSpec, model: zoo.ZooModel, recorded: bool) -> Path:
    return zoo.load(select([spec.base])[0]).pnnx_param if recorded else model.pnnx_param


def main(options: argparse.Namespace) -> int:
    """``python -m benchmarks check``: 1 when a model fails or is further than 1e-4 from PyTorch."""
    specs = select(options.models.split(",") if options.models else None)
    levels, threads = _levels(options.isa), peers.numbers(options.threads)
    ensure(specs, [options.batch])
    columns = [(isa, n) for isa in levels for n in threads]
    print("| model | rounding of PyTorch | " + " | ".join(f"{isa} {n}" for isa, n in columns) + " |")
    print("| --- |" + " ---: |" * (len(columns) + 1))
    failures: list[str] = []
    rows: list[Row] = []
    for spec in specs:
        model = zoo.load(spec, options.batch)
        path = _files(spec, model, options.recorded)
        cells = []
        for isa, n in columns:
            try:
                error = _worst(path, model, isa, n)
            except Exception as problem:  # whatever it is, the other models are still worth a look
                reason = str(problem).strip().replace("\n", " ")[:160]
                failures.append(f"- {spec.name}, {isa} {n}: {type(problem).__name__}: {reason}")
                cells.append("✗")
                break
            if not error <= TOLERANCE:
                failures.append(f"- {spec.name}, {isa} {n}: error {error:.1e}")
            cells.append(f"{error:.1e}")
        rounding = model.meta.get("rounding")
        found = dict(zip((f"{isa} {n}" for isa, n in columns), (float(c) for c in cells if c != "✗"), strict=False))
        rows.append(Row((spec.name,), {"rounding of PyTorch": rounding, **found} if rounding else found))
        cells += [""] * (len(columns) - len(cells))
        print(f"| {spec.name} | {rounding or ''} | " + " | ".join(cells) + " |", flush=True)
    print("\n" + "\n".join(failures) if failures else f"\nAll within {TOLERANCE:.0e}, each run twice alike.")
    if options.json:
        errors = records.Table("Largest error relative to the largest output", ("model",), rows, 1.0, -1, False)
        records.write(options.json, records.simple("check", peers.environment(), [errors]))
    return 1 if failures else 0
