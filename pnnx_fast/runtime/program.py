"""Executable programs: planned memory, packed arguments, and the loop over native segments and host steps."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from pnnx_fast._core import program as core
from pnnx_fast._types import Array
from pnnx_fast.errors import IndexRangeError, NativeOperatorError, ParameterError, PnnxFastError, ShapeError
from pnnx_fast.ops.symbolic import Buffer, Tensor, Value
from pnnx_fast.runtime.constants import Constants, aligned_bytes
from pnnx_fast.runtime.lower import HostStep, KernelStep, Lowering
from pnnx_fast.runtime.plan import lifetimes, plan_arena
from pnnx_fast.runtime.strips import fuse_strips

__all__ = ["Executable", "StepRecord", "evaluate"]

ANY_ALIGNMENT = {"gather_rows": "x"}
"""Operands that a kernel reads byte by byte, so that an embedding can stay where the file is mapped."""


class StepRecord(NamedTuple):
    """One step of a finished program, for profiles and dumps."""

    kernel: str
    label: str
    operator: str
    type: str
    flops: int
    bytes: int
    serial: bool


class Executable:
    """A program for fixed input shapes: immutable, callable from several threads at once.

    Parameters
    ----------
    steps : sequence of KernelStep or HostStep
    inputs : sequence of Tensor
        Tensors over ``input`` buffers, C-contiguous.
    outputs : sequence of Value
        Results; tensors among them become arrays, other values are returned as they are.
    """

    def __init__(
        self,
        steps: Sequence[KernelStep | HostStep],
        inputs: Sequence[Tensor],
        outputs: Sequence[Value],
        isa: str,
        nthreads: int,
        constants: Constants,
    ) -> None:
        builder = Lowering(isa, nthreads, constants)
        builder.steps = list(steps)
        leaves: list[Tensor] = []
        self._structure = [_collect(v, leaves) for v in outputs]
        self._outputs = [self._as_output(builder, t, i) for i, t in enumerate(leaves)]
        self.output_types = [(t.shape, t.dtype) for t in self._outputs]
        self._constants = constants
        self.isa, self.nthreads = isa, nthreads
        self.steps = fuse_strips(builder.steps, nthreads)
        constants.pack(nthreads)
        offsets, self.arena_bytes = self._plan()
        self._offsets, self._ninputs = offsets, len(inputs)
        self._segments = self._build()
        self._arenas: list[Array] = []
        self._lock = threading.Lock()

    @staticmethod
    def _as_output(builder: Lowering, t: Tensor, index: int) -> Tensor:
        """Let the buffer of a result be the caller's array itself where possible, else copy at the end."""
        if t.buffer.kind == "arena" and t.is_contiguous and t.offset == 0 and t.nbytes == t.buffer.nbytes and t.size:
            t.buffer.kind, t.buffer.index = "output", index
            return t
        y = Tensor(Buffer("output", t.nbytes, None, index), t.shape, t.dtype)
        builder.copy(t, y)
        return y

    def _plan(self) -> tuple[dict[Buffer, int], int]:
        uses = [{t.buffer for t in step.tensors} for step in self.steps]
        pairs = []
        for i, step in enumerate(self.steps):
            if isinstance(step, KernelStep) and step.inplace is not None:
                out, source = step.inplace
                # A tensor that the kernel also reads elsewhere must not change while it runs.
                readers = sum(t.buffer is source.buffer for t in step.tensors)
                if readers == 1 and _is_whole(out) and _is_whole(source) and out.strides == source.strides:
                    pairs.append((i, out.buffer, source.buffer))
        return plan_arena(lifetimes(uses), pairs)

    def _reference(self, t: Tensor, aligned: bool = True) -> tuple[int, int]:
        kind = t.buffer.kind
        if kind == "const":
            return 0, self._constants.address(t, aligned)
        if kind == "arena":
            return 1, self._offsets[t.buffer] + t.offset
        return (2 if kind == "input" else 2 + self._ninputs) + t.buffer.index, t.offset

    def _build(self) -> list[tuple[int, int] | HostStep]:
        """Pack all kernel steps into one native program and note the ranges between host steps."""
        packed: list[tuple[str, dict[str, Any], bool, bool]] = []
        segments: list[tuple[int, int] | HostStep] = []
        begin = 0
        for step in self.steps:
            if isinstance(step, HostStep):
                if len(packed) > begin:
                    segments.append((begin, len(packed)))
                segments.append(step)
                begin = len(packed)
            else:
                free = ANY_ALIGNMENT.get(step.kernel)
                fields = {k: self._pack_value(v, aligned=k != free) for k, v in step.fields.items()}
                packed.append((step.kernel, fields, step.serial, False))
        if len(packed) > begin:
            segments.append((begin, len(packed)))
        self._nbases = 1 + self._ninputs + len(self._outputs)
        self._native = core.Program(self.isa, packed, self._nbases, self.nthreads)
        return segments

    def _pack_value(self, value: Any, aligned: bool = True) -> Any:
        if isinstance(value, Tensor):
            return self._reference(value, aligned)
        if isinstance(value, (tuple, list)):
            return tuple(self._pack_value(v) for v in value)
        if isinstance(value, dict):
            return {k: self._pack_value(v) for k, v in value.items()}
        return value

    # -- running -----------------------------------------------------------------------------------------------

    def _take_arena(self) -> Array:
        with self._lock:
            if self._arenas:
                return self._arenas.pop()
        return aligned_bytes(self.arena_bytes)

    def run(
        self,
        inputs: Sequence[Array],
        clock: list[tuple[int, int]] | None = None,
        results: Sequence[Array] | None = None,
    ) -> list[Value]:
        """Run once; ``inputs`` are C-contiguous arrays of the program's shapes and dtypes.

        ``clock`` receives (index of the step, nanoseconds) for every step; ``results`` are arrays to write to.
        """
        arena = self._take_arena()
        if results is None:
            results = [np.empty(shape, dtype) for shape, dtype in self.output_types]
        bases = (arena, *inputs, *results)
        done = 0
        for segment in self._segments:
            if isinstance(segment, tuple):
                stamps = self._run_native(bases, segment, clock is not None)
                if clock is not None and stamps is not None:
                    clock += [(done + i, b - a) for i, (a, b) in enumerate(itertools.pairwise(stamps))]
                done += segment[1] - segment[0]
            else:
                self._run_host(segment, arena, inputs, results, clock, done)
                done += 1
        with self._lock:
            self._arenas.append(arena)
        return self.restore(results)

    def restore(self, results: Sequence[Array]) -> list[Value]:
        """Put arrays in the places of the outputs' tensors."""
        return [_restore(s, results) for s in self._structure]

    def _run_native(self, bases: tuple[Array, ...], segment: tuple[int, int], timed: bool) -> list[int] | None:
        try:
            return self._native.run(bases, segment[0], segment[1], timed)
        except IndexRangeError as error:
            raise _located(error, self._kernel_step(error.step)) from None
        except NativeOperatorError as error:
            step = self._kernel_step(error.step)
            raise NativeOperatorError(error.code, step=error.step, operator=f"{step.type} {step.operator}") from None

    def _kernel_step(self, index: int | None) -> KernelStep:
        return [step for step in self.steps if isinstance(step, KernelStep)][index or 0]

    def _run_host(
        self,
        step: HostStep,
        arena: Array,
        inputs: Sequence[Array],
        results: Sequence[Array],
        clock: list[tuple[int, int]] | None,
        index: int,
    ) -> None:
        start = time.perf_counter_ns()

        def view(t: Tensor) -> Array:
            memory = {"arena": [arena], "input": inputs, "output": results}[t.buffer.kind]
            return self._view(t, memory[t.buffer.index])

        given = [t.numpy() if t.is_constant else view(t) for t in step.inputs]
        try:
            produced = step.function(*given)
        except IndexRangeError as error:
            raise _located(error, step) from None
        except (PnnxFastError, MemoryError):
            raise
        except Exception as error:
            reason = f"cannot be computed: {error or type(error).__name__}"
            raise ParameterError(reason, operator=f"{step.type} {step.operator}") from error
        parts = produced if isinstance(produced, tuple) else (produced,)
        for t, part in zip(step.outputs, parts, strict=True):
            part = np.asarray(part)
            if part.shape != t.shape:
                raise ShapeError("numpy step", operator=step.operator, expected=t.shape, actual=part.shape)
            np.copyto(view(t), part, casting="unsafe")
        if clock is not None:
            clock.append((index, time.perf_counter_ns() - start))

    def _view(self, t: Tensor, memory: Array) -> Array:
        raw = memory.reshape(-1).view(np.uint8)
        offset = t.offset + (self._offsets[t.buffer] if t.buffer.kind == "arena" else 0)
        strides = tuple(s * t.dtype.itemsize for s in t.strides)
        if t.size == 0:
            return np.empty(t.shape, t.dtype)
        view: Array = np.ndarray(t.shape, t.dtype, raw.data, offset, strides)
        return view

    def records(self) -> list[StepRecord]:
        """Describe all steps in the order of the clock."""
        return [_record(step) for step in self.steps]


