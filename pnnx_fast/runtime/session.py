"""Models that run: inputs and outputs of a graph, programs per input signature, calls from any thread."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from pnnx_fast import passes
from pnnx_fast._core import program as core
from pnnx_fast._types import Array, DType
from pnnx_fast.errors import ParameterError, ShapeError
from pnnx_fast.ir import Graph, Operator, dtypes
from pnnx_fast.ir.collector import collector_paused
from pnnx_fast.ops import registry
from pnnx_fast.ops.symbolic import Buffer, Tensor, Value
from pnnx_fast.runtime.batches import Parts, best_part, for_rows, rows_apart
from pnnx_fast.runtime.constants import Constants
from pnnx_fast.runtime.debug import graph_dumper
from pnnx_fast.runtime.lower import Stage, graph_outputs, lower
from pnnx_fast.runtime.program import Executable, StepRecord

if TYPE_CHECKING:
    from pnnx_fast.runtime.profile import Profile

__all__ = ["Model", "TensorInfo", "default_isa"]

CACHED_PROGRAMS = 16


class TensorInfo(NamedTuple):
    """Name, shape (-1 where free, None when unknown) and dtype of a model's input or output."""

    name: str
    shape: tuple[int, ...] | None
    dtype: DType | None


def default_isa() -> str:
    """Best ISA level of this CPU, or what the environment variable PNNX_FAST_ISA names."""
    name = os.environ.get("PNNX_FAST_ISA") or core.ISAS[-1]
    if name not in core.ISAS:
        raise ParameterError(f"PNNX_FAST_ISA is {name!r}; this machine has {', '.join(core.ISAS)}")
    return name


def _choose_team() -> None:
    """Use the thread team that the environment variable PNNX_FAST_TEAM names."""
    name = os.environ.get("PNNX_FAST_TEAM")
    if name and name != core.team():
        try:
            core.choose_team(name)
        except ValueError as error:
            raise ParameterError(f"PNNX_FAST_TEAM: {error}") from None


def _skeleton(graph: Graph, kind: str) -> str:
    from pnnx_fast.ops.skeleton import skeleton

    return skeleton(next(op for op in graph.ops if op.type == kind))


