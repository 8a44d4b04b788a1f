"""A large batch as parts: the program of a few rows runs several times, straight from and to slices of the arrays."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from pnnx_fast._types import Array
from pnnx_fast.runtime.executable import Clock, Executable
from pnnx_fast.runtime.records import StepRecord

__all__ = ["Parts"]


class Parts:
    """A program for some rows, run for all parts of a larger batch, by several threads at once or by one."""

    def __init__(self, program: Executable, count: int, nthreads: int) -> None:
        self.program, self.count, self.together = program, count, min(count, nthreads)
        self.isa, self.nthreads, self.arena_bytes = program.isa, program.nthreads, program.arena_bytes

    def run(self, given: Sequence[Array], clock: Clock | None = None) -> list[Any]:
        """Run all parts. With a clock they run one after the other; the times of a step are summed up."""
        rows = given[0].shape[0] // self.count
        results = [np.empty((rows * self.count, *shape[1:]), dtype) for shape, dtype in self.program.output_types]
        times: dict[int, int] = {}

        def run_part(i: int) -> None:
            part = slice(i * rows, (i + 1) * rows)
            stamps: Clock | None = None if clock is None else []
            self.program.run([a[part] for a in given], stamps, [r[part] for r in results])
            for index, ns in stamps or ():
                times[index] = times.get(index, 0) + ns // self.together

        _share(range(self.count), run_part, 1 if clock is not None else self.together)
        if clock is not None:
            clock += times.items()
        return self.program.restore(results)

    def records(self) -> list[StepRecord]:
        """Describe the steps, with the work of all parts."""
        return [r._replace(flops=r.flops * self.count, bytes=r.bytes * self.count) for r in self.program.records()]


def _share(items: Iterable[int], call: Callable[[int], None], nthreads: int) -> None:
    """Call a function with all items; threads live no longer than this call, so that a fork never misses them."""
    left, errors = deque(items), list[BaseException]()

    def work() -> None:
        while left and not errors:
            try:
                item = left.popleft()
            except IndexError:
                return
            try:
                call(item)
            except BaseException as error:
                errors.append(error)

    threads = [threading.Thread(target=work, daemon=True) for _ in range(nthreads - 1)]
    for thread in threads:
        thread.start()
    work()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
