"""How much a model file may ask for before it counts as broken or hostile. Readers check against it."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["DEFAULT_LIMITS", "Limits"]


class Limits(NamedTuple):
    """Limits on what a model file may declare.

    Parameters
    ----------
    tensor_bytes : int
        Size of one tensor, weight or activation.
    operators : int
        Operators of a graph.
    """

    tensor_bytes: int = (1 << 40) - 1
    operators: int = 10_000_000


DEFAULT_LIMITS = Limits()
