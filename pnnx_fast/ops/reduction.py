"""Reductions, places of extremes, running sums and the largest entries.

Compiled kernels take any set of dimensions and any layout of float32, float64, int32 and int64, and the extremes of
bytes; half precision and other integers are cast. Complex numbers are left to numpy.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pnnx_fast._core.program import MAX_RANK, codes
from pnnx_fast._types import Array, DType, Shape
from pnnx_fast.errors import ParameterError, ShapeError
from pnnx_fast.ops._checks import real_number
from pnnx_fast.ops._dtype import dtype_of, in_single
from pnnx_fast.ops.axis import along_axis, extremes, running_extremes
from pnnx_fast.ops.registry import Ints, operator
from pnnx_fast.ops.shape import axes_or_all, axis_inside, axis_of
from pnnx_fast.ops.symbolic import Builder, Order, Results, Tensor, Value, is_channels_last, merge_dims

CODES = codes("reduce")
"""Operation codes of the reduce kernel."""

COST = {"logsumexp": 25, "norm": 40}

OF_INTEGERS = frozenset({"sum", "prod", "max", "min"})
"""Reductions that integers have."""

KERNELS = {"float32": "reduce", "float64": "reduce_f64", "int64": "reduce_i64", "int32": "reduce_i32"}

WIDER = {"float16": "float32", **dict.fromkeys(("bool", "uint8", "int8", "int16"), "int64")}
"""Types that are reduced in another one."""

PLACES = {"float32": "_f32", "float64": "_f64", "int64": "_i64", "int32": "_i32", "uint8": "_u8", "bool": "_u8"}
"""Endings of the kernels that find places of extremes."""

BYTES = ("bool", "uint8")
"""Types whose extremes are those of bytes."""


def _has_kernel(dtype: DType) -> bool:
    return dtype.name in KERNELS or dtype.name in WIDER


def _shape(input: Tensor, axes: Sequence[int], keepdim: bool) -> Shape:
    if keepdim:
        return tuple(1 if d in axes else n for d, n in enumerate(input.shape))
    return tuple(n for d, n in enumerate(input.shape) if d not in axes)


def _order(input: Tensor, axes: Sequence[int], keepdim: bool) -> Order:
    """Order of a result: channels stay side by side where they were."""
    if input.size == 0:
        return "plain"
    first = input
    for axis in reversed(axes):
        first = first.narrow(axis, 0, 1) if keepdim else first.select(axis, 0)
    return "channels_last" if is_channels_last(first) and not first.is_contiguous else "plain"


def emit_reduce(
    b: Builder,
    input: Tensor,
    axes: Sequence[int],
    keepdim: bool,
    op: str,
    *,
    scale: float = 1.0,
    p: float = 0.0,
    temporary: bool = False,
) -> Tensor:
    """Emit a reduction of a type that has a kernel, or whose wider one has; integers know sums, products, extremes.

    ``temporary``: what it gives is not the result of the operator that is being lowered.
    """
    if input.dtype.kind != "f" and op not in OF_INTEGERS:
        raise ShapeError(f"{op} is one of floats", actual=input.dtype)
    bytewise = input.dtype.name in BYTES and op in ("max", "min")
    if input.dtype.name in WIDER and not bytewise:
        wide = b.cast(input, WIDER[input.dtype.name])
        return b.cast(emit_reduce(b, wide, axes, keepdim, op, scale=scale, p=p, temporary=True), input.dtype)
    if op == "sum" and input.ndim == 4 and input.ndim - 1 in axes and input.dtype == np.float32:
        sums = b.line_sums(input)
        input = input if sums is None else sums
    make = b.empty if temporary else b.result
    y = make(_shape(input, axes, keepdim), input.dtype, _order(input, axes, keepdim))
    kept = [d for d in range(input.ndim) if d not in axes]
    out = y if not keepdim else y.squeeze(list(axes))
    shape, (xs, ys) = merge_dims([input.shape[d] for d in kept], [input.strides[d] for d in kept], out.strides)
    reduced, (rxs,) = merge_dims([input.shape[d] for d in axes], [input.strides[d] for d in axes])
    if max(len(shape), len(reduced)) > MAX_RANK:
        raise ShapeError("too many dimensions for a reduction", actual=list(input.shape))
    b.step(
        "reduce_u8" if bytewise else KERNELS[input.dtype.name],
        flops=COST.get(op, 2) * input.size,
        x=input, y=y, op=CODES[op], rank=len(shape), shape=shape, xs=xs, ys=ys, rrank=len(reduced), rshape=reduced,
        rxs=rxs, scale=scale, p=p,
    )  # fmt: skip
    return y


def _reduce_host(
    b: Builder, input: Tensor, axes: Sequence[int], keepdim: bool, dtype: DType, function: Callable[..., Any]
) -> Tensor:
    """Emit a numpy reduction; the function takes (array, axis=, keepdims=)."""

    def run(x: Array) -> Array:
        return np.asarray(function(x, axis=tuple(axes), keepdims=keepdim)).astype(dtype)

    return b.host(run, [input], [(_shape(input, axes, keepdim), dtype)])[0]


def _is_integral(dtype: DType) -> bool:
    return dtype.kind in "biu"


# -- sums and products -------------------------------------------------------------------------------------------


def _accumulate(name: str, function: Callable[..., Any]) -> Callable[..., Tensor]:
    def reduction(
        b: Builder, input: Tensor, *, dim: Ints | None = None, keepdim: bool = False, dtype: Any = None
    ) -> Tensor:
        natural = np.dtype(np.int64) if _is_integral(input.dtype) else input.dtype
        wanted = dtype_of(dtype, natural)
        axes = axes_or_all(dim, input.ndim)
        if _has_kernel(wanted):
            return emit_reduce(b, b.cast(input, wanted), axes, keepdim, name)
        return _reduce_host(b, b.cast(input, wanted), axes, keepdim, wanted, function)

    return reduction


operator("torch.sum", "Tensor.sum")(total := _accumulate("sum", np.sum))
total.__doc__ = "Sum over dimensions. torch.sum."
operator("torch.prod", "Tensor.prod")(product := _accumulate("prod", np.prod))
product.__doc__ = "Product over dimensions. torch.prod."


def summed(b: Builder, x: Tensor, axes: Sequence[int]) -> Tensor:
    """Sum that is not the result of the operator that is being lowered; that of integers is an int64."""
    x = b.cast(x, np.int64) if _is_integral(x.dtype) else x
    if _has_kernel(x.dtype):
        return emit_reduce(b, x, axes, False, "sum", temporary=True)
    return _reduce_host(b, x, axes, False, x.dtype, np.sum)


def sum_of_numbers(b: Builder, input: Tensor, *, dim: Ints | None, keepdim: bool, dtype: Any) -> Tensor:
    """Sum over dimensions of what is not NaN."""
    wanted = dtype_of(dtype, input.dtype)
    if input.dtype.kind == wanted.kind == "f":
        return emit_reduce(b, b.cast(input, wanted), axes_or_all(dim, input.ndim), keepdim, "nansum")
    if input.dtype.kind == "f":
        from pnnx_fast.ops.elementwise import lower_expression  # most reductions do without expressions

        input = lower_expression(b, "where(isnan(@0),0,@0)", [input], temporary=True)
    result: Tensor = total(b, input, dim=dim, keepdim=keepdim, dtype=dtype)
    return result


@operator("aten::trace")
def trace(b: Builder, input: Tensor) -> Tensor:
    """Sum of the diagonal. torch.trace."""
    if input.ndim != 2:
        raise ShapeError("only matrices have a trace", actual=list(input.shape))
    line: Tensor = total(b, input.as_strided((min(input.shape),), (sum(input.strides),)))
    return line


@operator("torch.mean", "Tensor.mean", rows=axis_inside("dim"))
def mean(b: Builder, input: Tensor, *, dim: Ints | None = None, keepdim: bool = False, dtype: Any = None) -> Tensor:
    """Average over dimensions. torch.mean."""
    # Only with a dtype does PyTorch average integers; converters lose that parameter, and its usual value is float32.
    input = b.cast(input, dtype_of(dtype, "float32" if _is_integral(input.dtype) else input.dtype))
    if _is_integral(input.dtype):
        raise ShapeError("mean needs a floating or complex type", actual=input.dtype)
    axes = axes_or_all(dim, input.ndim)
    if not _has_kernel(input.dtype):
        return _reduce_host(b, input, axes, keepdim, input.dtype, _quiet_mean)
    count = math.prod(input.shape[d] for d in axes)
    return emit_reduce(b, input, axes, keepdim, "sum", scale=1.0 / count if count else math.nan)


def _quiet_mean(x: Array, **kw: Any) -> Any:
    return np.sum(x, **kw) / np.float64(math.prod(x.shape[a] for a in kw["axis"]))


@operator("torch.logsumexp", "Tensor.logsumexp")
def logsumexp(b: Builder, input: Tensor, *, dim: Ints, keepdim: bool = False) -> Tensor:
    """Logarithm of the sum of exponentials. torch.logsumexp."""
    axes = axes_or_all(dim, input.ndim)
    if _is_integral(input.dtype):
        input = b.cast(input, np.float32)
    if _has_kernel(input.dtype):
        return emit_reduce(b, input, axes, keepdim, "logsumexp")

    def run(x: Array, axis: tuple[int, ...], keepdims: bool) -> Any:
        top = x.real.max(axis, keepdims=True)
        top = np.where(np.isfinite(top), top, 0)
        return np.log(np.exp(x - top).sum(axis, keepdims=keepdims)) + (top if keepdims else top.squeeze(axis))

    return _reduce_host(b, input, axes, keepdim, input.dtype, run)


# -- norms and variances -----------------------------------------------------------------------------------------


@operator("torch.norm", "Tensor.norm", "torch.linalg.vector_norm")
def norm(
    b: Builder,
    input: Tensor,
    *,
    p: Any = "fro",
    ord: Any = None,
    dim: Ints | None = None,
    keepdim: bool = False,
    dtype: Any = None,
) -> Tensor:
    """Norm of vectors: (sum |x|^p)^(1/p), the largest magnitude for inf. torch.norm."""
    p = ord if ord is not None else p
    if p == "nuc":
        raise ParameterError("the nuclear norm is not supported", parameter="p")
    order = 2.0 if p in (None, "fro") else real_number(p, "p")
    input = b.cast(input, dtype_of(dtype, input.dtype))
    if input.dtype.kind not in "fc":
        raise ShapeError("norm needs a floating or complex type", actual=input.dtype)
    axes = axes_or_all(dim, input.ndim)
    if input.dtype.kind == "f" and _has_kernel(input.dtype):
        name = {0.0: "norm0", 1.0: "norm1", 2.0: "norm2", math.inf: "norminf", -math.inf: "norm-inf"}.get(order, "norm")
        return emit_reduce(b, input, axes, keepdim, name, p=order)

    def run(x: Array, axis: tuple[int, ...], keepdims: bool) -> Any:
        size = np.abs(x)
        if math.isinf(order):
            return size.max(axis, keepdims=keepdims) if order > 0 else size.min(axis, keepdims=keepdims)
        if order == 0:
            return (size != 0).sum(axis, keepdims=keepdims)
        return (size**order).sum(axis, keepdims=keepdims) ** (1 / order)

    real = np.dtype(np.empty(0, input.dtype).real.dtype)
    return _reduce_host(b, input, axes, keepdim, real, run)


def _variance(name: str, function: Callable[..., Any]) -> Callable[..., Tensor]:
    def variance(
        b: Builder,
        input: Tensor,
        *,
        dim: Ints | None = None,
        unbiased: bool | float | None = None,  # the converter gives this name to a correction, too
        correction: float | None = None,
        keepdim: bool = False,
    ) -> Tensor:
        if input.dtype.kind not in "fc":
            raise ShapeError(f"{name} needs a floating or complex type", actual=input.dtype)
        axes = axes_or_all(dim, input.ndim)
        free = correction if correction is not None else 1.0 if unbiased is None else float(unbiased)
        if _has_kernel(input.dtype):
            return emit_reduce(b, input, axes, keepdim, name, p=free)

        def run(x: Array, axis: tuple[int, ...], keepdims: bool) -> Any:
            x = x.astype(np.complex128)
            centred = x - _quiet_mean(x, axis=axis, keepdims=True)
            squares = (np.abs(centred) ** 2).sum(axis, keepdims=keepdims)
            left = max(math.prod(x.shape[a] for a in axis) - free, 0.0)
            return function(squares / np.float64(left))

        return _reduce_host(b, input, axes, keepdim, np.dtype(np.empty(0, input.dtype).real.dtype), run)

    return variance


operator("torch.var", "Tensor.var")(var := _variance("var", lambda v: v))
var.__doc__ = "Variance over dimensions. torch.var."
operator("torch.std", "Tensor.std")(std := _variance("std", np.sqrt))
std.__doc__ = "Standard deviation over dimensions. torch.std."


# -- extremes ----------------------------------------------------------------------------------------------------


def _extreme(b: Builder, input: Tensor, axes: Sequence[int], keepdim: bool, least: bool) -> Tensor:
    if any(input.shape[d] == 0 for d in axes):
        raise ShapeError("no extreme of an empty dimension", actual=list(input.shape))
    name = "min" if least else "max"
    if input.dtype.name in ("int8", "int16"):  # floats hold these, and are half as long as int64
        single = emit_reduce(b, b.cast(input, np.float32), axes, keepdim, name, temporary=True)
        return b.cast(single, input.dtype)
    if input.dtype.kind == "c":
        raise ShapeError("no order of complex numbers", actual=input.dtype)
    if _has_kernel(input.dtype):
        return emit_reduce(b, input, axes, keepdim, name)
    return _reduce_host(b, input, axes, keepdim, input.dtype, np.min if least else np.max)


@operator("torch.amax", "Tensor.amax")
def amax(b: Builder, input: Tensor, *, dim: Ints | None = None, keepdim: bool = False) -> Tensor:
    """Maximum over dimensions. torch.amax."""
    return _extreme(b, input, axes_or_all(dim, input.ndim), keepdim, least=False)


@operator("torch.amin", "Tensor.amin")
def amin(b: Builder, input: Tensor, *, dim: Ints | None = None, keepdim: bool = False) -> Tensor:
    """Minimum over dimensions. torch.amin."""
    return _extreme(b, input, axes_or_all(dim, input.ndim), keepdim, least=True)


@in_single
def _places(b: Builder, input: Tensor, axis: int, keepdim: bool, least: bool, values: bool) -> list[Tensor]:
    """The extremes along an axis (if wanted) and their places."""
    if input.ndim == 0:
        index = b.constant(np.zeros((), np.int64))
        return [input, index] if values else [index]
    if input.shape[axis] == 0:
        raise ShapeError("no extreme of an empty dimension", actual=list(input.shape))
    if input.dtype.name in ("int8", "int16"):  # floats hold these
        found = _places(b, b.cast(input, np.float32), axis, keepdim, least, values)
        return [b.cast(found[0], input.dtype), found[1]] if values else found
    suffix = PLACES.get(input.dtype.name)
    if suffix is None:
        raise ShapeError("no order of complex numbers", actual=input.dtype)
    y, index = extremes(b, ("argmin" if least else "argmax") + suffix, input, axis, values)
    found = [index] if y is None else [y, index]
    return [t.unsqueeze(axis) for t in found] if keepdim else found


def _max_min(least: bool) -> Callable[..., Value]:
    def max_min(b: Builder, input: Tensor, *, dim: int | None = None, keepdim: bool = False) -> Value:
        if dim is None:
            return _extreme(b, input, list(range(input.ndim)), False, least)
        if b.output_count == 1 and input.ndim:
            return Results([_extreme(b, input, [axis_of(dim, input.ndim)], keepdim, least)])
        return Results(_places(b, input, axis_of(dim, input.ndim), keepdim, least, values=True))

    return max_min


operator("torch.max", "Tensor.max")(largest := _max_min(least=False))
largest.__doc__ = "Maximum of all elements, or maxima and their places along a dimension. torch.max."
operator("torch.min", "Tensor.min")(smallest := _max_min(least=True))
smallest.__doc__ = "Minimum of all elements, or minima and their places along a dimension. torch.min."


def _arg(least: bool) -> Callable[..., Tensor]:
    def arg(b: Builder, input: Tensor, *, dim: int | None = None, keepdim: bool = False) -> Tensor:
        if dim is not None:
            return _places(b, input, axis_of(dim, input.ndim), keepdim, least, values=False)[0]
        flat = b.reshape(b.contiguous(input), (input.size,))
        index = _places(b, flat, 0, False, least, values=False)[0]
        return b.reshape(index, [1] * input.ndim) if keepdim else index

    return arg


operator("torch.argmax", "Tensor.argmax")(argmax := _arg(least=False))
argmax.__doc__ = "Place of the first maximum. torch.argmax."
operator("torch.argmin", "Tensor.argmin")(argmin := _arg(least=True))
argmin.__doc__ = "Place of the first minimum. torch.argmin."


# -- running sums ------------------------------------------------------------------------------------------------


def _running(name: str, function: Callable[..., Any]) -> Callable[..., Tensor]:
    def running(b: Builder, input: Tensor, *, dim: int, dtype: Any = None) -> Tensor:
        natural = np.dtype(np.int64) if _is_integral(input.dtype) else input.dtype
        input = b.cast(input, dtype_of(dtype, natural))
        axis = axis_of(dim, input.ndim)
        if input.dtype == np.float32:
            return along_axis(b, name, input, axis)
        if _has_kernel(input.dtype):
            wide = b.cast(input, WIDER.get(input.dtype.name, input.dtype))
            kernel = name if wide.dtype == np.float32 else f"{name}_{wide.dtype.kind}{8 * wide.dtype.itemsize}"
            return b.cast(along_axis(b, kernel, wide, axis), input.dtype)

        def run(x: Array) -> Array:
            return np.asarray(function(x, axis)).astype(x.dtype) if x.ndim else x

        return b.host(run, [input], [(input.shape, input.dtype)])[0]

    return running


operator("torch.cumsum", "Tensor.cumsum")(cumsum := _running("cumsum", np.cumsum))
cumsum.__doc__ = "Running sum along a dimension. torch.cumsum."
operator("torch.cumprod", "Tensor.cumprod")(cumprod := _running("cumprod", np.cumprod))
cumprod.__doc__ = "Running product along a dimension. torch.cumprod."


def _running_extreme(name: str) -> Callable[..., Value]:
    def running(b: Builder, input: Tensor, dim: int) -> Value:
        axis = axis_of(dim, input.ndim)
        if input.ndim == 0:
            return Results((input, b.constant(np.zeros((), np.int64))))
        held = {"float16": "float32", "int8": "int32", "int16": "int32"}.get(input.dtype.name, input.dtype)
        wide = b.cast(input, held)
        ending = PLACES.get(wide.dtype.name)
        if ending is None:
            raise ShapeError("no order of complex numbers", actual=input.dtype)
        y, index = running_extremes(b, name + ending, wide, axis, temporary=wide.dtype != input.dtype)
        return Results((b.cast(y, input.dtype), index))

    return running


operator("aten::cummax")(cummax := _running_extreme("cummax"))
cummax.__doc__ = "Running maximum along a dimension and the last place that had it. torch.cummax."
operator("aten::cummin")(cummin := _running_extreme("cummin"))
cummin.__doc__ = "Running minimum along a dimension and the last place that had it. torch.cummin."


# -- truth -------------------------------------------------------------------------------------------------------


def _truth(every: bool) -> Callable[..., Tensor]:
    def truth(b: Builder, input: Tensor, dim: Any = None, keepdim: bool = False) -> Tensor:
        from pnnx_fast.ops.elementwise import lower_expression

        axes = axes_or_all(dim, input.ndim)
        held = input if input.dtype == np.bool_ else lower_expression(b, "ne(@0,0)", [input], temporary=True)
        if any(input.shape[d] == 0 for d in axes):
            shape = _shape(input, axes, keepdim)
            return b.contiguous(
                b.constant(np.asarray(every, np.uint8 if input.dtype == np.uint8 else np.bool_)).expand(shape)
            )
        found = emit_reduce(b, held, axes, keepdim, "min" if every else "max", temporary=input.dtype == np.uint8)
        return b.cast(found, np.uint8) if input.dtype == np.uint8 else found

    return truth


operator("aten::all")(all_of := _truth(every=True))
all_of.__doc__ = "Whether all entries are true. torch.all."
operator("aten::any")(any_of := _truth(every=False))
any_of.__doc__ = "Whether some entry is true. torch.any."
