"""Numbers that tracing computed from sizes, and that stand in expressions: they are computed from the sizes again.

The place of the best cell of a picture is its index divided by the width; a mean is a sum divided by how many there
were. A number is mended where what it is applied to says which size it was. A number that merely equals one of the
sizes stays, and is told.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from pnnx_fast._types import Array
from pnnx_fast.edit.axes import FLATTENS, grouped
from pnnx_fast.errors import ExpressionError
from pnnx_fast.expression import Call, Constant, Input, Node, parse
from pnnx_fast.expression.tree import inputs_of, postorder
from pnnx_fast.ir import Operand, Operator, Parameter
from pnnx_fast.ir.literals import constant_array

if TYPE_CHECKING:
    from pnnx_fast.edit.unbake import Unbaking

__all__ = ["mend_bound", "mend_literals"]

_DIVISIONS = ("div", "floor_divide", "remainder", "fmod")

_PLACES = ("torch.topk", "torch.max", "torch.min", "torch.argmax", "torch.argmin", "torch.sort", "torch.argsort")
"""Operators whose results are, or are gathered by, indices along an axis."""

_SAME = (
    *("Tensor.to", "Tensor.clone", "torch.clone", "Tensor.contiguous", "torch.unsqueeze", "torch.squeeze"),
    *FLATTENS,
)
"""Operators whose results hold the numbers of their input."""

_WHOLE = ("i64", "i32")

Axis = tuple[Operand, int]


def mend_literals(work: Unbaking, op: Operator) -> bool:
    """Sizes in an expression become computed ones; False where a number may be a size, and nothing says so."""
    text = str(op.value("expr", ""))
    try:
        root = parse(text)
    except ExpressionError:
        return True
    literals = _Literals(work, op)
    changed, told = literals.replaced(root)
    if changed != root:
        op.params["expr"] = Parameter.verbatim(str(changed))
    return told and not any(literals.are_sizes(constant_array(op.inputs[i])) for i in inputs_of(changed))


class _Literals:
    """The numbers of one expression."""

    def __init__(self, work: Unbaking, op: Operator) -> None:
        self.work, self.op = work, op
        self.sizes = _varying_sizes(work, op)
        self.told = True

    def replaced(self, root: Node) -> tuple[Node, bool]:
        """The expression with sizes for numbers, and whether all numbers are told."""
        done: dict[int, Node] = {}
        for node in postorder(root):
            children = tuple(done[id(c)] for c in node.children)
            same = all(a is b for a, b in zip(children, node.children, strict=True))
            new = node if same else node.rebuilt(children)
            done[id(node)] = self._divided(node, new) if isinstance(node, Call) else new
        return done[id(root)], self.told

    def _divided(self, old: Call, new: Node) -> Node:
        """A division by a size, or a product with one."""
        if len(old.children) == 2 and old.name in ("add", "sub"):
            self.told &= not any(self._is_logarithm(c.value) for c in old.children if isinstance(c, Constant))
        if len(old.children) != 2 or old.name not in (*_DIVISIONS, "mul"):
            return new
        for i in (0, 1) if old.name == "mul" else (1,):
            number, other = old.children[i], old.children[1 - i]
            if isinstance(other, Constant) or not isinstance(number, Constant):
                continue
            if isinstance(number.value, int | float):
                found = self._size(old.name, other, number.value)
                if found is not None:
                    return new.rebuilt(tuple(found if j == i else c for j, c in enumerate(new.children)))
        one = old.children[1]
        if isinstance(one, Input) and old.name == "div":
            data = constant_array(self.op.inputs[one.index])
            if data is not None and data.size and (data == data.flat[0]).all():
                found = self._count(old.children[0], float(data.flat[0]))
                if found is not None:
                    return new.rebuilt((new.children[0], found))
        return new

    def _size(self, name: str, other: Node, value: float) -> Node | None:
        """What a number is, that something is divided by or multiplied with; None for one that stays."""
        whole = value == int(value) if math.isfinite(value) else False
        found = self._cells(name, other, int(value)) if whole and value > 1 else None
        if found is None and whole and value >= 1 and name == "div":
            found = self._count(other, value)
        if found is not None:
            return found
        if self._suspect(name, value):
            self.told = False
        return None

    def _suspect(self, name: str, value: float) -> bool:
        """Whether a number may have been computed from a size that varies."""
        if self.work.only_batch:
            return name in _DIVISIONS and isinstance(value, int) and value in self.sizes
        for n in self.sizes:
            made = (n, math.sqrt(n)) if name in _DIVISIONS else (n, 1 / n, 1 / math.sqrt(n))
            if n > 3 and any(abs(value - v) <= 1e-6 * v for v in (*made, n - 1)):
                return True
        return self._is_logarithm(value)

    def _is_logarithm(self, value: object) -> bool:
        """Whether a number is the logarithm of a size that varies, as of how many there are."""
        if self.work.only_batch or not isinstance(value, float):
            return False
        return any(n > 3 and abs(abs(value) - math.log(n)) <= 1e-6 * math.log(n) for n in self.sizes)

    def are_sizes(self, data: Array | None) -> bool:
        """Whether a constant holds nothing but sizes of a picture, as boxes are scaled by."""
        if data is None or self.work.only_batch or not 2 <= data.size <= 4:
            return False
        return all(value > 3 and value in self.sizes for value in data.flat)

    def _cells(self, name: str, other: Node, value: int) -> Node | None:
        """A size that takes an index into a flattened picture apart: a product of its last axes, or one of them."""
        for flat in self._flattened(other):
            ends = {math.prod(self._old(axis) for axis in flat[i:]): flat[i:] for i in reversed(range(len(flat)))}
            before = _divisor(other)
            if before is None and name != "mul" and value in ends:
                return self._product(ends[value])
            within = [axis for axis in flat if self._old(axis) == value]
            if before is not None and before[1] in ends:
                # The range of what is divided tells which of two axes of equal size it is.
                rest = len(ends[before[1]])
                place = flat[len(flat) - rest - 1 : len(flat) - rest] if before[0] == "floor_divide" else flat[-rest:]
                within = place if math.prod(self._old(axis) for axis in place) == value else within
            if len(within) == 1:
                return self._product(within)
        if name == "mul" and all(self.work.old.dtype(x) in _WHOLE for x in self.op.inputs):
            found = _only_axis(self.work, self.op.inputs, (value,))
            return self._product([found[0]]) if found is not None else None
        return None

    def _flattened(self, node: Node) -> Iterator[list[Axis]]:
        """Axes of a picture that were laid out in one, into which a part of the expression is an index."""
        work = self.work
        for i in sorted({n.index for n in postorder(node) if isinstance(n, Input)}):
            for y in work.upstream(self.op.inputs[i]):
                maker = y.producer
                if maker is None or maker.type not in _PLACES or not maker.inputs:
                    continue
                for z in work.upstream(maker.inputs[0]):
                    group = _merged(work, z)
                    if group is not None:
                        yield group
                        break

    def _count(self, node: Node, value: float) -> Node | None:
        """How many elements were summed up, where that is what the sum is divided by."""
        if not isinstance(node, Input):
            return None
        op = self.op.inputs[node.index].producer
        while op is not None and op.type in _SAME and op.inputs:
            op = op.inputs[0].producer
        if op is None or op.type != "torch.sum" or not op.has_param("dim"):
            return None
        x, dims = op.inputs[0], op.params["dim"].value
        found = self.work.shapes(x)
        if found is None:
            return None
        axes = [(x, d % len(found[0])) for d in (dims if isinstance(dims, list) else [dims])]
        varying = [axis for axis in axes if self._old(axis) != found[1][axis[1]]]
        if not varying:
            return None
        if math.prod(self._old(axis) for axis in axes) == value:
            return self._product(axes)
        single = [axis for axis in varying if self._old(axis) == value]
        return self._product(single) if len(single) == 1 else None

    def _old(self, axis: Axis) -> int:
        return (self.work.old.shape(axis[0]) or ())[axis[1]]

    def _product(self, axes: Sequence[Axis]) -> Node | None:
        """Product of sizes; None where none of them varies."""
        work = self.work
        if not any((work.new.shape(x) or ())[i] != self._old((x, i)) for x, i in axes):
            return None
        product: Node | None = None
        for x, i in axes:
            if x not in self.op.inputs:
                self.op.add_input(x)
            size = parse(f"size(@{self.op.inputs.index(x)},{i})")
            product = size if product is None else Call("mul", (product, size))
        return product


def _divisor(node: Node) -> tuple[str, int] | None:
    """Of what has been divided by a number: how, and by what."""
    if isinstance(node, Call) and node.name in _DIVISIONS[1:] and isinstance(node.children[1], Constant):
        value = node.children[1].value
        return (node.name, value) if isinstance(value, int) else None
    return None


def _merged(work: Unbaking, x: Operand) -> list[Axis] | None:
    """The axes that a reshape laid out as its last one, of which some vary."""
    op = x.producer
    if op is None or op.type not in FLATTENS or not op.inputs:
        return None
    found, to = work.shapes(op.inputs[0]), work.old.shape(x)
    if found is None or not to or found[0] == found[1]:
        return None
    for ins, outs in grouped(found[0], to):
        # A batch of one in front belongs to another group, or to this one without harm.
        if len(to) - 1 in outs and len([i for i in ins if found[0][i] != 1]) > 1 and to[-1] != 1:
            return [(op.inputs[0], i) for i in ins]
    return None


def _varying_sizes(work: Unbaking, op: Operator) -> set[int]:
    """Sizes that vary, of the graph's inputs and of operands near an operator, and products of neighbours."""
    sizes: set[int] = set()
    near = [x for given in op.inputs for x, _ in zip(work.upstream(given), range(12), strict=False)]
    for x in [*work.graph.inputs, *near]:
        found = work.shapes(x)
        if found is None or found[0] == found[1]:
            continue
        a, b = found
        varying = [p for p, q in zip(a, b, strict=True) if p != q and p > 1]
        sizes.update(varying)
        if not work.only_batch and len(varying) > 1:
            sizes.update(p * q for p, q in pairwise(varying))
            sizes.add(int(np.prod(a)))
    return sizes


