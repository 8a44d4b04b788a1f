"""``torch.einsum``: sums of products by labels, as views, batched matrix products and element-wise products.

Operands are combined from left to right; a label is summed as soon as neither the output nor a later operand has it.
"""

from __future__ import annotations

import itertools
import math
import string
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pnnx_fast._types import Array
from pnnx_fast.errors import ParameterError, ShapeError
from pnnx_fast.ops._checks import tensor_list
from pnnx_fast.ops.elementwise import lower_expression
from pnnx_fast.ops.linear import MOST_COMPLEX, multiply
from pnnx_fast.ops.registry import operator
from pnnx_fast.ops.symbolic import Builder, Tensor

ELLIPSIS = "..."
Labels = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Term:
    """A tensor whose dimensions have names."""

    labels: Labels
    tensor: Tensor

    def ordered(self, labels: Sequence[str]) -> Tensor:
        """View with the dimensions in the given order."""
        return self.tensor.permute([self.labels.index(name) for name in labels])


def _split(text: str) -> list[str]:
    """Labels of one term: single letters and at most one ellipsis."""
    if text.count(ELLIPSIS) > 1:
        raise ParameterError(f"{text!r} has more than one ellipsis", parameter="equation")
    before, dots, after = text.partition(ELLIPSIS)
    labels = [*before, *([ELLIPSIS] if dots else []), *after]
    wrong = [name for name in labels if name != ELLIPSIS and name not in string.ascii_letters]
    if wrong:
        raise ParameterError(f"{text!r} is not a list of labels", parameter="equation")
    return labels


def parse(equation: str, ranks: Sequence[int]) -> tuple[list[Labels], Labels]:
    """Labels of every operand and of the output; dimensions of an ellipsis are called ".0", ".1" … from the right."""
    left, arrow, right = equation.replace(" ", "").partition("->")
    terms = [_split(term) for term in left.split(",")]
    if len(terms) != len(ranks):
        raise ParameterError(f"{equation!r} has {len(terms)} operands, not {len(ranks)}", parameter="equation")
    if ELLIPSIS not in equation and any(len(term) < rank for term, rank in zip(terms, ranks, strict=True)):
        # PNNX names labels anew and drops an ellipsis; without it no shorter term is possible, so it is put back.
        terms = [[ELLIPSIS, *term] for term in terms]
        right = ELLIPSIS + right
    covered = 0
    operands: list[Labels] = []
    for term, rank in zip(terms, ranks, strict=True):
        hidden = rank - sum(name != ELLIPSIS for name in term)
        if hidden < 0 or (hidden > 0 and ELLIPSIS not in term):
            raise ShapeError(f"an operand of {equation!r} has another rank", expected=len(term), actual=rank)
        covered = max(covered, hidden)
        operands.append(_expand(term, hidden))
    used = [name for term in operands for name in term if not name.startswith(".")]
    output = _split(right) if arrow else [ELLIPSIS, *sorted(n for n in set(used) if used.count(n) == 1)]
    named = [name for name in output if name != ELLIPSIS]
    if len(set(named)) != len(named) or not set(named) <= set(used):
        raise ParameterError(f"the output of {equation!r} has a label twice or of its own", parameter="equation")
    return operands, _expand(output, covered)


def _expand(term: Sequence[str], hidden: int) -> Labels:
    dots = [f".{i}" for i in reversed(range(hidden))]
    return tuple(name for label in term for name in (dots if label == ELLIPSIS else [label]))


def _diagonal(labels: Labels, x: Tensor) -> Term:
    """Join dimensions of the same label into one."""
    names = tuple(dict.fromkeys(labels))
    shape, strides = [], []
    for name in names:
        sizes = [x.shape[d] for d, label in enumerate(labels) if label == name]
        if len(set(sizes)) != 1:
            raise ShapeError(f"label {name!r} has several sizes in one operand", actual=sizes)
        shape.append(sizes[0])
        strides.append(sum(x.strides[d] for d, label in enumerate(labels) if label == name))
    return Term(names, x.as_strided(shape, strides))


def _sum(b: Builder, term: Term, keep: set[str]) -> Term:
    """Sum over the labels that are not kept."""
    kept = tuple(name for name in term.labels if name in keep)
    gone = tuple(name for name in term.labels if name not in keep)
    if not gone:
        return term
    x = term.ordered(kept + gone)
    shape = x.shape[: len(kept)]
    rows, depth = math.prod(shape), math.prod(x.shape[len(kept) :])
    y = b.empty((rows, 1), x.dtype)
    multiply(b, b.reshape(x, (rows, depth)), b.constant(np.ones((depth, 1), x.dtype)), y=y)
    return Term(kept, b.reshape(y, shape))


