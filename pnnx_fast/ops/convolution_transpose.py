"""Transposed convolutions in one, two and three dimensions, cut into phases.

With stride s, the outputs whose place leaves the same remainder by s see the same taps of the filter: they are an
ordinary convolution with stride one of the input with those taps, reversed. So a transposed convolution is a few
convolutions that write every s-th output, weights are views of the given ones, and all kernels serve. Strides too large
for that put zeros between the inputs, after which the stride is one.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from pnnx_fast.errors import ParameterError, ShapeError
from pnnx_fast.ops._window import per_axis
from pnnx_fast.ops.convolution import as_convolved, convolve, epilogue_fields
from pnnx_fast.ops.registry import Floats, Ints, operator
from pnnx_fast.ops.symbolic import Builder, Tensor

MOST_PHASES = 256
"""Phases beyond which zeros between the inputs take their place: each is a step that has to be prepared."""


class Phase:
    """Outputs first, first + s, … of one dimension: the taps last, last - step, … and how they meet the input."""

    # A dataclass would take longer to make than this whole file to import.
    __slots__ = ("before", "count", "dilation", "first", "last", "step", "taps")

    def __init__(self, first: int, count: int, last: int, step: int, taps: int, before: int, dilation: int) -> None:
        self.first, self.count, self.last, self.step = first, count, last, step
        self.taps, self.before, self.dilation = taps, before, dilation


def phases(size: int, out: int, k: int, s: int, p: int, d: int) -> Iterator[Phase]:
    """Phases of a dimension with ``size`` inputs and ``out`` outputs."""
    step = s // math.gcd(s, d)
    for first in range(min(s, out)):
        count = len(range(first, out, s))
        taps = [j for j in range(k) if (first + p - j * d) % s == 0]
        if taps:
            before = (taps[-1] * d - first - p) // s
            yield Phase(first, count, taps[-1], step, len(taps), before, step * d // s)
        else:
            # No tap: one that lies before the input for all outputs, so that bias and epilogue remain.
            yield Phase(first, count, 0, 1, 1, count + size, 1)


def output_sizes(
    sizes: Sequence[int],
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    extra: Sequence[int],
    dilation: Sequence[int],
) -> tuple[int, ...]:
    """Number of outputs along each dimension."""
    result = []
    for n, k, s, p, e, d in zip(sizes, kernel, stride, padding, extra, dilation, strict=True):
        if s < 1 or d < 1 or p < 0:
            raise ParameterError(f"stride {s} and dilation {d} must be positive", parameter="stride")
        if not 0 <= e < max(s, d):
            raise ParameterError(
                f"output padding must be smaller than stride or dilation, not {e}", parameter="output_padding"
            )
        out = (n - 1) * s - 2 * p + d * (k - 1) + e + 1
        if out < 1:
            raise ShapeError("the output of the transposed convolution is empty", expected=">= 1", actual=out)
        result.append(out)
    return tuple(result)


def phase_weight(weight: Tensor, parts: Sequence[Phase]) -> Tensor:
    """The taps of a phase as the weight (oc, ic, taps…) of an ordinary convolution; a view."""
    skip, shape, strides = 0, [weight.shape[1], weight.shape[0]], [weight.strides[1], weight.strides[0]]
    for part, stride in zip(parts, weight.strides[2:], strict=True):
        skip += part.last * stride
        shape.append(part.taps)
        strides.append(-part.step * stride)
    return weight.as_strided(shape, strides, skip)


def every(y: Tensor, parts: Sequence[Phase], stride: Sequence[int]) -> Tensor:
    """The outputs of a phase."""
    for axis, (part, s) in enumerate(zip(parts, stride, strict=True)):
        y = y.narrow(2 + axis, part.first, part.count, s)
    return y


def _by_group(b: Builder, weight: Tensor, groups: int) -> Tensor:
    """A weight (ic, oc / groups, taps…) as (ic / groups, oc, taps…), as in an ordinary grouped convolution."""
    ic, outputs, *spans = weight.shape
    taps = range(3, 3 + len(spans))
    split = b.reshape(weight, (groups, ic // groups, outputs, *spans))
    if ic > groups:
        # The outputs of all groups become one dimension.
        split = b.contiguous(split.permute([0, 2, 1, *taps]))
        return b.reshape(split, (groups * outputs, ic // groups, *spans)).permute([1, 0, *(d - 1 for d in taps)])
    return b.reshape(weight, (ic * outputs, 1, *spans)).permute([1, 0, *(d - 1 for d in taps)])


def spread(b: Builder, x: Tensor, stride: Sequence[int]) -> Tensor:
    """The input with stride - 1 zeros between neighbours."""
    sizes = [(n - 1) * s + 1 for n, s in zip(x.shape[2:], stride, strict=True)]
    y = b.empty((*x.shape[:2], *sizes), x.dtype, "channels_last")
    b.copy(b.constant(np.zeros(1, x.dtype)).as_strided(y.shape, (0,) * y.ndim), y)
    target = y
    for axis, (n, s) in enumerate(zip(x.shape[2:], stride, strict=True), 2):
        target = target.narrow(axis, 0, n, s)
    b.copy(x, target)
    return y


def transpose(
    b: Builder,
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    y: Tensor,
    *,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
    act: dict[str, Any],
) -> None:
    """Emit the convolutions of all phases: x (n, c, …) and weight (ic, oc / groups, …) into channels-last ``y``."""
    if groups > 1:
        weight = _by_group(b, weight, groups)
    if math.prod(map(min, stride, y.shape[2:])) > MOST_PHASES:
        x, stride = spread(b, x, stride), (1,) * len(stride)
    x = b.channels_last(x)
    sizes = zip(x.shape[2:], y.shape[2:], weight.shape[2:], stride, padding, dilation, strict=True)
    for parts in itertools.product(*(tuple(phases(*size)) for size in sizes)):
        convolve(
            b, x, phase_weight(weight, parts), bias, None, every(y, parts, stride),
            stride=(1,) * len(parts), before=[part.before for part in parts],
            dilation=[part.dilation for part in parts], groups=groups, act=act,
        )  # fmt: skip


def convolution_transpose(
    b: Builder,
    rank: int,
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Ints,
    padding: Ints,
    output_padding: Ints,
    dilation: Ints,
    groups: int,
    act: dict[str, Any],
) -> Tensor:
    """Lower a transposed convolution of any rank; one dimension is two with a height of one."""
    if weight.ndim != rank + 2 or input.ndim not in (rank + 1, rank + 2):
        raise ShapeError(
            f"a {rank}-d transposed convolution", operand="input", expected=f"{rank + 2} dimensions", actual=input.shape
        )
    channels = input.shape[input.ndim - rank - 1]
    if groups < 1 or channels != weight.shape[0] or channels % groups:
        raise ShapeError("channels do not fit the weight", expected=weight.shape[0], actual=channels)
    s, d, p = per_axis(stride, rank, "stride"), per_axis(dilation, rank, "dilation"), per_axis(padding, rank, "padding")
    x, w, bias = as_convolved(b, input, weight, bias)
    assert x is not None
    assert w is not None
    batched = x.ndim == rank + 2
    x = x if batched else x.unsqueeze(0)
    extra = per_axis(output_padding, rank, "output_padding")
    out = output_sizes(x.shape[2:], w.shape[2:], s, p, extra, d)
    y = b.result((x.shape[0], w.shape[1] * groups, *out), x.dtype, "channels_last")
    target = y
    if rank == 1:
        x, w, target = x.unsqueeze(2), w.unsqueeze(2), y.unsqueeze(2)
        s, p, d = (1, *s), (0, *p), (1, *d)
    transpose(b, x, w, bias, target, stride=s, padding=p, dilation=d, groups=groups, act=act)
    y = y if batched else y.select(0, 0)
    return b.cast(y, input.dtype)


def _conv_transpose(axes: int, words: str) -> Callable[..., Tensor]:
    def conv_transpose(
        b: Builder,
        input: Tensor,
        weight: Tensor,
        bias: Tensor | None = None,
        *,
        stride: Ints = 1,
        padding: Ints = 0,
        output_padding: Ints = 0,
        groups: int = 1,
        dilation: Ints = 1,
        in_channels: int | None = None,
        out_channels: int | None = None,
        kernel_size: Ints | None = None,
        activation: str = "none",
        activation_params: Floats = (),
    ) -> Tensor:
        act = epilogue_fields(activation, activation_params)
        return convolution_transpose(
            b, axes, input, weight, bias, stride, padding, output_padding, dilation, groups, act
        )

    conv_transpose.__doc__ = f"Transposed convolution over {words}. torch.nn.ConvTranspose{axes}d."
    return conv_transpose


for _axes, _words in ((1, "one dimension"), (2, "two dimensions"), (3, "three dimensions")):
    _function = _conv_transpose(_axes, _words)
    operator(f"nn.ConvTranspose{_axes}d", f"fused.ConvTranspose{_axes}d", rows=_axes + 2)(_function)
    operator(f"F.conv_transpose{_axes}d")(_function)
