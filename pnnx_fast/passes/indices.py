"""Indices that the converter wrote into the text of an indexing, and what the shape noted at the result tells of them.

Of an index of several dimensions it writes the beginning, as many entries as the first dimension has, and no inner
brackets. Used by the pass that restores shapes; it changes no graph.
"""

from __future__ import annotations

import math
import re

from pnnx_fast.errors import ShapeError
from pnnx_fast.ir.operator import Operator

__all__ = ["mesh_shape", "whole_indices"]

_COUNTING = r"\[\[0(,\d{1,9})*\](,\[0(,\d{1,9})*\])*\]\Z"
_NUMBER = r"-?\d{1,19}"
_NUMBERS = rf"\[{_NUMBER}(?:,{_NUMBER})*\]"
_MASK = r"\[(?:True|False)(?:,(?:True|False))*\]"
_ENTRY = rf"None|{_NUMBERS}|{_MASK}"
_INDICES = rf"\[(?:{_ENTRY})(?:,(?:{_ENTRY}))*\]"


def mesh_shape(op: Operator) -> tuple[int, ...] | None:
    """Shape that an indexing gives which only reshapes: a mesh of counting indices over the whole of the first axes.

    Of an index of several dimensions the converter writes the beginning, as many entries as its first dimension has:
    ``x[arange(2)[:, None, None], arange(5)]`` becomes ``[[0,1],[0]]`` with a result noted as (2,1,5).
    """
    text = op.value("expr") if len(op.inputs) == 1 == len(op.outputs) else None
    if not isinstance(text, str) or not re.match(_COUNTING, text, re.ASCII):
        return None
    lists = [[int(number) for number in entry.split(",")] for entry in text[2:-2].split("],[")]
    given, noted = op.inputs[0].shape or (), op.outputs[0].shape or ()
    rest = len(given) - len(lists)
    if rest < 0 or min(given, default=0) < 1 or any(entry != list(range(len(entry))) for entry in lists):
        return None
    axes, lead = given[: len(lists)], noted[: len(noted) - rest]
    # As written: the indices side by side.
    if lead == (max(map(len, lists)),) or any(len(entry) not in (1, n) for entry, n in zip(lists, axes, strict=True)):
        return None
    same = noted[len(noted) - rest :] == given[len(lists) :] and math.prod(lead) == math.prod(axes)
    return noted if same and [n for n in lead if n != 1] == [n for n in axes if n != 1] else None


def whole_indices(op: Operator) -> str | None:
    """Text of the indices of an indexing with the brackets that the converter left out, None where it is right.

    ``x[:, [[0], [3]]]`` is written as ``[None,[0,3]]`` with a result noted as (4,2,1,5); of ``x[:, [[0, 1], [2, 3]]]``,
    written as ``[None,[0,1]]``, the rest is lost.

    Raises
    ------
    ShapeError
        When the text does not hold all that made the noted result.
    """
    text = op.value("expr") if len(op.inputs) == 1 == len(op.outputs) else None
    given, noted = (op.inputs[0].shape, op.outputs[0].shape) if isinstance(text, str) else (None, None)
    if text is None or given is None or noted is None or not re.fullmatch(_INDICES, text, re.ASCII):
        return None
    entries = re.findall(_ENTRY, text[1:-1])
    lists = [e for e in entries if e != "None"]
    extra = len(noted) - len(given) + len(lists) - 1
    if not extra or not lists or len(entries) > len(given):
        return None
    ones = _inner_sizes(entries, noted, extra) == (1,) * extra
    if extra < 0 or not ones or "e" in "".join(lists):
        reason = "the converter wrote the beginning of these indices only (it keeps all with optlevel=0)"
        raise ShapeError(reason, operator=op.where, expected=list(noted), actual=text[:80])
    deep = [re.sub(_NUMBER, "[" * extra + r"\g<0>" + "]" * extra, e) for e in entries]
    return f"[{','.join(deep)}]"


def _inner_sizes(entries: list[str], noted: tuple[int, ...], extra: int) -> tuple[int, ...]:
    """Sizes of the index but the first: where the lists stand, or in front when there is something in between."""
    places = [i for i, e in enumerate(entries) if e != "None"]
    start = places[0] if places[-1] - places[0] < len(places) else 0
    return noted[start + 1 : start + 1 + extra]
