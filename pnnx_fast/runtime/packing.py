"""Packing of weights: what lowering asks for is noted and then done at once, by the whole team, in one parallel region.

Used by ``Constants``. Weights that lie in a mapped file give their memory back as soon as they are packed, so that a
large model is not in memory twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pnnx_fast._core import program as core
from pnnx_fast._types import Array
from pnnx_fast.ir.mapped import release

__all__ = ["PackQueue", "PackTask"]

BATCH_BYTES = 32 << 20
"""Weights packed before their file pages are given back."""


class PackTask:
    """A call of a packing kernel from ``source`` to ``target``."""

    __slots__ = ("fields", "isa", "kernel", "source", "target")

    def __init__(self, isa: str, kernel: str, source: Array, target: Array, fields: Mapping[str, Any]) -> None:
        self.isa, self.kernel, self.source, self.target, self.fields = isa, kernel, source, target, fields

    def step(self) -> tuple[str, dict[str, Any], bool, bool]:
        """Return the call as a step that does not depend on others."""
        return self.kernel, {**self.fields, "x": _reference(self.source), "y": _reference(self.target)}, False, True


class PackQueue:
    """Packing that is still to be done. Its user holds a lock."""

    def __init__(self) -> None:
        self._tasks: list[PackTask] = []

    def add(self, task: PackTask) -> None:
        """Note a task for the next flush."""
        self._tasks.append(task)

    def flush(self, nthreads: int) -> None:
        """Do all that was noted."""
        tasks, self._tasks = self._tasks, []
        for batch in _batches(tasks):
            core.Program(batch[0].isa, [task.step() for task in batch], 0, nthreads).run(())
            for task in batch:
                release(task.source)


def _batches(tasks: Sequence[PackTask]) -> Iterator[list[PackTask]]:
    batch: list[PackTask] = []
    size = 0
    for task in tasks:
        if batch and (task.isa != batch[0].isa or size + task.source.nbytes > BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(task)
        size += task.source.nbytes
    if batch:
        yield batch


def _reference(array: Array) -> tuple[int, int]:
    return 0, array.__array_interface__["data"][0]
