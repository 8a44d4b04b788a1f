"""Models that run: a program for each input signature, calls from any thread."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Self

from numpy import ndarray

from pnnx_fast._core import program as core
from pnnx_fast._types import Array
from pnnx_fast._warning import warnings_given
from pnnx_fast.errors import ParameterError, PnnxFastError, ShapeError, no_such
from pnnx_fast.ir.outputs import flat
from pnnx_fast.runtime.inputs import TensorInfo, fitting, in_order, stand_ins

if TYPE_CHECKING:
    from pnnx_fast.ir import Graph
    from pnnx_fast.runtime.cache import ProgramCache
    from pnnx_fast.runtime.compiler import Compiler
    from pnnx_fast.runtime.constants import Constants
    from pnnx_fast.runtime.executable import Clock, Runnable
    from pnnx_fast.runtime.profile import Profile
    from pnnx_fast.runtime.records import StepRecord

__all__ = ["Model", "TensorInfo", "default_isa"]

CACHED_PROGRAMS = 16
"""Programs that a model keeps."""

NONE_NAMED: Mapping[str, Any] = {}


def default_isa() -> str:
    """Best ISA level of this CPU, or what the environment variable PNNX_FAST_ISA names.

    Raises
    ------
    ParameterError
        When the variable names a level that this machine does not have.
    """
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


class Model:
    """A model ready to run. Call it with arrays; several threads may call it at once.

    :func:`pnnx_fast.load` makes one from files. The constructor makes one from a graph.

    Parameters
    ----------
    graph : Graph
        The graph. It stays as it is; a copy of it is optimised.
    num_threads : int, optional
        Threads a call uses; by default all CPUs that the process may use.
    isa : str, optional
        Instruction set level; by default the best one (``pnnx_fast.show_config()`` lists them).
    optimize : bool
        Whether to run the rewriting passes.
    seed : int, optional
        Seed of random operators, 0 or more. Without it, results differ from load to load.
    constants : Constants, optional
        The ``constants`` of another model over the same weights, so that each is packed only once.
    autotune : bool or path
        Whether to measure the kernels for each convolution when a program is made, and use the fastest. A path
        names the file that remembers the results (default: ``PNNX_FAST_TUNING``, else one in the user's cache
        folder).

    Attributes
    ----------
    inputs, outputs : tuple of TensorInfo
        Name, shape (-1 where it may vary) and dtype of each, as the graph notes them. Outputs in lists and tuples have
        an entry each; what an expression computes in a list has the list's name with its place behind it (``7.0``).
    num_threads : int
        Read-only, since programs are compiled for it; so is ``isa``.
    isa : str

    Raises
    ------
    UnsupportedOperatorError
        When operator types are unknown. It lists them all, with code to paste.
    ParameterError
        When the value of an option is invalid.
    TypeError
        When ``graph`` is not a Graph.

    Examples
    --------
    >>> graph = pnnx_fast.Graph.parse('''7767517
    ... 3 2
    ... pnnx.Input  in   0 1 x #x=(1,4)f32
    ... F.relu      act  1 1 x y
    ... pnnx.Output out  1 0 y
    ... ''')
    >>> model = pnnx_fast.Model(graph)
    >>> model.inputs
    (TensorInfo(name='x', shape=(1, 4), dtype=dtype('float32')),)
    >>> model(np.float32([[-1, 2, -3, 4]]))
    array([[0., 2., 0., 4.]], dtype=float32)
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
        from pnnx_fast.ir import Graph

        if not isinstance(graph, Graph):
            raise TypeError(f"Model takes a Graph, not {type(graph).__name__}; pnnx_fast.load takes files")
        options: dict[str, Any] = {"seed": seed, "optimize": optimize, "constants": constants, "autotune": autotune}
        self._open(graph.copy, None, num_threads, isa, options)

    @classmethod
    def reading(
        cls,
        read: Callable[[], Graph],
        cache: ProgramCache | None = None,
        num_threads: int | None = None,
        *,
        isa: str | None = None,
        **options: Any,
    ) -> Self:
        """Make a model of the graph that ``read`` returns. With a cache of programs it is read only when needed."""
        self = cls.__new__(cls)
        self._open(read, cache, num_threads, isa, options)
        return self

    def _open(
        self,
        read: Callable[[], Graph],
        cache: ProgramCache | None,
        num_threads: int | None,
        isa: str | None,
        options: dict[str, Any],
    ) -> None:
        self._settle(num_threads, isa, options.get("seed"))
        self._read, self._options, self._cache = read, options, cache
        known = None if cache is None else cache.signature()
        if known is None:
            before = warnings_given()
            known = self._compiler.inputs, self._compiler.outputs
            if warnings_given() > before:
                self._cache = None  # so that every process warns
            elif cache is not None:
                cache.keep_signature(*known)
        self.inputs, self.outputs = known

    def _settle(self, num_threads: int | None, isa: str | None, seed: int | None) -> None:
        if num_threads is not None and (
            not hasattr(num_threads, "__index__") or not 1 <= num_threads <= core.MOST_THREADS
        ):
            raise ParameterError(f"num_threads must be a number from 1 to {core.MOST_THREADS}, not {num_threads!r}")
        if isa is not None and isa not in core.ISAS:
            raise ParameterError(f"isa must be one of {', '.join(core.ISAS)}, not {isa!r}")
        if seed is not None and (not hasattr(seed, "__index__") or seed < 0):
            raise ParameterError(f"seed must be a whole number from 0 up, not {seed!r}")
        self._num_threads = int(num_threads or 0) or core.default_threads()
        self._isa = isa or default_isa()
        _choose_team()
        self._programs: OrderedDict[Any, Runnable] = OrderedDict()
        self._last: tuple[Any, Any] = None, None
        self._compiled: Compiler | None = None
        self._lock = threading.RLock()

    _read: Callable[[], Graph]
    _options: dict[str, Any]
    _cache: ProgramCache | None

    @property
    def _compiler(self) -> Compiler:
        if self._compiled is None:
            with self._lock:
                if self._compiled is None:
                    graph = self._read()  # before the import, which reading may do while weights are checked
                    from pnnx_fast.runtime.compiler import Compiler

                    self._compiled = Compiler(graph, self.isa, **self._options)
        return self._compiled

    @property
    def num_threads(self) -> int:
        """Threads a call uses."""
        return self._num_threads

    @property
    def isa(self) -> str:
        """Instruction set level of the kernels."""
        return self._isa

    @property
    def graph(self) -> Graph:
        """The optimised graph that runs."""
        return self._compiler.graph

    @property
    def constants(self) -> Constants:
        """The weights, as they are and packed."""
        return self._compiler.constants

    def __reduce__(self) -> tuple[Any, ...]:
        raise TypeError(
            "a Model cannot be copied or pickled: send its files' path, or a Graph, and make another one there"
        )

    def __repr__(self) -> str:
        ins, outs = (", ".join(map(str, infos)) or "nothing" for infos in (self.inputs, self.outputs))
        return f"<Model: {ins} -> {outs}; {self.num_threads} thread(s), {self.isa}>"

    def _repr_html_(self) -> str:
        from pnnx_fast.runtime.notebook import model_html

        shapes = [", ".join(str(list(shape)) for shape, _ in kinds) for kinds in list(self._programs)]
        return model_html(self, self._compiled, shapes, self._last[1])

    def __call__(self, /, *arrays: Any, **named: Any) -> Any:
        """Run the model.

        Parameters
        ----------
        *arrays : array_like
            One for each of ``inputs``, in that order: anything with ``__array__`` or ``__dlpack__``. Sizes may differ
            from those noted where the graph allows it.
        **named : array_like
            Those of the inputs that are not given by position, by name.

        Returns
        -------
        numpy.ndarray or tuple
            The output, or a tuple of outputs if there are several.

        Raises
        ------
        ShapeError
            When number, names, shape or dtype of the arrays do not fit.
        LimitError
            When the run would take more memory than the limit (``PNNX_FAST_MEMORY_LIMIT``).
        IndexRangeError
            When an index among the data is out of range.

        Examples
        --------
        >>> graph = pnnx_fast.Graph.parse('''7767517
        ... 4 3
        ... pnnx.Input      a   0 1 x #x=(2)f32
        ... pnnx.Input      b   0 1 mask #mask=(2)f32
        ... pnnx.Expression e   2 1 x mask y expr=mul(@0,@1)
        ... pnnx.Output     out 1 0 y
        ... ''')
        >>> model = pnnx_fast.Model(graph)
        >>> model([2, 3], mask=[1, 0])
        array([2., 0.], dtype=float32)
        """
        if named:
            arrays = tuple(in_order(arrays, named, self.inputs))
        kinds = tuple([(a.shape, a.dtype) for a in arrays if type(a) is ndarray and a.flags.c_contiguous])
        last, program = self._last
        if kinds == last and len(arrays) == len(last):
            results = program.run(arrays)  # arrays like those of the last run fit as they are
        else:
            given = self._given(arrays)
            results = self._program(given).run(given)
        return results[0] if len(results) == 1 else tuple(results)

    def results(self, /, *arrays: Any, **named: Any) -> tuple[Any, ...]:
        """Run the model and return a tuple with one entry for each output of the graph, also if there is only one.

        Unlike the result of a call this tells a model of several outputs from one whose only output is a tuple.

        Parameters
        ----------
        *arrays, **named : array_like
            As for a call, which raises the same errors.

        Returns
        -------
        tuple
            An entry is an array, or a tuple or list of them where the graph puts these together.

        Examples
        --------
        >>> model = pnnx_fast.load(pnnx_fast.demo.model_path())
        >>> [y.shape for y in model.results(np.zeros((2, 1, 8, 8), np.float32))]
        [(2, 10)]
        """
        given = self._given(arrays, named)
        return tuple(self._program(given).run(given))

    def run(self, inputs: Mapping[str, Any], outputs: Iterable[str] | None = None) -> dict[str, Any]:
        """Run with named inputs and return named outputs.

        Parameters
        ----------
        inputs : mapping of str to array_like
            An array for each name in ``inputs``.
        outputs : iterable of str, optional
            Names of the outputs wanted, by default all.

        Returns
        -------
        dict of str to numpy.ndarray
            In the order of ``outputs``. An entry is a list where an operator gives one of which the graph does not
            tell the length.

        Raises
        ------
        ShapeError
            When names are missing or unknown, or shapes or dtypes do not fit.
        TypeError
            When ``inputs`` is not a mapping, or ``outputs`` is a single name instead of a sequence.

        Examples
        --------
        >>> from pnnx_fast.demo import model_path
        >>> model = pnnx_fast.load(model_path())
        >>> [(name, y.shape) for name, y in model.run({"0": np.zeros((2, 1, 8, 8), np.float32)}).items()]
        [('18', (2, 10))]
        """
        if not isinstance(inputs, Mapping) or isinstance(outputs, str):
            raise TypeError("run takes arrays by the names of inputs, and a list of names of outputs")
        given = self._given((), inputs)
        known = [o.name for o in self.outputs]
        wanted = None if outputs is None else list(outputs)
        for name in wanted or ():
            if name not in known:
                raise ShapeError(no_such("output", name, known))
        values = self._program(given).run(given)
        arrays = flat(values)
        results = dict(zip(known, arrays, strict=True) if len(arrays) == len(known) else self._compiler.named(values))
        return results if wanted is None else {name: results[name] for name in wanted}

    def warm_up(self, /, *shapes: Any, **named: Any) -> None:
        """Compile the program for inputs of these shapes ahead of the first call, which then need not wait for it.

        Nothing is computed. With ``cache``, the folder has the program afterwards.

        Parameters
        ----------
        *shapes : tuple of int or array_like
            Shapes of ``inputs``, in that order, or arrays that have them. Inputs that are not given have the noted
            shape.
        **named : tuple of int or array_like
            Those by name.

        Raises
        ------
        ShapeError
            When number, names or shapes do not fit, or an input whose noted sizes are free is not given.
        LimitError
            When an input would take more memory than the limit (``PNNX_FAST_MEMORY_LIMIT``).

        Examples
        --------
        >>> from pnnx_fast.demo import model_path
        >>> model = pnnx_fast.load(model_path())
        >>> for batch in (1, 8):
        ...     model.warm_up((batch, 1, 8, 8))
        """
        self._program(self._given(stand_ins(shapes, named, self.inputs)))

    def profile(self, /, *arrays: Any, repeat: int = 5, **named: Any) -> Profile:
        """Time every step of a call.

        The result has the fastest time of each step over ``repeat`` runs. A step lasts from the end of the one before
        until the last thread has finished it.

        Parameters
        ----------
        *arrays, **named : array_like
            As for a call.
        repeat : int
            Number of timed runs, after one for warming up. An input of this name that is not given by position takes
            the argument; there are 5 runs then.

        Returns
        -------
        Profile
            Printing it gives a table.

        Raises
        ------
        ShapeError
            When number, shape or dtype of the arrays do not fit.
        ParameterError
            When ``repeat`` is not a whole number of at least 1.

        Examples
        --------
        >>> model = pnnx_fast.load(pnnx_fast.demo.model_path())
        >>> profile = model.profile(np.zeros((2, 1, 8, 8), np.float32), repeat=3)
        >>> profile.steps[-1].operator, 0 < profile.steps[-1].seconds < profile.seconds
        ('F.softmax_4', True)
        """
        from pnnx_fast.runtime.profile import Profile

        if any(info.name == "repeat" for info in self.inputs[len(arrays) :]):
            named, repeat = {**named, "repeat": repeat}, 5
        if not hasattr(repeat, "__index__") or getattr(repeat, "ndim", False) or repeat < 1:
            raise ParameterError(f"repeat must be a whole number of at least 1, not {repeat!r}")
        given = self._given(arrays, named)
        return Profile.measure(self._program(given), given, repeat)

    def timed(self, /, *arrays: Any, **named: Any) -> tuple[list[Any], list[tuple[StepRecord, float]]]:
        """Run once with a clock. Return outputs, and steps with seconds, up to the first shape that data decide."""
        given = self._given(arrays, named)
        chain = self._program(given)
        clock: Clock = []
        results = chain.run(given, clock)
        records = chain.records()
        return results, [(records[index], ns * 1e-9) for index, ns in clock]

    def work(self, /, *arrays: Any, **named: Any) -> dict[str, int]:
        """Return how much work and memory a call with arrays of these shapes takes; nothing is computed.

        Returns
        -------
        dict of str to int
            ``flops``, the number of ``steps``, and ``arena_bytes``, the memory for activations.

        Examples
        --------
        >>> model = pnnx_fast.load(pnnx_fast.demo.model_path())
        >>> [model.work(np.zeros((batch, 1, 8, 8), np.float32))["flops"] for batch in (1, 2)]
        [946632, 1893264]
        """
        chain = self._program(self._given(arrays, named))
        records = chain.records()
        flops = sum(r.flops for r in records)
        return {"flops": flops, "steps": len(records), "arena_bytes": chain.arena_bytes}

    def program(self, arrays: Sequence[Array]) -> Runnable:
        """Return the program for arrays of these shapes and dtypes. It takes C-contiguous arrays."""
        return self._program(self._given(arrays))

    def _given(self, arrays: Sequence[Any], named: Mapping[str, Any] = NONE_NAMED) -> list[Array]:
        return fitting(arrays, named, self.inputs)

    def _program(self, given: Sequence[Array]) -> Runnable:
        key = tuple([(a.shape, a.dtype) for a in given])  # a list is faster than a generator
        program = self._programs.get(key)
        if program is None:  # a known one is found without the lock, which a process may have been forked with
            with self._lock:
                program = self._programs.get(key)
                if program is None:
                    with self._telling_shapes(given):
                        program = self._make(given)
                    self._programs[key] = program
                    if len(self._programs) > CACHED_PROGRAMS:
                        self._programs.popitem(last=False)
        with suppress(KeyError):
            self._programs.move_to_end(key)
        self._last = key, program
        return program

    @contextmanager
    def _telling_shapes(self, given: Sequence[Array]) -> Iterator[None]:
        """Have errors tell which inputs have not the sizes that the file notes: often that is why."""
        try:
            yield
        except PnnxFastError as error:
            for info, array in zip(self.inputs, given, strict=True):
                if any(n not in (-1, size) for n, size in zip(info.shape or (), array.shape, strict=False)):
                    error.add_note(f"input {info.name!r} is {list(array.shape)} here; the file notes {info}")
            raise

    def _make(self, given: Sequence[Array]) -> Runnable:
        if self._cache is None:
            return self._compiler.compile(given, self.num_threads)
        kept = self._cache.get(given, self.isa, self.num_threads)
        if kept is not None:
            return kept
        before = warnings_given()
        made = self._compiler.compile(given, self.num_threads)
        if warnings_given() == before:  # the next process is to warn, too
            self._cache.put(given, made, self._compiler.types)
        return made
