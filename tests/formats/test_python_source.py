"""Generated Python source, without PyTorch: it parses, names are valid and distinct, nothing in a file becomes code."""

from __future__ import annotations

import ast
from pathlib import Path

import numpy as np
import pytest

from pnnx_fast import Attribute, Graph
from pnnx_fast.edit import for_source
from pnnx_fast.errors import ParameterError, UnsupportedOperatorError
from pnnx_fast.formats.python_source import source


def _source(*lines: str) -> str:
    graph = Graph.parse("\n".join(["7767517", f"{len(lines) + 2} 99", "pnnx.Input in 0 1 x #x=(1,3,4,4)f32", *lines,
                                   "pnnx.Output out 1 0 y", ""]))  # fmt: skip
    text = source(for_source(graph), "'m.bin'")
    ast.parse(text)
    return text


def _statement(line: str) -> str:
    return next(x.strip() for x in _source(line).splitlines() if x.strip().startswith("v_y = "))


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("F.relu a 1 1 x y $input=x", "F.relu(v_x)"),
        ("pnnx.Expression e 1 1 x y expr=add(mul(@0,2),size(@0,1))", "((v_x * 2) + v_x.size(1))"),
        ("pnnx.Expression e 1 1 x y expr=maximum(@0,3)", "torch.maximum(v_x, torch.tensor(3))"),
        ("pnnx.Expression e 1 1 x y expr=mul(@0,add(pow(-2,2),square(-3.0)))",
         "(v_x * (((-2) ** 2) + ((-3.0) ** 2)))"),
        ("Tensor.reshape r 1 1 x y shape=(0,-1)", "v_x.reshape(v_x.size(0), -1)"),
        ("Tensor.slice s 1 1 x y dim=2 start=1 end=2147483647 step=2", "v_x[:, :, 1::2]"),
        ("Tensor.slice s 1 1 x y dims=(0,-1) starts=(0,1) ends=(2147483647,3) steps=(1,1) selects=(0,2147483647)",
         "v_x[0, ..., 1:3]"),
        ("Tensor.index i 1 1 x y expr=[None,None,[1,0]]", "v_x[:, :, [1, 0]]"),
        ("torch.unsqueeze u 1 1 x y dim=(0,-1)", "v_x.unsqueeze(-1).unsqueeze(0)"),
        ("F.pad p 1 1 x y mode=reflect pad=(1,1) value=None $input=x", "F.pad(v_x, mode='reflect', pad=(1, 1))"),
        ("F.pad p 1 1 x y mode=constant pad=(1,1) value=-inf $input=x",
         "F.pad(v_x, mode='constant', pad=(1, 1), value=float('-inf'))"),
        ("F.pad p 1 1 x y mode=reflect pad=(0,-1) value=None $input=x #x=(1,3,4,4)f32 #y=(1,3,4,6)f32",
         "F.pad(v_x, mode='reflect', pad=(0, 2))"),
        ("Tensor.to t 1 1 x y dtype=torch.half $input=x", "v_x.to(dtype=torch.half)"),
        ("F.adaptive_avg_pool2d p 1 1 x y output_size=(0,3)", "F.adaptive_avg_pool2d(v_x, output_size=(None, 3))"),
        ("torch.max m 1 1 x y dim=1 keepdim=False $input=x #y=(1,4,4)f32",
         "torch.max(v_x, dim=1, keepdim=False)[0]"),
        ("pnnx.custom_op.demo.twice c 1 1 x y arg_2=2 arg_1=0.5 $arg_0=x", "torch.ops.demo.twice(v_x, 0.5, 2)"),
        ("pnnx.custom_op.demo.twice.out c 1 1 x y factor=2 $input=x", "torch.ops.demo.twice.out(input=v_x, factor=2)"),
    ],
)  # fmt: skip
def test_statements(line: str, expected: str) -> None:
    assert _statement(line) == f"v_y = {expected}"


