"""Per-step profiles of a program: time, work, memory traffic and share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from pnnx_fast._types import Array

if TYPE_CHECKING:
    from pnnx_fast.runtime.executable import Runnable

__all__ = ["Profile", "StepTime"]


class StepTime(NamedTuple):
    """One step of a program with its time.

    Attributes
    ----------
    operator, type : str
        Name and type of the operator that the step computes, in the optimised graph.
    kernel : str
        The compiled kernel or numpy function, with ``(1 thread)`` behind it where one of several threads computes.
    label : str
        Which variant of the kernel, such as its algorithm and tile; may be empty.
    seconds : float
        Fastest time over all runs, in seconds.
    gflops : float
        Rate of computing, in GFLOP/s (10^9 floating-point operations per second); 0 where work is not counted.
    gbytes : float
        Rate of memory traffic, in GB/s (10^9 bytes read and written per second).
    share : float
        Share of the time of all steps, from 0 to 1.

    Examples
    --------
    >>> StepTime("fc", "nn.Linear", "gemm", "", seconds=2e-3, gflops=40.0, gbytes=5.0, share=0.25)._asdict()["share"]
    0.25
    """

    operator: str
    type: str
    kernel: str
    label: str
    seconds: float
    gflops: float
    gbytes: float
    share: float


class Profile(NamedTuple):
    """Times of all steps of a call; printing it gives a table, slowest step first.

    :meth:`pnnx_fast.Model.profile` makes one.

    Attributes
    ----------
    steps : tuple of StepTime
        In order of execution, with ``seconds``, ``gflops`` (GFLOP/s), ``gbytes`` (GB/s) and ``share`` (of 1).
    seconds : float
        Sum of the times of all steps, in seconds.
    isa : str
        Instruction set level of the kernels.
    threads : int
        Threads of the call.

    Examples
    --------
    >>> import numpy as np
    >>> import pnnx_fast
    >>> from pnnx_fast.demo import model_path
    >>> model = pnnx_fast.load(model_path(), num_threads=1)
    >>> profile = model.profile(np.zeros((2, 1, 8, 8), np.float32))
    >>> profile.threads, profile.steps[-1].type, round(sum(step.share for step in profile.steps), 2)
    (1, 'F.softmax', 1.0)
    >>> print(str(profile).splitlines()[1])
           ms  share  GFLOP/s    GB/s  kernel                           operator
    """

    steps: tuple[StepTime, ...]
    seconds: float
    isa: str
    threads: int

    @classmethod
    def measure(cls, chain: Runnable, given: Sequence[Array], repeat: int) -> Profile:
        """Run a program with a clock ``repeat`` times and keep the fastest time of each step.

        Parameters
        ----------
        chain : Runnable
            The program.
        given : sequence of ndarray
            Its inputs, C-contiguous.
        repeat : int
            Number of timed runs, after one more for warming up.

        Returns
        -------
        Profile
        """
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
