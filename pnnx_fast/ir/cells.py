"""Constants that PyTorch's recurrent cells write to in the converter's own run; nothing here changes a graph.

``nn.LSTMCell``, ``nn.GRUCell`` and ``nn.RNNCell`` work in place on the product of the hidden state. Where the state is
a constant, so is the product, and the file holds what the cell made of it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pnnx_fast.ir.folded import FOLDED
from pnnx_fast.ir.levels import spellings
from pnnx_fast.ir.operator import Operand, Operator

__all__ = ["CellPart", "cell_part"]

_CHUNKS = spellings("unsafe_chunk")
"""What cells take gates apart by, and hardly anything else."""

_LSTM = ("F.sigmoid", "F.sigmoid", "F.tanh", "F.sigmoid")
_SUM, _NEW_GATE = "add(@0,@1)", "add(@0,mul(@1,@2))"
_SIMPLE = ("F.tanh", "F.relu")
_LINEAR = "F_linear_"
"""How layers are named that are no modules, as those in cells."""


@dataclass(frozen=True)
class CellPart:
    """A constant that a cell wrote to.

    Attributes
    ----------
    constant : Operator
    op : Operator
        What the cell did in place first: the sum of the constant and the product of the input, or for the new gate of a
        GRU, of which the constant is a factor, the whole formula.
    functions : tuple of str
        Types of the functions in place after the sum, for equal parts of the last axis.
    place, parts : int
        Which part of the product of the hidden state the constant is, and of how many.
    factor : Operator or None
        The constant of the reset gate, by which the cell multiplied that of the new gate.
    """

    constant: Operator
    op: Operator
    functions: tuple[str, ...] = ()
    place: int = 0
    parts: int = 1
    factor: Operator | None = None


def cell_part(op: Operator, shared: bool = False) -> CellPart | None:
    """The constant that an operator wrote to, where it is one of a cell whose traces the constant bears.

    ``shared`` says that others may read the constant, too.
    """
    formula = str(op.value("expr", "")).replace(" ", "") if op.outputs else ""
    if formula == _NEW_GATE and len(op.inputs) == 3:
        return _new_gate(op, shared)
    if formula != _SUM or len(op.inputs) != 2:
        return None
    constant, user = _folded(op, 0, shared), _only_user(op.outputs[0])
    if constant is None or user is None:
        return None
    if user.type in _CHUNKS:
        unpack = _only_user(user.outputs[0])
        users = [_only_user(x) for x in unpack.outputs] if unpack is not None else []
        functions = tuple(x.type if x is not None else "" for x in users)
        return CellPart(constant, op, functions) if functions == _LSTM and _fits(constant, functions) else None
    gate = _gate(op.inputs[1])
    if user.type == "F.sigmoid" and gate is not None and gate < 2 and _fits(constant, (user.type,)):
        return CellPart(constant, op, (user.type,), gate, 3)
    layer = op.inputs[1].producer
    if user.type in _SIMPLE and layer is not None and layer.name.startswith(_LINEAR):
        return CellPart(constant, op)
    return None


def _new_gate(op: Operator, shared: bool) -> CellPart | None:
    constant, sigmoid = _folded(op, 1, shared), op.inputs[2].producer
    reset = sigmoid.inputs[0].producer if sigmoid is not None and sigmoid.type == "F.sigmoid" else None
    factor = (
        cell_part(reset, shared) if reset is not None and constant is not None and _gate(op.inputs[0]) == 2 else None
    )
    if constant is None or factor is None or factor.parts != 3 or factor.place != 0:
        return None
    return CellPart(constant, op, place=2, parts=3, factor=factor.constant)


def _folded(op: Operator, k: int, shared: bool) -> Operator | None:
    """The constant that is an input of an operator, as large as the result; nobody else reads it, unless shared."""
    x = op.inputs[k]
    maker = x.producer
    data = maker.attrs.get("data") if maker is not None and maker.type == "pnnx.Attribute" else None
    if maker is None or data is None or not maker.name.startswith(FOLDED):
        return None
    if not shared and len(x.consumers) != 1:
        return None
    fits = len(data.shape) == 2 and op.outputs[0].shape == data.shape and data.dtype in ("f16", "f32", "f64")
    return maker if fits else None


def _only_user(x: Operand) -> Operator | None:
    return x.consumers[0] if len(x.consumers) == 1 and x.consumers[0].outputs else None


def _gate(x: Operand) -> int | None:
    """Which of three gates of a GRU an operand is the input's share of."""
    unpack = x.producer
    if unpack is None or unpack.type != "prim::ListUnpack" or len(unpack.outputs) != 3 or not unpack.inputs:
        return None
    chunk = unpack.inputs[0].producer
    return unpack.outputs.index(x) if chunk is not None and chunk.type in _CHUNKS else None


def _fits(constant: Operator, functions: tuple[str, ...]) -> bool:
    """Whether a constant may be results of functions, as neither biases nor zeros are.

    Results of a run on ones may be no numbers at all, where attention found everything masked, for example.
    """
    data = constant.attrs["data"].numpy()
    if not data.size or data.shape[1] % len(functions):
        return False
    if np.isnan(data).all():
        return True
    for part, function in zip(np.split(data, len(functions), 1), functions, strict=True):
        least = 0 if function == "F.sigmoid" else -1
        if not ((part >= least) & (part <= 1)).all() or (function == "F.sigmoid" and not part.any()):
            return False
    return True
