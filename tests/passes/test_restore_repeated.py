"""Query, key or value that attention was given twice, of which the converter writes each tensor once."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import pnnx_fast
from pnnx_fast.ir.repeated import repeated_inputs
from pnnx_fast.passes import restore

SIZE = "(2,5,4)"
MOVED = "torch.transpose t0 1 1 {0} {1} dim0=0 dim1=1 $input={0} #{1}=(5,2,4)f32"
PICKED = "Tensor.select {1} 3 1 x dim zero {1} $input=x $dim=dim $index=zero #{1}=(5,4)f32"


def _graph(lines: list[str], inputs: str, *, noted: str = SIZE, features: str = "kdim=4 vdim=4") -> pnnx_fast.Graph:
    """Attention of inputs x, p and mask."""
    sizes = {"x": SIZE, "p": SIZE, "w": "(2,5,3)"}
    ops = [f"pnnx.Input {name} 0 1 {name} #{name}={size}f32" for name, size in sizes.items()]
    ops += ["pnnx.Input mask 0 1 mask #mask=(5,5)bool", *lines]
    given, count = inputs.replace("=", " ").split("$")[0].split(), inputs.split("$")[0].split()
    names = "".join(f" ${part}" for part in inputs.split("$")[1:])
    ops.append(
        f"nn.MultiheadAttention a {len(count)} 1 {' '.join(given)} y add_bias_kv=False add_zero_attn=False "
        f"batch_first=True bias=False embed_dim=4 num_heads=2 {features}{names} #y={noted}f32"
    )
    ops.append("pnnx.Output o 1 0 y")
    outputs = sum(int(line.split()[3]) for line in ops)
    return pnnx_fast.Graph.parse("\n".join(["7767517", f"{len(ops)} {outputs}", *ops, ""]))


def _taken(graph: pnnx_fast.Graph) -> list[str]:
    restore(graph)
    (op,) = (op for op in graph.ops if op.type == "nn.MultiheadAttention")
    return [x.name for x in op.inputs]


def _sum(text: str, inputs: str = "x p", noted: str = SIZE) -> str:
    return f"pnnx.Expression e {len(inputs.split())} 1 {inputs} q expr={text} #q={noted}f32"


ONE = "prim::Constant one 0 1 one value=1"
NUMBERS = ["pnnx.Expression zero 0 1 zero expr=0", "pnnx.Expression dim 0 1 dim expr=0"]


@pytest.mark.parametrize(
    "lines",
    [
        [_sum("add(@0,@1)")],
        [_sum("add(mul(@1,5.000000e-01),@0)")],
        [_sum("add(add(@0,3),@1)")],
        [ONE, f"aten::add e 3 1 x p one q #q={SIZE}f32"],
        [ONE, f"aten::add d 3 1 x p one s #s={SIZE}f32", f"aten::add e 3 1 s p one q #q={SIZE}f32"],
    ],
)
@pytest.mark.parametrize("inputs, rest", [("q x", []), ("mask q x $attn_mask=x", ["mask"])])
def test_a_query_that_is_a_sum_of_the_values_has_the_keys_position(
    lines: list[str], inputs: str, rest: list[str]
) -> None:
    with pytest.warns(UserWarning, match=r"MultiheadAttention a takes q for query and keys, and x, a term of it, for"):
        assert _taken(_graph(lines, inputs)) == ["q", "q", "x", *rest]


@pytest.mark.parametrize(
    "lines, inputs, noted",
    [
        ([_sum("add(@0,@1)"), MOVED.format("q", "qt"), MOVED.format("x", "xt")], "qt xt", "(5,2,4)"),
        (
            [*NUMBERS, PICKED.format("", "a1"), PICKED.format("", "a2"), _sum("add(@0,@1)", "a1 p", "(5,4)")],
            "q a2",
            "(5,4)",
        ),
    ],
)
def test_sums_are_seen_through_alike_views(lines: list[str], inputs: str, noted: str) -> None:
    """The lower levels write a view once for each of its uses."""
    query, value = inputs.split()
    with pytest.warns(UserWarning, match="for the values alone"):
        assert _taken(_graph(lines, inputs, noted=noted)) == [query, query, value]


@pytest.mark.parametrize(
    "lines, inputs",
    [
        ([_sum("add(@0,@1)")], "q"),
        ([_sum("add(@0,@1)")], "q q x"),
        ([_sum("add(@0,@1)")], "q x x"),
        ([_sum("add(@0,@1)")], "x q"),
        ([_sum("add(@0,@1)")], "q x $query=q $key=x"),
        ([_sum("mul(@0,@1)")], "q x"),
        ([_sum("add(@1,relu(@0))")], "q x"),
        ([_sum("add(@0,@1)"), f"F.relu r 1 1 q used #used={SIZE}f32", f"F.gelu g 1 1 q t #t={SIZE}f32"], "t x"),
        ([_sum("add(@0,@1)"), MOVED.format("q", "qt")], "qt x"),
    ],
)
def test_other_inputs_are_what_they_seem(lines: list[str], inputs: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert _taken(_graph(lines, inputs)) == inputs.split("$")[0].split()


@pytest.mark.parametrize(
    "inputs, features, taken",
    [
        ("x w", "kdim=4 vdim=3", ["x", "x", "w"]),
        ("x w", "kdim=3 vdim=4", ["x", "w", "x"]),
        ("x w", "kdim=3 vdim=3", ["x", "w"]),
        ("x w", "kdim=7 vdim=8", ["x", "w"]),
    ],
)
def test_numbers_of_features_tell_which_input_is_repeated(inputs: str, features: str, taken: list[str]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert _taken(_graph([], inputs, features=features)) == taken


def test_a_loop_of_sums_ends() -> None:
    graph = _graph([_sum("add(@0,@1)")], "q x")
    first, attention = graph.get_operand("q").producer, graph.ops[-2]
    assert first is not None
    first.set_inputs([graph.get_operand("q"), graph.get_operand("p")])
    attention.set_inputs(attention.inputs[:2])
    assert repeated_inputs(attention) is None


def test_results_and_source_are_those_of_the_layer_that_is_told_all() -> None:
    generator = np.random.default_rng(0)
    weights = {"in_proj_weight": (12, 4), "out_proj.weight": (4, 4)}
    attrs = {key: generator.standard_normal(shape).astype(np.float32) for key, shape in weights.items()}
    graphs = [_graph([_sum("add(@0,@1)")], inputs) for inputs in ("q x", "q q x")]
    for graph in graphs:
        graph.ops[-2].attrs = {key: pnnx_fast.Attribute(value) for key, value in attrs.items()}
    x, p, w = (generator.standard_normal((2, 5, n)).astype(np.float32) for n in (4, 4, 3))
    with pytest.warns(UserWarning, match="its results may be wrong"):
        models = [pnnx_fast.Model(graph) for graph in graphs]
    got, want = (model(x, p, w, np.zeros((5, 5), bool)) for model in models)
    np.testing.assert_array_equal(np.asarray(got), np.asarray(want))
