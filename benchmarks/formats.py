"""Speed of the file formats: the checksum against zlib's, and graphs of many operators read and written.

No model is run, so no zoo is needed.
"""

from __future__ import annotations

import argparse
import importlib
import tempfile
import time
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from benchmarks import peers, records
from benchmarks.report import Row

__all__ = ["add_arguments", "graph_text", "main"]

_MEGABYTE = 1 << 20
_LEAST_SECONDS, _MOST_CALLS = 0.3, 200


def _line(kind: str, name: str, rest: str) -> str:
    """One operator, with type and name padded as the converter pads them."""
    return f"{kind:<24s} {name:<24s} {rest}"


def graph_text(operators: int) -> str:
    """Text of a chain of `operators` operators with six parameters each, without weights."""
    lines = ["7767517", f"{operators + 2} {operators + 1}", _line("pnnx.Input", "in0", "0 1 0 #0=(1,3,224,224)f32")]
    for number in range(operators):
        parameters = (
            f"bias=True dilation=(1,1) groups={number % 7 + 1} kernel_size=(3,3)"
            f" padding_mode=zeros scale={number % 97 + 1}.250000e-03"
        )
        shapes = f"#{number}=(1,3,224,224)f32 #{number + 1}=(1,3,224,224)f32"
        rest = f"1 1 {number} {number + 1} {parameters} {shapes}"
        lines.append(_line("nn.Operator", f"op_{number}", rest))
    lines.append(_line("pnnx.Output", "out0", f"1 0 {operators} #{operators}=(1,3,224,224)f32"))
    return "\n".join(lines) + "\n"


def _seconds(run: Callable[[], object]) -> float:
    """Median of calls that fill a while, three at least, after one that is not counted."""
    run()
    times: list[float] = []
    while (sum(times) < _LEAST_SECONDS or len(times) < 3) and len(times) < _MOST_CALLS:
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return median(times)


def _checksums() -> list[dict[str, Any]]:
    ours: Callable[[bytes], int] = importlib.import_module("pnnx_fast._core.store").crc32
    rows = []
    for size in (1 << 10, 64 << 10, _MEGABYTE, 256 * _MEGABYTE):
        data = np.random.default_rng(0).bytes(size)
        if ours(data) != zlib.crc32(data):
            raise ValueError(f"crc32 differs from zlib's on {size} bytes")
        mine, theirs = _seconds(lambda: ours(data)), _seconds(lambda: zlib.crc32(data))  # noqa: B023
        rows.append({"bytes": size, "ours": size / mine / 1e9, "zlib": size / theirs / 1e9})
    return rows


def _graphs(counts: list[int], directory: Path) -> list[dict[str, Any]]:
    graph_class: Any = importlib.import_module("pnnx_fast").Graph
    rows = []
    for count in counts:
        param, copy = directory / f"g{count}.pnnx.param", directory / f"copy{count}.pnnx.param"
        param.write_text(graph_text(count), encoding="utf-8")
        with zipfile.ZipFile(param.with_suffix(".bin"), "w", zipfile.ZIP_STORED):
            pass
        graph = graph_class.load(param)
        graph.save(copy)
        same = copy.read_bytes() == param.read_bytes()
        load = _seconds(lambda: graph_class.load(param))  # noqa: B023
        save = _seconds(lambda: graph.save(copy))  # noqa: B023
        size = param.stat().st_size
        rows.append({"operators": count, "bytes": size, "load": load, "save": save, "identical": same})
    return rows


def _record(checksums: list[dict[str, Any]], graphs: list[dict[str, Any]]) -> dict[str, Any]:
    sums = [Row((str(row["bytes"]),), {"pnnx_fast": row["ours"], "zlib": row["zlib"]}) for row in checksums]
    files = [Row((str(row["operators"]),), {"load": row["load"], "save": row["save"]}) for row in graphs]
    tables = [records.Table("CRC-32, GB/s", ("bytes",), sums, compared=False)]
    tables.append(records.Table("Graph files, ms", ("operators",), files, 1e3, 1, False))
    return records.simple("formats", peers.environment(), tables)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--operators", default="1000,10000,100000", help="sizes of the graphs")
    parser.add_argument("--json", type=Path, help="write the figures to this file")


def main(options: argparse.Namespace) -> int:
    """``python -m benchmarks formats``."""
    checksums = _checksums()
    print("| bytes | pnnx_fast GB/s | zlib GB/s | ratio |\n| ---: | ---: | ---: | ---: |")
    for row in checksums:
        figures = f"{row['ours']:.2f} | {row['zlib']:.2f} | {row['ours'] / row['zlib']:.1f}"
        print(f"| {row['bytes']} | {figures} |")
    with tempfile.TemporaryDirectory() as place:
        graphs = _graphs([int(word) for word in options.operators.split(",")], Path(place))
    print("\n| operators | MB | load ms | µs an operator | save ms | µs an operator | identical |")
    print("|" + " ---: |" * 7)
    for row in graphs:
        count = row["operators"]
        load, save = (f"{row[k] * 1e3:.1f} | {row[k] / count * 1e6:.2f}" for k in ("load", "save"))
        same = "yes" if row["identical"] else "NO"
        print(f"| {count} | {row['bytes'] / 1e6:.2f} | {load} | {save} | {same} |")
    if options.json:
        records.write(options.json, _record(checksums, graphs))
    return 0
