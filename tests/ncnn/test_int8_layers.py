"""Quantised layers of ncnn one behind the other, against integers of numpy; int8 between other layers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from nets import load, param, run, tagged

from pnnx_fast.formats.ncnn_bin import write_weight
from pnnx_fast.ncnn import Layer, Mat, NcnnWarning, Net

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


def test_weights_from_blobs_meet_floats() -> None:
    a, w = Weights(6, 6, 1, 1, requantised=20.0), RNG.standard_normal((2, 6, 3, 3)).astype(np.float32)
    net = load(
        param(
            "Input in 0 1 x",
            "Input in2 0 1 w",
            f"Convolution a 1 1 x q 0=6 1=1 5=1 6={a.w.size} 8=102 9=1",
            "Convolution c 2 1 q w y 0=2 1=3 19=1",
        ),
        a.file(),
    )
    q = a.result(convolved(rounded(X * a.x_scale), a.w))
    windows = np.lib.stride_tricks.sliding_window_view(q, (3, 3), (1, 2))
    want = np.einsum("chwyx,ocyx->ohw", windows, w)
    np.testing.assert_allclose(run(net, "y", x=X, w=w), want, atol=1e-4 * np.abs(want).max())


def test_inner_products_have_no_scale_of_their_output() -> None:
    """A term above 100 is that of a convolution: here it changes nothing, in the file neither."""
    a, b = Weights(7, 54), Weights(3, 7)
    layers = "InnerProduct a 1 1 x y 0=7 1=1 2=378 8={}", "InnerProduct b 1 1 y z 0=3 1=1 2=21 8=1"
    texts = (param("Input in 0 1 x", layers[0].format(term), layers[1]) for term in (1, 101))
    want, got = (run(load(text, a.file() + b.file()), "y", "z", x=X[0].reshape(-1)[:54]) for text in texts)
    for one, other in zip(got, want, strict=True):
        np.testing.assert_array_equal(one, other)


BETWEEN = {
    "ReLU": ("ReLU", lambda q: np.maximum(q, 0)),
    "ReLU with a slope": ("ReLU 0=0.1", lambda q: np.where(q < 0, rounded(q * np.float32(0.1)), q)),
    "Dropout": ("Dropout", lambda q: q),
    "Flip": ("Flip -23300=2,0,2", lambda q: q[::-1, :, ::-1]),
    "Padding": ("Padding 0=1 1=2 2=1 5=-3.9", lambda q: np.pad(q, ((0, 0), (1, 2), (1, 0)), constant_values=-3)),
    "Padding by channel": ("Padding 0=1 6=6", lambda q: np.concatenate([np.full((6, 1, 8), [[[3]]]), q], 1)),
    "Padding with rows": ("Padding 0=2 4=1", lambda q: np.concatenate([q[:, :1], q[:, :1], q], 1)),
    "Reshape": ("Reshape 0=9 1=8 2=6", lambda q: q.reshape(6, 8, 9)),
    "Crop": ("Crop -23309=1,1 -23310=1,5 -23311=1,1", lambda q: q[:, 1:5]),
    "Tile": ("Tile 0=2 1=3", lambda q: np.tile(q, (1, 1, 3))),
    "Permute": ("Permute 0=1", lambda q: q.transpose(0, 2, 1)),
    "ShuffleChannel": ("ShuffleChannel 0=2", lambda q: q.reshape(2, 3, 9, 8).swapaxes(0, 1).reshape(6, 9, 8)),
    "Reorg and PixelShuffle": ("Reorg 0=1\nPixelShuffle 0=1", lambda q: q),
}


@pytest.mark.parametrize("name", BETWEEN)
@pytest.mark.parametrize("first", [[], ["q"], ["m"], ["q", "m"]], ids="-".join)
def test_layers_that_move_values_hand_int8_on(name: str, first: list[str]) -> None:
    """Whatever was extracted before: nothing is rounded twice, and blobs are int8 to those who ask for it."""
    lines, moved = BETWEEN[name]
    kinds = lines.split("\n")
    blobs = ["q", *[f"b{i}" for i in range(1, len(kinds))], "m"]
    between = [
        f"{kind.split()[0]} l{i} 1 1 {blobs[i]} {blobs[i + 1]} {' '.join(kind.split()[1:])}"
        for i, kind in enumerate(kinds)
    ]
    a, c = Weights(6, 6, 1, 1, requantised=20.0), Weights(5, 6, 1, 1)
    layers = [f"Convolution {n} 1 1 {{}} 0={len(w.w)} 1=1 5=1 6={w.w.size} 8={{}}" for n, w in (("a", a), ("c", c))]
    text = param("Input i 0 1 x", layers[0].format("x q", 102), *between, layers[1].format("m y", 2) + " 9=1")
    borders = np.full(6, 3.7, np.float32).tobytes() if "6=6" in lines else b""
    ex = load(text, a.file() + borders + c.file()).create_extractor()
    assert ex.input("x", Mat(X)) == 0
    q = rounded(np.float32(a.y_scale) * _line(a, convolved(rounded(X * a.x_scale), a.w)))
    m = moved(q)
    wanted = {"q": q, "m": m, "y": c.result(convolved(m, c.w))}
    assert (q < 0).any()
    for blob in first:
        code, mat = ex.extract(blob, 1)
        assert (code, mat.elemsize) == (0, 1)
        np.testing.assert_array_equal(mat.numpy(), wanted[blob])
    np.testing.assert_allclose(ex.extract("y")[1].numpy(), wanted["y"], atol=1e-4)


def _line(a: Weights, sums: Any) -> Any:
    scale = np.float32(1) / (a.x_scale * a.scales)
    return sums * scale[:, None, None] + a.bias[:, None, None]


def test_casts_give_int8_and_take_it_back() -> None:
    """What was cast to floats is quantised by the next layer."""
    c = Weights(4, 6, 1, 1)
    text = param(
        "Input in 0 1 x",
        "Cast a 1 1 x q 0=1 1=3",
        "Split s 1 2 q q0 q1",
        "Cast b 1 1 q0 f 0=3 1=1",
        *(f"Convolution {n} 1 1 {x} {y} 0=4 1=1 5=1 6=24 8=2 9=1" for n, x, y in (("c", "q1", "y"), ("d", "f", "z"))),
    )
    ex = load(text, c.file() * 2).create_extractor()
    assert ex.input("x", Mat(3 * X)) == 0
    q = rounded(3 * X)
    assert ex.extract("q", 1)[1].numpy().dtype == np.int8
    assert ex.extract("f", 1)[1].numpy().dtype == np.float32
    np.testing.assert_array_equal(ex.extract("y")[1].numpy(), c.result(convolved(q, c.w)))
    np.testing.assert_array_equal(ex.extract("z")[1].numpy(), c.result(convolved(rounded(q * c.x_scale), c.w)))


@pytest.mark.parametrize(
    "line",
    ["InnerProduct p 1 1 a b 0=2 2=6", *(f"{t} p 1 1 a b 0=2 1=1 6=6" for t in ("Convolution", "Deconvolution"))],
)
def test_int8_weights_without_scales(line: str) -> None:
    net = Net()
    assert net.load_param_mem(param("Input in 0 1 a", line)) == 0
    with pytest.warns(NcnnWarning, match="the weights are int8, but parameter 8 does not say that there are scales"):
        assert net.load_model_mem(write_weight(np.ones(6, np.int8), "int8")) == -1


def test_layers_of_applications_get_int8() -> None:
    class Middle(Layer):
        def __init__(self) -> None:
            super().__init__()
            self.one_blob_only = True

        def forward(self, bottom_blob: Mat, top_blob: Mat, opt: Any) -> int:
            array = bottom_blob.numpy()
            assert array.dtype == np.int8
            top_blob.clone_from(Mat(array[:, ::-1].copy()))
            return 0

    c = Weights(4, 6, 1, 1)
    net = Net()
    net.register_custom_layer("Middle", Middle)
    layers = "Quantize q 1 1 x a 0=1", "Middle m 1 1 a b", "Convolution c 1 1 b y 0=4 1=1 5=1 6=24 8=2 9=1"
    assert net.load_param_mem(param("Input in 0 1 x", *layers)) == 0
    assert net.load_model_mem(np.float32([20]).tobytes() + c.file()) == 0
    want = c.result(convolved(rounded(X * 20)[:, ::-1], c.w))
    np.testing.assert_array_equal(run(net, "y", x=X), want)
