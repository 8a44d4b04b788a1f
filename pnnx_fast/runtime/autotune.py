"""Autotuning: measures the convolution kernels that could serve a shape, and remembers the fastest in a file.

The file is JSON: for each machine (CPU, its caches, version of this package), ISA level and number of threads, the
winner of each shape. Lowering asks a :class:`Tuner`; the operators name the candidates and what to do without one.
"""

from __future__ import annotations

import json
import os
import platform
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import pnnx_fast
from pnnx_fast._core import program as core
from pnnx_fast._files import cache_folder, kept_file
from pnnx_fast._memory import aligned_bytes
from pnnx_fast._types import Array
from pnnx_fast._warning import warn
from pnnx_fast.ops.symbolic import Algorithm, Tensor
from pnnx_fast.runtime import kernel

__all__ = ["Tuner", "Workload", "default_file"]

FORMAT = 1

BURST_SECONDS, LEAST_RUNS, ROUNDS = 0.004, 3, 3
"""Each candidate runs in bursts that take turns; the fastest run of all counts."""

MARGIN = 0.97
"""What a candidate must take of the time of the present choice at most to replace it."""

NOT_WORK = ("xsn", "xsh", "xsw", "ysn", "ysh", "ysw", "zsn", "zsh", "zsw", "act_a", "act_b", "variant")
"""Fields that say where tensors lie and the like, not how much is to be computed."""


def default_file() -> Path:
    """File of measured choices: PNNX_FAST_TUNING, else ``pnnx_fast/tuning.json`` in the user's cache folder."""
    named = os.environ.get("PNNX_FAST_TUNING")
    return Path(named) if named else Path(cache_folder(), "tuning.json")


def _cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8", "replace").splitlines()
    except OSError:
        lines = []
    wanted = ("model name", "cpu family", "model", "CPU part")
    found = dict(part for part in ([s.strip() for s in line.split(":", 1)] for line in lines) if len(part) == 2)
    return " ".join(found[key] for key in wanted if key in found) or platform.processor() or platform.machine()


def _caches() -> str:
    folder = Path("/sys/devices/system/cpu/cpu0/cache")
    try:
        return " ".join((index / "size").read_text("utf-8").strip() for index in sorted(folder.glob("index*")))
    except OSError:
        return ""


class Workload(NamedTuple):
    """A layer to run: for which kernel table and number of threads, its argument fields and its weight."""

    isa: str
    nthreads: int
    fields: Mapping[str, Any]
    weight: Tensor


class Tuner:
    """Chooses by measurement; thread-safe.

    Parameters
    ----------
    path : path, optional
        The file of measured choices; read at once, written by :meth:`save`.
    """

    def __init__(self, path: str | os.PathLike[str] | None = None) -> None:
        self.path = default_file() if path is None else Path(path)
        self.measured = 0
        self._machine = f"{_cpu_name()}; {_caches()}; {pnnx_fast.__version__}"
        self._known = _read(self.path)
        self._new: dict[str, dict[str, list[Any]]] = {}
        self._lock = threading.RLock()

    def choose(self, work: Workload, options: Sequence[Algorithm], given: Algorithm) -> Algorithm:
        """Return the fastest of ``options``; ``given`` is what the cost model says."""
        if len(options) < 2 or not work.fields["n"]:
            return given
        machine = f"{self._machine}; {work.isa}; {work.nthreads}"
        layer = " ".join(f"{key}{value}" for key, value in sorted(work.fields.items()) if key not in NOT_WORK)
        layer += " z" if work.fields.get("zsw") else ""
        with self._lock:
            row = self._new.get(machine, {}).get(layer) or self._known.get(machine, {}).get(layer)
            for option in options:
                if row == [option.kernel, option.variant]:
                    return option
            best = _fastest(work, options, given)
            self._new.setdefault(machine, {})[layer] = [best.kernel, best.variant]
            self.measured += 1
            return best

    def save(self) -> None:
        """Write what was measured since the last time, together with what others have written meanwhile."""
        with self._lock:
            if not self._new:
                return
            entries = _read(self.path)
            for machine, layers in self._new.items():
                entries.setdefault(machine, {}).update(layers)
            self._known, self._new = entries, {}
            text = json.dumps({"format": FORMAT, "choices": entries}, indent=1, sort_keys=True)
            try:
                _require_file(self.path)
                with kept_file(os.fspath(self.path), 0o666) as file:
                    file.write(text.encode() + b"\n")
            except OSError as error:
                warn(f"cannot write {self.path}: {error}")


