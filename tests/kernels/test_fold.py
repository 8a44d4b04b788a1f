"""Sums of sliding blocks against numpy."""

from __future__ import annotations

import numpy as np
import pytest
from guard import guarded
from strides import elements

from pnnx_fast._types import Array
from pnnx_fast.runtime.kernel import call

# Image, window, stride, padding, dilation; (height, width) each.
CASES = {
    "3x3": ((9, 11), (3, 3), (1, 1), (0, 0), (1, 1)),
    "3x3 p1": ((28, 19), (3, 3), (1, 1), (1, 1), (1, 1)),
    "4x3 s2": ((12, 37), (4, 3), (2, 2), (1, 0), (1, 1)),
    "2x5 s3": ((7, 23), (2, 5), (2, 3), (1, 4), (1, 1)),
    "dilated": ((11, 12), (3, 2), (1, 2), (2, 3), (2, 3)),
    "blocks of padding": ((2, 3), (5, 5), (1, 1), (4, 5), (1, 1)),
    "gaps": ((10, 10), (2, 2), (4, 4), (0, 0), (1, 1)),
}


def reference(x: Array, size: tuple[int, int], s: tuple[int, int], p: tuple[int, int], d: tuple[int, int]) -> Array:
    n, c, kh, kw, oh, ow = x.shape
    y = np.zeros((n, c, size[0] + 2 * p[0], size[1] + 2 * p[1]))
    for i in range(kh):
        for j in range(kw):
            top, left = i * d[0], j * d[1]
            y[:, :, top : top + oh * s[0] : s[0], left : left + ow * s[1] : s[1]] += x[:, :, i, j]
    return y[:, :, p[0] : p[0] + size[0], p[1] : p[1] + size[1]]


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("threads", [1, 2])
def test_fold(isa: str, name: str, threads: int) -> None:
    size, k, s, p, d = CASES[name]
    counts = [(size[i] + 2 * p[i] - d[i] * (k[i] - 1) - 1) // s[i] + 1 for i in (0, 1)]
    x = guarded(np.random.default_rng(1).standard_normal((2, 3, *k, *counts)).astype("f4"))
    frame = np.full((2, 3, size[0], size[1] + 5), -7, "f4")
    y = frame[..., : size[1]]
    strides = elements(x)
    call(
        isa, "fold_f32", threads, x=x, y=y, index=None, n=2, c=3, isize=[1, *counts], osize=[1, *size],
        window=[1, *k], stride=[1, *s], pad=[0, *p], dilation=[1, *d], xs=[*strides[:2], *strides[3:]],
        ys=[*elements(y)[:2], 0, *elements(y)[2:]], js=(), adaptive=False, include_pad=False, divisor=0, norm=0.0,
    )  # fmt: skip
    np.testing.assert_allclose(y, reference(x, size, s, p, d), 0, 1e-5)
    assert (frame[..., size[1] :] == -7).all()
