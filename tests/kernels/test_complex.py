"""complex_mul_f32 against numpy: sizes around vectors, factors that broadcast or lie anywhere, NaN and infinities."""

from __future__ import annotations

import numpy as np
import pytest
from guard import guarded
from strides import elements

from pnnx_fast.runtime.kernel import call


def product(x: np.ndarray, z: np.ndarray) -> np.ndarray:
    y = np.empty(np.broadcast_shapes(x.shape, z.shape), "c8")
    with np.errstate(all="ignore"):
        y.real, y.imag = x.real * z.real - x.imag * z.imag, x.real * z.imag + x.imag * z.real
    return y


@pytest.mark.parametrize("n", [1, 2, 3, 4, 7, 8, 9, 17, 64, 5000])
@pytest.mark.parametrize("form", ["same", "scalar", "left", "rows", "turned", "gaps"])
def test_complex_mul(isa: str, form: str, n: int) -> None:
    rng = np.random.default_rng(n)
    x, z = (guarded(rng.standard_normal((3, n, 2)).astype("f4")).view("c8")[..., 0] for _ in range(2))
    x.reshape(-1)[:3] = [complex(np.nan, 1), complex(np.inf, 2), complex(0, -np.inf)]
    z = {"scalar": z[:, :1], "rows": z[:1], "gaps": z[:, ::2], "turned": z.T[:3, :3]}.get(form, z)
    x = {"left": x[:, :1], "gaps": x[:, ::2], "turned": x[:, : z.shape[-1]]}.get(form, x)
    z = z[: len(x)] if form != "turned" else z
    if form == "turned" and len(z) < 3:
        return
    want = product(x, z)
    for threads in (1, 3):
        y = guarded(np.zeros((*want.shape, 2), "f4")).view("c8")[..., 0]
        strides = {k: elements(np.broadcast_to(t, want.shape)) for k, t in (("xs", x), ("zs", z), ("ys", y))}
        call(isa, "complex_mul_f32", threads, x=x, z=z, y=y, rank=2, shape=want.shape, **strides)
        np.testing.assert_allclose(y.real, want.real, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(y.imag, want.imag, rtol=1e-5, atol=1e-6)
