"""Convolutions in one and two dimensions, with padding modes, groups, fused residual and activation.

Everything runs on channels-last float32 kernels; which one, ``_conv_choice`` decides by shape.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from pnnx_fast.errors import ParameterError, ShapeError
from pnnx_fast.expression.activations import activation_fields
from pnnx_fast.ops._conv_choice import choose
from pnnx_fast.ops.registry import Floats, Ints, find, operator
from pnnx_fast.ops.symbolic import Builder, Tensor

Padding = int | Sequence[int] | str
"""Annotation of a padding: numbers, ``"same"`` or ``"valid"``."""


def spatial(value: Ints, rank: int, what: str) -> tuple[int, ...]:
    """A size per spatial dimension."""
    sizes = (value,) * rank if isinstance(value, int) else tuple(value)
    if len(sizes) == 1:
        sizes *= rank
    if len(sizes) != rank:
        raise ParameterError(f"{what} must have {rank} numbers, not {len(sizes)}", parameter=what)
    return sizes


def paddings(
    padding: Padding, kernel: Sequence[int], dilation: Sequence[int], stride: Sequence[int]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Zeros before and after each spatial dimension."""
    if padding == "valid":
        return (0,) * len(kernel), (0,) * len(kernel)
    if padding == "same":
        if any(s != 1 for s in stride):
            raise ParameterError("padding 'same' needs stride 1", parameter="padding")
        total = [d * (k - 1) for d, k in zip(dilation, kernel, strict=True)]
        return tuple(t // 2 for t in total), tuple(t - t // 2 for t in total)
    if isinstance(padding, str):
        raise ParameterError(f"unknown padding {padding!r}", parameter="padding")
    both = spatial(padding, len(kernel), "padding")
    return both, both


def window_counts(
    sizes: Sequence[int],
    kernel: Sequence[int],
    stride: Sequence[int],
    dilation: Sequence[int],
    before: Sequence[int],
    after: Sequence[int],
) -> tuple[int, ...]:
    """Number of window positions along each dimension."""
    counts = []
    for n, k, s, d, p, q in zip(sizes, kernel, stride, dilation, before, after, strict=True):
        if k < 1 or s < 1 or d < 1 or min(p, q) < 0:
            raise ParameterError(f"kernel {k}, stride {s} and dilation {d} must be positive", parameter="kernel_size")
        span = d * (k - 1) + 1
        if n + p + q < span:
            raise ShapeError("the kernel is larger than the padded input", expected=f">= {span}", actual=n + p + q)
        counts.append((n + p + q - span) // s + 1)
    return tuple(counts)


def epilogue_fields(activation: str, parameters: Floats, residual_late: bool = False) -> dict[str, Any]:
    """Kernel fields of a fused activation; a late residual is added after it."""
    values = parameters if isinstance(parameters, (list, tuple)) else [float(parameters)]  # type: ignore[arg-type]
    return {**activation_fields(activation, [float(v) for v in values]), "z_late": int(residual_late)}


def as_float32(b: Builder, *tensors: Tensor | None) -> list[Tensor | None]:
    """Tensors in the type in which kernels compute."""
    for t in tensors:
        if t is not None and t.dtype.kind == "c":
            raise ShapeError("complex convolutions are not supported", actual=t.dtype)
    return [None if t is None else b.cast(t, np.float32) for t in tensors]


def check_weights(x: Tensor, weight: Tensor, groups: int, rank: int) -> None:
    """Raise unless channels, groups and dimensions fit together."""
    if weight.ndim != rank + 2 or x.ndim not in (rank + 1, rank + 2):
        raise ShapeError(f"a {rank}-d convolution", operand="input", expected=f"{rank + 2} dimensions", actual=x.shape)
    channels = x.shape[x.ndim - rank - 1]
    if groups < 1 or weight.shape[0] % groups or channels != weight.shape[1] * groups:
        raise ShapeError("channels do not fit the weight", expected=weight.shape[1] * groups, actual=channels)


def convolve2d(
    b: Builder,
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    residual: Tensor | None,
    *,
    stride: Sequence[int],
    before: Sequence[int],
    after: Sequence[int],
    dilation: Sequence[int],
    groups: int,
    act: dict[str, Any],
    y: Tensor | None = None,
) -> Tensor:
    """Emit one 2-d convolution of float32 tensors (n, c, h, w); returns the (channels-last) result."""
    n, c, h, w = x.shape
    oc, _, kh, kw = weight.shape
    oh, ow = window_counts((h, w), (kh, kw), stride, dilation, before, after)
    if y is None:
        y = b.result((n, oc, oh, ow), np.float32, "channels_last")
    x = b.channels_last(x)
    z = None if residual is None else b.channels_last(residual.expand(y.shape))
    geometry = {
        "n": n, "ih": h, "iw": w, "ic": c, "oh": oh, "ow": ow, "oc": oc,
        "kh": kh, "kw": kw, "stride_h": stride[0], "stride_w": stride[1], "pad_h": before[0], "pad_w": before[1],
        "dil_h": dilation[0], "dil_w": dilation[1], "groups": groups,
        "xsn": x.strides[0], "xsh": x.strides[2], "xsw": x.strides[3],
        "ysn": y.strides[0], "ysh": y.strides[2], "ysw": y.strides[3],
        "zsn": 0, "zsh": 0, "zsw": 0, "z_late": 0, **act,
    }  # fmt: skip
    if z is not None:
        geometry.update(zsn=z.strides[0], zsh=z.strides[2], zsw=z.strides[3])
    choice = choose(b.isa, b.nthreads, geometry, weight.is_constant)
    plan = b.plan(choice.kernel, **geometry, variant=choice.variant)
    shape = {"oc": oc, "ic": c, "kh": kh, "kw": kw, "groups": groups, "variant": plan.variant}
    packed = packed_weight(b, choice.pack, weight, plan.packed_bytes, shape)
    b.step(
        choice.kernel,
        x=x, w=packed, bias=None if bias is None else b.contiguous(bias), z=z, y=y,
        scratch=b.scratch(plan.scratch_bytes), **geometry, variant=plan.variant,
        flops=2 * y.size * (c // groups) * kh * kw,
        label=plan.label,
        inplace=None if z is None else (y, z),
    )  # fmt: skip
    return y


def packed_weight(b: Builder, pack: str, weight: Tensor, nbytes: int, shape: dict[str, int]) -> Tensor:
    """Weights in the kernel's order: packed once when they are constant, at every call when they are not."""
    if weight.is_constant:
        return b.pack(pack, weight, nbytes, scale=None, **shape)
    packed = b.empty((nbytes // 4,), np.float32)
    b.step(pack, x=b.contiguous(weight), scale=None, y=packed, serial=False, **shape)
    return packed


def pad_input(b: Builder, x: Tensor, before: Sequence[int], after: Sequence[int], mode: str) -> Tensor:
    """Input with its borders filled by reflection, replication or wrapping."""
    definition = find("F.pad")
    assert definition is not None
    pad = [v for p, q in zip(reversed(before), reversed(after), strict=True) for v in (p, q)]
    padded: Tensor = definition.function(b, x, pad=tuple(pad), mode=mode)
    return padded


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
) -> Tensor:
    """Lower a convolution of rank 1 or 2; one dimension is two with a height of one."""
    check_weights(input, weight, groups, rank)
    s, d = spatial(stride, rank, "stride"), spatial(dilation, rank, "dilation")
    before, after = paddings(padding, weight.shape[2:], d, s)
    x, w, bias, z = as_float32(b, input, weight, bias, residual)
    assert x is not None
    assert w is not None
    batched = x.ndim == rank + 2
    x = x if batched else x.unsqueeze(0)
    z = z if z is None or batched else z.unsqueeze(0)
    if padding_mode != "zeros" and (any(before) or any(after)):
        x = pad_input(b, x, before, after, padding_mode)
        before = after = (0,) * rank
    if rank == 1:
        x, w = x.unsqueeze(2), w.unsqueeze(2)
        z = None if z is None else z.unsqueeze(2)
        s, d, before, after = (1, *s), (1, *d), (0, *before), (0, *after)
    y = convolve2d(b, x, w, bias, z, stride=s, before=before, after=after, dilation=d, groups=groups, act=act)
    y = y.squeeze([2]) if rank == 1 else y
    y = y if batched else y.select(0, 0)
    return b.cast(y, input.dtype)


@operator("nn.Conv1d", "F.conv1d", "fused.Conv1d")
def conv1d(
    b: Builder,
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    residual: Tensor | None = None,
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
    """Convolution over one dimension. torch.nn.Conv1d."""
    return convolution(
        b, 1, input, weight, bias, residual, stride, padding, dilation, groups, padding_mode,
        epilogue_fields(activation, activation_params, residual_late),
    )  # fmt: skip


@operator("nn.Conv2d", "F.conv2d", "fused.Conv2d")
def conv2d(
    b: Builder,
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    residual: Tensor | None = None,
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
    """Convolution over two dimensions. torch.nn.Conv2d."""
    return convolution(
        b, 2, input, weight, bias, residual, stride, padding, dilation, groups, padding_mode,
        epilogue_fields(activation, activation_params, residual_late),
    )  # fmt: skip


def multiply_rows(
    b: Builder,
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    residual: Tensor | None,
    act: dict[str, Any],
    y: Tensor | None = None,
) -> Tensor:
    """Emit ``act(input @ weight.T + bias + residual)`` over the last dimension: a 1x1 convolution over rows.

    ``y``, when given, is the dense tensor that takes the result.
    """
    *lead, features = input.shape
    out = weight.shape[0]
    rows = math.prod(lead)
    if y is None:
        y = b.result((*lead, out), np.float32)
    x = input if _even_rows(input) else b.contiguous(input)
    z = None if residual is None else b.contiguous(residual.expand(y.shape))
    pixels = x.as_strided((1, features, 1, rows), (0, 1, 0, _row_stride(x)))
    target = y.as_strided((1, out, 1, rows), (0, 1, 0, out))
    other = None if z is None else z.as_strided((1, out, 1, rows), (0, 1, 0, out))
    convolve2d(
        b, pixels, weight.as_strided((out, features, 1, 1), (*weight.strides, 1, 1)), bias, other,
        stride=(1, 1), before=(0, 0), after=(0, 0), dilation=(1, 1), groups=1, act=act, y=target,
    )  # fmt: skip
    return y


def _row_stride(x: Tensor) -> int:
    return next((s for n, s in zip(x.shape[-2::-1], x.strides[-2::-1], strict=True) if n != 1), x.shape[-1])


def _even_rows(x: Tensor) -> bool:
    """Whether all rows (over the last dimension, dense) follow each other at one distance."""
    if x.shape[-1] != 1 and x.strides[-1] != 1:
        return False
    step = _row_stride(x)
    for n, s in zip(x.shape[-2::-1], x.strides[-2::-1], strict=True):
        if n != 1:
            if s != step:
                return False
            step *= n
    return True
