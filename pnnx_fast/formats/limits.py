"""How much a model file may ask for before it counts as broken or hostile. Readers check against it."""

from __future__ import annotations

__all__ = ["DEFAULT_LIMITS", "Limits"]


class Limits:
    """Limits on what a model file may declare.

    Parameters
    ----------
    tensor_bytes : int
        Size of one tensor, weight or activation.
    operators : int
        Operators of a graph.
    """

    __slots__ = ("operators", "tensor_bytes")

    def __init__(self, tensor_bytes: int = (1 << 40) - 1, operators: int = 10_000_000) -> None:
        self.tensor_bytes, self.operators = tensor_bytes, operators


DEFAULT_LIMITS = Limits()
