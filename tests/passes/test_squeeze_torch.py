"""Squeeze-and-excite blocks against PyTorch: averages from sums of lines, gates that scale weights or activations."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

import pnnx_fast
from pnnx_fast.ir import Attribute
from pnnx_fast.passes import optimize

torch = pytest.importorskip("torch")
F = torch.nn.functional


@dataclass(frozen=True)
class Block:
    """Convolution, squeeze, excite, product, 1x1 convolution."""

    channels: int = 40
    out: int = 24
    size: tuple[int, int] = (14, 13)
    kernel: int = 3
    stride: int = 1
    groups: int = 40
    act: str = "silu"
    gate: str = "sigmoid"
    mean: bool = False
    expand: int = 0
    residual: bool = False
    shared: bool = False  # something else reads the product, too


BLOCKS = {
    "few outputs": Block(),
    "many outputs": Block(out=200),
    "hardsigmoid, mean": Block(gate="hardsigmoid", act="hardswish", kernel=5, stride=2, mean=True),
    "groups": Block(channels=48, groups=6, act="relu"),
    "narrow": Block(channels=72, groups=72, out=4, size=(20, 20)),
    "equal channels": Block(out=40, residual=True, size=(28, 28)),
    "shared": Block(shared=True),
    "many channels": Block(channels=192, groups=192, out=256, size=(20, 20)),
    "strips": Block(channels=96, groups=96, expand=16, size=(90, 90), stride=2),
    "dense": Block(channels=20, groups=1, out=9),
}


class Maker:
    """A graph and what PyTorch computes for it, side by side."""

    def __init__(self, x: np.ndarray, known: bool) -> None:
        self.graph, self.rng, self.known = pnnx_fast.Graph(), np.random.default_rng(3), known
        self.values = {"x": torch.from_numpy(x)}
        operand = self.graph.new_operand("x")
        self.describe("x")
        self.graph.new_operator("pnnx.Input", "in", outputs=[operand])

    def describe(self, name: str) -> None:
        operand, value = self.graph.get_operand(name), self.values[name]
        assert operand is not None
        operand.shape, operand.dtype = (tuple(value.shape) if self.known else None), "f32"

    def add(self, kind: str, inputs: str, y: str, value: object, attrs: object = None, **params: object) -> None:
        self.values[y] = value
        out = self.graph.new_operand(y)
        self.describe(y)
        operands = [self.graph.get_operand(name) for name in inputs.split()]
        self.graph.new_operator(kind, f"op_{y}", inputs=operands, outputs=[out], params=params, attrs=attrs or {})

    def conv(self, x: str, y: str, out: int, kernel: int = 1, stride: int = 1, groups: int = 1) -> None:
        given = self.values[x]
        shape = (out, given.shape[1] // groups, kernel, kernel)
        weight = (self.rng.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))).astype(np.float32)
        bias = self.rng.standard_normal(out).astype(np.float32)
        pad = kernel // 2
        value = F.conv2d(given, torch.from_numpy(weight), torch.from_numpy(bias), stride, pad, 1, groups)
        self.add(
            "nn.Conv2d", x, y, value, {"weight": Attribute(weight), "bias": Attribute(bias)},
            in_channels=given.shape[1], out_channels=out, kernel_size=(kernel, kernel), stride=(stride, stride),
            padding=(pad, pad), dilation=(1, 1), groups=groups, bias=True, padding_mode="zeros",
        )  # fmt: skip

    def function(self, name: str, x: str, y: str) -> None:
        self.add(f"F.{name}", x, y, getattr(F, name)(self.values[x]))


def build(block: Block, n: int, known: bool = True, x: np.ndarray | None = None) -> tuple[Maker, np.ndarray]:
    channels = block.expand or block.channels
    if x is None:
        x = np.random.default_rng(4).standard_normal((n, channels, *block.size)).astype(np.float32)
    m = Maker(x, known)
    source = "x"
    if block.expand:
        m.conv("x", "expanded", block.channels)
        source = "expanded"
    m.conv(source, "a", block.channels, block.kernel, block.stride, block.groups)
    m.function(block.act, "a", "b")
    if block.mean:
        m.add("torch.mean", "b", "p", m.values["b"].mean((2, 3), True), dim=(2, 3), keepdim=True)
    else:
        m.add("nn.AdaptiveAvgPool2d", "b", "p", F.adaptive_avg_pool2d(m.values["b"], 1), output_size=(1, 1))
    m.conv("p", "s", 10)
    m.function("relu", "s", "t")
    m.conv("t", "u", block.channels)
    m.function(block.gate, "u", "g")
    m.add("pnnx.Expression", "g b", "v", m.values["g"] * m.values["b"], expr="mul(@0,@1)")
    m.conv("v", "y", block.out)
    last = "y"
    if block.residual:
        m.add("pnnx.Expression", "y b", "z", m.values["y"] + m.values["b"], expr="add(@0,@1)")
        last = "z"
    outputs = [last, "v"] if block.shared else [last]
    for i, name in enumerate(outputs):
        m.graph.new_operator("pnnx.Output", f"out{i}", inputs=[m.graph.get_operand(name)])
    return m, x


def results(m: Maker, x: np.ndarray, isa: str | None, threads: int) -> list[tuple[np.ndarray, np.ndarray]]:
    y = pnnx_fast.Model(m.graph, isa=isa, num_threads=threads)(x)
    got = list(y) if isinstance(y, (list, tuple)) else [y]
    wanted = [m.values[op.inputs[0].name].numpy() for op in m.graph.ops if op.type == "pnnx.Output"]
    return list(zip(got, wanted, strict=True))


@pytest.mark.parametrize("n", [1, 3])
@pytest.mark.parametrize("name", BLOCKS)
def test_blocks(isa: str, name: str, n: int) -> None:
    m, x = build(BLOCKS[name], n)
    for threads in (1, 2):
        for got, want in results(m, x, isa, threads):
            np.testing.assert_allclose(got, want, rtol=0, atol=1e-5 * np.abs(want).max())


@pytest.mark.parametrize("name", ["few outputs", "many outputs"])
def test_shapes_that_the_graph_does_not_tell(name: str) -> None:
    m, x = build(BLOCKS[name], 1, known=False)
    for got, want in results(m, x, None, 2):
        np.testing.assert_allclose(got, want, rtol=0, atol=1e-5 * np.abs(want).max())


@pytest.mark.parametrize("out", [8, 100])
@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
def test_values_that_are_not_finite(value: float, out: int) -> None:
    block = Block(out=out, act="relu", gate="hardsigmoid")
    x = np.random.default_rng(4).standard_normal((1, 40, *block.size)).astype(np.float32)
    x[0, 7, 3, 3] = value
    m, x = build(block, 1, True, x)
    for got, want in results(m, x, None, 1):
        np.testing.assert_array_equal(np.isfinite(got), np.isfinite(want))
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


def test_the_gate_becomes_an_input() -> None:
    m, _ = build(Block(), 1)
    optimize(m.graph)
    types = [op.type for op in m.graph.ops]
    assert "pnnx.Expression" not in types
    conv = next(op for op in m.graph.ops if "gate" in op.inputnames)
    assert conv.name == "op_y"


@pytest.mark.parametrize("change", [{"shared": True}, {"gate": "relu"}])
def test_other_products_stay(change: dict[str, object]) -> None:
    m, _ = build(Block(**change), 1)  # type: ignore[arg-type]
    optimize(m.graph)
    assert not any("gate" in op.inputnames for op in m.graph.ops)


def test_steps_of_a_block() -> None:
    m, x = build(Block(), 1)
    profile = pnnx_fast.Model(m.graph, num_threads=1).profile(x)
    kernels = [step.kernel for step in profile.steps if step.kernel != "copy"]
    assert kernels[:2] == ["conv_depthwise_f32", "avg_pool"]
    assert kernels[-2:] == ["conv_scale_f32", "conv_f32"]
    assert "expression" not in kernels
