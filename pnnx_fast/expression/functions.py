"""THE table of element-wise functions: one row a function, with arity, dtype rule, numpy reference and VM
opcode.

It serves pnnx.Expression, the element-wise operators of nn, F and torch, ncnn's UnaryOp and BinaryOp, and
fusion alike. The parser checks names and counts against it, evaluation runs `reference`, lowering asks `rule`
and `opcode`. A new element-wise function is one row here and, when it is to run natively, one operation of
the expression VM.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pnnx_fast._types import Array
from pnnx_fast.expression import reference as ref
from pnnx_fast.expression import rules
from pnnx_fast.expression.rules import Rule
from pnnx_fast.expression.types import TORCH_DTYPES, cast

__all__ = ["FUNCTIONS", "Function"]


class Function:
    """One row of the table.

    Attributes
    ----------
    name : str
        Name in expressions.
    operands : int
        Leading arguments that broadcast and whose types `rule` sees.
    constants : tuple of float
        Defaults of the arguments after the operands: scalars that are converted to the compute dtype.
    rule : Rule
        From element types to compute and result dtype.
    reference : callable
        numpy body, given the converted arguments.
    opcode : str or None
        The operation of the expression VM, ``None`` when only numpy can run it.
    in_double : bool
        Whether the reference computes in double precision and rounds once.
    optional : int
        How many of the operands at the end may be absent or ``None``.
    mask : int or None
        The operand that is a condition, taken as bool whatever the compute dtype.
    """

    __slots__ = ("constants", "in_double", "mask", "name", "opcode", "operands", "optional", "reference", "rule")

    def __init__(
        self,
        name: str,
        operands: int,
        constants: tuple[float, ...],
        rule: Rule,
        reference: Callable[..., Array],
        opcode: str | None,
        in_double: bool = False,
        optional: int = 0,
        mask: int | None = None,
    ) -> None:
        self.name, self.operands, self.constants, self.rule, self.reference = name, operands, constants, rule, reference
        self.opcode, self.in_double, self.optional, self.mask = opcode, in_double, optional, mask

    @property
    def least(self) -> int:
        """Fewest arguments."""
        return self.operands - self.optional

    @property
    def most(self) -> int:
        """Most arguments."""
        return self.operands + len(self.constants)

    def complete(self, args: Sequence[Any]) -> list[Any]:
        """The arguments with absent operands as ``None`` and absent constants as their defaults."""
        given = [*args, *[None] * (self.operands - len(args))]
        return [*given, *self.constants[len(given) - self.operands :]]


def _ufunc(function: np.ufunc) -> Callable[..., Array]:
    return lambda *args: np.asarray(function(*args))


def _whole(function: np.ufunc) -> Callable[..., Array]:
    """A function that rounds; integers are whole already, and would lose digits as floats."""
    return lambda x: x if x.dtype.kind in "biu" else np.asarray(function(x))


def _rows() -> list[Function]:
    """Name, operands, rule, reference; opcode defaults to the name."""
    rows: list[Function] = []

    def row(
        name: str,
        operands: int,
        rule: Rule,
        reference: Callable[..., Array] | None = None,
        *constants: float,
        opcode: str | None = "",
        in_double: bool = False,
        optional: int = 0,
        mask: int | None = None,
    ) -> None:
        body = reference if reference is not None else _ufunc(getattr(np, name))
        code = name if opcode == "" else opcode
        rows.append(Function(name, operands, constants, rule, body, code, in_double, optional, mask))

    _arithmetic_rows(row)
    _transcendental_rows(row)
    _integer_rows(row)
    _comparison_rows(row)
    _activation_rows(row)
    _cast_rows(row)
    return rows


def _arithmetic_rows(row: Callable[..., None]) -> None:
    row("add", 2, rules.arithmetic, ref.add)
    row("sub", 2, rules.subtraction, ref.sub)
    row("rsub", 2, rules.subtraction, ref.rsub)
    row("mul", 2, rules.arithmetic, _ufunc(np.multiply))
    row("div", 2, rules.floating, ref.div)
    row("floor_divide", 2, rules.real, ref.floor_divide)
    row("remainder", 2, rules.real, ref.remainder)
    row("fmod", 2, rules.real, ref.fmod)
    row("maximum", 2, rules.ordered)
    row("minimum", 2, rules.ordered)
    row("max", 2, rules.ordered, _ufunc(np.maximum), opcode="maximum")
    row("min", 2, rules.ordered, _ufunc(np.minimum), opcode="minimum")
    row("abs", 1, rules.magnitude)
    row("neg", 1, rules.numeric, _ufunc(np.negative))
    row("positive", 1, rules.numeric, ref.same, opcode="copy")
    row("sign", 1, rules.ordered, ref.sign)
    row("square", 1, rules.integers_kept, ref.square)
    row("reciprocal", 1, rules.floating, ref.reciprocal)
    row("floor", 1, rules.real, _whole(np.floor))
    row("ceil", 1, rules.real, _whole(np.ceil))
    row("round", 1, rules.real, _whole(np.rint))
    row("trunc", 1, rules.real, _whole(np.trunc))
    row("where", 3, rules.selection, ref.where, mask=0)
    row("masked_fill", 3, rules.kept, ref.masked_fill, opcode="where", mask=1)
    row("clamp", 3, rules.ordered, ref.clamp, optional=2)
    row("real", 1, rules.part, np.real, opcode=None)
    row("imag", 1, rules.part, np.imag, opcode=None)
    row("complex", 2, rules.pair, ref.make_complex, opcode=None)


def _transcendental_rows(row: Callable[..., None]) -> None:
    for name in (
        "exp",
        "exp2",
        "expm1",
        "log",
        "log2",
        "log10",
        "sin",
        "cos",
        "tan",
        "sinh",
        "cosh",
        "tanh",
        "sqrt",
    ):
        row(name, 1, rules.floating)
    row("log1p", 1, rules.floating, ref.log1p)
    for name in ("asin", "acos", "atan", "asinh", "acosh", "atanh"):
        row(name, 1, rules.floating, _ufunc(getattr(np, name.replace("a", "arc", 1))))
    row("rsqrt", 1, rules.floating, ref.rsqrt, in_double=True)
    row("erf", 1, rules.real_floating, ref.erf)
    row("erfc", 1, rules.real_floating, ref.erfc)
    row("lgamma", 1, rules.real_floating, ref.lgamma)
    row("digamma", 1, rules.real_floating, ref.digamma, in_double=True)
    row("erfinv", 1, rules.real_floating, ref.erfinv, in_double=True)
    row("pow", 2, rules.numeric, ref.power)
    row("atan2", 2, rules.real_floating, _ufunc(np.arctan2))
    row("hypot", 2, rules.real_floating, _ufunc(np.hypot))
    row("logaddexp", 2, rules.floating, ref.logaddexp)


def _integer_rows(row: Callable[..., None]) -> None:
    for name, function in (("and", np.bitwise_and), ("or", np.bitwise_or), ("xor", np.bitwise_xor)):
        row(name, 2, rules.bitwise, _ufunc(function), opcode=f"bitwise_{name}")
        row(f"bitwise_{name}", 2, rules.bitwise, _ufunc(function))
        row(f"logical_{name}", 2, rules.logical)
    row("bitwise_not", 1, rules.bitwise)
    row("logical_not", 1, rules.logical)
    for name, body in (("left_shift", ref.left_shift), ("right_shift", ref.right_shift)):
        row(f"{name[0]}shift", 2, rules.shift, body, opcode=name)
        row(f"bitwise_{name}", 2, rules.shift, body, opcode=name)


def _comparison_rows(row: Callable[..., None]) -> None:
    row("eq", 2, rules.equality, _ufunc(np.equal))
    row("ne", 2, rules.equality, _ufunc(np.not_equal))
    row("lt", 2, rules.comparison, _ufunc(np.less))
    row("le", 2, rules.comparison, _ufunc(np.less_equal))
    row("gt", 2, rules.comparison, _ufunc(np.greater))
    row("ge", 2, rules.comparison, _ufunc(np.greater_equal))
    row("isnan", 1, rules.equality)
    row("isinf", 1, rules.equality)
    row("isfinite", 1, rules.equality)


def _activation_rows(row: Callable[..., None]) -> None:
    row("relu", 1, rules.real, ref.relu)
    row("relu6", 1, rules.real, ref.relu6)
    row("hardtanh", 1, rules.real, ref.clamp, -1.0, 1.0, opcode="clamp")
    row("leaky_relu", 1, rules.real_floating, ref.leaky_relu, 0.01)
    row("prelu", 2, rules.real_floating, ref.prelu, opcode="leaky_relu")
    row("threshold", 1, rules.real, ref.threshold, 0.0, 0.0)
    row("hardshrink", 1, rules.real_floating, ref.hardshrink, 0.5)
    row("softshrink", 1, rules.real_floating, ref.softshrink, 0.5)
    row("hardsigmoid", 1, rules.real_floating, ref.hardsigmoid)
    row("hardswish", 1, rules.real_floating, ref.hardswish)
    row("softsign", 1, rules.floating, ref.softsign)
    row("elu", 1, rules.real_floating, ref.elu, 1.0, in_double=True)
    row("celu", 1, rules.real_floating, ref.celu, 1.0, in_double=True)
    row("selu", 1, rules.real_floating, ref.selu, in_double=True)
    row("gelu", 1, rules.real_floating, ref.gelu, in_double=True)
    row("gelu_tanh", 1, rules.real_floating, ref.gelu_tanh, in_double=True)
    row("sigmoid", 1, rules.floating, ref.sigmoid, in_double=True)
    row("silu", 1, rules.floating, ref.silu, in_double=True)
    row("logsigmoid", 1, rules.real_floating, ref.logsigmoid, in_double=True)
    row("softplus", 1, rules.real_floating, ref.softplus, 1.0, 20.0, in_double=True)
    row("mish", 1, rules.real_floating, ref.mish, in_double=True)
    row("tanhshrink", 1, rules.floating, ref.tanhshrink, in_double=True)


_NATIVE_CASTS = {"torch.float": "copy", "torch.float32": "copy", "torch.bool": "to_bool", "torch.half": "half"}
_NATIVE_CASTS |= {"torch.float16": "half", "torch.bfloat16": "bfloat16"}


def _cast_rows(row: Callable[..., None]) -> None:
    for name, dtype in TORCH_DTYPES.items():
        opcode = _NATIVE_CASTS.get(name)
        row(name, 1, rules.to(dtype), lambda x, name=name: cast(x, name), opcode=opcode)
    row("int", 1, rules.to(np.dtype(np.int64)), lambda x: cast(x, "torch.int64"), opcode=None)
    # The result of size is a number or a list: apply.py answers it from the shape, and asks neither rule nor body.
    row("size", 2, rules.kept, ref.same, opcode=None, optional=1)


#: Every function by name.
FUNCTIONS: dict[str, Function] = {function.name: function for function in _rows()}
