"""Sums of branches that are linear in one tensor become one convolution with the same results."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pnnx_fast
from pnnx_fast.ir import Attribute, Operand
from pnnx_fast.passes.merge_branches import merge_branches

CHANNELS = 6


class Net:
    """A graph with one input ``x`` of six channels."""

    def __init__(self, *space: int) -> None:
        self.graph, self.random = pnnx_fast.Graph(), np.random.default_rng(5)
        self.x = self._operand((2, CHANNELS, *space))
        self.graph.new_operator("pnnx.Input", "in", outputs=[self.x])

    def _operand(self, shape: tuple[int, ...]) -> Operand:
        made = self.graph.new_operand(f"t{len(list(self.graph.operands))}")
        made.shape, made.dtype = shape, "f32"
        return made

    def _normal(self, *shape: int) -> Attribute:
        return Attribute(self.random.standard_normal(shape).astype(np.float32))

    def conv(self, x: Operand, *kernel: int, out: int = CHANNELS, bias: bool = True, **params: Any) -> Operand:
        rank, groups = len(kernel), params.get("groups", 1)
        given = {"stride": (1,) * rank, "padding": tuple(k // 2 for k in kernel), "dilation": (1,) * rank, **params}
        assert x.shape is not None
        window = zip(*(given[key] for key in ("padding", "dilation", "stride")), kernel, strict=True)
        sizes = [(n + 2 * p - d * (k - 1) - 1) // s + 1 for n, (p, d, s, k) in zip(x.shape[2:], window, strict=True)]
        y = self._operand((2, out, *sizes))
        attrs = {"weight": self._normal(out, x.shape[1] // groups, *kernel)}
        attrs |= {"bias": self._normal(out)} if bias else {}
        params = {"kernel_size": kernel, "bias": bias, "padding_mode": "zeros", **given}
        kind = f"nn.Conv{rank}d"
        self.graph.new_operator(kind, f"conv_{y.name}", inputs=[x], outputs=[y], params=params, attrs=attrs)
        return y

    def norm(self, x: Operand, kind: str = "nn.BatchNorm2d") -> Operand:
        assert x.shape is not None
        y = self._operand(x.shape)
        attrs = {key: self._normal(CHANNELS) for key in ("weight", "bias", "running_mean")}
        attrs["running_var"] = Attribute(self.random.uniform(0.5, 2, CHANNELS).astype(np.float32))
        params = {"eps": 1e-5, "num_features": CHANNELS, "affine": True}
        self.graph.new_operator(kind, f"norm_{y.name}", inputs=[x], outputs=[y], params=params, attrs=attrs)
        return y

    def sum(self, expr: str, *terms: Operand) -> Operand:
        y = self._operand(terms[0].shape or ())
        self.graph.new_operator("pnnx.Expression", f"sum_{y.name}", inputs=terms, outputs=[y], params={"expr": expr})
        return y

    def merged(self, *outputs: Operand) -> list[str]:
        """Types that are left between input and output, after both ways have given the same results."""
        self.graph.new_operator("pnnx.Output", "out", inputs=outputs)
        x = self.random.standard_normal(self.x.shape or ()).astype(np.float32)
        want, got = (np.asarray(pnnx_fast.Model(self.graph, optimize=flag)(x)) for flag in (False, True))
        np.testing.assert_allclose(got, want, rtol=0, atol=1e-5 * np.abs(want).max())
        merge_branches(self.graph)
        self.graph.validate()
        return [op.type for op in self.graph.ops[1:-1]]


def test_repvgg() -> None:
    net = Net(9, 8)
    total = net.sum("add(add(@0,@1),@2)", net.conv(net.x, 3, 3), net.conv(net.x, 1, 1, bias=False), net.norm(net.x))
    assert net.merged(total) == ["nn.Conv2d"]


def test_depthwise_branches_and_the_tensor_itself_with_signs() -> None:
    net = Net(9, 8)
    terms = [net.conv(net.x, k, k, groups=CHANNELS) for k in (1, 3, 5, 3)]
    total = net.sum("sub(sub(add(@0,@2),sub(@1,@3)),@4)", *terms, net.x)
    assert net.merged(total) == ["nn.Conv2d"]


def test_a_difference_whose_first_term_goes() -> None:
    net = Net(9, 8)
    total = net.sum("mul(sub(@0,@1),2)", net.conv(net.x, 1, 1), net.conv(net.x, 3, 3))
    assert net.merged(total) == ["nn.Conv2d", "pnnx.Expression"]


def test_other_terms_and_functions_stay() -> None:
    net = Net(9, 8)
    other = net.conv(net.x, 3, 3)
    last = net.conv(other, 1, 1)
    expr = "add(relu(add(add(@0,@1),@2)),mul(@2,@3))"
    total = net.sum(expr, net.conv(net.x, 3, 1), net.conv(net.x, 1, 3), net.x, last)
    assert net.merged(total, other) == ["nn.Conv2d", "nn.Conv2d", "nn.Conv2d", "nn.Conv2d", "pnnx.Expression"]
    net = Net(9, 8)
    other = net.conv(net.x, 3, 3)
    total = net.sum(expr, net.conv(net.x, 3, 3), net.conv(net.x, 1, 3), net.x, other)
    assert net.merged(total) == ["nn.Conv2d", "nn.Conv2d", "pnnx.Expression"]


@pytest.mark.parametrize("space, kind", [((11,), "nn.BatchNorm1d"), ((5, 6, 7), "nn.BatchNorm3d")])
def test_one_and_three_dimensions(space: tuple[int, ...], kind: str) -> None:
    net = Net(*space)
    wide = net.conv(net.x, *[3] * len(space), groups=2)
    narrow = net.conv(net.x, *[1] * len(space), groups=2)
    total = net.sum("add(@0,add(@1,@2))", net.norm(net.x, kind), narrow, wide)
    assert net.merged(total) == [f"nn.Conv{len(space)}d"]


def test_strides_and_dilations() -> None:
    net = Net(9, 8)
    wide = net.conv(net.x, 5, 5, out=4, stride=(2, 2))
    dilated = net.conv(net.x, 3, 3, out=4, stride=(2, 2), dilation=(2, 2), padding=(2, 2))
    narrow = net.conv(net.x, 1, 1, out=4, stride=(2, 2))
    assert net.merged(net.sum("add(add(@0,@1),@2)", narrow, dilated, wide)) == ["nn.Conv2d"]


def test_windows_whose_results_agree_in_size_by_chance_stay() -> None:
    net = Net(8, 8)
    pair = [net.conv(net.x, k, k, stride=(2, 2), padding=(0, 0)) for k in (2, 1)]
    assert net.merged(net.sum("add(@0,@1)", *pair)) == ["nn.Conv2d", "nn.Conv2d", "pnnx.Expression"]


def test_the_norm_behind_the_sum_folds() -> None:
    net = Net(9, 8)
    total = net.sum("add(@0,@1)", net.conv(net.x, 3, 3), net.conv(net.x, 1, 1))
    assert net.merged(net.norm(total)) == ["nn.Conv2d"]


def test_branches_that_do_not_fit_stay() -> None:
    net = Net(9, 8)
    pairs = [
        (net.conv(net.x, 3, 3), net.conv(net.x, 3, 3, groups=2)),
        (net.conv(net.x, 3, 3), net.conv(net.x, 3, 3, dilation=(2, 2), padding=(2, 2))),
        (net.conv(net.x, 3, 3), net.conv(net.conv(net.x, 1, 1), 3, 3)),
        (net.norm(net.x), net.norm(net.x)),
        (net.conv(net.x, 3, 3), net.x),
    ]
    before = [op.type for op in net.graph.ops[1:]]
    outputs = [net.sum("add(@0,@1)", *pair) for pair in pairs]
    assert net.merged(*outputs) == before + ["pnnx.Expression"] * len(pairs)


def test_results_that_something_else_reads_stay() -> None:
    net = Net(9, 8)
    one, two, three = (net.conv(net.x, 3, 3) for _ in range(3))
    total = net.sum("add(add(@0,@1),mul(@0,@2))", one, two, three)
    assert net.merged(total, two) == ["nn.Conv2d"] * 3 + ["pnnx.Expression"]


@pytest.mark.parametrize(
    "damage",
    [
        {"weight": (CHANNELS, 5, 1, 1)},
        {"weight": (CHANNELS, CHANNELS, 1)},
        {"bias": (3,)},
        {"stride": "1"},
        {"groups": 0},
        {"dilation": (0, 1)},
        {"padding": (1,)},
        {"weight": (CHANNELS, CHANNELS, 0, 1)},
        {"padding_mode": "circular"},
    ],
)
def test_damaged_branches_are_left_to_lowering(damage: dict[str, Any]) -> None:
    net = Net(9, 8)
    net.sum("add(@0,@1)", net.conv(net.x, 3, 3), net.conv(net.x, 1, 1))
    narrow = net.graph.ops[2]
    for key, value in damage.items():
        if key in narrow.attrs:
            narrow.attrs[key] = net._normal(*value)
        else:
            narrow.params[key] = value
    assert not merge_branches(net.graph)


def test_inputs_that_do_not_exist() -> None:
    net = Net(9, 8)
    net.sum("add(add(@0,@1),@7)", net.conv(net.x, 3, 3), net.conv(net.x, 1, 1))
    assert not merge_branches(net.graph)
