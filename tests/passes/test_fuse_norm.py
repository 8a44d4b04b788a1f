"""Normalisations written out in a model become one operator, others do not, and results stay as they are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pnnx_fast
from pnnx_fast.passes.fuse_norm import fuse_norm

SHAPE = (2, 24, 5, 6)


def build(square: str, top: str, *, dim: Any = 1, keepdim: bool = True, centred: bool = True) -> pnnx_fast.Graph:
    """x, its mean, the mean of a square of both, and an expression of x, mean, variance, weight and bias."""
    graph = pnnx_fast.Graph()
    axis = dim[0] if isinstance(dim, list) else dim
    vector = [1] * 4
    vector[axis] = SHAPE[axis]
    for name in "xmsvwby":
        operand = graph.new_operand(name)
        operand.dtype = "f32"
        operand.shape = SHAPE if name in "xsy" else tuple(vector) if name in "wb" else None
    x, m, s, v, w, b, y = (graph.get_operand(name) for name in "xmsvwby")
    graph.new_operator("pnnx.Input", "in", outputs=[x])
    rng = np.random.default_rng(1)
    for name, operand in (("scale", w), ("shift", b)):
        data = pnnx_fast.Attribute(rng.standard_normal(vector).astype(np.float32))
        graph.new_operator("pnnx.Attribute", name, outputs=[operand], attrs={"data": data})
    over = {"dim": dim, "keepdim": keepdim}
    graph.new_operator("torch.mean", "mean", inputs=[x], outputs=[m], inputnames=["input"], params=over)
    inputs = [x, m] if centred else [x]
    graph.new_operator("pnnx.Expression", "square", inputs=inputs, outputs=[s], params={"expr": square})
    graph.new_operator("torch.mean", "var", inputs=[s], outputs=[v], inputnames=["input"], params=over)
    graph.new_operator("pnnx.Expression", "top", inputs=[x, m, v, w, b], outputs=[y], params={"expr": top})
    graph.new_operator("pnnx.Output", "out", inputs=[y])
    return graph


LAYER = "div(sub(@0,@1),sqrt(add(@2,1e-6)))"
ROOT = "mul(rsqrt(add(@2,1e-5)),@0)"
CENTRED = "pow(sub(@0,@1),2)"


@pytest.mark.parametrize(
    "square, top, left",
    [
        (CENTRED, LAYER, 0),
        (CENTRED, f"add(mul(@3,{LAYER}),@4)", 0),
        ("mul(sub(@0,@1),sub(@0,@1))", f"add(@4,mul({LAYER},@3))", 0),
        (CENTRED, f"relu(add(mul(@3,{LAYER}),@4))", 1),
        (CENTRED, f"mul({LAYER},{LAYER})", 1),
        ("square(@0)", f"mul({ROOT},@3)", 1),
        ("pow(@0,2)", "div(@0,sqrt(add(@2,1e-5)))", 0),
    ],
)
@pytest.mark.parametrize("dim", [1, [1], -1])
def test_norms_become_one_operator(square: str, top: str, left: int, dim: Any) -> None:
    graph = build(square, top, dim=dim, centred="@1" in square)
    x = np.random.default_rng(2).standard_normal(SHAPE).astype(np.float32) + 0.5
    want = pnnx_fast.Model(graph, 1, optimize=False)(x)
    np.testing.assert_allclose(pnnx_fast.Model(graph, 1)(x), want, rtol=0, atol=3e-6 * np.abs(want).max())
    assert fuse_norm(graph)
    kinds = [op.type for op in graph.ops]
    assert kinds.count("fused.LayerNorm") == 1
    assert "torch.mean" not in kinds
    assert kinds.count("pnnx.Expression") == left
    assert not fuse_norm(graph)


@pytest.mark.parametrize(
    "square, top, options",
    [
        ("pow(sub(@0,@1),3)", LAYER, {}),
        ("pow(sub(@1,@0),2)", LAYER, {}),
        (CENTRED, "div(sub(@1,@0),sqrt(add(@2,1e-6)))", {}),
        (CENTRED, "div(sub(@0,@1),sqrt(add(@2,@3)))", {}),
        (CENTRED, "div(sub(@0,@1),add(@2,1e-6))", {}),
        (CENTRED, ROOT, {}),
        (CENTRED, LAYER, {"dim": 2}),
        (CENTRED, LAYER, {"dim": [1, 2]}),
    ],
)
def test_what_is_no_norm_stays(square: str, top: str, options: dict[str, Any]) -> None:
    assert not fuse_norm(build(square, top, **options))


def test_means_with_other_readers_stay() -> None:
    graph = build(CENTRED, LAYER)
    graph.new_operator("pnnx.Output", "also", inputs=[graph.get_operand("m")])
    x = np.random.default_rng(3).standard_normal(SHAPE).astype(np.float32)
    y, mean = pnnx_fast.Model(graph, 1)(x)
    np.testing.assert_allclose(mean, x.mean(1, keepdims=True), atol=1e-6)
    np.testing.assert_allclose(y, (x - mean) / np.sqrt(x.var(1, keepdims=True) + 1e-6), atol=1e-5)


@pytest.mark.parametrize("unbiased", [False, True])
def test_variances_that_are_operators(unbiased: bool) -> None:
    graph = build(CENTRED, LAYER)
    var = next(op for op in graph.ops if op.name == "var")
    var.set_input(0, graph.get_operand("x"))
    var.type, var.params["unbiased"] = "torch.var", unbiased
    graph.remove_operator(next(op for op in graph.ops if op.name == "square"))
    x = np.random.default_rng(4).standard_normal(SHAPE).astype(np.float32)
    want = (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True, ddof=unbiased) + 1e-6)
    np.testing.assert_allclose(pnnx_fast.Model(graph, 1)(x), want, atol=1e-5)
    assert fuse_norm(graph) is not unbiased
