"""Layers over int8 tensors: rounding to int8, convolution and linear layers whose sums are exact integers.

What ncnn's quantised layers become. A tensor of int8 holds integers of -127 to 127, which are real numbers times a
scale; scales are parameters of the operators, so tensors know nothing of them. ``fuse_quantize`` moves the rounding of
inputs and results into the layers. Modules of PyTorch that carry zero points are in ``quantized.py``.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pnnx_fast._core.program import MAX_RANK
from pnnx_fast.errors import ParameterError, ShapeError
from pnnx_fast.ops._checks import require_dims
from pnnx_fast.ops._window import Padding, paddings, per_axis, require_reach, window_counts
from pnnx_fast.ops.convolution import check_weights, epilogue_fields, packed_weight
from pnnx_fast.ops.registry import Floats, Ints, operator
from pnnx_fast.ops.symbolic import Builder, Tensor

MOST_PRODUCTS = 1 << 17
"""Products of two int8 numbers of which a sum of 32 bits holds fewer."""

PICTURE_CHANNELS = 4
"""Most channels of planes that rounding makes pixels of."""


@operator("int8.Quantize", rows=2)
def quantize(b: Builder, input: Tensor, scales: Tensor | None = None, *, scale: float = 1.0) -> Tensor:
    """Integers nearest to ``input`` times a scale, or times ``scales`` a channel; halves away from zero."""
    require_dims(input, 0 if scales is None else 2, MAX_RANK)
    x = b.cast(input, np.float32)
    if scales is None:
        factors = b.constant(np.full(1, scale, np.float32))
    else:
        factors = b.contiguous(scales)
        if scales.shape != (x.shape[1],):
            raise ShapeError("scales a channel", operand="scales", expected=[x.shape[1]], actual=scales.shape)
        x = b.channels_last(x) if x.ndim > 2 else b.contiguous(x)
    # Pictures come plane by plane, and layers read pixels.
    picture = x.ndim == 4 and x.shape[1] <= PICTURE_CHANNELS
    y = b.result(x.shape, np.int8, "channels_last" if picture else x)
    order = [0, *range(2, x.ndim), 1] if x.ndim > 1 else [0]
    source, target = x.permute(order), y.permute(order)
    b.step(
        "quantize_int8",
        x=x,
        y=y,
        scale=factors,
        scales=factors.size,
        rank=x.ndim,
        shape=source.shape,
        xs=source.strides,
        ys=target.strides,
    )
    return y


def _check(input: Tensor, weight: Tensor, scale: Tensor, input_scale: float) -> None:
    wanted = np.dtype(np.float32 if input_scale else np.int8)
    if input.dtype != wanted or weight.dtype != np.int8:
        raise ShapeError("an int8 layer", operand="input", expected=(wanted, np.dtype(np.int8)), actual=input.dtype)
    if scale.shape != (weight.shape[0],):
        raise ShapeError("scales a channel", operand="scale", expected=[weight.shape[0]], actual=scale.shape)
    products = math.prod(weight.shape[1:])
    if products >= MOST_PRODUCTS:
        raise ParameterError(f"sums of {products} products may not fit 32 bits", parameter="weight")


def _emit(
    b: Builder,
    x: Tensor,
    weight: Tensor,
    scale: Tensor,
    bias: Tensor | None,
    z: Tensor | None,
    y: Tensor,
    fields: dict[str, Any],
) -> None:
    """Emit the kernel for tensors (n, c, h, w) whose channels are neighbours."""
    if bias is not None and bias.shape != (y.shape[1],):
        raise ShapeError("the bias does not fit the weight", expected=(y.shape[1],), actual=bias.shape)
    fields = {
        **fields,
        "n": x.shape[0],
        "ic": x.shape[1],
        "oc": y.shape[1],
        "kh": weight.shape[2],
        "kw": weight.shape[3],
    }
    for name, t in (("x", x), ("y", y), ("z", z)):
        steps = (0,) * 4 if t is None else t.strides
        fields |= {f"{name}sn": steps[0], f"{name}sh": steps[2], f"{name}sw": steps[3]}
    fields |= {"ih": x.shape[2], "iw": x.shape[3], "oh": y.shape[2], "ow": y.shape[3]}
    depthwise = 1 < fields["groups"] == fields["ic"] == fields["oc"] and not fields["x_scale"]
    kernel = "conv_depthwise_int8" if depthwise else "conv_int8"
    plan = b.plan(kernel, **fields)
    size = {key: fields[key] for key in ("oc", "ic", "kh", "kw", "groups")}
    b.step(
        kernel,
        x=x,
        y=y,
        z=z,
        bias=None if bias is None else b.contiguous(bias),
        scale=b.contiguous(scale),
        w=packed_weight(b, f"{kernel}_pack", weight, plan.packed_bytes, {**size, "variant": plan.variant}),
        scratch=b.scratch(plan.scratch_bytes),
        **fields,
        **plan.chosen,
        flops=2 * y.size * math.prod(weight.shape[1:]),
        label=plan.label,
    )


def _finish(b: Builder, y: Tensor, residual: Tensor, act: dict[str, Any], output_scale: float) -> Tensor:
    """Return the float32 result of a layer with a larger residual, activated and rounded as the layer would."""
    from pnnx_fast.ops._epilogue import finish

    total = finish(b, y, residual, act)
    return quantize(b, total, scale=output_scale) if output_scale else total


@operator("int8.Conv2d", "fused.Int8Conv2d", rows=4)
def int8_conv2d(
    b: Builder,
    input: Tensor,
    weight: Tensor,
    scale: Tensor,
    bias: Tensor | None = None,
    residual: Tensor | None = None,
    *,
    stride: Ints = 1,
    padding: Padding = 0,
    dilation: Ints = 1,
    groups: int = 1,
    in_channels: int | None = None,
    out_channels: int | None = None,
    kernel_size: Ints | None = None,
    input_scale: float = 0.0,
    output_scale: float = 0.0,
    activation: str = "none",
    activation_params: Floats = (),
    residual_late: bool = False,
) -> Tensor:
    """Convolution of int8 numbers, its sums times ``scale`` a channel.

    Input is int8, or float32 to be rounded with ``input_scale``; the result is float32, or int8 with ``output_scale``.
    """
    require_dims(input, 4, 4)
    check_weights(input, weight, groups, 2)
    _check(input, weight, scale, input_scale)
    s, d = per_axis(stride, 2, "stride"), per_axis(dilation, 2, "dilation")
    before, after = paddings(padding, weight.shape[2:], d, s, pairs=False)
    x = b.channels_last(input)
    out = window_counts(x.shape[2:], weight.shape[2:], s, d, before, after)
    require_reach(*s, *before, *d, *(n * (k - 1) + 1 for k, n in zip(weight.shape[2:], d, strict=True)))
    shape, act = (x.shape[0], weight.shape[0], *out), epilogue_fields(activation, activation_params, residual_late)
    if residual is not None and not residual.expands_to(shape):
        y = int8_conv2d(
            b, input, weight, scale, bias,
            stride=stride, padding=padding, dilation=dilation, groups=groups, input_scale=input_scale,
        )  # fmt: skip
        return _finish(b, y, residual, act, output_scale)
    y = b.result(shape, np.int8 if output_scale else np.float32, "channels_last")
    fields: dict[str, Any] = {"groups": groups, "x_scale": input_scale, "y_scale": output_scale}
    for i, axis in enumerate("hw"):
        fields |= {f"stride_{axis}": s[i], f"pad_{axis}": before[i], f"dil_{axis}": d[i]}
    z = None if residual is None else b.channels_last(residual.expand(y.shape))
    _emit(b, x, weight, scale, bias, z, y, {**fields, **act})
    return y


@operator("int8.Linear", "fused.Int8Linear", rows=2)
def int8_linear(
    b: Builder,
    input: Tensor,
    weight: Tensor,
    scale: Tensor,
    bias: Tensor | None = None,
    residual: Tensor | None = None,
    *,
    in_features: int | None = None,
    out_features: int | None = None,
    input_scale: float = 0.0,
    output_scale: float = 0.0,
    activation: str = "none",
    activation_params: Floats = (),
    residual_late: bool = False,
) -> Tensor:
    """Linear layer over int8 numbers, its sums times ``scale`` a channel; input and result as of ``int8.Conv2d``."""
    require_dims(input, 1)
    *lead, features = input.shape
    if weight.ndim != 2 or features != weight.shape[1]:
        raise ShapeError("features do not fit the weight", expected=weight.shape, actual=input.shape)
    _check(input, weight, scale, input_scale)
    outputs, rows = weight.shape[0], math.prod(lead)
    act = epilogue_fields(activation, activation_params, residual_late)
    if residual is not None and not residual.expands_to((*lead, outputs)):
        y = int8_linear(b, input, weight, scale, bias, input_scale=input_scale)
        return _finish(b, y, residual, act, output_scale)
    y = b.result((*lead, outputs), np.int8 if output_scale else np.float32)

    def pixels(t: Tensor) -> Tensor:
        """Rows as the pixels of one line."""
        count = t.shape[-1]
        dense = b.contiguous(t)
        return dense.as_strided((1, count, 1, rows), (rows * count, 1, rows * count, count))

    z = None if residual is None else pixels(residual.expand(y.shape))
    ones = {f"{name}_{axis}": 1 for name in ("stride", "dil") for axis in "hw"}
    fields = {**ones, "pad_h": 0, "pad_w": 0, "groups": 1, "x_scale": input_scale, "y_scale": output_scale, **act}
    filters = weight.as_strided((outputs, features, 1, 1), (*weight.strides, 1, 1))
    target = y.as_strided((1, outputs, 1, rows), (rows * outputs, 1, rows * outputs, outputs))
    _emit(b, pixels(input), filters, scale, bias, z, target, fields)
    return y
