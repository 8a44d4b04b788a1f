"""numpy bodies of the functions whose PyTorch meaning is not simply one numpy ufunc.

Used by the function table as the reference of every element-wise function. Arguments arrive converted to the
compute dtype of the function's rule; warnings of numpy are off while they run. NaN and infinity behave as in
PyTorch.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from pnnx_fast._types import Array
from pnnx_fast.errors import ExpressionError


def _elementwise(function: Callable[[float], float]) -> Callable[[Array], Array]:
    """A function of the math module applied to every element in double precision."""
    apply = np.frompyfunc(function, 1, 1)
    return lambda x: np.asarray(apply(x.astype(np.float64)), np.float64).astype(x.dtype)


def _lgamma(x: float) -> float:
    try:
        return math.lgamma(x)
    except (ValueError, OverflowError):
        return math.inf


erf = _elementwise(math.erf)
erfc = _elementwise(math.erfc)
lgamma = _elementwise(_lgamma)

BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6)
"""The Bernoulli numbers B2, B4 …"""


def erfinv(x: Array) -> Array:
    """Inverse of the error function: Winitzki's approximation, mended by Halley's steps."""
    rest = np.log1p(-x * x)
    inner = 2 / (math.pi * 0.147) + rest / 2
    y = np.sign(x) * np.sqrt(np.maximum(np.sqrt(inner * inner - rest / 0.147) - inner, 0))
    for _ in range(3):
        error = (erf(y) - x) / (2 / math.sqrt(math.pi) * np.exp(-y * y))
        y = np.where(np.isfinite(y) & (error != 0), y - error / (1 + y * error), y)
    return np.where(np.abs(x) == 1, np.sign(x) * np.inf, y)


def digamma(x: Array) -> Array:
    """Logarithmic derivative of the gamma function: reflection, recurrence, then the asymptotic series."""
    positive = np.where(x > 0, x, 1 - x)
    total = np.zeros_like(x)
    while (small := positive < 12).any():
        total = np.where(small, total - 1 / positive, total)
        positive = np.where(small, positive + 1, positive)
    total += np.log(positive) - 0.5 / positive
    for k, number in enumerate(BERNOULLI, start=1):
        total -= number / (2 * k * positive ** (2 * k))
    mirrored = total - math.pi / np.tan(math.pi * x)
    whole = (x == np.floor(x)) & (x <= 0)
    return np.where(x > 0, total, np.where(whole, np.where(x == 0, -np.copysign(np.inf, x), np.nan), mirrored))


def _nonzero(divisor: Array) -> None:
    if divisor.dtype.kind in "iu" and not divisor.all():
        raise ExpressionError("integer division by zero")


def div(a: Array, b: Array) -> Array:
    """True division."""
    return np.asarray(np.true_divide(a, b, dtype=a.dtype))


def floor_divide(a: Array, b: Array) -> Array:
    """Division rounded towards minus infinity."""
    _nonzero(b)
    return np.asarray(np.floor_divide(a, b))


def remainder(a: Array, b: Array) -> Array:
    """Remainder with the sign of the divisor."""
    _nonzero(b)
    return np.asarray(np.remainder(a, b))


def fmod(a: Array, b: Array) -> Array:
    """Remainder with the sign of the dividend."""
    _nonzero(b)
    return np.asarray(np.fmod(a, b))


def power(base: Array, exponent: Array) -> Array:
    """Base to the exponent; a single exponent of 0.5 is a square root, as PyTorch has it."""
    if base.dtype.kind in "iu":
        if exponent.dtype.kind == "i" and (exponent < 0).any():
            # PyTorch refuses a number here, not a tensor; one of no dimensions stands in files as if it were a number.
            sign = np.where(exponent & 1, base, base * base)
            negative = np.where(np.abs(base) == 1, sign, 0)
            return np.where(exponent < 0, negative, np.power(base, np.maximum(exponent, 0))).astype(base.dtype)
        return np.asarray(np.power(base, exponent))
    if exponent.ndim == 0:
        if exponent == 0.5:
            return np.asarray(np.sqrt(base))
        if exponent == -0.5:
            return rsqrt(base)
    return np.asarray(np.power(base, exponent))


def square(x: Array) -> Array:
    """x·x."""
    return np.asarray(x * x)


def reciprocal(x: Array) -> Array:
    """1/x."""
    return np.asarray(x.dtype.type(1) / x)


def rsqrt(x: Array) -> Array:
    """1/√x."""
    return np.asarray(x.dtype.type(1) / np.sqrt(x))


def sign(x: Array) -> Array:
    """-1, 0 or 1; NaN gives 0."""
    return x if x.dtype.kind == "b" else np.asarray((x > 0).astype(x.dtype) - (x < 0).astype(x.dtype))


def log1p(x: Array) -> Array:
    """log(1 + x); the real part of small complex numbers without loss, too."""
    if x.dtype.kind != "c":
        return np.asarray(np.log1p(x))
    small = np.abs(x) < 0.5
    a, b = np.where(small, x.real, 0), np.where(small, x.imag, 0)
    near = make_complex(np.log1p(a * (2 + a) + b * b) / 2, np.arctan2(b, 1 + a))
    return np.where(small, near, np.log1p(x)).astype(x.dtype)


def logaddexp(a: Array, b: Array) -> Array:
    """log(exp a + exp b) without overflow."""
    if a.dtype.kind != "c":
        return np.asarray(np.logaddexp(a, b))
    high, low = np.where(a.real >= b.real, a, b), np.where(a.real >= b.real, b, a)
    return np.asarray(high + np.log1p(np.exp(low - high)))


def _times_alpha(x: Array) -> Array:
    """What PyTorch adds or subtracts: a multiple, if only by one, which makes NaNs of infinite complex numbers."""
    return x * x.dtype.type(1) if x.dtype.kind == "c" else x


def add(a: Array, b: Array) -> Array:
    """Sum a + b."""
    return np.asarray(np.add(a, _times_alpha(b)))


def sub(a: Array, b: Array) -> Array:
    """Difference a - b."""
    return np.asarray(np.subtract(a, _times_alpha(b)))


def rsub(a: Array, b: Array) -> Array:
    """Difference b - a."""
    return sub(b, a)


def left_shift(a: Array, count: Array) -> Array:
    """Shift left; a count outside the type's width gives 0."""
    width = a.dtype.itemsize * 8
    valid = (count >= 0) & (count < width)
    return np.where(valid, np.left_shift(a, np.where(valid, count, 0).astype(a.dtype)), 0).astype(a.dtype)


