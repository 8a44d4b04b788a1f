"""Element-wise operators: native steps and numpy steps, numbers, lists, layouts, cutting of large expressions."""

from __future__ import annotations

import numpy as np
import pytest
from graph_of_one import run

import pnnx_fast
from pnnx_fast.errors import ExpressionError, GraphError, ParameterError
from pnnx_fast.expression import evaluate
from pnnx_fast.expression.operators import FORMS

RNG = np.random.default_rng(0)
X = RNG.normal(size=(2, 6, 5, 7)).astype(np.float32) * 3
Y = RNG.normal(size=(6, 1, 1)).astype(np.float32)
IDS = RNG.integers(0, 9, (2, 11))
MASK = X > 0

PARAMS = {
    "nn.Threshold": {"threshold": 0.1, "value": 20.0}, "F.threshold": {"threshold": 0.1, "value": 20.0},
    "nn.Softplus": {"beta": 2.0, "threshold": 3.0}, "nn.Hardtanh": {"min_val": -0.5, "max_val": 0.25},
    "nn.ELU": {"alpha": 0.7}, "nn.CELU": {"alpha": 0.7}, "F.leaky_relu": {"negative_slope": 0.3},
    "nn.Hardshrink": {"lambd": 0.2}, "nn.Softshrink": {"lambd": 0.2}, "torch.clamp": {"min": -0.5, "max": 1.0},
    "F.gelu": {"approximate": "tanh"}, "Tensor.masked_fill": {"value": -np.inf}, "torch.masked_fill": {"value": 2.0},
}  # fmt: skip


@pytest.mark.parametrize("kind", sorted(FORMS))
@pytest.mark.parametrize("last", [False, True])
def test_every_type(kind, last):
    form = FORMS[kind]
    params = PARAMS.get(kind, {})
    names = [a.name for a in form.arguments if not a.is_number and a.name not in params and a.default is not None]
    arrays = [X, Y, X + Y][: len(names)]
    if form.function.startswith("bitwise"):
        arrays = [np.int64(a * 4) for a in arrays]
    if form.function in ("real", "imag"):
        arrays = [arrays[0] + 1j * arrays[0]]
    if form.function in ("where", "masked_fill"):
        arrays[form.function == "masked_fill"] = MASK
    values = [params.get(a.name, a.default) if a.name not in names else None for a in form.arguments]
    for name, array in zip(names, arrays, strict=True):
        values[[a.name for a in form.arguments].index(name)] = array
    function = "gelu_tanh" if params.get("approximate") else form.function
    want = evaluate(f"{function}({','.join(f'@{i}' for i in range(len(values)))})", values)
    given = {k: str(v) if v == -np.inf else v for k, v in params.items()}
    got = run(kind, *arrays, names=names, last=last, threads=2, **given)
    assert got.dtype == want.dtype
    np.testing.assert_allclose(got, want, rtol=2e-5, atol=1e-6)


def test_parameters_are_checked():
    with pytest.raises(ParameterError, match="approximate must be one of"):
        run("nn.GELU", X, approximate="quick")
    with pytest.raises(ParameterError, match="'threshold' is missing"):
        run("nn.Threshold", X, value=1.0)
    with pytest.raises(ParameterError, match="unknown parameter 'negativ_slope'"):
        run("nn.LeakyReLU", X, negativ_slope=1.0)
    with pytest.raises(GraphError, match=r"pnnx\.Expression \w+ has no 'expr'"):
        run("pnnx.Expression", X)


@pytest.mark.parametrize("shape", [(6,), (1,)])
@pytest.mark.parametrize("kind", ["nn.PReLU", "F.prelu"])
def test_prelu(kind, shape):
    weight = RNG.normal(size=shape).astype(np.float32)
    want = np.where(X > 0, X, X * weight.reshape(-1, 1, 1))
    got = (
        run(kind, X, weights={"weight": weight})
        if kind == "nn.PReLU"
        else run(kind, X, weight, names=["input", "weight"])
    )
    np.testing.assert_array_equal(got, want)
    rows = run("nn.PReLU", X[:, :, 0, 0], weights={"weight": weight})
    np.testing.assert_array_equal(rows, want[:, :, 0, 0])


