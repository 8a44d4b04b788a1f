"""A lowering whose steps nobody wants: it finds shapes and memory orders only, so it plans and packs nothing.

For the first walk over graphs with concatenations, and for code that asks for shapes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pnnx_fast.ops.symbolic import Chosen, KernelPlan, Tensor
from pnnx_fast.runtime.lower import Lowering

__all__ = ["DryLowering"]

_NO_PLAN = KernelPlan(-1, 0, 0, "")


class DryLowering(Lowering):
    """A builder without steps. What kernels plan decides over memory of steps alone."""

    wants_steps = False

    def prefer(self, given: Chosen, options: Callable[[], Sequence[Chosen]], weight: Tensor, fields: Any) -> Chosen:
        """See Builder."""
        return given

    def plan(self, kernel: str, **fields: Any) -> KernelPlan:
        """See Builder."""
        return _NO_PLAN

    def pack(self, kernel: str, weight: Tensor, nbytes: int, **fields: Any) -> Tensor:
        """See Builder."""
        return weight

    def step(self, kernel: str, **fields: Any) -> None:
        """See Builder."""
