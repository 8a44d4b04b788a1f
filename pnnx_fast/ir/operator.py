"""Operators, the nodes of a graph, with parameters and attributes, and operands, the values that flow between them.

Graphs make, rename and order them; the wiring of inputs and outputs, which touches an operator and its operands only,
lives here, and so does the order of dependency. Nothing here knows the graph around it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from typing import Any

from pnnx_fast._types import Shape
from pnnx_fast.errors import CycleError
from pnnx_fast.ir.attribute import Attributes
from pnnx_fast.ir.parameter import Parameters

__all__ = ["Operand", "Operator", "topological"]


class Operand:
    """A value between operators. Made by :meth:`Graph.new_operand`, renamed by :meth:`Graph.rename_operand`.

    Attributes
    ----------
    dtype : str or None
        PNNX name such as ``"f32"``, ``None`` when unknown.
    shape : tuple of int or None
        -1 for a size that varies, -233 for one that a pattern captures; ``None`` when unknown.
    producer : Operator or None
    consumers : list of Operator
        In order, an operator once for every input slot that this operand feeds.
    was_read : bool
        Whether an operator that has been removed or rewired consumed it.

    Examples
    --------
    >>> import pnnx_fast
    >>> from pnnx_fast.demo import model_path
    >>> x = pnnx_fast.Graph.load(model_path()).operand("2")
    >>> x.shape, x.dtype, x.producer.name
    ((1, 32, 8, 8), 'f32', 'stem.2')
    >>> [op.name for op in x.consumers]
    ['convbn2d_1', 'pnnx_expr_4']
    """

    __slots__ = ("_name", "_params", "consumers", "dtype", "producer", "shape", "was_read")

    _name: str
    _params: dict[str, str] | None
    dtype: str | None
    shape: Shape | None
    producer: Operator | None
    consumers: list[Operator]
    was_read: bool

    def __init__(self, name: str) -> None:
        self._name = name
        self._params = None
        self.dtype = self.shape = self.producer = None
        self.consumers = []
        self.was_read = False

    @property
    def name(self) -> str:
        """Name, unique in a graph."""
        return self._name

    @property
    def params(self) -> dict[str, str]:
        """Names of captured dimensions in patterns, by ``__shape__<axis>``."""
        if self._params is None:
            self._params = {}
        return self._params

    @property
    def signature(self) -> str:
        """Shape and dtype like ``:(1,?,8)f32``, empty when unknown; for people."""
        if self.shape is None:
            return ""
        dims = ",".join("?" if d == -1 else str(d) for d in self.shape)
        return f":({dims}){self.dtype or ''}"

    def remove_consumer(self, operator: Operator) -> None:
        """Remove the first entry of an operator from the consumers.

        Parameters
        ----------
        operator : Operator

        Raises
        ------
        ValueError
            When the operator is not among them.
        """
        self.consumers.remove(operator)
        self.was_read = True

    def remove_consumers(self, operators: Set[Operator]) -> None:
        """Remove all entries of several operators from the consumers.

        Parameters
        ----------
        operators : set of Operator
        """
        self.consumers[:] = [op for op in self.consumers if op not in operators]
        self.was_read = True

    def __repr__(self) -> str:
        return f"Operand({self._name}{self.signature})"


class Operator:
    """A node of a graph. Made by :meth:`Graph.new_operator`.

    Parameters
    ----------
    type, name : str
    params : mapping or pairs of str to value
        Plain values become parameters.
    attrs : mapping or pairs of str to array_like
        Arrays become attributes.

    Attributes
    ----------
    type, name : str
        PNNX's type such as ``"nn.Conv2d"``, and a name. Several operators may share a name.
    inputs, outputs : list of Operand
    inputnames : list of str
        Names of the input slots, as many as inputs, ``""`` where a slot has none; or empty.
    params : Parameters
        Mapping of str to Parameter.
    attrs : Attributes
        Mapping of str to Attribute; an array that is assigned becomes one, like the plain values of parameters.

    Examples
    --------
    >>> import pnnx_fast
    >>> from pnnx_fast.demo import model_path
    >>> conv = pnnx_fast.Graph.load(model_path()).operator("convbn2d_0")
    >>> conv, conv.value("kernel_size"), conv.attrs["weight"]
    (Operator(nn.Conv2d convbn2d_0: 0 -> 1), [3, 3], Attribute((32,1,3,3)f32))
    >>> conv.params["padding_mode"] = "reflect"
    >>> conv.params["padding_mode"]
    Parameter('reflect')
    """

    __slots__ = ("attrs", "inputnames", "inputs", "name", "outputs", "params", "type")

    type: str
    name: str
    inputs: list[Operand]
    outputs: list[Operand]
    inputnames: list[str]
    params: Parameters
    attrs: Attributes

    def __init__(
        self,
        type: str,
        name: str,
        params: Mapping[str, object] | Iterable[tuple[str, object]] = (),
        attrs: Mapping[str, object] | Iterable[tuple[str, object]] = (),
    ) -> None:
        self.type, self.name = type, name
        self.inputs, self.outputs, self.inputnames = [], [], []
        self.params = Parameters(params)
        self.attrs = Attributes(attrs)

    @property
    def is_end(self) -> bool:
        """Whether it stands for inputs or outputs of the graph and computes nothing."""
        return self.type in ("pnnx.Input", "pnnx.Output")

    @property
    def where(self) -> str:
        """Type and name, as errors show them."""
        return f"{self.type} {self.name}"

    def has_param(self, key: str) -> bool:
        """Whether there is a parameter with that key."""
        return key in self.params

    def value(self, key: str, default: Any = None) -> Any:
        """Value of a parameter, or a default where there is none.

        Parameters
        ----------
        key : str
        default : object

        Returns
        -------
        None, bool, int, float, complex, str or list of these

        Examples
        --------
        >>> import pnnx_fast
        >>> from pnnx_fast.demo import model_path
        >>> softmax = pnnx_fast.Graph.load(model_path()).ops[-2]
        >>> softmax.value("dim"), softmax.value("dtype")
        (1, None)
        """
        parameter = self.params.get(key)
        return default if parameter is None else parameter.value

    def values(self) -> dict[str, Any]:
        """Values of all parameters by key."""
        return {key: parameter.value for key, parameter in self.params.items()}

    def has_attr(self, key: str) -> bool:
        """Whether there is an attribute with that key."""
        return key in self.attrs

    def has_input(self, name: str) -> bool:
        """Whether there is an input slot with that name."""
        return name in self.inputnames

    def named_input(self, name: str) -> Operand | None:
        """Operand in the input slot of that name, or ``None``."""
        return self.inputs[self.inputnames.index(name)] if name in self.inputnames else None

    def add_input(self, operand: Operand, name: str = "") -> None:
        """Append an input slot and fill it.

        Parameters
        ----------
        operand : Operand
        name : str
            Name of the slot, ``""`` for none.
        """
        if name and not self.inputnames:
            self.inputnames = [""] * len(self.inputs)
        if name or self.inputnames:
            self.inputnames.append(name)
        self.inputs.append(operand)
        operand.consumers.append(self)

    def set_input(self, index: int, operand: Operand) -> None:
        """Put another operand into an input slot.

        Parameters
        ----------
        index : int
            Place in ``inputs``.
        operand : Operand

        Raises
        ------
        IndexError
            When there is no such slot.
        """
        self.inputs[index].remove_consumer(self)
        self.inputs[index] = operand
        operand.consumers.append(self)

    def set_inputs(self, operands: Iterable[Operand], names: Iterable[str] = ()) -> None:
        """Replace all input slots by others, with a name each or none.

        Parameters
        ----------
        operands : iterable of Operand
        names : iterable of str
            As many as operands, or none at all.

        Examples
        --------
        >>> import pnnx_fast
        >>> from pnnx_fast.demo import model_path
        >>> softmax = pnnx_fast.Graph.load(model_path()).ops[-2]
        >>> softmax.set_inputs(softmax.inputs, ["input"])
        >>> [(name, x.name) for name, x in softmax.slots()]
        [('input', '17')]
        """
        for operand in self.inputs:
            operand.remove_consumer(self)
        self.inputs, self.inputnames = list(operands), list(names)
        for operand in self.inputs:
            operand.consumers.append(self)

    def remove_input(self, index: int) -> None:
        """Remove an input slot.

        Parameters
        ----------
        index : int
            Place in ``inputs``.

        Raises
        ------
        IndexError
            When there is no such slot.
        """
        operand = self.inputs.pop(index)
        if self.inputnames:
            del self.inputnames[index]
        operand.remove_consumer(self)

    def repeats_weight(self, index: int) -> bool:
        """Whether an input is a constant that equals a weight of this operator.

        The converter puts the weights of a module that a model uses at several places in front of its real input.

        Parameters
        ----------
        index : int
            Place in ``inputs``.

        Returns
        -------
        bool
        """
        producer = self.inputs[index].producer
        if producer is None or producer.type != "pnnx.Attribute" or len(producer.attrs) != 1:
            return False
        (value,) = producer.attrs.values()
        return any(
            own.dtype == value.dtype and own.shape == value.shape and memoryview(own.data) == memoryview(value.data)
            for own in self.attrs.values()
        )

    def add_output(self, operand: Operand) -> None:
        """Append an output; the operand's former producer, if any, loses it.

        Parameters
        ----------
        operand : Operand
        """
        if operand.producer is not None:
            operand.producer.outputs.remove(operand)
        operand.producer = self
        self.outputs.append(operand)

    def __str__(self) -> str:
        words = [f"{self.type:<24} {self.name:<24}"]
        words += [f"{name}={x.name}" if name else x.name for name, x in self.slots()]
        words += ["->", *(f"{x.name}{x.signature}" for x in self.outputs)]
        words += [f"{key}={param.text}" for key, param in self.params.items()]
        words += [f"@{key}={attr.signature}" for key, attr in self.attrs.items()]
        return " ".join(words)

    def slots(self) -> Iterator[tuple[str, Operand]]:
        """Name and operand of every input slot; the name is ``""`` where there is none."""
        names = self.inputnames if len(self.inputnames) == len(self.inputs) else [""] * len(self.inputs)
        return zip(names, self.inputs, strict=True)

    def __repr__(self) -> str:
        inputs, outputs = (", ".join(x.name for x in side) for side in (self.inputs, self.outputs))
        return f"Operator({self.type} {self.name}: {inputs} -> {outputs})"


def topological(ops: Sequence[Operator]) -> Iterator[Operator]:
    """Yield operators so that producers come first; those already in such an order keep it.

    Parameters
    ----------
    ops : sequence of Operator

    Yields
    ------
    Operator

    Raises
    ------
    CycleError
        Naming the operators on the cycle.

    Examples
    --------
    >>> import pnnx_fast
    >>> from pnnx_fast.demo import model_path
    >>> ops = pnnx_fast.Graph.load(model_path()).ops
    >>> [op.name for op in topological(ops[2::-1])]
    ['pnnx_input_0', 'convbn2d_0', 'stem.2']
    """
    done: set[Operator] = set()
    open_: dict[Operator, None] = {}
    for start in ops:
        if start in done:
            continue
        for operand in start.inputs:
            if operand.producer is not None and operand.producer not in done:
                break
        else:
            done.add(start)
            yield start
            continue
        stack = [(start, iter(start.inputs))]
        open_[start] = None
        while stack:
            op, pending = stack[-1]
            for operand in pending:
                producer = operand.producer
                if producer is None or producer in done:
                    continue
                if producer in open_:
                    path = list(open_)
                    # The walk goes upstream; the message follows the data.
                    raise CycleError([x.name for x in reversed(path[path.index(producer) :])])
                open_[producer] = None
                stack.append((producer, iter(producer.inputs)))
                break
            else:
                stack.pop()
                del open_[op]
                done.add(op)
                yield op
