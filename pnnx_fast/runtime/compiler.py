"""From a graph to programs: the compiler of a model, and chains of programs where data decide shapes."""

from __future__ import annotations

import os
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pnnx_fast import passes
from pnnx_fast._collector import collector_paused
from pnnx_fast._types import Array
from pnnx_fast.ir import Graph, Operator, dtypes
from pnnx_fast.ir.check import require_connections, require_data, require_weights
from pnnx_fast.ir.mapped import files_of, require_unchanged
from pnnx_fast.ir.outputs import leaves, named, names, returned
from pnnx_fast.ops import registry
from pnnx_fast.ops.symbolic import Buffer, Tensor, Value, map_leaves, tensors_in
from pnnx_fast.runtime.constants import Constants
from pnnx_fast.runtime.executable import Clock
from pnnx_fast.runtime.inputs import TensorInfo
from pnnx_fast.runtime.lower import Stage, lower
from pnnx_fast.runtime.noted import compare_noted, doubtful_masks, name_doubtful_masks
from pnnx_fast.runtime.program import Program
from pnnx_fast.runtime.returned import check_values, computed

if TYPE_CHECKING:
    from pnnx_fast.runtime.parts import Parts
    from pnnx_fast.runtime.records import StepRecord

__all__ = ["Chain", "Compiler"]

CONTINUATIONS = 64
"""Programs that follow others and are kept, one a shape of what data decide."""

DOUBTFUL = ("scatter", "index_", "masked_fill", "::__i", "slice_copy", "unsafe_chunk")
"""Parts of the names of operator types about which a file may leave doubts."""

DOUBTFUL_SUMS = frozenset({"F.tanh", "F.relu"})
"""Operator types that leave doubts about a constant which the converter has computed, if they take its sum."""


class Compiler:
    """Makes programs of a graph.

    Parameters
    ----------
    graph : Graph
        It is optimised in place.
    isa : str
    seed : int or None
        Seed of random operators.
    optimize : bool
        Whether to run the rewriting passes.
    constants : Constants or None
        Weights that several models share.
    autotune : bool or path
        See :class:`pnnx_fast.Model`.
    own_run : bool
        Whether to look for what the converter's own run left in constants.

    Attributes
    ----------
    inputs, outputs : tuple of TensorInfo
    types : list of str
        Operator types of the graph as it was given.
    files : set of MappedFile
        Files that weights are read from; an error if they have changed when a program is made.
    """

    def __init__(
        self,
        graph: Graph,
        isa: str,
        *,
        seed: int | None = None,
        optimize: bool = True,
        constants: Constants | None = None,
        autotune: bool | str | os.PathLike[str] = False,
        own_run: bool = True,
    ) -> None:
        registry.check_supported(((op.type, op.name) for op in graph.ops), lambda kind: _skeleton(graph, kind))
        require_connections(graph.ops)
        require_weights(graph.ops)
        require_data(graph.ops)
        self.files = files_of(graph.ops)
        require_unchanged(self.files)
        self.isa, self.graph = isa, graph
        self.types = sorted({op.type for op in graph.ops})
        self.inputs = tuple(map(_info, graph.inputs))
        found = returned(graph)
        self.outputs = tuple(map(_info, leaves(found)))
        self._returned = names(found)
        self.constants = Constants(seed) if constants is None else constants
        if autotune is not False:
            from pnnx_fast.runtime.autotune import Tuner

            self.constants.tuner = Tuner(None if autotune is True else autotune)
        dump = _dumper()
        passes.restore(self.graph, dump)
        if own_run and _is_doubtful(graph):
            _dispel_doubts(graph, isa)
        if optimize:
            passes.optimize(self.graph, dump)
        self.ops = list(self.graph.topological())
        self.continuations = Continuations()
        self.doubtful_masks = doubtful_masks(self.ops)
        self.constants.weights_bytes = sum(a.nbytes for op in self.ops for a in op.attrs.values())
        self._input_names = [x.name for x in self.graph.inputs]

    def compile(self, given: Sequence[Array], nthreads: int) -> Chain | Parts | Program:
        """Return what computes the outputs from arrays of these shapes and dtypes."""
        with collector_paused():
            runnable = self._in_parts(given, self._lower(given, self.ops, nthreads), nthreads)
        if self.constants.tuner is not None:
            self.constants.tuner.save()
        return runnable.program if isinstance(runnable, Chain) and runnable.is_whole else runnable

    def named(self, results: Sequence[Value]) -> Iterator[tuple[str, Value]]:
        """Yield all arrays of the outputs with their names."""
        return named(self._returned, results)

    def _lower(self, given: Sequence[Array], ops: Sequence[Operator], nthreads: int) -> Chain:
        tensors = [Tensor(Buffer("input", a.nbytes, None, i), a.shape, a.dtype) for i, a in enumerate(given)]
        return Chain(self, ops, dict(zip(self._input_names, tensors, strict=True)), tensors, nthreads)

    def _in_parts(self, given: Sequence[Array], chain: Chain, nthreads: int) -> Chain | Parts:
        """Return a program for fewer rows to run several times, where that is faster."""
        ranks = [len(info.shape or ()) for info in self.inputs]
        counts = {a.shape[0] if a.ndim == rank > 1 else 0 for a, rank in zip(given, ranks, strict=True)}
        if len(counts) != 1 or not chain.is_whole:
            return chain
        rows = counts.pop()
        if rows < 2 or any(not shape or shape[0] != rows for shape, _ in chain.program.output_types):
            return chain
        from pnnx_fast.runtime.batches import best_part, for_rows, rows_apart

        if not rows_apart(self.ops, rows):
            return chain
        part, apart = best_part(chain.program.steps, rows, chain.arena_bytes, nthreads)
        if part == rows:
            return chain
        from pnnx_fast.runtime.parts import Parts

        few = self._lower([a[:part] for a in given], for_rows(self.ops, part), 1 if apart else nthreads)
        return Parts(few.program, rows // part, nthreads if apart else 1)


class Continuations:
    """Chains that follow others: each has its own by shapes, and of all of a model the latest are kept."""

    def __init__(self) -> None:
        self._latest: OrderedDict[tuple[int, Hashable], weakref.ref[Chain]] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, chain: Chain, key: Hashable, make: Callable[[], Chain]) -> Chain:
        """Return what follows a chain for the shapes of a key, made when it is not there."""
        with self._lock:
            found = chain.following.get(key)
            if found is None:
                found = chain.following[key] = make()
                self._latest[id(chain), key] = weakref.ref(chain)
                if len(self._latest) > CONTINUATIONS:
                    (_, oldest), before = self._latest.popitem(last=False)
                    if (parent := before()) is not None:
                        parent.following.pop(oldest, None)
            self._latest.move_to_end((id(chain), key))
            return found


