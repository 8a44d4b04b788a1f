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
from benchmarks.contest import ensure
from benchmarks.manifest import select

__all__ = ["CLASSES", "FLAG", "add_arguments", "class_of", "main", "profile_of", "table"]

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


def profile_of(model: zoo.ZooModel, threads: int, repeat: int) -> Any:
    """Profile of a model that is loaded anew, by our engine."""
    package: Any = importlib.import_module("pnnx_fast")
    return package.load(str(model.pnnx_param), num_threads=threads).profile(*model.arrays("in"), repeat=repeat)


def _profile_apart(model: zoo.ZooModel, threads: int, repeat: int) -> Any:
    """The same without strips, so that depthwise convolutions among their stages show."""
    program: Any = importlib.import_module("pnnx_fast.runtime.program")
    kept = program.fuse_strips
    program.fuse_strips = lambda steps, threads: list(steps)
    try:
        return profile_of(model, threads, repeat)
    finally:
        program.fuse_strips = kept


def _by_class(profile: Any) -> dict[str, float]:
    seconds: dict[str, float] = defaultdict(float)
    for step in profile.steps:
        seconds[class_of(step.kernel, step.type)] += step.seconds
    return dict(seconds)


def _profile(name: str, batch: int, threads: int, repeat: int) -> dict[str, Any]:
    """Seconds by class, and the steps outside of matrix-like kernels that take longest."""
    model = zoo.load(select([name])[0], batch)
    profile = profile_of(model, threads, repeat)
    classes = _by_class(profile)
    inside = [step for step in profile.steps if class_of(step.kernel, step.type) in MATRIX]
    matrix = sum(step.seconds for step in inside)
    figures = {"model": name, "threads": threads, "seconds": profile.seconds, "classes": classes}
    figures["gflops"] = sum(step.gflops * step.seconds for step in inside) / matrix if matrix else 0.0
    if "strips" in classes:
        profile = _profile_apart(model, threads, repeat)
        figures["apart"] = _by_class(profile)
    outside: dict[str, float] = defaultdict(float)
    for step in profile.steps:
        kind = class_of(step.kernel, step.type)
        if kind not in MATRIX:
            outside[f"{kind}: {step.type}"] += step.seconds / profile.seconds
    figures["outside"] = dict(sorted(outside.items(), key=lambda item: -item[1])[:4])
    return figures


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
    ensure(specs, [options.batch])
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


def share_outside(classes: dict[str, float]) -> float:
    """Share of the time outside of matrix-like kernels."""
    total = sum(classes.values())
    return sum(s for kind, s in classes.items() if kind not in MATRIX) / total if total else 0.0


def table(document: dict[str, Any]) -> str:
    """Markdown: shares by class, models above the threshold in bold, and the heaviest steps of those."""
    profiles = document["profiles"]
    shown = [kind for kind in CLASSES if any(p["classes"].get(kind, 0) > 0.005 * p["seconds"] for p in profiles)]
    lines = ["| model | threads | ms | " + " | ".join(shown) + " | matrix GFLOP/s | outside of matrix kernels |"]
    lines.append("| --- | ---: | ---: |" + " ---: |" * (len(shown) + 2))
    notes = []
    for p in profiles:
        total = sum(p["classes"].values())
        cells = [f"{share:.0%}" if (share := p["classes"].get(kind, 0) / total) >= 0.005 else "" for kind in shown]
        share = share_outside(p["classes"])
        apart = share_outside(p["apart"]) if "apart" in p else share
        flagged = max(share, apart) > FLAG
        words = f"**{share:.0%}**" if flagged else f"{share:.0%}"
        words += f" ({apart:.0%} without strips)" if "apart" in p else ""
        labels = [p["model"], str(p["threads"]), f"{p['seconds'] * 1e3:.2f}"]
        lines.append("| " + " | ".join([*labels, *cells, f"{p['gflops']:.0f}", words]) + " |")
        if flagged:
            heaviest = ", ".join(f"{what} {part:.0%}" for what, part in p["outside"].items() if part >= 0.01)
            notes.append(f"- {p['model']} ({p['threads']}): {heaviest}")
    return "\n".join([*lines, *([""] if notes else []), *notes]) + "\n"