def evaluate(steps: Sequence[KernelStep | HostStep], produced: Value, builder: Lowering) -> Value:
    """Run steps that depend on constants only and return ``produced`` with constant tensors."""
    program = Executable(steps, [], [produced], builder.isa, builder.nthreads, builder.constants)
    return _constant(program.run([])[0], builder)


def _constant(value: Value, builder: Lowering) -> Value:
    if isinstance(value, np.ndarray):
        return builder.constant(value)
    if isinstance(value, (list, tuple)):
        return type(value)(_constant(v, builder) for v in value)
    return value


def _located(error: IndexRangeError, step: KernelStep | HostStep) -> IndexRangeError:
    return IndexRangeError(error.index, error.size, step=error.step, operator=f"{step.type} {step.operator}")


def _is_whole(t: Tensor) -> bool:
    return t.buffer.kind == "arena" and t.offset == 0 and t.is_dense and t.nbytes == t.buffer.nbytes


class _Slot:
    __slots__ = ("index",)

    def __init__(self, index: int) -> None:
        self.index = index


def _collect(value: Value, leaves: list[Tensor]) -> Value:
    """Replace the tensors in a nested value by slots and append them to ``leaves``."""
    if isinstance(value, Tensor):
        leaves.append(value)
        return _Slot(len(leaves) - 1)
    if isinstance(value, (list, tuple)):
        return type(value)(_collect(v, leaves) for v in value)
    return value


def _restore(value: Value, arrays: Sequence[Array]) -> Value:
    if isinstance(value, _Slot):
        return arrays[value.index]
    if isinstance(value, (list, tuple)):
        return type(value)(_restore(v, arrays) for v in value)
    return value


def _record(step: KernelStep | HostStep) -> StepRecord:
    nbytes = sum(t.nbytes for t in step.tensors)
    if isinstance(step, HostStep):
        return StepRecord("numpy", "", step.operator, step.type, step.flops, nbytes, True)
    return StepRecord(step.kernel, step.label, step.operator, step.type, step.flops, nbytes, step.serial)
