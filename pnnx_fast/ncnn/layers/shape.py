"""Layers that rearrange values: reshape, permute, concatenate, tile, flip and shuffle. Mostly views."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence

import numpy as np

from pnnx_fast.errors import ParameterError, ShapeError
from pnnx_fast.ir import Attribute, Operand
from pnnx_fast.ncnn import shape_expression
from pnnx_fast.ncnn.layers.registry import Build, layer
from pnnx_fast.ncnn.tracer import Tracer, dims_of, shape_of
from pnnx_fast.ncnn.values import Params, Weights

ABSENT = -233
"""How ncnn writes "this dimension does not exist" or "to the end"."""
NO_AXIS = 233

PLACES = {1: {"w": 1}, 2: {"h": 1, "w": 2}, 3: {"c": 1, "h": 2, "w": 3}, 4: {"c": 1, "d": 2, "h": 3, "w": 4}}
"""Places of w, h, d, c in (n, …) by number of dimensions."""


def axis_of(axis: int, x: Operand) -> int:
    """Place in (n, …) of an axis as ncnn counts them, from the slowest one."""
    rank = dims_of(x)
    if not -rank <= axis < rank:
        raise ShapeError("axis out of range", expected=f"[{-rank}, {rank - 1}]", actual=axis)
    return 1 + axis % rank


def sizes_of(x: Operand) -> dict[str, int]:
    """Sizes w, h, d, c and n as ncnn's Mat has them, 1 where there is no such dimension."""
    shape = shape_of(x)
    places = PLACES[len(shape) - 1]
    return {"n": shape[0], **{name: shape[places[name]] if name in places else 1 for name in "whdc"}}


def ordered(x: dict[str, int]) -> tuple[int, ...]:
    """Shape (…, h, w) of sizes by name, of as many dimensions as there are names among w, h, d, c."""
    return tuple(x[name] for name in "cdhw" if name in x)


# -- nothing to do -----------------------------------------------------------------------------------------------------


@layer("Input", one_blob_only=True, inplace=True)
def graph_input(p: Params, w: Weights) -> Build:
    """Input of the net; its value is given."""
    for id in (0, 1, 2, 11):
        p.int(id)

    def build(t: Tracer) -> Operand:
        raise ShapeError("this input has not been given")

    return build


@layer("Noop", one_blob_only=False, inplace=True)
def noop(p: Params, w: Weights) -> Build:
    """The inputs themselves."""
    return lambda t, *inputs: list(inputs)


@layer("Split", one_blob_only=False)
def split(p: Params, w: Weights) -> Build:
    """The input, as often as there are outputs."""
    return lambda t, x: itertools.repeat(x)  # type: ignore[return-value]


@layer("DeepCopy")
def deep_copy(p: Params, w: Weights) -> Build:
    """The input itself; operands never change."""
    return lambda t, x: x


@layer("Packing")
def packing(p: Params, w: Weights) -> Build:
    """The input itself: how ncnn interleaves values in memory is not visible here."""
    for id in range(6):
        p.int(id)
    return lambda t, x: x


_LOADED = {0: 0, 1: 1, 2: 0, 3: 2}


@layer("MemoryData", one_blob_only=False)
def memory_data(p: Params, w: Weights) -> Build:
    """Constant values."""
    sizes = {"w": p.count(0, 0, 0), "h": p.count(1, 0, 0), "d": p.count(11, 0, 0), "c": p.count(2, 0, 0)}
    names = "wh"[: 2 if sizes["h"] else 1] if not sizes["c"] else "whdc" if sizes["d"] else "whc"
    kind = p.choice(21, 1, 4)
    if not any(sizes.values()):
        return lambda t: t.array(np.zeros((1, 1), np.float32))
    values = w.load(1, *ordered({name: sizes[name] for name in names}), type=_LOADED[kind])
    return lambda t: t.constant(_integers(values))


def _integers(values: Attribute) -> Attribute:
    """Integers, when that is what the numbers' bits are: files do not tell, and floats are never all so small."""
    if values.dtype != "f32" or not len(values.data):
        return values
    bits = values.numpy().view(np.int32)
    # Not by np.abs: the bits of -0.0 are the integer that has no positive counterpart.
    small = bits.any() and (bits < 1 << 23).all() and (bits > -(1 << 23)).all()
    return Attribute(bits) if small else values


# -- shapes ------------------------------------------------------------------------------------------------------------