def right_shift(a: Array, count: Array) -> Array:
    """Arithmetic shift right; a count outside the type's width leaves the sign."""
    last = a.dtype.itemsize * 8 - 1
    if a.dtype.kind == "u":
        valid = (count >= 0) & (count <= last)
        return np.where(valid, np.right_shift(a, np.where(valid, count, 0).astype(a.dtype)), 0).astype(a.dtype)
    count = np.where((count < 0) | (count > last), last, count).astype(a.dtype)
    return np.asarray(np.right_shift(a, count))


def where(condition: Array, a: Array, b: Array) -> Array:
    """Operand a where the condition holds, else b."""
    return np.where(condition, a, b)


def masked_fill(x: Array, mask: Array, value: Array) -> Array:
    """Value where the mask holds, else x."""
    return np.where(mask, value, x)


def make_complex(re: Array, im: Array) -> Array:
    """re + im·j, each part kept as it is."""
    re, im = np.broadcast_arrays(re, im)
    out: Array = np.empty(re.shape, np.dtype(f"c{re.dtype.itemsize * 2}"))
    out.real, out.imag = re, im
    return out


def clamp(x: Array, low: Array | None, high: Array | None) -> Array:
    """Bounds are optional; NaN in any operand gives NaN; the upper bound wins over the lower."""
    if low is not None:
        x = np.maximum(x, low)
    return x if high is None else np.asarray(np.minimum(x, high))


