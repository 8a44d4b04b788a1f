"""Per-step profiles of a program: time, work, memory traffic and share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from pnnx_fast._types import Array

if TYPE_CHECKING:
    from pnnx_fast.runtime.executable import Runnable

__all__ = ["Profile", "StepTime"]


class StepTime(NamedTuple):
    """One step with its time in seconds; ``gflops`` and ``gbytes`` are per second, ``share`` is of the whole."""

    operator: str
    type: str
    kernel: str
    label: str
    seconds: float
    gflops: float
    gbytes: float
    share: float


class Profile(NamedTuple):
    """Times of all steps; printing it gives a table, slowest step first."""

    steps: tuple[StepTime, ...]
    seconds: float
    isa: str
    threads: int

    @classmethod
    def measure(cls, chain: Runnable, given: Sequence[Array], repeat: int) -> Profile:
        """Run a program with a clock ``repeat`` times and keep the fastest time of each step."""
        best: dict[int, int] = {}
        for _ in range(repeat + 1):
            clock: list[tuple[int, int]] = []
            chain.run(given, clock)
            for index, ns in clock:
                best[index] = min(ns, best.get(index, ns))
        total = sum(best.values()) or 1
        steps = []
        for index, record in enumerate(chain.records()):
            ns = max(best.get(index, 0), 1)
            kernel = record.kernel + (" (1 thread)" if record.serial and chain.nthreads > 1 else "")
            rates = record.flops / ns, record.bytes / ns
            steps.append(StepTime(record.operator, record.type, kernel, record.label, ns * 1e-9, *rates, ns / total))
        return cls(tuple(steps), total * 1e-9, chain.isa, chain.nthreads)

    def __repr__(self) -> str:
        return f"<Profile: {self._head()}>"

    def _repr_html_(self) -> str:
        from html import escape

        return f"<pre>{escape(str(self))}</pre>"

    def _head(self) -> str:
        return f"{self.seconds * 1e3:.3f} ms in {len(self.steps)} steps, {self.isa}, {self.threads} thread(s)"

    def __str__(self) -> str:
        lines = [
            self._head(),
            f"{'ms':>9} {'share':>6} {'GFLOP/s':>8} {'GB/s':>7}  {'kernel':32} operator",
        ]
        for s in sorted(self.steps, key=lambda s: -s.seconds):
            name, rates = f"{s.kernel} {s.label}".strip(), f"{s.gflops:8.1f} {s.gbytes:7.1f}"
            lines.append(f"{s.seconds * 1e3:9.4f} {s.share:6.1%} {rates}  {name:32} {s.type} {s.operator}")
        return "\n".join(lines)
