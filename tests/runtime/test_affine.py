"""A batch norm that cannot become part of its producer joins the 1x1 convolution that reads it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

import pnnx_fast
from pnnx_fast._core import program as core


@dataclass(frozen=True)
class Net:
    """Layers on parts of a growing concatenation: norm, activation, convolution."""

    layers: int = 3
    kernel: int = 1
    stride: int = 1
    act: str = "nn.ReLU"
    second_reader: bool = False


CHANNELS, GROWTH = 24, 40


def graph(net: Net) -> pnnx_fast.Graph:
    rng = np.random.default_rng(3)
    made = pnnx_fast.Graph()
    x = made.new_operand("x")
    made.new_operator("pnnx.Input", "in", outputs=[x])
    channels, parts = CHANNELS, [x]
    for i in range(net.layers):
        norm, act, y = (made.new_operand(f"{name}{i}") for name in ("norm", "act", "y"))
        stats = {
            "running_mean": rng.standard_normal(channels),
            "running_var": rng.uniform(0.5, 2, channels),
            "weight": rng.standard_normal(channels),
            "bias": rng.standard_normal(channels),
        }
        made.new_operator(
            "nn.BatchNorm2d", f"norm{i}", inputs=[x], outputs=[norm],
            attrs={k: pnnx_fast.Attribute(v.astype(np.float32)) for k, v in stats.items()},
            params={"num_features": channels, "eps": 1e-5, "affine": True},
        )  # fmt: skip
        made.new_operator(net.act, f"act{i}", inputs=[norm], outputs=[act])
        shape = (GROWTH, channels, net.kernel, net.kernel)
        weight = rng.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))
        made.new_operator(
            "nn.Conv2d", f"conv{i}", inputs=[act], outputs=[y],
            attrs={"weight": pnnx_fast.Attribute(weight.astype(np.float32))},
            params={
                "in_channels": channels, "out_channels": GROWTH, "kernel_size": shape[2:], "dilation": (1, 1),
                "stride": (net.stride if i else 1,) * 2, "padding": (net.kernel // 2,) * 2, "groups": 1, "bias": False,
                "padding_mode": "zeros",
            },
        )  # fmt: skip
        parts = [*parts, y]
        if net.second_reader:
            made.new_operator("pnnx.Output", f"out{i}", inputs=[act])
        if i and net.stride > 1:
            x = y
            break
        x = made.new_operand(f"cat{i}")
        made.new_operator("torch.cat", f"cat{i}", inputs=parts, outputs=[x], params={"dim": 1})
        channels += GROWTH
    made.new_operator("pnnx.Output", "out", inputs=[x])
    return made


def expected(made: pnnx_fast.Graph, net: Net, x: np.ndarray) -> np.ndarray:
    """The result of 1x1 layers by numpy."""
    ops = {op.name: op for op in made.ops}
    for i in range(net.layers):
        stats = {k: np.asarray(v.numpy(), float)[:, None, None] for k, v in ops[f"norm{i}"].attrs.items()}
        v = (x - stats["running_mean"]) / np.sqrt(stats["running_var"] + 1e-5) * stats["weight"] + stats["bias"]
        v = np.maximum(v, 0) if net.act == "nn.ReLU" else v / (1 + np.exp(-v))
        weight = ops[f"conv{i}"].attrs["weight"].numpy()[:, :, 0, 0].astype(float)
        x = np.concatenate([x, np.einsum("oc,nchw->nohw", weight, v)], 1)
    return x


def kernels(model: pnnx_fast.Model, x: np.ndarray) -> list[str]:
    return [step.kernel for step in model.profile(x, repeat=1).steps]


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("act", ["nn.ReLU", "nn.SiLU"])
def test_joins(isa: str, act: str, threads: int) -> None:
    net = Net(act=act)
    made = graph(net)
    x = np.random.default_rng(1).standard_normal((2, CHANNELS, 12, 11)).astype(np.float32)
    want = expected(made, net, x)
    model = pnnx_fast.Model(made, threads, isa=isa)
    got = model(x)
    np.testing.assert_allclose(got, want, rtol=0, atol=3e-6 * np.abs(want).max())
    np.testing.assert_array_equal(model(x), got)
    found = kernels(model, x)
    assert found.count("channel_affine") == 1, "only the first layer reads a tensor that is not channels-last"
    assert found.count("conv_affine_f32") == net.layers - 1


@pytest.mark.parametrize("net", [Net(kernel=3), Net(stride=2), Net(second_reader=True)])
def test_stays_apart(net: Net) -> None:
    x = np.random.default_rng(1).standard_normal((1, CHANNELS, 12, 12)).astype(np.float32)
    found = kernels(pnnx_fast.Model(graph(net), 1), x)
    assert "conv_affine_f32" not in found
    assert found.count("channel_affine") >= 2


def test_flat_features() -> None:
    """Rows of features that a linear layer reads."""
    rng = np.random.default_rng(5)
    made = pnnx_fast.Graph()
    x, norm, y, out = (made.new_operand(name) for name in ("x", "norm", "y", "out"))
    made.new_operator("pnnx.Input", "in", outputs=[x])
    stats = {"running_mean": rng.standard_normal(32), "running_var": rng.uniform(0.5, 2, 32)}
    made.new_operator(
        "nn.BatchNorm1d", "norm", inputs=[x], outputs=[norm],
        attrs={k: pnnx_fast.Attribute(v.astype(np.float32)) for k, v in stats.items()},
        params={"num_features": 32, "eps": 1e-5, "affine": False},
    )  # fmt: skip
    weight = rng.standard_normal((32, 32)).astype(np.float32)
    made.new_operator(
        "nn.Linear", "linear", inputs=[norm], outputs=[y], attrs={"weight": pnnx_fast.Attribute(weight)},
        params={"in_features": 32, "out_features": 32, "bias": False},
    )  # fmt: skip
    made.new_operator("pnnx.Expression", "add", inputs=[x, y], outputs=[out], params={"expr": "add(@0,@1)"})
    made.new_operator("pnnx.Output", "end", inputs=[out])
    rows = rng.standard_normal((50, 32)).astype(np.float32)
    v = (rows - stats["running_mean"]) / np.sqrt(stats["running_var"] + 1e-5)
    want = rows + v @ weight.T.astype(float)
    np.testing.assert_allclose(pnnx_fast.Model(made, 1)(rows), want, rtol=0, atol=1e-5 * np.abs(want).max())


RESIDUALS = {
    "whole": ("(1,64,20,20)", ""),
    "crop": ("(1,64,20,27)", "Tensor.slice s 1 1 zc zs dim=3 start=0 end=20 step=1"),
    "expand": ("(1,64,1,20)", "Tensor.expand s 1 1 zc zs sizes=(1,64,20,20)"),
}


@pytest.mark.parametrize("isa", core.ISAS)
@pytest.mark.parametrize("residual", RESIDUALS)
def test_residuals_that_keep_lines_apart(residual: str, isa: str) -> None:
    """The map is applied whatever the strides of what is added."""
    shape, view = RESIDUALS[residual]
    conv = "kernel_size=(1,1) stride=(1,1) padding=(0,0) dilation=(1,1) groups=1 bias=False padding_mode=zeros"
    conv += " in_channels=64 out_channels=64"

    def noted(name: str) -> str:
        return f"#{name}=(1,64,20,20)f32"

    lines = [
        f"pnnx.Input in 0 1 x {noted('x')}", f"pnnx.Input inz 0 1 z #z={shape}f32",
        f"nn.Conv2d cz 1 1 z zc {conv} #zc={shape}f32", f"nn.Conv2d c0 1 1 x y0 {conv} {noted('y0')}",
        f"nn.BatchNorm2d bn 1 1 y0 b num_features=64 eps=1e-5 affine=True {noted('b')}",
        f"nn.ReLU r 1 1 b r {noted('r')}",
        f"nn.Conv2d c1 1 1 r y1 {conv} {noted('y1')}", *([f"{view} {noted('zs')}"] if view else []),
        f"pnnx.Expression add 2 1 y1 {'zs' if view else 'zc'} o expr=add(@0,@1) {noted('o')}",
        "pnnx.Expression other 1 1 y0 q expr=mul(@0,2)", "pnnx.Output out 1 0 o", "pnnx.Output out2 1 0 q",
    ]  # fmt: skip
    made = pnnx_fast.Graph.parse("\n".join(["7767517", f"{len(lines)} 0", *lines, ""]))
    rng = np.random.default_rng(0)
    for op in made.ops:
        if op.type == "nn.Conv2d":
            op.attrs["weight"] = pnnx_fast.Attribute(rng.standard_normal((64, 64, 1, 1)).astype(np.float32) / 8)
        if op.type == "nn.BatchNorm2d":
            for key in ("running_mean", "running_var", "weight", "bias"):
                op.attrs[key] = pnnx_fast.Attribute(rng.uniform(0.5, 2, 64).astype(np.float32))
    x = rng.standard_normal((1, 64, 20, 20)).astype(np.float32)
    z = rng.standard_normal(eval(shape)).astype(np.float32)
    got = pnnx_fast.Model(made, 1, isa=isa)(x, z)
    want = pnnx_fast.Model(made.to("f64", constants=True), 1, optimize=False)(x, z)
    for a, b in zip(got, want, strict=True):
        assert np.abs(a - b).max() <= 1e-5 * np.abs(b).max()
