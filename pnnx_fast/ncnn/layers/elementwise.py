"""Layers that compute every value by itself: activations, unary and binary operations, scales and biases."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pnnx_fast.errors import ParameterError, ShapeError
from pnnx_fast.ir import Attribute, Operand
from pnnx_fast.ncnn.layers.int8 import quantize
from pnnx_fast.ncnn.layers.registry import Build, layer
from pnnx_fast.ncnn.option import warn
from pnnx_fast.ncnn.tracer import Tracer, dims_of, number, shape_of
from pnnx_fast.ncnn.values import Params, Weights

FLOAT_MAX = float(np.finfo(np.float32).max)

# -- activations -------------------------------------------------------------------------------------------------------


def _near(a: float, b: float) -> bool:
    return abs(a - b) <= 1e-6


def hard_sigmoid_of(t: Tracer, x: Operand, alpha: float, beta: float) -> Operand:
    """``clamp(alpha x + beta, 0, 1)``."""
    if _near(alpha, 1 / 6) and beta == 0.5:
        return t.emit("F.hardsigmoid", x)
    return t.expression(f"minimum(maximum(add(mul(@0,{number(alpha)}),{number(beta)}),0.0),1.0)", x)


def hard_swish_of(t: Tracer, x: Operand, alpha: float, beta: float) -> Operand:
    """``x clamp(alpha x + beta, 0, 1)``."""
    if _near(alpha, 1 / 6) and beta == 0.5:
        return t.emit("F.hardswish", x)
    return t.expression(f"mul(@0,minimum(maximum(add(mul(@0,{number(alpha)}),{number(beta)}),0.0),1.0))", x)


def leaky_relu_of(t: Tracer, x: Operand, slope: float) -> Operand:
    """The input where it is positive, else ``slope`` times it."""
    return t.emit("F.relu", x) if slope == 0 else t.emit("F.leaky_relu", x, negative_slope=slope)


def clip_of(t: Tracer, x: Operand, low: float, high: float) -> Operand:
    """The input between two bounds."""
    return t.emit("F.hardtanh", x, min_val=max(low, -FLOAT_MAX), max_val=min(high, FLOAT_MAX))


_FUSED: dict[int, tuple[int, Callable[..., Operand]]] = {
    1: (0, lambda t, x: t.emit("F.relu", x)),
    2: (1, leaky_relu_of),
    3: (2, clip_of),
    4: (0, lambda t, x: t.emit("F.sigmoid", x)),
    5: (0, lambda t, x: t.emit("F.mish", x)),
    6: (2, hard_swish_of),
}


def activation(kind: int, values: Sequence[float]) -> Callable[[Tracer, Operand], Operand]:
    """Return what applies the activation that convolutions and inner products carry as parameters 9 and 10."""
    if kind == 0:
        return lambda t, x: x
    if kind not in _FUSED:
        raise ParameterError(f"activation type {kind}, it must be one of 0 to 6")
    count, function = _FUSED[kind]
    if len(values) < count:
        raise ParameterError(f"activation type {kind} needs {count} parameters, not {len(values)}")
    used = list(values[:count])
    return lambda t, x: function(t, x, *used)


def _simple(*names: str, type: str = "", text: str = "") -> None:
    """Register a layer without parameters: an operator type or an expression."""

    def function(p: Params, w: Weights) -> Build:
        return lambda t, x: t.emit(type, x) if type else t.expression(text, x)

    layer(*names, inplace=True)(function)


_simple("AbsVal", text="abs(@0)")
_simple("BNLL", "Softplus", text="add(maximum(@0,0.0),log1p(exp(neg(abs(@0)))))")
_simple("Erf", text="erf(@0)")
_simple("Mish", type="F.mish")
_simple("Sigmoid", type="F.sigmoid")
_simple("Swish", type="F.silu")
_simple("TanH", type="F.tanh")


@layer("ReLU", inplace=True)
def relu(p: Params, w: Weights) -> Build:
    """Rectifier with a slope for negative values."""
    slope = p.float(0, 0.0)

    def build(t: Tracer, x: Operand) -> Operand:
        y = leaky_relu_of(t, x, slope)
        return quantize(t, y, 1.0) if x.dtype == "i8" else y

    return build


@layer("Clip", inplace=True)
def clip(p: Params, w: Weights) -> Build:
    """Bounds on both sides."""
    low, high = p.float(0, -FLOAT_MAX), p.float(1, FLOAT_MAX)
    return lambda t, x: clip_of(t, x, low, high)


@layer("ELU", inplace=True)
def elu(p: Params, w: Weights) -> Build:
    """Exponential linear unit."""
    alpha = p.float(0, 0.1)
    return lambda t, x: t.emit("F.elu", x, alpha=alpha)


@layer("CELU", inplace=True)
def celu(p: Params, w: Weights) -> Build:
    """Continuous exponential linear unit."""
    alpha = p.float(0, 1.0)
    return lambda t, x: t.emit("F.celu", x, alpha=alpha)


@layer("SELU", inplace=True)
def selu(p: Params, w: Weights) -> Build:
    """Scaled exponential linear unit."""
    alpha, scale = number(p.float(0, 1.67326324)), number(p.float(1, 1.050700987))
    text = f"mul(add(maximum(@0,0.0),mul(minimum(expm1(minimum(@0,0.0)),0.0),{alpha})),{scale})"
    return lambda t, x: t.expression(text, x)


@layer("GELU", inplace=True)
def gelu(p: Params, w: Weights) -> Build:
    """Gaussian error linear unit, exact or by tanh."""
    approximate = "tanh" if p.flag(0) else "none"
    return lambda t, x: t.emit("F.gelu", x, approximate=approximate)


@layer("HardSigmoid", inplace=True)
def hard_sigmoid(p: Params, w: Weights) -> Build:
    """Clamped line."""
    alpha, beta = p.float(0, 0.2), p.float(1, 0.5)
    return lambda t, x: hard_sigmoid_of(t, x, alpha, beta)


@layer("HardSwish", inplace=True)
def hard_swish(p: Params, w: Weights) -> Build:
    """The input times a clamped line."""
    alpha, beta = p.float(0, 0.2), p.float(1, 0.5)
    return lambda t, x: hard_swish_of(t, x, alpha, beta)


@layer("Shrink", inplace=True)
def shrink(p: Params, w: Weights) -> Build:
    """Zero between -lambda and lambda, moved by a bias elsewhere."""
    bias, lambd = number(p.float(0, 0.0)), number(p.float(1, 0.5))
    low, high = f"lt(@0,neg({lambd}))", f"gt(@0,{lambd})"
    return lambda t, x: t.expression(f"where({low},add(@0,{bias}),where({high},sub(@0,{bias}),mul(@0,0.0)))", x)


@layer("Threshold", inplace=True)
def threshold(p: Params, w: Weights) -> Build:
    """1 where the input exceeds a threshold, else 0."""
    value = number(p.float(0, 0.0))
    return lambda t, x: t.expression(f"torch.float(gt(@0,{value}))", x)


@layer("PReLU", inplace=True)
def prelu(p: Params, w: Weights) -> Build:
    """Rectifier with a slope a channel."""
    count = p.count(0)
    slope = w.load(count, type=1)

    def build(t: Tracer, x: Operand) -> Operand:
        return t.emit("F.prelu", x, t.constant(_fitting(slope, x)), names=["input", "weight"])

    return build


def _fitting(values: Attribute, x: Operand) -> Attribute:
    """Check that there is one value for all channels or one for each."""
    if values.shape[0] not in (1, shape_of(x)[1]):
        raise ShapeError("values a channel", expected=shape_of(x)[1], actual=values.shape[0])
    return values


@layer("Dropout", inplace=True)
def dropout(p: Params, w: Weights) -> Build:
    """A constant factor."""
    scale = p.float(0, 1.0)
    return lambda t, x: x if scale == 1.0 else t.expression(f"mul(@0,{number(scale)})", x)


@layer("Exp", inplace=True)
def exp(p: Params, w: Weights) -> Build:
    """Power of a base (e when it is -1) of a line."""
    base, scale, shift = p.float(0, -1.0), p.float(1, 1.0), p.float(2, 0.0)
    line = f"add(mul(@0,{number(scale)}),{number(shift)})"
    text = f"exp({line})" if base == -1 else f"pow({number(base)},{line})"
    return lambda t, x: t.expression(text, x)


@layer("Log", inplace=True)
def log(p: Params, w: Weights) -> Build:
    """Logarithm to a base (e when it is -1) of a line."""
    base, scale, shift = p.float(0, -1.0), p.float(1, 1.0), p.float(2, 0.0)
    text = f"log(add(mul(@0,{number(scale)}),{number(shift)}))"
    if base != -1:
        with np.errstate(all="ignore"):
            factor = float(1 / np.log(np.float64(base)))
        text = f"mul({text},{number(factor)})"
    return lambda t, x: t.expression(text, x)


@layer("Power", inplace=True)
def power(p: Params, w: Weights) -> Build:
    """Power of a line."""
    exponent, scale, shift = p.float(0, 1.0), p.float(1, 1.0), p.float(2, 0.0)
    text = f"pow(add(mul(@0,{number(scale)}),{number(shift)}),{number(exponent)})"
    return lambda t, x: t.expression(text, x)


# -- unary and binary operations ---------------------------------------------------------------------------------------

_UNARY = (
    "abs", "neg", "floor", "ceil", "square", "sqrt", "rsqrt", "exp", "log", "sin", "cos", "tan", "asin", "acos", "atan",
    "reciprocal", "tanh", "log10", "round", "trunc", "sign", "expm1", "sinh", "asinh", "cosh", "acosh", "atanh",
    "log1p",
)  # fmt: skip

# Of what ncnn calls remainder, C's remainder function: the quotient is rounded to nearest, ties to even.
_REMAINDER = "sub({0},mul({1},round(div({0},{1}))))"
_BINARY = (
    "add({0},{1})", "sub({0},{1})", "mul({0},{1})", "div({0},{1})", "maximum({0},{1})", "minimum({0},{1})",
    "pow({0},{1})", "sub({1},{0})", "div({1},{0})", "pow({1},{0})", "atan2({0},{1})", "atan2({1},{0})",
    "fmod({0},{1})", "fmod({1},{0})", "logaddexp({0},{1})", "floor(div({0},{1}))", "floor(div({1},{0}))",
    _REMAINDER, "sub({1},mul({0},round(div({1},{0}))))",
)  # fmt: skip
_SCALAR_ONLY_TENSORS = {10, 11, 12, 13, 14}
"""Codes whose functions take no plain number as an argument."""
_KEEPS_INTEGERS = {0, 1, 4, 5, 7}
"""Codes that make integers of two integers, such as offsets of indices; others see integers as floats."""


@layer("UnaryOp", inplace=True)
def unary_op(p: Params, w: Weights) -> Build:
    """One of 28 functions."""
    name = _UNARY[p.choice(0, 0, len(_UNARY))]
    return lambda t, x: t.expression(f"{name}(@0)", x)


@layer("BinaryOp", one_blob_only=False)
def binary_op(p: Params, w: Weights) -> Build:
    """One of 19 functions of two blobs, or of a blob and a number."""
    code, scalar, value = p.choice(0, 0, len(_BINARY)), p.flag(1), p.float(2, 0.0)
    text = _BINARY[code]
    p.blobs = 1 if scalar else 2
    if scalar:
        return lambda t, x: _with_number(t, t.as_float(x), code, value)

    def build(t: Tracer, a: Operand, b: Operand) -> Operand:
        if code not in _KEEPS_INTEGERS or {a.dtype, b.dtype} != {"i32"}:
            a, b = t.as_float(a), t.as_float(b)
        return t.expression(text.format("@0", "@1"), *broadcast(t, a, b))

    return build


def _with_number(t: Tracer, x: Operand, code: int, value: float) -> Operand:
    text = _BINARY[code]
    if code in _SCALAR_ONLY_TENSORS:
        return t.expression(text.format("@0", "@1"), x, t.array(np.array([value], np.float32)))
    return t.expression(text.format("@0", number(value)), x)


def broadcast(t: Tracer, a: Operand, b: Operand) -> tuple[Operand, Operand]:
    """Bring two operands to one rank by ncnn's rule: missing dimensions are inner ones, but for vectors that fit w."""
    rank = max(dims_of(a), dims_of(b))
    a, b = _raised(t, a, b, rank), _raised(t, b, a, rank)
    have = shape_of(a), shape_of(b)
    if any(n != m and min(n, m) > 1 for n, m in zip(*(shape[1:] for shape in have), strict=True)):
        # ncnn takes the larger sizes and reads beyond the smaller blob; here its missing values are 0.
        warn(f"layer {t.layer}: shapes {have[0][1:]} and {have[1][1:]} do not broadcast")
        return _grown(t, a, have[1]), _grown(t, b, have[0])
    return a, b


