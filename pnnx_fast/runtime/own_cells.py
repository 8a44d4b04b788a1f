"""What the product of a constant hidden state was before a recurrent cell wrote to it in the converter's own run.

With a state of zeros it is the bias, which the file has if the cell is used again. Else the cell's functions are turned
around, where that is exact enough: near their limits they hold little of what they are given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from pnnx_fast._types import Array
from pnnx_fast._warning import muted
from pnnx_fast.ir import Graph, Operator
from pnnx_fast.ir.cells import CellPart, cell_part
from pnnx_fast.ir.folded import FOLDED, is_constant

if TYPE_CHECKING:
    from pnnx_fast.runtime.own_run import OwnRun

__all__ = ["Cells", "separate_constants"]

EXACT, NEAR = 1e-6, 3e-5
"""What rounding may leave of differences from a layer's own sum, and from a repeated run."""

MOST_ERROR = 1e-4
"""Of a product that is turned back from what a function made of it, to be taken."""

LEAST_GATE = 1e-30
"""Where a gate is smaller, little is left of what it was made of, and of what it is a factor of."""

_RENAMED = (FOLDED, "pnnx_before_")
"""How names of constants begin that the converter computed, and of those that are mended."""

_ROUNDING = {"float16": 2.0**-10, "float32": 2.0**-23, "float64": 2.0**-32}
"""Errors of functions, as shares of their results."""


def separate_constants(graph: Graph) -> None:
    """Give every sum of a cell a constant of its own: the converter writes equal ones once."""
    for op in list(graph.ops):
        if not is_constant(op) or not op.name.startswith(FOLDED):
            continue
        shared = op.outputs[0]
        users = list(shared.consumers)
        if len(set(users)) < max(2, len(users)) or not all(cell_part(user, shared=True) for user in users):
            continue
        for user in users[1:]:
            own = graph.new_operand(graph.free_name(f"{shared.name}_own"))
            own.shape, own.dtype = shared.shape, shared.dtype
            graph.new_operator_before(op.type, graph.free_name(f"{op.name}_own"), user, outputs=[own], attrs=op.attrs)
            user.set_input(user.inputs.index(shared), own)


class Cells:
    """The constants of cells in a graph, as they were noted.

    Parameters
    ----------
    sums : iterable of Operator
        Operators that wrote to such constants, in order.
    ops : iterable of Operator
        All of the graph.
    """

    def __init__(self, sums: Iterable[Operator], ops: Iterable[Operator]) -> None:
        parts = filter(None, map(cell_part, sums))
        self._parts = {part.constant: (part, part.constant.attrs["data"].numpy()) for part in parts}
        self._layers = [layer for op in ops if (layer := _layer(op)) is not None]
        self._unchanged: set[Operator] = set()

    def __contains__(self, constant: Operator) -> bool:
        return constant in self._parts

    def before(self, constant: Operator, own: OwnRun | None) -> Array | None:
        """The product that a constant was, which may be itself; None where nothing tells.

        Parameters
        ----------
        constant : Operator
        own : OwnRun or None
        """
        part, noted = self._parts[constant]
        try:
            with muted(), np.errstate(all="ignore"):
                found = self._divided(part, noted) if part.factor is not None else self._before(part, noted, own)
        except Exception:  # Limits, and users' operators raise what they like; then the constant stays as it is.
            return None
        if found is noted:
            self._unchanged.add(constant)
        elif found is not None:
            constant.name = constant.name.replace(*_RENAMED, 1)  # what is saved is not to be wound back again
        return found

    def _divided(self, part: CellPart, noted: Array) -> Array | None:
        """The share of a new gate, which the reset gate was multiplied with."""
        if part.factor is None or part.factor in self._unchanged:
            return noted
        if part.factor.name.startswith(FOLDED):
            return None
        factor = self._parts[part.factor][1].astype(np.float64)
        if np.isnan(factor).any():
            return _single(self._rows(part, noted), noted)
        return noted / factor if factor.min() >= LEAST_GATE else None

    def _rows(self, part: CellPart, noted: Array) -> list[Array]:
        """Biases of layers that have the sizes of a cell's: its product where the state is zero."""
        width, states = noted.shape[1], noted.shape[1] // max(1, len(part.functions))
        where, shape = slice(part.place * width, (part.place + 1) * width), (width * part.parts, states)
        return [bias[where] for size, bias in self._layers if size == shape == (len(bias), states)]

    def _before(self, part: CellPart, noted: Array, own: OwnRun | None) -> Array | None:
        rows = self._rows(part, noted)
        if any(_near(noted, row, EXACT) for row in rows):
            return noted  # a model that writes to nothing
        if own is None:
            return None
        added = own.up_to(part.constant, part.op)(np.zeros_like(noted)).astype(np.float64)
        if added.shape != noted.shape:
            return None
        slack = max(NEAR, 2 * _ROUNDING[noted.dtype.name])
        fitting = [row for row in rows if _near(_forward(row + added, part.functions), noted, slack)]
        known = _single(fitting, noted)
        return known if known is not None or np.isnan(noted).any() else _turned_back(noted, part.functions, added)


