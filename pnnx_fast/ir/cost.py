"""What an operator costs: floating-point operations and elements moved, counted as PNNX counts them.

Here is what the rules of ``ir.cost_rules`` build on: the facts about an operator, and the table of rules by
type. Sizes are those recorded in a graph; unknown ones count as nothing.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any, NamedTuple

from pnnx_fast._core.text import INT, LIST_CODES
from pnnx_fast._types import Shape
from pnnx_fast.ir.operator import Operator

__all__ = ["Cost", "Facts", "cost_of", "costs", "free", "moved", "size_of"]


class Cost(NamedTuple):
    """Floating-point operations, and elements read and written."""

    flops: int = 0
    memory_operations: int = 0


def size_of(shape: Shape | None) -> int:
    """Number of elements; 0 when a size varies, 1 when the shape is unknown."""
    return 0 if any(d <= 0 for d in shape or ()) else math.prod(shape or ())


class Facts:
    """Sizes and parameters of one operator, with what PNNX assumes where something is missing."""

    def __init__(self, op: Operator) -> None:
        self.op, self.type = op, op.type
        self.module = not op.type.startswith("F.")
        self.read = sum(size_of(x.shape) for x in op.inputs)
        self.written = sum(size_of(x.shape) for x in op.outputs)
        self.moved = self.read + self.written

    def shape(self, index: int) -> Shape:
        """Shape of an input, ``()`` when it is absent or unknown."""
        return self.op.inputs[index].shape or () if index < len(self.op.inputs) else ()

    def out_shape(self) -> Shape:
        """Shape of the first output."""
        return self.op.outputs[0].shape or () if self.op.outputs else ()

    def input(self, index: int) -> int:
        """Elements of an input, 0 when it is absent."""
        return size_of(self.op.inputs[index].shape) if 0 <= index < len(self.op.inputs) else 0

    def output(self) -> int:
        """Elements of the first output."""
        return size_of(self.op.outputs[0].shape) if self.op.outputs else 0

    def attribute(self, key: str) -> int:
        """Elements of an attribute, 0 when it is absent."""
        return size_of(self.op.attrs[key].shape) if key in self.op.attrs else 0

    def value(self, key: str) -> Any:
        """Value of a parameter, ``None`` when it is absent."""
        return self.op.value(key)

    def is_none(self, key: str) -> bool:
        """Whether a parameter is given as None."""
        return key in self.op.params and self.op.params[key].value is None

    def flag(self, key: str, default: bool = False) -> bool:
        """Return a parameter as a truth value."""
        value = self.value(key)
        if isinstance(value, str):
            return value in ("True", "true", "1")
        if self.is_none(key):
            return False
        return bool(value) if isinstance(value, int) else default

    def integer(self, key: str, default: int = 0) -> int:
        """Return a parameter as an integer."""
        value = self.value(key)
        return int(value) if isinstance(value, int) else default

    def number(self, key: str, default: float) -> float:
        """Return a parameter as a float."""
        value = self.value(key)
        return float(value) if isinstance(value, int | float) else default

    def integers(self, key: str) -> list[int]:
        """Return a parameter as a list of integers, empty when it is none."""
        value = self.value(key)
        if isinstance(value, list):
            return [x for x in value if isinstance(x, int)] if self.op.params[key].type == LIST_CODES[INT] else []
        return [value] if isinstance(value, int) and not isinstance(value, bool) else []

    def tensor(self, key: str, index: int) -> int:
        """Elements of a weight that is an attribute, a named input or the input at ``index``."""
        if self.is_none(key):
            return 0
        named = self.op.named_input(key)
        return self.attribute(key) or (size_of(named.shape) if named is not None else self.input(index))

    @property
    def dims(self) -> int:
        """Spatial dimensions by the name of the type, 0 when it names none."""
        found = re.search(r"([123])[dD]", self.type)
        return int(found[1]) if found else 0

    @property
    def bias(self) -> bool:
        """Whether there is a bias."""
        if "bias" in self.op.params:
            value = self.value("bias")
            return value if isinstance(value, bool) else value not in (None, "None")
        return self.attribute("bias") != 0 if "bias" in self.op.attrs else self.op.has_input("bias")

    def kernel(self) -> int:
        """Elements of the window, 0 when unknown."""
        window, weight = self.integers("kernel_size"), self.shape(1)
        if not window and len(weight) >= self.dims + 2:
            window = list(weight[-self.dims :])
        if len(window) == 1:
            window *= self.dims
        return size_of(tuple(window[-self.dims :] if self.dims else window))


Rule = Callable[[Facts], tuple[int, int]]
_RULES: dict[str, Rule] = {}


def costs(*types: str) -> Callable[[Rule], Rule]:
    """Register a rule for operator types, where ``{d}`` stands for 1, 2 and 3."""

    def register(function: Rule) -> Rule:
        for kind in types:
            for d in "123" if "{d}" in kind else "-":
                _RULES[kind.replace("{d}", d)] = function
        return function

    return register


def cost_of(op: Operator) -> Cost:
    """Cost of an operator by the rule for its type."""
    rule = _RULES.get(op.type)
    if rule is None:
        rule = moved if op.type.startswith(("nn.", "F.", "torch.", "Tensor.")) else free
    return Cost(*rule(Facts(op)))


def moved(f: Facts) -> tuple[int, int]:
    """Cost of an operator that reads its inputs and writes its outputs."""
    return 0, f.moved


def free(f: Facts) -> tuple[int, int]:
    """Cost of an operator that does nothing at run time, such as a view."""
    return 0, 0
