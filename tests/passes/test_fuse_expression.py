"""Chains of element-wise operators become one expression."""

from __future__ import annotations

import numpy as np

import pnnx_fast
from pnnx_fast.expression.operators import FORMS
from pnnx_fast.passes import fuse_expression as fuse_module
from pnnx_fast.passes.fuse_expression import OTHERS, fuse_expression


def build(*rows):
    """A graph over inputs a and b; each row is (type, inputs, output, params)."""
    graph = pnnx_fast.Graph()
    for name in "ab":
        graph.new_operator("pnnx.Input", f"input_{name}", outputs=[graph.new_operand(name)])
    for kind, inputs, output, params in rows:
        operands = [graph.get_operand(x) for x in inputs]
        names = ["input", "other"][: len(inputs)] if kind.startswith(("F.", "torch.")) else []
        results = [graph.new_operand(output)]
        wiring = {"inputs": operands, "outputs": results, "inputnames": names}
        graph.new_operator(kind, f"op_{output}", params=params, **wiring)
    return graph


def finish(graph, *outputs):
    for name in outputs:
        graph.new_operator("pnnx.Output", f"output_{name}", inputs=[graph.get_operand(name)])
    return graph


def kinds(graph):
    return [op.type for op in graph.ops if op.type not in ("pnnx.Input", "pnnx.Output")]


def test_chain():
    graph = build(
        ("pnnx.Expression", "ab", "s", {"expr": "add(@0,mul(@1,2))"}),
        ("F.relu", "s", "r", {}),
        ("nn.LeakyReLU", "r", "q", {"negative_slope": 0.2}),
        ("torch.gt", "q", "t", {"other": 0.5}),
    )
    finish(graph, "t")
    assert fuse_expression(graph)
    assert kinds(graph) == ["pnnx.Expression"]
    (op,) = (op for op in graph.ops if op.type == "pnnx.Expression")
    assert op.params["expr"].value == "gt(leaky_relu(relu(add(@0,mul(@1,2))),0.2),0.5)"
    assert not fuse_expression(graph)


def test_values_with_other_readers_stay():
    graph = build(
        ("F.relu", "a", "r", {}),
        ("pnnx.Expression", "rb", "s", {"expr": "add(@0,@1)"}),
        ("F.sigmoid", "r", "t", {}),
    )
    finish(graph, "s", "t")
    assert not fuse_expression(graph)


def test_both_operands_and_repeated_inputs():
    graph = build(
        ("F.relu", "a", "r", {}),
        ("F.tanh", "b", "t", {}),
        ("pnnx.Expression", "rta", "s", {"expr": "sub(mul(@0,@1),mul(@2,@0))"}),
    )
    finish(graph, "s")
    a, b = (np.random.default_rng(i).normal(size=(3, 50)).astype(np.float32) for i in range(2))
    want = np.maximum(a, 0) * np.tanh(b) - a * np.maximum(a, 0)
    assert fuse_expression(graph)
    assert kinds(graph) == ["pnnx.Expression"]
    np.testing.assert_allclose(pnnx_fast.Model(graph, 1)(a, b), want, rtol=1e-5, atol=1e-6)


def test_growth_is_limited():
    rows = [("pnnx.Expression", "aa", "v0", {"expr": "mul(@0,@1)"})]
    graph = build(*rows)
    for i in range(12):
        x, y = graph.get_operand(f"v{i}"), graph.new_operand(f"v{i + 1}")
        graph.new_operator("pnnx.Expression", f"e{i}", inputs=[x, x], outputs=[y], params={"expr": "mul(@0,@1)"})
    finish(graph, "v12")
    fuse_expression(graph)
    assert 1 < len(kinds(graph)) < 6
    x = np.float32([0.999, 1.0])
    np.testing.assert_allclose(pnnx_fast.Model(graph, 1)(x, x), x.astype(np.float64) ** 8192, rtol=1e-2)


def test_what_is_not_element_wise_stays():
    graph = build(
        ("F.relu", "a", "r", {}),
        ("F.softmax", "r", "s", {"dim": 1}),
        ("F.relu", "s", "t", {}),
        ("F.rrelu", "t", "u", {}),
    )
    finish(graph, "u")
    assert not fuse_expression(graph)


def test_types_that_are_passed_over_are_no_expressions():
    assert not OTHERS & FORMS.keys()


def test_the_text_of_an_operator_is_read_once(monkeypatch):
    read = []
    expression = fuse_module._expression
    monkeypatch.setattr(fuse_module, "_expression", lambda op: read.append(op) or expression(op))
    chain = "abcdefgh"
    graph = finish(build(*(("F.relu", chain[i], chain[i + 1], {}) for i in range(1, 7))), "h")
    assert fuse_expression(graph)
    assert kinds(graph) == ["pnnx.Expression"]
    assert len(read) == len(set(read))
