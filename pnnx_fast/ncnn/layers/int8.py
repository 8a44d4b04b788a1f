"""Layers of quantised models, and the int8 form of convolutions and inner products.

Quantised values are operands of int8, by which layers know them; other layers see them as floats. With scales found at
run time, products with int8 weights are int8 layers, too; those of two activations are computed in float32 with the
same rounding.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from pnnx_fast._types import Array
from pnnx_fast.errors import ParameterError, ShapeError
from pnnx_fast.ir import Attribute, Operand
from pnnx_fast.ncnn.layers.registry import Build, layer
from pnnx_fast.ncnn.tracer import Tracer, shape_of
from pnnx_fast.ncnn.values import Params, Weights
from pnnx_fast.ops.int8 import MOST_PRODUCTS

Activation = Callable[[Tracer, Operand], Operand]
Emit = Callable[[Tracer, Operand, dict[str, Attribute]], Operand]
MOST = 127


def round_to_int8(values: Array) -> Array:
    """Integers of -127 to 127 nearest to values, halves away from zero."""
    kept: Array = np.copysign(np.float32(0.5), values, dtype=np.float32)
    kept += values
    np.trunc(kept, out=kept)
    return np.clip(kept, -MOST, MOST, out=kept)


_ROUND = "minimum(maximum(trunc(add({0},mul(sign({0}),0.5))),-127.0),127.0)"


def quantize(t: Tracer, x: Operand, scale: float) -> Operand:
    """``x`` times a scale as int8."""
    if x.dtype == "i8":
        return x
    known = t.rounded.get((x, scale))
    if known is None:
        known = t.rounded[x, scale] = t.emit("int8.Quantize", x, scale=scale)
    return known


def _dynamic_scale(t: Tracer, x: Operand, dims: list[int]) -> Operand:
    """Factor that makes the largest value over ``dims`` 127."""
    largest = t.emit("torch.norm", x, p=float("inf"), dim=dims, keepdim=True)
    return t.expression("where(eq(@0,0.0),1.0,div(127.0,@0))", largest)


def fake_quantize(t: Tracer, x: Operand, dims: list[int]) -> Operand:
    """What rounding to int8 leaves of ``x``, with the largest value over ``dims`` as 127: ncnn's dynamic scale."""
    return t.expression(f"div({_ROUND.format('mul(@0,@1)')},@1)", x, _dynamic_scale(t, x, dims))


def dynamic_int8_linear(t: Tracer, x: Operand, dims: list[int], attrs: dict[str, Attribute]) -> Operand:
    """Linear layer with int8 weights of rows rounded to int8, with the largest value over ``dims`` as 127.

    ``attrs`` are those of ``int8.Linear``, the factors of its sums those of the weights alone.
    """
    key = (x, tuple(dims))
    if key not in t.dynamic:
        scale = _dynamic_scale(t, x, dims)
        t.dynamic[key] = t.emit("int8.Quantize", t.expression("mul(@0,@1)", x, scale), scale=1.0), scale
    rounded, scale = t.dynamic[key]
    bias = [t.array(attrs["bias"].numpy())] if "bias" in attrs else []
    factors = {name: attrs[name] for name in ("weight", "scale")}
    outputs, inputs = attrs["weight"].shape
    y = t.emit("int8.Linear", rounded, attrs=factors, in_features=inputs, out_features=outputs)
    return t.expression("add(div(@0,@1),@2)" if bias else "div(@0,@1)", y, scale, *bias)


def takes_int8(weight: Attribute) -> bool:
    """Whether sums over rows of a weight (outputs, inputs) are those of an int8 layer."""
    return weight.dtype == "i8" and weight.shape[1] < MOST_PRODUCTS


def as_int8(values: Array | float) -> Array:
    """Values of padding as ncnn casts them."""
    return np.asarray(values).astype(np.int32).astype(np.int8)


def per_channel(values: Attribute, x: Operand) -> Array:
    """One value for all, or one a channel, shaped to stand beside ``x``; a vector is one channel to ncnn."""
    array = values.numpy()
    if array.size not in (1, shape_of(x)[1]):
        raise ShapeError("scales a channel", expected=shape_of(x)[1], actual=array.size)
    if len(shape_of(x)) == 2:
        array = array[:1]
    return array.reshape(1, -1, *(1,) * (len(shape_of(x)) - 2))


def quantize_channels(t: Tracer, x: Operand, scales: Attribute) -> Operand:
    """``x`` times one scale for all, or one a channel, as int8."""
    values = per_channel(scales, x).reshape(-1)
    if values.size == 1:
        return quantize(t, x, float(values[0]))
    return t.emit("int8.Quantize", x, t.array(values), names=["input", "scales"])


