"""Reshapes: which operators they are, and which axes of the input became which of the result."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pnnx_fast.passes.moves import RESHAPES

__all__ = ["FLATTENS", "grouped", "regrouped"]

FLATTENS = (*RESHAPES, "torch.flatten", "nn.Flatten")
"""What may lay several axes out in one."""


def grouped(a: Sequence[int], b: Sequence[int]) -> Iterator[tuple[list[int], list[int]]]:
    """Runs of axes of both shapes with equal products, the shortest ones."""
    i = j = 0
    while i < len(a) or j < len(b):
        ins: list[int] = []
        outs: list[int] = []
        p = q = 1
        while True:
            wants_out = ins and not outs and j < len(b)
            if (p <= q and i < len(a) and not wants_out) or j >= len(b):
                ins.append(i)
                p *= a[i]
                i += 1
            else:
                outs.append(j)
                q *= b[j]
                j += 1
            done = i >= len(a) and j >= len(b)
            if done or (p == q and ins and outs and (i >= len(a)) == (j >= len(b))):
                break
        yield ins, outs


def regrouped(a: Sequence[int], b: Sequence[int], target: Sequence[int]) -> list[tuple[list[int], list[int]]]:
    """Groups of axes of a shape `a`, which becomes `b`, where neighbours of equal size of which one varies are one.

    They may have been cut anew. An axis of one that varies is of those before it that are put together, if they do.
    """
    joined: list[tuple[list[int], list[int]]] = []
    for ins, outs in grouped(a, target):
        vary = [a[i] != b[i] for i in ins]
        if joined and len(joined[-1][1]) == 1 and len(ins) > 2 and a[ins[0]] == 1 and vary[0] and not any(vary[1:]):
            before = joined[-1]
            if len(before[0]) > 1 and any(a[i] != b[i] for i in before[0]):
                joined[-1], ins = ([*before[0], ins[0]], before[1]), ins[1:]
        i = ins[0] if len(ins) == len(outs) == 1 else 0
        before = joined[-1] if joined and i else ([], [])
        if (
            before[0] == [i - 1]
            and len(before[1]) == 1
            and a[i] == a[i - 1]
            and (a[i] == b[i]) != (a[i - 1] == b[i - 1])
        ):
            joined[-1] = ([i - 1, i], [*before[1], *outs])
        else:
            joined.append((ins, outs))
    return joined
