"""Which PNNX operator types are element-wise functions, and how their inputs and parameters become arguments.

One row a type. The operators of `ops/elementwise.py` are made from it, and the fusion pass uses it to see a chain of
operators as one expression. It knows neither graphs nor tensors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from pnnx_fast._types import SPECIAL_FLOATS
from pnnx_fast.errors import ExpressionError
from pnnx_fast.expression.parser import parse
from pnnx_fast.expression.tree import Call, Constant, Input, Node

__all__ = ["FORMS", "REQUIRED", "Argument", "Form", "as_expression"]

REQUIRED = object()
"""Default of an argument that must be given."""


class Argument:
    """One argument: PNNX's name, default, and whether it may only be a number."""

    __slots__ = ("default", "is_number", "name")

    def __init__(self, name: str, default: Any = REQUIRED, is_number: bool = False) -> None:
        self.name, self.default, self.is_number = name, default, is_number


class Form:
    """An operator type as a function of the table; `variants` choose another function by a parameter's value."""

    __slots__ = ("arguments", "function", "summary", "variants")

    def __init__(
        self,
        function: str,
        arguments: tuple[Argument, ...],
        summary: str,
        variants: Mapping[str, Mapping[Any, str]] = MappingProxyType({}),
    ) -> None:
        self.function, self.arguments, self.summary, self.variants = function, arguments, summary, variants

    def call(self, values: Mapping[str, Any], inputs: Sequence[str]) -> Call | None:
        """The expression over inputs of these names with these parameters, None if they do not fit."""
        function = self.function
        for key, choice in self.variants.items():
            value = values.get(key)
            if isinstance(value, list) or value not in choice:
                return None
            function = choice[value]
        named = {name: i for i, name in enumerate(inputs) if name}
        free = [i for i, name in enumerate(inputs) if not name]
        nodes: list[Node] = []
        for argument in self.arguments:
            if argument.name in named:
                nodes.append(Input(named.pop(argument.name)))
            elif argument.name in values:
                number = _number(values[argument.name])
                if isinstance(number, _Absent):
                    return None
                nodes.append(Constant(number))
            elif free:
                nodes.append(Input(free.pop(0)))
            elif argument.default is REQUIRED:
                return None
            else:
                nodes.append(Constant(argument.default))
        known = {a.name for a in self.arguments} | self.variants.keys()
        return None if named or free or values.keys() - known else Call(function, nodes)


class _Absent:
    """No number."""


def _number(value: Any) -> bool | int | float | complex | _Absent | None:
    if isinstance(value, str):
        return SPECIAL_FLOATS.get(value, _Absent())
    return value if value is None or isinstance(value, bool | int | float | complex) else _Absent()


def as_expression(
    type: str, values: Mapping[str, Any], input_names: Sequence[str], inputs: int, attributes: int = 0
) -> Node | None:
    """The expression over its inputs that an operator computes, or None when it is not element-wise.

    Parameters
    ----------
    type : str
        PNNX operator type.
    values : mapping
        Values of the parameters.
    input_names : sequence of str
        Names of the input slots; empty when none has a name.
    inputs, attributes : int
        Number of inputs and of weights.
    """
    if attributes:
        return None
    if type == "pnnx.Expression":
        try:
            return parse(str(values["expr"])) if "expr" in values else None
        except ExpressionError:
            return None  # lowering says what is wrong, and where
    form = FORMS.get(type)
    return None if form is None else form.call(values, [*input_names, *[""] * (inputs - len(input_names))])


def _numbers(**defaults: Any) -> tuple[Argument, ...]:
    return (Argument("input"), *(Argument(name, default, True) for name, default in defaults.items()))


_GELU = {"approximate": {None: "gelu", "none": "gelu", "tanh": "gelu_tanh"}}


