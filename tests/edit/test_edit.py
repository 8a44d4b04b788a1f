"""Editing keeps graphs valid and their results right."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import pnnx_fast
from pnnx_fast import Attribute, Graph, edit
from pnnx_fast.errors import GraphError, ParameterError, ShapeError


def net() -> Graph:
    """Convolution, activation, reshape with a traced batch, linear."""
    graph = Graph.parse(
        "7767517\n6 5\n"
        "pnnx.Input in 0 1 x #x=(2,3,4,4)f32\n"
        "nn.Conv2d conv 1 1 x a bias=False kernel_size=(1,1) in_channels=3 out_channels=2 #a=(2,2,4,4)f32\n"
        "F.relu act 1 1 a b $input=a #b=(2,2,4,4)f32\n"
        "Tensor.reshape flat 1 1 b c shape=(2,32) $input=b #c=(2,32)f32\n"
        "nn.Linear fc 1 1 c y bias=False in_features=32 out_features=5 #y=(2,5)f32\n"
        "pnnx.Output out 1 0 y\n"
    )
    rng = np.random.default_rng(0)
    graph.ops[1].attrs["weight"] = Attribute(rng.standard_normal((2, 3, 1, 1)).astype(np.float32))
    graph.ops[4].attrs["weight"] = Attribute(rng.standard_normal((5, 32)).astype(np.float32))
    return graph


def x(batch: int = 2) -> np.ndarray:
    return np.random.default_rng(batch).standard_normal((batch, 3, 4, 4)).astype(np.float32)


def run(graph: Graph, *arrays: np.ndarray) -> np.ndarray:
    graph.validate()
    return pnnx_fast.Model(graph, num_threads=1)(*arrays)


def test_extract_gives_the_parts_whose_composition_is_the_whole() -> None:
    graph = net()
    first, second = graph.extract(["x"], ["b"]), graph.extract(["b"], ["y"])
    assert np.array_equal(run(second, run(first, x())), run(graph, x()))
    graph.validate()
    with pytest.raises(GraphError, match="not among the inputs"):
        graph.extract(["c"], ["b"])
    with pytest.raises(GraphError, match="no operand 'nowhere'"):
        graph.extract(["nowhere"], ["y"])
    with pytest.raises(GraphError, match="x is among the inputs of the part more than once"):
        graph.extract(["x", "x"], ["y"])


def test_merge_joins_what_extract_cut() -> None:
    graph = net()
    whole = edit.merge(graph.extract(["x"], ["b"]), graph.extract(["b"], ["y"]), {"b": "b"})
    assert np.array_equal(run(whole, x()), run(graph, x()))
    assert sum(op.type == "pnnx.Output" for op in whole.ops) == 1


@pytest.mark.parametrize(
    ("first_names", "second_names", "expected"),
    [
        (["conv", "second_conv"], ["second_conv", "act"], ["second_second_conv", "act"]),
        (["conv", "act"], ["second_act", "act"], ["second_act", "second_second_act"]),
        (["conv", "act"], ["act", "act"], ["second_act", "second_act"]),
    ],
)
def test_merge_keeps_names_apart(first_names: list[str], second_names: list[str], expected: list[str]) -> None:
    first, second = net(), net()
    for graph, names in ((first, first_names), (second, second_names)):
        for op, name in zip(graph.ops[1:3], names, strict=True):
            op.name = name
    edit.rename(second, "a", "second_b")
    merged = edit.merge(first, second, {"x": "y"})
    assert [op.name for op in merged.ops[5:]] == [*expected, "second_flat", "second_fc", "out"]
    assert [op.outputs[0].name for op in merged.ops[5:8]] == ["second_b", "second_second_b", "second_c"]
    merged.validate()


@pytest.mark.parametrize(("source", "left"), [("y", "z"), ("z", "y")])
def test_merge_keeps_the_other_outputs_and_inputs_of_an_operator(source: str, left: str) -> None:
    first = Graph.parse(
        "7767517\n4 3\npnnx.Input i 0 1 x #x=(2)f32\nF.relu r 1 1 x y #y=(2)f32\n"
        "F.sigmoid s 1 1 x z #z=(2)f32\npnnx.Output o 2 0 y z\n"
    )
    second = Graph.parse(
        "7767517\n3 3\npnnx.Input i 0 2 a b #a=(2)f32 #b=(2)f32\n"
        "pnnx.Expression e 2 1 a b c expr=sub(@0,@1) #c=(2)f32\npnnx.Output o 1 0 c\n"
    )
    merged = edit.merge(first, second, {"a": source})
    assert [v.name for v in merged.outputs] == [left, "c"]
    assert [v.name for v in merged.inputs] == ["x", "b"]
    given, other = np.float32([-1, 2]), np.float32([3, 5])
    values = {"y": given.clip(0), "z": 1 / (1 + np.exp(-given))}
    results = pnnx_fast.Model(merged, num_threads=1)(given, other)
    np.testing.assert_allclose(results[0], values[left], rtol=1e-6)
    np.testing.assert_allclose(results[1], values[source] - other, rtol=1e-6)


def test_merge_takes_a_prefix() -> None:
    with pytest.raises(ParameterError, match="prefix"):
        edit.merge(net(), net(), {"x": "y"}, prefix="")


def test_insert_remove_replace_rename() -> None:
    graph = net()
    edit.insert(graph, "a", "F.sigmoid", "squash")
    edit.remove(graph, "act")
    edit.rename(graph, "conv", "stem")
    edit.rename(graph, "y", "scores")
    edit.replace(graph, "squash", "F.tanh")
    assert run(graph, x()).shape == (2, 5)
    assert [op.name for op in graph.ops] == ["in", "stem", "squash", "flat", "fc", "out"]
    with pytest.raises(GraphError, match="exists already"):
        edit.rename(graph, "stem", "fc")
    with pytest.raises(GraphError, match="operator fc exists already"):
        edit.insert(graph, "scores", "F.relu", "fc")
    with pytest.raises(GraphError, match="no input"):
        edit.remove(graph, "in")


def test_a_failed_insertion_leaves_the_graph() -> None:
    graph = net()
    with pytest.raises(ParameterError):
        edit.insert(graph, "a", "F.relu", "new", params={"k": {}})
    graph.validate()
    assert graph.diff(net()) == []


def test_an_inserted_operator_finds_a_free_name_for_its_result() -> None:
    graph = net()
    edit.rename(graph, "c", "a_new")
    assert edit.insert(graph, "a", "F.relu", "new").outputs[0].name == "a_new_1"
    graph.validate()


def test_make_dynamic_frees_the_batch_that_tracing_fixed() -> None:
    graph = net()
    with pytest.raises(ShapeError):
        run(graph, x(3))
    assert graph.make_dynamic() == []
    assert [graph.get_operand(n).shape for n in "xcy"] == [(-1, 3, 4, 4), (-1, 32), (-1, 5)]
    np.testing.assert_allclose(
        run(graph, x(3)), np.concatenate([run(graph, x(3)[i : i + 1]) for i in range(3)]), rtol=1e-5
    )


def test_make_dynamic_of_several_axes_computes_sizes() -> None:
    graph = Graph.parse(
        "7767517\n4 3\npnnx.Input in 0 1 x #x=(2,6,4)f32\nTensor.reshape r 1 1 x y shape=(2,3,2,4) $input=x\n"
        "Tensor.permute p 1 1 y z dims=(0,2,1,3) $input=y\npnnx.Output out 1 0 z\n"
    )
    assert graph.make_dynamic({"x": (0, 2)}) == []
    assert run(graph, np.zeros((5, 6, 7), np.float32)).shape == (5, 2, 3, 7)


def test_what_cannot_vary_is_an_error_that_names_it() -> None:
    graph = net()
    with pytest.raises(ShapeError, match="fc"):
        graph.make_dynamic({"x": (2,)})
    assert graph.diff(net()) == []
    with pytest.raises(ParameterError, match="no input 'w'; the inputs are 'x'"):
        net().make_dynamic({"w": (0,)})


@pytest.mark.parametrize("axis", [4, -5])
def test_axes_that_do_not_exist(axis: int) -> None:
    with pytest.raises(ParameterError, match=f"input x has 4 dimensions and no axis {axis}"):
        net().make_dynamic({"x": (0, axis)})


@pytest.mark.parametrize("axis", [4, -1])
def test_a_batch_along_no_axis(axis: int) -> None:
    with pytest.raises(ParameterError, match=f"no input has an axis {axis}"):
        net().change_batch(7, axis)


def test_one_name_is_not_a_list_of_names() -> None:
    with pytest.raises(TypeError, match="lists of names"):
        net().extract("x", ["y"])
    with pytest.raises(TypeError, match="such as \\['fuse_silu'\\]"):
        net().simplify("fuse_silu")
    with pytest.raises(TypeError, match=r"as {'x': \(0,\)}, not as 0"):
        net().make_dynamic({"x": 0})  # type: ignore[dict-item]
    with pytest.raises(TypeError, match="with a Graph, not with str"):
        net().diff("x")  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["", "a b", "a\n", "a=b"])
def test_names_that_files_cannot_hold(name: str) -> None:
    with pytest.raises(GraphError, match="is no name"):
        edit.rename(net(), "a", name)


def test_sizes_that_are_no_whole_numbers() -> None:
    graph = net()
    with pytest.raises(ParameterError, match="batch must be a whole number of at least 1, not 2"):
        graph.change_batch(2.5)  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="sizes of input x must be whole numbers"):
        graph.infer_shapes({"x": (1.5, *graph.ops[0].outputs[0].shape[1:])})  # type: ignore[dict-item]


def test_change_batch_and_infer_shapes() -> None:
    graph = net()
    assert graph.change_batch(7) == []
    assert run(graph, x(7)).shape == (7, 5)
    assert graph.get_operand("b").shape == (7, 2, 4, 4)
    graph.infer_shapes({"x": (1, 3, 4, 4)})
    assert graph.get_operand("y").shape == (1, 5)
    assert graph.get_operand("y").dtype == "f32"


@pytest.mark.parametrize(("dtype", "bound"), [("fp16", 2e-3), ("bf16", 2e-2), ("f32", 0)])
def test_weights_of_another_type_are_smaller_and_close(dtype: str, bound: float, tmp_path: Path) -> None:
    graph = net()
    other = graph.to(dtype)
    other.save(tmp_path / "m.pnnx.param")
    wanted, got = run(graph, x()), run(Graph.load(tmp_path / "m.pnnx.param"), x())
    assert np.abs(got - wanted).max() <= bound * np.abs(wanted).max()
    with pytest.raises(ParameterError):
        graph.to("i8")


@pytest.mark.parametrize(("dtype", "count"), [("f16", 2), ("bf16", 1)])
def test_weights_that_become_infinite_are_warned_of(dtype: str, count: int) -> None:
    graph = Graph.parse("7767517\n1 1\npnnx.Attribute k 0 1 k @data=(4)f32\n")
    graph.ops[0].attrs["data"] = Attribute(np.float32([1, 1e6, -3.4e38, -np.inf]))
    with pytest.warns(UserWarning, match=f"{count} numbers of data of pnnx.Attribute k are too large for {dtype}"):
        graph.to(dtype, constants=True)


def test_constants_may_be_converted_and_results_keep_their_type(tmp_path: Path) -> None:
    graph = Graph.parse(
        "7767517\n4 3\npnnx.Input in 0 1 x #x=(2,3)f32\npnnx.Attribute k 0 1 k @data=(3)f32 #k=(3)f32\n"
        "pnnx.Expression e 2 1 x k y expr=mul(@0,@1)\npnnx.Output out 1 0 y\n"
    )
    graph.ops[1].attrs["data"] = Attribute(np.float32([1, 0.1, 3]))
    assert graph.to("f16").ops[1].attrs["data"].dtype == "f32"
    other = graph.to("f16", constants=True)
    other.save(tmp_path / "m.pnnx.param")
    assert other.ops[1].attrs["data"].dtype == "f16"
    y = run(Graph.load(tmp_path / "m.pnnx.param"), np.ones((2, 3), np.float32))
    assert y.dtype == np.float32
    np.testing.assert_allclose(y[0], [1, 0.1, 3], rtol=1e-3)
    assert other.to("f32", constants=True).ops[1].attrs["data"].dtype == "f32"


def test_compare_reads_a_dump(tmp_path: Path) -> None:
    graph = net()
    np.savez(tmp_path / "dump.npz", y=run(graph, x()), other=np.zeros(3))
    rows = graph.compare(tmp_path / "dump.npz", x())
    assert [(row.operand, row.matches) for row in rows] == [("y", True)]


def test_compare_finds_the_first_operator_that_differs() -> None:
    graph, other = net(), net()
    assert all(row.matches for row in graph.compare(other, x()))
    other.ops[4].attrs["weight"] = Attribute(np.zeros((5, 32), np.float32))
    rows = graph.compare(other, x())
    assert next(row.operator for row in rows if not row.matches) == "fc"
    assert not graph.compare({"b": np.full((2, 2, 4, 4), np.nan, np.float32)}, x())[0].matches
    with pytest.raises(ParameterError, match="nothing to compare"):
        graph.compare({"elsewhere": x()}, x())
    with pytest.raises(TypeError, match="not int"):
        graph.compare(5, x())
    with pytest.raises(ParameterError, match="a tolerance is zero or more, not nan"):
        graph.compare(other, x(), tolerance=float("nan"))


@pytest.mark.parametrize("rest", ["pnnx.Output o 1 0 x", "prim::TupleConstruct t 2 1 x x y\npnnx.Output o 1 0 y"])
def test_compare_finds_nothing_where_a_graph_makes_no_tensors(rest: str) -> None:
    graph = Graph.parse(f"7767517\n{len(rest.splitlines()) + 1} 2\npnnx.Input in 0 1 x\n{rest}\n")
    assert graph.compare(graph, np.ones((2, 3), np.float32)) == []


def test_diff_tells_structure_parameters_and_weights() -> None:
    graph, other = net(), net()
    assert graph.diff(other) == []
    other.ops[4].attrs["weight"] = Attribute(np.zeros((5, 32), np.float32))
    other.ops[3].params["shape"] = (-1, 32)
    edit.remove(other, "act")
    lines = graph.diff(other)
    assert "- F.relu act" in lines
    assert "~ Tensor.reshape flat: shape (2,32) -> (-1,32)" in lines
    assert "~ nn.Linear fc: weight weight (5,32)f32 has other values" in lines


def test_operators_go_by_name() -> None:
    graph = net()
    with pytest.raises(TypeError, match="go by name, a str, not Operator"):
        edit.remove(graph, graph.ops[1])  # type: ignore[arg-type]
