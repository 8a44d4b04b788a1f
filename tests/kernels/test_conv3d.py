"""conv3d_f32 against numpy: windows in three dimensions, odd sizes, gaps between pixels, groups."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from conv_case import aligned
from numpy.typing import NDArray

from pnnx_fast.runtime.kernel import call, plan

Array = NDArray[Any]
Triple = tuple[int, int, int]


def reference(x: Array, weight: Array, stride: Triple, pad: Triple, dilation: Triple, groups: int) -> Array:
    """The convolution of (n, d, h, w, c) in double precision, tap by tap."""
    padded = np.pad(x.astype(float), [(0, 0), *((p, p) for p in pad), (0, 0)])
    oc, icg, *kernel = weight.shape
    out = [
        (n - d * (k - 1) - 1) // s + 1 for n, k, s, d in zip(padded.shape[1:4], kernel, stride, dilation, strict=True)
    ]
    y = np.zeros((x.shape[0], *out, oc))
    for tap in itertools.product(*(range(k) for k in kernel)):
        window = tuple(slice(t * d, t * d + n * s, s) for t, d, n, s in zip(tap, dilation, out, stride, strict=True))
        part = padded[(slice(None), *window)]
        for g in range(groups):
            rows = slice(g * oc // groups, (g + 1) * oc // groups)
            y[..., rows] += part[..., g * icg : (g + 1) * icg] @ weight[(rows, slice(None), *tap)].T.astype(float)
    return y


def run(isa: str, threads: int, x: Array, weight: Array, want: Array, gap: int, **window: Any) -> Array:
    """Run the kernel on tensors whose pixels are `gap` floats apart."""
    stride, pad, dilation, groups = (window[k] for k in ("stride", "pad", "dilation", "groups"))
    fields: dict[str, Any] = {"act": 0, "act_a": 0.0, "act_b": 0.0, "variant": 0, "groups": groups}
    arrays = {}
    for name, data in (("x", x), ("y", want)):
        wide = np.full((*data.shape[:4], data.shape[4] + gap), np.nan, np.float32)
        arrays[name] = wide
        fields.update(zip((f"{name}s{d}" for d in "ndhw"), (s // 4 for s in wide.strides), strict=False))
    arrays["x"][..., : x.shape[4]] = x
    fields.update(zip(("n", "id", "ih", "iw", "ic"), x.shape, strict=True))
    fields.update(zip(("od", "oh", "ow", "oc"), want.shape[1:], strict=True))
    for i, d in enumerate("dhw"):
        fields.update({f"k{d}": weight.shape[2 + i], f"stride_{d}": stride[i], f"pad_{d}": pad[i]})
        fields.update({f"dil_{d}": dilation[i], f"zs{d}": 0})
    fields["zsn"] = fields["z_late"] = 0
    packed = aligned(plan(isa, "conv3d_f32", threads, **fields)[1] // 4)
    size = {"oc": weight.shape[0], "ic": x.shape[4], "kh": weight.shape[2] * weight.shape[3], "kw": weight.shape[4]}
    call(isa, "conv_pack_f32", threads, x=weight, y=packed, groups=groups, variant=0, **size)
    call(isa, "conv3d_f32", threads, x=arrays["x"], w=packed, y=arrays["y"], **fields)
    assert np.isnan(arrays["y"][..., want.shape[4] :]).all(), "wrote outside of the output"
    return arrays["y"][..., : want.shape[4]]


@pytest.mark.parametrize("kernel", [(1, 1, 1), (3, 3, 3), (2, 1, 3), (4, 4, 4)])
@pytest.mark.parametrize("stride", [(1, 1, 1), (2, 1, 3)])
def test_windows(isa: str, kernel: Triple, stride: Triple) -> None:
    rng = np.random.default_rng(0)
    cases = itertools.product([(0, 0, 0), (1, 2, 1)], [(1, 1, 1), (2, 1, 1)], [1, 3])
    for i, (pad, dilation, groups) in enumerate(cases):
        x = rng.standard_normal((1 + i % 2, 8, 7, 9, 6)).astype(np.float32)
        weight = rng.standard_normal((18, 6 // groups, *kernel)).astype(np.float32)
        window = {"stride": stride, "pad": pad, "dilation": dilation, "groups": groups}
        want = reference(x, weight, **window)
        got = run(isa, 1 + i % 2, x, weight, want, 3 * (i % 2), **window)
        atol = 2e-6 * math.sqrt(weight[0].size) * max(1.0, float(np.abs(want).max()) / 4)
        np.testing.assert_allclose(got, want, rtol=0, atol=atol)