def floats(weight: Attribute) -> Attribute:
    """Return the weight of a layer that has no scales, which must not be int8."""
    if weight.dtype == "i8":
        raise ParameterError("the weights are int8, but parameter 8 does not say that there are scales for them")
    return weight


class Int8Weights:
    """The scales of an int8 layer and its weights with those scales applied.

    Parameters
    ----------
    w : Weights
    term : int
        1 or 2 (depthwise: one weight scale for all); plus 100 when the output of a convolution is quantised too.
    attrs : dict
        Weight and bias as read; a weight that is not int8 is quantised here.
    groups : int
    grouped : bool
        Whether the layer is a depthwise one, which has a weight scale a group.
    """

    def __init__(
        self, w: Weights, term: int, attrs: dict[str, Attribute], groups: int = 1, grouped: bool = False
    ) -> None:
        outputs = attrs["weight"].shape[0]
        shared = grouped and term % 100 == 2
        self._weight_scales = w.load(1 if shared else groups if grouped else outputs, type=1)
        self._input_scale = w.load(1, type=1)
        self._output_scale = w.load(1, type=1) if term > 100 else None
        self._attrs, self._ready = attrs, dict[str, Attribute]()

    def attributes(self) -> dict[str, Attribute]:
        """Weights of int8, what their sums are multiplied with, and the bias."""
        if not self._ready:
            weight = self._attrs["weight"]
            outputs = weight.shape[0]
            scales = self._weight_scales.numpy()
            scales = np.repeat(scales, outputs // scales.size)
            if weight.dtype != "i8":
                wide = scales.reshape(-1, *(1,) * (len(weight.shape) - 1))
                array = weight.numpy().astype(np.float32, copy=False)
                weight = Attribute.owning(round_to_int8(array * wide).astype(np.int8))
            with np.errstate(divide="ignore"):
                factor = np.where(scales == 0, 0.0, 1.0 / (self._input_scale.numpy() * scales))
            self._ready = {**self._attrs, "weight": weight, "scale": Attribute.owning(factor.astype(np.float32))}
        return self._ready

    def run(self, t: Tracer, x: Operand, emit: Emit, act: Activation) -> Operand:
        """Quantise the input unless it is quantised, compute, and quantise the output if the layer says so."""
        y = act(t, emit(t, quantize(t, x, float(self._input_scale.numpy()[0])), self.attributes()))
        return y if self._output_scale is None else quantize(t, y, float(self._output_scale.numpy()[0]))


@layer("Quantize")
def quantize_layer(p: Params, w: Weights) -> Build:
    """Float to int8."""
    scales = w.load(p.count(0, 1), type=1)
    return lambda t, x: quantize_channels(t, x, scales)


@layer("Dequantize", inplace=True)
def dequantize(p: Params, w: Weights) -> Build:
    """Integers to float: times a scale plus a bias."""
    scales, n_bias = w.load(p.count(0, 1), type=1), p.count(1, 0, 0)
    bias = w.load(n_bias, type=1) if n_bias else None

    def build(t: Tracer, x: Operand) -> Operand:
        inputs = [x, t.array(per_channel(scales, x))]
        if bias is None:
            return t.expression("mul(@0,@1)", *inputs)
        return t.expression("add(mul(@0,@1),@2)", *inputs, t.array(per_channel(bias, x)))

    return build


@layer("Requantize")
def requantize(p: Params, w: Weights) -> Build:
    """Integers to int8: dequantised, activated and quantised again."""
    from pnnx_fast.ncnn.layers.elementwise import activation

    counts = p.count(0, 1), p.count(1, 1), p.count(2, 0, 0)
    act = activation(p.int(3), p.floats(4))
    scale_in, scale_out = (w.load(n, type=1) for n in counts[:2])
    bias = w.load(counts[2], type=1) if counts[2] else None

    def build(t: Tracer, x: Operand) -> Operand:
        inputs = [x, t.array(per_channel(scale_in, x))]
        text = "mul(@0,@1)"
        if bias is not None:
            inputs.append(t.array(per_channel(bias, x)))
            text = "add(mul(@0,@1),@2)"
        return quantize_channels(t, act(t, t.expression(text, *inputs)), scale_out)

    return build


_CAST_TYPES = {1: "torch.float", 2: "torch.half", 3: "torch.int8", 4: "torch.bfloat16"}


@layer("Cast")
def cast(p: Params, w: Weights) -> Build:
    """Another type of storage: int8, or what another one does to the values, which are float32 in a net."""
    source, target = p.choice(0, 0, 5), p.choice(1, 0, 5)
    if target == 0:
        raise ParameterError("the type to cast to is missing")

    def build(t: Tracer, x: Operand) -> Operand:
        if target == source:
            return x
        if target in (1, 3):
            return t.as_float(x) if target == 1 else quantize(t, x, 1.0)
        return t.cast(t.cast(x, _CAST_TYPES[target]))

    return build