def test_rrelu():
    np.testing.assert_allclose(
        run("nn.RReLU", X, lower=0.1, upper=0.3), np.where(X > 0, X, X * np.float32(0.2)), rtol=1e-6
    )


@pytest.mark.parametrize(
    "text, inputs",
    [
        ("sub(mul(@0,2),1)", [X]),
        ("div(sub(@0,@1),sqrt(add(square(@1),1.0e-5)))", [X, Y]),
        ("add(@0,mul(@1,-1.5))", [X, IDS[:, :1].reshape(2, 1, 1, 1)]),
        ("mul(@0,torch.float(ne(@1,3)))", [X[0, 0, :2], IDS[:, :7]]),
        ("rshift(@0,1)", [IDS]),
        ("floor_divide(@0,2)", [IDS]),
        ("mul(@0,1.0e+00+2.0e+00j)", [X]),
        ("torch.double(@0)", [X]),
        ("add(log1p,@0,1)", [np.abs(X)]),
        ("and(gt(@0,0),@1)", [X, MASK]),
        ("@0", [X]),
        ("torch.float(@0)", [X]),
        ("torch.float(@0)", [MASK]),
        ("add(@0,@1)", [np.float32(2.5).reshape(()), X]),
        ("add(@0,@1)", [X[:0], X[:0]]),
        ("add(@0,1)", [X.astype(np.float16)]),
    ],
)
def test_expressions(text, inputs):
    want = evaluate(text, inputs)
    got = run("pnnx.Expression", *inputs, expr=text, threads=2)
    assert got.dtype == want.dtype
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


def test_numbers_and_lists_stay_python_values():
    assert run("pnnx.Expression", X, expr="[size(@0,1),mul(size(@0,2),2),-1]") == [6, 10, -1]
    assert run("pnnx.Expression", X, expr="size(@0)") == list(X.shape)
    assert run("pnnx.Expression", X, expr="-1") == -1
    assert run("pnnx.Expression", X, expr="False") is False
    values = run("pnnx.Expression", X, expr="[mul(@0,2),size(@0,0)]")
    np.testing.assert_array_equal(values[0], X * 2)
    assert values[1] == 2


def test_errors_show_the_expression():
    with pytest.raises(ExpressionError, match=r"do not broadcast\n  neg\(add\(@0,@1\)\)\n      \^"):
        run("pnnx.Expression", X, X[:, :4], expr="neg(add(@0,@1))")
    with pytest.raises(ExpressionError, match="there is no function 'foo'"):
        run("pnnx.Expression", X, expr="foo(@0)")


def test_large_expressions_are_cut_into_steps():
    text = "@0"
    for i in range(90):
        text = f"add(mul({text},0.9),sin(@{i % 20}))"
    inputs = [X[:, :, 0] * (i + 1) for i in range(20)]
    np.testing.assert_allclose(run("pnnx.Expression", *inputs, expr=text), evaluate(text, inputs), rtol=1e-4, atol=1e-4)


def test_many_numbers_fit_a_step():
    text = "@0"
    for i in range(90, 0, -1):
        text = f"clamp({text},{-i / 32},{i / 32 + 1 / 64})"
    x = X.astype(np.float16)
    np.testing.assert_array_equal(run("pnnx.Expression", x, expr=text), evaluate(text, [x]))


def graph_of(text, *weights):
    """A graph of one input and constants that an expression reads."""
    graph = pnnx_fast.Graph()
    operands = [graph.new_operand("x")]
    graph.new_operator("pnnx.Input", "input", outputs=operands)
    for i, weight in enumerate(weights):
        operands.append(graph.new_operand(f"w{i}"))
        attrs = {"data": pnnx_fast.Attribute(weight)}
        graph.new_operator("pnnx.Attribute", f"weight{i}", outputs=operands[-1:], attrs=attrs)
    y = graph.new_operand("y")
    graph.new_operator("pnnx.Expression", "op", inputs=operands, outputs=[y], params={"expr": text})
    graph.new_operator("pnnx.Output", "output", inputs=[y])
    return graph


