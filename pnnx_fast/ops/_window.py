"""Arithmetic of sliding windows: sizes per dimension, padding before and after, number of positions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pnnx_fast._types import Shape
from pnnx_fast.errors import ParameterError, ShapeError
from pnnx_fast.ops.registry import Ints
from pnnx_fast.ops.symbolic import Tensor

__all__ = [
    "Padding",
    "in_space",
    "paddings",
    "per_axis",
    "require_reach",
    "space_strides",
    "window_counts",
    "window_fields",
]

Padding = int | Sequence[int] | str
"""Annotation of a padding: numbers, ``"same"`` or ``"valid"``."""

STEPS = {axes: [tuple(f"{t}s{a}" for a in "n" + axes) for t in "xyz"] for axes in ("hw", "dhw")}
"""Names of the fields for the strides of input, output and residual, by spatial axes."""

SIZES = {axes: [tuple(p + a for a in axes) for p in ("i", "o", "k", "stride_", "pad_", "dil_")] for axes in STEPS}
"""Names of the fields for sizes of input, output and window, for strides, padding and dilation."""


def per_axis(value: Ints, rank: int, what: str) -> Shape:
    """A size per spatial dimension; a single one stands for all."""
    sizes = (value,) * rank if isinstance(value, int) else tuple(value)
    if len(sizes) == 1:
        sizes *= rank
    if len(sizes) != rank:
        raise ParameterError(f"{what} needs 1 or {rank} values, not {list(sizes)}", parameter=what)
    return sizes


def in_space(values: Sequence[int], fill: int) -> Shape:
    """Numbers of up to three spatial dimensions as those of depth, height and width, as kernels take them."""
    return (*[fill] * (3 - len(values)), *values)


def space_strides(t: Tensor | None) -> Shape:
    """Strides of image, channel, depth, height and width of (n, c, …); none without a tensor."""
    return () if t is None else (*t.strides[:2], *in_space(t.strides[2:], 0))


def same_padding(
    sizes: Sequence[int], kernel: Sequence[int], stride: Sequence[int], dilation: Sequence[int]
) -> list[int]:
    """Zeros around each spatial dimension with which every stride of the input yields an output."""
    numbers = zip(sizes, kernel, stride, dilation, strict=True)
    return [max(0, d * (k - 1) + 1 + (n - 1) // s * s - n) for n, k, s, d in numbers]


def paddings(
    padding: Padding,
    kernel: Sequence[int],
    dilation: Sequence[int],
    stride: Sequence[int],
    pairs: bool = False,
    sizes: Sequence[int] = (),
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Zeros before and after each spatial dimension.

    Twice as many numbers are all befores, then all afters, or else (``pairs``) one pair a dimension from the last on.
    With ``sizes`` of the input "same" may have strides, as ONNX has it: every stride of the input yields an output.
    """
    if padding == "valid":
        return (0,) * len(kernel), (0,) * len(kernel)
    if padding == "same":
        if any(s != 1 for s in stride):
            if not sizes or min(stride) < 1:
                raise ParameterError("padding 'same' needs stride 1", parameter="padding")
            total = same_padding(sizes, kernel, stride, dilation)
        else:
            total = [d * (k - 1) for d, k in zip(dilation, kernel, strict=True)]
        return tuple(t // 2 for t in total), tuple(t - t // 2 for t in total)
    if isinstance(padding, str):
        raise ParameterError(f"unknown padding {padding!r}", parameter="padding")
    if not isinstance(padding, int) and len(padding) == 2 * len(kernel):
        if pairs:
            return tuple(padding[-2::-2]), tuple(padding[::-2])
        return tuple(padding[: len(kernel)]), tuple(padding[len(kernel) :])
    both = per_axis(padding, len(kernel), "padding")
    return both, both


FARTHEST = 2**31 - 1
"""How far windows, their steps and padding may reach: kernels multiply without looking for an overflow."""


def require_reach(*distances: int) -> None:
    """Raise where a window, its step, dilation or padding reaches beyond what kernels reckon with."""
    if max(distances) > FARTHEST:
        raise ParameterError(f"a window of this size, step, dilation or padding reaches beyond {FARTHEST} places")


def window_counts(
    sizes: Sequence[int],
    kernel: Sequence[int],
    stride: Sequence[int],
    dilation: Sequence[int],
    before: Sequence[int],
    after: Sequence[int],
) -> tuple[int, ...]:
    """Number of window positions along each dimension."""
    counts = []
    for n, k, s, d, p, q in zip(sizes, kernel, stride, dilation, before, after, strict=True):
        if k < 1 or s < 1 or d < 1 or min(p, q) < 0:
            raise ParameterError(f"kernel {k}, stride {s} and dilation {d} must be positive", parameter="kernel_size")
        span = d * (k - 1) + 1
        if n + p + q < span:
            raise ShapeError("the kernel is larger than the padded input", expected=f">= {span}", actual=n + p + q)
        counts.append((n + p + q - span) // s + 1)
    return tuple(counts)


def window_fields(
    x: Tensor,
    y: Tensor,
    z: Tensor | None,
    window: Sequence[int],
    stride: Sequence[int],
    before: Sequence[int],
    dilation: Sequence[int],
    groups: int,
    act: Mapping[str, Any],
) -> dict[str, Any]:
    """Fields of sizes, strides and epilogue, for kernels that take those of a convolution."""
    require_reach(*stride, *before, *dilation, *(d * (k - 1) + 1 for k, d in zip(window, dilation, strict=True)))
    axes = "dhw"[5 - x.ndim :]
    fields: dict[str, Any] = {"n": x.shape[0], "ic": x.shape[1], "oc": y.shape[1], "groups": groups, "z_late": 0, **act}
    for names, tensor in zip(STEPS[axes], (x, y, z), strict=True):
        strides = (0,) * x.ndim if tensor is None else tensor.strides
        fields.update(zip(names, (strides[0], *strides[2:]), strict=True))
    sizes = (x.shape[2:], y.shape[2:], window, stride, before, dilation)
    for names, values in zip(SIZES[axes], sizes, strict=True):
        fields.update(zip(names, values, strict=True))
    return fields
