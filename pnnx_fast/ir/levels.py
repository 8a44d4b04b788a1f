"""Names of one function of PyTorch in files: the converter's levels put different spaces in front of them."""

from __future__ import annotations

__all__ = ["bare", "spellings"]

_SPACES = ("aten::", "torch.", "Tensor.")


def spellings(*names: str) -> frozenset[str]:
    """Operator types of functions at all levels.

    Examples
    --------
    >>> sorted(spellings("slice"))
    ['Tensor.slice', 'aten::slice', 'torch.slice']
    """
    return frozenset(space + name for space in _SPACES for name in names)


def bare(type: str) -> str:
    """Name of a function without the space that a level puts in front.

    Examples
    --------
    >>> bare("aten::slice"), bare("Tensor.slice")
    ('slice', 'slice')
    """
    return type.removeprefix("aten::").rpartition(".")[2]
