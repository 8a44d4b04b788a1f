"""Order of operators: dependency order, and cycles.

Used by :class:`Graph`; sees operators and operands only.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pnnx_fast.errors import CycleError
from pnnx_fast.ir.operator import Operator

__all__ = ["topological"]


def topological(ops: Sequence[Operator]) -> Iterator[Operator]:
    """Yield operators so that producers come first; those already in such an order keep it.

    Raises
    ------
    CycleError
        Naming the operators on the cycle.
    """
    done: set[Operator] = set()
    open_: dict[Operator, None] = {}
    for start in ops:
        stack = [] if start in done else [(start, iter(start.inputs))]
        if stack:
            open_[start] = None
        while stack:
            op, pending = stack[-1]
            for operand in pending:
                producer = operand.producer
                if producer is None or producer in done:
                    continue
                if producer in open_:
                    path = list(open_)
                    # The walk goes upstream; the message follows the data.
                    raise CycleError([x.name for x in reversed(path[path.index(producer) :])])
                open_[producer] = None
                stack.append((producer, iter(producer.inputs)))
                break
            else:
                stack.pop()
                del open_[op]
                done.add(op)
                yield op