def test_parts_that_are_constant_or_small_are_computed_apart():
    x = RNG.normal(size=(64, 700)).astype(np.float32)
    weight = RNG.normal(size=700).astype(np.float32)
    text = "mul(@0,exp(mul(@1,2)))"
    model = pnnx_fast.Model(graph_of(text, weight), 1)
    np.testing.assert_allclose(model(x), x * np.exp(weight * 2), rtol=1e-5)
    labels = [step.label for step in model.profile(x).steps if "exp" in step.label]
    assert labels == []
    mean = x.mean(1, keepdims=True)
    got = run("pnnx.Expression", x, mean, expr="sub(@0,exp(@1))")
    np.testing.assert_allclose(got, x - np.exp(mean), rtol=1e-5, atol=1e-6)


def test_memory_order_follows_channels_last_operands():
    """A slice of channels has gaps between pixels, and still decides the order of the result."""
    graph = pnnx_fast.Graph()
    x, view, half, y = (graph.new_operand(n) for n in ("x", "view", "half", "y"))
    graph.new_operator("pnnx.Input", "input", outputs=[x])
    graph.new_operator("Tensor.permute", "view", inputs=[x], outputs=[view], params={"dims": [0, 3, 1, 2]})
    slice_params = {"dim": 1, "start": 2, "end": 5, "step": 1}
    graph.new_operator("Tensor.slice", "half", inputs=[view], outputs=[half], params=slice_params)
    graph.new_operator("F.relu", "relu", inputs=[half], outputs=[y])
    graph.new_operator("pnnx.Output", "output", inputs=[y])
    array = RNG.normal(size=(1, 30, 40, 6)).astype(np.float32)
    want = np.maximum(array[..., 2:5], 0).transpose(0, 3, 1, 2)
    np.testing.assert_array_equal(pnnx_fast.Model(graph, 2)(array), want)


@pytest.mark.parametrize("name", ["add", "sub", "mul", "eq", "ne", "lt", "le", "gt", "ge"])
@pytest.mark.parametrize("isa", ["generic", None])
def test_integers(name, isa):
    wide = RNG.integers(-5, 5, (3, 1, 5000))
    wide[0, 0, :2] = -(1 << 63), (1 << 63) - 1
    for a, b in ((IDS, IDS[::-1].copy()), (IDS, IDS[0]), (IDS[:, :1].copy(), IDS), (wide, IDS[:, :1].copy()), (IDS, 4)):
        arrays = [v for v in (a, b) if isinstance(v, np.ndarray)]
        text = f"{name}(@0,@1)" if len(arrays) == 2 else f"{name}(@0,{b})"
        with np.errstate(over="ignore"):
            want = evaluate(text, [a, b])
        got = run("pnnx.Expression", *arrays, isa=isa, expr=text)
        assert got.dtype == want.dtype
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("spelled", ["inf", "-inf", "nan", "-nan", "nan.0", "-nan.0"])
def test_numbers_that_are_not_finite_in_parameters(spelled: str) -> None:
    x, condition = np.array([1, 2, 3], np.float32), np.array([True, False, True])
    text = f"""7767517
    4 3
    pnnx.Input c 0 1 c #c=(3)bool
    pnnx.Input x 0 1 x #x=(3)f32
    torch.where a 2 1 c x a other={spelled} $condition=c $input=x
    pnnx.Output o 1 0 a
    """
    other = np.float32(spelled.removesuffix(".0"))
    np.testing.assert_array_equal(
        pnnx_fast.Model(pnnx_fast.Graph.parse(text))(condition, x), np.where(condition, x, other)
    )


@pytest.mark.parametrize("first, second", [("1.0", "1"), ("1", "1.0"), ("1", "True"), ("True", "1.0")])
def test_equal_numbers_of_other_types_are_told_apart(first: str, second: str) -> None:
    text = """7767517
    4 3
    pnnx.Input x 0 1 x #x=(3)bool
    torch.where a 1 1 x a input={0} other={0} $condition=x
    torch.where b 1 1 x b input={1} other={1} $condition=x
    pnnx.Output o 2 0 a b
    """
    results = pnnx_fast.Model(pnnx_fast.Graph.parse(text.format(first, second)))(np.array([True, False, True]))
    wanted = {"1.0": np.float32, "1": np.int64, "True": np.bool_}
    assert [r.dtype for r in results] == [wanted[first], wanted[second]]
