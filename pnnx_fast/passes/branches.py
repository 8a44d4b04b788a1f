"""The branches of a sum that are linear in one tensor become one convolution.

Kernels add up, smaller ones at their place in the largest; a batch norm is a kernel of one pixel, and so is the tensor
itself. The pass ``merge_branches`` says which sums are worth a look.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from pnnx_fast._types import Array, Shape
from pnnx_fast.ir import Attribute, Graph, Operand, Operator
from pnnx_fast.ir.mapped import release
from pnnx_fast.passes.fold_batch_norm import BATCH_NORMS, affine_of, is_affine
from pnnx_fast.passes.moves import absorb, arguments_of, as_tree, numbers, only_consumer, rewrite_expression

if TYPE_CHECKING:
    from pnnx_fast.expression import Node

__all__ = ["merge_terms"]

CONVOLUTIONS = ("nn.Conv1d", "nn.Conv2d", "nn.Conv3d")


class Branch(NamedTuple):
    """A term of a sum: which input of its expression it is, the sign before it, and what makes it of ``x``."""

    slot: int
    sign: int
    x: Operand
    maker: Operator | None


class Window(NamedTuple):
    """How a convolution reads: ``taps`` are its pixels by axis, as distances from that of the output."""

    stride: tuple[int, ...]
    groups: int
    taps: tuple[range, ...]


def merge_terms(graph: Graph, op: Operator) -> bool:
    """Merge the branches that an expression adds up; returns whether there were any."""
    from pnnx_fast.expression import Input, inputs_of

    root = as_tree(op)
    if root is None or inputs_of(root)[-1:] >= [len(op.inputs)]:
        return False
    merged = set[Branch]().union(*(_merge(b) for terms in _sums(root) for b in _by_source(op, terms)))
    if not merged:
        return False
    tree, sources = _without(root, {b.slot for b in merged}), list(op.inputs)
    if isinstance(tree, Input):
        only = sources[tree.index].producer
        assert only is not None
        op.set_inputs(only.outputs)
        absorb(graph, only, op)
    else:
        rewrite_expression(op, tree, sources)
    for branch in merged:
        if branch.maker is not None:
            graph.remove_operator(branch.maker)
    return True


def _is_branch(x: Operand, reader: Operator) -> bool:
    """Whether a convolution or batch norm makes an operand, which ``reader`` alone reads."""
    maker = x.producer
    if maker is None or only_consumer(x) is not reader or len(maker.inputs) != 1 or len(maker.outputs) != 1:
        return False
    return maker.type in CONVOLUTIONS or (maker.type in BATCH_NORMS and is_affine(maker))


# ---- the expression ----


def _signed_terms(node: Node) -> tuple[tuple[Node, int], ...]:
    """Both terms of a sum or difference with their signs; nothing of other nodes."""
    for name, sign in (("add", 1), ("sub", -1)):
        if terms := arguments_of(node, name, 2):
            return (terms[0], 1), (terms[1], sign)
    return ()


def _sums(root: Node) -> Iterator[list[tuple[int, int]]]:
    """For each sum or difference of any number of terms those that are inputs with no other use: (index, sign)."""
    from pnnx_fast.expression import Input
    from pnnx_fast.expression.tree import postorder

    uses = Counter(node.index for node in postorder(root) if isinstance(node, Input))
    pending = [root]
    while pending:
        node = pending.pop()
        if not _signed_terms(node):
            pending.extend(node.children)
            continue
        terms, signed = [], [(node, 1)]
        while signed:
            term, sign = signed.pop()
            if parts := _signed_terms(term):
                signed += [(part, sign * own) for part, own in reversed(parts)]
            elif isinstance(term, Input):
                terms += [(term.index, sign)] if uses[term.index] == 1 else []
            else:
                pending.append(term)
        yield terms


def _without(root: Node, dropped: set[int]) -> Node:
    """The expression without some of its terms; every sum of them alone goes, too."""
    from pnnx_fast.expression import Call, Input
    from pnnx_fast.expression.tree import fold

    def combine(node: Node, children: list[Node | None]) -> Node | None:
        if isinstance(node, Input):
            return None if node.index in dropped else node
        if None not in children:
            return node.rebuilt(tuple(c for c in children if c is not None))
        first, second = children
        negative = first is None and second is not None and _signed_terms(node)[1][1] < 0
        return Call("neg", [second]) if negative and second is not None else first or second

    left = fold(root, combine)
    assert left is not None
    return left


# ---- the branches ----


def _by_source(op: Operator, terms: Iterable[tuple[int, int]]) -> Iterator[list[Branch]]:
    """Terms of a sum that have one shape and are linear in the same tensor, which may itself be the last of them."""
    found: dict[tuple[Operand, Shape | None], list[Branch]] = {}
    rest: dict[Operand, Branch] = {}
    for slot, sign in terms:
        x = op.inputs[slot]
        if x.dtype != "f32" or x.shape is None:
            continue
        if _is_branch(x, op) and x.producer is not None:
            source = x.producer.inputs[0]
            found.setdefault((source, x.shape), []).append(Branch(slot, sign, source, x.producer))
        else:
            rest[x] = Branch(slot, sign, x, None)
    for (source, shape), branches in found.items():
        yield branches + ([rest[source]] if source in rest and source.shape == shape else [])


def _merge(branches: Sequence[Branch]) -> set[Branch]:
    """Add branches of one tensor to convolutions among them; returns those that were added."""
    windows = {b: w for b in branches if b.maker is not None and (w := _window(b.maker)) is not None}
    bases: set[Branch] = set()
    merged: set[Branch] = set()
    for base in sorted(windows, key=lambda b: -math.prod(map(len, windows[b].taps))):
        if base in merged:
            continue
        bases.add(base)
        places = {b: _places(b, windows.get(b), base, windows[base]) for b in branches if b not in bases | merged}
        added = {b: at for b, at in places.items() if at is not None}
        if any(b.maker is not None for b in added):
            _add(base, added)
            merged |= added.keys()
    return merged


def _window(conv: Operator) -> Window | None:
    """The window of a convolution of numbers in single precision that has zeros around its input."""
    values, weight, bias = conv.values(), conv.attrs.get("weight"), conv.attrs.get("bias")
    if conv.type not in CONVOLUTIONS or weight is None or values.get("padding_mode", "zeros") != "zeros":
        return None
    rank, x, groups = len(weight.shape) - 2, conv.inputs[0].shape, values.get("groups", 1)
    given = [numbers(conv, key, default) for key, default in (("stride", 1), ("padding", 0), ("dilation", 1))]
    stride, before, dilation = (n * rank if len(n) == 1 else n for n in given)
    if rank != int(conv.type[-2]) or 0 in weight.shape or any(type(n) is not int for axes in given for n in axes):
        return None
    if any(len(axes) != rank for axes in (stride, before, dilation)) or min(stride + dilation) < 1:
        return None
    if x is None or len(x) <= rank or not isinstance(groups, int) or weight.shape[1] * groups != x[-1 - rank]:
        return None
    vectors = [] if bias is None else [bias]
    if any(v.shape != weight.shape[:1] for v in vectors) or any(v.dtype != "f32" for v in (weight, *vectors)):
        return None
    lines = zip(weight.shape[2:], before, dilation, strict=True)
    return Window(tuple(stride), groups, tuple(range(-b, n * d - b, d) for n, b, d in lines))


def _places(branch: Branch, window: Window | None, base: Branch, wide: Window) -> list[list[int]] | None:
    """Places of a branch's taps among those of a convolution, by axis; None where they do not fit in."""
    assert base.maker is not None
    if window is None:
        maker, weight = branch.maker, base.maker.attrs["weight"]
        same = len(base.x.shape or ()) == len(weight.shape) and weight.shape[0] == weight.shape[1] * wide.groups
        if not same or set(wide.stride) != {1} or (maker is not None and maker.type not in BATCH_NORMS):
            return None
        if maker is not None and maker.attrs["running_mean"].shape != weight.shape[:1]:
            return None
        window = Window(wide.stride, wide.groups, (range(1),) * len(wide.taps))
    if (window.stride, window.groups) != (wide.stride, wide.groups):
        return None
    pairs = list(zip(window.taps, wide.taps, strict=True))
    # Windows around the same middle give results of one size, whatever shapes the file notes.
    if not all(a[0] + a[-1] == b[0] + b[-1] and all(t in b for t in a) for a, b in pairs):
        return None
    return [[theirs.index(t) for t in mine] for mine, theirs in pairs]


