"""Random numbers that a converter left as TorchScript calls: arguments by position.

PyTorch's generator is not repeated: shapes, types and distributions are the same, numbers are not. Fillings in place
(``x.uniform_()``) have lost their underscore on the way; of the tensor they write to they take shape and type alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pnnx_fast._types import Array, DType
from pnnx_fast.errors import ParameterError
from pnnx_fast.ops._checks import number
from pnnx_fast.ops._dtype import dtype_of
from pnnx_fast.ops.aten import dtype_name
from pnnx_fast.ops.create import normal as normal_by_name
from pnnx_fast.ops.create import random_numbers
from pnnx_fast.ops.registry import operator
from pnnx_fast.ops.symbolic import Builder, Tensor

Draw = Callable[..., Any]


def _dtype(code: Any, default: DType | str) -> DType:
    return dtype_of(dtype_name(code), default)


def _whole(low: int, high: int) -> Draw:
    if high <= low:
        raise ParameterError(f"no integer is at least {low} and below {high}", parameter="high")
    return lambda rng, n: rng.integers(low, high, n)


@operator("aten::rand_like", native=False, random=True)
def rand_like(b: Builder, input: Tensor, dtype: Any = None, *_: Any) -> Tensor:
    """Uniform numbers in [0, 1) in the shape of the input. torch.rand_like."""
    return random_numbers(b, input.shape, _dtype(dtype, input.dtype), lambda rng, n: rng.random(n), [])


@operator("aten::randint_like", native=False, random=True)
def randint_like(b: Builder, input: Tensor, *bounds: Any) -> Tensor:
    """Integers below a bound, or between two, in the shape of the input. torch.randint_like."""
    # Behind the bounds are dtype, layout, device, pinning and memory format.
    *low, high, dtype = bounds[:-4]
    return random_numbers(b, input.shape, _dtype(dtype, input.dtype), _whole(low[0] if low else 0, high), [])


@operator("aten::randint", native=False, random=True)
def randint(b: Builder, *bounds: Any) -> Tensor:
    """Integers below a bound, or between two. torch.randint."""
    # Behind the bounds are the size, then dtype, layout, device and pinning.
    *low, high, size, dtype = bounds[:-3]
    return random_numbers(b, size, _dtype(dtype, "int64"), _whole(low[0] if low else 0, high), [])


@operator("aten::randperm", native=False, random=True)
def randperm(b: Builder, n: int, dtype: Any = None, *_: Any) -> Tensor:
    """The integers below a bound in any order. torch.randperm."""
    return random_numbers(b, [n], _dtype(dtype, "int64"), lambda rng, n: rng.permutation(*n), [])


@operator("aten::uniform", native=False, random=True)
def uniform(b: Builder, input: Tensor, low: float = 0.0, high: float = 1.0, generator: Any = None) -> Tensor:
    """Uniform numbers. torch.Tensor.uniform_."""
    return random_numbers(b, input.shape, input.dtype, lambda rng, n: low + (high - low) * rng.random(n), [])


@operator("aten::exponential", native=False, random=True)
def exponential(b: Builder, input: Tensor, lambd: float = 1.0, generator: Any = None) -> Tensor:
    """Exponentially distributed numbers. torch.Tensor.exponential_."""
    return random_numbers(b, input.shape, input.dtype, lambda rng, n: rng.standard_exponential(n) / lambd, [])


@operator("aten::normal", native=False, random=True)
def normal(b: Builder, mean: Any, std: Any = 1.0, *rest: Any) -> Tensor:
    """Normal numbers of given mean and standard deviation, each a number or a tensor. torch.normal."""
    if len(rest) == 2:  # in place: of what, mean, deviation, generator
        return _drawn(b, mean.shape, mean.dtype, number(std, "mean"), number(rest[0], "std"))
    if len(rest) == 6:  # of a size: mean, deviation, size, generator, dtype, layout, device, pinned
        return _drawn(b, rest[0], _dtype(rest[2], "float32"), number(mean, "mean"), number(std, "std"))
    return normal_by_name(b, None, mean, std)


def _drawn(b: Builder, size: Any, dtype: DType, mean: Any, std: Any) -> Tensor:
    return random_numbers(b, size, dtype, lambda rng, n: mean + std * rng.standard_normal(n), [])


@operator("aten::poisson", native=False, random=True)
def poisson(b: Builder, input: Tensor, generator: Any = None) -> Tensor:
    """Counts of events whose expected numbers the input holds. torch.poisson."""
    return random_numbers(b, input.shape, input.dtype, lambda rng, n, x: np.asarray(rng.poisson(x)), [input])


@operator("aten::multinomial", native=False, random=True)
def multinomial(
    b: Builder, input: Tensor, num_samples: int, replacement: bool = False, generator: Any = None
) -> Tensor:
    """Indices drawn with the weights in the rows of the input. torch.multinomial."""

    def draw(rng: np.random.Generator, n: tuple[int, ...], weights: Array) -> Any:
        weights = weights.astype(np.float64)
        if not replacement:
            # The least of exponential times divided by weights: their order is that of drawing one by one.
            with np.errstate(divide="ignore"):
                times = rng.standard_exponential(weights.shape) / weights
            return times.argsort(-1)[..., :num_samples]
        drawn = np.empty(n, np.int64)
        for row in np.ndindex(n[:-1]):
            sums = weights[row].cumsum()
            drawn[row] = np.minimum(np.searchsorted(sums, rng.random(num_samples) * sums[-1], "right"), len(sums) - 1)
        return drawn

    if not replacement and num_samples > input.shape[-1]:
        raise ParameterError(f"{num_samples} of {input.shape[-1]} cannot be drawn", parameter="num_samples")
    return random_numbers(b, (*input.shape[:-1], num_samples), np.dtype(np.int64), draw, [input])
