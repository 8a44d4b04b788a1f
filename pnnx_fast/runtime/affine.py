"""A per-channel affine map with its activation (a batch norm whose input others read, too) becomes part of the 1x1
convolution or linear layer that alone reads its result. Works on the steps of a lowered program; the kernels are in
``csrc/kernels/conv_runs.c``, ``conv_pairs.c`` and ``conv_split.c``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from pnnx_fast._core import program as core
from pnnx_fast.ops.symbolic import Buffer, Tensor
from pnnx_fast.runtime.lower import HostStep, KernelStep

__all__ = ["fuse_affine"]

KERNELS = {
    "conv_f32": "conv_affine_f32",
    "conv_pairs_f32": "conv_pairs_affine_f32",
    "conv_split_f32": "conv_split_affine_f32",
}
"""Kernels of convolutions, and those of them with an affine map before."""


def fuse_affine(steps: Sequence[KernelStep | HostStep], isa: str, nthreads: int) -> list[KernelStep | HostStep]:
    """Replace pairs of steps where the kernel serves the shape."""
    users = Counter(t.buffer for step in steps for t in step.tensors)
    fused: list[KernelStep | HostStep] = []
    for step in steps:
        previous = fused[-1] if fused else None
        if isinstance(previous, KernelStep) and isinstance(step, KernelStep) and _linked(previous, step, users):
            merged = _merge(previous, step, isa, nthreads)
            if merged is not None:
                fused[-1] = merged
                continue
        fused.append(step)
    return fused


def _linked(first: KernelStep, second: KernelStep, users: Counter[Buffer]) -> bool:
    """Whether a convolution alone reads the result of an affine map, pixel by pixel."""
    if first.kernel != "channel_affine" or second.kernel not in KERNELS:
        return False
    f, g = first.fields, second.fields
    y, x = f["y"], g["x"]
    if y.buffer is not x.buffer or y.buffer.kind != "arena" or users[y.buffer] != 2:
        return False
    same = (y.offset, y.nbytes, f["c"], 1) == (x.offset, x.nbytes, g["ic"], g["groups"])
    return same and f["w"] is not None and f["b"] is not None and None not in (_pixel(y), _pixel(f["x"]))


def _pixel(x: Tensor) -> int | None:
    """Distance from pixel to pixel, if that is the same for all and channels are neighbours."""
    dims = [(n, stride) for n, stride in zip(reversed(x.shape[2:]), reversed(x.strides[2:]), strict=True) if n != 1]
    if x.shape[0] != 1:
        dims.append((x.shape[0], x.strides[0]))
    step = dims[0][1] if dims else x.shape[1]
    expected = step
    for n, stride in dims:
        if stride != expected:
            return None
        expected *= n
    return step if x.strides[1] == 1 and step >= x.shape[1] else None


def _merge(first: KernelStep, second: KernelStep, isa: str, nthreads: int) -> KernelStep | None:
    f, g = first.fields, second.fields
    pixel = _pixel(f["x"])
    assert pixel is not None
    fields: dict[str, Any] = {
        **g,
        "x": f["x"],
        "xsw": pixel,
        "xsh": pixel * g["iw"],
        "xsn": pixel * g["iw"] * g["ih"],
        "scale": f["w"],
        "shift": f["b"],
        "before": f["act"],
        "before_a": f["act_a"],
        "before_b": f["act_b"],
    }
    kernel = KERNELS[second.kernel]
    # Whether there is a residual matters; where tensors lie does not.
    values = {key: (0, 0) if isinstance(value, Tensor) else value for key, value in fields.items()}
    _, _, nbytes, label, _ = core.plan(isa, kernel, values, nthreads)
    if nbytes == 0:
        return None
    fields["scratch"] = Tensor(Buffer("arena", nbytes), (nbytes,), np.dtype(np.uint8))
    flops = first.flops + second.flops
    merged = KernelStep(kernel, fields, second.operator, second.type, flops, label, second.inplace)
    merged.serial = second.serial
    return merged
