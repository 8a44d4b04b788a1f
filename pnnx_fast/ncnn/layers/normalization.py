"""Layers that normalise: over channels, groups, instances, rows or neighbourhoods, and softmax."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pnnx_fast.errors import ParameterError, ShapeError
from pnnx_fast.ir import Attribute, Operand
from pnnx_fast.ncnn.layers.convolution import pad
from pnnx_fast.ncnn.layers.registry import Build, layer
from pnnx_fast.ncnn.layers.shape import axis_of
from pnnx_fast.ncnn.tracer import Tracer, dims_of, number, shape_of
from pnnx_fast.ncnn.values import Params, Weights


@layer("Softmax", inplace=True)
def softmax(p: Params, w: Weights) -> Build:
    """Exponentials that add up to one along an axis."""
    axis = p.int(0)
    if not p.flag(1) and axis != 0:
        raise ParameterError("the file is too old: its softmax axis counts the batch")
    return lambda t, x: t.emit("F.softmax", x, dim=axis_of(axis, x))


def _affine(p: Params, w: Weights, id: int, count: int, names: tuple[str, ...]) -> dict[str, Attribute]:
    return {name: w.load(count, type=1) for name in names} if p.flag(id, 1) else {}


def _trailing_shape(x: Operand, size: int) -> list[int]:
    """The last dimensions that hold ``size`` values together; as in ncnn, all but the first when they hold fewer."""
    shape = shape_of(x)
    most = max(len(shape) - 2, 1)
    for count in range(1, most + 1):
        if math.prod(shape[-count:]) == size or (count == most and math.prod(shape[-count:]) < size):
            return list(shape[-count:])
    raise ShapeError("normalised dimensions", expected=size, actual=list(shape[1:]))


@layer("LayerNorm", inplace=True)
def layer_norm(p: Params, w: Weights) -> Build:
    """Zero mean and unit variance over the last dimensions."""
    size, eps = p.count(0), p.float(1, 0.001)
    attrs = _affine(p, w, 2, size, ("weight", "bias"))
    return lambda t, x: _over_trailing(t, x, "nn.LayerNorm", size, eps, attrs)


@layer("RMSNorm", inplace=True)
def rms_norm(p: Params, w: Weights) -> Build:
    """Unit mean square over the last dimensions."""
    size, eps = p.count(0), p.float(1, 0.001)
    attrs = _affine(p, w, 2, size, ("weight",))
    return lambda t, x: _over_trailing(t, x, "nn.RMSNorm", size, eps, attrs)


def _over_trailing(t: Tracer, x: Operand, type: str, size: int, eps: float, attrs: dict[str, Attribute]) -> Operand:
    shape = shape_of(x)
    wanted = _trailing_shape(x, size)
    if math.prod(wanted) < size:
        size = math.prod(wanted)
        attrs = {name: Attribute.owning(a.numpy()[:size]) for name, a in attrs.items()}
    # Weights are vectors, so the normalised dimensions become one.
    y = x if len(wanted) == 1 else t.reshape(x, (*shape[: -len(wanted)], size))
    y = t.emit(type, y, attrs=attrs, normalized_shape=[size], eps=eps, elementwise_affine=bool(attrs))
    return t.reshape(y, shape)


@layer("GroupNorm", inplace=True)
def group_norm(p: Params, w: Weights) -> Build:
    """Zero mean and unit variance of each group of channels."""
    groups, channels, eps = p.count(0, 1), p.count(1), p.float(2, 0.001)
    attrs = _affine(p, w, 3, channels, ("weight", "bias"))

    def build(t: Tracer, x: Operand) -> Operand:
        shape = shape_of(x)
        if shape[1] != channels:
            raise ShapeError("channels", expected=channels, actual=shape[1])
        y = t.reshape(x, (*shape, 1)) if len(shape) == 2 else x
        y = t.emit(
            "nn.GroupNorm", y, attrs=attrs, num_groups=groups, num_channels=channels, eps=eps, affine=bool(attrs)
        )
        return t.reshape(y, shape)

    return build


@layer("InstanceNorm", inplace=True)
def instance_norm(p: Params, w: Weights) -> Build:
    """Zero mean and unit variance of each channel."""
    channels, eps = p.int(0), p.float(1, 0.001)
    attrs = _affine(p, w, 2, channels, ("weight", "bias"))

    def build(t: Tracer, x: Operand) -> Operand:
        y = t.with_channels(x)
        name = {4: "nn.InstanceNorm2d", 5: "nn.InstanceNorm3d"}[len(shape_of(y))]
        count = shape_of(y)[1]
        fitting = {key: Attribute.owning(a.numpy()[:count]) for key, a in attrs.items()} if count < channels else attrs
        y = t.emit(name, y, attrs=fitting, num_features=count, eps=eps, affine=bool(attrs), track_running_stats=False)
        return t.reshape(y, shape_of(x))

    return build


@layer("LRN", inplace=True)
def local_response(p: Params, w: Weights) -> Build:
    """Divided by a power of the mean square of neighbours, over channels or space."""
    region, size = p.choice(0, 0, 2), p.count(1, 5)
    alpha, beta, bias = p.float(2, 1.0), p.float(3, 0.75), p.float(4, 1.0)

    def build(t: Tracer, x: Operand) -> Operand:
        if region == 0:
            # In PyTorch, where files with such blobs come from, the first dimension is the channels whatever the rank;
            # ncnn sees a single channel in two dimensions.
            y = t.reshape(x, (*shape_of(x), 1)) if dims_of(x) == 1 else x
            y = t.emit("F.local_response_norm", y, size=size, alpha=alpha, beta=beta, k=bias)
            return t.reshape(y, shape_of(x))
        if dims_of(x) != 3:
            raise ShapeError("number of dimensions", expected=3, actual=dims_of(x))
        before, after = size // 2, size - size // 2 - 1
        padded = pad(t, t.expression("square(@0)", x), [before] * 2, [after] * 2, 0.0)
        window: dict[str, Any] = {"kernel_size": [size, size], "stride": [1, 1], "padding": [0, 0]}
        mean = t.emit("F.avg_pool2d", padded, **window, ceil_mode=False, count_include_pad=True)
        text = f"mul(@0,pow(add(mul(@1,{number(alpha)}),{number(bias)}),{number(-beta)}))"
        return t.expression(text, x, mean)

    return build


@layer("MVN")
def mean_variance(p: Params, w: Weights) -> Build:
    """Zero mean, and unit deviation if wanted, of each channel or of all."""
    deviation, across, eps = p.flag(0), p.flag(1), p.float(2, 0.0001)

    def build(t: Tracer, x: Operand) -> Operand:
        x = t.with_channels(x)
        dims = list(range(1 if across else 2, len(shape_of(x))))
        mean = t.emit("torch.mean", x, dim=dims, keepdim=True)
        y = t.expression("sub(@0,@1)", x, mean)
        if not deviation:
            return y
        square = t.emit("torch.mean", t.expression("square(@0)", y), dim=dims, keepdim=True)
        return t.expression(f"div(@0,add(sqrt(@1),{number(eps)}))", y, square)

    return build


_ROOTS = ("sqrt(add(@1,{0}))", "maximum(sqrt(@1),{0})", "sqrt(maximum(@1,{0}))")


@layer("Normalize", inplace=True)
def normalize(p: Params, w: Weights) -> Build:
    """Unit length over space, over channels or over both, times a scale."""
    space, channels, shared = p.flag(0), p.flag(4, 1), p.flag(1)
    eps, mode, count = p.float(2, 0.0001), p.choice(9, 0, 3), p.count(3)
    scale = w.load(count, type=1)

    def build(t: Tracer, x: Operand) -> Operand:
        if dims_of(x) < 3:
            return t.reshape(build(t, t.with_channels(x)), shape_of(x))
        shape = shape_of(x)
        if not space and not channels:
            return x
        dims = list(range(1 if channels else 2, len(shape) if space else 2))
        total = t.emit("torch.sum", t.expression("square(@0)", x), dim=dims, keepdim=True)
        # A blob without channels is one channel.
        factors = np.asarray(scale.numpy()[: 1 if shared or shape[1] == 1 else count], np.float32)
        text = f"mul(div(@0,{_ROOTS[mode].format(number(eps))}),@2)"
        if factors.size == 1:
            return t.expression(text.replace("@2", number(float(factors[0]))), x, total)
        if factors.size != shape[1]:
            raise ShapeError("scales a channel", expected=shape[1], actual=factors.size)
        return t.expression(text, x, total, t.array(factors.reshape(1, -1, *(1,) * (len(shape) - 2))))

    return build
