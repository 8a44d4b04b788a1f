"""One engine with one model in a process of its own, driven line by line; started by process.py.
`Timed` and `serve` are what other workers share.

A command is a JSON list on standard input, an answer a JSON object on what was standard output; whatever the
engine prints itself goes to standard error. Between commands the process does nothing, and the parent may
stop it.
"""

from __future__ import annotations

import ctypes
import itertools
import json
import os
import resource
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from benchmarks import zoo
from benchmarks.compare import worst_error
from benchmarks.engines import ENGINES, Session
from benchmarks.manifest import select
from benchmarks.profile import profile_of

__all__ = ["Timed", "main", "serve"]

_MOST_CALLS = 20000
_LONG = 0.3
"""Seconds of a call beyond which nothing is gained by warming up, or by a second one."""


def _peak_memory() -> float:
    """Most memory that this process ever had, in MB."""
    for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _queued() -> float:
    """Seconds that the threads were ready to run and had no processor; 0 where nobody counts them."""
    total = 0
    for task in Path("/proc/self/task").glob("*/schedstat"):
        with suppress(OSError, IndexError, ValueError):  # a thread may end meanwhile
            total += int(task.read_text(encoding="utf-8").split()[1])
    return total / 1e9


class Timed:
    """A session on a number of threads, and the command that times it."""

    def __init__(self, threads: int, session: Session | None = None) -> None:
        self._threads = threads
        self._session = session
        self._last = 0.0

    def burst(self, seconds: float, least: int) -> dict[str, Any]:
        """Time calls for a while; seconds of each, without those of the first third.

        Also the processors kept busy, and the share of the time that the threads waited for one.
        """
        assert self._session is not None
        run, clock = self._session.run, time.perf_counter
        if self._last < _LONG:
            warm = clock() + seconds / 3
            run()
            while clock() < warm:
                run()
        else:
            least = 1
        busy, queued = time.process_time(), _queued()
        stamps = [clock()]
        end = stamps[0] + seconds * 2 / 3
        while (stamps[-1] < end or len(stamps) <= least) and len(stamps) < _MOST_CALLS:
            run()
            stamps.append(clock())
        busy, queued = time.process_time() - busy, _queued() - queued
        wall, self._last = stamps[-1] - stamps[0], stamps[-1] - stamps[-2]
        times = [later - sooner for sooner, later in itertools.pairwise(stamps)]
        return {"times": times, "busy": busy / wall, "queued": queued / wall / self._threads}


class _Worker(Timed):
    """State between commands; each public method is one command."""

    def __init__(self, engine: str, model: str, batch: int, threads: int) -> None:
        super().__init__(threads)
        self._engine = ENGINES[engine]
        self._model = zoo.load(select([model])[0], batch)

    def convert(self) -> dict[str, Any]:
        """Write what the engine reads instead of the zoo's files, once."""
        path = self._engine.converted_path(self._model, self._threads)
        if path is not None and self._engine.convert is not None and not path.is_file():
            unfinished = path.with_name(f"unfinished-{os.getpid()}-{path.name}")
            self._engine.convert(self._model, unfinished, self._threads)
            weights = unfinished.with_suffix(".bin")
            if weights.is_file():
                weights.rename(path.with_suffix(".bin"))
            unfinished.rename(path)
        return {}

    def ready(self) -> dict[str, Any]:
        """Answer that the process runs and has imported what all engines share."""
        return {}

    def open(self) -> dict[str, Any]:
        """Load the model and run it once: seconds until opened and until the first result, and memory."""
        inputs = self._model.arrays("in")
        before = _peak_memory()
        start = time.perf_counter()
        self._session = self._engine.open(self._model, inputs, self._threads)
        opened = time.perf_counter()
        self._session.run()
        done = time.perf_counter()
        return {"load": opened - start, "first": done - start, "memory": _peak_memory(), "before": before}

    def check(self) -> dict[str, Any]:
        """Error against PyTorch's outputs."""
        assert self._session is not None
        outputs = self._session.arrays(self._session.run())
        return {"error": worst_error(outputs, self._model.arrays("out"), self._model.spec.parts)}

    def steps(self) -> dict[str, Any]:
        """Seconds and bytes moved of each step, where the engine is ours."""
        profile = profile_of(self._model, self._threads, repeat=10)
        return {"steps": [(step.seconds, step.gbytes * 1e9 * step.seconds) for step in profile.steps]}


def _die_with_parent() -> None:
    """The parent stops idle workers; one that is stopped would outlive a parent that was killed."""
    if sys.platform == "linux":
        set_death_signal = 1
        ctypes.CDLL(None).prctl(set_death_signal, signal.SIGKILL)


def main() -> None:
    """``python -m benchmarks.worker ENGINE MODEL BATCH THREADS``."""
    engine, model, batch, threads = sys.argv[1:5]
    serve(lambda: _Worker(engine, model, int(batch), int(threads)))


def serve(make: Callable[[], Timed]) -> None:
    """Answer commands until standard input ends."""
    _die_with_parent()
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    worker = make()
    for line in sys.stdin:
        name, *arguments = json.loads(line)
        command: Callable[..., dict[str, Any]] = getattr(worker, name)
        try:
            answer = command(*arguments)
        except Exception as error:  # engines raise all sorts; the parent shows it and leaves the engine out
            reason = " ".join(str(error).split())
            answer = {"failed": f"{type(error).__name__}: {reason}"[:300]}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