def test_the_package_of_a_custom_operator_is_imported() -> None:
    text = _source("pnnx.custom_op.torchvision.nms c 2 1 x x y arg_2=0.5 $arg_0=x $arg_1=x")
    assert "import torchvision\n" in text
    assert "v_y = torch.ops.torchvision.nms(v_x, v_x, 0.5)" in text


def test_names_stay_valid_and_distinct() -> None:
    text = _source(
        "nn.ReLU block1-0 1 1 x a.1", "nn.ReLU block1.0 1 1 a.1 a_1", "nn.ReLU 7 1 1 a_1 b", "nn.ReLU forward 1 1 b c",
        "nn.ReLU __init__ 1 1 c class", "nn.ReLU lambda 1 1 class y",
    )  # fmt: skip
    members = [x for x in ast.walk(ast.parse(text)) if isinstance(x, ast.Assign) and "nn.ReLU" in ast.unparse(x.value)]
    names = [ast.unparse(x.targets[0]) for x in members]
    assert len(set(names)) == 6
    assert not {"self.forward", "self.__init__"} & set(names)


@pytest.mark.parametrize(
    "line",
    [
        "torch.__import__('os').system a 1 1 x y", "F.relu;import a 1 1 x y", "torch.os.__class__ a 1 1 x y",
        "my.layer a 1 1 x y", "F.relu a 1 1 x y a;b=1", "os::system(1) a 1 1 x y",
        "pnnx.custom_op.demo a 1 1 x y", "pnnx.custom_op.a.__class__ a 1 1 x y", "pnnx.custom_op.a.b() a 1 1 x y",
        "pnnx.custom_op.a.b a 1 1 x y c()=1", "pnnx.custom_op.a.b.c.d a 1 1 x y",
        "torch.serialization.os.system a 1 1 x y command=ls", "torch.load a 1 1 x y", "torch.hub.load a 1 1 x y",
        "torch.jit.load a 1 1 x y f=x", "torch._dynamo a 1 1 x y", "torchvision.os.system a 1 1 x y",
        "torch.ops.load_library a 1 1 x y path=x.so", "nn.modules.module.torch.hub.load a 1 1 x y repo_or_dir=x",
        "nn.init.normal_ a 1 1 x y", "nn.parallel.os.System a 1 1 x y", "aten::__class__ a 1 1 x y",
        "aten::from_file a 1 1 x y", "__class__::mro a 1 1 x y", "Tensor.__reduce__ a 1 1 x y",
        "Tensor.numpy a 1 1 x y", "Tensor.tofile a 1 1 x y file=x", "torch.vmap a 1 1 x y func=x",
        "F.torch.load a 1 1 x y f=x",
    ],
)  # fmt: skip
def test_what_is_no_name_of_pytorch_is_refused(line: str) -> None:
    with pytest.raises((UnsupportedOperatorError, ParameterError)):
        _source(line)


def test_strings_stay_strings() -> None:
    assert "mode='torch.x()'" in _source("F.foo a 1 1 x y mode=torch.x()")
    assert "mode='torch.load'" in _source("F.foo a 1 1 x y mode=torch.load")


@pytest.mark.parametrize(
    "value",
    [
        "half",
        "float8_e4m3fn",
        "bfloat16",
        "quint4x2",
        "complex64",
        "cfloat",
        "channels_last",
        "preserve_format",
        "strided",
    ],
)
def test_dtypes_layouts_and_memory_formats_are_names(value: str) -> None:
    assert f"dtype=torch.{value}" in _source(f"Tensor.to a 1 1 x y dtype=torch.{value}")


def test_weights_are_written_beside_the_source(tmp_path: Path) -> None:
    graph = Graph.parse("7767517\n1 1\npnnx.Attribute w 0 1 x\n")
    graph.ops[0].attrs["data"] = Attribute(np.arange(3, dtype=np.float32))
    graph.python(tmp_path / "m.py")
    assert (tmp_path / "m_weights.bin").exists()
    assert "'m_weights.bin'" in (tmp_path / "m.py").read_text()


