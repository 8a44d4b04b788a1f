"""Whose memory an operand lies in, while a graph is read in the order of its operators: a tensor and views of it.

PyTorch's views share the memory of their tensor, so that a write into one of them changes all. A graph has values only;
what :mod:`pnnx_fast.passes.restore_writes` makes of writes stands on what is told here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from pnnx_fast.ir import Operand, Operator
from pnnx_fast.ir.levels import bare, spellings

__all__ = [
    "CUTS",
    "MOVES",
    "RESHAPING",
    "TRANSPOSES",
    "VIEWS",
    "Home",
    "home_behind",
    "strides_behind",
]


RESHAPING = spellings("reshape", "view", "view_as", "reshape_as", "flatten", "unflatten", "squeeze", "unsqueeze") | {
    "nn.Flatten"
}
TRANSPOSES = spellings("transpose", "permute", "t")
CUTS = spellings("slice", "select")

_LISTS = spellings("chunk", "split", "split_with_sizes", "tensor_split", "unbind") | {"prim::ListUnpack"}
MOVES = TRANSPOSES | spellings("movedim", "swapaxes", "swapdims", "numpy_T", "mT", "expand", "expand_as")
"""Views behind which models ask for a contiguous copy."""

_OTHERS = spellings("narrow", "unfold", "diagonal", "detach")
_KEEPING = _LISTS - spellings("unbind")
"""Those whose results have the strides of their input."""

VIEWS = RESHAPING | TRANSPOSES | CUTS | MOVES | _LISTS | _OTHERS
"""Operators whose results lie in the memory of their first input; a reshape only where strides allow it."""


MOST_LINKS = 64
"""Views behind each other that are followed: writes make all of them again, and no model has near as many."""


@dataclass(frozen=True)
class Home:
    """A tensor that owns memory, and the views that lead from it to an operand: (operator, number of its output)."""

    owner: Operand
    chain: tuple[tuple[Operator, int], ...] = ()
    strides: Sequence[int] | None = field(default=None, compare=False)


def home_behind(op: Operator, number: int, home: Home) -> Home | None:
    """Where an output of an operator lies whose first input lies at ``home``; None where it has memory of its own."""
    if op.type not in VIEWS or len(home.chain) >= MOST_LINKS:
        return None
    strides = home.strides
    if op.type in RESHAPING | TRANSPOSES | CUTS:
        strides = None if home.strides is None else strides_behind(op, home.strides)
        if strides is None and op.type in RESHAPING:
            return None
    elif op.type not in _KEEPING:
        strides = None
    return Home(home.owner, (*home.chain, (op, number)), strides)


def strides_behind(op: Operator, strides: Sequence[int]) -> list[int] | None:
    """Strides of the output of a view, None when it is a copy, or when they are not known."""
    given, made = op.inputs[0].shape, op.outputs[0].shape
    if given is None or made is None or len(given) != len(strides) or min((*given, *made), default=1) < 1:
        return None
    if op.type in RESHAPING:
        return _reshaped(given, strides, made)
    if op.type in CUTS:
        return _cut(op, list(strides))
    order: Any = list(range(len(strides)))
    kind = bare(op.type)
    if kind == "transpose":
        i, j = dims = [_argument(op, key) for key in ("dim0", "dim1")]
        if not _are_axes(dims, len(strides)):
            return None
        order[i], order[j] = order[j], order[i]
    elif kind == "t":
        order.reverse()
    else:
        order = _argument(op, "dims")
    return [strides[d] for d in order] if isinstance(order, list) and _are_axes(order, len(strides)) else None


def _are_axes(dims: Sequence[Any], rank: int) -> bool:
    return all(type(d) is int and -rank <= d < rank for d in dims)


def _cut(op: Operator, strides: list[int]) -> list[int] | None:
    select = op.type.endswith("select")
    dim, step = _argument(op, "dim"), 1 if select else _argument(op, "step")
    if type(step) is not int or not _are_axes([dim], len(strides)):
        return None
    if select:
        del strides[dim]
    else:
        strides[dim] *= step
    return strides


def _argument(op: Operator, key: str) -> Any:
    """A parameter, which is an operand in files of low levels."""
    if key in op.params:
        return op.params[key].value
    from pnnx_fast.ir.literals import literal  # with the expressions, which few models need

    return literal(op.named_input(key))


def _reshaped(shape: Sequence[int], strides: Sequence[int], sizes: Sequence[int]) -> list[int] | None:
    runs: list[tuple[int, int]] = []  # elements and stride of dimensions that count as one, innermost first
    for n, stride in zip(reversed(shape), reversed(strides), strict=True):
        if runs and stride == runs[-1][0] * runs[-1][1]:
            runs[-1] = (runs[-1][0] * n, runs[-1][1])
        elif n != 1:
            runs.append((n, stride))
    made: list[int] = []
    left, step = 1, 1
    for n in reversed(sizes):
        if n != 1 and left == 1 and runs:
            left, step = runs.pop(0)
        if left % n:
            return None
        made.append(step)
        left, step = left // n, step * n
    return made[::-1] if left == 1 and not runs else None
