"""Pooling over regions of images by the kernel for it, for ncnn's layers and torchvision's."""

from __future__ import annotations

from typing import Any

import numpy as np

from pnnx_fast._core.program import codes
from pnnx_fast.errors import ParameterError
from pnnx_fast.ops.symbolic import Builder, Tensor

KINDS = codes("region")
"""Kinds of pooling."""

MOST_SAMPLES = 1 << 12
_MOST_WEIGHTS = 1 << 28


def check_ratio(ratio: int) -> None:
    """Raise where too many samples are to be taken."""
    if ratio > MOST_SAMPLES:
        raise ParameterError(f"{ratio} samples, at most {MOST_SAMPLES} are taken", parameter="sampling_ratio")


def pool_regions(
    b: Builder,
    x: Tensor,
    regions: Tensor,
    kind: str,
    bins: tuple[int, int],
    scale: float,
    *,
    channels: int,
    ratio: int = 0,
    aligned: bool = False,
    indexed: bool = False,
) -> Tensor:
    """Pool the regions (count, 4 or 5) of images (n, c, h, w) to (count, channels, bins) in plain layout."""
    n, _, h, w = x.shape
    if bins[0] * h + bins[1] * w > _MOST_WEIGHTS:
        raise ParameterError(f"pooling of {h} x {w} pixels to {bins[0]} x {bins[1]}", parameter="output_size")
    check_ratio(ratio)
    count = regions.shape[0]
    y = b.empty((count, channels, *bins), np.float32)
    fields: dict[str, Any] = {"n": n, "c": channels, "h": h, "w": w, "bins_h": bins[0], "bins_w": bins[1]}
    fields |= {"regions_n": count, "indexed": int(indexed), "kind": KINDS[kind], "ratio": max(ratio, 0)}
    fields |= {"aligned": int(aligned), "scale": scale, "variant": -1}
    scratch = b.scratch(b.plan("region_pool_f32", **fields).scratch_bytes)
    work = 8 * y.size
    x, regions = b.contiguous(x), b.contiguous(regions)
    b.step("region_pool_f32", flops=work, x=x, regions=regions, y=y, scratch=scratch, **fields)
    return y
