"""Times the ncnn package and ours on the same ncnn files, in turn; results are compared first.

Nets are trained ones with recorded results and nets of which only the graph is known, with random weights, of the
folder named by PNNX_FAST_DATA; and the ncnn forms of the zoo's models. A process an engine, as for the other peers.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import compare, peers, records, report, zoo
from benchmarks.compare import Array
from benchmarks.contest import Measurement, Settings, burst
from benchmarks.manifest import zoo_root
from benchmarks.ncnn_weights import size_of, write_random
from benchmarks.process import Worker, WorkerError
from pnnx_fast.ncnn import Net

__all__ = ["Case", "add_arguments", "cases", "main"]

OURS, PEER = "pnnx_fast", "ncnn"
_MODULES = {OURS: "pnnx_fast.ncnn", PEER: "ncnn"}
_OPEN_SECONDS = 300.0
_MOST_WEIGHTS = 800 << 20
# Inputs other than those of the list, where a net is made for one size or wants facts of a picture.
_INPUTS: dict[str, dict[str, list[int]]] = {
    "PP_OCRv5_mobile_rec.ncnn": {"in0": [3, 48, 320]},
    "vision_transformer": {"input": [3, 384, 384]},
    "yolact": {"input.1": [3, 550, 550]},
    "yolo11n_cls.ncnn": {"in0": [3, 224, 224]},
}
# Rounding to int8 goes the other way for a few values, and the layers behind multiply the difference.
_TOLERANCES = {"float": 5e-3, "int8": 1e-1}


@dataclass
class Case:
    """One net: files, inputs, outputs, blobs to compare, and their expected values where somebody recorded them."""

    name: str
    source: str
    param: Path
    weights: Path | None
    inputs: dict[str, Array]
    outputs: list[str]
    compared: list[str]
    expected: list[Array] = field(default_factory=list)

    @property
    def kind(self) -> str:
        return "int8" if "int8" in self.name else "float"


class _NcnnWorker(Worker):
    """A worker process of ncnn_worker.py."""

    def __init__(self, engine: str, case: Case, weights: Path, threads: int) -> None:
        arguments = ["benchmarks.ncnn_worker", _MODULES[engine], str(case.param), str(weights), str(threads)]
        self._start(arguments, threads)


# ---- the nets ----


def _trained(folder: Path) -> Iterator[Case]:
    for path in sorted(folder.glob("models/*.expected.npz")):
        name = path.name.removesuffix(".expected.npz")
        param = path.with_name(f"{name}.param")
        arrays = np.load(path)
        outputs = [key for key in arrays.files if key.startswith("out:")]
        if not outputs:
            continue
        net = _net(param)
        inputs = dict(zip(net.input_names(), [arrays["input"]], strict=False))
        names = [key.removeprefix("out:") for key in outputs]
        yield Case(
            name, "trained", param, param.with_suffix(".bin"), inputs, names, names, [arrays[key] for key in outputs]
        )


def _graphs(folder: Path) -> Iterator[Case]:
    listed = folder / "ncnn_params" / "shapes.json"
    shapes = json.loads(listed.read_text(encoding="utf-8")) if listed.is_file() else {}
    rng = np.random.default_rng(0)
    for file, entry in shapes.items():
        name, param = file.removesuffix(".param"), listed.with_name(file)
        wanted = {**entry["inputs"], **_INPUTS.get(name, {})}
        inputs = {key: _picture(rng, shape) for key, shape in wanted.items()}
        if "im_info" in inputs:
            inputs["im_info"] = np.array([*wanted["data"][1:], 1], np.float32)
        outputs = list(entry["outputs"])
        yield Case(name, "graph", param, None, inputs, outputs, _comparable(param, outputs))


def _comparable(param: Path, outputs: list[str]) -> list[str]:
    """Outputs that tell something, with random weights: what a last layer takes where it gives 0 and 1 or a ranking."""
    net = _net(param)
    blobs, names = net.blobs(), list[str]()
    makers = {blobs[top].name: layer for layer in net.layers() for top in layer.tops}
    for name in outputs:
        maker = makers[name]
        last = maker.type == "Softmax" or maker.type.endswith("DetectionOutput")
        names += [blobs[i].name for i in maker.bottoms] if last else [name]
    return list(dict.fromkeys(names))


def _zoo() -> Iterator[Case]:
    for param in sorted(zoo_root().glob("*/model.ncnn.param")):
        golden, meta = param.with_name("golden.npz"), param.with_name("meta.json")
        if not golden.is_file() or not meta.is_file():
            continue
        arrays, facts = np.load(golden), json.loads(meta.read_text(encoding="utf-8"))
        given = [arrays[key] for key in arrays.files if key.startswith("in") and key[2:].isdigit()]
        inputs = {
            f"in{i}": (a.astype(np.int32) if a.dtype == np.int64 else a)[0] for i, a in enumerate(given) if len(a) == 1
        }
        if not inputs:
            continue
        expected = [arrays[f"out{i}"] for i in range(len(facts["outputs"]))]
        names = [entry["name"] for entry in facts["outputs"]]
        yield Case(param.parent.name, "zoo", param, param.with_suffix(".bin"), inputs, names, names, expected)


def _picture(rng: np.random.Generator, shape: Sequence[int]) -> Array:
    """Noise over smooth waves, of about the size that nets expect."""
    waves = sum(np.cos(np.linspace(0, 3 + i, n)).reshape(-1, *(1,) * (len(shape) - i - 1)) for i, n in enumerate(shape))
    values: Array = (waves + 0.5 * rng.standard_normal(shape)).astype(np.float32)
    return values


def _net(param: Path) -> Net:
    net = Net()
    if net.load_param(str(param)):
        raise ValueError(f"{param} cannot be loaded")
    return net


def cases(folder: Path | None, sources: Sequence[str], names: Sequence[str] = ()) -> list[Case]:
    """Nets of some sources; of the names given, or all.

    Raises
    ------
    ValueError
        There is none.
    """
    found: list[Case] = []
    if folder is not None and "trained" in sources:
        found += _trained(folder)
    if folder is not None and "graph" in sources:
        found += _graphs(folder)
    if "zoo" in sources:
        found += _zoo()
    chosen = [case for case in found if not names or case.name in names]
    if not chosen:
        raise ValueError("there are no such ncnn models; PNNX_FAST_DATA names the folder of trained ones and graphs")
    return chosen


# ---- measuring ----


def measure(case: Case, threads: int, settings: Settings) -> dict[str, Measurement]:
    """Open, compare and time both on one net."""
    done = {PEER: Measurement(), OURS: Measurement()}
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        try:
            weights = _weights(case, scratch)
        except ValueError as error:
            done[OURS].failure = done[PEER].failure = str(error)
            return done
        named: Any = case.inputs
        np.savez(scratch / "in.npz", **named)
        running, results = {}, {}
        for name, outcome in done.items():
            try:
                worker = stack.enter_context(_NcnnWorker(name, case, weights, threads))
                worker.ask("open", str(scratch / "in.npz"), case.outputs, timeout=_OPEN_SECONDS)
                worker.ask("results", case.compared, str(scratch / f"{name}.npz"), timeout=_OPEN_SECONDS)
                worker.pause()
            except WorkerError as error:
                outcome.failure = str(error)
                continue
            running[name], results[name] = worker, list(np.load(scratch / f"{name}.npz").values())
        _compare(case, results, done)
        for number in range(settings.rounds + 1):
            for name in list(running)[:: -1 if number % 2 else 1]:
                if done[name].failure is None:
                    burst(running[name], done[name], settings, warm_up=number == 0)
    return done


def _weights(case: Case, scratch: Path) -> Path:
    if case.weights is not None:
        return case.weights
    net = _net(case.param)
    if size_of(net) > _MOST_WEIGHTS:
        raise ValueError(f"more than {_MOST_WEIGHTS >> 20} MB of weights")
    path = scratch / "weights.bin"
    write_random(net, path)
    return path


def _compare(case: Case, results: dict[str, list[Array]], done: dict[str, Measurement]) -> None:
    """Errors against what is recorded, else of ours against the package's."""
    for name, arrays in results.items():
        expected = case.expected or (results.get(PEER, []) if name == OURS else [])
        if not expected:
            continue
        same = [a.reshape(e.shape) if a.size == e.size else a for a, e in zip(arrays, expected, strict=True)]
        error = compare.worst_error(same, expected)
        if name == OURS or case.expected:
            done[name].error = error
        if name == OURS and not error <= _TOLERANCES[case.kind]:
            done[name].failure = f"wrong result: error {error:.1e}"


