"""Axes that a reshape cuts apart: which of the parts varies is told by what follows.

A picture is cut into windows and into grids alike: rows into two axes, columns into two. One of the two has a size that
the model gives, the other one grows. What follows tells them apart: weights, constants, and which parts join the batch.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from pnnx_fast.edit.axes import FLATTENS, grouped, regrouped
from pnnx_fast.edit.cuts import UNBOUND
from pnnx_fast.ir import Operand, Operator
from pnnx_fast.ir.literals import constant_array
from pnnx_fast.passes.moves import permutation

if TYPE_CHECKING:
    from pnnx_fast.edit.unbake import Sizes, Unbaking

__all__ = ["is_fixed", "is_single", "varying_part"]

MOST_FOLLOWED = 200
"""Operands downstream whose axes are followed."""

_REGROUPED = (*FLATTENS, "torch.squeeze", "torch.unsqueeze", "Tensor.unflatten", "torch.unflatten", "nn.Unflatten")

_WEIGHED = {
    **dict.fromkeys(("nn.Linear", "F.linear", "nn.LayerNorm", "F.layer_norm", "nn.RMSNorm", "F.rms_norm"), -1),
    **{f"{kind}{rank}d": 1 for kind in ("nn.Conv", "F.conv", "nn.BatchNorm", "F.batch_norm") for rank in (1, 2, 3)},
    **{f"{kind}{rank}d": 1 for kind in ("nn.ConvTranspose", "F.conv_transpose") for rank in (1, 2, 3)},
    "nn.GroupNorm": 1,
}
"""Operators with weights for the places of an axis, and which one it is."""

_PRODUCTS = ("torch.matmul", "torch.bmm")
_ATTENTION = ("F.scaled_dot_product_attention", "nn.MultiheadAttention")
_OTHERS = ("torch.baddbmm", "torch.addmm", "torch.tensordot")
"""Products whose axes are not followed."""

Layout = list[tuple[int, ...]]
"""The parts that each axis of an operand is made of, as numbers."""


def varying_part(
    work: Unbaking, op: Operator, shapes: tuple[Sizes, Sizes], target: Sequence[int], outs: Sequence[int]
) -> int | None:
    """The axis that varies of those into which a reshape cuts one; None when nothing tells."""
    large = [j for j in outs if target[j] != 1]
    found = _Followed(work, op, target)
    left = [j for j in large if j not in found.fixed]
    if len(left) < len(large):
        return left[0] if len(left) == 1 else None
    joined = [j for j in large if j in found.batched]
    # Windows join the batch, and grow in number. What strides over a picture may do so, too, as a grid does whose inner
    # part varies (MaxViT), or as patches do whose places stay (MobileViT).
    votes = set(joined) if joined == large[:1] and 0 not in outs else set()
    wanted = op.value("shape")
    # In front, what is left open stands for the batch as often as not.
    votes |= {j for j in large if j and isinstance(wanted, list) and wanted[j] == -1}
    votes |= _beside(shapes, target, large)
    return votes.pop() if len(votes) == 1 else None


def is_fixed(work: Unbaking, op: Operator, target: Sequence[int], axis: int) -> bool:
    """Whether weights or constants have the size of an axis of what a reshape gives."""
    return axis in _Followed(work, op, target).fixed


def is_single(
    work: Unbaking, op: Operator, shapes: tuple[Sizes, Sizes], target: Sequence[int], outs: Sequence[int]
) -> bool | None:
    """Whether of two parts, one of which is 1, that one varies: a single window as large as the picture.

    None where no other axis is cut alike, False where nothing tells.
    """
    (a, b), place = shapes, next(k for k, j in enumerate(outs) if target[j] != 1)
    alike = [
        [target[j] for j in others]
        for ins, others in regrouped(a, b, target)
        if len(others) == 2 and list(others) != list(outs) and any(a[i] != b[i] for i in ins)
    ]
    if not any(sizes[place] == target[outs[place]] for sizes in alike):
        return None
    return any(sizes[1 - place] != 1 for sizes in alike) or is_fixed(work, op, target, outs[place])


def _beside(shapes: tuple[Sizes, Sizes], target: Sequence[int], large: Sequence[int]) -> set[int]:
    """The part that differs between rows and columns, where the other one is the same."""
    (a, b), votes = shapes, set()
    for ins, outs in regrouped(a, b, target):
        others = [j for j in outs if target[j] != 1]
        if len(others) != 2 or len(large) != 2:
            continue
        # An axis that stays may be channels; what was in two parts and still is, cut anew, is none.
        if len(ins) == 1 and a[ins[0]] == b[ins[0]]:
            continue
        same = [target[i] == target[j] for i, j in zip(large, others, strict=True)]
        if sum(same) == 1:
            votes.add(large[same.index(False)])
    return votes


class _Followed:
    """Where the axes of a reshape's result go, and what they meet there.

    Attributes
    ----------
    fixed : set of int
        Axes that weights or constants have the size of.
    batched : set of int
        Axes that the first reshape that follows joins with the first axis.
    """

    def __init__(self, work: Unbaking, op: Operator, shape: Sequence[int]) -> None:
        self.work, self.rank, self.sizes = work, len(shape), list(shape)
        groups = grouped(work.old.shape(op.inputs[0]) or (), shape)
        self.cuts = [{j for j in outs if shape[j] != 1} for _, outs in groups]
        self.fixed: set[int] = set()
        self.batched: set[int] = set()
        self.layouts: dict[Operand, Layout] = {op.outputs[0]: [(j,) for j in range(len(shape))]}
        self.still: set[Operand] = set()
        for user in work.graph.topological():
            if user.type != "pnnx.Input" and all(x in self.still for x in user.inputs):
                self.still.update(user.outputs)
            elif user is not op and len(self.layouts) < MOST_FOLLOWED and any(x in self.layouts for x in user.inputs):
                self._follow(user)

    def _follow(self, op: Operator) -> None:
        x = next(x for x in op.inputs if x in self.layouts)
        layout, order = self.layouts[x], permutation(op)
        for y in op.outputs:
            shape = y.shape
            if shape is None or any(d < 0 for d in shape):
                continue
            if order is not None:
                made: Layout | None = [layout[i] for i in order]
            elif op.type in _REGROUPED:
                made = self._regrouped(layout, shape)
            elif op.type in _PRODUCTS:
                made = self._product(op, shape)
            elif op.type in _ATTENTION:
                made = self._attention(op, x, layout, shape)
            elif op.type == "torch.einsum":
                made = self._summed(op, shape)
            elif op.type in _OTHERS:
                made = None
            else:
                made = self._kept(op, layout, shape)
            if made is not None and len(made) == len(shape):
                self.layouts[y] = made

    def _size(self, parts: Sequence[int]) -> int:
        return math.prod(self.sizes[j] for j in parts)

    def _fresh(self, size: int) -> tuple[int, ...]:
        self.sizes.append(size)
        return (len(self.sizes) - 1,)

    def _regrouped(self, layout: Layout, shape: Sequence[int]) -> Layout:
        parts = [j for axis in layout for j in axis]
        whole = all(len(axis) < 2 for axis in layout) and all(j < self.rank for j in parts)
        made: Layout = [()] * len(shape)
        for ins, outs in grouped([self.sizes[j] for j in parts], shape):
            large = [k for k in outs if shape[k] != 1]
            here = [parts[i] for i in ins]
            if len(large) > 1:
                for k in large:
                    made[k] = self._fresh(shape[k])
                continue
            if outs:
                # What was cut may be put together again; where that goes tells nothing.
                whole_again = any(len(cut.intersection(here)) > 1 for cut in self.cuts)
                k = (large or outs)[0]
                made[k] = self._fresh(shape[k]) if whole_again else tuple(here)
            if whole and 0 in here:
                self.batched.update(here)
        return made

    def _product(self, op: Operator, shape: Sequence[int]) -> Layout | None:
        x, other = (self.layouts.get(operand) for operand in op.inputs[:2])
        if x is not None and op.inputs[1] in self.still:
            self.fixed.update(x[-1])
        if other is not None and op.inputs[0] in self.still:
            self.fixed.update(other[-2:][0])
        lead = next((axes[:-2] for axes in (x, other) if axes is not None and len(axes) == len(shape)), None)
        if lead is None or len(shape) < 2:
            return None
        rows = self._fresh(shape[-2]) if x is None or len(x) < 2 else x[-2]
        columns = self._fresh(shape[-1]) if other is None or len(other) < 2 else other[-1]
        return [*lead, rows, columns]

    def _summed(self, op: Operator, shape: Sequence[int]) -> Layout | None:
        equation = str(op.value("equation", "")).replace(" ", "")
        terms, _, result = equation.partition("->")
        letters: dict[str, tuple[int, ...]] = {}
        for term, x in zip(terms.split(","), op.inputs, strict=False):
            letters.update(zip(term, self.layouts.get(x, []), strict=False))
        for term, x in zip(terms.split(","), op.inputs, strict=False):
            for letter in term if x in self.still else "":
                self.fixed.update(letters.get(letter, ()))
        if "." in equation or len(result) != len(shape):
            return None
        return [letters.get(letter) or self._fresh(d) for letter, d in zip(result, shape, strict=True)]

    def _attention(self, op: Operator, x: Operand, layout: Layout, shape: Sequence[int]) -> Layout | None:
        if x is not op.inputs[0] or len(layout) < 2:
            return None
        place, modules = -2, op.type.startswith("nn.")
        if modules:
            self.fixed.update(layout[-1])
            place = -2 if op.value("batch_first") else 0
        mask = op.named_input("attn_mask") or (op.inputs[3] if not modules and len(op.inputs) > 3 else None)
        if mask in self.still and mask is not None and self._size(layout[place]) == (mask.shape or (0, 0))[-2]:
            self.fixed.update(layout[place])
        return [*layout[:-1], self._fresh(shape[-1])]

    def _kept(self, op: Operator, layout: Layout, shape: Sequence[int]) -> Layout | None:
        """Axes of a result: those of the input that have the same size."""
        weighed = _WEIGHED.get(op.type)
        own_weights = all(z in self.still or z in self.layouts for z in op.inputs)
        if weighed is not None and own_weights and len(layout) > 1:
            self.fixed.update(layout[weighed])
        dim = op.value("dim")
        if op.type in UNBOUND and isinstance(dim, int) and layout:
            self.fixed.update(layout[dim % len(layout)])  # each entry has a name of its own
        if len(shape) == len(layout) - 1 and isinstance(dim, int):
            layout = [axis for i, axis in enumerate(layout) if i != dim % len(layout)]
        if len(shape) != len(layout):
            return None
        sizes = [self._size(axis) for axis in layout]
        if sizes == list(shape):
            for z in op.inputs:
                if z in self.still:
                    self._meet(z, layout)
        # Channels that a layer gives are not those of its input.
        made = None if weighed is None else weighed % len(shape)
        return [
            axis if i != made and sizes[i] == d else self._fresh(d)
            for i, (axis, d) in enumerate(zip(layout, shape, strict=True))
        ]

    def _meet(self, z: Operand, layout: Layout) -> None:
        """Note the axes along which a constant that is broadcast has different values."""
        data = constant_array(z)
        for k, d in enumerate(reversed(z.shape or ()), 1):
            if k > len(layout) or d == 1 or d != self._size(layout[-k]):
                continue
            if data is None or not np.array_equal(np.broadcast_to(data.take([0], -k), data.shape), data):
                self.fixed.update(layout[-k])