def _contract(b: Builder, left: Term, right: Term, keep: set[str]) -> Term:
    """Product of two terms, summed over their common labels that are not kept."""
    left, right = _drop_ones(left, right), _drop_ones(right, left)
    common = set(left.labels) & set(right.labels)
    left, right = _sum(b, left, keep | common), _sum(b, right, keep | common)
    batch = tuple(name for name in left.labels if name in common and name in keep)
    inner = tuple(name for name in left.labels if name in common and name not in keep)
    rows = tuple(name for name in left.labels if name not in common)
    columns = tuple(name for name in right.labels if name not in common)
    a, c = left.ordered(batch + rows + inner), right.ordered(batch + inner + columns)
    sizes = dict(zip(batch + rows + inner, a.shape, strict=True)) | dict(
        zip(batch + inner + columns, c.shape, strict=True)
    )
    labels = batch + rows + columns
    shape = tuple(sizes[name] for name in labels)
    if not inner:
        for _ in columns:
            a = a.unsqueeze(a.ndim)
        for _ in rows:
            c = c.unsqueeze(len(batch))
        return Term(labels, lower_expression(b, "mul(@0,@1)", [a, c]))
    m, n, k = (math.prod(sizes[name] for name in group) for group in (rows, columns, inner))
    outer = shape[: len(batch)]
    y = b.empty((*outer, m, n), a.dtype)
    multiply(b, b.reshape(a, (*outer, m, k)), b.reshape(c, (*outer, k, n)), y=y)
    return Term(labels, b.reshape(y, shape))


def _drop_ones(term: Term, other: Term) -> Term:
    """Without dimensions of one entry that the other term has in full: they broadcast."""
    sizes = dict(zip(other.labels, other.tensor.shape, strict=True))
    gone = []
    for d, (name, n) in enumerate(zip(term.labels, term.tensor.shape, strict=True)):
        wanted = sizes.get(name, n)
        if n == 1 and wanted != 1:
            gone.append(d)
        elif n != wanted and wanted != 1:
            raise ShapeError(f"label {name!r} has several sizes", expected=n, actual=wanted)
    labels = tuple(name for d, name in enumerate(term.labels) if d not in gone)
    return Term(labels, term.tensor.squeeze(gone))


def _has_sum(operands: Sequence[Tensor], labels: Sequence[Labels], output: Labels) -> bool:
    """Whether there is a label to sum over that one operand alone has, or has in full, so that it is no product's."""
    gone = {name for term in labels for name in term} - set(output)
    sizes = [dict(zip(term, x.shape, strict=True)) for term, x in zip(labels, operands, strict=True)]
    return any(len(sizes) == 1 or sum(known.get(name, 1) != 1 for known in sizes) == 1 for name in gone)


def _by_numpy(b: Builder, operands: Sequence[Tensor], labels: Sequence[Labels], output: Labels) -> Tensor:
    numbers = {name: i for i, name in enumerate(dict.fromkeys(name for term in labels for name in term))}
    sizes: dict[str, int] = {}
    for term, x in zip(labels, operands, strict=True):
        for name, n in zip(term, x.shape, strict=True):
            if sizes.get(name, 1) != 1 and n not in (1, sizes[name]):
                raise ShapeError(f"label {name!r} has several sizes", expected=sizes[name], actual=n)
            sizes[name] = max(n, sizes.get(name, 1)) if n else 0
    dtype = np.result_type(*(x.dtype for x in operands))

    def compute(*arrays: Array) -> Array:
        pairs: list[Any] = []
        for array, term in zip(arrays, labels, strict=True):
            pairs += [array, [numbers[name] for name in term]]
        return np.asarray(np.einsum(*pairs, [numbers[name] for name in output]), dtype)

    return b.host(compute, operands, [([sizes[name] for name in output], dtype)])[0]


@operator("torch.einsum")
def einsum(b: Builder, *operands: Any, equation: str | None = None, path: Any = None) -> Tensor:
    """Sum of products by Einstein's convention; the equation may come first. torch.einsum."""
    if equation is None:
        equation, operands = str(operands[0]), operands[1:]
    if operands and isinstance(operands[0], (list, tuple)):
        operands = tuple(operands[0])
    operands = tuple(tensor_list(operands, "operands"))
    if not operands:
        raise ShapeError("there are no operands", actual=equation)
    labels, output = parse(equation, [x.ndim for x in operands])
    dtype = np.result_type(*(x.dtype for x in operands))
    if dtype.kind in "biu" and _has_sum(operands, labels, output):
        operands = tuple(b.cast(x, np.int64) for x in operands)  # as sums give them, unlike products
    if dtype.kind != "f" and (dtype.kind != "c" or len({*itertools.chain(*labels)}) > MOST_COMPLEX):
        return _by_numpy(b, operands, labels, output)
    computed = np.promote_types(dtype, np.float32)
    terms = [_diagonal(names, b.cast(x, computed)) for names, x in zip(labels, operands, strict=True)]
    term = terms[0]
    for i, right in enumerate(terms[1:], 2):
        keep = set(output).union(*(later.labels for later in terms[i:]))
        term = _contract(b, term, right, keep)
    term = _sum(b, term, set(output))
    return b.cast(term.ordered(output), dtype)