def _only_axis(work: Unbaking, inputs: Sequence[Operand], sizes: Sequence[int]) -> tuple[Axis, int] | None:
    """An axis that varies and has one of these sizes, and which, where all axes like it grow alike."""
    axes: dict[tuple[int, int], Axis] = {}
    for x in [*(y for given in inputs for y in work.upstream(given)), *work.graph.inputs]:
        found = work.shapes(x)
        for i, (p, q) in enumerate(zip(*found, strict=True)) if found is not None else ():
            if p != q and p in sizes:
                axes.setdefault((p, q), (x, i))
    if len(axes) != 1:
        return None
    (size, _), axis = next(iter(axes.items()))
    return axis, size


def mend_bound(work: Unbaking, op: Operator) -> bool:
    """Indices that are kept within a picture are kept within the one that is given."""
    x, limit = op.inputs[0], op.value("max")
    if not isinstance(limit, int) or isinstance(limit, bool) or limit < 2 or work.only_batch:
        return True
    found = _only_axis(work, [x], (limit + 1, limit))
    if found is not None and work.old.dtype(x) in _WHOLE and found[1] == limit + 1:
        (y, axis), _ = found
        work.compute_value(op, "max", f"sub(size(@0,{axis}),1)", [y])
        return True
    return not _varying_sizes(work, op) & {limit, limit + 1}
