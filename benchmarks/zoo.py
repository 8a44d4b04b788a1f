"""Builds the model zoo: PyTorch module -> trace -> converter -> files of every engine, with golden arrays.

Each model gets a directory of its own outside the repository, made under another name and renamed when it is
complete. Tests and benchmarks read it through `load`, which needs numpy only; building needs torch, the
converter and the packages of the models.
"""

from __future__ import annotations

import argparse
import copy
import gc
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.compare import Array, relative_error, split, worst_error
from benchmarks.manifest import ModelSpec, model_directory, models, select

if TYPE_CHECKING:
    from torch import Tensor, nn

__all__ = [
    "BuildError",
    "ZooModel",
    "add_arguments",
    "as_arrays",
    "build",
    "convert",
    "export_onnx",
    "is_built",
    "load",
    "main",
    "progress",
]

# Raised when a change here or in models.py makes the cached files stale.
RECIPE = 1
SENSITIVITY = 0.01
ROUNDING = 3e-5
_OPSETS = (17, 18, 20, 14)
_SEEDS = {"in": 11, "in_b": 12}


class BuildError(RuntimeError):
    """A model could not be built."""


@dataclass(frozen=True)
class ZooModel:
    """Files of one built model. Arrays are read when asked for."""

    spec: ModelSpec
    batch: int
    directory: Path
    meta: dict[str, Any]

    @property
    def pnnx_param(self) -> Path:
        return self.directory / "model.pnnx.param"

    def arrays(self, prefix: str) -> list[Array]:
        """Golden arrays ``<prefix>0``, ``<prefix>1``, ...; prefixes are in, out, in_b and out_b."""
        with np.load(self.directory / "golden.npz") as golden:
            names = sorted(
                (n for n in golden.files if n.startswith(prefix) and n[len(prefix) :].isdigit()),
                key=lambda n: int(n[len(prefix) :]),
            )
            return [golden[name] for name in names]


