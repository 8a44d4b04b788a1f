"""Quantised layers of ncnn one behind the other, against integers of numpy; int8 between other layers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from nets import load, param, run, tagged

from pnnx_fast.formats.ncnn_bin import write_weight
from pnnx_fast.ncnn import Mat

RNG = np.random.default_rng(3)
X = RNG.standard_normal((6, 9, 8)).astype(np.float32)


def rounded(x: Any) -> Any:
    return np.clip(np.trunc(x + np.copysign(np.float32(0.5), x)), -127, 127)


def convolved(x: Any, w: Any, border: float = 0.0) -> Any:
    p, (_, h, v) = w.shape[2] // 2, x.shape
    wide = np.pad(x, ((0, 0), (p, p), (p, p)), constant_values=border).astype(np.int64)
    return sum(
        np.einsum("oc,chw->ohw", w[:, :, ky, kx].astype(np.int64), wide[:, ky : ky + h, kx : kx + v])
        for ky in range(w.shape[2])
        for kx in range(w.shape[3])
    ).astype(np.float32)


class Weights:
    """Weights of one layer: int8 in the file, scales, a bias."""

    def __init__(self, *shape: int, requantised: float = 0.0, scales: int | None = None) -> None:
        self.w = RNG.integers(-127, 128, shape).astype(np.int8)
        count = shape[0] if scales is None else scales
        self.scales, self.x_scale = (30 + 20 * RNG.random(count)).astype(np.float32), np.float32(40)
        self.bias, self.y_scale = RNG.standard_normal(shape[0]).astype(np.float32), np.float32(requantised)

    def file(self) -> bytes:
        data = write_weight(self.w.reshape(-1), "int8") + self.bias.tobytes() + self.scales.tobytes()
        return data + self.x_scale.tobytes() + (self.y_scale.tobytes() if self.y_scale else b"")

    def result(self, sums: Any) -> Any:
        scale = np.float32(1) / (self.x_scale * np.repeat(self.scales, len(self.w) // len(self.scales)))
        y = np.maximum(sums * scale[:, None, None] + self.bias[:, None, None], 0)
        return rounded(y * self.y_scale) if self.y_scale else y


def test_layers_hand_int8_on() -> None:
    a, d = Weights(12, 6, 3, 3, requantised=25.0), Weights(12, 1, 3, 3, requantised=31.0)
    c = Weights(6, 12, 1, 1)
    net = load(
        param(
            "Input in 0 1 x",
            f"Convolution a 1 1 x y 0=12 1=3 4=1 5=1 6={a.w.size} 8=102 9=1",
            f"ConvolutionDepthWise d 1 1 y z 0=12 1=3 4=1 5=1 6={d.w.size} 7=12 8=101 9=1",
            f"Convolution c 1 1 z v 0=6 1=1 5=1 6={c.w.size} 8=2 9=1",
        ),
        a.file() + d.file() + c.file(),
    )
    y = a.result(convolved(rounded(X * a.x_scale), a.w))
    diagonal = np.zeros((12, 12, 3, 3), np.int8)
    diagonal[range(12), range(12)] = d.w[:, 0]
    z = d.result(convolved(y, diagonal))
    v = c.result(convolved(z, c.w))
    assert (y > 0).any()
    assert (z > 0).any()
    np.testing.assert_array_equal(run(net, "v", x=X), v)
    for got, want in zip(run(net, "y", "z", "v", x=X), (y, z, v), strict=True):
        np.testing.assert_array_equal(got, want)
    ex = net.create_extractor()
    assert ex.input("x", Mat(X)) == 0
    code, whole = ex.extract("y", 1)
    assert (code, whole.elemsize) == (0, 1)
    np.testing.assert_array_equal(whole.numpy(), y)
    code, rest = ex.extract("v")
    np.testing.assert_array_equal(rest.numpy(), v)


@pytest.mark.parametrize("value", [3.0, -7.9])
def test_borders_of_a_value(value: float) -> None:
    a = Weights(5, 6, 3, 3)
    text = f"Convolution a 1 1 x y 0=5 1=3 4=1 5=1 6={a.w.size} 8=2 9=1 18={value}"
    want = a.result(convolved(rounded(X * a.x_scale), a.w, float(int(value))))
    np.testing.assert_array_equal(run(load(param("Input in 0 1 x", text), a.file()), "y", x=X), want)


def test_groups_have_scales_of_their_own() -> None:
    a = Weights(6, 3, 3, 3, scales=2)
    text = f"ConvolutionDepthWise a 1 1 x y 0=6 1=3 4=1 5=1 6={a.w.size} 7=2 8=1 9=1"
    whole = np.zeros((6, 6, 3, 3), np.int8)
    whole[:3, :3], whole[3:, 3:] = a.w[:3], a.w[3:]
    want = a.result(convolved(rounded(X * a.x_scale), whole))
    np.testing.assert_array_equal(run(load(param("Input in 0 1 x", text), a.file()), "y", x=X), want)


def test_other_layers_see_floats() -> None:
    a = Weights(6, 6, 1, 1, requantised=20.0)
    net = load(
        param(
            "Input in 0 1 x",
            f"Convolution a 1 1 x q 0=6 1=1 5=1 6={a.w.size} 8=102 9=1",
            "Split s 1 4 q q0 q1 q2 q3",
            "Pooling p 1 1 q0 pooled 1=2 2=2",
            "Dequantize d 1 1 q1 real 0=1",
            "Convolution f 1 1 q2 plain 0=1 1=1 6=6",
            "Concat k 2 1 q3 x joined",
        ),
        a.file() + np.float32([0.05]).tobytes() + tagged(np.arange(6)),
    )
    q = a.result(convolved(rounded(X * a.x_scale), a.w))
    with np.errstate(all="ignore"):
        pooled, real, plain, joined = run(net, "pooled", "real", "plain", "joined", x=X)
    np.testing.assert_array_equal(real, q * np.float32(0.05))
    np.testing.assert_allclose(plain[0], np.tensordot(np.arange(6), q, 1), rtol=1e-5)
    np.testing.assert_array_equal(joined, np.concatenate([q, X]))
    np.testing.assert_array_equal(pooled[:, :4], q[:, :8].reshape(6, 4, 2, 4, 2).max((2, 4)))


def test_inner_products_have_no_scale_of_their_output() -> None:
    """A term above 100 is that of a convolution: here it changes nothing, in the file neither."""
    a, b = Weights(7, 54), Weights(3, 7)
    layers = "InnerProduct a 1 1 x y 0=7 1=1 2=378 8={}", "InnerProduct b 1 1 y z 0=3 1=1 2=21 8=1"
    texts = (param("Input in 0 1 x", layers[0].format(term), layers[1]) for term in (1, 101))
    want, got = (run(load(text, a.file() + b.file()), "y", "z", x=X[0].reshape(-1)[:54]) for text in texts)
    for one, other in zip(got, want, strict=True):
        np.testing.assert_array_equal(one, other)
