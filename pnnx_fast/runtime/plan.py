"""Memory plan: gives every arena buffer of a program an offset, from the steps during which it is alive.

Greedy by size (Pisarchyk and Lee, "Efficient Memory Management for Deep Neural Net Inference", 2020): the largest
buffer first, each where no buffer that lives at the same time lies. Among such places one is preferred that has its
middle where a larger buffer has its own: threads take the same part of every tensor, as far as they can, and so write
to lines that are in the cache of their own core. Else the lowest place is taken. Memory that no cache holds anyway is
also planned with the lowest places alone, which are preferred if they take clearly less.
"""

from __future__ import annotations

import sys
from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate

from pnnx_fast.ops.symbolic import Buffer

__all__ = ["lifetimes", "plan_arena"]

ALIGNMENT = 64

LARGE, CLEARLY = 8 << 20, 1 / 16
"""Bytes of an arena from which on a smaller one is looked for, and the share that it must save."""


def lifetimes(uses: Sequence[Iterable[Buffer]]) -> dict[Buffer, tuple[int, int]]:
    """First and last step of each arena buffer; ``uses[i]`` are the buffers of step i."""
    spans: dict[Buffer, tuple[int, int]] = {}
    for i, buffers in enumerate(uses):
        for buffer in buffers:
            if buffer.kind == "arena":
                spans[buffer] = (spans[buffer][0] if buffer in spans else i, i)
    return spans


def plan_arena(
    spans: Mapping[Buffer, tuple[int, int]], pairs: Sequence[tuple[int, Buffer, Buffer]] = ()
) -> tuple[dict[Buffer, int], int]:
    """Offsets of all buffers and the size of the arena.

    ``pairs`` are chances (step, out, in) to work in place: taken when ``in`` dies and ``out`` is born at that step.
    """
    root: dict[Buffer, Buffer] = {}
    merged = dict(spans)
    for step, out, source in pairs:
        source = root.get(source, source)
        if out not in merged or source not in merged or out is source or out.nbytes > source.nbytes:
            continue
        if merged[out][0] == step and merged[source][1] == step:
            merged[source] = (merged[source][0], merged.pop(out)[1])
            root = {k: source if v is out else v for k, v in root.items()}
            root[out] = source
    offsets, total = _placed(merged, around=True)
    if total > LARGE and _most_alive(merged) < total * (1 - CLEARLY):
        lowest = _placed(merged, around=False)
        if lowest[1] < total * (1 - CLEARLY):
            offsets, total = lowest
    for out, source in root.items():
        offsets[out] = offsets[source]
    return offsets, total


def _most_alive(spans: Mapping[Buffer, tuple[int, int]]) -> int:
    """Bytes of the buffers that live at the same time, which no plan can do without."""
    changes: dict[int, int] = {}
    for buffer, (first, last) in spans.items():
        changes[first] = changes.get(first, 0) + buffer.nbytes
        changes[last + 1] = changes.get(last + 1, 0) - buffer.nbytes
    return max(accumulate(changes[step] for step in sorted(changes)), default=0)


def _placed(spans: Mapping[Buffer, tuple[int, int]], around: bool) -> tuple[dict[Buffer, int], int]:
    """Offsets of buffers and the size of all; the flag says whether places around middles are preferred."""
    offsets: dict[Buffer, int] = {}
    placed: list[tuple[int, int, int, int]] = []  # begin, end, first, last
    middles: list[int] = []
    total = 0
    for buffer in sorted(spans, key=lambda b: (-b.nbytes, spans[b])):
        first, last = spans[buffer]
        size = -(-max(buffer.nbytes, 1) // ALIGNMENT) * ALIGNMENT
        busy = [(begin, end) for begin, end, f, l in placed if f <= last and first <= l]
        at = offsets[buffer] = _place(size, list(_gaps(busy)), middles, total)
        insort(placed, (at, at + size, first, last))
        middle = at + _half(size)
        if around and middle not in middles:
            insort(middles, middle)
        total = max(total, at + size)
    return offsets, total


def _half(size: int) -> int:
    return size // 2 // ALIGNMENT * ALIGNMENT


def _gaps(busy: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Ranges between busy ones, which are sorted by their beginnings, and all that follows."""
    at = 0
    for begin, end in busy:
        if begin > at:
            yield at, begin
        at = max(at, end)
    yield at, sys.maxsize


def _place(size: int, gaps: Sequence[tuple[int, int]], middles: Sequence[int], total: int) -> int:
    """The lowest place around a middle that takes no more than what is taken, else the lowest one."""
    half = _half(size)
    for begin, end in gaps:
        i = bisect_left(middles, begin + half)
        if i < len(middles) and middles[i] - half + size <= min(end, total):
            return middles[i] - half
    return next(begin for begin, end in gaps if begin + size <= end)
