"""Stacks of channels-last tensors, and reductions of them, keep channels side by side and every value in its place."""

from __future__ import annotations

import numpy as np
import pytest

import pnnx_fast

SHAPE = (2, 37, 5, 6)


def build(dim: int, reduction: str, axes: list[int], keepdim: bool) -> pnnx_fast.Graph:
    """Two poolings, whose results are channels last, stacked, reduced."""
    graph = pnnx_fast.Graph()
    x, p, q, s, y = (graph.new_operand(name) for name in "xpqsy")
    graph.new_operator("pnnx.Input", "in", outputs=[x])
    for k, out in ((1, p), (3, q)):
        window = {"kernel_size": k, "stride": 1, "padding": k // 2, "dilation": 1, "ceil_mode": False}
        params = {**window, "return_indices": False}
        graph.new_operator("nn.MaxPool2d", f"pool{k}", inputs=[x], outputs=[out], params=params)
    graph.new_operator("torch.stack", "stack", inputs=[p, q], outputs=[s], params={"dim": dim})
    over = {"dim": axes, "keepdim": keepdim}
    graph.new_operator(reduction, "reduce", inputs=[s], outputs=[y], inputnames=["input"], params=over)
    graph.new_operator("pnnx.Output", "out0", inputs=[s])
    graph.new_operator("pnnx.Output", "out1", inputs=[y])
    return graph


@pytest.mark.parametrize("dim", [0, 1, 2, -1])
@pytest.mark.parametrize(
    "reduction, function",
    [("torch.sum", np.sum), ("torch.mean", np.mean), ("torch.amax", np.max), ("torch.prod", np.prod)],
)
@pytest.mark.parametrize("axes, keepdim", [([1], False), ([1], True), ([0, 2], False), ([2], True), ([3, 4], False)])
def test_stacks_and_reductions(dim: int, reduction: str, function, axes: list[int], keepdim: bool) -> None:
    if reduction == "torch.prod":
        axes = axes[:1]
    x = np.random.default_rng(5).standard_normal(SHAPE).astype(np.float32)
    padded = np.pad(x, [(0, 0), (0, 0), (1, 1), (1, 1)], constant_values=-np.inf)
    pooled = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3)).max((-1, -2))
    stack = np.stack([x, pooled], dim)
    want = function(stack.astype(np.float64), axis=tuple(axes), keepdims=keepdim)
    model = pnnx_fast.Model(build(dim, reduction, axes if reduction != "torch.prod" else axes[0], keepdim), 1)
    got, y = model(x)
    np.testing.assert_array_equal(got, stack)
    np.testing.assert_allclose(y, want, atol=1e-5 * max(1, np.abs(want).max()))