def _read(conv: Operator) -> Array:
    """Weights in float64; those of the file are not read again."""
    weight = conv.attrs["weight"].numpy()
    values: Array = weight.astype(np.float64)
    release(weight)
    return values


def _add(base: Branch, added: Mapping[Branch, list[list[int]]]) -> None:
    """Add branches to the weights of a convolution, in float64."""
    conv = base.maker
    assert conv is not None
    kernel = _read(conv)
    bias: Array = np.zeros(len(kernel)) + (conv.attrs["bias"].numpy() if "bias" in conv.attrs else 0.0)
    channels = np.arange(len(kernel))
    for branch, places in added.items():
        sign, maker = branch.sign * base.sign, branch.maker
        if maker is not None and maker.type in CONVOLUTIONS:
            within = np.arange(kernel.shape[1])
            kernel[np.ix_(channels, within, *map(np.array, places))] += sign * _read(maker)
            if "bias" in maker.attrs:
                bias += sign * maker.attrs["bias"].numpy()
        else:
            scale, shift = (np.ones(len(kernel)), 0.0) if maker is None else affine_of(maker)
            kernel[(channels, channels % kernel.shape[1], *(at[0] for at in places))] += sign * scale
            bias += sign * shift
    with np.errstate(over="ignore"):
        conv.attrs["weight"] = Attribute.owning(kernel.astype(np.float32))
        conv.attrs["bias"] = Attribute.owning(bias.astype(np.float32))
    conv.params["bias"] = True