def _fastest(work: Workload, options: Sequence[Algorithm], given: Algorithm) -> Algorithm:
    """Measure the options in turns; ``given`` stays unless another one is clearly faster."""
    trials = [_Trial(work, option) for option in options]
    for _ in range(ROUNDS):
        for trial in trials:
            trial.burst()
    best = min(trials, key=lambda trial: trial.seconds)
    present = next((t for t in trials if t.option == given or t.is_default_of(given)), None)
    return given if present is not None and best.seconds > MARGIN * present.seconds else best.option


class _Trial:
    """One candidate on buffers of the real sizes."""

    def __init__(self, work: Workload, option: Algorithm) -> None:
        isa, nthreads, fields, weight = work
        self.option, self.seconds = option, float("inf")
        values = {**fields, "variant": option.variant}
        self._variant, packed_bytes, scratch_bytes, _, chosen = core.plan(isa, option.kernel, values, nthreads)
        packed = aligned_bytes(max(packed_bytes, 64))
        shape = {key: fields[key] for key in ("oc", "ic", "kh", "kw", "groups")}
        source = np.ascontiguousarray(weight.numpy())
        kernel.call(isa, option.pack, nthreads, x=source, y=packed, variant=self._variant, **shape)
        memory: dict[str, Array | None] = {"w": packed, "scratch": aligned_bytes(max(scratch_bytes, 64))}
        memory["x"] = _ones(_extent(fields, "x", "i", "ic"))
        memory["y"] = _ones(_extent(fields, "y", "o", "oc"))
        memory["z"] = _ones(_extent(fields, "z", "o", "oc")) if fields.get("zsw") else None
        memory["bias"] = _ones(fields["oc"])
        self._memory = memory
        references = {k: None if a is None else (0, a.__array_interface__["data"][0]) for k, a in memory.items()}
        values = {**values, **references, **chosen}
        self._program = core.Program(isa, [(option.kernel, values, False, False)], 0, nthreads)
        self._program.run(())

    def is_default_of(self, given: Algorithm) -> bool:
        """Whether this is what ``given`` means when it leaves the variant to the kernel."""
        return given.kernel == self.option.kernel and given.variant < 0

    def burst(self) -> None:
        """Run for a moment and keep the fastest time."""
        end, runs = time.perf_counter() + BURST_SECONDS, 0
        while runs < LEAST_RUNS or time.perf_counter() < end:
            start = time.perf_counter()
            self._program.run(())
            self.seconds = min(self.seconds, time.perf_counter() - start)
            runs += 1


def _extent(fields: Mapping[str, Any], tensor: str, side: str, channels: str) -> int:
    rows, columns = fields[f"{side}h"] - 1, fields[f"{side}w"] - 1
    last = (fields["n"] - 1) * fields[f"{tensor}sn"] + rows * fields[f"{tensor}sh"] + columns * fields[f"{tensor}sw"]
    return int(last + fields[channels])


def _ones(count: int) -> Array:
    array = aligned_bytes(4 * count).view(np.float32)
    array[:] = 1.0
    return array


def _require_file(path: Path) -> None:
    """Raise OSError for a pipe or a device: to read one may not end, and a file must not take its place."""
    if not path.is_file() and path.exists():
        raise OSError("not a regular file")


def _read(path: Path) -> dict[str, dict[str, list[Any]]]:
    """Choices in a file; nothing, and a warning, when it is not what :meth:`Tuner.save` writes."""
    try:
        _require_file(path)
        text = path.read_text("utf-8")
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        warn(f"ignored the tuning file {path}: {error}")
        return {}
    try:
        document = json.loads(text)
        choices = document["choices"]
        good = document["format"] == FORMAT and all(
            isinstance(row, list) and len(row) == 2 and isinstance(row[0], str) and isinstance(row[1], int)
            for layers in choices.values()
            for row in layers.values()
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        good = False
    if not good:
        warn(f"ignored the tuning file {path}: it is damaged or of another version")
        return {}
    result: dict[str, dict[str, list[Any]]] = choices
    return result
