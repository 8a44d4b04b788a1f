"""gate_f32 against numpy: halves in either order, activations, sizes around vectors, strides, NaN and infinities."""

from __future__ import annotations

import numpy as np
import pytest
from guard import guarded

from pnnx_fast.expression import evaluate
from pnnx_fast.expression.activations import activation_fields
from pnnx_fast.runtime.kernel import call


def run(isa: str, x: np.ndarray, first: bool, activation: str, threads: int = 1) -> np.ndarray:
    n, h, w, channels = x.shape
    y = guarded(np.full((n, h, w, channels // 2), np.nan, "f4"))
    strides = {f"{k}{i}": t.strides[d] // 4 for k, t in (("xs", x), ("ys", y)) for d, i in enumerate("nhw")}
    ones = dict.fromkeys(("kh", "kw", "stride_h", "stride_w", "dil_h", "dil_w", "groups"), 1)
    zeros = dict.fromkeys(("pad_h", "pad_w", "zsn", "zsh", "zsw", "z_late", "variant"), 0)
    call(
        isa, "gate_f32", threads, x=x, y=y, n=n, ih=h, iw=w, ic=channels, oh=h, ow=w, oc=channels // 2,
        first=int(first), **strides, **ones, **zeros, **activation_fields(activation),
    )  # fmt: skip
    return y


@pytest.mark.parametrize("activation", ["none", "sigmoid", "silu", "gelu", "tanh"])
@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("half", [1, 7, 16, 33])
def test_gate(isa: str, activation: str, first: bool, half: int) -> None:
    rng = np.random.default_rng(half)
    wide = guarded(rng.standard_normal((2, 3, 5, 2 * half + 3)).astype("f4"))
    x = wide[..., : 2 * half]
    x[0, 0, 0] = np.resize([np.nan, np.inf, -np.inf, 0], 2 * half)
    gate, other = (x[..., :half], x[..., half:]) if first else (x[..., half:], x[..., :half])
    with np.errstate(all="ignore"):
        factor = gate if activation == "none" else evaluate(f"{activation}(@0)", [gate.astype("f8")])
        want = other.astype("f8") * factor
    for threads in (1, 3):
        np.testing.assert_allclose(run(isa, x, first, activation, threads), want, rtol=2e-6, atol=1e-6)
