"""Operators that make tensors or change their type: zeros, arange, random numbers, conversions, real and complex."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from pnnx_fast._memory import check_numbers
from pnnx_fast._types import Array, DType
from pnnx_fast.errors import ParameterError, ShapeError
from pnnx_fast.ops._checks import common_shape, in_dtype, number, require_room
from pnnx_fast.ops._dtype import NUMBERS, dtype_of
from pnnx_fast.ops.elementwise import lower_expression
from pnnx_fast.ops.registry import Ints, operator
from pnnx_fast.ops.shape import axis_of, integers
from pnnx_fast.ops.symbolic import Builder, Tensor, Value


def _filled(b: Builder, shape: Any, value: Any, dtype: DType) -> Tensor:
    """Constant tensor of one value; a broadcast view, so its size costs nothing where it is known."""
    scalar = in_dtype(value, dtype, "fill_value")
    items = shape if isinstance(shape, (list, tuple)) else [shape]
    unknown = [n for n in items if isinstance(n, Tensor) and not n.is_constant]
    if unknown:

        def from_data(*arrays: Array) -> Array:
            told = iter(arrays)
            known = [next(told).reshape(-1).tolist() if n in unknown else integers(n, "size") for n in items]
            sizes = _sizes([n for part in known for n in part])
            check_numbers(math.prod(sizes))
            return np.full(sizes, scalar)

        made: Tensor = b.dynamic(from_data, unknown)
        return made
    sizes = _sizes(shape)
    require_room(sizes, dtype)
    return b.constant(scalar.reshape(1)).view(()).expand(sizes)  # type: ignore[union-attr]


def _sizes(shape: Any) -> tuple[int, ...]:
    sizes = integers(shape, "size")
    if min(sizes, default=0) < 0:
        raise ShapeError("negative size", actual=list(sizes))
    return sizes


@operator("torch.zeros", "torch.empty")
def zeros(b: Builder, *, size: Any, dtype: str | None = None) -> Tensor:
    """Zeros. torch.zeros; torch.empty gives zeros too."""
    return _filled(b, size, 0, dtype_of(dtype, "float32"))


@operator("torch.ones")
def ones(b: Builder, *, size: Any, dtype: str | None = None) -> Tensor:
    """Ones. torch.ones."""
    return _filled(b, size, 1, dtype_of(dtype, "float32"))


@operator("torch.full")
def full(b: Builder, *, size: Any, fill_value: Any, dtype: str | None = None) -> Tensor:
    """One value everywhere. torch.full."""
    value = number(fill_value, "fill_value")
    natural = "bool" if isinstance(value, bool) else {int: "int64", complex: "complex64"}.get(type(value), "float32")
    return _filled(b, size, value, dtype_of(dtype, natural))


@operator("torch.zeros_like", "torch.empty_like")
def zeros_like(b: Builder, input: Tensor, *, dtype: str | None = None) -> Tensor:
    """Zeros in the shape of the input. torch.zeros_like."""
    return _filled(b, input.shape, 0, dtype_of(dtype, input.dtype))


@operator("torch.ones_like")
def ones_like(b: Builder, input: Tensor, *, dtype: str | None = None) -> Tensor:
    """Ones in the shape of the input. torch.ones_like."""
    return _filled(b, input.shape, 1, dtype_of(dtype, input.dtype))


@operator("torch.full_like")
def full_like(b: Builder, input: Tensor, *, fill_value: Any, dtype: str | None = None) -> Tensor:
    """One value in the shape of the input. torch.full_like."""
    return _filled(b, input.shape, number(fill_value, "fill_value"), dtype_of(dtype, input.dtype))


@operator("Tensor.new_zeros", "Tensor.new_empty")
def new_zeros(b: Builder, input: Tensor, *, size: Any, dtype: str | None = None) -> Tensor:
    """Zeros with the dtype of the input. torch.Tensor.new_zeros; new_empty gives zeros too."""
    return _filled(b, size, 0, dtype_of(dtype, input.dtype))


@operator("Tensor.new_ones")
def new_ones(b: Builder, input: Tensor, *, size: Any, dtype: str | None = None) -> Tensor:
    """Ones with the dtype of the input. torch.Tensor.new_ones."""
    return _filled(b, size, 1, dtype_of(dtype, input.dtype))


@operator("Tensor.new_full")
def new_full(b: Builder, input: Tensor, *, size: Any, fill_value: Any, dtype: str | None = None) -> Tensor:
    """One value with the dtype of the input. torch.Tensor.new_full."""
    return _filled(b, size, number(fill_value, "fill_value"), dtype_of(dtype, input.dtype))


@operator("Tensor.fill")
def fill(b: Builder, input: Tensor, value: Any) -> Tensor:
    """One value in shape and dtype of the input. torch.Tensor.fill_."""
    if isinstance(value, Tensor) and not value.is_constant:
        return b.cast(b.reshape(value, ()), input.dtype).expand(input.shape)
    if value is None:
        message = "the converter did not write which boolean is filled in; write 0 or 1 in the file"
        raise ParameterError(message, parameter="value")
    return _filled(b, input.shape, number(value, "value"), input.dtype)


@operator("Tensor.copy")
def copy(b: Builder, self: Tensor, src: Tensor) -> Tensor:
    """Values of ``src`` in shape and dtype of the first tensor. torch.Tensor.copy_."""
    return b.cast(src, self.dtype).expand(self.shape)


@operator("torch.arange")
def arange(b: Builder, *, end: Any, start: Any = 0, step: Any = 1, dtype: str | None = None) -> Value:
    """Evenly spaced numbers. torch.arange."""
    given = [start, end, step]
    tensors = [v for v in given if isinstance(v, Tensor) and not v.is_constant]
    if tensors:

        def from_data(*arrays: Array) -> Array:
            values = iter(arrays)
            return _range([next(values).item() if v in tensors else number(v, "end") for v in given], dtype)

        return b.dynamic(from_data, tensors)
    return b.constant(_range([number(v, k) for v, k in zip(given, ("start", "end", "step"), strict=True)], dtype))


def _range(bounds: Sequence[Any], dtype: str | None) -> Array:
    if not all(map(math.isfinite, bounds)):
        raise ParameterError(f"no range leads from {bounds[0]} to {bounds[1]}", parameter="end")
    made = dtype_of(dtype, "float32" if any(isinstance(v, float) for v in bounds) else "int64")
    # Of integers the bounds are whole numbers, though PyTorch counts all but int64 as if they were not.
    first, last, stride = map(math.trunc, bounds) if made.kind in "iu" else bounds
    start, end, step = (first, last, stride) if made == np.int64 else bounds
    if step == 0 or (end - start) * step < 0:
        raise ParameterError("step must lead from start towards end", parameter="step")
    count = max(0, math.ceil((end - start) / step))
    check_numbers(count)
    steps = np.arange(count, dtype=np.float64 if isinstance(first * stride, float) else np.int64)
    return np.asarray(first + steps * stride).astype(made)


def random_numbers(b: Builder, shape: Any, dtype: DType, draw: Any, inputs: list[Tensor]) -> Tensor:
    """What ``draw`` makes of a generator, a shape and the values of some inputs, anew in each call."""
    sizes = integers(shape, "size")
    return b.host(lambda *arrays: draw(b.random(), sizes, *arrays), inputs, [(sizes, dtype)])[0]


@operator("torch.randn", native=False, random=True)
def randn(b: Builder, *, size: Any, dtype: str | None = None) -> Tensor:
    """Standard normal numbers. torch.randn."""
    return random_numbers(b, size, dtype_of(dtype, "float32"), lambda rng, n: rng.standard_normal(n), [])


@operator("torch.randn_like", native=False, random=True)
def randn_like(b: Builder, input: Tensor, *, dtype: str | None = None) -> Tensor:
    """Standard normal numbers in the shape of the input. torch.randn_like."""
    return random_numbers(b, input.shape, dtype_of(dtype, input.dtype), lambda rng, n: rng.standard_normal(n), [])


@operator("torch.rand", native=False, random=True)
def rand(b: Builder, *, size: Any, dtype: str | None = None) -> Tensor:
    """Uniform numbers in [0, 1). torch.rand."""
    return random_numbers(b, size, dtype_of(dtype, "float32"), lambda rng, n: rng.random(n), [])


@operator("torch.bernoulli", native=False, random=True)
def bernoulli(b: Builder, input: Tensor, *, p: Any = None) -> Tensor:
    """Ones with the probability that the input, or one number, says. torch.bernoulli."""

    def draw(rng: np.random.Generator, n: tuple[int, ...], *given: Array) -> Array:
        return rng.random(n) < (given[0] if p is None else p)

    return random_numbers(b, input.shape, input.dtype, draw, [input])


@operator("torch.normal", native=False, random=True)
def normal(
    b: Builder,
    input: Any = None,
    mean: Any = None,
    std: Any = 1.0,
    *,
    size: Any = None,
    dtype: str | None = None,
    generator: Any = None,
) -> Tensor:
    """Normal numbers of given mean and standard deviation, each a number or a tensor. torch.normal.

    An input beside a mean is what was filled in place, and tells shape and type.
    """
    filled = input if isinstance(input, Tensor) and mean is not None else None
    location = (0.0 if input is None else input) if mean is None else mean
    tensors = [v for v in (location, std) if isinstance(v, Tensor)]
    shape = common_shape(*(t.shape for t in tensors))
    if size is not None or filled is not None:
        shape = integers(size, "size") if filled is None else filled.shape
    told = tensors if filled is None else [filled]

    def draw(rng: np.random.Generator, n: tuple[int, ...], *arrays: Array) -> Array:
        given = iter(arrays)
        center = next(given) if isinstance(location, Tensor) else location
        width = next(given) if isinstance(std, Tensor) else std
        return np.asarray(center + width * rng.standard_normal(n))

    return random_numbers(b, shape, dtype_of(dtype, told[0].dtype if told else "float32"), draw, tensors)


@operator("Tensor.to", "Tensor.type")
def to(
    b: Builder,
    input: Tensor | float,
    *,
    dtype: str | None = None,
    to: Any = None,
    copy: bool = False,
    non_blocking: bool = False,
    memory_format: Any = None,
    device: Any = None,
) -> Tensor:
    """Another dtype. torch.Tensor.to. A number stands for a tensor without dimensions."""
    if not isinstance(input, Tensor):
        return b.constant(np.asarray(input, dtype_of(dtype, NUMBERS[type(input)])))
    if dtype == "torch.bfloat16":  # held in float32
        rounded: Tensor = lower_expression(b, "torch.bfloat16(@0)", [input])
        return rounded
    return b.cast(input, dtype_of(dtype, input.dtype))


@operator("Tensor.type_as")
def type_as(b: Builder, input: Tensor | float, other: Tensor) -> Tensor:
    """The dtype of another tensor. torch.Tensor.type_as. A number stands for a tensor without dimensions."""
    return b.cast(input, other.dtype) if isinstance(input, Tensor) else b.constant(np.asarray(input, other.dtype))


@operator("Tensor.size")
def size(b: Builder, input: Tensor, *, dim: int | None = None) -> Value:
    """Size of one dimension, or all sizes, as Python numbers. torch.Tensor.size."""
    return list(input.shape) if dim is None else input.shape[axis_of(dim, input.ndim)]


@operator("torch.as_strided")
def as_strided(b: Builder, input: Tensor, *, size: Ints, stride: Ints, storage_offset: int | None = 0) -> Tensor:
    """View with given sizes and strides over the dense input. torch.as_strided."""
    dense = b.contiguous(input)
    sizes, strides = integers(size, "size"), integers(stride, "stride")
    skip = storage_offset or 0
    if len(sizes) != len(strides) or min((*sizes, *strides, skip), default=0) < 0:
        raise ParameterError("size and stride must be non-negative and of one length", parameter="stride")
    last = skip + sum((n - 1) * s for n, s in zip(sizes, strides, strict=True))
    if math.prod(sizes) and last >= dense.size:
        raise ShapeError("the view reaches beyond the tensor", expected=dense.size, actual=last + 1)
    require_room(sizes, input.dtype)
    return dense.as_strided(sizes, strides, skip)


def _real_dtype(dtype: DType) -> DType:
    return np.empty(0, dtype).real.dtype


@operator("torch.complex")
def make_complex(b: Builder, real: Tensor, imag: Tensor) -> Value:
    """Complex numbers from real and imaginary parts. torch.complex."""
    if real.dtype != imag.dtype or real.dtype.kind != "f":
        raise ShapeError("real and imag must have one floating dtype", expected=real.dtype, actual=imag.dtype)
    return lower_expression(b, "complex(@0,@1)", [real, imag])


def _component(x: Tensor, index: int) -> Tensor:
    half = _real_dtype(x.dtype)
    return Tensor(x.buffer, x.shape, half, [2 * s for s in x.strides], x.offset + index * half.itemsize)


@operator("torch.real")
def real(b: Builder, input: Tensor) -> Tensor:
    """Real part, a view. torch.real."""
    return _component(input, 0) if input.dtype.kind == "c" else input


@operator("torch.imag")
def imag(b: Builder, input: Tensor) -> Tensor:
    """Imaginary part, a view. torch.imag."""
    if input.dtype.kind != "c":
        raise ShapeError("imag needs a complex tensor", actual=input.dtype)
    return _component(input, 1)


@operator("torch.view_as_real")
def view_as_real(b: Builder, input: Tensor) -> Tensor:
    """Complex numbers as pairs in a last dimension, a view. torch.view_as_real."""
    if input.dtype.kind != "c":
        raise ShapeError("view_as_real needs a complex tensor", actual=input.dtype)
    strides = [*(2 * s for s in input.strides), 1]
    return Tensor(input.buffer, (*input.shape, 2), _real_dtype(input.dtype), strides, input.offset)


@operator("torch.view_as_complex")
def view_as_complex(b: Builder, input: Tensor) -> Tensor:
    """Pairs in the last dimension as complex numbers. torch.view_as_complex."""
    if input.ndim < 1 or input.shape[-1] != 2 or input.dtype.kind != "f":
        raise ShapeError("view_as_complex needs a last dimension of size 2", actual=input.shape)
    if input.dtype == np.float16:
        # numpy has no complex32.
        input = b.cast(input, np.float32)
    if input.strides[-1] != 1 or any(s % 2 for s in input.strides[:-1]):
        input = b.contiguous(input)
    wide = np.dtype("complex128" if input.dtype == np.float64 else "complex64")
    return Tensor(input.buffer, input.shape[:-1], wide, [s // 2 for s in input.strides[:-1]], input.offset)