def _grown(t: Tracer, x: Operand, other: tuple[int, ...]) -> Operand:
    """``x`` with zeros behind dimensions that are smaller than the other ones and not 1."""
    pads = [v for n, m in zip(shape_of(x)[:0:-1], other[:0:-1], strict=True) for v in (0, m - n if 1 < n < m else 0)]
    return t.emit("F.pad", x, pad=pads, mode="constant", value=0.0) if any(pads) else x


def _raised(t: Tracer, x: Operand, other: Operand, rank: int) -> Operand:
    shape, goal = shape_of(x), shape_of(other)
    missing = rank - dims_of(x)
    if missing == 0:
        return x
    if dims_of(x) == 1 and shape[1] != goal[1]:
        return t.reshape(x, (shape[0], *(1,) * missing, shape[1]))
    return t.reshape(x, (*shape, *(1,) * missing))


@layer("Eltwise", one_blob_only=False)
def eltwise(p: Params, w: Weights) -> Build:
    """Product, weighted sum or maximum of blobs of one shape."""
    code, weights = p.choice(0, 0, 3), p.floats(1)
    name = ("mul", "add", "maximum")[code]

    def build(t: Tracer, *inputs: Operand) -> Operand:
        terms = [f"@{i}" for i in range(len(inputs))]
        if code == 1 and weights:
            if len(weights) < len(inputs):
                raise ShapeError("weights of the sum", expected=len(inputs), actual=len(weights))
            terms = [f"mul({x},{number(v)})" for x, v in zip(terms, weights, strict=False)]
        text = terms[0]
        for term in terms[1:]:
            text = f"{name}({text},{term})"
        return inputs[0] if text == "@0" else t.expression(text, *inputs)

    return build


