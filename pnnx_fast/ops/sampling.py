"""Sampling of images at places that a tensor holds, and the grids of affine maps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pnnx_fast._core.program import codes
from pnnx_fast._types import Array
from pnnx_fast.errors import ParameterError, ShapeError
from pnnx_fast.ops._checks import require_dims
from pnnx_fast.ops.elementwise import lower_expression
from pnnx_fast.ops.registry import operator
from pnnx_fast.ops.shape import integers
from pnnx_fast.ops.symbolic import Builder, Tensor, is_channels_last

MODES, BORDERS, ALIGNS = codes("sample"), codes("border"), codes("align")
"""Codes of the kernel: between pixels, beyond the border, and what places mean."""

ONNX_MODES = {"linear": "bilinear", "cubic": "bicubic"}
"""Names of modes in ONNX, which the converter leaves as they are."""

FEW_CHANNELS = {"bilinear": 8, "nearest": 16, "bicubic": 4}
"""Up to here, planes are sampled one by one rather than pixels as vectors."""


@operator("F.grid_sample")
def grid_sample(
    b: Builder,
    input: Tensor,
    grid: Tensor,
    *,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: bool | None = None,
) -> Tensor:
    """Values of images at places between -1 and 1. torch.nn.functional.grid_sample."""
    axes, mode = input.ndim - 2, ONNX_MODES.get(mode, mode)
    for name, value, known in (("mode", mode, MODES), ("padding_mode", padding_mode, BORDERS)):
        if value not in known:
            raise ParameterError(f"{name} must be one of {', '.join(known)}, not {value!r}", parameter=name)
    if axes not in (2, 3) or (mode == "bicubic" and axes == 3):
        raise ShapeError(f"mode {mode!r} does not exist for this input", actual=list(input.shape))
    if grid.ndim != input.ndim or grid.shape[-1] != axes or grid.shape[0] != input.shape[0]:
        raise ShapeError("the grid does not fit", expected=[input.shape[0], "…", axes], actual=list(grid.shape))
    # PyTorch rounds halves more often; the difference is below their precision.
    dtype = np.float64 if input.dtype == np.float64 else np.float32
    x, places = b.cast(input, dtype), b.cast(grid, dtype)
    planar = x.shape[1] <= FEW_CHANNELS[mode] and not (is_channels_last(x) and x.shape[1] > 1)
    y = b.result((*input.shape[:2], *grid.shape[1:-1]), dtype, "plain" if planar else "channels_last")
    sample(
        b, x if planar else b.channels_last(x), places, y, mode, padding_mode, "centres" if align_corners else "edges"
    )
    return b.cast(y, input.dtype)


def sample(
    b: Builder,
    x: Tensor,
    grid: Tensor,
    y: Tensor,
    mode: str,
    border: str,
    align: str,
    scale: Tensor | None = None,
) -> None:
    """Emit sampling of (n, c, …) at ``grid`` (n, …, axes).

    At -1 and 1 are the "edges" of the border or the "centres" of its pixels, or "pixels" are counted (``align``). There
    may be one dimension of places more than there are axes. ``scale`` has a factor for each place.
    """
    if x.dtype == np.float64:
        _sample_double(b, x, grid, y, mode, border, align, scale)
        return
    axes, output = grid.shape[-1], grid.shape[1:-1]
    none = [0] * (3 - len(output))
    b.step(
        "grid_sample",
        flops=y.size * (32 if mode == "bicubic" else 8),
        x=x, grid=grid, y=y, n=x.shape[0], c=x.shape[1], axes=axes, isize=[*[1] * (3 - axes), *x.shape[2:]],
        osize=[*[1] * len(none), *output], xs=[*x.strides[:2], *[0] * (3 - axes), *x.strides[2:]],
        ys=[*y.strides[:2], *none, *y.strides[2:]], gs=[grid.strides[0], *none, *grid.strides[1:]],
        mode=MODES[mode], border=BORDERS[border], align=ALIGNS[align], scale=scale,
        ss=[0] * 4 if scale is None else [scale.strides[0], *none, *scale.strides[1:]],
    )  # fmt: skip


def _sample_double(
    b: Builder, x: Tensor, grid: Tensor, y: Tensor, mode: str, border: str, align: str, scale: Tensor | None
) -> None:
    from pnnx_fast.ops._double_sampling import sample_places

    def run(x: Array, grid: Array, *scale: Array) -> Array:
        return sample_places(x, grid, mode, border, align, *scale)

    given = [x, grid] if scale is None else [x, grid, scale]
    b.copy(b.host(run, given, [(y.shape, y.dtype)])[0], y)


@operator("F.affine_grid")
def affine_grid(b: Builder, theta: Tensor, *, size: Any, align_corners: bool | None = None) -> Tensor:
    """Places of the pixels of an image under affine maps. torch.nn.functional.affine_grid."""
    sizes = integers(size, "size")
    axes = len(sizes) - 2
    if axes not in (2, 3) or theta.shape[-2:] != (axes, axes + 1):
        expected = [*sizes[:1], axes, axes + 1]
        raise ShapeError("theta does not fit the size", expected=expected, actual=list(theta.shape))
    require_dims(theta, 3, 3)
    spatial = sizes[2:]
    lines = [np.linspace(-1, 1, n) if n > 1 else np.zeros(1) for n in spatial]
    if not align_corners:
        lines = [line * ((n - 1) / n) for line, n in zip(lines, spatial, strict=True)]
    if theta.dtype == np.float32 and theta.ndim == 3 and theta.shape[0] == sizes[0]:
        return _mapped(b, theta, lines)

    def run(maps: Array) -> Array:
        # Coordinates come in the order width, height, depth, with a constant one behind.
        base = [*reversed(np.meshgrid(*lines, indexing="ij")), np.ones(spatial)]
        grid = np.einsum("...k,njk->n...j", np.stack(base, -1), maps.astype(np.float64))
        return np.asarray(grid).astype(maps.dtype)

    return b.host(run, [theta], [((sizes[0], *spatial, axes), theta.dtype)])[0]


def _mapped(b: Builder, theta: Tensor, lines: Sequence[Array]) -> Tensor:
    """Emit coordinates, a plane each, and return the view (n, …, axes)."""
    axes, text = len(lines), f"@{2 * len(lines)}"
    values = []
    for k, line in enumerate(reversed(lines)):
        text = f"add(mul(@{2 * k},@{2 * k + 1}),{text})"
        shape = [1] * (axes + 2)
        shape[-1 - k] = len(line)
        values += [theta.select(2, k), b.constant(line.astype(np.float32).reshape(shape))]
    values.append(theta.select(2, axes))
    planes = [v if v.ndim > 2 else v.as_strided((*v.shape, *[1] * axes), (*v.strides, *[0] * axes)) for v in values]
    y = lower_expression(b, text, planes, temporary=True)
    assert isinstance(y, Tensor)
    return y.permute((0, *range(2, axes + 2), 1))
