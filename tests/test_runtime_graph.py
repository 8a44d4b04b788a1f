"""The staged interface: stages, views, batches, codes of errors, expression layers, layers of one's own."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pnnx_fast.demo import load_digits, model_path
from pnnx_fast.errors import ExpressionError, ParameterError
from pnnx_fast.runtime_graph import (
    ExpressionLayer,
    ExpressionParser,
    GraphState,
    InferStatus,
    Layer,
    LayerRegisterer,
    ParseParameterAttrStatus,
    RuntimeDataType,
    RuntimeGraph,
    RuntimeParameterType,
    StatusCode,
    StatusError,
    TokenType,
)

PARAM = model_path()
BIN = PARAM.with_suffix(".bin")


@pytest.fixture
def graph() -> RuntimeGraph:
    built = RuntimeGraph(PARAM, BIN, num_threads=1)
    built.build()
    return built


def write(folder: Path, text: str) -> Path:
    path = folder / "model.pnnx.param"
    path.write_text("7767517\n" + text, "utf-8")
    return path


def test_stages() -> None:
    graph = RuntimeGraph()
    assert graph.graph_state is GraphState.NEED_INIT == -2
    with pytest.raises(StatusError):
        graph.build()
    graph.set_param_path(PARAM)
    graph.set_bin_path(BIN)
    assert (graph.param_path, graph.bin_path) == (str(PARAM), str(BIN))
    graph.init()
    assert graph.graph_state is GraphState.NEED_BUILD
    with pytest.raises(StatusError, match="build"):
        graph.forward()
    graph.build()
    graph.build()
    assert graph.graph_state is GraphState.COMPLETE
    graph.param_path = "nothing.pnnx.param"
    assert graph.graph_state is GraphState.NEED_INIT
    with pytest.raises(StatusError, match="cannot read"):
        graph.init()


def test_forward_gives_a_list_of_samples(graph: RuntimeGraph) -> None:
    digits = load_digits()
    graph.set_inputs("pnnx_input_0", list(digits.pictures[:5]))
    with pytest.raises(StatusError) as caught:
        graph.get_outputs("pnnx_output_0")
    assert caught.value.infer_status is InferStatus.FAILED_OUTPUTS_EMPTY
    graph.forward()
    found = graph.get_outputs("pnnx_output_0")
    assert len(found) == 5
    np.testing.assert_allclose(found, digits.probabilities[:5], atol=1e-5)
    graph.set_inputs("pnnx_input_0", digits.pictures[5:7])
    graph.forward()
    np.testing.assert_allclose(graph.get_outputs("pnnx_output_0"), digits.probabilities[5:7], atol=1e-5)


def test_inner_values_and_times(graph: RuntimeGraph, capsys: pytest.CaptureFixture[str]) -> None:
    graph.set_inputs("pnnx_input_0", list(load_digits().pictures[:2]))
    graph.forward(debug=True)
    assert "convbn2d_1" in capsys.readouterr().out
    assert all(t.seconds >= 0 for t in graph.layer_times)
    assert len(graph.layer_times) > 5
    ops = {op.name: op for op in graph.operators}
    assert all(op.has_forward for op in ops.values())
    (conv,) = ops["stem.2"].input_operands_seq
    (relu,) = ops["stem.2"].output_operands
    assert len(relu.datas) == 2
    np.testing.assert_allclose(relu.datas[1], np.maximum(conv.datas[1], 0))


def test_views(graph: RuntimeGraph) -> None:
    ops = {op.name: op for op in graph.operators}
    conv = ops["convbn2d_0"]
    assert conv.type == "nn.Conv2d"
    assert conv.params["kernel_size"].type is RuntimeParameterType.INT_ARRAY
    assert conv.params["kernel_size"].value == [3, 3]
    assert conv.params["bias"].value is True
    weight = conv.attribute["weight"]
    assert (weight.type, weight.shape, len(weight.weight_data)) == (RuntimeDataType.FLOAT32, (32, 1, 3, 3), 1152)
    assert weight.get().shape == (32, 1, 3, 3)
    with pytest.raises(StatusError):
        weight.get()
    add = ops["pnnx_expr_4"]
    assert list(add.input_operands) == ["stem.2", "convbn2d_2"]
    assert add.output_operand is not None
    assert (add.output_operand.shapes, add.output_operand.size()) == ((1, 32, 8, 8), 2048)
    assert ops["stem.2"].output_names == ["convbn2d_1", "pnnx_expr_4"]
    assert [op.start_time for op in graph.topo_operators] == list(range(1, 21))
    assert ops["stem.2"].end_time == ops["pnnx_expr_4"].start_time
    assert graph.is_input_op("pnnx_input_0")
    assert not graph.is_output_op("pnnx_input_0")


def test_an_operand_used_twice_is_there_twice(tmp_path: Path) -> None:
    text = "3 2\npnnx.Input a 0 1 x #x=(2,3)f32\npnnx.Expression e 2 1 x x y expr=add(@0,@1)\npnnx.Output o 1 0 y\n"
    graph = RuntimeGraph(write(tmp_path, text))
    graph.build()
    op = graph.operators[1]
    assert list(op.input_operands) == ["a", "a#1"]
    graph.set_inputs("a", [np.ones(3, np.float32)] * 2)
    graph.forward()
    assert graph.get_outputs("o")[1].tolist() == [2, 2, 2]


def test_a_module_that_is_called_twice_is_there_twice(tmp_path: Path) -> None:
    text = "4 3\npnnx.Input i 0 1 x #x=(2,3)f32\nnn.ReLU act 1 1 x a\nnn.ReLU act 1 1 a y\npnnx.Output o 1 0 y\n"
    graph = RuntimeGraph(write(tmp_path, text))
    graph.build()
    assert [op.input_operands_seq[0].name for op in graph.topo_operators[1:]] == ["x", "a", "y"]
    assert repr(graph).endswith("COMPLETE, 4 operators)")


@pytest.mark.parametrize("debug", [False, True])
@pytest.mark.parametrize("output", ["", "relu", "both"])
def test_a_model_that_returns_a_tuple_has_one_output_operator(tmp_path: Path, debug: bool, output: str) -> None:
    text = (
        "5 4\npnnx.Input in 0 1 x #x=(2,3)f32\nF.relu relu 1 1 x y\nF.sigmoid sigmoid 1 1 y z\n"
        "prim::TupleConstruct both 2 1 y z w\npnnx.Output out 1 0 w\n"
    )
    graph = RuntimeGraph(write(tmp_path, text), num_threads=1)
    graph.build(output_name=output or None)
    x = np.float32([[-1, 0, 1], [2, 3, 4]])
    graph.set_inputs("in", x)
    graph.forward(debug=debug)
    relu = np.maximum(x, 0)
    np.testing.assert_array_equal(graph.get_outputs("relu"), relu)
    if output != "relu":
        for name in ("both", "out") if not output else ("both",):
            y, z = zip(*graph.get_outputs(name), strict=True)
            assert len(y) == 2  # one a sample
            np.testing.assert_array_equal(y, relu)
            np.testing.assert_allclose(z, 1 / (1 + np.exp(-relu)), rtol=1e-6)


def test_samples_of_arrays_in_a_tuple(tmp_path: Path) -> None:
    text = (
        "7 7\npnnx.Input in 0 1 x #x=(2,3)f32\nF.relu relu 1 1 x y\npnnx.Expression n 1 1 x n expr=[@0,size(@0,1)]\n"
        "torch.sum sum 1 1 x s dim=(0) keepdim=False\nprim::TupleConstruct both 2 1 y n w\n"
        "prim::TupleConstruct odd 2 1 y s v\npnnx.Output out 2 0 w v\n"
    )
    graph = RuntimeGraph(write(tmp_path, text), num_threads=1)
    graph.build()
    x = np.float32([[-1, 0, 1], [2, 3, 4]])
    graph.set_inputs("in", list(x))
    graph.forward()
    samples = graph.get_outputs("out")
    assert len(samples) == 2
    for i, (y, (same, number)) in enumerate(samples):
        np.testing.assert_array_equal(y, np.maximum(x[i], 0))
        np.testing.assert_array_equal(same, x[i])
        assert number == 3
    with pytest.raises(StatusError, match="the arrays of v are not of one batch: their shapes are") as caught:
        graph.get_outputs("odd")
    assert caught.value.status is StatusCode.INFER_DIM_MISMATCH


def test_build_with_names() -> None:
    graph = RuntimeGraph(PARAM, BIN)
    graph.build("pnnx_input_0", "stem.2")
    assert [op.type for op in graph.topo_operators] == ["pnnx.Input", "nn.Conv2d", "nn.ReLU", "pnnx.Output"]
    graph.set_inputs("pnnx_input_0", load_digits().pictures[:1])
    graph.forward()
    assert graph.get_outputs("stem.2")[0].shape == (32, 8, 8)
    with pytest.raises(StatusError):
        RuntimeGraph(PARAM, BIN).build("nobody")
    with pytest.raises(StatusError) as caught:
        RuntimeGraph(PARAM, BIN).build(None, "nobody")
    assert caught.value.status is StatusCode.PARSE_NULL_OPERATOR


@pytest.mark.parametrize(
    "operator, status, infer, parse",
    [
        ("my.op", StatusCode.FUNCTION_NOT_IMPLEMENT, InferStatus.FAILED_LAYER_NOT_IMPLEMENT, 0),
        ("F.max_pool2d", StatusCode.PARSE_PARAMETER_ERROR, InferStatus.FAILED_PARAMETER_ERROR, 3),
        ("nn.Linear", StatusCode.PARSE_WEIGHT_ERROR, InferStatus.FAILED_PARAMETER_ERROR, 22),
    ],
)
def test_codes_of_build(tmp_path: Path, operator: str, status: StatusCode, infer: InferStatus, parse: int) -> None:
    text = f"3 2\npnnx.Input a 0 1 x #x=(1,2,3,3)f32\n{operator} e 1 1 x y\npnnx.Output o 1 0 y\n"
    with pytest.raises(StatusError) as caught:
        RuntimeGraph(write(tmp_path, text)).build()
    assert (caught.value.status, caught.value.infer_status) == (status, infer)
    assert caught.value.parse_status == ParseParameterAttrStatus(parse)


def test_codes_of_inputs(graph: RuntimeGraph) -> None:
    with pytest.raises(StatusError) as caught:
        graph.forward()
    assert caught.value.status is StatusCode.INFER_INPUTS_EMPTY
    with pytest.raises(StatusError):
        graph.set_inputs("pnnx_input_0", [])
    with pytest.raises(StatusError) as caught:
        graph.set_inputs("pnnx_input_0", [np.zeros((1, 8, 8)), np.zeros((1, 8, 9))])
    assert caught.value.infer_status is InferStatus.FAILED_ARRAY_SIZE_MISMATCH


@pytest.mark.parametrize("given", [5, None, np.float32(3), np.array(3.0), [[1, [2]]]])
def test_inputs_that_are_no_samples_are_an_error_with_a_code(graph: RuntimeGraph, given: object) -> None:
    with pytest.raises(StatusError, match="pnnx_input_0 takes a list of arrays") as caught:
        graph.set_inputs("pnnx_input_0", given)  # type: ignore[arg-type]
    assert caught.value.infer_status is InferStatus.FAILED_ARRAY_SIZE_MISMATCH


def test_expression_layer() -> None:
    parser = ExpressionParser("mul(@0, add(@1,@0))")
    nodes = parser.generate()
    assert [n.num_index for n in nodes] == [0, 1, 0, TokenType.ADD, TokenType.MUL]
    assert nodes[-1].left is nodes[0]
    assert nodes[-1].right is nodes[3]
    assert ExpressionParser.reverse_polish(nodes[-1]) == nodes
    assert parser.tokens()[0].token_type is TokenType.MUL
    parser.tokenizer(retokenize=True)
    assert "".join(parser.token_str_array()) == "mul(@0,add(@1,@0))"
    layer = ExpressionLayer("mul(@0, add(@1,@0))")
    found = layer.forward([np.float32([2]), np.float32([3]), np.float32([5]), np.float32([7])], 2)
    assert [y.tolist() for y in found] == [[14], [30]]
    with pytest.raises(StatusError):
        layer.forward([], 1)
    with pytest.raises(ExpressionError):
        ExpressionParser("add(@0").generate()


def test_layer_registerer(tmp_path: Path) -> None:
    class Scale(Layer):
        def __init__(self, factor: float) -> None:
            super().__init__("scale")
            self.factor = factor

        def forward(self, inputs: list[np.ndarray], batch: int) -> list[np.ndarray]:  # type: ignore[type-arg,override]
            return [x * np.float32(self.factor) for x in inputs[:batch]]

    LayerRegisterer.register_creator(lambda parameters, _: Scale(parameters["factor"]), "test.scale")
    try:
        with pytest.raises(ParameterError, match="already"):
            LayerRegisterer.register_creator(lambda parameters, _: Scale(1.0), "nn.ReLU")
        assert "test.scale" in LayerRegisterer.layer_types()
        text = "3 2\npnnx.Input a 0 1 x #x=(2,3)f32\ntest.scale e 1 1 x y factor=3.0\npnnx.Output o 1 0 y\n"
        graph = RuntimeGraph(write(tmp_path, text))
        graph.build()
        graph.set_inputs("a", [np.ones(3, np.float32)] * 2)
        graph.forward()
        assert graph.get_outputs("o")[1].tolist() == [3, 3, 3]
    finally:
        LayerRegisterer.unregister("test.scale")
    assert "test.scale" not in LayerRegisterer.layer_types()