# -- a value a channel -------------------------------------------------------------------------------------------------


def _norm_type(rank: int) -> str:
    return {1: "nn.BatchNorm1d", 2: "nn.BatchNorm1d", 3: "nn.BatchNorm2d", 4: "nn.BatchNorm3d"}[rank]


class _PerChannel:
    """``scale x + bias`` a channel, as the batch norm that it is to the passes."""

    def __init__(self, channels: int, compute: Callable[[], tuple[Any, Any]]) -> None:
        self.channels, self._compute = channels, compute
        self._attributes: dict[str, Attribute] = {}

    def __call__(self, t: Tracer, x: Operand) -> Operand:
        have = shape_of(x)[1]
        if self.channels not in (1, have):
            raise ShapeError("values a channel", expected=have, actual=self.channels)
        if not self._attributes or self._attributes["weight"].shape != (have,):
            self._attributes = self._norm(have)
        params: dict[str, Any] = {"num_features": have, "eps": 0.0, "affine": True}
        return t.emit(_norm_type(dims_of(x)), x, attrs=self._attributes, **params)

    def _norm(self, count: int) -> dict[str, Attribute]:
        """Weights of a batch norm without statistics."""
        scale, bias = (np.broadcast_to(np.asarray(v, np.float32), (count,)).copy() for v in self._compute())
        zeros, ones = np.zeros(count, np.float32), np.ones(count, np.float32)
        arrays = {"running_mean": zeros, "running_var": ones, "weight": scale, "bias": bias}
        return {key: Attribute.owning(value) for key, value in arrays.items()}


