"""Statistics of a graph: floating-point operations, memory operations, weights, per operator and in total.

Behind :meth:`Graph.statistics`. The counting is in ``ir.cost_rules``; here it is summed up and printed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pnnx_fast.ir import cost_rules as cost_rules  # registers the rules
from pnnx_fast.ir.cost import cost_of, size_of
from pnnx_fast.ir.operator import Operator

__all__ = ["OperatorCost", "Statistics", "format_count", "measure"]


def format_count(count: int) -> str:
    """Return a count with a unit and at most three decimals, as PNNX prints it.

    Examples
    --------
    >>> format_count(999), format_count(1500), format_count(4089284608)
    ('999', '1.5K', '4.089G')
    """
    units = ("", "K", "M", "G", "T", "P")
    level = min(max((len(str(count)) - 1) // 3, 0), len(units) - 1)
    if level == 0:
        return str(count)
    scale = 1000**level
    # In integers, rounding half up.
    thousandths = (count * 1000 + scale // 2) // scale
    whole, rest = divmod(thousandths, 1000)
    decimals = f".{rest:03}".rstrip("0").rstrip(".")
    return f"{whole}{decimals}{units[level]}"


@dataclass(frozen=True)
class OperatorCost:
    """Cost of one operator: operations, elements read and written, elements of its attributes."""

    name: str
    type: str
    flops: int
    memory_operations: int
    weights: int


@dataclass(frozen=True, repr=False)
class Statistics:
    """Cost of a graph at the shapes that it records.

    Attributes
    ----------
    input_shapes : str
        Shapes and dtypes of the inputs, such as ``[1,3,224,224]f32``.
    operators : tuple of OperatorCost
        In the order of the graph, without inputs, outputs and constants.
    weights : int
        Elements of all attributes.
    """

    input_shapes: str
    operators: tuple[OperatorCost, ...]
    weights: int

    @property
    def flops(self) -> int:
        """Floating-point operations; a multiplication with an addition counts as two."""
        return sum(row.flops for row in self.operators)

    @property
    def memory_operations(self) -> int:
        """Elements read and written."""
        return sum(row.memory_operations for row in self.operators)

    def by_type(self) -> dict[str, tuple[int, int, int]]:
        """Operators, floating-point operations and memory operations of each operator type, the costliest first."""
        found: dict[str, tuple[int, int, int]] = {}
        for row in self.operators:
            count, flops, moved = found.get(row.type, (0, 0, 0))
            found[row.type] = count + 1, flops + row.flops, moved + row.memory_operations
        return dict(sorted(found.items(), key=lambda item: (-item[1][1], -item[1][2])))

    def table(self) -> str:
        """Return the costs by operator type as lines of text."""
        lines = [f"{'type':<32}{'count':>7}{'FLOPS':>12}{'memory OPS':>12}"]
        for kind, (count, flops, moved) in self.by_type().items():
            lines.append(f"{kind:<32}{count:>7}{format_count(flops):>12}{format_count(moved):>12}")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"<Statistics: {format_count(self.flops)} FLOPS, {format_count(self.memory_operations)} memory OPS>"

    def __str__(self) -> str:
        return (
            f"model inputshape = {self.input_shapes}\n"
            f"FLOPS = {format_count(self.flops)}\n"
            f"memory OPS = {format_count(self.memory_operations)}"
        )


def measure(ops: Sequence[Operator]) -> Statistics:
    """Count the cost of operators."""
    shapes = [x for op in ops if op.type == "pnnx.Input" for x in op.outputs]
    texts = []
    for x in shapes:
        dims = ",".join("?" if d == -1 else str(d) for d in x.shape or ())
        texts.append(f"[{dims}]{x.dtype or 'null'}")
    rows, total = [], 0
    for op in ops:
        weights = sum(size_of(a.shape) for a in op.attrs.values() if a.dtype is not None)
        total += weights
        if not op.is_end and op.type != "pnnx.Attribute":
            rows.append(OperatorCost(op.name, op.type, *cost_of(op), weights))
    return Statistics(",".join(texts), tuple(rows), total)
