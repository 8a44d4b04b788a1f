"""Files that read well and whose operators lack what every sound file has: errors of this package from all readers."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pnnx_fast import Attribute, Graph, Model
from pnnx_fast.errors import LimitError, MissingParameterError, ParameterError, PnnxFastError, ShapeError

BROKEN = [
    "Tensor.reshape r 1 1 x y",
    "Tensor.reshape r 0 1 y shape=(2,3)",
    "Tensor.slice r 0 1 y dim=0",
    "Tensor.slice r 1 1 x y dims=(0,1) starts=(0) ends=(1,1) steps=(1,1) selects=(0,0)",
    "Tensor.slice r 1 1 x y dims=(0) starts=(0) ends=(1) steps=(1)",
    "Tensor.slice r 1 1 x y dim=4611686018427387904 start=0 end=1 step=1",
    "Tensor.slice r 1 1 x y dim=1.5 start=0 end=1 step=1",
    "Tensor.slice r 2 1 x v y dims=(0,1) starts=(0,0) ends=(1) steps=(1,1) $ends=v",
    "Tensor.slice_copy r 1 1 x y dim=0 start=0 end=1 step=1",
    "Tensor.expand r 1 1 x y",
    "Tensor.index_put r 0 1 y",
    "Tensor.fill r 1 1 x y",
    "aten::copy r 2 1 v x y",
    "Tensor.copy r 1 1 x y",
    "pnnx.Attribute r 0 1 y",
    "pnnx.Expression r 2 1 x x y",
    "pnnx.Expression r 0 1 y",
    "nn.LSTM r 0 1 y input_size=4 hidden_size=4 num_layers=1",
    "nn.RNN r 1 1 x y input_size=3 hidden_size=4 num_layers=4611686018427387904",
    "nn.BatchNorm2d r 1 1 x y num_features=3",
    "nn.MultiheadAttention r 0 1 y embed_dim=4 num_heads=1",
    "prim::TupleUnpack r 0 1 y",
    "F.pad r 1 1 x y pad=(1,1) value=1",
    "F.one_hot r 1 1 x y num_classes=9223372036854775807",
    "pnnx.Output r 1 1 x y",
    "F.max_pool1d r 1 1 x y kernel_size=1 stride=1e30 padding=0 dilation=1 ceil_mode=False return_indices=False",
]
VIEW = "aten::view w 0 1 v"


def read(line: str) -> Graph:
    lines = ["pnnx.Input in 0 1 x #x=(2,3)f32", *([VIEW] if " v " in line else []), line, "pnnx.Output out 1 0 y"]
    return Graph.parse("\n".join(["7767517", f"{len(lines)} {len(lines) - 1}", *lines, ""]))


@pytest.mark.parametrize("line", BROKEN)
def test_no_other_exception(line: str, tmp_path: Path) -> None:
    steps: list[Callable[[Graph], Any]] = [
        lambda graph: Model(graph)(np.ones((2, 3), np.float32)),
        Graph.infer_shapes,
        Graph.simplify,
        lambda graph: graph.python(tmp_path / "m.py"),
    ]
    for step in steps:
        with contextlib.suppress(PnnxFastError):
            step(read(line))


def doubling(line: str, count: int = 60) -> Graph:
    """Operators of which each names the one before twice."""
    rows = [line.format(i=i, x=i, y=i + 1) for i in range(count)]
    rows = ["pnnx.Input in 0 1 0 #0=(2,3)f32", *rows, f"pnnx.Output out 1 0 {count}"]
    return Graph.parse("\n".join(["7767517", f"{len(rows)} {count + 1}", *rows, ""]))


@pytest.mark.parametrize(
    "line",
    ["prim::TupleConstruct t{i} 2 1 {x} {x} {y}", "prim::ListConstruct t{i} 2 1 {x} {x} {y}"]
    + ["prim::TupleConstruct t{i} 1 1 {x} {y}", "pnnx.Expression e{i} 1 1 {x} {y} expr=[@0,@0]"],
)
def test_lists_that_double_or_nest_without_end(line: str) -> None:
    graph = doubling(line, 3000 if " 1 1 {x} {y}" in line else 60)
    for optimize in (True, False):
        with pytest.raises(LimitError, match="lists and tuples"):
            Model(graph, optimize=optimize)(np.ones((2, 3), np.float32))
    with pytest.raises(LimitError, match="lists and tuples"):
        graph.infer_shapes()
    doubling(line).simplify()


def test_lists_in_lists_of_modest_size() -> None:
    graph = doubling("prim::TupleConstruct t{i} 2 1 {x} {x} {y}", 6)
    results = Model(graph)(np.ones((2, 3), np.float32))
    while isinstance(results, (list, tuple)):
        assert len(results) == 2
        results = results[1]
    assert np.array_equal(results, np.ones((2, 3)))


def test_merged_expressions_have_a_largest_size() -> None:
    graph = doubling("pnnx.Expression e{i} 1 1 {x} {y} expr=add(@0,@0)", 30)
    x = np.ones((2, 3), np.float32)
    expected = Model(graph)(x)
    graph.simplify()
    assert max(len(op.params["expr"].text) for op in graph.ops if op.type == "pnnx.Expression") < 5000
    assert np.array_equal(Model(graph)(x), expected)


def test_derivatives_of_an_order_without_end() -> None:
    graph = made_of(["prim::Constant c 0 1 n value=4611686018427387904", "aten::polygamma p 2 1 n x y"], "y")
    assert np.isnan(Model(graph)(np.full((2, 3), 2, np.float32))).all()
    graph.ops[1].params["value"] = 171
    assert np.isinf(Model(graph)(np.full((2, 3), 0.5, np.float32))).all()


def made_of(lines: list[str], outputs: str) -> Graph:
    lines = ["pnnx.Input in 0 1 x #x=(2,3)f32", *lines, f"pnnx.Output out {len(outputs.split())} 0 {outputs}"]
    return Graph.parse("\n".join(["7767517", f"{len(lines)} {len(lines)}", *lines, ""]))


@pytest.mark.parametrize(
    "graph",
    [
        lambda n: made_of([f"F.relu r{i} 1 1 x y{i}" for i in range(n)], " ".join(f"y{i}" for i in range(n))),
        lambda n: made_of([f"F.relu r{i} 1 1 x y{i}" for i in range(n)], "x"),
        lambda n: made_of([f"pnnx.Output o{i} 1 0 x" for i in range(n)], "x"),
    ],
    ids=["outputs", "unused readers", "operators of outputs"],
)
def test_opening_takes_linear_time(graph: Callable[[int], Graph]) -> None:
    """A hundred times what one operator takes is far from what each looking at all others takes."""
    times = []
    for n in (1000, 30_000):
        made = graph(n)
        start = time.process_time()
        Model(made, 1)
        times.append(time.process_time() - start)
    assert times[1] < 10 * 30 * max(times[0], 0.01)


def test_results_of_more_dimensions_than_numpy_has() -> None:
    lines = [f"torch.unsqueeze u{i} 1 1 {f'y{i - 1}' if i else 'x'} y{i} dim=0" for i in range(80)]
    model = Model(made_of(lines, "y79"))
    with pytest.raises(ShapeError, match=r"a result has more than (32|64) dimensions"):
        model(np.ones((2, 3), np.float32))


def test_operators_that_lack_something_are_named() -> None:
    with pytest.raises(PnnxFastError, match=r"nn\.Linear lost has no input"):
        Model(read("nn.Linear lost 0 1 y in_features=3 out_features=3 bias=False"))


def test_parameters_that_are_missing() -> None:
    params = read("F.relu r 1 1 x y a=1").ops[1].params
    with pytest.raises(ParameterError, match="the parameter 'b' is missing") as caught:
        params["b"]
    assert isinstance(caught.value, KeyError)
    assert isinstance(caught.value, MissingParameterError)
    assert params.get("b") is None


@pytest.mark.parametrize("bias", [(1,), (3,), (5,), (), (1, 4), (2, 2)])
@pytest.mark.parametrize(
    "kind, shape, weight",
    [
        ("F.conv1d", (1, 8, 5), (4, 8, 3)),
        ("F.conv2d", (1, 8, 5, 5), (4, 8, 3, 3)),
        ("F.conv_transpose1d", (1, 8, 5), (8, 4, 2)),
        ("F.linear", (2, 8), (4, 8)),
    ],
)
def test_biases_of_other_sizes(
    kind: str, shape: tuple[int, ...], weight: tuple[int, ...], bias: tuple[int, ...]
) -> None:
    """Kernels read as many numbers as there are channels; PyTorch broadcasts what is added to a product."""
    graph = Graph.parse(f"7767517\n3 2\npnnx.Input in 0 1 x\n{kind} r 1 1 x y $input=x\npnnx.Output out 1 0 y\n")
    weights = {"weight": np.zeros(weight, np.float32), "bias": np.full(bias, 3, np.float32)}
    graph.ops[1].attrs.update({key: Attribute(value) for key, value in weights.items()})
    if kind == "F.linear" and bias in ((1,), (), (1, 4)):
        np.testing.assert_array_equal(Model(graph)(np.ones(shape, np.float32)), np.full((2, 4), 3, np.float32))
    else:
        with pytest.raises(ShapeError, match="bias does not fit"):
            Model(graph)(np.ones(shape, np.float32))
