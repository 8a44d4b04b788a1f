"""``python -m benchmarks kernels``: what ``pnnx-fast bench --kernels`` measures, as Markdown and as a record."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from benchmarks import peers, records, zoo
from pnnx_fast._core import program as core
from pnnx_fast.cli import kernel_shapes, kernels

__all__ = ["add_arguments", "main", "summary", "table"]

LARGE_DEPTH = 256


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--group", default="all", help=f"{', '.join(kernel_shapes.GROUPS)}, or all (default)")
    parser.add_argument(
        "--shape", type=kernel_shapes.parse, action="append", help="a shape such as conv:64x56x56,oc=128"
    )
    parser.add_argument("--threads", default="1,2", help="numbers of threads (default: 1,2)")
    parser.add_argument("--isa", help="levels, separated by commas (default: the highest)")
    parser.add_argument("--seconds", type=float, default=0.1, help="time for each algorithm (default: 0.1)")
    parser.add_argument("--json", type=Path, help="record of everything measured")


def main(options: argparse.Namespace) -> int:
    """Measure, print, keep the record."""
    shapes = options.shape or kernel_shapes.of_groups(options.group)
    document: dict[str, Any] = {"kind": "kernels", "environment": peers.environment(), "runs": []}
    for isa in options.isa.split(",") if options.isa else core.ISAS[-1:]:
        if isa not in core.ISAS:
            raise ValueError(f"no ISA level {isa!r} here; there are {', '.join(core.ISAS)}")
        for threads in peers.numbers(options.threads):
            zoo.progress(f"{isa}, {threads} thread(s): {len(shapes)} shapes\n")
            found = [t._asdict() for s in shapes for t in kernels.time_shape(isa, threads, s, options.seconds)]
            peak = kernels.peak(isa, threads)
            document["runs"].append({"isa": isa, "threads": threads, "peak": peak, "timings": found})
    print(table(document))
    if options.json:
        records.write(options.json, document)
    return 0


def _cells(run: dict[str, Any], timing: kernels.Timing) -> list[str]:
    rate, traffic = timing.flops / timing.seconds, timing.nbytes / timing.seconds * 1e-9
    work = [f"{rate * 1e-9:.0f}", f"{rate / run['peak']:.0%}"] if timing.flops else ["", ""]
    name = f"**{timing.algorithm}**" if timing.chosen else timing.algorithm
    return [timing.shape, name, f"{timing.seconds * 1e3:.3f}", *work, f"{traffic:.0f}"]


def table(document: dict[str, Any]) -> str:
    """Markdown of all runs: every algorithm, the dispatcher's choice in bold."""
    parts = []
    for run in document["runs"]:
        head = f"**{run['isa']}, {run['threads']} thread(s), peak {run['peak'] * 1e-9:.0f} GFLOP/s**\n"
        lines = ["| shape | algorithm | ms | GFLOP/s | of peak | GB/s |", "| --- | --- | ---: | ---: | ---: | ---: |"]
        lines += ["| " + " | ".join(_cells(run, kernels.Timing(**t))) + " |" for t in run["timings"]]
        parts.append("\n".join([head, *lines]) + "\n")
    return "\n".join(parts)


def summary(document: dict[str, Any]) -> str:
    """Markdown: for each run and kind of kernel, how the chosen ones do."""
    lines = ["| level | threads | peak GFLOP/s | kernels | shapes | of peak: median | least | at |"]
    lines.append("| --- | ---: | ---: | --- | ---: | ---: | ---: | --- |")
    for run in document["runs"]:
        groups: dict[str, list[tuple[float, str]]] = {}
        for timing in (kernels.Timing(**t) for t in run["timings"]):
            kind = _kind(timing)
            if timing.flops and (timing.chosen or kind.startswith("direct")):
                groups.setdefault(kind, []).append((timing.flops / timing.seconds / run["peak"], timing.shape))
        for kind, shares in sorted(groups.items()):
            middle = sorted(shares)[len(shares) // 2][0]
            least, where = min(shares)
            cells = [run["isa"], run["threads"], f"{run['peak'] * 1e-9:.0f}", kind, len(shares)]
            lines.append("| " + " | ".join(map(str, [*cells, f"{middle:.0%}", f"{least:.0%}", where])) + " |")
    return "\n".join(lines) + "\n"


def _kind(timing: kernels.Timing) -> str:
    """Class of a kernel, direct ones by the depth of their sums."""
    shape = kernel_shapes.parse(timing.shape)
    if timing.label.startswith("narrow"):
        return "narrow"
    if timing.kernel != "conv_f32" or shape.kind not in ("conv", "linear"):
        return timing.algorithm.split()[0] if shape.kind != "transposed" else "transposed"
    if shape.kind == "linear" and shape.sizes[0] == 1:
        return "linear, one row"
    depth = shape.sizes[-1] if shape.kind == "linear" else shape.sizes[0] * shape["k"] ** 2 // shape["g"]
    if depth < 32 or shape["oc"] // shape.options.get("g", 1) < 16:
        return "direct, few channels"
    return f"direct, depth {'≥' if depth >= LARGE_DEPTH else '<'} {LARGE_DEPTH}"
