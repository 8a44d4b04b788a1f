"""The table of named simplifications, and how its rows are made: from a function, or from rules of the rewriter.

Every module of this package adds rows; nothing here knows an operator type.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from pnnx_fast.ir import Graph
from pnnx_fast.ir.match import Rule, rewrite

__all__ = ["PASSES", "Pass", "both_orders", "pattern", "rules", "simplification"]


@dataclass(frozen=True)
class Pass:
    """One named simplification.

    Attributes
    ----------
    name : str
        PNNX's name for it.
    level : int
        PNNX's level: 3 or 5.
    summary : str
    apply : callable
        Changes a graph in place and returns how many changes it made.
    rules : tuple of Rule
        What it consists of, when it is made of patterns.
    asked : bool
        Whether it runs only when asked for by name.
    """

    name: str
    level: int
    summary: str
    apply: Callable[[Graph], int]
    rules: tuple[Rule, ...] = ()
    asked: bool = False


PASSES: dict[str, Pass] = {}
"""All passes by name, in the order in which they run."""


def simplification(level: int, *, asked: bool = False) -> Callable[[Callable[[Graph], int]], Callable[[Graph], int]]:
    """Add a function as the pass of its name; the first line of its documentation is the summary."""

    def add(function: Callable[[Graph], int]) -> Callable[[Graph], int]:
        summary = (function.__doc__ or "").partition("\n")[0]
        PASSES[function.__name__] = Pass(function.__name__, level, summary, function, asked=asked)
        return function

    return add


def rules(name: str, level: int, summary: str, given: Iterable[Rule]) -> None:
    """Add rules as a pass."""
    made = tuple(given)
    PASSES[name] = Pass(name, level, summary, lambda graph: rewrite(graph, made), made)


def pattern(*lines: str, inputs: str = "x", outputs: str = "y") -> str:
    """Text of a pattern with these operators, inputs and outputs."""
    rows = [f"pnnx.Input in_{x} 0 1 {x}" for x in inputs.split()] + list(lines)
    rows += [f"pnnx.Output out_{x} 1 0 {x}" for x in outputs.split()]
    return "\n".join(["7767517", f"{len(rows)} 0", *rows, ""])


def both_orders(function: str, name: str, a: str, b: str, y: str) -> list[str]:
    """Lines of a commutative expression of two operands, in the four ways in which it may be written."""
    return [
        f"pnnx.Expression {name} 2 1 {p} {q} {y} expr={function}({i},{j})"
        for p, q in ((a, b), (b, a))
        for i, j in (("@0", "@1"), ("@1", "@0"))
    ]
