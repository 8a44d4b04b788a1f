"""Programs that run: the loop over native segments and host steps, with an arena for each call.

How a program came to be, lowered now or read from a file, is not known here.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from pnnx_fast._core import program as core
from pnnx_fast._memory import aligned_bytes, check_memory
from pnnx_fast._types import Array, DType, Protocol, Shape
from pnnx_fast.errors import ExpressionError, IndexRangeError, LimitError, NativeOperatorError

if TYPE_CHECKING:
    from pnnx_fast.runtime.records import StepRecord

__all__ = ["Clock", "Executable", "HostCall", "Runnable", "Segment", "Slot"]

Clock: TypeAlias = list[tuple[int, int]]
"""(index of the step, nanoseconds) of each step of a run."""

HostCall: TypeAlias = Callable[[Array, Sequence[Array], Sequence[Array]], None]
"""A step in numpy; it is given arena, inputs and results."""

Segment: TypeAlias = tuple[int, int] | HostCall
"""Native steps from one to another, or one step in numpy."""


class Runnable(Protocol):
    """What a model runs for given shapes: a program, or several that follow each other."""

    isa: str
    nthreads: int
    arena_bytes: int

    def run(self, given: Sequence[Array], clock: Clock | None = None) -> list[Any]:
        """Run once; ``clock`` receives the time of every step."""

    def records(self) -> list[StepRecord]:
        """Describe all steps in the order of the clock."""


class Slot:
    """The place of a tensor in a nested output."""

    __slots__ = ("index",)

    def __init__(self, index: int) -> None:
        self.index = index


class Executable:
    """A program for fixed input shapes: immutable, callable from several threads at once.

    Parameters
    ----------
    native : pnnx_fast._core.program.Program
        All native steps. Bases are the arena, inputs, results and, if given, ``weights``.
    segments : sequence of Segment
    structure : sequence
        The outputs, with a :class:`Slot` for each tensor.
    output_types : sequence of (shape, dtype)
        Of the tensors among the outputs.
    arena_bytes : int
        Size of the memory for what lies between.
    arenas : list of ndarray
        Such memory that no call uses just now, shared by the programs of a model: there are at most as many as calls
        that ran at the same time. Needs no lock, as a list is changed in one go.
    records : callable
        Returns the fields of the :class:`StepRecord` of each step; not asked where :meth:`records` knows better.
    weights : numpy.ndarray, optional
        Memory of all constants, for programs that do not name their addresses.
    """

    def __init__(
        self,
        native: core.Program,
        isa: str,
        nthreads: int,
        *,
        segments: Sequence[Segment],
        structure: Sequence[Any],
        output_types: Sequence[tuple[Shape, DType]],
        arena_bytes: int,
        arenas: list[Array],
        records: Callable[[], Sequence[Sequence[Any]]] = list,
        weights: Array | None = None,
    ) -> None:
        self._native, self._segments, self._structure = native, segments, structure
        self.isa, self.nthreads = isa, nthreads
        self.output_types, self.arena_bytes = output_types, arena_bytes
        self._records, self._weights = records, () if weights is None else (weights,)
        self._is_flat = list(map(_place, structure)) == [*range(len(output_types))]
        self._arenas = arenas

    def _make_arena(self) -> Array:
        results = sum(math.prod(shape) * dtype.itemsize for shape, dtype in self.output_types)
        check_memory(self.arena_bytes + results, "activations and results of a run")
        return aligned_bytes(self.arena_bytes)

    def _larger_arena(self) -> Array:
        """Return an idle arena that is large enough, or a new one in place of one that is too small."""
        small: list[Array] = []
        with suppress(IndexError):
            while True:
                arena = self._arenas.pop()
                if len(arena) >= self.arena_bytes:
                    self._arenas += small
                    return arena
                small.append(arena)
                del arena
        self._arenas += small[1:]
        small.clear()
        return self._make_arena()

    def run(self, given: Sequence[Array], clock: Clock | None = None, results: list[Array] | None = None) -> list[Any]:
        """Run once; ``given`` are C-contiguous arrays of the program's shapes and dtypes.

        ``clock`` receives (index of the step, nanoseconds) for every step; ``results`` are arrays to write to.
        """
        try:
            arena = self._arenas.pop()
        except IndexError:
            arena = self._make_arena()
        if len(arena) < self.arena_bytes:
            self._arenas.append(arena)
            del arena  # it may have to go before a larger one comes
            arena = self._larger_arena()
        if results is None:
            try:
                results = [np.empty(shape, dtype) for shape, dtype in self.output_types]
            except (MemoryError, ValueError) as error:  # the latter of sizes beside a 0, which take no memory
                raise LimitError(str(error), path="results of a run") from None
        bases = (arena, *given, *results, *self._weights)
        if clock is not None:
            self._run_timed(bases, given, results, clock)
        else:
            for segment in self._segments:
                if isinstance(segment, tuple):
                    self._run_native(bases, *segment)
                else:
                    segment(arena, given, results)
        self._arenas.append(arena)
        return results if self._is_flat else self.restore(results)

    def _run_timed(
        self, bases: tuple[Array, ...], given: Sequence[Array], results: Sequence[Array], clock: Clock
    ) -> None:
        done = 0
        for segment in self._segments:
            if isinstance(segment, tuple):
                stamps = self._run_native(bases, *segment, timed=True) or ()
                clock += [(done + i, b - a) for i, (a, b) in enumerate(itertools.pairwise(stamps))]
                done += segment[1] - segment[0]
            else:
                start = time.perf_counter_ns()
                segment(bases[0], given, results)
                clock.append((done, time.perf_counter_ns() - start))
                done += 1

    def restore(self, results: Sequence[Array]) -> list[Any]:
        """Put arrays in the places of the outputs' tensors."""
        return [*results] if self._is_flat else [_restore(s, results) for s in self._structure]

    def records(self) -> list[StepRecord]:
        """Describe all steps in the order of the clock."""
        from pnnx_fast.runtime.records import StepRecord

        return [StepRecord(*row) for row in self._records()]

    def _run_native(self, bases: tuple[Array, ...], begin: int, end: int, timed: bool = False) -> list[int] | None:
        try:
            return self._native.run(bases, begin, end, timed)
        except (IndexRangeError, NativeOperatorError, ExpressionError) as error:
            native = [record for record in self.records() if record.kernel != "numpy"]
            where = native[error.step or 0]
            raise error.at(f"{where.type} {where.operator}") from None


def _place(value: Any) -> int:
    return value.index if isinstance(value, Slot) else -1


def _restore(value: Any, arrays: Sequence[Array]) -> Any:
    if isinstance(value, Slot):
        return arrays[value.index]
    if isinstance(value, (list, tuple)):
        return type(value)(_restore(v, arrays) for v in value)
    return value