def _single(rows: list[Array], noted: Array) -> Array | None:
    """The one row that several are, for every item; None where they differ, or there is none."""
    same = bool(rows) and all(np.array_equal(row, rows[0]) for row in rows)
    return np.broadcast_to(rows[0], noted.shape) if same else None


def _layer(op: Operator) -> tuple[tuple[int, ...], Array] | None:
    """Shape of the weight of a layer, and its bias, zeros if it has none; None for other operators."""
    weight = _weights(op, "weight", 1) if op.type in ("nn.Linear", "F.linear") else None
    if weight is None or weight.ndim != 2:
        return None
    bias = _weights(op, "bias", 2)
    return weight.shape, np.zeros(len(weight)) if bias is None else bias.reshape(-1).astype(np.float64)


def _weights(op: Operator, key: str, k: int) -> Array | None:
    maker = op.inputs[k].producer if len(op.inputs) > k else None
    found = op.attrs.get(key) if maker is None else maker.attrs.get("data")
    return None if found is None or found.dtype is None else found.numpy()


def _near(x: Array, y: Array, tolerance: float) -> bool:
    near = np.abs(x - y) <= tolerance * np.maximum(1, np.abs(y))
    return bool((near | (np.isnan(x) & np.isnan(y))).all())


def _forward(x: Array, functions: tuple[str, ...]) -> Array:
    if not functions:
        return x
    parts: list[Any] = np.split(x, len(functions), 1)
    return np.concatenate([_FORWARD[f](part) for f, part in zip(functions, parts, strict=True)], 1)


def _turned_back(noted: Array, functions: tuple[str, ...], added: Array) -> Array | None:
    """A product from what functions made of it; None where too little is left, or nothing tells that they did."""
    if not functions:
        return None
    rounding, found = _ROUNDING[noted.dtype.name], []
    for function, y in zip(functions, np.split(noted.astype(np.float64), len(functions), 1), strict=True):
        gate = function == "F.sigmoid"
        # The slope of the function turned around, times the error of a result.
        lost = rounding / (1 - y) if gate else rounding * np.abs(y) / (1 - y * y)
        if not (lost <= MOST_ERROR).all() or (gate and y.min() < LEAST_GATE):
            return None
        found.append(np.log(y) - np.log1p(-y) if gate else np.arctanh(y))
    product = np.concatenate(found, 1) - added
    return product if _near(_forward(product + added, functions), noted, NEAR) else None


def _sigmoid(x: Array) -> Array:
    return 0.5 + 0.5 * np.tanh(0.5 * x)


_FORWARD: dict[str, Callable[[Array], Array]] = {"F.sigmoid": _sigmoid, "F.tanh": np.tanh}
