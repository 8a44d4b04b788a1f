"""rotary_f32 against numpy: pairs of neighbours and of halves, sizes around vectors, strides, NaN and infinities."""

from __future__ import annotations

import numpy as np
import pytest
from guard import guarded
from strides import elements

from pnnx_fast.runtime.kernel import call


def definition(x: np.ndarray, c: np.ndarray, s: np.ndarray, neighbours: bool) -> np.ndarray:
    half = x.shape[-1] // 2
    y = np.empty(x.shape, "f8")
    first, second = (slice(0, None, 2), slice(1, None, 2)) if neighbours else (slice(half), slice(half, None))
    a, b = x[..., first].astype("f8"), x[..., second].astype("f8")
    cosine, sine = c[:, None].astype("f8"), s[:, None].astype("f8")
    y[..., first], y[..., second] = a * cosine - b * sine, a * sine + b * cosine
    return y


@pytest.mark.parametrize("neighbours", [False, True])
@pytest.mark.parametrize("half", [1, 2, 3, 4, 5, 8, 12, 15, 16, 17, 32, 45])
@pytest.mark.parametrize("n, heads, rows", [(1, 1, 1), (2, 3, 5), (1, 40, 1), (2, 2, 70)])
def test_rotary(isa: str, neighbours: bool, half: int, n: int, heads: int, rows: int) -> None:
    rng = np.random.default_rng(half)
    for gap in (0, 3):
        # Rows lie apart, those of x by head within a row of all heads; the last one ends before a page.
        frame = guarded(rng.standard_normal((n, rows, heads, 2 * half + gap)).astype("f4"))
        x = frame[..., gap:].transpose(0, 2, 1, 3)
        c, s = (guarded(rng.standard_normal((n, rows, half + gap)).astype("f4"))[..., gap:] for _ in range(2))
        x[0, 0, 0, : min(3, half)] = [np.nan, np.inf, -np.inf][: min(3, half)]
        want = definition(x, c, s, neighbours)
        for threads in (1, 3):
            y = guarded(np.full((n, heads, rows, 2 * half + gap), 7, "f4"))
            part = y[..., gap:]
            strides = {}
            for name, array, dims in (("x", x, "nhr"), ("y", part, "nhr"), ("c", c, "nr"), ("s", s, "nr")):
                strides |= {f"{name}s{d}": step for d, step in zip(dims, elements(array), strict=False)}
            call(
                isa, "rotary_f32", threads, x=x, c=c, s=s, y=part, n=n, heads=heads, rows=rows, half=half,
                neighbours=int(neighbours), **strides,
            )  # fmt: skip
            np.testing.assert_allclose(part, want, rtol=2e-6, atol=2e-6)
            assert (y[..., :gap] == 7).all()
