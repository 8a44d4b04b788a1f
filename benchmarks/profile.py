"""Where the time of each model goes, by class of kernel; models whose share outside of matrix-like kernels is large.

Runs our engine alone, in a process a model. Feeds the report, which sets shares beside the ratios to the peers.
"""

from __future__ import annotations

import argparse
import importlib
import json
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

from benchmarks import peers, records, zoo
from benchmarks.manifest import select

__all__ = ["CLASSES", "FLAG", "add_arguments", "class_of", "main", "table"]

FLAG = 0.15
"""Share of time outside of matrix-like kernels that asks for an explanation."""

MATRIX = ("convolution", "strips", "linear", "matmul", "attention", "recurrent")
CLASSES = (*MATRIX, "depthwise", "normalization", "softmax", "pooling", "element-wise", "copy", "other")

# The first prefix of a kernel's name that fits.
_PREFIXES = {
    "conv_depthwise": "depthwise",
    "strips": "strips",  # chains of convolutions, depthwise ones among them
    "conv": "convolution",
    "matmul": "matmul",
    "attention": "attention",
    "lstm": "recurrent",
    "gru": "recurrent",
    "rnn": "recurrent",
    "row_norm": "normalization",
    "group_norm": "normalization",
    "channel_affine": "normalization",
    "normalize": "normalization",
    "local_response_norm": "normalization",
    "softmax": "softmax",
    "log_softmax": "softmax",
    "max_pool": "pooling",
    "avg_pool": "pooling",
    "lp_pool": "pooling",
    "reduce": "pooling",
    "expression": "element-wise",
    "copy": "copy",
    "fill": "copy",
    "pad": "copy",
    "gather": "copy",
    "resize": "copy",
}
_LINEAR = ("Linear", "linear", "MultiheadAttention")


def class_of(kernel: str, type: str) -> str:
    """Class of a step by its kernel and the operator it belongs to."""
    found = next((name for prefix, name in _PREFIXES.items() if kernel.startswith(prefix)), "other")
    return "linear" if found == "convolution" and type.endswith(_LINEAR) else found


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--models", help="models or sets, separated by commas (default: all)")
    parser.add_argument("--threads", default="1", help="numbers of threads (default: 1)")
    parser.add_argument("--batch", type=int, default=1, help="size of the batch (default: 1)")
    parser.add_argument(
        "--repeat", type=int, default=30, help="calls, of which each step's fastest counts (default: 30)"
    )
    parser.add_argument("--json", type=Path, help="record of everything measured")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)


def _profile(name: str, batch: int, threads: int, repeat: int) -> dict[str, Any]:
    """Seconds by class, and the steps outside of matrix-like kernels that take longest."""
    model = zoo.load(select([name])[0], batch)
    package: Any = importlib.import_module("pnnx_fast")
    loaded = package.load(str(model.pnnx_param), num_threads=threads)
    profile = loaded.profile(*model.arrays("in"), repeat=repeat)
    seconds: dict[str, float] = defaultdict(float)
    work = 0.0
    outside: dict[str, float] = defaultdict(float)
    for step in profile.steps:
        kind = class_of(step.kernel, step.type)
        seconds[kind] += step.seconds
        if kind in MATRIX:
            work += step.gflops * step.seconds
        else:
            outside[f"{kind}: {step.type}"] += step.seconds
    heaviest = sorted(outside.items(), key=lambda item: -item[1])[:4]
    matrix = sum(seconds[kind] for kind in MATRIX)
    figures = {"seconds": profile.seconds, "classes": dict(seconds), "outside": dict(heaviest)}
    return {"model": name, "threads": threads, **figures, "gflops": work / matrix if matrix else 0.0}


def _in_own_process(name: str, options: argparse.Namespace, threads: int) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks", "profile", "--one", "--models", name]
    command += ["--threads", str(threads), "--batch", str(options.batch), "--repeat", str(options.repeat)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{name}: {done.stderr.strip().splitlines()[-1] if done.stderr.strip() else 'failed'}")
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def main(options: argparse.Namespace) -> int:
    """``python -m benchmarks profile``: 1 when a model could not be run."""
    specs, threads = select(options.models.split(",") if options.models else None), peers.numbers(options.threads)
    if options.one:
        print(json.dumps(_profile(specs[0].name, options.batch, threads[0], options.repeat)))
        return 0
    peers.ensure(specs, [options.batch])
    results, failed = [], 0
    for n in threads:
        for spec in specs:
            try:
                results.append(_in_own_process(spec.name, options, n))
            except RuntimeError as error:
                failed = 1
                print(f"error: {error}", file=sys.stderr)
    document = {"kind": "profile", "environment": peers.environment(), "profiles": results}
    print(table(document))
    if options.json:
        records.write(options.json, document)
    return failed


def share_outside(profile: dict[str, Any]) -> float:
    """Share of the time outside of matrix-like kernels."""
    classes: dict[str, float] = profile["classes"]
    total = sum(classes.values())
    return sum(s for kind, s in classes.items() if kind not in MATRIX) / total if total else 0.0


def table(document: dict[str, Any]) -> str:
    """Markdown: shares by class, models above the threshold in bold, and the heaviest steps of those."""
    profiles = document["profiles"]
    shown = [kind for kind in CLASSES if any(p["classes"].get(kind, 0) > 0.005 * p["seconds"] for p in profiles)]
    lines = ["| model | threads | ms | " + " | ".join(shown) + " | outside of matrix kernels | their GFLOP/s |"]
    lines.append("| --- | ---: | ---: |" + " ---: |" * (len(shown) + 2))
    notes = []
    for p in profiles:
        total = sum(p["classes"].values())
        cells = [f"{share:.0%}" if (share := p["classes"].get(kind, 0) / total) >= 0.005 else "" for kind in shown]
        outside = share_outside(p)
        flagged = outside > FLAG
        cells.append(f"**{outside:.0%}**" if flagged else f"{outside:.0%}")
        labels = [p["model"], str(p["threads"]), f"{p['seconds'] * 1e3:.2f}"]
        lines.append("| " + " | ".join([*labels, *cells, f"{p['gflops']:.0f}"]) + " |")
        if flagged:
            heaviest = ", ".join(f"{what} {s / total:.0%}" for what, s in p["outside"].items() if s / total >= 0.01)
            notes.append(f"- {p['model']} ({p['threads']}): {heaviest}")
    return "\n".join([*lines, *([""] if notes else []), *notes]) + "\n"