def _activations() -> dict[str, Form]:
    """Types that are a module of nn as well as a function of F."""
    rows: list[tuple[str, str, str, tuple[Argument, ...], str]] = [
        ("nn.ReLU", "F.relu", "relu", _numbers(), "max(input, 0)."),
        ("nn.ReLU6", "F.relu6", "relu6", _numbers(), "min(max(input, 0), 6)."),
        ("nn.Sigmoid", "F.sigmoid", "sigmoid", _numbers(), "1 / (1 + exp(-input))."),
        ("nn.SiLU", "F.silu", "silu", _numbers(), "input sigmoid(input)."),
        ("nn.Tanh", "F.tanh", "tanh", _numbers(), "Hyperbolic tangent."),
        ("nn.Mish", "F.mish", "mish", _numbers(), "input tanh(softplus(input))."),
        ("nn.SELU", "F.selu", "selu", _numbers(), "Self-normalising ELU."),
        ("nn.Hardswish", "F.hardswish", "hardswish", _numbers(), "input hardsigmoid(input)."),
        ("nn.Hardsigmoid", "F.hardsigmoid", "hardsigmoid", _numbers(), "min(max(input + 3, 0), 6) / 6."),
        ("nn.Softsign", "F.softsign", "softsign", _numbers(), "input / (1 + |input|)."),
        ("nn.LogSigmoid", "F.logsigmoid", "logsigmoid", _numbers(), "log(sigmoid(input))."),
        ("nn.Tanhshrink", "F.tanhshrink", "tanhshrink", _numbers(), "input - tanh(input)."),
        ("nn.LeakyReLU", "F.leaky_relu", "leaky_relu", _numbers(negative_slope=0.01), "ReLU with a slope below 0."),
        ("nn.ELU", "F.elu", "elu", _numbers(alpha=1.0), "alpha (exp(input) - 1) below 0."),
        ("nn.CELU", "F.celu", "celu", _numbers(alpha=1.0), "alpha (exp(input / alpha) - 1) below 0."),
        ("nn.Hardshrink", "F.hardshrink", "hardshrink", _numbers(lambd=0.5), "Zero within lambd of 0."),
        ("nn.Softshrink", "F.softshrink", "softshrink", _numbers(lambd=0.5), "The input moved towards 0 by lambd."),
        ("nn.Hardtanh", "F.hardtanh", "hardtanh", _numbers(min_val=-1.0, max_val=1.0), "The input limited."),
        ("nn.Softplus", "F.softplus", "softplus", _numbers(beta=1.0, threshold=20.0), "log(1 + exp(beta x)) / beta."),
        ("nn.Threshold", "F.threshold", "threshold", _numbers(threshold=REQUIRED, value=REQUIRED),
         "value where the input is not above the threshold."),
    ]  # fmt: skip
    forms = {type: Form(function, args, text) for nn, f, function, args, text in rows for type in (nn, f)}
    gelu = Form("gelu", _numbers(), "input times the normal distribution function of it.", _GELU)
    return forms | {"nn.GELU": gelu, "F.gelu": gelu}


_UNARY = [
    "abs", "acos", "acosh", "asin", "asinh", "atan", "atanh", "bitwise_not", "ceil", "cos", "cosh", "erf", "erfc",
    "exp", "exp2", "expm1", "floor", "isfinite", "isinf", "isnan", "lgamma", "log", "log10", "log1p", "log2",
    "logical_not", "neg", "positive", "reciprocal", "relu", "round", "rsqrt", "sigmoid", "sign", "sin", "sinh",
    "sqrt", "square", "tan", "tanh", "trunc",
]  # fmt: skip
_BINARY = [
    "atan2", "bitwise_and", "bitwise_left_shift", "bitwise_or", "bitwise_right_shift", "bitwise_xor", "eq",
    "floor_divide", "fmod", "ge", "gt", "le", "logaddexp", "logical_and", "logical_or", "logical_xor", "lt",
    "maximum", "minimum", "ne", "pow", "remainder",
]  # fmt: skip


def _functions() -> dict[str, Form]:
    """Functions of torch; those of two operands take a number in place of the second."""
    both = (Argument("input"), Argument("other"))
    forms = {f"torch.{n}": Form(n, _numbers(), f"Element-wise {n.replace('_', ' ')}.") for n in _UNARY}
    forms |= {f"torch.{n}": Form(n, both, f"Element-wise {n.replace('_', ' ')} of two operands.") for n in _BINARY}
    bounds = (Argument("input"), Argument("min", None), Argument("max", None))
    clamp = Form("clamp", bounds, "The input limited by min and max, either of which may be absent.")
    choice = (Argument("condition"), Argument("input"), Argument("other"))
    where = Form("where", choice, "Elements of input where the condition holds, else of other.")
    filled = (Argument("input"), Argument("mask"), Argument("value"))
    fill = Form("masked_fill", filled, "value where the mask holds, else the input.")
    return forms | {
        "torch.clamp": clamp,
        "torch.clip": clamp,
        "torch.where": where,
        "Tensor.masked_fill": fill,
        "torch.masked_fill": fill,
    }


#: Every element-wise operator type that is one function of the table.
FORMS: dict[str, Form] = _activations() | _functions()