@layer("BatchNorm", inplace=True)
def batch_norm(p: Params, w: Weights) -> Build:
    """Batch normalisation with given statistics."""
    channels, eps = p.count(0), p.float(1, 0.0)
    slope, mean, var, bias = (w.load(channels, type=1) for _ in range(4))

    def compute() -> tuple[Any, Any]:
        s, m, v, b = (a.numpy().astype(np.float64) for a in (slope, mean, var, bias))
        root = np.sqrt(v + eps)
        root[root == 0] = 0.0001
        return s / root, b - s * m / root

    return _PerChannel(channels, compute)


@layer("Bias", inplace=True)
def bias(p: Params, w: Weights) -> Build:
    """A number added to each channel; vectors and matrices have one channel."""
    count = p.count(0)
    values = w.load(count, type=1)
    each = _PerChannel(count, lambda: (1.0, values.numpy()))
    whole = _PerChannel(1, lambda: (1.0, values.numpy()[:1]))
    return lambda t, x: each(t, x) if dims_of(x) > 2 else whole(t, x)


@layer("Scale", inplace=True)
def scale(p: Params, w: Weights) -> Build:
    """Each channel times a number, plus one; the factors may come from a second blob."""
    count, has_bias = p.int(0), p.flag(1)
    if count == -233:
        p.blobs = 2
        return _scale_by_blob
    if count < 1:
        raise ParameterError(f"parameter 0 is {count}, it must be positive or -233")
    factor = w.load(count, type=1)
    offset = w.load(count, type=1) if has_bias else None
    return _PerChannel(count, lambda: (factor.numpy(), 0.0 if offset is None else offset.numpy()))


def _scale_by_blob(t: Tracer, x: Operand, factor: Operand) -> tuple[Operand, Operand]:
    n, *rest = shape_of(factor)
    count = int(np.prod(rest))
    shape = (n, count, *(1,) * (dims_of(x) - 1))
    return t.expression("mul(@0,@1)", x, t.reshape(factor, shape)), factor
