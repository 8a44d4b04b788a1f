"""Pooling operators: maximum, average and power average, with fixed or adaptive windows, and their inverse.

Compiled kernels take float32, and half precision cast to it, channels last; others take the same windows in numpy.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pnnx_fast._core.program import POOL_LINE, POOL_REACH, POOL_STEP
from pnnx_fast._memory import check_numbers
from pnnx_fast._types import Array, DType, Shape
from pnnx_fast.errors import ParameterError, ShapeError
from pnnx_fast.ir.shapes import dense_strides
from pnnx_fast.ops._checks import require_dims
from pnnx_fast.ops._dtype import in_single
from pnnx_fast.ops._window import in_space, per_axis, require_reach, space_strides
from pnnx_fast.ops.registry import Ints, operator
from pnnx_fast.ops.shape import integers
from pnnx_fast.ops.symbolic import Builder, Order, Tensor, Value, is_channels_last

FEW_CHANNELS = 16
"""With so many channels vectors of them are full …"""

WIDE_LINE = 32
"""… and with so many pixels in a line, vectors of those."""


class Window:
    """Windows along the spatial axes; adaptive ones have no size of their own, their ``output`` is given."""

    __slots__ = ("adaptive", "dilation", "output", "pad", "size", "stride")

    def __init__(
        self, size: Shape, stride: Shape, pad: Shape, dilation: Shape, output: Shape, adaptive: bool = False
    ) -> None:
        self.size, self.stride, self.pad, self.dilation = size, stride, pad, dilation
        self.output, self.adaptive = output, adaptive


def output_size(n: int, k: int, s: int, p: int, d: int, ceil_mode: bool) -> int:
    """Number of windows along an axis. With ceil_mode the last one may reach beyond the padding but not begin there."""
    span = n + 2 * p - d * (k - 1) - 1
    count = (-(-span // s) if ceil_mode else span // s) + 1
    return count - 1 if ceil_mode and (count - 1) * s >= n + p else count


def fixed_window(
    spatial: Shape, kernel_size: Ints, stride: Ints | None, padding: Ints, dilation: Ints, ceil_mode: bool
) -> Window:
    """Check the parameters of a pooling and compute the output size."""
    axes = len(spatial)
    size = per_axis(kernel_size, axes, "kernel_size")
    step = size if stride is None or stride == () else per_axis(stride, axes, "stride")
    pad, dil = per_axis(padding, axes, "padding"), per_axis(dilation, axes, "dilation")
    for name, values, least in (
        ("kernel_size", size, 1),
        ("stride", step, 1),
        ("padding", pad, 0),
        ("dilation", dil, 1),
    ):
        if min(values) < least:
            raise ParameterError(f"{name} must be at least {least}, not {list(values)}", parameter=name)
    require_reach(*step, *dil, *(d * (k - 1) + 1 for k, d in zip(size, dil, strict=True)))
    if any(2 * p > d * (k - 1) + 1 for k, p, d in zip(size, pad, dil, strict=True)):
        raise ParameterError(f"padding {list(pad)} is more than half of the window {list(size)}", parameter="padding")
    numbers = zip(spatial, size, step, pad, dil, strict=True)
    output = tuple(output_size(n, k, s, p, d, ceil_mode) for n, k, s, p, d in numbers)
    if min(output) < 1:
        raise ShapeError("the window is larger than the input", expected=list(size), actual=list(spatial))
    return Window(size, step, pad, dil, output)


def adaptive_window(spatial: Shape, size: Any) -> Window:
    """Windows that divide the input into ``size`` parts; None, or 0 as PNNX writes it, keeps the input's size."""
    axes = len(spatial)
    items = size if isinstance(size, (list, tuple)) else [size]
    values = integers([0 if v in (None, "None") else v for v in items], "output_size")
    values = values * axes if len(values) == 1 else values
    if len(values) != axes:
        raise ParameterError(f"output_size needs 1 or {axes} integers, not {size!r}", parameter="output_size")
    output = tuple(v or n for v, n in zip(values, spatial, strict=True))
    if min(output) < 0 or min(spatial) < 1:
        raise ShapeError("adaptive pooling needs a non-empty input", expected=list(output), actual=list(spatial))
    ones = (1,) * axes
    if min(output) > 0 and not any(n % o for n, o in zip(spatial, output, strict=True)):
        size = tuple(n // o for n, o in zip(spatial, output, strict=True))
        return Window(size, size, (0,) * axes, ones, output)
    return Window(ones, ones, (0,) * axes, ones, output, adaptive=True)


def spatial_shape(input: Tensor, axes: int) -> Shape:
    """The last dimensions of an input with or without a batch dimension."""
    require_dims(input, axes + 1, axes + 2)
    return input.shape[-axes:]


GLOBAL = {"avg": "sum", "max": "max"}
"""Poolings that are reductions when their window is the whole input."""


def _is_global(input: Tensor, window: Window) -> bool:
    """Whether an input is pooled to single values."""
    whole = window.size == input.shape[-len(window.output) :] and set(window.output) == {1}
    return whole and not any(window.pad) and set(window.dilation) == {1}


@in_single
def pool(
    b: Builder,
    mode: str,
    input: Tensor,
    window: Window,
    *,
    indices: bool = False,
    include_pad: bool = False,
    divisor: int = 0,
    norm: float = 0.0,
) -> Value:
    """Emit a pooling of any dtype; returns the result, with the places of the maxima when ``indices``."""
    shape = (*input.shape[: -len(window.output)], *window.output)
    if input.dtype != np.float32:
        return _pool_host(b, mode, input, window, shape, indices, include_pad, divisor, norm)
    if mode in GLOBAL and not indices and not divisor and _is_global(input, window):
        count = math.prod(window.size) if mode == "avg" else 1
        if not is_channels_last(input):
            from pnnx_fast.ops.reduction import emit_reduce

            axes = range(input.ndim - len(window.output), input.ndim)
            return emit_reduce(b, input, axes, True, GLOBAL[mode], scale=1.0 / count)
        sums = b.line_sums(input) if mode == "avg" and input.ndim == 4 else None
        if sums is not None:
            size = sums.shape[2:]
            input, divisor, window = sums, count, Window(size, size, (0, 0), (1, 1), (1, 1))
    batched = input.ndim == len(window.output) + 2
    x = input if batched else input.unsqueeze(0)
    lines = mode in GLOBAL and _has_lines(x, window, indices)
    order: Order = "plain" if lines else "channels_last"
    x = x if lines else b.channels_last(x)
    y = b.result(shape, x.dtype, order) if batched else b.empty((1, *shape), x.dtype, order)
    index = b.empty(y.shape, np.int64, order) if indices else None
    work = math.prod(_counts(window, input.shape[-len(window.output) :]))
    b.step(
        f"{mode}_pool",
        flops=y.size * work,
        x=x, y=y, index=index, n=x.shape[0], c=x.shape[1],
        isize=in_space(x.shape[2:], 1), osize=in_space(window.output, 1), window=in_space(window.size, 1),
        stride=in_space(window.stride, 1), pad=in_space(window.pad, 0), dilation=in_space(window.dilation, 1),
        xs=space_strides(x), ys=space_strides(y), js=space_strides(index), adaptive=window.adaptive,
        include_pad=include_pad, divisor=divisor, norm=norm,
    )  # fmt: skip
    y = y if batched else y.squeeze([0])
    return y if index is None else (y, index if batched else index.squeeze([0]))


def may_have_lines(x: Tensor) -> bool:
    """Whether planes are pooled line by line if the window suits: few of them, or wide ones, in plain order."""
    in_lines = x.strides[-1] == 1 and (x.shape[1] <= 1 or x.strides[1] != 1)
    return in_lines and (x.shape[1] < FEW_CHANNELS or x.shape[-1] >= WIDE_LINE)


def _has_lines(x: Tensor, window: Window, indices: bool) -> bool:
    """Whether planes are pooled line by line, as they are, and not as vectors of channels."""
    if not may_have_lines(x) or (indices and window.adaptive):
        return False
    if window.adaptive:
        return x.shape[-1] <= POOL_LINE
    return (window.size[-1] - 1) * window.dilation[-1] < POOL_REACH and window.stride[-1] <= POOL_STEP


def _counts(window: Window, spatial: Shape) -> list[int]:
    if not window.adaptive:
        return list(window.size)
    return [-(-n // max(o, 1)) for n, o in zip(spatial, window.output, strict=True)]


# -- numpy for other dtypes ------------------------------------------------------------------------------------


def _spans(window: Window, axis: int, n: int) -> list[tuple[range, int]]:
    """For every output position its input positions, and their number when padding counts."""
    spans = []
    for o in range(window.output[axis]):
        if window.adaptive:
            begin, end = o * n // window.output[axis], -(-(o + 1) * n // window.output[axis])
            spans.append((range(begin, end), end - begin))
            continue
        k, d, p = window.size[axis], window.dilation[axis], window.pad[axis]
        start = o * window.stride[axis] - p
        first = start if start >= 0 else start + -(start // d) * d
        inside = range(first, min(start + d * (k - 1) + 1, n), d)
        spans.append((inside, min(start + k, n + p) - start))
    return spans


def _lowest(dtype: DType) -> Any:
    """What a window that lies in the padding has as its maximum."""
    return np.iinfo(dtype).min if dtype.kind in "iu" else False if dtype.kind == "b" else -np.inf


def _places_of_maxima(x: Array) -> Array:
    """Where in rows of one or more numbers the first maximum is, or the last NaN."""
    places = x.argmax(-1)
    nan = x != x
    return (
        np.asarray(np.where(nan.any(-1), x.shape[-1] - 1 - nan[..., ::-1].argmax(-1), places)) if nan.any() else places
    )


def _folded(join: np.ufunc, x: Array, spans: Sequence[Sequence[range]]) -> Array:
    """Windows joined axis by axis: window by window where they are few, else one entry of each at a time."""
    for axis, windows in enumerate(spans, start=x.ndim - len(spans)):
        before = (slice(None),) * axis
        lengths = np.array([len(inside) for inside in windows], np.int64)
        most = int(lengths.max(initial=1))
        if 0 < len(windows) < most or 0 in lengths:
            cut = [x[(*before, slice(inside.start, inside.stop, inside.step))] for inside in windows]
            least = {"initial": _lowest(x.dtype)} if join is np.maximum else {}
            x = np.concatenate([join.reduce(part, axis, keepdims=True, **least) for part in cut], axis)
            continue
        first, step = np.array([inside.start for inside in windows], np.int64), windows[0].step if windows else 1
        parts: list[Array] = []
        for entry in range(most):
            part = np.take(x, first + np.minimum(entry, lengths - 1) * step, axis)  # a short window repeats its last
            if join is np.add and (lengths <= entry).any():
                part[(*before, lengths <= entry)] = 0
            parts = [join(*parts, part)] if parts else [part]
        x = parts[0]
    return x


def _pooled(mode: str, x: Array, spans: Sequence[Sequence[range]], counts: Array, norm: float) -> Array:
    """Windows without places; ``counts`` is what their sums are divided by."""
    if mode == "max":
        return _folded(np.maximum, x, spans)
    if mode == "lp" and math.isinf(norm):
        return _folded(np.maximum if norm > 0 else np.minimum, np.abs(x), spans)
    if mode == "lp":
        return np.asarray((_folded(np.add, np.power(x, norm), spans) / counts) ** (1.0 / norm))
    if x.dtype.kind not in "iu":
        return np.asarray(_folded(np.add, x, spans) / counts)
    total = _folded(np.add, x.astype(np.int64), spans)
    # What is left when the quotient is cut off has the sign of the sum.
    return np.asarray((total - np.fmod(total, counts)) // counts)


def _pool_host(
    b: Builder,
    mode: str,
    input: Tensor,
    window: Window,
    shape: Shape,
    indices: bool,
    include_pad: bool,
    divisor: int,
    norm: float,
) -> Value:
    axes = len(window.output)
    spatial = input.shape[-axes:]
    check_numbers(math.prod(window.output))  # numbers of values in windows are found before results are made

    spans = [_spans(window, axis, n) for axis, n in enumerate(spatial)]
    steps = dense_strides(spatial)
    insides = [[inside for inside, _ in windows] for windows in spans]
    sizes = np.ix_(*([extent if include_pad else len(inside) for inside, extent in windows] for windows in spans))
    volumes: Any = functools.reduce(np.multiply, sizes)
    counts = np.asarray(divisor or (volumes / math.prod(window.size) if mode == "lp" else volumes))

    def run(x: Array) -> Value:
        if not indices:
            return _pooled(mode, x, insides, counts, norm).astype(x.dtype, copy=False)
        y, index = np.full(shape, _lowest(x.dtype), x.dtype), np.empty(shape, np.int64)
        for place in np.ndindex(*window.output):
            ranges = [insides[axis][o] for axis, o in enumerate(place)]
            # Windows in the padding have the place where they begin, as if the numbers of lines went on there.
            lines = [np.array(r or [r.start]) * step for r, step in zip(ranges, steps, strict=True)]
            flat = functools.reduce(np.add.outer, lines).reshape(-1)
            best: Any = 0
            if all(ranges):
                part = x[(..., *np.ix_(*ranges))].reshape(*x.shape[:-axes], len(flat))
                best = _places_of_maxima(part)
                y[(..., *place)] = np.take_along_axis(part, best[..., None], -1)[..., 0]
            index[(..., *place)] = flat[best]
        return y, index

    results = b.host(run, [input], [(shape, input.dtype)] + [(shape, np.int64)] * indices)
    return tuple(results) if indices else results[0]


# -- operators -------------------------------------------------------------------------------------------------


def _max_pool(axes: int) -> Callable[..., Value]:
    def max_pool(
        b: Builder,
        input: Tensor,
        *,
        kernel_size: Ints,
        stride: Ints | None = None,
        padding: Ints = 0,
        dilation: Ints = 1,
        ceil_mode: bool = False,
        return_indices: bool = False,
    ) -> Value:
        spatial = spatial_shape(input, axes)
        window = fixed_window(spatial, kernel_size, stride, padding, dilation, ceil_mode)
        return pool(b, "max", input, window, indices=return_indices)

    max_pool.__doc__ = f"Maximum over windows of {axes} spatial dimensions. torch.nn.MaxPool{axes}d."
    return max_pool


def _avg_pool(axes: int) -> Callable[..., Value]:
    def avg_pool(
        b: Builder,
        input: Tensor,
        *,
        kernel_size: Ints,
        stride: Ints | None = None,
        padding: Ints = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> Value:
        spatial = spatial_shape(input, axes)
        window = fixed_window(spatial, kernel_size, stride, padding, 1, ceil_mode)
        if divisor_override == 0:
            raise ParameterError("the divisor must not be zero", parameter="divisor_override")
        return pool(b, "avg", input, window, include_pad=count_include_pad, divisor=divisor_override or 0)

    avg_pool.__doc__ = f"Average over windows of {axes} spatial dimensions. torch.nn.AvgPool{axes}d."
    return avg_pool


def _whole_powers(b: Builder, input: Tensor, window: Window, norm_type: float) -> Value:
    """The power average of integers: PyTorch takes the root of what averages of whole powers are, whole numbers."""
    # Other poolings do without expressions, which take time to import.
    from pnnx_fast.ops.elementwise import intermediate, lower_expression

    mean = pool(b, "avg", intermediate(b, "pow(@0,@1)", input, norm_type), window, include_pad=True)
    return lower_expression(b, "pow(mul(@0,@1),@2)", [mean, math.prod(window.size), 1 / norm_type])


def _lp_pool(axes: int, module: bool) -> Callable[..., Value]:
    def lp_pool(
        b: Builder,
        input: Tensor,
        *,
        norm_type: int | float,
        kernel_size: Ints,
        stride: Ints | None = None,
        ceil_mode: bool = False,
    ) -> Value:
        spatial = spatial_shape(input, axes)
        window = fixed_window(spatial, kernel_size, stride, 0, 1, ceil_mode)
        if norm_type == 0:
            raise ParameterError("the exponent must not be zero", parameter="norm_type")
        if input.dtype.kind in "iub" and (module or isinstance(norm_type, float)):
            input = b.cast(input, np.float32)  # modules hold their exponent as a float
        if input.dtype == np.int64:
            return _whole_powers(b, input, window, norm_type)
        if math.isinf(norm_type):
            shape = (*input.shape[:-axes], *window.output)
            return _pool_host(b, "lp", input, window, shape, False, True, 0, norm_type)
        return pool(b, "lp", input, window, include_pad=True, norm=norm_type)

    lp_pool.__doc__ = f"Power average over windows of {axes} spatial dimensions. torch.nn.LPPool{axes}d."
    return lp_pool


def _adaptive_avg_pool(axes: int) -> Callable[..., Value]:
    def adaptive_avg_pool(b: Builder, input: Tensor, *, output_size: Any) -> Value:
        return pool(b, "avg", input, adaptive_window(spatial_shape(input, axes), output_size))

    adaptive_avg_pool.__doc__ = f"Average to a given output size. torch.nn.AdaptiveAvgPool{axes}d."
    return adaptive_avg_pool


def _adaptive_max_pool(axes: int) -> Callable[..., Value]:
    def adaptive_max_pool(b: Builder, input: Tensor, *, output_size: Any, return_indices: bool = False) -> Value:
        window = adaptive_window(spatial_shape(input, axes), output_size)
        return pool(b, "max", input, window, indices=return_indices)

    adaptive_max_pool.__doc__ = f"Maximum to a given output size. torch.nn.AdaptiveMaxPool{axes}d."
    return adaptive_max_pool


for _axes in (1, 2, 3):
    operator(f"nn.MaxPool{_axes}d", f"F.max_pool{_axes}d", rows=_axes + 2)(_max_pool(_axes))
    operator(f"nn.AvgPool{_axes}d", f"F.avg_pool{_axes}d", rows=_axes + 2)(_avg_pool(_axes))
    operator(f"nn.LPPool{_axes}d", rows=_axes + 2)(_lp_pool(_axes, module=True))
    operator(f"F.lp_pool{_axes}d", rows=_axes + 2)(_lp_pool(_axes, module=False))
    operator(f"nn.AdaptiveAvgPool{_axes}d", f"F.adaptive_avg_pool{_axes}d", rows=_axes + 2)(_adaptive_avg_pool(_axes))
    operator(f"nn.AdaptiveMaxPool{_axes}d", f"F.adaptive_max_pool{_axes}d", rows=_axes + 2)(_adaptive_max_pool(_axes))


def unpool(b: Builder, x: Tensor, indices: Tensor, shape: Shape, axes: int) -> Tensor:
    """Emit zeros of a shape with the entries of ``x`` at places, which count the entries of the last dimensions."""
    from pnnx_fast.ops.scatter import scattered  # few models need it

    if x.shape != indices.shape or indices.dtype.kind not in "iu":
        raise ShapeError("every entry has a place", operand="indices", expected=x.shape, actual=indices.shape)
    lead, places = shape[: len(shape) - axes], math.prod(shape[len(shape) - axes :])
    check_numbers(math.prod(shape))
    zeros = b.constant(np.zeros((), x.dtype)).expand((*lead, places))
    if not x.size:
        return b.reshape(zeros, shape)
    entries = (*lead, math.prod(x.shape[len(lead) :]))
    values, index = b.reshape(x, entries), b.reshape(indices, entries)
    return b.reshape(scattered(b, zeros, index, values, len(lead), ("put", None)), shape)


def _max_unpool(axes: int) -> Callable[..., Value]:
    def max_unpool(
        b: Builder,
        input: Tensor,
        indices: Tensor,
        *,
        kernel_size: Ints,
        stride: Ints | None = None,
        padding: Ints = 0,
        output_size: Any = None,
        expr: Any = None,
    ) -> Tensor:
        spatial = spatial_shape(input, axes)
        size = per_axis(kernel_size, axes, "kernel_size")
        step = size if stride is None or stride == () else per_axis(stride, axes, "stride")
        pad = per_axis(padding, axes, "padding")
        numbers = zip(spatial, size, step, pad, strict=True)
        output = tuple((n - 1) * s - 2 * p + k for n, k, s, p in numbers)
        if output_size is not None:
            output = integers(output_size, "output_size")[-axes:]
        return unpool(b, input, indices, (*input.shape[:-axes], *output), axes)

    max_unpool.__doc__ = f"Put maxima back where they came from, zeros elsewhere. torch.nn.MaxUnpool{axes}d."
    return max_unpool


for _axes in (1, 2, 3):
    operator(f"nn.MaxUnpool{_axes}d", f"F.max_unpool{_axes}d")(_max_unpool(_axes))
