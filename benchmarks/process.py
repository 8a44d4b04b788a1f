"""Worker processes: one engine with one model each, started, stopped and killed here; and a process that only competes.

Used by contest.py and by the commands that need fresh processes. Knows nothing of what is measured.
"""

from __future__ import annotations

import json
import os
import select as polling
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Any

from benchmarks.manifest import ModelSpec
from benchmarks.priority import set_priority

__all__ = ["Worker", "WorkerError", "competitor"]

_COMMAND_SECONDS = 120.0
_THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


class WorkerError(RuntimeError):
    """An engine failed, crashed or took too long."""


class Worker:
    """A worker process; leaves nothing behind when its ``with`` block ends."""

    def __init__(self, engine: str, spec: ModelSpec, batch: int, threads: int) -> None:
        self._start(["benchmarks.worker", engine, spec.name, str(batch), str(threads)], threads)

    def _start(self, module: Sequence[str], threads: int) -> None:
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 – closed by __exit__
        environment = os.environ | dict.fromkeys(_THREAD_VARIABLES, str(threads))
        self._process = subprocess.Popen(
            [sys.executable, "-m", *module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            env=environment,
            start_new_session=True,
        )

    def __enter__(self) -> Worker:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with suppress(ProcessLookupError):  # engines that compile start processes of their own
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout, self._log):
            if stream is not None:
                with suppress(OSError):
                    stream.close()

    def pause(self) -> None:
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def set_priority(self, nice: int) -> None:
        set_priority(self._process.pid, nice)

    def ask(self, command: str, *arguments: object, timeout: float = _COMMAND_SECONDS) -> dict[str, Any]:
        """Answer to one command.

        Raises
        ------
        WorkerError
            The engine failed, crashed, or gave no answer in time.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps([command, *arguments]).encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise WorkerError(self._last_words()) from None
        ready, _, _ = polling.select([self._process.stdout], [], [], timeout)
        if not ready:
            raise WorkerError(f"no answer to {command} in {timeout:.0f} s")
        line = self._process.stdout.readline()
        if not line:
            raise WorkerError(self._last_words())
        answer: dict[str, Any] = json.loads(line)
        if "failed" in answer:
            raise WorkerError(answer["failed"])
        return answer

    def _last_words(self) -> str:
        code = self._process.wait(timeout=10)
        self._log.seek(0)
        lines = self._log.read().decode(errors="replace").strip().splitlines()
        return f"process ended with {code}: {lines[-1][:200] if lines else ''}"


@contextmanager
def competitor() -> Iterator[None]:
    """A process that keeps one processor busy meanwhile, in a session of its own as another program would be."""
    busy = subprocess.Popen([sys.executable, "-c", "while True: pass"], start_new_session=True)
    try:
        yield
    finally:
        busy.kill()
        busy.wait()
