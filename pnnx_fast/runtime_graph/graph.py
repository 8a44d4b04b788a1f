"""The stages of a runtime graph: NeedInit -> NeedBuild -> Complete, then inputs, forward, outputs.

A RuntimeGraph owns a Graph and a Model made from it. Inner values are not kept by an optimised program; when somebody
asks for one, a second, unoptimised model that gives all of them runs on the same inputs.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import partial
from typing import Any

import numpy as np

from pnnx_fast._types import Array
from pnnx_fast.errors import FormatError
from pnnx_fast.ir import Graph, Operator
from pnnx_fast.ir.outputs import flat
from pnnx_fast.ops.symbolic import map_leaves
from pnnx_fast.runtime.inputs import array_of
from pnnx_fast.runtime.session import Model
from pnnx_fast.runtime_graph.status import InferStatus, StatusCode, StatusError, translated
from pnnx_fast.runtime_graph.views import RuntimeOperand, RuntimeOperator

__all__ = ["GraphState", "LayerTime", "RuntimeGraph"]


class GraphState(IntEnum):
    """Stage that a runtime graph has reached.

    Examples
    --------
    >>> from pnnx_fast.demo import model_path
    >>> graph = RuntimeGraph(model_path(), model_path().with_suffix(".bin"))
    >>> graph.graph_state.name
    'NEED_INIT'
    >>> graph.init()
    >>> graph.graph_state is GraphState.NEED_BUILD
    True
    """

    NEED_INIT = -2
    NEED_BUILD = -1
    COMPLETE = 0


@dataclass(frozen=True, slots=True)
class LayerTime:
    """Time that the steps of one operator took in the last ``forward(debug=True)``.

    Attributes
    ----------
    name, type : str
        Those of the operator; ``(output)`` and ``copy`` for a copy of a result.
    seconds : float

    Examples
    --------
    >>> import contextlib, io
    >>> from pnnx_fast.demo import load_digits, model_path
    >>> graph = RuntimeGraph(model_path(), model_path().with_suffix(".bin"), optimize=False)
    >>> graph.build()
    >>> graph.set_inputs("pnnx_input_0", load_digits().pictures[:1])
    >>> with contextlib.redirect_stdout(io.StringIO()):
    ...     graph.forward(debug=True)
    >>> [(row.type, row.seconds > 0) for row in graph.layer_times if row.name == "head"]
    [('nn.Linear', True)]
    """

    name: str
    type: str
    seconds: float


class RuntimeGraph:
    """A model in stages.

    Parameters
    ----------
    param_path, bin_path : path
        The two files; ``bin_path`` may be empty for a model without weights.
    num_threads, isa, optimize, seed
        As for :class:`pnnx_fast.Model`.

    Examples
    --------
    >>> from pnnx_fast.demo import load_digits, model_path
    >>> graph = RuntimeGraph(model_path(), model_path().with_suffix(".bin"))
    >>> graph.build()
    >>> graph.graph_state.name
    'COMPLETE'
    >>> graph.set_inputs("pnnx_input_0", list(load_digits().pictures[:3]))
    >>> graph.forward()
    >>> [y.shape for y in graph.get_outputs("pnnx_output_0")]
    [(10,), (10,), (10,)]
    >>> [x.shape for x in graph.get_outputs("down")]
    [(64, 4, 4), (64, 4, 4), (64, 4, 4)]
    """

    def __init__(
        self,
        param_path: str | os.PathLike[str] = "",
        bin_path: str | os.PathLike[str] = "",
        *,
        num_threads: int | None = None,
        isa: str | None = None,
        optimize: bool = True,
        seed: int | None = None,
    ) -> None:
        self._options: dict[str, Any] = {"num_threads": num_threads, "isa": isa, "optimize": optimize, "seed": seed}
        self._paths = os.fspath(param_path), os.fspath(bin_path)
        self._reset()

    def __repr__(self) -> str:
        return f"RuntimeGraph({self._paths[0]!r}, {self._state.name}, {len(self._operators)} operators)"

    def _reset(self) -> None:
        self._state = GraphState.NEED_INIT
        self._graph = Graph()
        self._operators: list[RuntimeOperator] = []
        self._order: list[RuntimeOperator] = []
        self._operands: dict[str, RuntimeOperand] = {}
        self._model: Model | None = None
        self._given: dict[str, Array] = {}
        self._forget_results()

    def _forget_results(self) -> None:
        self._results: dict[str, Any] = {}
        self._inner: dict[str, Any] | None = None
        self._times: tuple[LayerTime, ...] = ()
        for op in self._operators:
            op.has_forward = False

    # -- paths -------------------------------------------------------------------------------------------------

    @property
    def param_path(self) -> str:
        """Path of the ``.pnnx.param`` file; setting it starts over."""
        return self._paths[0]

    @param_path.setter
    def param_path(self, path: str | os.PathLike[str]) -> None:
        self._paths = os.fspath(path), self._paths[1]
        self._reset()

    @property
    def bin_path(self) -> str:
        """Path of the ``.pnnx.bin`` file; setting it starts over."""
        return self._paths[1]

    @bin_path.setter
    def bin_path(self, path: str | os.PathLike[str]) -> None:
        self._paths = self._paths[0], os.fspath(path)
        self._reset()

    def set_param_path(self, path: str | os.PathLike[str]) -> None:
        """Set ``param_path``.

        Parameters
        ----------
        path : path
            The ``.pnnx.param`` file.
        """
        self.param_path = os.fspath(path)

    def set_bin_path(self, path: str | os.PathLike[str]) -> None:
        """Set ``bin_path``.

        Parameters
        ----------
        path : path
            The ``.pnnx.bin`` file; may be empty.
        """
        self.bin_path = os.fspath(path)

    # -- stages ------------------------------------------------------------------------------------------------

    @property
    def graph_state(self) -> GraphState:
        """Stage that the graph has reached."""
        return self._state

    def init(self) -> None:
        """Read the files.

        Raises
        ------
        StatusError
            When the path of the ``.pnnx.param`` file is empty, a file is missing or does not follow its format.
        """
        if not self._paths[0]:
            raise StatusError("the path of the .pnnx.param file is empty")
        try:
            graph = Graph.load(self._paths[0], self._paths[1] or None)
        except FormatError as error:
            raise StatusError(str(error), StatusCode.PARSE_WEIGHT_ERROR) from error
        except OSError as error:
            raise StatusError(f"cannot read the model: {error}") from error
        self._reset()
        self._adopt(graph)
        self._state = GraphState.NEED_BUILD

    def _adopt(self, graph: Graph) -> None:
        self._graph = graph
        self._operands = {x.name: RuntimeOperand(x, self._samples) for x in graph.operands}
        self._operators = [RuntimeOperator(op, self._operands) for op in graph.ops]
        # A module that is called twice has two operators of its name.
        views = dict(zip(graph.ops, self._operators, strict=True))
        by_name = {op.name: op for op in self._operators}
        for op in self._operators:
            op.output_operators = {name: by_name[name] for name in op.output_names}
        self._order = [views[op] for op in graph.topological()]

    def build(self, input_name: str | None = None, output_name: str | None = None) -> None:
        """Order the operators and prepare the program; reads the files first when that has not been done.

        Parameters
        ----------
        input_name : str, optional
            Name of the one input operator that the caller will set.
        output_name : str, optional
            Name of the one operator whose outputs are wanted; what it does not need is left out.

        Raises
        ------
        StatusError
            With the code of what is missing: an operator type, a parameter, a weight, a shape that fits.
        """
        if self._state is GraphState.NEED_INIT:
            self.init()
        if self._state is GraphState.COMPLETE:
            return
        if output_name is not None:
            self._adopt(_reduced(self._graph, output_name))
        inputs = [op.name for op in self._operators if op.type == "pnnx.Input"]
        if input_name is not None and inputs != [input_name]:
            codes = StatusCode.INFER_INPUTS_EMPTY, InferStatus.FAILED_INPUTS_EMPTY
            raise StatusError(f"the inputs are {inputs}, not {input_name!r}", *codes)
        with translated():
            self._model = Model(self._graph, **self._options)
            self._try_shapes(self._model)
        for number, op in enumerate(self._order, 1):
            op.start_time = number
        for op in self._order:
            op.end_time = max((user.start_time for user in op.output_operators.values()), default=op.start_time)
        self._state = GraphState.COMPLETE

    @staticmethod
    def _try_shapes(model: Model) -> None:
        """Prepare the program for the shapes in the file, if they are all known, so that mistakes show up now."""
        if all(i.shape is not None and i.dtype is not None and min(i.shape, default=0) >= 0 for i in model.inputs):
            model.work(*(np.zeros(i.shape or (), i.dtype) for i in model.inputs))

    def _complete(self) -> Model:
        if self._model is None:
            raise StatusError(f"the graph is in the state {self._state.name}: call build() first")
        return self._model

    # -- operators ---------------------------------------------------------------------------------------------

    @property
    def operators(self) -> list[RuntimeOperator]:
        """Operators in the order of the file."""
        return list(self._operators)

    @property
    def topo_operators(self) -> list[RuntimeOperator]:
        """Operators in the order of execution."""
        return list(self._order)

    def _find(self, name: str) -> RuntimeOperator:
        for op in self._operators:
            if op.name == name:
                return op
        raise StatusError(f"there is no operator {name!r}", StatusCode.PARSE_NULL_OPERATOR)

    def is_input_op(self, name: str) -> bool:
        """Whether the operator of that name is an input of the graph.

        Parameters
        ----------
        name : str

        Raises
        ------
        StatusError
            When there is no such operator.
        """
        return self._find(name).type == "pnnx.Input"

    def is_output_op(self, name: str) -> bool:
        """Whether the operator of that name is an output of the graph.

        Parameters
        ----------
        name : str

        Raises
        ------
        StatusError
            When there is no such operator.
        """
        return self._find(name).type == "pnnx.Output"

    # -- running -----------------------------------------------------------------------------------------------

    def set_inputs(self, name: str, inputs: Sequence[Any] | Array) -> None:
        """Give an input operator its data.

        Parameters
        ----------
        name : str
            Name of the input operator.
        inputs : sequence of array_like, or ndarray
            One array a sample, all of one shape and dtype; or one array with a batch dimension in front.

        Raises
        ------
        StatusError
            When there is no such input, no sample, or the samples are no arrays or differ in shape or dtype.
        """
        self._complete()
        operand = self._find(name).output_operand
        if not self.is_input_op(name) or operand is None:
            raise StatusError(f"{name} is no input", StatusCode.PARSE_NULL_OPERATOR)
        mismatch = StatusCode.INFER_DIM_MISMATCH, InferStatus.FAILED_ARRAY_SIZE_MISMATCH
        try:
            samples = [array_of(x) for x in inputs]
        except (TypeError, ValueError) as error:
            raise StatusError(f"{name} takes a list of arrays, or one of a batch: {error}", *mismatch) from error
        if not samples:
            codes = StatusCode.INFER_INPUTS_EMPTY, InferStatus.FAILED_INPUTS_EMPTY
            raise StatusError(f"{name} got no inputs", *codes)
        if len({(x.shape, x.dtype) for x in samples}) != 1:
            raise StatusError(f"the samples of {name} differ in shape or dtype", *mismatch)
        self._given[operand.name] = inputs if isinstance(inputs, np.ndarray) else np.stack(samples)
        self._forget_results()

    def forward(self, debug: bool = False) -> None:
        """Run.

        Parameters
        ----------
        debug : bool
            Print how long each layer took, and keep it in ``layer_times``. Layers that were merged into another one
            appear under that one's name; build with ``optimize=False`` to see each alone.

        Raises
        ------
        StatusError
            When the graph is not built, an input has no data, or the data do not fit.
        """
        model = self._complete()
        missing = [i.name for i in model.inputs if i.name not in self._given]
        if missing:
            codes = StatusCode.INFER_INPUTS_EMPTY, InferStatus.FAILED_INPUTS_EMPTY
            raise StatusError(f"no data for {', '.join(missing)}: call set_inputs first", *codes)
        self._forget_results()
        arrays = [self._given[i.name] for i in model.inputs]
        with translated():
            results, steps = model.timed(*arrays) if debug else (model.results(*arrays), [])
        wanted = [x.name for x in self._graph.outputs]
        self._results = dict(zip(wanted, results, strict=True))
        for op in self._operators:
            op.has_forward = True
        if debug:
            self._times = _by_layer(steps)
            width = max((len(t.type) for t in self._times), default=0)
            lines = [f"{t.seconds * 1e3:9.4f} ms  {t.type:<{width}}  {t.name}" for t in self._times]
            sys.stdout.write("\n".join([*lines, ""]))

    @property
    def layer_times(self) -> tuple[LayerTime, ...]:
        """Times of the last ``forward(debug=True)`` in order of execution."""
        return self._times

    def time_summary(self) -> dict[str, float]:
        """Seconds by operator type in the last ``forward(debug=True)``, the largest first."""
        totals: dict[str, float] = {}
        for row in self._times:
            totals[row.type] = totals.get(row.type, 0.0) + row.seconds
        return dict(sorted(totals.items(), key=lambda item: -item[1]))

    def get_outputs(self, name: str) -> list[Any]:
        """One array a sample of an output operator, or of any other operator's first output.

        Parameters
        ----------
        name : str
            Name of the operator.

        Returns
        -------
        list of ndarray, or of tuple or list
            Without the batch dimension. Where an operator gives a tuple or a list, each sample has one with its part of
            each array.

        Raises
        ------
        StatusError
            When there is no such operator, it has no outputs yet, or the arrays of a tuple are not of one batch.
        """
        op = self._find(name)
        operand = op.input_operands_seq[0] if self.is_output_op(name) else op.output_operand
        if operand is None or not op.has_forward:
            codes = StatusCode.INFER_OUTPUTS_EMPTY, InferStatus.FAILED_OUTPUTS_EMPTY
            raise StatusError(f"{name} has no outputs yet: call forward first", *codes)
        return operand.datas

    def _samples(self, operand: str) -> list[Any]:
        if not self._results:
            return []
        value = self._results.get(operand, self._given.get(operand))
        if value is None:
            value = self._all_values()[operand]
        shapes = [np.shape(x) for x in flat(value)]
        counts = {shape[0] for shape in shapes if shape}
        if len(counts) > 1:
            codes = StatusCode.INFER_DIM_MISMATCH, InferStatus.FAILED_ARRAY_SIZE_MISMATCH
            raise StatusError(f"the arrays of {operand} are not of one batch: their shapes are {shapes}", *codes)
        # Numbers are the same for all samples.
        rows = range(counts.pop() if counts else 1)
        return [map_leaves(partial(_row, i=i), value) for i in rows]

    def _all_values(self) -> dict[str, Any]:
        if self._inner is None:
            graph = self._graph.copy()
            for op in [op for op in graph.ops if op.type == "pnnx.Output"]:
                graph.remove_operator(op)
            names = [x.name for x in graph.operands]
            for i, operand in enumerate(graph.operands):
                graph.new_operator("pnnx.Output", f"pnnx_output_{i}", inputs=[operand])
            model = Model(graph, **{**self._options, "optimize": False})
            with translated():
                results = model.results(*(self._given[i.name] for i in model.inputs))
            self._inner = dict(zip(names, results, strict=True))
        return self._inner


def _row(value: Any, i: int) -> Array:
    return np.asarray(value[i] if np.ndim(value) else value)


def _by_layer(steps: Sequence[tuple[Any, float]]) -> tuple[LayerTime, ...]:
    totals: dict[tuple[str, str], float] = {}
    for record, seconds in steps:
        key = record.operator or "(output)", record.type or "copy"
        totals[key] = totals.get(key, 0.0) + seconds
    return tuple(LayerTime(name, kind, seconds) for (name, kind), seconds in totals.items())


def _reduced(graph: Graph, name: str) -> Graph:
    """Copy of a graph that computes the named operator only."""
    graph = graph.copy()
    target: Operator | None = next((op for op in graph.ops if op.name == name), None)
    if target is None:
        raise StatusError(f"there is no operator {name!r}", StatusCode.PARSE_NULL_OPERATOR)
    outputs = [op for op in graph.ops if op.type == "pnnx.Output" and op is not target]
    graph.remove_operators(outputs)
    if target.type != "pnnx.Output":
        taken = {op.name for op in graph.ops}
        for i, operand in enumerate(list(target.outputs)):
            label = next(n for n in (f"pnnx_output_{k}" for k in range(i, i + len(taken) + 1)) if n not in taken)
            taken.add(label)
            graph.new_operator("pnnx.Output", label, inputs=[operand])
    graph.dead_code_elimination()
    unused = [op for op in graph.ops if op.type == "pnnx.Input" and not any(x.consumers for x in op.outputs)]
    graph.remove_operators(unused)
    return graph