class Chain:
    """A program, and what follows when a result's shape depends on data: one more chain a shape."""

    def __init__(
        self, compiler: Compiler, ops: Sequence[Operator], values: dict[str, Value], inputs: list[Tensor], nthreads: int
    ) -> None:
        require_unchanged(compiler.files)
        self._compiler = compiler
        self._wanted = [x.name for x in compiler.graph.outputs]
        self.stage = lower(ops, values, self._wanted, compiler.isa, nthreads, compiler.constants)
        self._live: list[str] = []
        self._rest: Sequence[Operator] = ()
        outputs = self.stage.outputs
        if self.stage.breaker is not None and self.stage.pending is not None:
            self._rest = ops[list(ops).index(self.stage.pending) + 1 :]
            self._live = _live_names(self._rest, self.stage, self._wanted)
            outputs = [self.stage.values[n] for n in self._live] + list(self.stage.breaker.inputs)
        self.program = Program(self.stage.steps, inputs, outputs, compiler.isa, nthreads, compiler.constants)
        self.isa, self.nthreads, self.arena_bytes = compiler.isa, nthreads, self.program.arena_bytes
        if ops is compiler.ops:  # what follows data may have other sizes
            compare_noted(compiler.graph.inputs, ops, self.stage.values)
            name_doubtful_masks(compiler.doubtful_masks, self.stage.values)
        self.stage.values = {n: v for n, v in self.stage.values.items() if _known(v)}
        self.following: dict[Hashable, Chain] = {}

    @property
    def is_whole(self) -> bool:
        """Whether one program computes the outputs."""
        return self.stage.breaker is None

    def run(self, given: Sequence[Array], clock: Clock | None = None) -> list[Value]:
        """Run, and after it what follows for the shapes that came out."""
        results = self.program.run(given, clock)
        stage = self.stage
        if stage.breaker is None or stage.pending is None:
            return results
        where = stage.pending.where
        with np.errstate(all="ignore"):
            parts = computed(stage.breaker.function, results[len(self._live) :], where)
        if len(parts) == 1 and isinstance(parts[0], list) and len(stage.pending.outputs) > 1:
            parts = tuple(parts[0])
        check_values(parts, len(stage.pending.outputs), where)
        known = dict(zip(self._live, results, strict=False))
        known.update({o.name: p for o, p in zip(stage.pending.outputs, parts, strict=False)})
        return self._follow(known)

    def _follow(self, known: dict[str, Value]) -> list[Value]:
        arrays: list[Array] = []
        key = tuple([_signature(value, arrays) for value in known.values()])
        arrays = [np.asarray(a, order="C") for a in arrays]

        def make() -> Chain:
            tensors = [Tensor(Buffer("input", a.nbytes, None, i), a.shape, a.dtype) for i, a in enumerate(arrays)]
            source = iter(tensors)
            symbolic = map_leaves(lambda v: next(source) if _is_array(v) else v, list(known.values()))
            values = {**self.stage.values, **dict(zip(known, symbolic, strict=True))}
            return Chain(self._compiler, self._rest, values, tensors, self.nthreads)

        return self._compiler.continuations.of(self, key, make).run(arrays)

    def records(self) -> list[StepRecord]:
        """Describe the steps of this stage."""
        return self.program.records()


