"""Shapes and dtypes of an operator's outputs, found by lowering it for tensors of given shapes and dropping the steps.

For code that builds graphs of which no file says the shapes. Lowering itself is the only source of shapes.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np

from pnnx_fast.errors import ShapeError
from pnnx_fast.ir import Operand, Operator, dtypes
from pnnx_fast.ops.registry import OperatorDef
from pnnx_fast.ops.symbolic import Buffer, Tensor, Value
from pnnx_fast.runtime.concat import DryLowering
from pnnx_fast.runtime.constants import Constants

__all__ = ["Annotator"]

MOST_KNOWN = 4096
"""Operators that are remembered."""


class _Shapes(DryLowering):
    """A builder that computes shapes only: nothing is folded or kept."""

    def cached(self, key: Hashable, make: Any) -> Tensor:
        return self.constants.tensor(make())

    def _fold(self, definition: OperatorDef, args: list[Value], kwargs: dict[str, Value]) -> Value:
        return definition.function(self, *args, **kwargs)


class Annotator:
    """Sets shape and dtype of the outputs of operators whose inputs have them; remembers those of operators alike.

    Parameters
    ----------
    isa : str
    """

    def __init__(self, isa: str) -> None:
        self._isa = isa
        self._known: dict[Hashable, list[tuple[tuple[int, ...] | None, str | None]]] = {}

    def __call__(self, op: Operator) -> None:
        """Annotate the outputs of an operator; they stay unknown when they depend on data.

        Raises
        ------
        ShapeError, ParameterError
            What the operator itself says about its inputs and parameters.
        """
        key = _likeness(op)
        found = self._known.get(key) if key is not None else None
        if found is None:
            self._lower(op)
            if key is not None:
                if len(self._known) >= MOST_KNOWN:
                    self._known.clear()
                self._known[key] = [(o.shape, o.dtype) for o in op.outputs]
            return
        for operand, (shape, dtype) in zip(op.outputs, found, strict=True):
            operand.shape, operand.dtype = shape, dtype

    def _lower(self, op: Operator) -> None:
        builder = _Shapes(self._isa, 1, Constants())
        values: dict[str, Value] = {x.name: _tensor(x) for x in op.inputs}
        stage = builder.run([op], values, [])
        if stage.breaker is not None:
            return
        _set(op, stage.values)


def _likeness(op: Operator) -> Hashable:
    """What decides the shapes of an operator's outputs, None when values of a weight may do so."""
    attrs = tuple((key, attr.shape, attr.dtype) for key, attr in op.attrs.items())
    if any(dtype not in ("f32", "f16", "f64") for _, _, dtype in attrs):
        return None
    inputs = tuple((x.shape, x.dtype) for x in op.inputs)
    params = repr(op.values())
    return op.type, len(op.outputs), inputs, tuple(op.inputnames), params, attrs


def _tensor(operand: Operand) -> Tensor:
    if operand.shape is None or operand.dtype is None:
        raise ShapeError("the shape depends on data", operand=operand.name)
    dtype = np.dtype(dtypes.by_text[operand.dtype].computed)
    return Tensor(Buffer("arena", int(np.prod(operand.shape)) * dtype.itemsize), operand.shape, dtype)


def _set(op: Operator, values: Mapping[str, Value]) -> None:
    for operand in op.outputs:
        value = values.get(operand.name)
        if isinstance(value, Tensor):
            operand.shape = value.shape
            operand.dtype = dtypes.by_numpy[str(value.dtype)].text
