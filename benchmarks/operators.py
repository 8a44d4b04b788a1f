"""``python -m benchmarks operators``: single operators of PyTorch, one thread, every engine that can run them.

Cases are in operator_cases.py. Each is traced, converted and kept beside the zoo; then the engines take turns in this
process, which has one thread, so none disturbs another.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks import peers, records, report, zoo
from benchmarks.compare import worst_error
from benchmarks.engines import ENGINES, OURS, Session
from benchmarks.manifest import ModelSpec, zoo_root
from benchmarks.worker import Timed
from benchmarks.zoo import ZooModel

if TYPE_CHECKING:
    from benchmarks.operator_cases import Case

__all__ = ["add_arguments", "main"]

_PEERS = "onnxruntime,openvino,torch"
_TOLERANCE = 1e-3
_HEADS = ("family", "operator")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--match", help="texts, separated by commas; cases whose family or name has one (default: all)")
    parser.add_argument("--peers", default=_PEERS, help=f"other engines (default: {_PEERS})")
    parser.add_argument("--rounds", type=int, default=3, help="rounds of bursts (default: 3)")
    parser.add_argument("--seconds", type=float, default=0.1, help="length of a burst (default: 0.1)")
    parser.add_argument("--force", action="store_true", help="build again what is cached")
    parser.add_argument("--json", type=Path, help="record of everything measured")


def main(options: argparse.Namespace) -> int:
    """Build what is missing, measure, print a table and keep the record."""
    from benchmarks.operator_cases import cases

    engines = [OURS, *options.peers.split(",")]
    words = options.match.split(",") if options.match else [""]
    chosen = {n: c for n, c in cases().items() if any(word in n or word in c.family for word in words)}
    rows = []
    for number, (name, case) in enumerate(chosen.items()):
        model = _built(name, case, options.force)
        rows.append(_measure(model, case, engines, options.rounds, options.seconds))
        zoo.progress(f"[{number + 1}/{len(chosen)}] {name}: {report.ratio(rows[-1], OURS) or 0:.2f}\n")
    title = "Median of a call, 1 thread, µs"
    document = records.simple("operators", peers.environment(), [records.Table(title, _HEADS, rows, 1e6, 1)])
    print(records.simple_tables(document) + "\n" + report.summary(rows, OURS))
    if options.json:
        records.write(options.json, document)
    return 0


def _built(name: str, case: Case, force: bool) -> ZooModel:
    """The files of a case, made where they are missing.

    Raises
    ------
    BuildError
        The converter failed.
    """
    directory = zoo_root().parent / "operators" / name.replace(" ", "_")
    if force or not (directory / "meta.json").is_file():
        unfinished = directory.with_name(f".{directory.name}.{os.getpid()}")
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(parents=True)
        _write(case, unfinished)
        shutil.rmtree(directory, ignore_errors=True)
        unfinished.rename(directory)
    meta = json.loads((directory / "meta.json").read_text(encoding="utf-8"))
    return ZooModel(ModelSpec(name, "operator"), 1, directory, meta)


def _write(case: Case, directory: Path) -> None:
    import torch
    from torch import nn

    class Call(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.function = case.function

        def forward(self, *inputs: Any) -> Any:
            return self.function(*inputs)

    module: Any = case.function if isinstance(case.function, nn.Module) else Call()
    module.eval()
    trace: Any = torch.jit.trace
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        outputs = zoo.as_arrays(module(*case.inputs))
        trace(module, case.inputs, check_trace=False).save(str(directory / "model.pt"))
    zoo.convert(directory, case.inputs, kinds=("pnnx",))
    zoo.export_onnx(module, case.inputs, directory, len(outputs))
    arrays = {f"in{i}": x.numpy() for i, x in enumerate(case.inputs)} | {f"out{i}": y for i, y in enumerate(outputs)}
    np.savez(directory / "golden.npz", allow_pickle=False, **arrays)
    (directory / "meta.json").write_text("{}\n", encoding="utf-8")


def _measure(model: ZooModel, case: Case, names: Sequence[str], rounds: int, seconds: float) -> report.Row:
    """Medians of the bursts' medians. An engine that cannot run the case, or is wrong, has none."""
    wanted = model.arrays("out")
    sessions: dict[str, Session] = {}
    errors: dict[str, float] = {}
    failures: dict[str, str] = {}
    for name in names:
        try:
            sessions[name] = _open(name, model)
            errors[name] = worst_error(sessions[name].arrays(sessions[name].run()), wanted)
        except Exception as error:  # engines raise all sorts where they lack an operator
            sessions.pop(name, None)
            if name == OURS:
                failures[name] = str(error)
    sessions = {name: session for name, session in sessions.items() if name == OURS or errors[name] <= _TOLERANCE}
    bursts: dict[str, list[list[float]]] = {name: [] for name in sessions}
    for _ in range(rounds):
        for name, session in sessions.items():
            bursts[name].append(Timed(1, session).burst(seconds, 3)["times"])
    values = {name: report.of_bursts(found) for name, found in bursts.items()}
    return report.Row(
        (case.family, model.spec.name), values, failures, {n: e for n, e in errors.items() if n in values}
    )


def _open(name: str, model: ZooModel) -> Session:
    engine = ENGINES[name]
    path = engine.converted_path(model, 1)
    if path is not None and engine.convert is not None and not path.is_file():
        engine.convert(model, path, 1)
    return engine.open(model, model.arrays("in"), 1)