@layer("Flatten")
def flatten(p: Params, w: Weights) -> Build:
    """All dimensions as one."""
    return lambda t, x: t.flatten(x)


@layer("Reshape")
def reshape(p: Params, w: Weights) -> Build:
    """Another shape: 0 keeps a size, -1 takes what is left; sizes may be expressions, and the batch may take part."""
    given = {name: p.int(id, ABSENT) for name, id in (("w", 0), ("h", 1), ("d", 11), ("c", 2))}
    batch_in, batch_out = p.int(12, NO_AXIS), p.int(13, NO_AXIS)
    text = p.string(6)
    # The first that is absent ends the dimensions, in this order; d is absent in three.
    names = "whdc" if given["d"] != ABSENT else "whc"
    if ABSENT in (given["c"], given["h"], given["w"]):
        names = "wh" if given["h"] != ABSENT and given["w"] != ABSENT else "w" if given["w"] != ABSENT else ""
    count = shape_expression.blob_count(text)
    if text:
        rank = shape_expression.count(text)
        p.blobs = max(count, 1)
        if not 1 <= rank <= 5:
            raise ParameterError(f"a shape of {rank} dimensions")
    elif not names:
        raise ParameterError("no shape is given")

    def build(t: Tracer, *inputs: Operand) -> Operand:
        x = inputs[0]
        if text:
            wanted = shape_expression.evaluate(text, [sizes_of(v) for v in inputs])[::-1]
        else:
            wanted = list(ordered({name: given[name] for name in names}))
        if batch_in == NO_AXIS and batch_out == NO_AXIS:
            return t.fitted(x, (shape_of(x)[0], *_resolved(wanted, x)))
        return _reshape_batch(t, x, wanted, batch_in, batch_out)

    return build


def _resolved(wanted: Sequence[int], x: Operand) -> list[int]:
    """Sizes with 0 (copied from the dimension of the same name) and one -1 replaced."""
    if not 1 <= len(wanted) <= 4:
        raise ShapeError("blobs have up to four dimensions", actual=list(wanted))
    have, names = sizes_of(x), {1: "w", 2: "hw", 3: "chw", 4: "cdhw"}[len(wanted)]
    sizes = [have[name] if size == 0 else size for name, size in zip(names, wanted, strict=True)]
    total = math.prod(shape_of(x)[1:])
    return [total] if len(sizes) == 1 else _remaining(sizes, total, x)


