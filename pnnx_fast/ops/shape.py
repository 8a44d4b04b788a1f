"""Operators that rearrange: reshape, permute, concatenate, flip. Nearly all are views that emit no step."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import zip_longest
from typing import Any

import numpy as np

from pnnx_fast.errors import ParameterError, ShapeError
from pnnx_fast.ir import Operator
from pnnx_fast.ops._checks import require_dims, require_room
from pnnx_fast.ops._dtype import NUMBERS
from pnnx_fast.ops.registry import Ints, operator
from pnnx_fast.ops.symbolic import Builder, Order, Tensor, is_channels_last


def axis_of(dim: int, ndim: int) -> int:
    """Non-negative axis; a 0-d tensor counts as 1-d, as in PyTorch."""
    if not isinstance(dim, int):
        raise ParameterError(f"a dimension must be an integer, not {dim!r}", parameter="dim")
    rank = max(ndim, 1)
    if not -rank <= dim < rank:
        raise ShapeError("dimension out of range", expected=f"[{-rank}, {rank - 1}]", actual=dim)
    return dim % rank


def axes_of(dims: int | Sequence[int] | None, ndim: int) -> list[int]:
    """Non-negative axes of one or several dims; None means all."""
    if dims is None:
        return list(range(ndim))
    found = [axis_of(d, ndim) for d in ([dims] if isinstance(dims, int) else dims)]
    if len(set(found)) != len(found):
        raise ShapeError("a dimension appears twice", actual=dims)
    return found


def axes_or_all(dims: int | Sequence[int] | None, ndim: int) -> list[int]:
    """Axes of one or several dims in order; none, or an empty list, stands for all. A 0-d tensor has none."""
    if dims is None or dims in ([], ()):
        return list(range(ndim))
    return sorted(a for a in axes_of(dims, ndim) if a < ndim)


def integers(value: Any, what: str) -> tuple[int, ...]:
    """Integers of a list that may hold constant tensors; None is how PNNX writes an empty list."""
    if value is None:
        return ()
    items = value if isinstance(value, (list, tuple)) else [value]
    result = []
    for item in items:
        if isinstance(item, Tensor):
            if not item.is_constant:
                raise ParameterError(f"{what} depends on data", parameter=what)
            result += [int(v) for v in item.numpy().reshape(-1)]
        elif isinstance(item, int | float) and item == item // 1 and abs(item) < 1 << 63:
            result.append(int(item))
        else:
            raise ParameterError(f"{what} must be integers, not {value!r}", parameter=what)
    return tuple(result)


def infer_shape(shape: Sequence[int], size: int, given: Tensor) -> tuple[int, ...]:
    """Replace the one -1 of a shape so that it holds ``size`` elements."""
    known = math.prod(n for n in shape if n != -1)
    result = tuple(shape)
    if shape.count(-1) == 1:
        if known == 0 or size % known:
            raise ShapeError("cannot reshape", expected=list(shape), actual=list(given.shape))
        result = tuple(size // known if n == -1 else n for n in shape)
    if math.prod(result) != size or min(result, default=0) < 0:
        raise ShapeError("cannot reshape", expected=list(shape), actual=list(given.shape))
    return result


def axis_inside(name: str) -> Callable[[Operator, int], bool]:
    """The rule that rows stay apart where the dimensions that a parameter names leave out the first one."""

    def rule(op: Operator, rows: int) -> bool:
        value: Any = op.value(name, 0)
        rank = len(op.inputs[0].shape or ())
        dims = list(value) if isinstance(value, (list, tuple)) else [value]
        return bool(dims) and all(isinstance(n, int) and (n if n >= 0 else n + rank) > 0 for n in dims)

    return rule


def keeps_count(op: Operator, rows: int) -> bool:
    """Whether a new shape began with the number of rows when it was noted, and does not name another one than now."""
    before, after = op.inputs[0].shape, op.outputs[0].shape
    if len(op.inputs) != 1 or not before or not after or "shape" not in op.params:
        return False
    shape: Any = op.params["shape"].value
    return bool(before[0] == after[0] and shape and shape[0] in (-1, before[0]) and shape[0] in (-1, rows))


@operator("Tensor.reshape", rows=keeps_count)
def reshape(b: Builder, input: Tensor, *, shape: Any) -> Tensor:
    """Same elements in another shape; 0 keeps the size at its place, as in ONNX. torch.reshape."""
    sizes = integers(shape, "shape")
    if input.size:  # Else 0 may be meant.
        sizes = tuple(n or m for n, m in zip_longest(sizes, input.shape[: len(sizes)], fillvalue=0))
    return b.reshape(input, infer_shape(sizes, input.size, input))


@operator("Tensor.reshape_as")
def reshape_as(b: Builder, input: Tensor, other: Tensor) -> Tensor:
    """Same elements in the shape of another tensor. torch.Tensor.reshape_as."""
    return b.reshape(input, infer_shape(other.shape, input.size, input))


@operator("torch.flatten", rows=axis_inside("start_dim"))
def flatten(b: Builder, input: Tensor, *, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    """Merge a range of dimensions. torch.flatten."""
    if input.ndim == 0:
        return b.reshape(input, (1,))
    first, last = axis_of(start_dim, input.ndim), axis_of(end_dim, input.ndim)
    if first > last:
        raise ShapeError("start_dim lies behind end_dim", actual=(start_dim, end_dim))
    middle = math.prod(input.shape[first : last + 1])
    return b.reshape(input, (*input.shape[:first], middle, *input.shape[last + 1 :]))


@operator("Tensor.unflatten")
def unflatten(b: Builder, input: Tensor, *, dim: int, sizes: Any) -> Tensor:
    """Split one dimension into several. torch.Tensor.unflatten."""
    axis = axis_of(dim, input.ndim)
    parts = infer_shape(integers(sizes, "sizes"), input.shape[axis], input)
    return b.reshape(input, (*input.shape[:axis], *parts, *input.shape[axis + 1 :]))


def _keeps_first(op: Operator, rows: int) -> bool:
    dims: Any = op.value("dims")
    return isinstance(dims, (list, tuple)) and dims[0] == 0


@operator("Tensor.permute", rows=_keeps_first)
def permute(b: Builder, input: Tensor, *, dims: Ints) -> Tensor:
    """Reorder dimensions. torch.permute."""
    axes = axes_of(dims, input.ndim)
    if len(axes) != input.ndim:
        raise ShapeError("permute needs every dimension once", expected=input.ndim, actual=dims)
    return input.permute(axes)


def _both_inside(op: Operator, rows: int) -> bool:
    return axis_inside("dim0")(op, rows) and axis_inside("dim1")(op, rows)


@operator("torch.transpose", rows=_both_inside)
def transpose(b: Builder, input: Tensor, *, dim0: int, dim1: int) -> Tensor:
    """Exchange two dimensions. torch.transpose."""
    if input.ndim == 0:
        return input
    dims = list(range(input.ndim))
    i, j = axis_of(dim0, input.ndim), axis_of(dim1, input.ndim)
    dims[i], dims[j] = dims[j], dims[i]
    return input.permute(dims)


@operator("torch.t")
def matrix_transpose(b: Builder, input: Tensor) -> Tensor:
    """Transpose a matrix; fewer dimensions stay as they are. torch.t."""
    if input.ndim > 2:
        raise ShapeError("torch.t takes at most 2 dimensions", actual=input.shape)
    return input.permute(list(range(input.ndim))[::-1])


@operator("torch.squeeze")
def squeeze(b: Builder, input: Tensor, *, dim: Ints | None = None) -> Tensor:
    """Drop dimensions of size one. torch.squeeze."""
    return input.squeeze([d for d in axes_of(dim, input.ndim) if d < input.ndim and input.shape[d] == 1])


@operator("torch.unsqueeze")
def unsqueeze(b: Builder, input: Tensor | float, *, dim: Ints) -> Tensor:
    """Insert dimensions of size one. torch.unsqueeze."""
    input = _of_number(b, input, 0)
    dims = [dim] if isinstance(dim, int) else list(dim)
    rank = input.ndim + len(dims)
    for axis in sorted(axis_of(d, rank) for d in dims):
        input = input.unsqueeze(axis)
    return input


@operator("Tensor.expand")
def expand(b: Builder, input: Tensor | float, *, sizes: Any = None, shape: Any = None) -> Tensor:
    """Broadcast to a larger shape; -1 keeps a size. torch.Tensor.expand. A number stands for a tensor of it alone."""
    input = _of_number(b, input, 0)
    wanted = list(integers(shape if sizes is None else sizes, "sizes"))
    lead = len(wanted) - input.ndim
    if lead < 0:
        raise ShapeError("expand cannot drop dimensions", expected=wanted, actual=input.shape)
    wanted = [input.shape[i - lead] if n == -1 and i >= lead else n for i, n in enumerate(wanted)]
    if min(wanted, default=0) < 0:
        raise ShapeError("expand of a new dimension needs a size", expected=wanted, actual=input.shape)
    require_room(wanted, input.dtype)
    return input.expand(wanted)


@operator("Tensor.expand_as")
def expand_as(b: Builder, input: Tensor, other: Tensor) -> Tensor:
    """Broadcast to the shape of another tensor. torch.Tensor.expand_as."""
    return input.expand(other.shape)


def prefer_channels_last(parts: Sequence[Tensor]) -> bool:
    """Whether at least half of some tensors have their channels last."""
    last = sum(is_channels_last(p) and not p.is_contiguous for p in parts)
    return last * 2 >= len(parts) and parts[0].ndim >= 3


_LONG, _SEVERAL = 1024, 16
"""Numbers of each of at most so many parts whose numbers alternate in the result."""


def _alternate(parts: Sequence[Tensor], axis: int) -> bool:
    """Whether neighbours in the result come from different parts, so that each part alone leaves gaps in all lines."""
    few = 1 < len(parts) <= _SEVERAL and axis == parts[0].ndim - 1
    return few and parts[0].size >= _LONG and all(p.shape[axis] == 1 for p in parts)


def concatenate(b: Builder, parts: Sequence[Tensor], axis: int, order: Order | None = None) -> Tensor:
    """Emit the concatenation; inputs that were placed in the result already cost nothing."""
    first = parts[0]
    shape = list(first.shape)
    for part in parts[1:]:
        rest = [n for d, n in enumerate(part.shape) if d != axis]
        if part.ndim != first.ndim or rest != [n for d, n in enumerate(first.shape) if d != axis]:
            raise ShapeError("shapes do not fit in cat", expected=first.shape, actual=part.shape)
    shape[axis] = sum(p.shape[axis] for p in parts)
    if order is None:
        order = "channels_last" if prefer_channels_last(parts) else "plain"
    y = b.result(shape, first.dtype, order)
    if order == "plain" and _alternate(parts, axis):
        # Each part is read and written as it lies, then the rows of numbers become columns.
        rows = b.empty((len(parts), *first.shape[:-1]), first.dtype)
        for i, part in enumerate(parts):
            b.copy(part.select(axis, 0), rows.select(0, i))
        b.copy(rows.permute((*range(1, y.ndim), 0)), y)
        return y
    at = 0
    for part in parts:
        b.copy(part, y.narrow(axis, at, part.shape[axis]))
        at += part.shape[axis]
    return y


def to_common_dtype(b: Builder, tensors: Sequence[Tensor]) -> list[Tensor]:
    """Bring tensors to their common dtype."""
    dtypes = {t.dtype for t in tensors}
    if len(dtypes) == 1:
        return list(tensors)
    from pnnx_fast.expression.types import Category, ElementType, promote

    kinds = [Category.DIM if t.ndim else Category.ZERO_DIM for t in tensors]
    common = promote([ElementType(t.dtype, kind) for t, kind in zip(tensors, kinds, strict=True)], True)
    return [b.cast(t, common) for t in tensors]


def listed(tensors: Sequence[Any]) -> list[Any]:
    """Inputs of an operator that takes tensors one by one, or a single list of them."""
    lone = len(tensors) == 1 and isinstance(tensors[0], (list, tuple))
    return list(tensors[0] if lone else tensors)


def _of_number(b: Builder, value: Tensor | float, ndim: int) -> Tensor:
    """A tensor as it is; of a number, as which the converter writes constants of one element, a tensor of that rank."""
    if isinstance(value, Tensor):
        return value
    if type(value) not in NUMBERS:
        raise ParameterError(f"a tensor or a number is expected, not {value!r}")
    return b.constant(np.full((1,) * ndim, value, NUMBERS[type(value)]))


def _of_one_rank(b: Builder, values: Sequence[Any], otherwise: int) -> list[Tensor]:
    """Tensors to join: numbers among them have the rank of the others."""
    ndim = next((v.ndim for v in values if isinstance(v, Tensor)), otherwise)
    return [_of_number(b, v, ndim) for v in values]


@operator("torch.cat", "torch.concat", rows=axis_inside("dim"))
def cat(b: Builder, *tensors: Any, dim: int = 0) -> Tensor:
    """Join tensors along a dimension. torch.cat."""
    parts = _of_one_rank(b, listed(tensors), 1)
    # PyTorch lets empty 1-d tensors stand beside any shape; their dtypes count.
    parts = to_common_dtype(b, parts)
    parts = [p for p in parts if not (p.ndim == 1 and p.shape[0] == 0)] or parts[:1]
    return concatenate(b, parts, axis_of(dim, parts[0].ndim))


@operator("torch.stack")
def stack(b: Builder, *tensors: Any, dim: int = 0) -> Tensor:
    """Join tensors along a new dimension. torch.stack."""
    parts = _of_one_rank(b, listed(tensors), 0)
    axis = axis_of(dim, parts[0].ndim + 1)
    order: Order = "plain"
    if prefer_channels_last(parts):
        # Each part stays one block: the new dimension comes right behind the images.
        like = next(p for p in parts if is_channels_last(p) and not p.is_contiguous)
        strides = (*like.strides[:axis], max(like.strides), *like.strides[axis:])
        order = like.unsqueeze(axis).as_strided((*like.shape[:axis], 1, *like.shape[axis:]), strides)
    return concatenate(b, [p.unsqueeze(axis) for p in to_common_dtype(b, parts)], axis, order)


@operator("torch.clone", "Tensor.clone")
def clone(b: Builder, input: Tensor, *, memory_format: Any = None) -> Tensor:
    """The same tensor: values never change here, so nothing is copied. torch.clone."""
    return input


def backwards(input: Tensor, dims: Ints) -> Tensor:
    """View with some dimensions reversed."""
    skip, strides = 0, list(input.strides)
    for axis in axes_of(dims, input.ndim):
        if input.size and input.ndim:
            skip += (input.shape[axis] - 1) * strides[axis]
            strides[axis] = -strides[axis]
    return input.as_strided(input.shape, strides, skip)


@operator("torch.flip")
def flip(b: Builder, input: Tensor, *, dims: Ints) -> Tensor:
    """Reverse dimensions. torch.flip."""
    return copied(b, backwards(input, dims))


def copied(b: Builder, view: Tensor) -> Tensor:
    """Copy of a view, as the result of an operator."""
    y = b.result(view.shape, view.dtype, "plain")
    b.copy(view, y)
    return y


@operator("torch.roll")
def roll(b: Builder, input: Tensor, *, shifts: Ints, dims: Ints | None = None) -> Tensor:
    """Rotate along dimensions. torch.roll."""
    amounts = [shifts] if isinstance(shifts, int) else list(shifts)
    named = [] if dims is None else [dims] if isinstance(dims, int) else list(dims)
    if not named and len(amounts) == 1:
        flat = b.reshape(input, (input.size,))
        return b.reshape(_roll(b, flat, [(0, amounts[0])]), input.shape)
    axes = [axis_of(d, input.ndim) for d in named]
    if len(axes) != len(amounts):
        raise ParameterError("shifts and dims must have the same length", parameter="dims")
    total = {axis: sum(n for a, n in zip(axes, amounts, strict=True) if a == axis) for axis in axes}
    return _roll(b, input, list(total.items()))


def _roll(b: Builder, x: Tensor, moves: list[tuple[int, int]]) -> Tensor:
    y = b.result(x.shape, x.dtype, "plain")
    pieces = [(x, y)]
    for axis, amount in moves:
        n = x.shape[axis]
        cut = amount % n if n else 0
        halves = ((0, cut, n - cut), (n - cut, 0, cut))
        pieces = [
            (source.narrow(axis, a, size), target.narrow(axis, t, size))
            for source, target in pieces
            for a, t, size in halves
            if size
        ]
    for source, target in pieces:
        b.copy(source, target)
    return y


@operator("Tensor.repeat", "torch.tile")
def repeat(b: Builder, input: Tensor, *, sizes: Any = None, dims: Any = None) -> Tensor:
    """Repeat the whole tensor along dimensions. torch.Tensor.repeat, torch.tile."""
    counts = list(integers(dims if sizes is None else sizes, "sizes"))
    if sizes is not None and len(counts) < input.ndim:
        raise ShapeError("repeat needs a number for each dimension", expected=input.ndim, actual=counts)
    counts = [1] * (input.ndim - len(counts)) + counts
    shape = [1] * (len(counts) - input.ndim) + list(input.shape)
    strides = [0] * (len(counts) - input.ndim) + list(input.strides)
    y = b.result([n * c for n, c in zip(shape, counts, strict=True)], input.dtype, "plain")
    pairs = [v for n, c in zip(shape, counts, strict=True) for v in (c, n)]
    source = input.as_strided(pairs, [v for s in strides for v in (0, s)])
    b.copy(source, b.reshape(y, pairs))
    return y


def _factor(value: int, name: str) -> int:
    if value < 1:
        raise ParameterError(f"{name} must be positive, not {value}", parameter=name)
    return value


@operator("nn.PixelShuffle", "F.pixel_shuffle", rows=4)
def pixel_shuffle(b: Builder, input: Tensor, *, upscale_factor: int) -> Tensor:
    """Move channels into space. torch.nn.PixelShuffle."""
    r = _factor(upscale_factor, "upscale_factor")
    require_dims(input, 3)
    *lead, c, h, w = input.shape
    if c % (r * r):
        raise ShapeError("channels must be divisible by upscale_factor squared", expected=r * r, actual=c)
    x = b.reshape(input, (*lead, c // (r * r), r, r, h, w))
    n = len(lead)
    x = x.permute([*range(n), n, n + 3, n + 1, n + 4, n + 2])
    return _moved(b, input, x, (*lead, c // (r * r), h * r, w * r))


@operator("nn.PixelUnshuffle", "F.pixel_unshuffle")
def pixel_unshuffle(b: Builder, input: Tensor, *, downscale_factor: int) -> Tensor:
    """Move space into channels. torch.nn.PixelUnshuffle."""
    r = _factor(downscale_factor, "downscale_factor")
    require_dims(input, 3)
    *lead, c, h, w = input.shape
    if h % r or w % r:
        raise ShapeError("height and width must be divisible by downscale_factor", expected=r, actual=(h, w))
    x = b.reshape(input, (*lead, c, h // r, r, w // r, r))
    n = len(lead)
    x = x.permute([*range(n), n, n + 2, n + 4, n + 1, n + 3])
    return _moved(b, input, x, (*lead, c * r * r, h // r, w // r))


def _moved(b: Builder, like: Tensor, view: Tensor, shape: Sequence[int]) -> Tensor:
    """Copy a permuted view into a new tensor of ``shape``, channels last when the input was and a layer reads it."""
    last = len(shape) == 4 and is_channels_last(like) and not like.is_contiguous and not b.returns_result
    y = b.result(shape, like.dtype, "channels_last" if last else "plain")
    target = y.view(view.shape)
    if target is None:
        return b.reshape(view, shape)
    b.copy(view, target)
    return y


@operator("nn.ChannelShuffle", "torch.channel_shuffle", "F.channel_shuffle", rows=4)
def channel_shuffle(b: Builder, input: Tensor, *, groups: int) -> Tensor:
    """Interleave groups of channels. torch.nn.ChannelShuffle."""
    require_dims(input, 2)
    n, c, *rest = input.shape
    if groups < 1 or c % groups:
        raise ShapeError("channels must be divisible by groups", expected=groups, actual=c)
    x = b.reshape(input, (n, groups, c // groups, *rest))
    x = x.permute([0, 2, 1, *range(3, x.ndim)])
    return _moved(b, input, x, input.shape)
