"""Large batches are computed part by part where that keeps activations in the caches.

``rows_apart`` tells whether no operator of a graph mixes the rows of a batch; ``best_part`` weighs the traffic of
activations, which grows with the rows computed at once, against that of weights, which every part reads again.
``for_rows`` makes operators fit a part that name the number of rows. The parts are run by ``runtime/parts.py``.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pnnx_fast.ir import Operand, Operator, Parameters
from pnnx_fast.ops import registry
from pnnx_fast.ops.shape import keeps_count

if TYPE_CHECKING:
    from pnnx_fast.runtime.lower import HostStep, KernelStep

__all__ = ["best_part", "for_rows", "rows_apart"]

PEAK, MEMORY, CACHE = 220.0, 37.0, 16 << 20
"""FLOPs of a thread and bytes of memory in a nanosecond; bytes of which half stays in the caches."""

EXPOSED_WEIGHTS, EXPOSED_ACTIVATIONS = 0.1, 1.0
"""How much of the traffic does not hide behind arithmetic."""

SHARED_SPEED, MEETING, WORTH_THREADS = 0.88, 3e3, 2e6
"""Of threads that share every step: how much of their peak they reach, nanoseconds that a step costs them; and work in
nanoseconds from which on it pays to start threads that share none."""

CALL = 3e3
"""Nanoseconds that a part costs beside its steps."""


def rows_apart(ops: Sequence[Operator], rows: int) -> bool:
    """Whether each of so many rows of the outputs depends on the same row of the inputs alone."""
    apart: set[Operand] = set()
    constant: set[Operand] = set()
    for op in ops:
        if op.type == "pnnx.Input":
            if any(x.shape is None or len(x.shape) < 2 for x in op.outputs):
                return False
            apart.update(op.outputs)
        elif op.type == "pnnx.Attribute":
            constant.update(op.outputs)
        elif op.type == "pnnx.Output":
            if not apart.issuperset(op.inputs):
                return False
        elif _keeps_rows(op, apart, constant, rows):
            apart.update(op.outputs)
        else:
            return False
    return True


def _keeps_rows(op: Operator, apart: set[Operand], constant: set[Operand], rows: int) -> bool:
    ranks = {len(x.shape) if x.shape is not None else 0 for x in op.inputs if x in apart}
    if op.type == "pnnx.Expression":
        # Tensors of another rank would meet the rows elsewhere.
        if len(ranks) != 1 or not all(x in apart or (x in constant and _has_no_rows(x, *ranks)) for x in op.inputs):
            return False
    elif not op.inputs or not apart.issuperset(op.inputs):
        return False
    definition = registry.find(op.type)
    rule = None if definition is None else definition.rows
    if rule is None or isinstance(rule, int):
        return rule is not None and min(ranks) >= rule
    return rule(op, rows)


def _has_no_rows(x: Operand, rank: int) -> bool:
    """Whether a constant beside tensors of that rank does not reach the dimension of rows."""
    if not x.shape:
        return False
    return len(x.shape) < rank or (len(x.shape) == rank and x.shape[0] == 1)


def for_rows(ops: Sequence[Operator], rows: int) -> list[Operator]:
    """Operators for another number of rows: new shapes that name it are changed, in copies."""
    return [_reshaped(op, rows) if _names_rows(op) else op for op in ops]


def _names_rows(op: Operator) -> bool:
    definition = registry.find(op.type)
    return definition is not None and definition.rows is keeps_count


def _reshaped(op: Operator, rows: int) -> Operator:
    shape: Any = op.params["shape"].value
    if shape[0] == -1:
        return op
    other = copy.copy(op)
    other.params = Parameters(op.params, shape=(rows, *shape[1:]))
    return other


def best_part(steps: Sequence[KernelStep | HostStep], rows: int, arena_bytes: int, nthreads: int) -> tuple[int, bool]:
    """Rows to compute at once, a divisor of ``rows``, and whether every thread computes parts of its own.

    ``steps`` and ``arena_bytes`` are those of all rows at once.
    """
    work = []
    for step in steps:
        weights = sum(t.nbytes for t in step.tensors if t.is_constant)
        others = sum(t.nbytes for t in step.tensors if not t.is_constant)
        work.append((step.flops / rows / PEAK, weights / MEMORY, others / MEMORY))
    enough = sum(compute for compute, _, _ in work) * rows > WORTH_THREADS

    def cost(choice: tuple[int, bool]) -> float:
        part, apart = choice
        rounds = -(-rows // part // nthreads) if apart else rows // part
        speed = 1.0 if apart or nthreads == 1 else nthreads * SHARED_SPEED
        meetings = 0.0 if apart or nthreads == 1 else MEETING * len(work)
        living = (part * nthreads if apart else part) * arena_bytes / rows
        missed = EXPOSED_ACTIVATIONS * living / (living + CACHE)
        total = rounds * (CALL + meetings)
        for compute, weights, others in work:
            arithmetic, memory = part * compute / speed, weights * (nthreads if apart else 1)
            exposed = max(arithmetic, memory) + EXPOSED_WEIGHTS * min(arithmetic, memory)
            total += rounds * exposed + missed * others
        return total

    ways = [False, True] if nthreads > 1 and enough else [False]
    low = [n for n in range(1, math.isqrt(rows) + 1) if rows % n == 0]
    parts = sorted({*low, *(rows // n for n in low)}, reverse=True)
    return min(((n, apart) for apart in ways for n in parts if not apart or n < rows), key=cost)