def _live_names(rest: Sequence[Operator], stage: Stage, wanted: Sequence[str]) -> list[str]:
    """Operands already computed that later operators or the outputs need."""
    needed = {operand.name for op in rest for operand in op.inputs} | set(wanted)
    return [n for n, v in stage.values.items() if n in needed and not _known(v)]


def _known(value: Value) -> bool:
    """Whether a value depends on no data."""
    return all(t.is_constant for t in tensors_in(value))


def _is_array(value: Any) -> bool:
    return isinstance(value, (np.ndarray, np.generic))


def _signature(value: Value, arrays: list[Array]) -> Hashable:
    """What of a value decides over the program that follows; its arrays are appended to ``arrays``."""
    if _is_array(value):
        array = np.asarray(value)
        arrays.append(array)
        return array.shape, array.dtype.str
    if isinstance(value, (list, tuple)):
        return tuple([_signature(v, arrays) for v in value])
    return repr(value)


def _dumper() -> Callable[[str, Graph], None] | None:
    """Return what writes the graph after a pass to the folder PNNX_FAST_DUMP, None when it names none."""
    folder = os.environ.get("PNNX_FAST_DUMP")
    if not folder:
        return None
    from pnnx_fast.runtime.debug import graph_dumper

    return graph_dumper(folder)


def _is_doubtful(graph: Graph) -> bool:
    kinds = {op.type for op in graph.ops}
    if any(part in kind for kind in kinds for part in DOUBTFUL):
        return True
    if kinds.isdisjoint(DOUBTFUL_SUMS) or "pnnx.Expression" not in kinds or "pnnx.Attribute" not in kinds:
        return False
    sums = (op.inputs[0].producer for op in graph.ops if op.type in DOUBTFUL_SUMS and op.inputs)
    firsts = (
        made.inputs[0].producer for made in sums if made is not None and made.type == "pnnx.Expression" and made.inputs
    )
    return any(first is not None and first.type == "pnnx.Attribute" for first in firsts)


def _dispel_doubts(graph: Graph, isa: str) -> None:
    """Mend constants that the converter's own run has changed, and warn of what the file leaves open."""
    from pnnx_fast.ir.folded import changed_constant
    from pnnx_fast.runtime.doubts import name_doubts
    from pnnx_fast.runtime.own_cells import separate_constants

    separate_constants(graph)
    known: set[Operator] = set()
    if any(changed_constant(op) for op in graph.ops):
        from pnnx_fast.runtime.own_run import wind_back

        known = wind_back(graph, isa)
    name_doubts(graph.ops, known)


def _skeleton(graph: Graph, kind: str) -> str:
    from pnnx_fast.ops.skeleton import skeleton

    return skeleton(next(op for op in graph.ops if op.type == kind))


def _info(operand: Any) -> TensorInfo:
    row = dtypes.by_text.get(operand.dtype or "")
    if row is None:
        return TensorInfo(operand.name, operand.shape, None)
    return TensorInfo(operand.name, operand.shape, np.dtype(row.computed))