# ---- command line ----


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--models", help="names of nets, separated by commas (default: all)")
    parser.add_argument("--sources", default="trained,graph", help="trained, graph, zoo (default: trained,graph)")
    parser.add_argument("--data", type=Path, help="folder of nets (default: PNNX_FAST_DATA)")
    parser.add_argument("--threads", default="1,2", help="numbers of threads (default: 1,2)")
    parser.add_argument("--rounds", type=int, default=5, help="rounds of bursts (default: 5)")
    parser.add_argument("--seconds", type=float, default=0.2, help="length of a burst (default: 0.2)")
    parser.add_argument("--json", type=Path, help="record of everything measured")
    parser.add_argument("--nice", type=int, default=0, help="priority of bursts, below 0 needs rights")


def main(options: argparse.Namespace) -> int:
    """``python -m benchmarks ncnn``."""
    place = os.environ.get("PNNX_FAST_DATA")
    folder = options.data or (Path(place) if place else None)
    names = options.models.split(",") if options.models else []
    settings = Settings(options.rounds, options.seconds, nice=options.nice)
    chosen = cases(folder, options.sources.split(","), names)
    rows = []
    for threads in peers.numbers(options.threads):
        for case in chosen:
            done = measure(case, threads, settings)
            labels = case.name, case.source, str(threads)
            rows.append(_row(labels, done))
            zoo.progress(f"{' '.join(labels)}: {_short(rows[-1])}\n")
    heads = ("model", "source", "threads")
    if options.json:
        table = records.Table("Median of a call, ms", heads, rows, 1e3)
        records.write(options.json, records.simple("ncnn", peers.environment(), [table]))
    print(report.markdown(rows, heads, (OURS, PEER), OURS, lambda s: f"{s * 1e3:.2f}"))
    print(report.summary(rows, OURS))
    print(f"Medians in ms. {peers.describe(peers.environment())}")
    return 0


def _row(labels: tuple[str, ...], done: dict[str, Measurement]) -> report.Row:
    fine = {name: m for name, m in done.items() if m.failure is None and m.bursts}
    return report.Row(
        labels,
        {name: m.seconds for name, m in fine.items()},
        {name: m.failure for name, m in done.items() if m.failure is not None},
        {name: m.error for name, m in done.items() if m.error is not None},
    )


def _short(row: report.Row) -> str:
    share = report.ratio(row, OURS)
    error = row.errors.get(OURS)
    words = [f"ratio {share:.2f}" if share is not None else "", f"error {error:.1e}" if error is not None else ""]
    return " ".join([*words, *(f"{name}: {why}" for name, why in row.failures.items())])
