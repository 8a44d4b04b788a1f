"""Padding operators: constant, reflected, replicated and circular borders, for every dtype and rank.

Cropping alone (negative padding) is a view; everything else is one kernel call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pnnx_fast._core.program import MAX_RANK, codes
from pnnx_fast._types import DType
from pnnx_fast.errors import ParameterError, ShapeError
from pnnx_fast.ops._checks import in_dtype, number
from pnnx_fast.ops.registry import Ints, operator
from pnnx_fast.ops.shape import integers
from pnnx_fast.ops.symbolic import Builder, Tensor, is_channels_last

MODES = codes("pad")

OF_WHOLE = ("reflect", "replicate")
"""Modes that repeat values of the whole input, also those that are cropped; others take what cropping leaves."""


SHORT_BYTES = 256
"""Lines of a padded tensor up to this long are copied all at once into a filled one."""


def value_bits(value: Any, dtype: DType) -> dict[str, Any]:
    """The bytes of a number of a dtype, as the kernels take them."""
    filling = 0 if value is None else number(value, "value")
    raw = in_dtype(filling, dtype, "value").tobytes().ljust(16, b"\0")
    low, high = np.frombuffer(raw, np.int64).tolist()
    return {"bits": low, "bits_high": high}


def _check(input: Tensor, before: Sequence[int], after: Sequence[int], mode: str) -> None:
    for n, p, q in zip(input.shape, before, after, strict=True):
        # Reflected and repeated values are those of the whole input; other modes crop before they pad.
        left = n + p + q - 1 if mode in OF_WHOLE and n else n + min(p, 0) + min(q, 0)
        if left < 0:
            raise ShapeError("more is cropped than there is", expected=f"at most {n}", actual=[p, q])
        limit = {"reflect": n - 1, "circular": left, "replicate": max(p, q) if n else 0}.get(mode)
        if limit is not None and max(p, q) > max(limit, 0):
            raise ShapeError(f"the padding is too large for mode {mode}", expected=f"at most {limit}", actual=max(p, q))


def pad_sides(
    b: Builder,
    input: Tensor,
    before: Sequence[int],
    after: Sequence[int],
    mode: str = "constant",
    value: Any = 0,
    *,
    temporary: bool = False,
) -> Tensor:
    """Pad (or crop, where negative) every dimension by ``before`` and ``after``.

    A ``temporary`` tensor is one that the operator itself reads; otherwise it is the operator's result.
    """
    if mode not in MODES:
        raise ParameterError(f"mode must be one of {', '.join(MODES)}, not {mode!r}", parameter="mode")
    _check(input, before, after, mode)
    if mode not in OF_WHOLE:
        for axis, (p, q) in enumerate(zip(before, after, strict=True)):
            if p < 0 or q < 0:
                start = max(-p, 0)
                input = input.narrow(axis, start, max(input.shape[axis] - start - max(-q, 0), 0))
        before, after = [max(p, 0) for p in before], [max(q, 0) for q in after]
    if not any(before) and not any(after):
        return input
    shape = [n + p + q for n, p, q in zip(input.shape, before, after, strict=True)]
    last = is_channels_last(input) and not input.is_contiguous
    y = (b.empty if temporary else b.result)(shape, input.dtype, "channels_last" if last else "plain")
    dims = _memory_order(input, y, before, after)
    if mode == "constant" and dims and dims[-1][0] * input.dtype.itemsize <= SHORT_BYTES:
        # A line costs more than its numbers then.
        b.copy(b.constant(in_dtype(0 if value is None else number(value, "value"), y.dtype, "value")).expand(shape), y)
        inner = y
        for axis, (n, p) in enumerate(zip(input.shape, before, strict=True)):
            inner = inner.narrow(axis, p, n)
        b.copy(input, inner)
        return y
    if len(dims) > MAX_RANK:
        raise ShapeError("too many dimensions for padding", actual=list(input.shape))
    columns = [[d[i] for d in dims] for i in range(5)]
    b.step(
        "pad",
        x=input, y=y, itemsize=input.dtype.itemsize, rank=len(dims), shape=columns[0], isize=columns[1],
        before=columns[2], xs=columns[3], ys=columns[4], mode=MODES[mode], **value_bits(value, input.dtype),
    )  # fmt: skip
    return y


def _memory_order(
    x: Tensor, y: Tensor, before: Sequence[int], after: Sequence[int]
) -> list[tuple[int, int, int, int, int]]:
    """(output size, input size, before, strides of x and y) by falling stride; whole dense neighbours are joined."""
    order = sorted(range(y.ndim), key=lambda d: (-y.strides[d], d))
    dims: list[tuple[int, int, int, int, int]] = []
    whole = False
    for d in order:
        row = (y.shape[d], x.shape[d], before[d], x.strides[d], y.strides[d])
        untouched = before[d] == after[d] == 0
        if row[0] == 1 and untouched:
            continue
        if dims and whole and untouched and dims[-1][3] == row[1] * row[3] and dims[-1][4] == row[0] * row[4]:
            dims[-1] = (dims[-1][0] * row[0], dims[-1][1] * row[1], 0, row[3], row[4])
        else:
            dims.append(row)
        whole = untouched
    return dims


@operator("F.pad")
def pad(b: Builder, input: Tensor, *, pad: Any, mode: str = "constant", value: Any = None) -> Tensor:
    """Pad dimensions from the last one backwards. torch.nn.functional.pad."""
    sides = integers(pad, "pad")
    if len(sides) % 2 or len(sides) > 2 * input.ndim:
        raise ParameterError(f"pad needs pairs for at most {input.ndim} dimensions, not {list(sides)}", parameter="pad")
    pairs = len(sides) // 2
    if mode != "constant" and input.ndim - pairs not in (1, 2):
        raise ShapeError(
            f"{pairs} pairs in mode {mode}", expected=f"{pairs + 1} or {pairs + 2} dimensions", actual=input
        )
    untouched = [0] * (input.ndim - pairs)
    before, after = [*untouched, *sides[-2::-2]], [*untouched, *sides[-1::-2]]
    return pad_sides(b, input, before, after, mode, value)


def _module(axes: int, mode: str) -> Callable[..., Tensor]:
    def module(b: Builder, input: Tensor, *, padding: Ints, value: Any = 0.0) -> Tensor:
        sides = [padding] * (2 * axes) if isinstance(padding, int) else list(padding)
        if len(sides) == 1:
            sides *= 2 * axes
        if len(sides) != 2 * axes:
            raise ParameterError(f"padding needs 1 or {2 * axes} values, not {sides}", parameter="padding")
        return pad(b, input, pad=sides, mode=mode, value=value)

    return module


for _axes in (1, 2, 3):
    for _name, _mode, _what in (
        ("ConstantPad", "constant", "Pad with a constant"),
        ("ZeroPad", "constant", "Pad with zeros"),
        ("ReflectionPad", "reflect", "Pad with mirrored values"),
        ("ReplicationPad", "replicate", "Pad with the values at the border"),
        ("CircularPad", "circular", "Pad with the values of the other side"),
    ):
        _function = _module(_axes, _mode)
        _function.__doc__ = f"{_what}. torch.nn.{_name}{_axes}d."
        operator(f"nn.{_name}{_axes}d")(_function)
