"""Equations of ``torch.einsum`` whose ellipses or first commas the converter left out.

The noted shapes tell the places of ellipses. Commas at the front are those of operands without dimensions.

Used by the pass that restores shapes; it changes no graph.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from pnnx_fast.ir.operator import Operator

__all__ = ["whole_equation"]

_ELLIPSIS = "..."
_TRIALS = 4096


def whole_equation(op: Operator) -> str | None:
    """The equation with the commas, or else the ellipses, that it lacks; None where it is right.

    ``bi...,bk...->b...ik`` is written as ``ij,ik->ijk``. An ellipsis leads unless the noted sizes rule that out; it
    then stands where they leave one place only.
    """
    text = op.value("equation")
    shapes = [x.shape for x in op.inputs]
    if not isinstance(text, str) or "." in text:
        return None
    left, arrow, right = text.replace(" ", "").partition("->")
    terms, given = left.split(","), [shape for shape in shapes if shape is not None]
    if len(terms) < len(shapes):
        return "," * (len(shapes) - len(terms)) + text
    if len(given) != len(shapes) or len(terms) != len(given):
        return None
    if not any(len(shape) > len(term) for term, shape in zip(terms, given, strict=True)):
        return None
    leading = [_ELLIPSIS + term for term in terms], _ELLIPSIS + right if arrow else ""
    noted = op.outputs[0].shape
    chosen = leading
    if noted is not None and arrow and not _fits(*leading, given, noted):
        places = [_placed(term, len(shape)) for term, shape in zip(terms, given, strict=True)]
        trials = itertools.islice(itertools.product(itertools.product(*places), _placed(right, len(noted))), _TRIALS)
        fitting = [(list(parts), result) for parts, result in trials if _fits(parts, result, given, noted)]
        chosen = fitting[0] if len(fitting) == 1 else leading
    return ",".join(chosen[0]) + arrow + chosen[1]


def _placed(term: str, rank: int) -> list[str]:
    """A term with an ellipsis at each place; as it is where it names all dimensions."""
    return [term[:i] + _ELLIPSIS + term[i:] for i in range(len(term) + 1)] if len(term) < rank else [term]


def _fits(terms: Sequence[str], right: str, given: Sequence[tuple[int, ...]], noted: tuple[int, ...]) -> bool:
    """Whether each label has one size, and the result those noted; a size of 1 is repeated, one that varies is -1."""
    sizes: dict[str, int] = {}
    for term, shape in zip(terms, given, strict=True):
        names = _labels(term, len(shape))
        if len(names) != len(shape):
            return False
        for name, size in zip(names, shape, strict=True):
            known = sizes.setdefault(name, size)
            if known in (1, -1):
                sizes[name] = size if known == 1 or size > 1 else known
            elif size not in (1, -1, known):
                return False
    names = _labels(right, len(noted))
    if len(names) != len(noted) or (_ELLIPSIS in right and {n for n in sizes if n[0] == "."} != {*names} - {*right}):
        return False
    return all(
        -1 in (size, sizes.get(name, 0)) or sizes.get(name) == size for name, size in zip(names, noted, strict=True)
    )


def _labels(term: str, rank: int) -> list[str]:
    """Labels of all dimensions; those of an ellipsis are numbered from the right."""
    before, dots, after = term.partition(_ELLIPSIS)
    hidden = range(rank - len(before) - len(after))
    return [*before, *(f".{i}" for i in reversed(hidden) if dots), *after]
