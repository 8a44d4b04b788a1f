"""Layers that take parts or write over parts: slice, crop, copy to. Views and joined pieces."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from pnnx_fast.errors import ShapeError
from pnnx_fast.ir import Operand
from pnnx_fast.ncnn import shape_expression
from pnnx_fast.ncnn.layers.registry import Build, layer
from pnnx_fast.ncnn.layers.shape import ABSENT, PLACES, axis_of, sizes_of
from pnnx_fast.ncnn.tracer import Tracer, dims_of, shape_of
from pnnx_fast.ncnn.values import Params, Weights


@layer("Slice", one_blob_only=False)
def slice_parts(p: Params, w: Weights) -> Build:
    """Cut into parts of given sizes (-233 shares what is left) or at given indexes."""
    sizes, axis, indexes = p.ints(0), p.int(1), p.ints(2)

    def build(t: Tracer, x: Operand) -> list[Operand]:
        d = axis_of(axis, x)
        total = shape_of(x)[d]
        if indexes:
            bounds = [0, *(i + total if i < 0 else i for i in indexes), total]
        else:
            bounds = [0]
            for i, size in enumerate(sizes):
                left = total - bounds[-1]
                bounds.append(bounds[-1] + (left // (len(sizes) - i) if size == ABSENT else size))
        if any(not a <= b <= total for a, b in itertools.pairwise(bounds)):
            raise ShapeError("the parts do not fit", expected=total, actual=bounds)
        return [t.cut(x, d, a, b) for a, b in itertools.pairwise(bounds)]

    return build


# Parameter numbers of dimensions.
_OFFSET = {"w": 0, "h": 1, "d": 13, "c": 2}
_SIZE = {"w": 3, "h": 4, "d": 14, "c": 5}
_BEHIND = {"w": 6, "h": 7, "d": 15, "c": 8}


def _by_name(p: Params, ids: dict[str, int]) -> dict[str, int]:
    return {name: p.int(id) for name, id in ids.items()}


@layer("Crop")
def crop(p: Params, w: Weights) -> Build:
    """A part: numpy's slices, or offsets and sizes, or the size of a second blob."""
    offset, size, behind = (_by_name(p, ids) for ids in (_OFFSET, _SIZE, _BEHIND))
    starts, ends, axes = p.ints(9), p.ints(10), p.ints(11)
    texts = [p.string(id) for id in (19, 20, 21)]
    by_text, by_list = bool(texts[0] and texts[1]), bool(starts and ends)
    by_reference = not (any(size.values()) or any(behind.values()) or by_text or by_list)
    p.blobs = max(1 + by_reference, *(shape_expression.blob_count(text) for text in texts))

    def build(t: Tracer, *inputs: Operand) -> Operand:
        x = t.together(*inputs)[0]
        if by_text:
            sizes = [sizes_of(v) for v in inputs]
            lists = [shape_expression.evaluate(text, sizes) if text else [] for text in texts]
            return _sliced(t, x, *lists)
        if by_list:
            return _sliced(t, x, starts, ends, axes)
        if by_reference and offset["w"] == ABSENT and dims_of(inputs[1]) == 1 < dims_of(x):
            raise ShapeError("a crop whose region is in the values of a blob is not supported")
        places, shape = PLACES[dims_of(x)], shape_of(x)
        for name, d in places.items():
            if by_reference:
                length = _reference_size(inputs[1], name, dims_of(x), shape[d])
            else:
                length = shape[d] - offset[name] - behind[name]
                length = length if size[name] == ABSENT else min(length, size[name])
            x = _checked_cut(t, x, d, offset[name], offset[name] + length)
        return x

    return build


def _reference_size(reference: Operand, name: str, rank: int, size: int) -> int:
    return size if name == "c" and dims_of(reference) != rank else sizes_of(reference)[name]


def _sliced(t: Tracer, x: Operand, starts: Sequence[int], ends: Sequence[int], axes: Sequence[int]) -> Operand:
    chosen = axes or range(dims_of(x))
    if min(len(starts), len(ends)) < len(chosen):
        raise ShapeError("starts and ends of a crop", expected=len(chosen), actual=(len(starts), len(ends)))
    for axis, start, end in zip(chosen, starts, ends, strict=False):
        d = axis_of(axis, x)
        total = shape_of(x)[d]
        begin = 0 if start == ABSENT else start if start >= 0 else total + start
        stop = total if end == ABSENT else end if end > 0 else total + end
        x = _checked_cut(t, x, d, begin, min(total, stop))
    return x


def _checked_cut(t: Tracer, x: Operand, d: int, start: int, end: int) -> Operand:
    total = shape_of(x)[d]
    if not 0 <= start < end <= total:
        raise ShapeError("a crop outside of the blob", expected=f"0 to {total}", actual=(start, end))
    return t.cut(x, d, start, end)


@layer("CopyTo", one_blob_only=False)
def copy_to(p: Params, w: Weights) -> Build:
    """The first blob with the second one written over a part of it."""
    offset = _by_name(p, _OFFSET)
    starts, axes = p.ints(9), p.ints(11)
    p.blobs = 2

    def build(t: Tracer, *inputs: Operand) -> Operand:
        x, source = t.together(*inputs)
        shape, part = shape_of(x), shape_of(source)
        if shape == part:
            return source
        places = PLACES[dims_of(x)]
        begin = {d: offset[name] for name, d in places.items()}
        for i, start in enumerate(starts):
            d = axis_of(axes[i] if i < len(axes) else i, x)
            begin[d] = max(0, start + shape[d] if start < 0 and start != ABSENT else 0 if start == ABSENT else start)
        axes_of_part = [d for d in places.values() if begin[d] or part[d] != shape[d]]
        if len(part) != len(shape) or any(begin[d] + part[d] > shape[d] for d in places.values()):
            raise ShapeError("the part does not fit", expected=list(shape), actual=list(part))
        return _written(t, x, source, begin, axes_of_part)

    return build


def _written(t: Tracer, x: Operand, source: Operand, begin: dict[int, int], axes: Sequence[int]) -> Operand:
    """``x`` with ``source`` at ``begin``: the pieces around it are joined axis by axis, innermost region first."""
    if not axes:
        return source
    d, *rest = axes
    end = begin[d] + shape_of(source)[d]
    middle = _written(t, t.cut(x, d, begin[d], end), source, begin, rest)
    before = [t.cut(x, d, 0, begin[d])] if begin[d] else []
    after = [t.cut(x, d, end, shape_of(x)[d])] if end < shape_of(x)[d] else []
    return t.concat([*before, middle, *after], d)
