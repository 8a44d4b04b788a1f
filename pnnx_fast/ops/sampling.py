"""Sampling of images at places that a tensor holds, and the grids of affine maps."""

from __future__ import annotations

from typing import Any

import numpy as np

from pnnx_fast._types import Array
from pnnx_fast.errors import ParameterError, ShapeError
from pnnx_fast.ops.registry import operator
from pnnx_fast.ops.shape import integers
from pnnx_fast.ops.symbolic import Builder, Tensor

MODES = {"bilinear": 0, "nearest": 1, "bicubic": 2}
BORDERS = {"zeros": 0, "border": 1, "reflection": 2}


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
    axes = input.ndim - 2
    for name, value, known in (("mode", mode, MODES), ("padding_mode", padding_mode, BORDERS)):
        if value not in known:
            raise ParameterError(f"{name} must be one of {', '.join(known)}, not {value!r}", parameter=name)
    if axes not in (2, 3) or (mode == "bicubic" and axes == 3):
        raise ShapeError(f"mode {mode!r} does not exist for this input", actual=list(input.shape))
    if grid.ndim != input.ndim or grid.shape[-1] != axes or grid.shape[0] != input.shape[0]:
        raise ShapeError("the grid does not fit", expected=[input.shape[0], "…", axes], actual=list(grid.shape))
    output = grid.shape[1:-1]
    shape = (*input.shape[:2], *output)
    # PyTorch computes other types in their own precision; the difference is below that of single precision.
    x, places = b.channels_last(b.cast(input, np.float32)), b.cast(grid, np.float32)
    y = b.result(shape, np.float32, "channels_last")
    one, none = [1] * (3 - axes), [0] * (3 - axes)
    b.step(
        "grid_sample",
        flops=y.size * 8,
        x=x, grid=places, y=y, n=x.shape[0], c=x.shape[1], axes=axes, isize=[*one, *x.shape[2:]],
        osize=[*one, *output], xs=[*x.strides[:2], *none, *x.strides[2:]], ys=[*y.strides[:2], *none, *y.strides[2:]],
        gs=[places.strides[0], *none, *places.strides[1:]], mode=MODES[mode], border=BORDERS[padding_mode],
        align=bool(align_corners),
    )  # fmt: skip
    return b.cast(y, input.dtype)


@operator("F.affine_grid", native=False)
def affine_grid(b: Builder, theta: Tensor, *, size: Any, align_corners: bool | None = None) -> Tensor:
    """Places of the pixels of an image under affine maps. torch.nn.functional.affine_grid."""
    sizes = integers(size, "size")
    axes = len(sizes) - 2
    if axes not in (2, 3) or theta.shape[-2:] != (axes, axes + 1):
        raise ShapeError("theta does not fit the size", expected=[sizes[0], axes, axes + 1], actual=list(theta.shape))
    spatial = sizes[2:]

    def run(maps: Array) -> Array:
        # Coordinates come in the order width, height, depth, with a constant one behind.
        lines = [np.linspace(-1, 1, n) if n > 1 else np.zeros(1) for n in spatial]
        if not align_corners:
            lines = [line * ((n - 1) / n) for line, n in zip(lines, spatial, strict=True)]
        base = [*reversed(np.meshgrid(*lines, indexing="ij")), np.ones(spatial)]
        grid = np.einsum("...k,njk->n...j", np.stack(base, -1), maps.astype(np.float64))
        return np.asarray(grid).astype(maps.dtype)

    return b.host(run, [theta], [((sizes[0], *spatial, axes), theta.dtype)])[0]
