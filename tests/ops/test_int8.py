"""Operators over int8 tensors against integers of numpy, alone and with what passes fuse into them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from graph_of_one import run

import pnnx_fast
from pnnx_fast.errors import PnnxFastError
from pnnx_fast.ir import Attribute

RNG = np.random.default_rng(0)


def rounded(x: Any) -> Any:
    return np.clip(np.trunc(x + np.copysign(np.float32(0.5), x)), -127, 127).astype(np.int8)


def whole(*shape: int) -> Any:
    return RNG.integers(-127, 128, shape).astype(np.int8)


def floats(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


def convolved(x: Any, w: Any, stride: int = 1) -> Any:
    """Sums of 3x3 windows with padding 1, or of single pixels."""
    p, (n, _, h, v) = w.shape[2] // 2, x.shape
    wide = np.pad(x.astype(np.int64), ((0, 0), (0, 0), (p, p), (p, p)))
    y = np.zeros((n, w.shape[0], h, v), np.int64)
    for ky in range(w.shape[2]):
        for kx in range(w.shape[3]):
            part = wide[:, :, ky : ky + h, kx : kx + v]
            y += np.einsum("oc,nchw->nohw", w[:, :, ky, kx].astype(np.int64), part)
    return y[:, :, ::stride, ::stride].astype(np.float32)


@pytest.mark.parametrize("shape", [(7,), (2, 5), (2, 5, 9), (2, 3, 6, 7)])
def test_quantize(isa: str, shape: tuple[int, ...]) -> None:
    x = floats(*shape)
    np.testing.assert_array_equal(run("int8.Quantize", x, isa=isa, scale=40.0), rounded(x * np.float32(40)))
    np.testing.assert_array_equal(run("int8.Quantize", x, isa=isa, last=True, scale=40.0), rounded(x * np.float32(40)))
    if len(shape) > 1:
        scales = np.linspace(10, 90, shape[1], dtype=np.float32)
        want = rounded(x * scales.reshape(-1, *(1,) * (len(shape) - 2)))
        got = run("int8.Quantize", x, isa=isa, threads=2, weights={"scales": scales})
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("channels", [(3, 5), (16, 16), (20, 70)])
def test_int8_conv2d(isa: str, channels: tuple[int, int], stride: int) -> None:
    ic, oc = channels
    x, w, scale, bias = whole(2, ic, 9, 8), whole(oc, ic, 3, 3), floats(oc) / 1000, floats(oc)
    want = convolved(x, w, stride) * scale[:, None, None] + bias[:, None, None]
    weights = {"weight": w, "scale": scale, "bias": bias}
    got = run("int8.Conv2d", x, isa=isa, threads=2, weights=weights, stride=[stride] * 2, padding=[1, 1])
    np.testing.assert_array_equal(got, want)
    got = run(
        "fused.Int8Conv2d", floats(2, ic, 9, 8) * 0 + x / np.float32(8), isa=isa, weights=weights, stride=[stride] * 2,
        padding=[1, 1], input_scale=8.0, output_scale=20.0, activation="relu",
    )  # fmt: skip
    np.testing.assert_array_equal(got, rounded(np.maximum(want, 0) * np.float32(20)))


def test_int8_linear(isa: str) -> None:
    x, w, scale, bias, z = whole(2, 3, 50), whole(21, 50), floats(21) / 1000, floats(21), floats(2, 3, 21)
    want = (x.astype(np.int64) @ w.T.astype(np.int64)).astype(np.float32) * scale + bias
    weights = {"weight": w, "scale": scale, "bias": bias}
    np.testing.assert_array_equal(run("int8.Linear", x, isa=isa, weights=weights), want)
    names = ["input", "residual"]
    got = run("fused.Int8Linear", x, z, names=names, isa=isa, weights=weights, output_scale=9.0, activation="relu")
    np.testing.assert_array_equal(got, rounded(np.maximum(want + z, 0) * np.float32(9)))


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("scale", [0.0, 9.0])
def test_residuals_larger_than_the_result(late: bool, scale: float) -> None:
    def finished(y: Any, z: Any) -> Any:
        total = np.maximum(y, 0) + z if late else np.maximum(y + z, 0)
        return rounded(total * np.float32(scale)) if scale else total

    more = {"output_scale": scale, "activation": "relu", "residual_late": late, "names": ["input", "residual"]}
    x, w, z, factors = whole(1, 5, 4, 1), whole(6, 5, 1, 1), floats(3, 6, 4, 7), floats(6) / 1000
    weights = {"weight": w, "scale": factors}
    want = finished(convolved(x, w) * factors[:, None, None], z)
    np.testing.assert_array_equal(run("fused.Int8Conv2d", x, z, weights=weights, **more), want)
    rows, z = whole(1, 5), floats(4, 6)
    weights["weight"] = w[:, :, 0, 0]
    sums = (rows.astype(np.int64) @ w[:, :, 0, 0].T.astype(np.int64)).astype(np.float32)
    got = run("fused.Int8Linear", rows, z, weights=weights, **more)
    np.testing.assert_array_equal(got, finished(sums * factors, z))


def test_depthwise(isa: str) -> None:
    x, w, scale = whole(2, 19, 9, 14), whole(19, 1, 3, 3), floats(19) / 1000
    diagonal = np.zeros((19, 19, 3, 3), np.int8)
    diagonal[range(19), range(19)] = w[:, 0]
    weights = {"weight": w, "scale": scale}
    got = run("int8.Conv2d", x, isa=isa, weights=weights, padding=[1, 1], groups=19)
    np.testing.assert_array_equal(got, convolved(x, diagonal) * scale[:, None, None])


@pytest.mark.parametrize(
    ("x", "weight", "scale"),
    [
        (floats(1, 4, 3, 3), whole(2, 4, 1, 1), floats(2)),
        (whole(1, 4, 3, 3), whole(2, 4, 1, 1), floats(3)),
        (whole(1, 4, 3, 3), whole(2, 5, 1, 1), floats(2)),
        (whole(1, 1 << 17, 1, 1), whole(2, 1 << 17, 1, 1), floats(2)),
    ],
)
def test_what_does_not_fit(x: Any, weight: Any, scale: Any) -> None:
    with pytest.raises(PnnxFastError):
        run("int8.Conv2d", x, weights={"weight": weight, "scale": scale})


class Net:
    """A graph that grows by operators with one output."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.graph = pnnx_fast.Graph()
        self.x = self._operand(shape, "f32")
        self.graph.new_operator("pnnx.Input", "in", outputs=[self.x])

    def _operand(self, shape: tuple[int, ...], dtype: str) -> Any:
        operand = self.graph.new_operand(f"v{self.graph.operand_count}")
        operand.shape, operand.dtype = shape, dtype
        return operand

    def add(
        self, kind: str, *inputs: Any, shape: Any = None, dtype: str = "f32", attrs: Any = None, **params: Any
    ) -> Any:
        y = self._operand(shape or inputs[0].shape, dtype)
        attrs = {key: Attribute(value) for key, value in (attrs or {}).items()}
        self.graph.new_operator(kind, f"op_{y.name}", inputs=inputs, outputs=[y], params=params, attrs=attrs)
        return y

    def types(self, isa: str, y: Any) -> tuple[list[str], Any]:
        self.graph.new_operator("pnnx.Output", "out", inputs=[y])
        model = pnnx_fast.Model(self.graph, isa=isa)
        return [op.type for op in model.graph.ops][1:-1], model