def _remaining(sizes: list[int], total: int, x: Operand) -> list[int]:
    known = math.prod(size for size in sizes if size != -1)
    if sizes.count(-1) == 1 and known > 0:
        sizes = [total // known if size == -1 else size for size in sizes]
    if min(sizes) < 1:
        raise ShapeError("cannot reshape", expected=sizes, actual=list(shape_of(x)))
    return sizes


def _reshape_batch(t: Tracer, x: Operand, wanted: list[int], batch_in: int, batch_out: int) -> Operand:
    """Reshape of the logical tensor in which the batch stands at a given axis before and at another one after."""
    n, *rest = shape_of(x)
    if batch_in == NO_AXIS:
        if n != 1:
            raise ShapeError("the batch takes no part in this reshape", expected=1, actual=n)
        logical, source = t.reshape(x, rest), list(rest)
    else:
        axis = batch_in + len(rest) + 1 if batch_in < 0 else batch_in
        if not 0 <= axis <= len(rest):
            raise ShapeError("batch axis out of range", expected=len(rest), actual=batch_in)
        dims = [*range(1, axis + 1), 0, *range(axis + 1, len(rest) + 1)]
        logical, source = t.permute(x, dims), [*rest[:axis], n, *rest[axis:]]
    if any(size == 0 and i >= len(source) for i, size in enumerate(wanted)):
        raise ShapeError("a size is copied from a dimension that is not there", expected=wanted, actual=source)
    sizes = [source[i] if size == 0 else size for i, size in enumerate(wanted)]
    sizes = _remaining(sizes, math.prod(source), x)
    if batch_out == NO_AXIS:
        if len(sizes) > 4:
            raise ShapeError("a shape of more than 4 dimensions", actual=sizes)
        return t.reshape(logical, (1, *sizes))
    axis = batch_out + len(sizes) if batch_out < 0 else batch_out
    if not 0 <= axis < len(sizes) or not 2 <= len(sizes) <= 5:
        raise ShapeError("batch axis out of range", expected=len(sizes), actual=batch_out)
    y = t.reshape(logical, sizes)
    return t.permute(y, [axis, *(d for d in range(len(sizes)) if d != axis)])


@layer("Squeeze")
def squeeze(p: Params, w: Weights) -> Build:
    """Drop dimensions of size one, by axes or by name."""
    named = {name: p.flag(id) for name, id in (("w", 0), ("h", 1), ("d", 11), ("c", 2))}
    axes, by_axes = p.ints(3), p.has(3) and len(p.ints(3)) > 0

    def build(t: Tracer, x: Operand) -> Operand:
        places = PLACES[dims_of(x)]
        drop = {axis_of(a, x) for a in axes} if by_axes else {places[n] for n in places if named[n]}
        shape = shape_of(x)
        kept = [size for d, size in enumerate(shape) if d not in drop or size != 1]
        return t.reshape(x, kept if len(kept) > 1 else (shape[0], 1))

    return build


@layer("ExpandDims")
def expand_dims(p: Params, w: Weights) -> Build:
    """Insert dimensions of size one."""
    axes = p.ints(3)

    def build(t: Tracer, x: Operand) -> Operand:
        n, *rest = shape_of(x)
        rank = len(rest) + len(axes)
        if rank > 4:
            raise ShapeError("more than 4 dimensions", actual=rank)
        if any(not -rank <= a < rank for a in axes):
            raise ShapeError("axis out of range", expected=f"[{-rank}, {rank - 1}]", actual=list(axes))
        new, sizes = {a % rank for a in axes}, iter(rest)
        shape = [1 if d in new else next(sizes, 1) for d in range(rank)]
        return t.reshape(x, (n, *shape))

    return build


# Orders of ncnn's Permute: which old dimension stands where, slowest first, by number of dimensions.
_ORDERS = {
    2: ("hw", "wh"),
    3: ("chw", "cwh", "hcw", "hwc", "wch", "whc"),
    4: (
        "cdhw", "cdwh", "chdw", "chwd", "cwdh", "cwhd", "dchw", "dcwh", "dhcw", "dhwc", "dwch", "dwhc",
        "hcdw", "hcwd", "hdcw", "hdwc", "hwcd", "hwdc", "wcdh", "wchd", "wdch", "wdhc", "whcd", "whdc",
    ),
}  # fmt: skip


@layer("Permute")
def permute(p: Params, w: Weights) -> Build:
    """Reorder dimensions by the number of an order."""
    order = p.choice(0, 0, 24)

    def build(t: Tracer, x: Operand) -> Operand:
        rank = dims_of(x)
        if rank == 1:
            return x
        if order >= len(_ORDERS[rank]):
            raise ShapeError(f"there is no order {order} of {rank} dimensions")
        return t.permute(x, [0, *(PLACES[rank][name] for name in _ORDERS[rank][order])])

    return build


# -- parts -------------------------------------------------------------------------------------------------------------


@layer("Concat", one_blob_only=False)
def concat(p: Params, w: Weights) -> Build:
    """Join along an axis; blobs of batch 1 are repeated."""
    axis = p.int(0)

    def build(t: Tracer, *inputs: Operand) -> Operand:
        parts = t.together(*inputs)
        d = axis_of(axis, parts[0])
        first = shape_of(parts[0])
        # Of what lies inside of the axis only the number of values must fit.
        goals = [(*first[:d], *shape_of(x)[d : d + 1], *first[d + 1 :]) for x in parts]
        return t.concat([_like(t, x, goal) for x, goal in zip(parts, goals, strict=True)], d)

    return build


def _like(t: Tracer, x: Operand, shape: tuple[int, ...]) -> Operand:
    have = shape_of(x)
    return t.reshape(x, shape) if len(have) == len(shape) and math.prod(have) == math.prod(shape) else x


@layer("Tile")
def tile(p: Params, w: Weights) -> Build:
    """Repeat along one axis, or along all as numpy's tile."""
    axis, count, repeats = p.int(0), p.int(1, 1), p.ints(2)

    def build(t: Tracer, x: Operand) -> Operand:
        n, *rest = shape_of(x)
        counts = list(repeats)
        if not counts:
            counts = [1] * len(rest)
            counts[axis_of(axis, x) - 1] = count
        if min(counts) < 1 or len(counts) > 4:
            raise ShapeError("numbers of repetitions", actual=counts)
        rank = max(len(rest), len(counts))
        y = t.reshape(x, (n, *(1,) * (rank - len(rest)), *rest))
        counts = [1] * (rank - len(counts)) + counts
        return y if set(counts) == {1} else t.emit("torch.tile", y, dims=[1, *counts])

    return build


@layer("Flip")
def flip(p: Params, w: Weights) -> Build:
    """Reverse dimensions."""
    axes = p.ints(0)
    return lambda t, x: t.emit("torch.flip", x, dims=[axis_of(a, x) for a in axes]) if axes else x


# -- channels and space ------------------------------------------------------------------------------------------------


@layer("ShuffleChannel")
def shuffle_channel(p: Params, w: Weights) -> Build:
    """Interleave groups of channels, or undo it."""
    group, reverse = p.count(0, 1), p.flag(1)

    def build(t: Tracer, x: Operand) -> Operand:
        channels = shape_of(x)[1]
        if channels % group:
            raise ShapeError("channels must be divisible by the group", expected=group, actual=channels)
        return t.emit("nn.ChannelShuffle", x, groups=channels // group if reverse else group)

    return build


def _space_and_channels(t: Tracer, x: Operand, r: int, to_space: bool, channels_first: bool) -> Operand:
    """Move r·r channels a pixel into space or back; ``channels_first``: the real channel is the slower index."""
    n, c, h, w = shape_of(x)
    if to_space:
        if c % (r * r):
            raise ShapeError("channels must be divisible by the factor squared", expected=r * r, actual=c)
        k = c // (r * r)
        split = (n, k, r, r, h, w) if channels_first else (n, r, r, k, h, w)
        y = t.permute(t.reshape(x, split), [0, 1, 4, 2, 5, 3] if channels_first else [0, 3, 4, 1, 5, 2])
        return t.reshape(y, (n, k, h * r, w * r))
    oh, ow = h // r, w // r
    y = t.reshape(t.cut(t.cut(x, 2, 0, oh * r), 3, 0, ow * r), (n, c, oh, r, ow, r))
    y = t.permute(y, [0, 1, 3, 5, 2, 4] if channels_first else [0, 3, 5, 1, 2, 4])
    return t.reshape(y, (n, c * r * r, oh, ow))


@layer("PixelShuffle")
def pixel_shuffle(p: Params, w: Weights) -> Build:
    """Move channels into space."""
    factor, mode = p.count(0, 1), p.choice(1, 0, 2)

    def build(t: Tracer, x: Operand) -> Operand:
        _three_dims(x)
        if mode == 0:
            return t.emit("nn.PixelShuffle", x, upscale_factor=factor)
        return _space_and_channels(t, x, factor, True, False)

    return build


@layer("Reorg")
def reorg(p: Params, w: Weights) -> Build:
    """Move space into channels."""
    stride, mode = p.count(0, 1), p.choice(1, 0, 2)

    def build(t: Tracer, x: Operand) -> Operand:
        _three_dims(x)
        if mode == 0 and not any(size % stride for size in shape_of(x)[2:]):
            return t.emit("nn.PixelUnshuffle", x, downscale_factor=stride)
        return _space_and_channels(t, x, stride, False, mode == 0)

    return build


def _three_dims(x: Operand) -> None:
    if dims_of(x) != 3:
        raise ShapeError("number of dimensions", expected=3, actual=dims_of(x))


# -- others ------------------------------------------------------------------------------------------------------------


@layer("CumulativeSum", inplace=True)
def cumulative_sum(p: Params, w: Weights) -> Build:
    """Running sums along an axis."""
    axis = p.int(0)
    return lambda t, x: t.emit("torch.cumsum", x, dim=axis_of(axis, x))


@layer("Diag")
def diag(p: Params, w: Weights) -> Build:
    """A matrix with a given diagonal, or the diagonal of a matrix."""
    diagonal = p.int(0)

    def build(t: Tracer, x: Operand) -> Operand:
        if dims_of(x) > 2:
            raise ShapeError("number of dimensions", expected="1 or 2", actual=dims_of(x))
        return per_image(t, x, lambda part: t.emit("torch.diag", part, diagonal=diagonal))

    return build


def per_image(t: Tracer, x: Operand, function: Callable[[Operand], Operand]) -> Operand:
    """Apply a function without a batch to each of the batch."""
    n, *rest = shape_of(x)
    parts = []
    for i in range(n):
        y = function(t.reshape(t.cut(x, 0, i, i + 1), rest))
        parts.append(t.reshape(y, (1, *shape_of(y))))
    return t.concat(parts, 0)
