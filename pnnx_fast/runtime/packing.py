"""Packing of weights: helpers begin with what lowering asks for while it goes on; the rest is done by the whole team.

Used by ``Constants``. Weights that lie in a mapped file give their memory back as soon as they are packed, so that a
large model is not in memory twice.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any, TypeAlias

from pnnx_fast._core import program as core
from pnnx_fast._core import store
from pnnx_fast._types import Array
from pnnx_fast.ir.mapped import release

__all__ = ["PackQueue", "PackTask"]

BATCH_BYTES = 2 << 20
"""Weights that helpers pack together, before their file pages are given back."""

MOST_BEGUN = 8
"""Batches that helpers may be ahead."""


class PackTask:
    """A call of a packing kernel from ``source`` to ``target``."""

    __slots__ = ("fields", "isa", "kernel", "source", "target")

    def __init__(self, isa: str, kernel: str, source: Array, target: Array, fields: Mapping[str, Any]) -> None:
        self.isa, self.kernel, self.source, self.target, self.fields = isa, kernel, source, target, fields

    def step(self) -> tuple[str, dict[str, Any], bool, bool]:
        """Return the call as a step that does not depend on others."""
        return self.kernel, {**self.fields, "x": _reference(self.source), "y": _reference(self.target)}, False, True


_Batch: TypeAlias = tuple[core.Program, list[PackTask]]


class PackQueue:
    """Packing that is still to be done. Its user holds a lock."""

    def __init__(self) -> None:
        self._noted: list[PackTask] = []
        self._nbytes = 0
        self._copied: list[Array] = []
        self._waiting: deque[_Batch] = deque()
        self._begun: deque[_Batch] = deque()

    def add(self, task: PackTask, nthreads: int) -> None:
        """Note a task; helpers may begin with it."""
        if self._noted and self._noted[0].isa != task.isa:
            self._close_batch(nthreads)
        self._noted.append(task)
        self._nbytes += task.source.nbytes
        if self._nbytes >= BATCH_BYTES:
            self._close_batch(nthreads)
            self._advance()

    def copied(self, array: Array) -> None:
        """Note that sources are copies of what is in this array, which may have further ones."""
        self._copied.append(array)

    def flush(self, nthreads: int) -> None:
        """Do all that was noted."""
        if self._noted:
            self._close_batch(nthreads)
        while self._advance():
            self._end()
        while self._copied:
            release(self._copied.pop())

    def _close_batch(self, nthreads: int) -> None:
        program = core.Program(self._noted[0].isa, [task.step() for task in self._noted], 0, nthreads)
        self._waiting.append((program, self._noted))
        self._noted, self._nbytes = [], 0

    def _advance(self) -> bool:
        """Let helpers begin with what may be in memory twice; return whether a batch has begun."""
        while self._begun and self._begun[0][0].over():
            self._end()
        while self._waiting and len(self._begun) < MOST_BEGUN:
            program, tasks = batch = self._waiting[0]
            self._begun.append(batch)  # before it can get lost: an interrupt may come between any two lines
            self._waiting.popleft()
            program.begin([(task.source, task.target) for task in tasks])
        return bool(self._begun)

    def _end(self) -> None:
        program, tasks = self._begun[0]
        program.finish()
        self._begun.popleft()
        for task in tasks:  # meanwhile helpers pack the next batch
            release(task.source)


def _reference(array: Array) -> tuple[int, int]:
    return 0, store.address(array)
