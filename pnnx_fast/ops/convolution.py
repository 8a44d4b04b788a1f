"""Convolutions in one, two and three dimensions: padding modes, groups, fused residual and activation.

Half and single precision run on channels-last float32 kernels; which one, ``_conv_choice`` decides by shape.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from pnnx_fast._core.program import THIN_PIXELS
from pnnx_fast.errors import ShapeError
from pnnx_fast.expression.activations import activation_fields
from pnnx_fast.ops._channels import emit_channels
from pnnx_fast.ops._conv_choice import AFFINE, STEM, STEM_CHANNELS, Choice, candidates, choose, is_stem
from pnnx_fast.ops._window import Padding, paddings, per_axis, window_counts, window_fields
from pnnx_fast.ops.registry import Floats, Ints, operator
from pnnx_fast.ops.symbolic import Builder, Tensor

IN_THREE_DIMENSIONS = Choice("conv3d_f32", "conv_pack_f32")


def epilogue_fields(activation: str, parameters: Floats, residual_late: bool = False) -> dict[str, Any]:
    """Kernel fields of a fused activation; a late residual is added after it."""
    return {**activation_fields(activation, parameters), "z_late": int(residual_late)}


def as_computed(b: Builder, first: Tensor, *others: Tensor | None) -> list[Tensor | None]:
    """Tensors in the type in which an operator computes: float64 with the first one, else float32."""
    return _as_type(b, np.float64 if first.dtype == np.float64 else np.float32, (first, *others))


def as_convolved(b: Builder, first: Tensor, *others: Tensor | None) -> list[Tensor | None]:
    """Tensors in the type in which a convolution computes: integers, which must be of one type, as they are."""
    kind = first.dtype.kind
    for t in (first, *others):
        if t is not None and (t.dtype.kind != kind or (kind != "f" and t.dtype != first.dtype)):
            raise ShapeError("input and weights of a convolution have one type", expected=first.dtype, actual=t.dtype)
    if kind == "b":
        raise ShapeError("convolutions of truth values are not supported", actual=first.dtype)
    return [first, *others] if kind in "iu" else as_computed(b, first, *others)


def as_float32(b: Builder, *tensors: Tensor | None) -> list[Tensor | None]:
    """Tensors in the type in which kernels compute."""
    return _as_type(b, np.float32, tensors)


def _as_type(b: Builder, dtype: type, tensors: Sequence[Tensor | None]) -> list[Tensor | None]:
    for t in tensors:
        if t is not None and t.dtype.kind == "c":
            raise ShapeError("complex convolutions are not supported", actual=t.dtype)
    return [None if t is None else b.cast(t, dtype) for t in tensors]


def check_weights(x: Tensor, weight: Tensor, groups: int, rank: int) -> None:
    """Raise unless channels, groups and dimensions fit together."""
    if weight.ndim != rank + 2 or x.ndim not in (rank + 1, rank + 2):
        raise ShapeError(f"a {rank}-d convolution", operand="input", expected=f"{rank + 2} dimensions", actual=x.shape)
    channels = x.shape[x.ndim - rank - 1]
    if groups < 1 or weight.shape[0] % groups or channels != weight.shape[1] * groups:
        raise ShapeError("channels do not fit the weight", expected=weight.shape[1] * groups, actual=channels)
    if 0 in x.shape[x.ndim - rank :]:
        raise ShapeError("images without pixels cannot be convolved", actual=x.shape)


def convolve(
    b: Builder,
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    residual: Tensor | None,
    y: Tensor,
    *,
    stride: Sequence[int],
    before: Sequence[int],
    dilation: Sequence[int],
    groups: int,
    act: Mapping[str, Any],
    gate: Tensor | None = None,
) -> None:
    """Emit one convolution of (n, c, h, w) or (n, c, d, h, w), all of one type, into channels-last ``y``.

    ``before`` is the padding in front of each dimension; behind the input there are as many zeros as ``y`` asks for.
    ``gate``: what the input is to be multiplied with.
    """
    if bias is not None and bias.shape != (y.shape[1],):
        raise ShapeError("the bias does not fit the weight", expected=(y.shape[1],), actual=bias.shape)
    if not b.wants_steps:
        return
    single = x.dtype == np.float32
    if gate is not None and not (single and _takes_gate(x, weight, gate) and _stays_inside(x, y, stride, before)):
        x, gate = _product(b, x, gate), None
    window: dict[str, Any] = {"stride": stride, "before": before, "dilation": dilation, "groups": groups, "act": act}
    if not single:
        # Few models need these, and they take time to import.
        from pnnx_fast.ops._conv_parts import Convolution

        if x.dtype == np.float64:
            from pnnx_fast.ops._double import convolve_double as emit
        else:
            from pnnx_fast.ops._conv_integers import convolve_integers as emit
        emit(b, Convolution(x, weight, bias, residual, y, **window))
        return
    stem = x.ndim == 4 and is_stem(x.shape[1], weight.shape[2:], dilation, groups)
    x = x if stem else b.channels_last(x)
    if gate is None and not stem and (x.ndim == 5 or dilation[1] > 1):
        from pnnx_fast.ops._conv_parts import Convolution, parts_of

        parts = parts_of(b, Convolution(x, weight, bias, residual, y, **window))
        for part in parts:
            convolve(b, **part._asdict())
        if parts:
            return
    _emit(b, x, weight, bias, residual, y, gate, stem, window)


def _emit(
    b: Builder,
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    residual: Tensor | None,
    y: Tensor,
    gate: Tensor | None,
    stem: bool,
    window: Mapping[str, Any],
) -> None:
    """Emit the packing of the weight and one step, by the kernel that is chosen."""
    z = None if residual is None else b.channels_last(residual.expand(y.shape))
    fields = window_fields(x, y, z, weight.shape[2:], **window)
    choice = IN_THREE_DIMENSIONS
    if stem:
        choice = STEM
        fields["xsc"] = x.strides[1]
    elif x.ndim == 4:
        choice = choose(b.isa, b.nthreads, fields, weight.is_constant, b.weights_bytes)
        choice = b.prefer(choice, lambda: candidates(b.isa, fields), weight, fields)
        if gate is not None and choice.kernel in AFFINE:
            # What the kernel does to its input is the product with the gate.
            fields |= {"scale": b.contiguous(gate), "before": 0, "before_a": 0.0, "before_b": 0.0}
            choice, gate = AFFINE[choice.kernel], None
    plan = b.plan(choice.kernel, **fields, variant=choice.variant)
    kh, kw = math.prod(weight.shape[2:-1]), weight.shape[-1]
    shape: dict[str, Any] = {"oc": y.shape[1], "ic": x.shape[1], "kh": kh, "kw": kw}
    shape |= {"groups": fields["groups"], "variant": plan.variant}
    w = packed_weight(b, choice.pack, weight, plan.packed_bytes, shape)
    if gate is not None:
        packed, w = w, b.empty(w.shape, w.dtype)
        b.step("conv_scale_f32", x=packed, scale=b.contiguous(gate), y=w, **shape)
    b.step(
        choice.kernel,
        x=x,
        y=y,
        z=z,
        bias=None if bias is None else b.contiguous(bias),
        w=w,
        scratch=b.scratch(plan.scratch_bytes),
        **fields,
        **plan.chosen,
        flops=2 * y.size * math.prod(weight.shape[1:]),
        label=plan.label,
        inplace=(y, z) if z is not None and not fields["z_late"] and _may_share(x, y, z) else None,
    )


def _product(b: Builder, x: Tensor, gate: Tensor) -> Tensor:
    channels = x.shape[1]
    if x.dtype == np.float32 and x.shape[0] == 1 and gate.shape == (1, channels, 1, 1):
        # In the words of a batch norm, which may become part of the convolution.
        x, shift = b.channels_last(x), b.cached(("no shift", channels), lambda: np.zeros(channels, np.float32))
        y = b.empty(x.shape, np.float32, x)
        emit_channels(b, "channel_affine", x, y, b.reshape(gate, (channels,)), shift, activation_fields("none"))
        return y
    # Other gates are rare, and expressions take time to import.
    from pnnx_fast.ops.elementwise import intermediate

    return intermediate(b, "mul(@0,@1)", x, gate)


def _takes_gate(x: Tensor, weight: Tensor, gate: Tensor) -> bool:
    """Whether to multiply the weights, or the input on its way to the products: of 1x1 windows with fewer weights."""
    if x.ndim != 4 or gate.shape != (1, x.shape[1], 1, 1) or x.shape[0] != 1 or not weight.is_constant:
        return False
    window = weight.shape[2:] == (1, 1) and weight.shape[1] == x.shape[1] > STEM_CHANNELS
    pixels = x.shape[2] * x.shape[3]
    return window and pixels > THIN_PIXELS and pixels >= 2 * weight.shape[0]


def _stays_inside(x: Tensor, y: Tensor, stride: Sequence[int], before: Sequence[int]) -> bool:
    """Whether windows of one pixel meet no padding, which kernels that multiply the input do not know."""
    places = zip(y.shape[2:], stride, x.shape[2:], strict=True)
    return not any(before) and all((n - 1) * s < size for n, s, size in places)


def _may_share(x: Tensor, y: Tensor, z: Tensor) -> bool:
    """Whether ``y`` may take the memory of the residual: element on element, and nobody reads it as input."""
    return z.buffer is not x.buffer and y.strides == z.strides and y.offset == z.offset == 0


def packed_weight(b: Builder, pack: str, weight: Tensor, nbytes: int, shape: dict[str, Any]) -> Tensor:
    """Weights in the kernel's order: packed once when they are constant, at every call when they are not."""
    if weight.is_constant:
        return b.pack(pack, weight, nbytes, **shape)
    packed = b.empty((nbytes // 4,), np.float32)
    b.step(pack, x=b.contiguous(weight), y=packed, serial=False, **shape)
    return packed


def convolution(
    b: Builder,
    rank: int,
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    residual: Tensor | None,
    stride: Ints,
    padding: Padding,
    dilation: Ints,
    groups: int,
    padding_mode: str,
    act: dict[str, Any],
    gate: Tensor | None = None,
) -> Tensor:
    """Lower a convolution of any rank; one dimension is two with a height of one."""
    if gate is not None and not gate.expands_to(input.shape):
        from pnnx_fast.ops.elementwise import intermediate

        input, gate = intermediate(b, "mul(@0,@1)", input, gate), None
    check_weights(input, weight, groups, rank)
    s, d = per_axis(stride, rank, "stride"), per_axis(dilation, rank, "dilation")
    # Other modes than zeros reach the file as the list that torch.nn.functional.pad takes.
    pairs, sizes = padding_mode != "zeros", input.shape[input.ndim - rank :]
    before, after = paddings(padding, weight.shape[2:], d, s, pairs, sizes)
    out = window_counts(sizes, weight.shape[2:], s, d, before, after)
    whole = (*input.shape[: input.ndim - rank - 1], weight.shape[0], *out)
    if residual is not None and not residual.expands_to(whole):
        from pnnx_fast.ops._epilogue import finish

        layer = (input, weight, bias, None, stride, padding, dilation, groups, padding_mode)
        return finish(b, convolution(b, rank, *layer, epilogue_fields("none", ()), gate), residual, act)
    x, w, bias, z, gate = as_convolved(b, input, weight, bias, residual, gate)
    assert x is not None
    assert w is not None
    batched = x.ndim == rank + 2
    x = x if batched else x.unsqueeze(0)
    z = z if z is None or batched else z.unsqueeze(0)
    if padding_mode != "zeros" and (any(before) or any(after)):
        from pnnx_fast.ops.padding import pad_sides

        x = pad_sides(b, x, (0, 0, *before), (0, 0, *after), padding_mode, temporary=True)
        before = (0,) * rank
    y = b.result((x.shape[0], w.shape[0], *out), x.dtype, "channels_last")
    parts: list[Tensor | None] = [x, w, z, gate, y]
    if rank == 1:
        parts = [None if t is None else t.unsqueeze(2) for t in parts]
        s, d, before = (1, *s), (1, *d), (0, *before)
    image, filters, other, gate, target = parts
    assert image is not None
    assert filters is not None
    assert target is not None
    window: dict[str, Any] = {"stride": s, "before": before, "dilation": d, "groups": groups, "act": act}
    convolve(b, image, filters, bias, other, target, **window, gate=gate)
    return b.cast(y if batched else y.select(0, 0), input.dtype)


def _conv(axes: int, words: str) -> Callable[..., Tensor]:
    def conv(
        b: Builder,
        input: Tensor,
        weight: Tensor,
        bias: Tensor | None = None,
        residual: Tensor | None = None,
        gate: Tensor | None = None,
        *,
        stride: Ints = 1,
        padding: Padding = 0,
        dilation: Ints = 1,
        groups: int = 1,
        padding_mode: str = "zeros",
        in_channels: int | None = None,
        out_channels: int | None = None,
        kernel_size: Ints | None = None,
        activation: str = "none",
        activation_params: Floats = (),
        residual_late: bool = False,
    ) -> Tensor:
        return convolution(
            b, axes, input, weight, bias, residual, stride, padding, dilation, groups, padding_mode,
            epilogue_fields(activation, activation_params, residual_late), gate,
        )  # fmt: skip

    conv.__doc__ = f"Convolution over {words}, of the product with a gate if there is one. torch.nn.Conv{axes}d."
    return conv


for _axes, _words in ((1, "one dimension"), (2, "two dimensions"), (3, "three dimensions")):
    _function = _conv(_axes, _words)
    operator(f"nn.Conv{_axes}d", f"fused.Conv{_axes}d", rows=_axes + 2)(_function)
    operator(f"F.conv{_axes}d")(_function)
