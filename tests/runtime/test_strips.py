"""Chains of convolutions that run strip by strip give what the single steps give."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

import pnnx_fast
from pnnx_fast.runtime import lower, strips


@dataclass(frozen=True)
class Conv:
    out: int
    kernel: int = 1
    stride: int = 1
    padding: int = 0
    dilation: int = 1
    groups: int = 1
    act: str = ""
    pool: tuple[int, int, int] = ()  # kernel, stride and padding of a pool that follows
    gate: str = ""  # product of the two halves of the channels that follows


def depthwise(channels: int, kernel: int, stride: int = 1, dilation: int = 1, act: str = "") -> Conv:
    return Conv(channels, kernel, stride, dilation * (kernel - 1) // 2, dilation, channels, act)


CHAINS = {
    "expand, depthwise": (Conv(21, act="nn.ReLU6"), depthwise(21, 3)),
    "expand, depthwise, project": (Conv(33, act="nn.SiLU"), depthwise(33, 3, 2, act="nn.SiLU"), Conv(7)),
    "stem": (Conv(24, 3, 2, 1, act="nn.ReLU"), depthwise(24, 3, act="nn.ReLU"), Conv(9), Conv(40), depthwise(40, 5, 2)),
    "wide windows": (Conv(16), depthwise(16, 7, 2), depthwise(16, 5, 1, 2), Conv(5, 3, 3, 2)),
    "stride beyond the window": (Conv(18), Conv(6, 1, 2), Conv(12, 2, 3), depthwise(12, 3)),
    "more padding than image": (Conv(16), Conv(8, 3, 1, 5), depthwise(8, 3), Conv(3)),
    "pool": (Conv(20, 3, 2, 1, act="nn.ReLU", pool=(3, 2, 1)), depthwise(20, 3), Conv(9, pool=(2, 2, 0)), Conv(18)),
    "gates": (
        Conv(26),
        Conv(26, 3, 1, 1, groups=26, gate="mul(@0,@1)"),
        Conv(32, gate="mul(@1,sigmoid(@0))"),
        Conv(9, 3, 2),
    ),
    "groups": (Conv(24), Conv(48, 3, 2, 1, groups=6, act="nn.Hardswish"), Conv(16)),
}


def graph(stages: tuple[Conv, ...], channels: int, residual: bool = False) -> pnnx_fast.Graph:
    rng = np.random.default_rng(5)
    made = pnnx_fast.Graph()
    x = made.new_operand("x")
    made.new_operator("pnnx.Input", "in", outputs=[x])
    for i, c in enumerate(stages):
        y = made.new_operand(f"y{i}")
        shape = (c.out, channels // c.groups, c.kernel, c.kernel)
        weight = rng.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))
        attrs = {"weight": weight, "bias": rng.standard_normal(c.out)}
        made.new_operator(
            "nn.Conv2d", f"conv{i}", inputs=[x], outputs=[y],
            attrs={k: pnnx_fast.Attribute(v.astype(np.float32)) for k, v in attrs.items()},
            params={
                "in_channels": channels, "out_channels": c.out, "kernel_size": (c.kernel, c.kernel),
                "stride": (c.stride, c.stride), "padding": (c.padding, c.padding), "dilation": (c.dilation, c.dilation),
                "groups": c.groups, "bias": True, "padding_mode": "zeros",
            },
        )  # fmt: skip
        x, channels = y, c.out
        if c.act:
            x = made.new_operand(f"a{i}")
            made.new_operator(c.act, f"act{i}", inputs=[y], outputs=[x])
        if c.pool:
            y, x = x, made.new_operand(f"p{i}")
            pool = {"kernel_size": c.pool[0], "stride": c.pool[1], "padding": c.pool[2], "ceil_mode": True}
            made.new_operator("nn.MaxPool2d", f"pool{i}", inputs=[y], outputs=[x], params=pool)
        if c.gate:
            halves, y, x, channels = (
                [made.new_operand(f"{h}{i}") for h in "gh"],
                x,
                made.new_operand(f"m{i}"),
                channels // 2,
            )
            made.new_operator("torch.chunk", f"chunk{i}", inputs=[y], outputs=halves, params={"chunks": 2, "dim": 1})
            made.new_operator("pnnx.Expression", f"gate{i}", inputs=halves, outputs=[x], params={"expr": c.gate})
    if residual:
        other, y = made.new_operand("z"), made.new_operand("sum")
        for operand, c in ((x, channels), (other, channels)):
            operand.shape, operand.dtype = (1, c, 1, 1), "f32"  # for the pass, which wants to know that they agree
        made.new_operator("pnnx.Input", "in2", outputs=[other])
        made.new_operator("pnnx.Expression", "add", inputs=[x, other], outputs=[y], params={"expr": "add(@0,@1)"})
        x = y
    made.new_operator("pnnx.Output", "out", inputs=[x])
    return made


def results(
    monkeypatch: pytest.MonkeyPatch, model: pnnx_fast.Model, arrays: list[np.ndarray], worth: int, strip: int
) -> tuple[np.ndarray, list[str]]:
    monkeypatch.setattr(lower, "SERIAL_WORK", 0)
    monkeypatch.setattr(strips, "WORTH_BYTES", worth)
    monkeypatch.setattr(strips, "STRIP_BYTES", strip)
    monkeypatch.setattr(strips, "LEAST_LINES", 1)
    return model(*arrays), [step.kernel for step in model.profile(*arrays, repeat=1).steps]


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("name", CHAINS)
def test_chain(monkeypatch: pytest.MonkeyPatch, isa: str, name: str, threads: int) -> None:
    for shape, strip in (((1, 3, 37, 15), 1 << 20), ((2, 5, 23, 12), 1 << 14)):
        x = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
        made = graph(CHAINS[name], shape[1])
        want, _ = results(monkeypatch, pnnx_fast.Model(made, threads, isa=isa), [x], 1 << 60, strip)
        got, kernels = results(monkeypatch, pnnx_fast.Model(made, threads, isa=isa), [x], 0, strip)
        assert "strips" in kernels
        assert "gate_f32" not in kernels
        np.testing.assert_allclose(got, want, rtol=0, atol=2e-6 * np.abs(want).max())


def test_residual(monkeypatch: pytest.MonkeyPatch, isa: str) -> None:
    rng = np.random.default_rng(2)
    arrays = [rng.standard_normal((2, c, 19, 20)).astype(np.float32) for c in (6, 10)]
    made = graph((Conv(32, act="nn.ReLU"), depthwise(32, 3), Conv(10)), 6, residual=True)
    want, _ = results(monkeypatch, pnnx_fast.Model(made, 2, isa=isa), arrays, 1 << 60, 1 << 15)
    got, kernels = results(monkeypatch, pnnx_fast.Model(made, 2, isa=isa), arrays, 0, 1 << 15)
    assert kernels == ["copy", "strips", "copy", "strips"]  # what is added arrives between; the result leaves as planes
    np.testing.assert_allclose(got, want, rtol=0, atol=2e-6 * np.abs(want).max())


def test_identical_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.random.default_rng(3).standard_normal((1, 3, 64, 48)).astype(np.float32)
    model = pnnx_fast.Model(graph(CHAINS["stem"], 3), 2)
    first, _ = results(monkeypatch, model, [x], 0, 1 << 16)
    for _ in range(20):
        np.testing.assert_array_equal(model(x), first)


def test_not_fused_when_read_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    made = graph((Conv(16), depthwise(16, 3)), 3)
    made.new_operator("pnnx.Output", "also", inputs=[made.get_operand("y0")])
    model = pnnx_fast.Model(made, 1)
    x = np.ones((1, 3, 20, 20), np.float32)
    monkeypatch.setattr(strips, "WORTH_BYTES", 0)
    model(x)
    steps = model.profile(x, repeat=1).steps
    assert [step.operator for step in steps[:2]] == ["conv0", "conv1"]  # the second with the change of layout behind it
    assert [step.kernel for step in steps[1:]] == ["strips", "copy"]


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("channels", [16, 19])
@pytest.mark.parametrize("stages", [(Conv(19, 3, 2, 1),), (depthwise(19, 5),), (Conv(8), Conv(17, 1, 1, 2))], ids=str)
def test_changes_of_layout(
    monkeypatch: pytest.MonkeyPatch, isa: str, stages: tuple[Conv, ...], channels: int, threads: int
) -> None:
    """Planes that come in and go out, one line or many, are read and written by the strips of what is between."""
    if stages[0].groups > 1:
        channels = stages[0].groups
    made = graph(stages, channels)
    for shape in ((1, channels, 37, 15), (3, channels, 1, 40), (2, channels, 30, 1)):
        x = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
        want, _ = results(monkeypatch, pnnx_fast.Model(made, threads, isa=isa), [x], 1 << 60, 1 << 15)
        got, kernels = results(monkeypatch, pnnx_fast.Model(made, threads, isa=isa), [x], 0, 1 << 15)
        assert "strips" in kernels
        np.testing.assert_allclose(got, want, rtol=0, atol=2e-6 * np.abs(want).max())


def test_worth() -> None:
    """Large second-level caches decide alone; beside a small one the third-level cache has a say."""
    kib, mib = 1 << 10, 1 << 20
    assert strips._worth_bytes(2 * mib, 32 * mib) == 2 * mib
    assert strips._worth_bytes(1 * mib, 32 * mib) == 1 * mib
    assert strips._worth_bytes(512 * kib, 32 * mib) == 4 * mib
    assert strips._worth_bytes(512 * kib, 2 * mib) == 512 * kib
    assert strips._worth_bytes(256 * kib, 0) == 256 * kib
