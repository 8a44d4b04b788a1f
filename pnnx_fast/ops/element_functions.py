"""Element-wise operators with names of their own: activations, comparisons, logical and arithmetic functions.

They are made from the table of `pnnx_fast.expression.operators`; `elementwise` lowers them like any expression.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import numpy as np

from pnnx_fast._types import SPECIAL_FLOATS
from pnnx_fast.errors import ParameterError, ShapeError
from pnnx_fast.expression import Call, Input
from pnnx_fast.expression.functions import FUNCTIONS
from pnnx_fast.expression.operators import FORMS, REQUIRED, Form
from pnnx_fast.ops._checks import require_dims
from pnnx_fast.ops.elementwise import lower_expression
from pnnx_fast.ops.registry import operator
from pnnx_fast.ops.shape import axis_of
from pnnx_fast.ops.symbolic import Builder, Tensor, Value


class _FormOperator:
    """Operator function of a row of the table; the signature that the row describes is made when it is asked for."""

    def __init__(self, form: Form) -> None:
        self._form = form
        self.__name__, self.__doc__ = form.function, form.summary

    def __call__(self, b: Builder, *operands: Any, **numbers: Any) -> Value:
        function = self._form.function
        for key, choice in self._form.variants.items():
            if numbers.get(key) not in choice:
                raise ParameterError(f"{key} must be one of {sorted(map(str, choice))}", parameter=key)
            function = choice[numbers.pop(key, None)]
        if any(isinstance(v, (list, tuple)) and v for v in operands):
            operands = tuple(_line(b, v, operands) for v in operands)
        defaults = {a.name: a.default for a in self._form.arguments if a.is_number}
        arguments = [*operands, *(defaults | numbers).values()]
        words = [v for v in arguments if isinstance(v, str) and v not in SPECIAL_FLOATS]
        if words:
            raise ParameterError(f"a tensor or a number is expected, not {words[0]!r}")
        arguments = [SPECIAL_FLOATS[v] if isinstance(v, str) else v for v in arguments]
        return lower_expression(b, Call(function, [Input(i) for i in range(len(arguments))]), arguments)

    @property
    def __signature__(self) -> inspect.Signature:
        kind = inspect.Parameter
        parameters = [kind("b", kind.POSITIONAL_OR_KEYWORD, annotation=Builder)]
        for argument in self._form.arguments:
            default = kind.empty if argument.default is REQUIRED else argument.default
            place = kind.KEYWORD_ONLY if argument.is_number else kind.POSITIONAL_OR_KEYWORD
            annotation = float if argument.is_number else Any
            parameters.append(kind(argument.name, place, default=default, annotation=annotation))
        parameters += [kind(k, kind.KEYWORD_ONLY, default=None, annotation=str | None) for k in self._form.variants]
        return inspect.Signature(parameters, return_annotation=Value)


def _line(b: Builder, value: Any, operands: Sequence[Any]) -> Any:
    """A list of numbers as a tensor, of the type of its companion: so the converter writes constant lines of ONNX."""
    if not isinstance(value, (list, tuple)) or not all(isinstance(v, (bool, int, float)) for v in value):
        return value
    line = np.array(value)
    same = [v.dtype for v in operands if isinstance(v, Tensor) and v.dtype.kind == line.dtype.kind]
    return b.constant(line.astype(same[0] if same else np.float32 if line.dtype.kind == "f" else line.dtype))


for _type, _form in FORMS.items():
    _apart = 0 if all(a.is_number for a in _form.arguments[1:]) else None
    operator(_type, native=FUNCTIONS[_form.function].opcode is not None, rows=_apart)(_FormOperator(_form))


@operator("nn.RReLU", "F.rrelu")
def rrelu(b: Builder, input: Tensor, *, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = False) -> Value:
    """Leaky ReLU with the mean of both slopes, as in evaluation."""
    return lower_expression(b, "leaky_relu(@0,@1)", [input, (lower + upper) / 2])


@operator("nn.PReLU", "F.prelu")
def prelu(b: Builder, input: Tensor, weight: Tensor, *, num_parameters: int | None = None) -> Value:
    """The input where it is positive, else the channel's weight times it."""
    if weight.ndim == 1 and input.ndim > 1:
        weight = weight.as_strided([weight.size, *[1] * (input.ndim - 2)], [weight.strides[0], *[1] * (input.ndim - 2)])
    if not input.ndim:
        weight = b.reshape(weight, ())
    return lower_expression(b, "prelu(@0,@1)", [input, weight])


@operator("nn.GLU", "F.glu")
def glu(b: Builder, input: Tensor, *, dim: int = -1) -> Value:
    """First half times the sigmoid of the second. torch.nn.GLU."""
    require_dims(input, 1)
    axis = axis_of(dim, input.ndim)
    if input.shape[axis] % 2:
        raise ShapeError("glu halves a dimension of even size", actual=input.shape[axis])
    half = input.shape[axis] // 2
    parts = [input.narrow(axis, 0, half), input.narrow(axis, half, half)]
    return lower_expression(b, "mul(@0,sigmoid(@1))", parts)
