"""Convolutions and transposed convolutions in one, two and three dimensions, with groups and weights from blobs."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pnnx_fast.errors import ParameterError, ShapeError
from pnnx_fast.ir import Attribute, Operand
from pnnx_fast.ncnn.layers.elementwise import activation
from pnnx_fast.ncnn.layers.int8 import Int8Weights, as_int8, floats
from pnnx_fast.ncnn.layers.registry import Build, layer
from pnnx_fast.ncnn.tracer import Tracer, dims_of, shape_of
from pnnx_fast.ncnn.values import Params, Weights
from pnnx_fast.ops._window import same_padding

SAME_UPPER, SAME_LOWER = -233, -234

# Parameter numbers of an axis, fastest axis (width) first.
_KERNEL, _DILATION, _STRIDE = (1, 11, 21), (2, 12, 22), (3, 13, 23)
_BEFORE, _AFTER = (4, 14, 24), (15, 16, 17)


@dataclass(frozen=True, slots=True)
class Geometry:
    """Kernel, stride, dilation and padding of each axis, slowest axis first."""

    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    before: tuple[int, ...]
    after: tuple[int, ...]

    @property
    def rank(self) -> int:
        """Number of axes."""
        return len(self.kernel)


def read_geometry(p: Params, rank: int, kernel_given: bool = True) -> Geometry:
    """Read what all convolutions of a rank share; axes default to the width."""
    before = p.axes(_BEFORE[:rank])
    # The far side defaults to the near side: right to left, bottom to top, behind to front.
    after = p.axes(_AFTER[:rank], before)
    kernel = p.axes(_KERNEL[:rank], least=1 if kernel_given else None)
    return Geometry(kernel, p.axes(_STRIDE[:rank], 1, 1), p.axes(_DILATION[:rank], 1, 1), before, after)


def paddings(g: Geometry, kernel: Sequence[int], sizes: Sequence[int]) -> tuple[list[int], list[int]]:
    """Values before and after each axis, "same" modes resolved for an input of these sizes."""
    sides = (*g.before, *g.after)
    if any(v > 0 for v in sides):
        return [max(v, 0) for v in g.before], [max(v, 0) for v in g.after]
    mode = sides[0] if len(set(sides)) == 1 else 0
    if mode not in (SAME_UPPER, SAME_LOWER):
        return [0] * g.rank, [0] * g.rank
    return halves(same_padding(sizes, kernel, g.stride, g.dilation), mode == SAME_UPPER)


def halves(totals: Sequence[int], upper: bool) -> tuple[list[int], list[int]]:
    """Values before and after each axis of a "same" mode, which has its odd ones behind (upper) or before."""
    small, large = [v // 2 for v in totals], [v - v // 2 for v in totals]
    # Those of depths are behind in both modes of ncnn.
    depths = len(totals) if upper else len(totals) - 2 if len(totals) > 2 else 0
    return small[:depths] + large[depths:], large[:depths] + small[depths:]


def padding_of(before: Sequence[int], after: Sequence[int]) -> list[int]:
    """Padding parameter of a convolution operator: one number an axis, or all befores and then all afters."""
    return list(before) if list(before) == list(after) else [*before, *after]


def pad(t: Tracer, x: Operand, before: Sequence[int], after: Sequence[int], value: float) -> Operand:
    """Constant border around the last axes."""
    if not any(before) and not any(after):
        return x
    sides = [v for b, a in zip(reversed(before), reversed(after), strict=True) for v in (b, a)]
    return t.emit("F.pad", x, pad=sides, mode="constant", value=value)


def _check_input(x: Operand, rank: int) -> None:
    if dims_of(x) != rank + 1:
        raise ShapeError("number of dimensions", expected=rank + 1, actual=dims_of(x))


class _Convolution:
    """One convolution layer with constant weights."""

    def __init__(self, p: Params, w: Weights, rank: int, grouped: bool) -> None:
        self.outputs, self.g = p.count(0), read_geometry(p, rank)
        self.groups = p.count(7, 1) if grouped else 1
        has_bias, size, int8 = p.flag(5), p.count(6), p.int(8) if rank == 2 else 0
        self.act = activation(p.int(9), p.floats(10))
        self.pad_value = p.float(18, 0.0)
        per_output = self.outputs * math.prod(self.g.kernel)
        if size % per_output or self.outputs % self.groups:
            raise ParameterError(f"{size} weights for {self.outputs} outputs, kernel {self.g.kernel}")
        shape = (self.outputs, size // per_output, *self.g.kernel)
        weight = w.load(*shape)
        self.attrs = {"weight": weight if int8 else floats(weight)}
        if has_bias:
            self.attrs["bias"] = w.load(self.outputs, type=1)
        self.int8 = Int8Weights(w, int8, self.attrs, self.groups, grouped) if int8 else None

    def __call__(self, t: Tracer, x: Operand) -> Operand:
        if dims_of(x) == 1 and self.g.rank == 2 and self.g.kernel == (1, 1) and self.groups == 1:
            return self._on_vector(t, x)
        _check_input(x, self.g.rank)
        return self._apply(t, x)

    def _apply(self, t: Tracer, x: Operand) -> Operand:
        if self.int8 is not None:
            return self.int8.run(t, x, self._emit, self.act)
        return self.act(t, self._emit(t, t.as_float(x), self.attrs))

    def _on_vector(self, t: Tracer, x: Operand) -> Operand:
        """A kernel of one on a vector, which is an inner product: there are no borders."""
        n, inputs = shape_of(x)
        pixel = t.reshape(x, (n, inputs, 1, 1))
        inner = copy(self)
        inner.g = replace(self.g, before=(0, 0), after=(0, 0))
        return t.reshape(inner._apply(t, pixel), (n, self.outputs))

    def _emit(self, t: Tracer, x: Operand, attrs: dict[str, Attribute]) -> Operand:
        before, after = paddings(self.g, self.g.kernel, shape_of(x)[2:])
        if self.pad_value != 0.0:
            x = pad(t, x, before, after, self.pad_value if x.dtype == "f32" else as_int8(self.pad_value).item())
            before = after = [0] * self.g.rank
        return t.emit(
            f"nn.Conv{self.g.rank}d" if self.int8 is None else "int8.Conv2d",
            x,
            attrs=attrs,
            in_channels=shape_of(x)[1],
            out_channels=self.outputs,
            kernel_size=list(self.g.kernel),
            stride=list(self.g.stride),
            padding=padding_of(before, after),
            dilation=list(self.g.dilation),
            groups=self.groups,
            bias="bias" in attrs if self.int8 is None else None,
        )


def _with_blobs(p: Params, rank: int, grouped: bool) -> Build:
    """A convolution whose weights (and bias) come from blobs."""
    g, groups, has_bias = read_geometry(p, rank, False), p.count(7, 1) if grouped else 1, p.flag(5)
    act, pad_value = activation(p.int(9), p.floats(10)), p.float(18, 0.0)
    p.blobs = 3 if has_bias else 2

    def one(t: Tracer, x: Operand, weight: Operand, bias: Operand | None = None) -> Operand:
        kernel = shape_of(weight)[3:]
        before, after = paddings(g, kernel, shape_of(x)[2:])
        x = pad(t, x, before, after, pad_value) if pad_value else x
        padding = [0] * rank if pad_value else padding_of(before, after)
        inputs = [x, _unbatched(t, weight), *([_vector(t, bias)] if bias is not None else [])]
        names = ["input", "weight", "bias"][: len(inputs)]
        return act(
            t,
            t.emit(
                f"F.conv{rank}d",
                *inputs,
                names=names,
                stride=list(g.stride),
                padding=padding,
                dilation=list(g.dilation),
                groups=groups,
            ),
        )

    return lambda t, *inputs: _by_weights(t, one, *map(t.as_float, inputs))


def _by_weights(t: Tracer, one: Callable[..., Operand], x: Operand, *blobs: Operand) -> Operand:
    """Apply weights without a batch to all images at once, others to an image each."""
    if all(shape_of(blob)[0] == 1 for blob in blobs):
        return one(t, x, *blobs)
    inputs = t.together(x, *blobs)
    images = range(shape_of(inputs[0])[0])
    return t.concat([one(t, *(t.cut(v, 0, i, i + 1) for v in inputs)) for i in images], 0)


def _unbatched(t: Tracer, x: Operand) -> Operand:
    return t.reshape(x, shape_of(x)[1:])


def _vector(t: Tracer, x: Operand) -> Operand:
    return t.reshape(x, (int(np.prod(shape_of(x))),))


def _define_convolution(name: str, rank: int, grouped: bool) -> None:
    def convolution(p: Params, w: Weights) -> Build:
        dynamic = p.flag(19) if rank < 3 else False
        return _with_blobs(p, rank, grouped) if dynamic else _Convolution(p, w, rank, grouped)

    layer(name)(convolution)


for _suffix, _rank in (("", 2), ("1D", 1), ("3D", 3)):
    _define_convolution(f"Convolution{_suffix}", _rank, False)
    _define_convolution(f"ConvolutionDepthWise{_suffix}", _rank, True)


# -- transposed convolutions -------------------------------------------------------------------------------------------

# Parameter numbers of output paddings and output sizes, fastest axis first, by rank.
_OUTPUT_PADDING = {1: (18,), 2: (18, 19), 3: (18, 19, 20)}
_OUTPUT_SIZE = {1: (20,), 2: (20, 21), 3: (25, 26, 27)}


class _Deconvolution:
    """One transposed convolution layer."""

    def __init__(self, p: Params, w: Weights, rank: int, grouped: bool) -> None:
        self.dynamic = p.flag(28) if rank < 3 else False
        self.outputs, self.g = p.count(0), read_geometry(p, rank, not self.dynamic)
        self.groups = p.count(7, 1) if grouped else 1
        has_bias, size = p.flag(5), p.int(6)
        self.act = activation(p.int(9), p.floats(10))
        self.extra, self.size = p.axes(_OUTPUT_PADDING[rank]), p.axes(_OUTPUT_SIZE[rank])
        self.weight = self.bias = None
        self._attrs: dict[str, Attribute] = {}
        if self.dynamic:
            p.blobs = 3 if has_bias else 2
            return
        outputs = self.outputs // self.groups
        kernel = math.prod(self.g.kernel)
        if size < 1 or self.outputs % self.groups or size % (outputs * self.groups * kernel):
            raise ParameterError(f"{size} weights for {self.outputs} outputs, kernel {self.g.kernel}")
        inputs = size // (outputs * self.groups * kernel)
        self.weight = floats(w.load(self.groups, outputs, inputs, *self.g.kernel))
        self.bias = w.load(self.outputs, type=1) if has_bias else None

    def _weights(self) -> dict[str, Attribute]:
        """Weights in PyTorch's order: inputs before outputs."""
        if not self._attrs and self.weight is not None:
            array = np.swapaxes(self.weight.numpy(), 1, 2)
            array = array.reshape(-1, *array.shape[2:])
            self._attrs = {"weight": Attribute.owning(array)}
            if self.bias is not None:
                self._attrs["bias"] = self.bias
        return self._attrs

    def __call__(self, t: Tracer, x: Operand, *blobs: Operand) -> Operand:
        return _by_weights(t, self._one, x, *blobs)

    def _one(self, t: Tracer, x: Operand, *blobs: Operand) -> Operand:
        _check_input(x, self.g.rank)
        before, after = list(self.g.before), list(self.g.after)
        cut = any(v > 0 for v in (*before, *after))
        before, after = ([max(v, 0) for v in side] if cut else [0] * self.g.rank for side in (before, after))
        whole = before if before == after else [0] * self.g.rank
        x, extra, surplus = self._lengthened(t, x)
        common: dict[str, Any] = {
            "stride": list(self.g.stride),
            "padding": whole,
            "output_padding": extra,
            "dilation": list(self.g.dilation),
            "groups": self.groups,
        }
        y = self._cut(t, self._emit(t, x, blobs, common), [0] * self.g.rank, surplus)
        if before != after:
            y = self._cut(t, y, before, after)
        elif not cut and all(v > 0 for v in self.size):
            y = self._cut(t, y, *self._sides(shape_of(y)[2:]))
        return self.act(t, y)

    def _lengthened(self, t: Tracer, x: Operand) -> tuple[Operand, list[int], list[int]]:
        """Input, output padding and what to cut then: padding that PyTorch refuses is the output of zeros behind."""
        steps = zip(self.extra, self.g.stride, self.g.dilation, strict=True)
        zeros = [-(-v // s) if v >= max(s, d) else 0 for v, s, d in steps]
        surplus = [n * s - v if n else 0 for n, s, v in zip(zeros, self.g.stride, self.extra, strict=True)]
        extra = [0 if n else v for n, v in zip(zeros, self.extra, strict=True)]
        return pad(t, x, [0] * self.g.rank, zeros, 0.0), extra, surplus

    def _emit(self, t: Tracer, x: Operand, blobs: Sequence[Operand], common: dict[str, Any]) -> Operand:
        if self.dynamic:
            inputs = [x, _unbatched(t, blobs[0]), *(_vector(t, b) for b in blobs[1:])]
            names = ["input", "weight", "bias"][: len(inputs)]
            return t.emit(f"F.conv_transpose{self.g.rank}d", *inputs, names=names, **common)
        attrs = self._weights()
        return t.emit(
            f"nn.ConvTranspose{self.g.rank}d",
            x,
            attrs=attrs,
            in_channels=attrs["weight"].shape[0],
            out_channels=self.outputs,
            kernel_size=list(self.g.kernel),
            bias=self.bias is not None,
            **common,
        )

    def _sides(self, sizes: Sequence[int]) -> tuple[list[int], list[int]]:
        """What to cut on both sides to reach the wanted size; nothing unless a "same" mode says how."""
        sides = {*self.g.before, *self.g.after}
        surplus = [have - want for have, want in zip(sizes, self.size, strict=True)]
        small, large = [v // 2 for v in surplus], [v - v // 2 for v in surplus]
        if SAME_UPPER in sides:
            return small, large
        return (large, small) if SAME_LOWER in sides else ([0] * len(small), [0] * len(small))

    @staticmethod
    def _cut(t: Tracer, y: Operand, before: Sequence[int], after: Sequence[int]) -> Operand:
        for i, (b, a) in enumerate(zip(before, after, strict=True)):
            size = shape_of(y)[2 + i]
            if b < 0 or a < 0 or b + a >= size:
                raise ShapeError("the output would be cut to nothing", expected=f"< {size}", actual=(b, a))
            y = t.cut(y, 2 + i, b, size - a) if b or a else y
        return y


def _define_deconvolution(name: str, rank: int, grouped: bool) -> None:
    def deconvolution(p: Params, w: Weights) -> Build:
        return _Deconvolution(p, w, rank, grouped)

    layer(name)(deconvolution)


for _suffix, _rank in (("", 2), ("1D", 1), ("3D", 3)):
    _define_deconvolution(f"Deconvolution{_suffix}", _rank, False)
    _define_deconvolution(f"DeconvolutionDepthWise{_suffix}", _rank, True)


@layer("DeformableConv2D", one_blob_only=False)
def deformable_convolution(p: Params, w: Weights) -> Build:
    """Convolution at displaced positions, optionally weighted."""
    outputs, g = p.count(0), read_geometry(p, 2)
    has_bias, size = p.flag(5), p.count(6)
    act = activation(p.int(9), p.floats(10))
    kernel = math.prod(g.kernel)
    if size % (outputs * kernel):
        raise ParameterError(f"{size} weights for {outputs} outputs, kernel {g.kernel}")
    attrs = {"weight": floats(w.load(outputs, size // outputs // kernel, *g.kernel))}
    if has_bias:
        attrs["bias"] = w.load(outputs, type=1)
    p.blobs = 2

    def build(t: Tracer, x: Operand, offset: Operand, *mask: Operand) -> Operand:
        _check_input(x, 2)
        before, after = paddings(g, g.kernel, shape_of(x)[2:])
        y = t.emit(
            "torchvision.ops.DeformConv2d",
            *t.together(x, offset, *mask),
            attrs=attrs,
            in_channels=shape_of(x)[1],
            out_channels=outputs,
            kernel_size=list(g.kernel),
            stride=list(g.stride),
            padding=padding_of(before, after),
            dilation=list(g.dilation),
        )
        return act(t, y)

    return build


# -- sliding blocks ----------------------------------------------------------------------------------------------------


@layer("Unfold")
def unfold(p: Params, w: Weights) -> Build:
    """Columns of sliding blocks."""
    p.int(0)
    g, value = read_geometry(p, 2), p.float(18)

    def build(t: Tracer, x: Operand) -> Operand:
        before, after = paddings(g, g.kernel, shape_of(x)[2:])
        plain = before == after and value == 0
        padded = x if plain else pad(t, x, before, after, value)
        return t.emit("F.unfold", padded, **_window(g, before if plain else [0, 0]))

    return build


def _window(g: Geometry, padding: Sequence[int]) -> dict[str, Any]:
    return {
        "kernel_size": list(g.kernel),
        "stride": list(g.stride),
        "dilation": list(g.dilation),
        "padding": list(padding),
    }


@layer("Fold")
def fold(p: Params, w: Weights) -> Build:
    """Sum of sliding blocks."""
    p.int(0)
    g, width = read_geometry(p, 2), p.count(20)
    height = p.count(21, width)

    def build(t: Tracer, x: Operand) -> Operand:
        if g.before == g.after:
            return t.emit("F.fold", x, output_size=[height, width], **_window(g, g.before))
        (top, left), (bottom, right) = g.before, g.after
        size = [height + top + bottom, width + left + right]
        y = t.emit("F.fold", x, output_size=size, **_window(g, (0, 0)))
        return t.cut(t.cut(y, 2, top, top + height), 3, left, left + width)

    return build
