"""The graph: operators in order of execution and the operands between them.

Readers make it, passes rewrite it, the runtime lowers it, writers save it. Files are read and written by ``ir.codec``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from pnnx_fast._collector import collector_paused
from pnnx_fast.errors import GraphError
from pnnx_fast.ir import codec
from pnnx_fast.ir.attribute import Attributes
from pnnx_fast.ir.editing import Editing, Lookup
from pnnx_fast.ir.operator import Operand, Operator, topological

if TYPE_CHECKING:
    from pnnx_fast._types import PathLike, Source, Target
    from pnnx_fast.formats.pnnx_param import Limits
    from pnnx_fast.ir.pickling import Rows
    from pnnx_fast.ir.statistics import Statistics

__all__ = ["Graph"]

NEAR = 64
"""Operators before and behind the last place where the next one is looked for first: passes go on in order."""


class Graph(Lookup, Editing):
    """A PNNX model as a graph.

    Attributes
    ----------
    ops : list of Operator
        In order of execution.

    Examples
    --------
    >>> graph = Graph.load(pnnx_fast.demo.model_path())
    >>> twin = graph.copy()
    >>> x, y = twin.operand("18"), twin.new_operand("scores")
    >>> twin.replace_uses(x, y)
    >>> twin.new_operator_after("torch.log", "log", x.producer, inputs=[x], outputs=[y])
    Operator(torch.log log: 18 -> scores)
    >>> twin.validate()
    """

    __slots__ = ("_by_name", "_near", "_numbers", "_operands", "ops", "store_layout", "unused_operands")

    store_layout: Literal["zip64", "zip32"]
    """Layout of the weight file that the graph came from, which saving keeps: ``"zip64"`` or ``"zip32"``."""
    unused_operands: int
    """Operands that the text file counts but that no operator names; converters leave some, and saving counts them."""

    def __init__(self) -> None:
        self.ops = []
        self.store_layout = "zip64"
        self.unused_operands = 0
        # A dict as an ordered set keeps the order of operands through renaming and removal.
        self._operands: dict[Operand, None] = {}
        self._by_name: dict[str, Operand] = {}
        self._numbers: dict[str, int] = {}
        self._near = 0

    @classmethod
    def from_parts(cls, ops: list[Operator], operands: dict[str, Operand]) -> Graph:
        """Make a graph of operators and operands that are wired already; for readers of files."""
        graph = cls()
        graph.ops, graph._by_name = ops, operands
        graph._operands = dict.fromkeys(operands.values())
        return graph

    # Reading and writing

    @classmethod
    def load(
        cls, param: Source, bin: Source | None = None, *, verify: bool = True, limits: Limits | None = None
    ) -> Graph:
        """Read a model.

        Parameters
        ----------
        param : path, bytes or binary file object
            The ``.pnnx.param`` file, or a directory that holds exactly one.
        bin : path, bytes or binary file object, optional
            The ``.pnnx.bin`` file; by default the one beside the ``.param``.
        verify : bool
            Check the CRC-32 of every weight.
        limits : pnnx_fast.formats.Limits, optional
            How much memory and how many operators the files may ask for.

        Returns
        -------
        Graph
            The graph. Its weights are views of the mapped file.

        Raises
        ------
        FormatError
            When a file does not follow its format, or the weights do not fit the graph.
        LimitError
            When a file asks for more than the limits allow.
        FileNotFoundError
            When a file is missing.

        Examples
        --------
        >>> Graph.load(pnnx_fast.demo.model_path())
        <Graph: 20 operators, 19 operands, 1 inputs, 1 outputs>
        """
        return codec.get().load(param, bin, verify, limits)

    @classmethod
    def parse(cls, text: str) -> Graph:
        r"""Read a graph, or a pattern of one, from the text of a ``.param`` file, without weights.

        Raises
        ------
        FormatError
            When the text does not follow the format.

        Examples
        --------
        >>> Graph.parse("7767517\n2 1\npnnx.Input in 0 1 x #x=(1,8)f32\npnnx.Output out 1 0 x\n").inputs
        [Operand(x:(1,8)f32)]
        """
        return codec.get().parse(text)

    def save(self, param: Target, bin: Target | None = None) -> None:
        """Write the model; both files appear complete or not at all.

        Operators that stand before the producer of an input are written behind it; the graph keeps its order.

        Parameters
        ----------
        param : path or binary file object
        bin : path or binary file object, optional
            By default the path of ``param`` with ``.bin`` in place of ``.param``; not the same path.

        Raises
        ------
        GraphError
            When two different weights have one name, the bytes of a weight do not fit its shape, or a name or a value
            would not be the same in the file, such as the text ``"1"``.
        CycleError
        FormatError
            When the file that weights come from was written to after they were loaded.
        TypeError
            When ``param`` is a file object and ``bin`` is not given.
        OSError
            When a file cannot be written.

        Examples
        --------
        >>> import os, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     Graph.load(pnnx_fast.demo.model_path()).save(f"{folder}/copy.pnnx.param")
        ...     sorted(os.listdir(folder))
        ['copy.pnnx.bin', 'copy.pnnx.param']
        """
        codec.get().save(self, param, bin)

    def python(self, path: PathLike, bin: PathLike | None = None) -> None:
        """Write the graph as the source of a PyTorch module, a ``.py`` file.

        Constants that the converter's own run has changed are set to what they were before, where that can be told.
        The file holds a class ``Model`` that reads its weights from the ``.bin`` file, and functions
        ``test_inference``, ``export_torchscript``, ``export_onnx``, ``export_pnnx`` and ``export_ncnn``.

        Parameters
        ----------
        path : path
        bin : path, optional
            An existing weight file of this graph; by default ``model_weights.bin`` is written beside ``model.py``.

        Raises
        ------
        UnsupportedOperatorError
            Naming an operator that PyTorch has no equivalent of.
        """
        codec.get().python(self._for_source(bin is not None), path, bin)

    # Operands

    @property
    def operands(self) -> list[Operand]:
        """The operands in order, as a new list."""
        return list(self._operands)

    @property
    def operand_count(self) -> int:
        """Number of operands."""
        return len(self._operands)

    def new_operand(self, name: str) -> Operand:
        """Add an operand.

        Raises
        ------
        GraphError
            When the name is taken.
        """
        if name in self._by_name:
            raise GraphError([f"operand {name} exists already"])
        operand = Operand(name)
        self._operands[operand] = None
        self._by_name[name] = operand
        return operand

    def rename_operand(self, operand: Operand, name: str) -> None:
        """Give an operand another name; its place in the order stays.

        Raises
        ------
        GraphError
            When the name is taken.
        """
        if name == operand.name:
            return
        if name in self._by_name:
            raise GraphError([f"operand {name} exists already"])
        del self._by_name[operand.name]
        operand._name = name
        self._by_name[name] = operand

    def remove_operand(self, operand: Operand) -> None:
        """Remove an operand that nothing consumes.

        Raises
        ------
        GraphError
            When an operator still takes it.
        """
        if operand.consumers:
            raise GraphError([f"operand {operand.name} is still an input of {operand.consumers[0].name}"])
        if operand.producer is not None:
            operand.producer.outputs.remove(operand)
            operand.producer = None
        del self._operands[operand]
        del self._by_name[operand.name]

    def free_name(self, name: str) -> str:
        """Return a name that no operand has: the given one, with a number behind it if it is taken."""
        free = name
        while free in self._by_name:
            # Counted on from the last time: names of operands come from operators, of which many may share one.
            self._numbers[name] = self._numbers.get(name, 0) + 1
            free = f"{name}_{self._numbers[name]}"
        return free

    def replace_uses(self, old: Operand, new: Operand) -> None:
        """Make every consumer of one operand take another instead."""
        if old is new:
            return
        for op in dict.fromkeys(old.consumers):
            op.inputs = [new if x is old else x for x in op.inputs]
        new.consumers += old.consumers
        old.was_read |= bool(old.consumers)
        old.consumers = []

    # Operators

    def new_operator(
        self,
        type: str,
        name: str,
        *,
        inputs: Iterable[Operand] = (),
        outputs: Iterable[Operand] = (),
        inputnames: Iterable[str] = (),
        params: Mapping[str, object] | None = None,
        attrs: Mapping[str, object] | None = None,
        index: int | None = None,
    ) -> Operator:
        """Add an operator at the end, or at ``index`` in ``ops``, wire it to operands and return it.

        Parameters
        ----------
        type, name : str
        inputs, outputs : iterable of Operand
        inputnames : iterable of str
            A name for each input slot, or none at all.
        params, attrs : mapping of str to value or array_like, optional
        index : int, optional
        """
        op = Operator(type, name, params or (), attrs or ())
        for operand in inputs:
            op.add_input(operand)
        for operand in outputs:
            op.add_output(operand)
        op.inputnames = list(inputnames)
        self.ops.insert(len(self.ops) if index is None else index, op)
        return op

    def new_operator_before(self, type: str, name: str, cur: Operator, **wiring: Any) -> Operator:
        """Add an operator before another one; keywords as in :meth:`new_operator`."""
        return self.new_operator(type, name, index=self.place_of(cur), **wiring)

    def new_operator_after(self, type: str, name: str, cur: Operator, **wiring: Any) -> Operator:
        """Add an operator after another one; keywords as in :meth:`new_operator`."""
        return self.new_operator(type, name, index=self.place_of(cur) + 1, **wiring)

    def place_of(self, op: Operator) -> int:
        """Index of an operator in ``ops``. Found at once where it stands near the one that was asked for last.

        Raises
        ------
        ValueError
            When it is none of them.
        """
        try:
            self._near = self.ops.index(op, max(self._near - NEAR, 0), self._near + NEAR)
        except ValueError:
            self._near = self.ops.index(op)
        return self._near

    def remove_operator(self, op: Operator) -> None:
        """Remove an operator with its outputs.

        Raises
        ------
        GraphError
            When an output is still consumed.
        """
        self.remove_operators([op])

    def remove_operators(self, ops: Sequence[Operator]) -> None:
        """Remove several operators at once, which may feed each other, with their outputs.

        Raises
        ------
        GraphError
            When an output is an input of an operator that stays.
        """
        gone = set(ops)
        for op in ops:
            for operand in op.outputs:
                user = next((c for c in operand.consumers if c not in gone), None)
                if user is not None:
                    raise GraphError([f"output {operand.name} of {op.name} is still an input of {user.name}"])
        if len(gone) == 1:
            del self.ops[self.place_of(ops[0])]
            for operand in ops[0].inputs:
                operand.remove_consumer(ops[0])
        else:
            self.ops[:] = [op for op in self.ops if op not in gone]
            for operand in {operand for op in gone for operand in op.inputs}:
                operand.remove_consumers(gone)
        for op in ops:
            op.inputs = []
        for op in ops:
            for operand in list(op.outputs):
                self.remove_operand(operand)

    def topological(self) -> Iterator[Operator]:
        """Yield the operators so that producers come first.

        Raises
        ------
        CycleError
            Naming the operators on the cycle.
        """
        return topological(self.ops)

    # Whole graph

    def copy(self) -> Graph:
        """Return an independent graph whose operators share their attributes' data with this one."""
        with collector_paused():
            return self._twin()

    def _twin(self) -> Graph:
        other = Graph()
        other.store_layout = self.store_layout
        other.unused_operands = self.unused_operands
        made: dict[Operand, Operand] = {}
        for operand in self._operands:
            twin = made[operand] = other.new_operand(operand.name)
            twin.dtype, twin.shape, twin.was_read = operand.dtype, operand.shape, operand.was_read
            twin._params = dict(operand._params) if operand._params else None
        operators: dict[Operator, Operator] = {}
        for op in self.ops:
            twin_op = operators[op] = Operator.__new__(Operator)
            twin_op.type, twin_op.name = op.type, op.name
            twin_op.params, twin_op.attrs = op.params.copy(), Attributes(op.attrs)
            twin_op.inputnames = list(op.inputnames)
            twin_op.inputs = [made[x] for x in op.inputs]
            twin_op.outputs = [made[x] for x in op.outputs]
            other.ops.append(twin_op)
        for operand, twin in made.items():
            twin.producer = None if operand.producer is None else operators[operand.producer]
            twin.consumers = [operators[x] for x in operand.consumers]
        return other

    def become(self, other: Graph) -> None:
        """Take over the content of another graph. The other graph must not be used afterwards."""
        for name in Graph.__slots__:
            setattr(self, name, getattr(other, name))

    __copy__ = copy

    def __deepcopy__(self, memo: dict[int, Any]) -> Graph:
        other = self.copy()
        for op in other.ops:
            op.attrs = Attributes({key: attr.copy() for key, attr in op.attrs.items()})
        return other

    def __reduce__(self) -> tuple[Any, ...]:
        from pnnx_fast.ir import pickling

        return _restore, (pickling.to_rows(self.ops, self._operands), self.store_layout, self.unused_operands)

    def validate(self) -> None:
        """Check the wiring, that weights fit the parameters of their modules, and that files can hold names and values.

        Raises
        ------
        GraphError
            Listing every problem found.
        CycleError
        """
        from pnnx_fast.ir import check

        problems = check.problems(self.ops, self._by_name) or codec.get().problems(self)
        if problems:
            raise GraphError(problems)

    def statistics(self) -> Statistics:
        """Count floating-point and memory operations at the recorded shapes, as PNNX's converter does.

        Examples
        --------
        >>> print(Graph.load(pnnx_fast.demo.model_path()).statistics())
        model inputshape = [1,1,8,8]f32
        FLOPS = 983.356K
        memory OPS = 71.944K
        """
        # Few callers want it, and the rules take time to import.
        from pnnx_fast.ir.statistics import measure

        return measure(self.ops)

    def canonicalize(self) -> None:
        """Rename all operands to 0, 1, 2, … in the order in which operators produce them."""
        produced = dict.fromkeys(x for op in self.ops for x in op.outputs)
        operands = [*produced, *(x for x in self._operands if x not in produced)]
        for i, operand in enumerate(operands):
            operand._name = str(i)
        self._operands = dict.fromkeys(operands)
        self._by_name = {x.name: x for x in operands}

    def dead_code_elimination(self) -> int:
        """Remove operators whose outputs nothing needs, and operands without producer and consumer.

        Inputs and outputs of the graph stay, so that the call signature stays.

        Returns
        -------
        int
            Number of operators removed.
        """
        uses = {x: len(x.consumers) for op in self.ops for x in op.outputs}
        dead: dict[Operator, None] = {}
        pending = [op for op in self.ops if not any(uses[x] for x in op.outputs)]
        while pending:
            op = pending.pop()
            if op in dead or op.is_end:
                continue
            dead[op] = None
            for operand in op.inputs:
                uses[operand] = uses.get(operand, 0) - 1
            producers = dict.fromkeys(x.producer for x in op.inputs if x.producer is not None)
            pending += [p for p in producers if not any(uses[x] for x in p.outputs)]
        self.remove_operators(list(dead))
        for operand in [x for x in self._operands if x.producer is None and not x.consumers]:
            self.remove_operand(operand)
        return len(dead)

    def __str__(self) -> str:
        return "\n".join([repr(self), *map(str, self.ops)])

    def __repr__(self) -> str:
        return (
            f"<Graph: {len(self.ops)} operators, {len(self._operands)} operands, "
            f"{len(self.inputs)} inputs, {len(self.outputs)} outputs>"
        )

    def _repr_html_(self) -> str:
        from pnnx_fast.ir.notebook import graph_html

        return graph_html(self)


def _restore(rows: Rows, store_layout: Literal["zip64", "zip32"], unused_operands: int) -> Graph:
    from pnnx_fast.ir import pickling

    graph = Graph.from_parts(*pickling.from_rows(rows))
    graph.store_layout, graph.unused_operands = store_layout, unused_operands
    return graph
