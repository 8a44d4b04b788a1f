"""Memory plan: gives every arena buffer of a program an offset, from the steps during which it is alive.

Greedy by size (Pisarchyk and Lee, "Efficient Memory Management for Deep Neural Net Inference", 2020): the largest
buffer first, each at the lowest offset where no buffer that lives at the same time lies.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from pnnx_fast.ops.symbolic import Buffer

__all__ = ["lifetimes", "plan_arena"]

ALIGNMENT = 64


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
    offsets: dict[Buffer, int] = {}
    placed: list[tuple[int, int, int, int]] = []  # begin, end, first, last
    for buffer in sorted(merged, key=lambda b: (-b.nbytes, merged[b])):
        first, last = merged[buffer]
        size = -(-max(buffer.nbytes, 1) // ALIGNMENT) * ALIGNMENT
        at = 0
        for begin, end, f, l in placed:
            if f <= last and first <= l:
                if at + size <= begin:
                    break
                at = max(at, end)
        offsets[buffer] = at
        placed.append((at, at + size, first, last))
        placed.sort()
    for out, source in root.items():
        offsets[out] = offsets[source]
    return offsets, max((p[1] for p in placed), default=0)