def relu(x: Array) -> Array:
    """max(x, 0)."""
    return np.asarray(np.maximum(x, x.dtype.type(0)))


def relu6(x: Array) -> Array:
    """x clamped to [0, 6]."""
    return clamp(x, x.dtype.type(0), x.dtype.type(6))


def leaky_relu(x: Array, slope: Array) -> Array:
    """Operand x above 0, slope·x below."""
    return np.where(x > 0, x, x * slope)


prelu = leaky_relu


def elu(x: Array, alpha: Array) -> Array:
    """Operand x, below 0 alpha·(exp x - 1)."""
    return np.where(x < 0, alpha * np.expm1(x), x)


def celu(x: Array, alpha: Array) -> Array:
    """Operand x, below 0 alpha·(exp(x/alpha) - 1)."""
    return np.where(x < 0, alpha * np.expm1(x / alpha), x)


_SELU_ALPHA, _SELU_SCALE = 1.6732632423543772848170429916717, 1.0507009873554804934193349852946


def selu(x: Array) -> Array:
    """The self-normalising ELU."""
    return np.asarray(_SELU_SCALE * np.where(x < 0, _SELU_ALPHA * np.expm1(x), x))


def gelu(x: Array) -> Array:
    """x·Φ(x), from erfc so that the negative tail keeps its digits."""
    return np.asarray(x * (0.5 * erfc(-x * math.sqrt(0.5))))


def gelu_tanh(x: Array) -> Array:
    """The tanh form of GELU, written with exp so that the negative tail keeps its digits."""
    return np.asarray(x / (1 + np.exp(-math.sqrt(8 / math.pi) * (x + 0.044715 * x * x * x))))


def sigmoid(x: Array) -> Array:
    """1/(1 + exp(-x))."""
    return np.asarray(1 / (1 + np.exp(-x)))


def silu(x: Array) -> Array:
    """x·sigmoid(x)."""
    return np.asarray(x / (1 + np.exp(-x)))


def logsigmoid(x: Array) -> Array:
    """log(sigmoid x)."""
    return np.asarray(np.minimum(x, 0) - np.log1p(np.exp(-np.abs(x))))


def softplus(x: Array, beta: Array, threshold: Array) -> Array:
    """log(1 + exp(beta·x))/beta, x itself above the threshold."""
    return np.where(x * beta > threshold, x, np.log1p(np.exp(x * beta)) / beta)


def mish(x: Array) -> Array:
    """x·tanh(softplus x)."""
    return np.asarray(x * np.tanh(np.logaddexp(x, 0)))


def hardsigmoid(x: Array) -> Array:
    """clamp(x + 3, 0, 6)/6."""
    return np.asarray(relu6(x + 3) / 6)


def hardswish(x: Array) -> Array:
    """x·hardsigmoid(x)."""
    return np.asarray(x * relu6(x + 3) / 6)


def hardshrink(x: Array, bound: Array) -> Array:
    """0 within ±bound."""
    return np.where((x >= -bound) & (x <= bound), 0, x)


def softshrink(x: Array, bound: Array) -> Array:
    """x moved towards 0 by bound."""
    return np.where(x > bound, x - bound, np.where(x < -bound, x + bound, x * 0))


def softsign(x: Array) -> Array:
    """x/(1 + |x|)."""
    return np.asarray(x / (1 + np.abs(x)))


def tanhshrink(x: Array) -> Array:
    """Difference x - tanh(x)."""
    return np.asarray(x - np.tanh(x))


def threshold(x: Array, bound: Array, value: Array) -> Array:
    """Value where x is not above the bound."""
    return np.where(x <= bound, value, x)


def same(x: Array, *_: Any) -> Array:
    """The operand itself."""
    return x
