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
        What it does, in one sentence.
    apply : callable
        Changes a graph in place and returns how many changes it made.
    rules : tuple of Rule
        What it consists of, when it is made of patterns.
    asked : bool
        Whether it runs only when asked for by name.

    Examples
    --------
    >>> from pnnx_fast.simplify import PASSES
    >>> row = PASSES["fuse_silu"]
    >>> row.level, row.summary
    (5, 'x sigmoid(x) becomes F.silu.')
    >>> row.rules[0]
    <Rule: F.sigmoid, pnnx.Expression -> F.silu>
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
    """Add a function as the pass of its name; the first line of its documentation is the summary.

    Parameters
    ----------
    level : int
        PNNX's level: 3 or 5.
    asked : bool
        Whether it runs only when asked for by name.

    Returns
    -------
    callable
        A decorator of functions that change a graph and return how many changes they made.

    Examples
    --------
    >>> @simplification(5, asked=True)
    ... def drop_nothing(graph):
    ...     '''Nothing goes.'''
    ...     return 0
    >>> PASSES.pop("drop_nothing").summary
    'Nothing goes.'
    """

    def add(function: Callable[[Graph], int]) -> Callable[[Graph], int]:
        summary = (function.__doc__ or "").partition("\n")[0]
        PASSES[function.__name__] = Pass(function.__name__, level, summary, function, asked=asked)
        return function

    return add


def rules(name: str, level: int, summary: str, given: Iterable[Rule]) -> None:
    """Add rules as a pass.

    Parameters
    ----------
    name : str
    level : int
        PNNX's level: 3 or 5.
    summary : str
        What it does, in one sentence.
    given : iterable of Rule

    Examples
    --------
    >>> rules("relu", 5, "nn.ReLU becomes F.relu.", [Rule(pattern("nn.ReLU act 1 1 x y"), type="F.relu")])
    >>> PASSES.pop("relu").rules
    (<Rule: nn.ReLU -> F.relu>,)
    """
    made = tuple(given)
    PASSES[name] = Pass(name, level, summary, lambda graph: rewrite(graph, made), made)


def pattern(*lines: str, inputs: str = "x", outputs: str = "y") -> str:
    """Text of a pattern with these operators, inputs and outputs.

    Parameters
    ----------
    *lines : str
        Lines of operators as in a ``.param`` file.
    inputs, outputs : str
        Names of operands, with blanks between.

    Returns
    -------
    str

    Examples
    --------
    >>> print(pattern("F.relu act 1 1 x y"), end="")
    7767517
    3 0
    pnnx.Input in_x 0 1 x
    F.relu act 1 1 x y
    pnnx.Output out_y 1 0 y
    """
    rows = [f"pnnx.Input in_{x} 0 1 {x}" for x in inputs.split()] + list(lines)
    rows += [f"pnnx.Output out_{x} 1 0 {x}" for x in outputs.split()]
    return "\n".join(["7767517", f"{len(rows)} 0", *rows, ""])


def both_orders(function: str, name: str, a: str, b: str, y: str) -> list[str]:
    """Lines of a commutative expression of two operands, in the four ways in which it may be written.

    Parameters
    ----------
    function : str
        Such as ``"add"``.
    name : str
        Of the operator.
    a, b, y : str
        Operands and result.

    Returns
    -------
    list of str

    Examples
    --------
    >>> both_orders("add", "sum", "a", "b", "y")[1]
    'pnnx.Expression sum 2 1 a b y expr=add(@1,@0)'
    """
    return [
        f"pnnx.Expression {name} 2 1 {p} {q} {y} expr={function}({i},{j})"
        for p, q in ((a, b), (b, a))
        for i, j in (("@0", "@1"), ("@1", "@0"))
    ]
