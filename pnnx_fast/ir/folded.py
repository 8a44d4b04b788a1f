"""Constants that the converter computed, and what it may have done to them; it changes no graph."""

from __future__ import annotations

import math

from pnnx_fast.ir.operator import Operator

__all__ = ["WRITES", "changed_constant"]

_FOLDED = "pnnx_fold_"
"""How the names of constants begin that the converter computed."""

_REPLACING = ("scatter", "index_put", "index_copy", "index_fill", "masked_scatter")
_ADDING = ("scatter_add", "scatter_reduce", "index_add", "index_reduce")


def _types(names: tuple[str, ...]) -> frozenset[str]:
    return frozenset(space + name for space in ("aten::", "torch.", "Tensor.") for name in names)


_REPLACED = _types(_REPLACING)
WRITES = _REPLACED | _types(_ADDING)
"""Operators that write at places which the data tells, into the first input."""


def changed_constant(op: Operator) -> Operator | None:
    """The constant that a write by indices goes to, where it may hold what the converter's own run wrote there.

    The converter runs the model before it notes the constants, and ``torch.zeros(n).scatter_add_(0, i, x)`` has changed
    its zeros by then. Such a tensor is filled with one value before it is written to, and with several ones thereafter.
    As many new values as there are places are taken for a permutation, which leaves nothing of the old ones.
    """
    maker = op.inputs[0].producer if op.inputs and op.type in WRITES else None
    if maker is None or maker.type != "pnnx.Attribute" or not maker.name.startswith(_FOLDED):
        return None
    data = maker.attrs.get("data")
    if data is None or data.dtype is None or data.elemcount < 2:
        return None
    replaces = op.type in _REPLACED and not ("accumulate" in op.params and op.params["accumulate"].value)
    if replaces and any(math.prod(x.shape) >= data.elemcount for x in op.inputs[1:] if x.shape is not None):
        return None
    values = data.numpy().reshape(-1)
    return maker if bool((values != values[0]).any()) else None
