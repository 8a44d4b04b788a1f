"""Symbolic tensors and the builder protocol: all that an operator may know of the runtime.

An operator is called with :class:`Tensor` objects that have shape, dtype and strides but no data, and emits steps on a
:class:`Builder`. Views (slices, permutations, reshapes of dense data) are new Tensors over the same buffer and cost
nothing. Layout is nothing but strides: a channels-last activation is a tensor (n, c, h, w) whose channel stride is 1.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Literal, TypeVar

import numpy as np

from pnnx_fast._types import Array, DType, Protocol, Shape
from pnnx_fast.errors import ShapeError
from pnnx_fast.ir.shapes import dense_strides

__all__ = [
    "Algorithm",
    "Buffer",
    "Builder",
    "Chosen",
    "KernelPlan",
    "Order",
    "Results",
    "Tensor",
    "Value",
    "is_channels_last",
    "map_leaves",
    "merge_dims",
    "strides_in",
    "tensors_in",
]

Value = Any
"""What an operand holds while lowering: a Tensor, a Python number, string, None, or a list or tuple of those."""


class Results(tuple[Value, ...]):
    """Several outputs of an operator, of which a graph may name only the first ones."""

    __slots__ = ()


def map_leaves(function: Callable[[Any], Any], value: Any) -> Any:
    """Return a value with ``function`` of each of its leaves in their place; lists and tuples keep their types."""
    if isinstance(value, (list, tuple)):
        return type(value)(map_leaves(function, v) for v in value)
    return function(value)


def tensors_in(value: Any) -> list[Tensor]:
    """Tensors of a value in order, also in dicts, such as the stages of a step have."""
    found: list[Tensor] = []
    _collect((value,), found)
    return found


def _collect(values: Iterable[Any], found: list[Tensor]) -> None:
    for v in values:
        if isinstance(v, Tensor):
            found.append(v)
        elif isinstance(v, (list, tuple, dict)):
            _collect(v.values() if isinstance(v, dict) else v, found)


class Buffer:
    """A piece of memory: ``arena`` (planned), ``const`` (``array`` holds it), ``input`` or ``output`` (``index``).

    ``origin`` tells a constant that was made of others from what, and how; it stands for its content. ``address`` is
    where programs read a constant, once that is settled.
    """

    __slots__ = ("__weakref__", "address", "array", "index", "kind", "nbytes", "origin")

    def __init__(self, kind: str, nbytes: int, array: Array | None = None, index: int = 0) -> None:
        self.kind, self.nbytes, self.array, self.index = kind, nbytes, array, index
        self.origin: Hashable = None
        self.address = 0


def strides_in(shape: Shape, order: Order) -> Shape:
    """Strides in elements of a dense tensor whose dimensions lie in memory in some order."""
    if isinstance(order, Tensor):
        by_stride = sorted(range(len(shape)), key=lambda d: (-order.strides[d], d))
        return _strides_by(shape, tuple(by_stride)) if order.ndim == len(shape) else dense_strides(shape)
    if order == "plain" or len(shape) < 3:
        return dense_strides(shape)
    return _strides_by(shape, (0, *range(2, len(shape)), 1))


@lru_cache(1024)
def _strides_by(shape: Shape, outer_to_inner: tuple[int, ...]) -> Shape:
    """Dense strides with dimensions in another order; both walks and many layers ask for the same few."""
    strides = [0] * len(shape)
    for d, s in zip(outer_to_inner, dense_strides([shape[d] for d in outer_to_inner]), strict=True):
        strides[d] = s
    return tuple(strides)


def merge_dims(shape: Sequence[int], *strides: Sequence[int]) -> tuple[Shape, list[Shape]]:
    """Join neighbouring dimensions that are dense in all tensors, and drop those of size one."""
    merged: list[list[int]] = []
    for n, *steps in zip(shape, *strides, strict=True):
        if n == 1:
            continue
        if merged and all(outer == n * inner for outer, inner in zip(merged[-1][1:], steps, strict=True)):
            merged[-1] = [merged[-1][0] * n, *steps]
        else:
            merged.append([n, *steps])
    return tuple(m[0] for m in merged), [tuple(m[i + 1] for m in merged) for i in range(len(strides))]


class Tensor:
    """A tensor without data: a shape and strides (in elements) over a buffer, ``offset`` in bytes."""

    __slots__ = ("buffer", "dtype", "ndim", "offset", "shape", "size", "strides")

    def __init__(
        self,
        buffer: Buffer,
        shape: Sequence[int],
        dtype: DType,
        strides: Sequence[int] | None = None,
        offset: int = 0,
    ) -> None:
        self.buffer = buffer
        self.shape: Shape = tuple(shape)
        self.ndim = len(self.shape)
        self.size: int = math.prod(self.shape)
        """Number of elements."""
        self.dtype = np.dtype(dtype)
        self.offset = offset
        low, high = 0, self.size - 1
        if strides is None:
            self.strides: Shape = dense_strides(self.shape)
        else:
            self.strides = tuple(strides)
            reaches = [(n - 1) * s for n, s in zip(self.shape, self.strides, strict=True)]
            high = sum([r for r in reaches if r > 0])
            low = sum(reaches) - high
        itemsize = self.dtype.itemsize
        if self.size and (offset + low * itemsize < 0 or offset + (high + 1) * itemsize > buffer.nbytes):
            # The last line of defence: operators check what they are given, and kernels trust strides.
            raise ShapeError("a view reaches outside of its memory", actual=self)

    def __repr__(self) -> str:
        return f"Tensor({self.dtype}{list(self.shape)}, strides={list(self.strides)}, {self.buffer.kind})"

    @property
    def nbytes(self) -> int:
        """Bytes of the elements, without gaps."""
        return self.size * self.dtype.itemsize

    @property
    def is_constant(self) -> bool:
        """Whether the values are known while lowering."""
        return self.buffer.kind == "const"

    @property
    def identity(self) -> Hashable:
        """Equal for tensors over the same elements of the same memory, or of constants of the same origin."""
        return (self.buffer.origin or self.buffer, self.offset, self.shape, self.strides, self.dtype)

    @property
    def is_contiguous(self) -> bool:
        """Whether the elements lie densely in C order."""
        step = 1
        for n, s in zip(reversed(self.shape), reversed(self.strides), strict=True):
            if n != 1:
                if s != step:
                    return self.size == 0
                step *= n
        return True

    @property
    def is_dense(self) -> bool:
        """Whether the elements fill one range of memory without gaps or overlap, in any order of dimensions."""
        step = 1
        for s, n in sorted((s, n) for s, n in zip(self.strides, self.shape, strict=True) if n != 1):
            if s != step:
                return False
            step *= n
        return True

    def has_layout(self, shape: Sequence[int], strides: Sequence[int]) -> bool:
        """Whether it has a shape, and in dimensions of more than one entry these strides."""
        pairs = zip(self.strides, strides, strict=True)
        return self.shape == tuple(shape) and all(a == b or n == 1 for n, (a, b) in zip(shape, pairs, strict=True))

    def numpy(self) -> Array:
        """Values of a constant as a (read-only) numpy view."""
        if self.buffer.array is None:
            raise ValueError("only constants have values while lowering")
        if not self.size:
            return np.empty(self.shape, self.dtype)
        raw = self.buffer.array.reshape(-1).view(np.uint8)
        strides = tuple(s * self.dtype.itemsize for s in self.strides)
        view: Array = np.ndarray(self.shape, self.dtype, raw.data if raw.size else b"", self.offset, strides)
        return view

    def as_strided(self, shape: Sequence[int], strides: Sequence[int], skip: int = 0) -> Tensor:
        """View with the given shape and strides, beginning ``skip`` elements further on."""
        return Tensor(self.buffer, shape, self.dtype, strides, self.offset + skip * self.dtype.itemsize)

    def permute(self, dims: Sequence[int]) -> Tensor:
        """View with reordered dimensions; ``dims`` are non-negative."""
        return self.as_strided([self.shape[d] for d in dims], [self.strides[d] for d in dims])

    def expand(self, shape: Sequence[int]) -> Tensor:
        """Broadcast view; raises ShapeError when the shapes do not fit."""
        lead = len(shape) - self.ndim
        if lead < 0:
            raise ShapeError(f"cannot broadcast {list(self.shape)} to {list(shape)}")
        strides = [0] * lead
        for have, want, stride in zip(self.shape, shape[lead:], self.strides, strict=True):
            if have != want and have != 1:
                raise ShapeError(f"cannot broadcast {list(self.shape)} to {list(shape)}")
            strides.append(stride if have == want else 0)
        return self.as_strided(shape, strides)

    def expands_to(self, shape: Sequence[int]) -> bool:
        """Whether there is a broadcast view of a shape."""
        if self.shape == shape:
            return True
        lead = len(shape) - self.ndim
        return lead >= 0 and all(have in (1, want) for have, want in zip(self.shape, shape[lead:], strict=True))

    def narrow(self, dim: int, start: int, length: int, step: int = 1) -> Tensor:
        """View of ``length`` entries of one dimension, from ``start`` on, every ``step``-th."""
        if start < 0 or length < 0 or step < 1 or (length and start + (length - 1) * step >= self.shape[dim]):
            raise ShapeError("range outside of the dimension", expected=self.shape[dim], actual=(start, length, step))
        shape, strides = list(self.shape), list(self.strides)
        skip = start * strides[dim] if length else 0
        shape[dim], strides[dim] = length, strides[dim] * step
        return self.as_strided(shape, strides, skip)

    def select(self, dim: int, index: int) -> Tensor:
        """View of one entry of a dimension, which disappears."""
        if not 0 <= index < self.shape[dim]:
            raise ShapeError("index outside of the dimension", expected=self.shape[dim], actual=index)
        shape, strides = list(self.shape), list(self.strides)
        del shape[dim], strides[dim]
        return self.as_strided(shape, strides, index * self.strides[dim])

    def unsqueeze(self, dim: int) -> Tensor:
        """View with a dimension of size one inserted before ``dim``."""
        stride = self.shape[dim] * self.strides[dim] if dim < self.ndim else 1
        shape, strides = list(self.shape), list(self.strides)
        shape.insert(dim, 1)
        strides.insert(dim, stride)
        return self.as_strided(shape, strides)

    def squeeze(self, dims: Sequence[int]) -> Tensor:
        """View without the given dimensions, which have size one."""
        keep = [d for d in range(self.ndim) if d not in dims]
        return self.permute(keep)

    def view(self, shape: Sequence[int]) -> Tensor | None:
        """View with another shape of the same size, or None when that needs a copy."""
        if self.size == 0 or self.is_contiguous:
            return Tensor(self.buffer, shape, self.dtype, None, self.offset)
        old = [(n, s) for n, s in zip(self.shape, self.strides, strict=True) if n != 1]
        strides: list[int] = []
        todo = list(shape)
        while old:
            # Take as few old and new dimensions as have equal sizes; the old ones must be dense among themselves.
            group = [old.pop(0)]
            taken = [todo.pop(0)]
            while math.prod(taken) != math.prod(n for n, _ in group):
                if math.prod(taken) < math.prod(n for n, _ in group):
                    taken.append(todo.pop(0))
                else:
                    group.append(old.pop(0))
            if any(s != n2 * s2 for (_, s), (n2, s2) in itertools.pairwise(group)):
                return None
            unit = group[-1][1]
            strides += [d * unit for d in dense_strides(taken)]
        strides += [1] * len(todo)
        return self.as_strided(shape, strides)


Order = Literal["plain", "channels_last"] | Tensor
"""Memory order of a new tensor: C order, channels last, or densely in the dimension order of another tensor."""


def is_channels_last(x: Tensor) -> bool:
    """Whether the channels (dimension 1) of each pixel lie next to each other; other strides are free."""
    return x.ndim >= 3 and (x.shape[1] == 1 or x.strides[1] == 1 or x.size == 0)


class KernelPlan:
    """What a planned kernel chose for given arguments. ``chosen``: those of the arguments that are its choice."""

    __slots__ = ("chosen", "label", "packed_bytes", "scratch_bytes", "variant")

    def __init__(
        self, variant: int, packed_bytes: int, scratch_bytes: int, label: str, chosen: Mapping[str, Any]
    ) -> None:
        self.variant, self.packed_bytes, self.scratch_bytes, self.label = variant, packed_bytes, scratch_bytes, label
        self.chosen = chosen


class Algorithm(Protocol):
    """A kernel, the kernel that packs its weights, and the variant to ask for (-1: the kernel chooses)."""

    @property
    def kernel(self) -> str:
        """Name of the kernel."""

    @property
    def pack(self) -> str:
        """Name of the kernel that packs its weights."""

    @property
    def variant(self) -> int:
        """The variant to ask for."""


Chosen = TypeVar("Chosen", bound=Algorithm)


class Builder(Protocol):
    """What an operator function may ask of the runtime that lowers it."""

    isa: str
    nthreads: int
    weights_bytes: int
    """Bytes of all weights of the model: no cache holds those of a large one from call to call."""
    wants_steps: bool
    """False while only shapes are looked for: what emits steps and returns nothing may then return at once."""

    @property
    def output_count(self) -> int:
        """Number of outputs that the graph names for the operator being lowered."""

    @property
    def returns_result(self) -> bool:
        """Whether what the operator being lowered yields only leaves the graph, which takes plain order."""

    def empty(self, shape: Sequence[int], dtype: DType | type | str, order: Order = "plain") -> Tensor:
        """Return a new temporary tensor in the arena."""

    def result(self, shape: Sequence[int], dtype: DType | type | str, order: Order = "plain", index: int = 0) -> Tensor:
        """Return the tensor for output ``index`` of the operator that is being lowered.

        With order ``channels_last`` (or like a channels-last tensor) image, row and pixel strides may be larger than
        dense, because the tensor may lie inside a concatenation: kernels take them from ``strides``. Plain results
        are contiguous.
        """

    def scratch(self, nbytes: int) -> Tensor | None:
        """Return bytes that live during the next step only, None for 0."""

    def constant(self, array: Array) -> Tensor:
        """Return a tensor with known values."""

    def cached(self, key: Hashable, make: Callable[[], Array]) -> Tensor:
        """Return the constant of that key (packed weights, tables), made once while a program of the model uses it."""

    def kept(self, key: Hashable, make: Callable[[], Any]) -> Any:
        """Return the object of that key, made at most once in the life of a model (state of native operators)."""

    def plan(self, kernel: str, **fields: Any) -> KernelPlan:
        """Ask a planned kernel for variant and sizes; tensors among the fields are not needed."""

    def prefer(self, given: Chosen, options: Callable[[], Sequence[Chosen]], weight: Tensor, fields: Any) -> Chosen:
        """Return the fastest of several algorithms where the model is tuned, else ``given``."""

    def pack(self, kernel: str, weight: Tensor, nbytes: int, **fields: Any) -> Tensor:
        """Return constant ``weight`` packed by a packing kernel (fields x and y are set here), cached by arguments."""

    def step(
        self,
        kernel: str,
        *,
        flops: int = 0,
        label: str = "",
        serial: bool | None = None,
        inplace: tuple[Tensor, Tensor] | None = None,
        **fields: Any,
    ) -> None:
        """Emit a kernel call. Fields are those of the kernel's argument kind; Tensors stand for references.

        ``inplace=(out, in)`` allows ``out`` to take the memory of ``in`` when ``in`` is not needed afterwards.
        ``serial=None`` lets the builder decide by the amount of work.
        """

    def host(
        self,
        function: Callable[..., Any],
        inputs: Sequence[Tensor],
        outputs: Sequence[tuple[Sequence[int], DType | type | str]],
    ) -> list[Tensor]:
        """Emit a numpy step: ``function(*arrays)`` returns one array or a tuple, with the announced shapes, dtypes."""

    def dynamic(self, function: Callable[..., Any], inputs: Sequence[Tensor]) -> Value:
        """Return the outputs of ``function(*arrays)`` when their shapes or values depend on data.

        Must be the operator's last act: ``return b.dynamic(...)``. The function returns a value, or a tuple with one
        value an output; values may be arrays or Python numbers. A list is the value of one output, or those of several.
        """

    def random(self) -> np.random.Generator:
        """Return the model's source of random numbers, for use in numpy steps."""

    def line_sums(self, x: Tensor) -> Tensor | None:
        """Return the sums of ``x`` (n, c, h, w) over its last dimension, which keeps size one.

        None where the step that makes ``x`` cannot add them up meanwhile.
        """

    def copy(self, x: Tensor, y: Tensor) -> None:
        """Emit a copy of ``x`` to ``y`` (same shape and dtype, any strides; nothing when they are the same memory)."""

    def contiguous(self, x: Tensor) -> Tensor:
        """Return ``x`` in C order without gaps: itself if it is so already, else a (cached) copy."""

    def channels_last(self, x: Tensor) -> Tensor:
        """Return ``x`` (n, c, spatial…) with channel stride 1: itself if it is so already, else a (cached) copy."""

    def cast(self, x: Tensor, dtype: DType | type | str) -> Tensor:
        """Return ``x`` converted as PyTorch's ``Tensor.to`` converts."""

    def reshape(self, x: Tensor, shape: Sequence[int]) -> Tensor:
        """Return ``x`` with another shape (no -1), a view where possible."""