def is_built(name: str, batch: int = 1) -> bool:
    """Whether the directory of a model is complete and made by the present recipe."""
    try:
        meta = json.loads((model_directory(name, batch) / "meta.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    revision = models()[name.partition("@")[0]].revision
    return bool(meta.get("recipe") == RECIPE and meta.get("revision", 1) == revision)


def load(spec: ModelSpec, batch: int = 1) -> ZooModel:
    """A built model.

    Raises
    ------
    FileNotFoundError
        It has not been built; the message says how.
    """
    if not is_built(spec.name, batch):
        command = f"python -m benchmarks zoo --models {spec.name} --batch {batch}"
        raise FileNotFoundError(f"{spec.name} is not built: run {command}")
    directory = model_directory(spec.name, batch)
    meta = json.loads((directory / "meta.json").read_text(encoding="utf-8"))
    return ZooModel(spec, batch, directory, meta)


# ---- building ----


def build(spec: ModelSpec, batch: int = 1, say: Callable[[str], None] = lambda text: None) -> ZooModel:
    """Make all files of one model; `say` is told about each stage.

    Raises
    ------
    BuildError
        The converter failed, or an output hardly depends on the input.
    """
    place = model_directory(spec.name, batch)
    unfinished = place.with_name(f".{place.name}.{os.getpid()}")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    try:
        meta = _write_files(spec, batch, unfinished, say)
        (unfinished / "meta.json").write_text(json.dumps(meta, indent=2) + "\n", encoding="utf-8")
        shutil.rmtree(place, ignore_errors=True)
        unfinished.rename(place)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
        gc.collect()
    return load(spec, batch)


def _write_files(spec: ModelSpec, batch: int, directory: Path, say: Callable[[str], None]) -> dict[str, Any]:
    """Everything but meta.json, whose contents are returned."""
    import torch

    from benchmarks.models import example, make

    started = time.perf_counter()
    say("weights")
    module = make(spec)
    inputs = {key: example(spec, batch, seed) for key, seed in _SEEDS.items()}
    say("golden")
    meta = _write_golden(spec, module, inputs, directory)
    say("double precision")
    rounding = _rounding_error(spec, module, inputs["in"])
    say("trace")
    trace: Any = torch.jit.trace
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        trace(module, inputs["in"], check_trace=False).save(str(directory / "model.pt"))
    say("pnnx")
    convert(directory, inputs["in"])
    say("onnx")
    opset = export_onnx(module, inputs["in"], directory, len(meta["outputs"]))
    return {
        "recipe": RECIPE,
        "revision": spec.revision,
        "name": spec.name,
        "batch": batch,
        **meta,
        "parameters": sum(parameter.numel() for parameter in module.parameters()),
        "flops": _count_flops(module, inputs["in"]),
        "onnx_opset": opset,
        "rounding": rounding,
        "torch": torch.__version__,
        "seconds": round(time.perf_counter() - started, 1),
    }


def as_arrays(result: object) -> list[Array]:
    """What a module returned, as arrays."""
    tensors = result if isinstance(result, (tuple, list)) else (result,)
    return [tensor.detach().contiguous().numpy() for tensor in tensors]


def _write_golden(
    spec: ModelSpec, module: nn.Module, inputs: dict[str, tuple[Tensor, ...]], directory: Path
) -> dict[str, Any]:
    import torch

    with torch.no_grad():
        outputs = {key: as_arrays(module(*value)) for key, value in inputs.items()}
    first, second = outputs["in"], outputs["in_b"]
    pairs = zip(split(first, spec.parts), split(second, spec.parts), strict=True)
    sensitivity = {label: relative_error(other, one) for (label, one), (_, other) in pairs}
    dull = {label: value for label, value in sensitivity.items() if not SENSITIVITY < value < float("inf")}
    if dull:
        raise BuildError(f"{spec.name}: outputs hardly depend on the input: {dull}")
    golden = {}
    for key, name in (("in", "out"), ("in_b", "out_b")):
        golden.update({f"{key}{i}": value.numpy() for i, value in enumerate(inputs[key])})
        golden.update({f"{name}{i}": value for i, value in enumerate(outputs[key])})
    np.savez(directory / "golden.npz", allow_pickle=False, **golden)

    def describe(prefix: str, count: int) -> list[dict[str, Any]]:
        found = [(f"{prefix}{i}", golden[f"{prefix}{i}"]) for i in range(count)]
        return [{"name": name, "shape": list(a.shape), "dtype": a.dtype.name} for name, a in found]

    return {
        "inputs": describe("in", len(inputs["in"])),
        "outputs": describe("out", len(first)),
        "parts": [list(part) for part in spec.parts],
        "sensitivity": {label: round(value, 4) for label, value in sensitivity.items()},
    }


def _rounding_error(spec: ModelSpec, module: nn.Module, inputs: tuple[Tensor, ...]) -> float:
    """Error of single against double precision: what an engine that rounds otherwise may differ by.

    Raises
    ------
    BuildError
        It is so large that it would be mistaken for an engine's error.
    """
    import torch

    double = copy.deepcopy(module).double()
    wide = [tensor.double() if tensor.is_floating_point() else tensor for tensor in inputs]
    with torch.no_grad():
        error = worst_error(as_arrays(module(*inputs)), as_arrays(double(*wide)), spec.parts)
    if not error < ROUNDING:
        raise BuildError(f"{spec.name}: single precision alone costs {error:.1e}")
    return float(f"{error:.2g}")


def _converter() -> Path:
    found = importlib.util.find_spec("pnnx")
    for place in (found.submodule_search_locations or []) if found else []:
        binary = Path(place) / "pnnx"
        if binary.is_file():
            return binary
    raise BuildError("the converter is missing: pip install pnnx")


_PNNX_TYPES = {"torch.float32": "f32", "torch.int64": "i64"}


def convert(directory: Path, inputs: Sequence[Tensor], kinds: Sequence[str] = ("pnnx", "ncnn")) -> None:
    """Run the converter on model.pt.

    Raises
    ------
    BuildError
        Files of one of these kinds are missing afterwards.
    """
    shapes = ",".join(
        "[" + ",".join(map(str, tensor.shape)) + "]" + _PNNX_TYPES[str(tensor.dtype)] for tensor in inputs
    )
    command = [str(_converter()), "model.pt", f"inputshape={shapes}", "fp16=0"]
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, errors="replace", check=False)
    (directory / "pnnx.log").write_text(done.stdout + done.stderr, encoding="utf-8")
    wanted = [directory / f"model.{kind}.{part}" for kind in kinds for part in ("param", "bin")]
    missing = [path.name for path in wanted if not path.is_file()]
    if done.returncode or missing:
        raise BuildError(f"pnnx failed ({done.returncode}), missing {missing}: {done.stderr[-500:]}")
    (directory / "model.pnnx.onnx").unlink(missing_ok=True)


def export_onnx(module: nn.Module, inputs: tuple[Tensor, ...], directory: Path, outputs: int) -> int | None:
    """Write model.onnx with the first operator set that works; the set, or None."""
    import torch

    path = directory / "model.onnx"
    for opset in _OPSETS:
        try:
            with warnings.catch_warnings(), torch.no_grad():
                warnings.simplefilter("ignore")
                torch.onnx.export(
                    module,
                    inputs,
                    str(path),
                    input_names=[f"in{i}" for i in range(len(inputs))],
                    output_names=[f"out{i}" for i in range(outputs)],
                    opset_version=opset,
                    dynamo=False,
                )
            return opset
        except Exception as error:  # the exporter raises all sorts; the peers then do without this file
            path.unlink(missing_ok=True)
            with (directory / "onnx.log").open("a", encoding="utf-8") as log:
                log.write(f"opset {opset}: {type(error).__name__}: {error}\n")
    return None


def _count_flops(module: nn.Module, inputs: tuple[Tensor, ...]) -> int:
    """Twice the multiply-adds of convolutions and matrix products, by dispatching without fused operators."""
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        with torch.backends.mkldnn.flags(enabled=False), FlopCounterMode(display=False) as counter:
            module(*inputs)
    return int(counter.get_total_flops())


# ---- checks and command line ----


def verify(model: ZooModel) -> float:
    """Error of the traced file against the golden arrays, on both inputs."""
    import torch

    read: Any = torch.jit.load
    traced = read(str(model.directory / "model.pt"))
    worst = 0.0
    for given, expected in (("in", "out"), ("in_b", "out_b")):
        with torch.no_grad():
            result = as_arrays(traced(*map(torch.from_numpy, model.arrays(given))))
        worst = max(worst, worst_error(result, model.arrays(expected), model.spec.parts))
    return worst


def _row(spec: ModelSpec, batch: int) -> str:
    if not is_built(spec.name, batch):
        return f"{spec.name:20s} not built"
    model = load(spec, batch)
    shape = " ".join("x".join(map(str, entry["shape"])) for entry in model.meta["inputs"])
    least = min(model.meta["sensitivity"].values())
    size = sum(path.stat().st_size for path in model.directory.iterdir() if path.is_file())
    opset = model.meta["onnx_opset"] or "-"
    return (
        f"{spec.name:20s} {shape:>14s} {model.meta['parameters'] / 1e6:8.2f} {model.meta['flops'] / 1e9:8.2f}"
        f" {least:11.3f} {opset:>5} {size / 1e6:8.0f}  {model.meta['seconds']:6.1f}"
    )


_HEAD = (
    f"{'model':20s} {'input':>14s} {'Mparam':>8s} {'GFLOP':>8s} {'sensitivity':>11s} {'onnx':>5s} {'MB':>8s}"
    f"  {'built s':>6s}"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--models", help="models or sets, separated by commas (default: all)")
    parser.add_argument("--batch", type=int, default=1, help="pictures or sequences a call (default: 1)")
    parser.add_argument("--list", action="store_true", help="show what is there and build nothing")
    parser.add_argument("--force", action="store_true", help="build again what is cached")
    parser.add_argument("--check", action="store_true", help="run the traced files against the golden arrays")


def main(options: argparse.Namespace) -> int:
    """``python -m benchmarks zoo``: 1 when a model could not be built."""
    specs = select(options.models.split(",") if options.models else None)
    failures = [] if options.list else _build_missing(specs, options.batch, options.force)
    print(_HEAD)
    for spec in specs:
        checked = ""
        if options.check and is_built(spec.name, options.batch):
            checked = f"  error {verify(load(spec, options.batch)):.1e}"
        print(_row(spec, options.batch) + checked)
    if failures:
        print(f"failed: {', '.join(failures)}", file=sys.stderr)
    return 1 if failures else 0


def _build_missing(specs: list[ModelSpec], batch: int, force: bool) -> list[str]:
    """Build what is not cached, one after another; names of those that failed."""
    failures: list[str] = []
    for number, spec in enumerate(specs, start=1):
        where = f"[{number}/{len(specs)}] {spec.name}: "
        if is_built(spec.name, batch) and not force:
            progress(f"{where}cached\n")
            continue
        try:
            build(spec, batch, partial(_say_stage, where))
            progress(f"{where}done\n")
        except Exception as error:  # one model that fails must not cost the others
            failures.append(spec.name)
            progress(f"{where}FAILED: {type(error).__name__}: {error}\n")
    return failures


def _say_stage(where: str, stage: str) -> None:
    progress(where + stage)


def progress(text: str) -> None:
    """One line that is overwritten on a terminal and appended elsewhere."""
    if sys.stderr.isatty():
        sys.stderr.write("\r\x1b[K" + text)
    else:
        sys.stderr.write(text if text.endswith("\n") else text + "\n")
    sys.stderr.flush()