def test_a_graph_that_has_no_source_leaves_the_old_files(tmp_path: Path) -> None:
    graph = Graph.parse("7767517\n2 1\npnnx.Attribute w 0 1 x\nmy.layer a 1 1 x y\n")
    graph.ops[0].attrs["data"] = Attribute(np.arange(3, dtype=np.float32))
    (tmp_path / "m_weights.bin").write_bytes(b"old")
    with pytest.raises(UnsupportedOperatorError):
        graph.python(tmp_path / "m.py")
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("m_weights.bin", b"old")]


def test_constants_of_one_name_keep_their_data() -> None:
    """Also where the converter's run is repeated because it has changed another constant."""
    graph = Graph.parse(
        "7767517\n9 8\npnnx.Input in 0 1 x #x=(2,3)f32\npnnx.Attribute c 0 1 a\npnnx.Attribute c 0 1 b\n"
        "pnnx.Attribute pnnx_fold_z 0 1 z\npnnx.Attribute i 0 1 i\npnnx.Attribute s 0 1 s\n"
        "torch.scatter_add w 3 1 z i s w dim=0 $input=z $index=i $src=s #w=(2,3)f32\n"
        "pnnx.Expression e 4 1 x a b w y expr=add(add(mul(@0,@1),@2),@3) #y=(2,3)f32\npnnx.Output out 1 0 y\n"
    )
    fives = np.full((1, 3), 5, np.float32)
    data = [np.full((2, 3), 2, np.float32), np.full((2, 3), 10, np.float32), np.float32([[5, 5, 5], [0, 0, 0]])]
    for op, value in zip(graph.ops[1:6], [*data, np.zeros((1, 3), np.int64), fives], strict=True):
        op.attrs["data"] = Attribute(value)
        op.outputs[0].shape, op.outputs[0].dtype = op.attrs["data"].shape, op.attrs["data"].dtype
    mended = for_source(graph)
    found = [op.attrs["data"].numpy() for op in mended.ops[1:4]]
    np.testing.assert_array_equal(found, [*data[:2], np.zeros((2, 3))])


@pytest.mark.parametrize(
    ("outputs", "expected"),
    [
        ("1 1 x y #y=(1,3,5)f32", "v_y, _ = "),
        ("1 2 x y h #y=(1,3,5)f32 #h=(1,1,5)f32", "v_y, (v_h, _) = "),
        ("1 3 x y h c #y=(1,3,5)f32 #h=(1,1,5)f32 #c=(1,1,5)f32", "v_y, (v_h, v_c) = "),
        ("1 2 x h y #y=(1,3,5)f32 #h=(1,1,5)f32 pnnx_rnn_output_swapped=1", "v_y, (v_h, _) = "),
        ("1 2 x y c #y=(1,1,5)f32 #c=(1,1,5)f32", "_, (v_y, v_c) = "),
    ],
)
def test_states_of_recurrent_layers_that_nobody_reads(outputs: str, expected: str) -> None:
    graph = Graph.parse(
        f"7767517\n3 4\npnnx.Input in 0 1 x #x=(1,3,4)f32\nnn.LSTM r {outputs} batch_first=True input_size=4 "
        "hidden_size=5 num_layers=1 bidirectional=False bias=False\npnnx.Output out 1 0 y\n"
    )
    text = source(graph, "'m.bin'")
    assert expected + "self.r(v_x)" in text
    assert "swapped" not in text


def test_one_tensor_as_both_states_of_an_lstm() -> None:
    graph = Graph.parse(
        "7767517\n4 3\npnnx.Input in 0 1 x #x=(1,3,4)f32\npnnx.Input in1 0 1 h #h=(1,1,5)f32\nnn.LSTM r 2 1 x h y "
        "batch_first=True input_size=4 hidden_size=5 num_layers=1 bidirectional=False bias=False\n"
        "pnnx.Output out 1 0 y\n"
    )
    assert "v_y, _ = self.r(v_x, (v_h, v_h))" in source(graph, "'m.bin'")
