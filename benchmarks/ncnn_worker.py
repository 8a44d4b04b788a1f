"""The ncnn package or ours with one net in a process of its own; started by ncnn_models.py only.

Both have the same interface, so there is one way to open, run and read for the two.
"""

from __future__ import annotations

import importlib
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.engines import Session
from benchmarks.worker import Timed, serve

__all__ = ["main"]

_HALF = ("fp16_packed", "fp16_storage", "fp16_arithmetic", "bf16_packed", "bf16_storage")


class _NcnnEngine(Timed):
    """State between commands; each public method is one command."""

    def __init__(self, module: str, param: str, weights: str, threads: int) -> None:
        super().__init__(threads)
        self._ncnn = importlib.import_module(module)
        self._param, self._weights = param, weights

    def open(self, inputs: str, outputs: list[str]) -> dict[str, Any]:
        """Load the net and run it once on the arrays of a file: seconds of both."""
        start = time.perf_counter()
        net = self._ncnn.Net()
        net.opt.num_threads = self._threads
        for name in _HALF:
            if hasattr(net.opt, f"use_{name}"):
                setattr(net.opt, f"use_{name}", False)
        if net.load_param(self._param) or net.load_model(self._weights):
            raise RuntimeError("the net cannot be loaded")
        # Matrices that borrow an array's memory have no owner, which layers that work in place do not survive.
        given = {key: self._ncnn.Mat(array).clone() for key, array in np.load(inputs).items()}

        def run(names: list[str] = outputs) -> list[Any]:
            found = []
            with net.create_extractor() as extractor:
                for key, mat in given.items():
                    extractor.input(key, mat)
                for key in names:
                    status, output = extractor.extract(key)
                    if status:
                        raise RuntimeError(f"{key} cannot be extracted: {status}")
                    found.append(output)
            return found

        self._run = run
        self._session = Session(run, lambda mats: [np.array(mat) for mat in mats])
        opened = time.perf_counter()
        run()
        return {"load": opened - start, "first": time.perf_counter() - start}

    def results(self, names: list[str], path: str) -> dict[str, Any]:
        """Write some blobs of one run to a file."""
        np.savez(path, *(np.array(mat) for mat in self._run(names)))
        return {}


def main() -> None:
    """``python -m benchmarks.ncnn_worker MODULE PARAM WEIGHTS THREADS``."""
    module, param, weights, threads = sys.argv[1:5]
    for path in (param, weights):
        if not Path(path).is_file():
            raise SystemExit(f"{path} is missing")
    serve(lambda: _NcnnEngine(module, param, weights, int(threads)))


if __name__ == "__main__":
    main()