class Model:
    """A model ready to run.

    Parameters
    ----------
    graph : Graph
        The graph; it is copied and the copy is optimised.
    num_threads : int, optional
        Threads a call uses; by default all CPUs that the process may use.
    isa : str, optional
        Instruction set level, by default the best one (``pnnx_fast.show_config()`` lists them).
    optimize : bool
        Whether to run the rewriting passes.
    seed : int, optional
        Seed of random operators; without it their results differ from load to load.
    constants : Constants, optional
        Weights that several models share, so that each is packed once.
    autotune : bool or path
        Whether to measure the convolution kernels that could serve a shape when a program is made, and to use the
        fastest. A path names the file that remembers them (default: ``PNNX_FAST_TUNING``, else one in the user's
        cache folder).
    """

    def __init__(
        self,
        graph: Graph,
        num_threads: int | None = None,
        *,
        isa: str | None = None,
        optimize: bool = True,
        seed: int | None = None,
        constants: Constants | None = None,
        autotune: bool | str | os.PathLike[str] = False,
    ) -> None:
        registry.check_supported(((op.type, op.name) for op in graph.ops), lambda kind: _skeleton(graph, kind))
        if num_threads is not None and num_threads < 1:
            raise ParameterError(f"num_threads must be at least 1, not {num_threads}")
        if isa is not None and isa not in core.ISAS:
            raise ParameterError(f"isa must be one of {', '.join(core.ISAS)}, not {isa!r}")
        self.num_threads = num_threads or core.default_threads()
        self.isa = isa or default_isa()
        _choose_team()
        self.graph = graph.copy()
        self.inputs = tuple(_info(op.outputs[0]) for op in graph.ops if op.type == "pnnx.Input")
        self.outputs = tuple(_info(o) for o in _output_operands(graph))
        self.constants = Constants(seed) if constants is None else constants
        if autotune is not False:
            from pnnx_fast.runtime.autotune import Tuner

            self.constants.tuner = Tuner(None if autotune is True else autotune)
        passes.restore(self.graph)
        if optimize:
            passes.optimize(self.graph, graph_dumper())
        self._ops = list(self.graph.topological())
        self._input_names = [op.outputs[0].name for op in self.graph.ops if op.type == "pnnx.Input"]
        self._programs: OrderedDict[Any, _Chain | Parts] = OrderedDict()
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        ins = ", ".join(f"{i.name}{list(i.shape or ())}" for i in self.inputs)
        return f"Model({ins} -> {len(self.outputs)} outputs, {self.num_threads} threads, {self.isa})"

    def __call__(self, *arrays: Any) -> Any:
        """Run the model.

        Parameters
        ----------
        *arrays : array_like
            One for each input, in the order of ``inputs``; anything with ``__array__`` or ``__dlpack__``.

        Returns
        -------
        numpy.ndarray or tuple
            The output, a tuple when there are several.

        Raises
        ------
        ShapeError
            When number, shape or dtype of the arrays do not fit.
        """
        given = self._check(arrays)
        results = self._program(given).run(given)
        return results[0] if len(results) == 1 else tuple(results)

    def run(self, inputs: Mapping[str, Any], outputs: Sequence[str] | None = None) -> dict[str, Any]:
        """Run with named inputs and return named outputs (all of them unless ``outputs`` names some)."""
        names = [i.name for i in self.inputs]
        missing, extra = [n for n in names if n not in inputs], [n for n in inputs if n not in names]
        if missing or extra:
            raise ShapeError(f"inputs missing: {missing}, unknown: {extra}", expected=names, actual=list(inputs))
        given = self._check([inputs[n] for n in names])
        known = [o.name for o in self.outputs]
        unknown = [n for n in outputs or () if n not in known]
        if unknown:
            raise ShapeError(f"unknown outputs {unknown}", expected=known, actual=list(outputs or ()))
        flat = _flatten(self._program(given).run(given))
        results = dict(zip(known, flat, strict=True))
        return {n: results[n] for n in outputs} if outputs is not None else results

    def profile(self, *arrays: Any, repeat: int = 5) -> Profile:
        """Run ``repeat`` times with a clock around every step and return the fastest time of each step."""
        from pnnx_fast.runtime.profile import Profile

        given = self._check(arrays)
        return Profile.measure(self._program(given), given, repeat)

    def timed(self, *arrays: Any) -> tuple[list[Value], list[tuple[StepRecord, float]]]:
        """Run once with a clock; returns the outputs and, for each step before data decide a shape, its seconds."""
        given = self._check(arrays)
        chain = self._program(given)
        clock: list[tuple[int, int]] = []
        results = chain.run(given, clock)
        records = chain.records()
        return results, [(records[index], ns * 1e-9) for index, ns in clock]

    def work(self, *arrays: Any) -> dict[str, int]:
        """FLOPs, number of steps and bytes of activations of a run on arrays of these shapes."""
        chain = self._program(self._check(arrays))
        records = chain.records()
        flops = sum(r.flops for r in records)
        return {"flops": flops, "steps": len(records), "arena_bytes": chain.program.arena_bytes}

    # -- inputs ------------------------------------------------------------------------------------------------

    def _check(self, arrays: Sequence[Any]) -> list[Array]:
        if len(arrays) != len(self.inputs):
            raise ShapeError("wrong number of inputs", expected=len(self.inputs), actual=len(arrays))
        return [_as_input(a, info) for a, info in zip(arrays, self.inputs, strict=True)]

    # -- programs ----------------------------------------------------------------------------------------------

    def _program(self, given: Sequence[Array]) -> _Chain | Parts:
        key = tuple((a.shape, a.dtype) for a in given)
        with self._lock:
            program = self._programs.get(key)
            if program is not None:
                self._programs.move_to_end(key)
                return program
            with collector_paused():
                program = self._programs[key] = self._in_parts(given, self._lower(given, self._ops, self.num_threads))
            if self.constants.tuner is not None:
                self.constants.tuner.save()
            if len(self._programs) > CACHED_PROGRAMS:
                self._programs.popitem(last=False)
            return program

    def _lower(self, given: Sequence[Array], ops: Sequence[Operator], nthreads: int) -> _Chain:
        tensors = [Tensor(Buffer("input", a.nbytes, None, i), a.shape, a.dtype) for i, a in enumerate(given)]
        return _Chain(self, ops, dict(zip(self._input_names, tensors, strict=True)), tensors, nthreads)

    def _in_parts(self, given: Sequence[Array], chain: _Chain) -> _Chain | Parts:
        """Return a chain for fewer rows to run several times, where that is faster."""
        ranks = [len(info.shape or ()) for info in self.inputs]
        counts = {a.shape[0] if a.ndim == rank > 1 else 0 for a, rank in zip(given, ranks, strict=True)}
        if len(counts) != 1 or chain.stage.breaker is not None or not rows_apart(self._ops):
            return chain
        rows = counts.pop()
        if rows < 2 or any(not shape or shape[0] != rows for shape, _ in chain.program.output_types):
            return chain
        part, apart = best_part(chain.program.steps, rows, chain.program.arena_bytes, self.num_threads)
        if part == rows:
            return chain
        few = self._lower([a[:part] for a in given], for_rows(self._ops, part), 1 if apart else self.num_threads)
        return Parts(few, rows // part, self.num_threads if apart else 1)


class _Chain:
    """A program, and what follows when a result's shape depends on data: one more chain a shape."""

    def __init__(
        self, model: Model, ops: Sequence[Operator], values: dict[str, Value], inputs: list[Tensor], nthreads: int
    ) -> None:
        self._model, self._nthreads = model, nthreads
        self._wanted = graph_outputs(model.graph)
        self.stage = lower(ops, values, self._wanted, model.isa, nthreads, model.constants)
        self._live: list[str] = []
        self._rest: Sequence[Operator] = ()
        outputs = self.stage.outputs
        if self.stage.breaker is not None and self.stage.pending is not None:
            self._rest = ops[list(ops).index(self.stage.pending) + 1 :]
            self._live = _live_names(self._rest, self.stage, self._wanted)
            outputs = [self.stage.values[n] for n in self._live] + list(self.stage.breaker.inputs)
        self.program = Executable(self.stage.steps, inputs, outputs, model.isa, nthreads, model.constants)
        self.stage.values = {n: v for n, v in self.stage.values.items() if not _has_tensor(v) or _constant(v)}
        self._next: OrderedDict[Any, _Chain] = OrderedDict()
        self._lock = threading.Lock()

    def run(self, given: Sequence[Array], clock: list[tuple[int, int]] | None = None) -> list[Value]:
        results = self.program.run(given, clock)
        stage = self.stage
        if stage.breaker is None or stage.pending is None:
            return results
        with np.errstate(all="ignore"):
            produced = stage.breaker.function(*results[len(self._live) :])
        parts = produced if isinstance(produced, tuple) else (produced,)
        known = dict(zip(self._live, results, strict=False))
        known.update({o.name: p for o, p in zip(stage.pending.outputs, parts, strict=False)})
        return self._follow(known)

    def _follow(self, known: dict[str, Value]) -> list[Value]:
        arrays: list[Array] = []
        shapes = {name: _signature(value, arrays) for name, value in known.items()}
        arrays = [np.ascontiguousarray(a) for a in arrays]
        key = repr(shapes)
        with self._lock:
            chain = self._next.get(key)
            if chain is None:
                tensors = [Tensor(Buffer("input", a.nbytes, None, i), a.shape, a.dtype) for i, a in enumerate(arrays)]
                values = dict(self.stage.values)
                source = iter(tensors)
                values.update({name: _symbolic(value, source) for name, value in known.items()})
                chain = self._next[key] = _Chain(self._model, self._rest, values, tensors, self._nthreads)
                if len(self._next) > CACHED_PROGRAMS:
                    self._next.popitem(last=False)
        return chain.run(arrays)

    def records(self) -> list[Any]:
        """Describe the steps of this stage."""
        return self.program.records()


def _live_names(rest: Sequence[Operator], stage: Stage, wanted: Sequence[str]) -> list[str]:
    """Operands already computed that later operators or the outputs need."""
    needed = {operand.name for op in rest for operand in op.inputs} | set(wanted)
    return [n for n, v in stage.values.items() if n in needed and _has_tensor(v) and not _constant(v)]


def _has_tensor(value: Value) -> bool:
    if isinstance(value, (list, tuple)):
        return any(_has_tensor(v) for v in value)
    return isinstance(value, Tensor)


def _constant(value: Value) -> bool:
    if isinstance(value, (list, tuple)):
        return all(_constant(v) for v in value)
    return not isinstance(value, Tensor) or value.is_constant


def _signature(value: Value, arrays: list[Array]) -> Any:
    if isinstance(value, (list, tuple)):
        return [_signature(v, arrays) for v in value]
    if isinstance(value, (np.ndarray, np.generic)):
        arrays.append(np.asarray(value))
        return (arrays[-1].shape, str(arrays[-1].dtype))
    return ("value", value)


def _symbolic(value: Value, tensors: Any) -> Value:
    if isinstance(value, (list, tuple)):
        return type(value)(_symbolic(v, tensors) for v in value)
    return next(tensors) if isinstance(value, (np.ndarray, np.generic)) else value


def _flatten(values: Any) -> list[Any]:
    if isinstance(values, (list, tuple)):
        return [leaf for v in values for leaf in _flatten(v)]
    return [values]


def _info(operand: Any) -> TensorInfo:
    row = dtypes.by_text.get(operand.dtype or "")
    if row is None:
        return TensorInfo(operand.name, operand.shape, None)
    # bfloat16 and complex32, which numpy lacks, are computed in the next larger type.
    name = row.numpy or {"bf16": "float32", "c32": "complex64"}[row.text]
    return TensorInfo(operand.name, operand.shape, np.dtype(name))


def _output_operands(graph: Graph) -> list[Any]:
    """Operands that the outputs consist of, through tuples."""
    found: list[Any] = []

    def visit(operand: Any) -> None:
        producer = operand.producer
        if producer is not None and producer.type in ("prim::TupleConstruct", "prim::ListConstruct"):
            for inner in producer.inputs:
                visit(inner)
        else:
            found.append(operand)

    for op in graph.ops:
        if op.type == "pnnx.Output":
            visit(op.inputs[0])
    return found


def _as_input(value: Any, info: TensorInfo) -> Array:
    if not isinstance(value, np.ndarray):
        value = np.from_dlpack(value) if not hasattr(value, "__array__") and hasattr(value, "__dlpack__") else value
        value = np.asarray(value)
    if info.dtype is not None and value.dtype != info.dtype:
        if not (np.can_cast(value.dtype, info.dtype, "safe") and value.dtype.kind == info.dtype.kind):
            raise ShapeError("wrong dtype of input", operand=info.name, expected=info.dtype, actual=value.dtype)
        value = value.astype(info.dtype)
    if info.shape is not None and len(info.shape) != value.ndim:
        raise ShapeError(
            "wrong number of dimensions of input",
            operand=info.name,
            expected=list(info.shape),
            actual=list(value.shape),
        )
    return value if value.flags.c_contiguous else np.ascontiguousarray(value)
