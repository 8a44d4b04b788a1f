"""The text half of a PNNX model: ``.pnnx.param`` text to a graph and back.

Used by ``formats.pnnx_model``, which adds the weights. Trusts nothing in a file, which may ask for so much before it
counts as broken or hostile; every error names the place.
"""

from __future__ import annotations

from pnnx_fast._collector import collector_paused
from pnnx_fast._core import text as _text
from pnnx_fast.ir import Attribute, Attributes, Graph, Operand, Operator, Parameter, Parameters
from pnnx_fast.ir.dtypes import by_text
from pnnx_fast.ir.parameter import RAW_KEYS

__all__ = ["DEFAULT_LIMITS", "Limits", "WeightPlace", "problems", "read", "write"]

_CLASSES = (Operator, Operand, Parameter, Parameters, Attribute, Attributes)
_MOST_DECLARED = 10**9
"""Counts of operands from which on a header is not believed."""
_SIZES = {row.text: row.size for row in by_text.values()}


class Limits:
    """Limits on what a model file may declare.

    Parameters
    ----------
    tensor_bytes : int
        Size of one tensor, weight or activation.
    operators : int
        Operators of a graph.
    """

    __slots__ = ("operators", "tensor_bytes")

    def __init__(self, tensor_bytes: int = (1 << 40) - 1, operators: int = 10_000_000) -> None:
        self.tensor_bytes, self.operators = tensor_bytes, operators


DEFAULT_LIMITS = Limits()


class WeightPlace:
    """Where in the text an attribute stands, for errors about its weights."""

    __slots__ = ("column", "key", "line", "operator")

    def __init__(self, operator: Operator, key: str, line: int, column: int) -> None:
        self.operator, self.key, self.line, self.column = operator, key, line, column


def read(
    data: bytes, path: str | None = None, *, pattern: bool = False, limits: Limits = DEFAULT_LIMITS
) -> tuple[Graph, list[WeightPlace]]:
    """Make a graph from the text of a ``.param`` file; attributes are left without data.

    Parameters
    ----------
    data : bytes
    path : str, optional
        The file, for errors.
    pattern : bool
        Accept what only patterns for graph rewriting have.
    """
    with collector_paused():
        ops, operands, weights, declared = _text.read_operators(
            data, path, pattern, limits.operators, limits.tensor_bytes, _CLASSES, _SIZES, RAW_KEYS
        )
    graph = Graph.from_parts(ops, operands)
    graph.unused_operands = max(declared - len(operands), 0) if declared < _MOST_DECLARED else 0
    return graph, [WeightPlace(*place) for place in weights]


def write(graph: Graph, ops: list[Operator] | None = None) -> bytes:
    """Return the text of a graph, whose operators may be given in another order than that of the graph.

    Raises
    ------
    GraphError
        When a name or a parameter holds a blank or something else that the format cannot express, or an
        operator comes before the producer of its input.
    """
    count = graph.operand_count + graph.unused_operands
    return _text.write_operators(graph.ops if ops is None else ops, count, _SIZES, RAW_KEYS)


def problems(ops: list[Operator]) -> list[str]:
    """Return what keeps operators from being written: one sentence for each that the format cannot express."""
    return _text.unwritable(ops, _SIZES, RAW_KEYS)
