"""Operands: the values that flow between operators, each with one producer and a list of consumers.

Graphs make and rename operands; operators link to them. An operand knows nothing of the graph around it.
"""

from __future__ import annotations

from collections.abc import Set
from typing import TYPE_CHECKING

from pnnx_fast._types import Shape

if TYPE_CHECKING:
    from pnnx_fast.ir.operator import Operator

__all__ = ["Operand"]


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
        Whether an operator took it that no longer does.
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

        Raises
        ------
        ValueError
            When the operator is not among them.
        """
        self.consumers.remove(operator)
        self.was_read = True

    def remove_consumers(self, operators: Set[Operator]) -> None:
        """Remove all entries of several operators from the consumers."""
        self.consumers[:] = [op for op in self.consumers if op not in operators]
        self.was_read = True

    def __repr__(self) -> str:
        return f"Operand({self._name}{self.signature})"
