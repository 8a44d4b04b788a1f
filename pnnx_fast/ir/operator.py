"""Operators: the nodes of a graph, with their operands, parameters and attributes.

Graphs order operators; the wiring of inputs and outputs, which touches an operator and its operands only,
lives here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from pnnx_fast.ir.attribute import Attribute
from pnnx_fast.ir.operand import Operand
from pnnx_fast.ir.parameter import Parameters

__all__ = ["Operator"]


class Operator:
    """A node of a graph. Made by :meth:`Graph.new_operator`.

    Attributes
    ----------
    type, name : str
    inputs, outputs : list of Operand
    inputnames : list of str
        Names of the input slots, as many as inputs, ``""`` where a slot has none; or empty.
    params : Parameters
        Mapping of str to Parameter.
    attrs : dict of str to Attribute
    """

    __slots__ = ("attrs", "inputnames", "inputs", "name", "outputs", "params", "type")

    type: str
    name: str
    inputs: list[Operand]
    outputs: list[Operand]
    inputnames: list[str]
    params: Parameters
    attrs: dict[str, Attribute]

    def __init__(
        self,
        type: str,
        name: str,
        params: Mapping[str, object] | Iterable[tuple[str, object]] = (),
        attrs: Mapping[str, Attribute] | Iterable[tuple[str, Attribute]] = (),
    ) -> None:
        self.type, self.name = type, name
        self.inputs, self.outputs, self.inputnames = [], [], []
        self.params = Parameters(params)
        self.attrs = dict(attrs)

    @property
    def where(self) -> str:
        """Type and name, by which errors tell the place."""
        return f"{self.type} {self.name}"

    def has_param(self, key: str) -> bool:
        """Whether there is a parameter of that key."""
        return key in self.params

    def has_attr(self, key: str) -> bool:
        """Whether there is an attribute of that key."""
        return key in self.attrs

    def has_input(self, name: str) -> bool:
        """Whether there is an input slot of that name."""
        return name in self.inputnames

    def named_input(self, name: str) -> Operand | None:
        """Operand in the input slot of that name, or ``None``."""
        return self.inputs[self.inputnames.index(name)] if name in self.inputnames else None

    def add_input(self, operand: Operand, name: str = "") -> None:
        """Append an input slot and fill it."""
        if name and not self.inputnames:
            self.inputnames = [""] * len(self.inputs)
        if name or self.inputnames:
            self.inputnames.append(name)
        self.inputs.append(operand)
        operand.consumers.append(self)

    def set_input(self, index: int, operand: Operand) -> None:
        """Put another operand into an input slot."""
        self.inputs[index].remove_consumer(self)
        self.inputs[index] = operand
        operand.consumers.append(self)

    def remove_input(self, index: int) -> None:
        """Remove an input slot."""
        operand = self.inputs.pop(index)
        if self.inputnames:
            del self.inputnames[index]
        operand.remove_consumer(self)

    def repeats_weight(self, index: int) -> bool:
        """Whether an input is a constant that equals a weight of this operator.

        The converter puts the weights of a module that a model uses at several places in front of its real input.
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
        """Append an output; the operand's former producer, if any, loses it."""
        if operand.producer is not None:
            operand.producer.outputs.remove(operand)
        operand.producer = self
        self.outputs.append(operand)

    def __str__(self) -> str:
        words = [f"{self.type:<24} {self.name:<24}"]
        words += [f"{name}={x.name}" if name else x.name for name, x in self._slots()]
        words += ["->", *(f"{x.name}{x.signature}" for x in self.outputs)]
        words += [f"{key}={param.text}" for key, param in self.params.items()]
        words += [f"@{key}={attr.signature}" for key, attr in self.attrs.items()]
        return " ".join(words)

    def _slots(self) -> Iterator[tuple[str, Operand]]:
        names = self.inputnames if len(self.inputnames) == len(self.inputs) else [""] * len(self.inputs)
        return zip(names, self.inputs, strict=True)

    def __repr__(self) -> str:
        inputs, outputs = (", ".join(x.name for x in side) for side in (self.inputs, self.outputs))
        return f"Operator({self.type} {self.name}: {inputs} -> {outputs})"