def test_rounding_and_sums_move_into_layers(isa: str) -> None:
    x, w1, w2 = floats(1, 8, 6, 7), whole(16, 8, 1, 1), whole(8, 16, 3, 3)
    s1, s2 = np.full(16, 1e-4, np.float32), np.full(8, 1e-4, np.float32)
    net = Net(x.shape)
    window = {"stride": [1, 1], "dilation": [1, 1], "groups": 1}
    q = net.add("int8.Quantize", net.x, dtype="i8", scale=40.0)
    y = net.add("int8.Conv2d", q, shape=(1, 16, 6, 7), attrs={"weight": w1, "scale": s1}, kernel_size=[1, 1], **window)
    y = net.add("int8.Quantize", net.add("F.relu", y), dtype="i8", scale=90.0)
    attrs = {"weight": w2, "scale": s2}
    y = net.add("int8.Conv2d", y, shape=x.shape, attrs=attrs, kernel_size=[3, 3], padding=[1, 1], **window)
    y = net.add("F.relu", net.add("pnnx.Expression", y, net.x, expr="add(@0,@1)"))
    types, model = net.types(isa, y)
    assert types == ["fused.Int8Conv2d"] * 2
    middle = rounded(np.maximum(convolved(rounded(x * np.float32(40)), w1) * s1[:, None, None], 0) * np.float32(90))
    want = np.maximum(convolved(middle, w2) * s2[:, None, None] + x, 0)
    np.testing.assert_array_equal(model(x), want)


def test_rounding_for_several_readers_and_for_windows_stays(isa: str) -> None:
    net = Net((1, 8, 6, 7))
    q = net.add("int8.Quantize", net.x, dtype="i8", scale=40.0)
    attrs = {"weight": whole(8, 8, 3, 3), "scale": np.full(8, 1e-4, np.float32)}
    window = {"stride": [1, 1], "dilation": [1, 1], "groups": 1, "kernel_size": [3, 3], "padding": [1, 1]}
    types, _ = net.types(isa, net.add("int8.Conv2d", q, shape=(1, 8, 6, 7), attrs=attrs, **window))
    assert types == ["int8.Quantize", "int8.Conv2d"]
