"""Generated modules under PyTorch: every conformance case gives its golden output."""

from __future__ import annotations

import importlib
import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from archives import arrays
from generated import arrays_of, module, runs_alike, torch
from low_level_graphs import LOW_LEVELS

from pnnx_fast import Attribute, Graph, Model, ncnn
from pnnx_fast.demo import load_digits, model_path
from pnnx_fast.errors import ParameterError

DATA = Path(os.environ.get("PNNX_FAST_DATA", "missing")) / "conformance" / "cases"
CASES = sorted(path.parent for path in DATA.glob("*/*/golden.npz") if (path.parent / "model.pnnx.param").exists())


def _difference(folder: Path, work: Path) -> str | None:
    meta = json.loads((folder / "meta.json").read_text())
    golden = arrays(folder / "golden.npz")
    Graph.load(folder / "model.pnnx.param").python(work / "m.py", folder / "model.pnnx.bin")
    inputs = [torch.tensor(golden[f"in{i}"]) for i in range(sum(k.startswith("in") for k in golden))]
    outputs = [golden[f"out{i}"] for i in range(sum(k.startswith("out") for k in golden))]
    with torch.no_grad():
        got = arrays_of(module(work / "m.py")["Model"]().eval()(*inputs))
    if len(got) != len(outputs):
        return f"{len(got)} outputs instead of {len(outputs)}"
    for a, b in zip(got, outputs, strict=True):
        if a.squeeze().shape != b.squeeze().shape or a.dtype.kind != b.dtype.kind:
            return f"{a.dtype}{a.shape} instead of {b.dtype}{b.shape}"
        if meta.get("random"):
            continue
        scale = np.abs(b[np.isfinite(b)]).max(initial=1.0)
        if not np.allclose(
            a.reshape(b.shape), b, rtol=0, atol=(2e-2 if meta.get("bf16") else 1e-4) * scale, equal_nan=True
        ):
            return "other values"
    return None


@pytest.mark.filterwarnings("ignore")
@pytest.mark.skipif(not CASES, reason="no conformance cases here")
def test_generated_modules_give_the_golden_outputs(tmp_path: Path) -> None:
    faults = {}
    for folder in CASES:
        try:
            fault = _difference(folder, tmp_path)
        except Exception as error:
            fault = f"{type(error).__name__}: {error}"
        if fault:
            faults["/".join(folder.parts[-2:])] = fault
    assert not faults


@pytest.mark.filterwarnings("ignore")
def test_module_runs_with_its_own_weights_and_exports(tmp_path: Path) -> None:
    lines = ["7767517", "3 2", "pnnx.Input in 0 1 x #x=(2,4)f32", "pnnx.Output out 1 0 y", ""]
    graph = Graph.parse("\n".join(lines[:3] + ["F.softmax s 1 1 x y dim=1 $input=x"] + lines[3:]))
    graph.python(tmp_path / "m.py")
    space = module(tmp_path / "m.py")
    y = space["test_inference"]()
    assert y.shape == (2, 4)
    space["export_torchscript"](str(tmp_path / "m.pt"))
    assert torch.allclose(torch.jit.load(str(tmp_path / "m.pt"))(*space["ready"]()[1]), y)
    # The exporter needs no package beyond PyTorch, but reading the file back would.
    space["export_onnx"](str(tmp_path / "m.onnx"))
    assert (tmp_path / "m.onnx").stat().st_size > 0


@pytest.mark.filterwarnings("ignore")
def test_quantized_modules(tmp_path: Path) -> None:
    grid = "scale=0.05 zero_point=100"
    graph = Graph.parse(
        "7767517\n5 4\npnnx.Input in 0 1 x #x=(1,3,6,6)f32\n"
        f"nn.quantized.Quantize q 1 1 x a dtype=torch.quint8 {grid}\n"
        "nn.quantized.Conv2d c 1 1 a b in_channels=3 out_channels=4 kernel_size=(3,3) stride=(1,1) padding=(1,1) "
        f"dilation=(1,1) groups=1 padding_mode=zeros {grid}\n"
        "torch.dequantize d 1 1 b y $input=b\npnnx.Output out 1 0 y\n"
    )
    rng = np.random.default_rng(0)
    graph.ops[2].attrs = {
        "weight": Attribute(rng.integers(-100, 100, (4, 3, 3, 3)).astype(np.int8)),
        "bias": Attribute(rng.standard_normal(4).astype(np.float32)),
        "weight.q_per_channel_scales": Attribute(rng.uniform(0.001, 0.01, 4)),
        "weight.q_per_channel_zero_points": Attribute(np.zeros(4, np.int64)),
    }
    text = runs_alike(graph, tmp_path, rng.uniform(-2, 2, (1, 3, 6, 6)).astype(np.float32), tolerance=0.051)
    assert "set_weight_bias(torch._make_per_channel_quantized_tensor(" in text
    graph.ops[2].attrs["weight"] = Attribute(np.zeros((4, 3, 3, 3), np.float32))
    with pytest.raises(ParameterError, match="needs integer weights"):
        graph.python(tmp_path / "float.py")


@pytest.mark.filterwarnings("ignore")
def test_operators_of_torchscript(tmp_path: Path) -> None:
    graph = Graph.parse(
        "7767517\n6 5\npnnx.Input in_0 0 1 x #x=(2,3)f32\npnnx.Input in_1 0 1 y #y=(2,3)f32\n"
        "prim::Constant c 0 1 v value=2\naten::addcmul a 4 1 x y y v z #z=(2,3)f32\naten::add b 3 1 z x v w\n"
        "pnnx.Output out 1 0 w\n"
    )
    rng = np.random.default_rng(0)
    text = runs_alike(graph, tmp_path, rng.standard_normal((2, 3), np.float32), rng.standard_normal((2, 3), np.float32))
    assert text.count("def aten(") == 1


@pytest.mark.filterwarnings("ignore")
def test_shared_modules_take_their_input_alone(tmp_path: Path) -> None:
    graph = Graph.parse(
        "7767517\n4 3\npnnx.Input in 0 1 x #x=(3)i64\npnnx.Attribute w 0 1 w @data=(5,2)f32 #w=(5,2)f32\n"
        "nn.Embedding e 2 1 w x y embedding_dim=2 num_embeddings=5 sparse=False @weight=(5,2)f32\n"
        "pnnx.Output out 1 0 y\n"
    )
    weight = Attribute(np.arange(10, dtype=np.float32).reshape(5, 2))
    graph.ops[1].attrs["data"] = graph.ops[2].attrs["weight"] = weight
    runs_alike(graph, tmp_path, np.array([0, 4, 2]))


@pytest.mark.filterwarnings("ignore")
def test_an_ellipsis_that_was_dropped(tmp_path: Path) -> None:
    graph = Graph.parse(
        "7767517\n4 3\npnnx.Input in_0 0 1 x #x=(2,3,4)f32\npnnx.Input in_1 0 1 y #y=(2,4,5)f32\n"
        "torch.einsum e 2 1 x y z equation=ik,kj->ij\npnnx.Output out 1 0 z\n"
    )
    rng = np.random.default_rng(0)
    arrays = rng.standard_normal((2, 3, 4), np.float32), rng.standard_normal((2, 4, 5), np.float32)
    assert "...ik,...kj->...ij" in runs_alike(graph, tmp_path, *arrays)


@pytest.mark.filterwarnings("ignore")
def test_pairs_that_do_not_lie_side_by_side(tmp_path: Path) -> None:
    graph = Graph.parse(
        "7767517\n4 3\npnnx.Input in 0 1 x #x=(2,3)f32\ntorch.transpose t 1 1 x y dim0=0 dim1=1 $input=x #y=(3,2)f32\n"
        "torch.view_as_complex c 1 1 y z $input=y #z=(3)c64\npnnx.Output out 1 0 z\n"
    )
    runs_alike(graph, tmp_path, np.float32([[1, 2, 3], [4, 5, 6]]))


@pytest.mark.filterwarnings("ignore")
def test_only_one_of_a_tuple(tmp_path: Path) -> None:
    graph = Graph.parse(
        "7767517\n4 3\npnnx.Input in 0 1 x #x=(1,3)f32\ntorch.unbind u 1 1 x y dim=0 $input=x #y=(3)f32\n"
        "torch.chunk c 1 1 y z chunks=1 dim=0 $input=y #z=(3)f32\npnnx.Output out 1 0 z\n"
    )
    assert runs_alike(graph, tmp_path, np.float32([[1, 2, 3]])).count(")[0]") == 2


@pytest.mark.filterwarnings("ignore")
def test_modules_of_torchvision(tmp_path: Path) -> None:
    graph = Graph.parse(
        "7767517\n4 3\npnnx.Input in_0 0 1 x #x=(1,3,8,8)f32\npnnx.Input in_1 0 1 r #r=(2,5)f32\n"
        "torchvision.ops.RoIAlign a 2 1 x r y aligned=True output_size=(3,3) sampling_ratio=2 spatial_scale=0.5\n"
        "pnnx.Output out 1 0 y\n"
    )
    graph.python(tmp_path / "m.py")
    text = (tmp_path / "m.py").read_text("utf-8")
    assert "import torchvision" in text
    assert "self.a = torchvision.ops.RoIAlign(aligned=True, output_size=(3, 3), sampling_ratio=2" in text
    try:
        importlib.import_module("torchvision")
    except Exception:  # one that was built for another PyTorch fails in ways of its own
        pytest.skip("torchvision cannot be imported")
    boxes = np.float32([[0, 1, 1, 9, 9], [0, 0, 2, 12, 15]])
    runs_alike(graph, tmp_path, np.random.default_rng(0).standard_normal((1, 3, 8, 8), np.float32), boxes)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.skipif(shutil.which("pnnx") is None, reason="there is no pnnx here")
def test_export_through_pnnx(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pnnx")
    monkeypatch.chdir(tmp_path)
    graph = Graph.load(model_path())
    graph.python(tmp_path / "digits.py")
    space = module(tmp_path / "digits.py")
    picture = load_digits().pictures[:1]
    wanted = Model(graph)(picture)
    for export, stem in ((space["export_pnnx"], "one"), (space["export_ncnn"], "two")):
        export(str(tmp_path / f"{stem}.pt"))
        np.testing.assert_allclose(Model(Graph.load(tmp_path / f"{stem}.pnnx.param"))(picture), wanted, atol=1e-4)
    net = ncnn.Net()
    assert net.load_param(str(tmp_path / "two.ncnn.param")) == 0
    assert net.load_model(str(tmp_path / "two.ncnn.bin")) == 0
    with net.create_extractor() as extractor:
        extractor.input("in0", ncnn.Mat(picture[0]))
        _, y = extractor.extract("out0")
    np.testing.assert_allclose(np.asarray(y).ravel(), wanted.ravel(), atol=2e-2)


@pytest.mark.filterwarnings("ignore")
def test_types_that_the_converter_left_out(tmp_path: Path) -> None:
    graph = Graph.parse(
        "7767517\n6 4\n"
        "pnnx.Input x 0 1 x #x=(4)f32\n"
        "pnnx.Input n 0 1 n #n=(4)i64\n"
        "torch.cumsum c 1 1 x y dim=0 $input=x #x=(4)f32 #y=(4)i32\n"
        "pnnx.Expression e 1 1 n z expr=add(div(@0,3),1) #n=(4)i64 #z=(4)i64\n"
        "pnnx.Output o 1 0 y\npnnx.Output p 1 0 z\n"
    )
    graph.python(tmp_path / "typed.py")
    y, z = module(tmp_path / "typed.py")["Model"]()(torch.ones(4), torch.tensor([5, 3, -4, 8]))
    assert y.dtype == torch.int32
    assert z.tolist() == [2, 2, -1, 3]


@pytest.mark.filterwarnings("ignore")
def test_files_of_low_levels(tmp_path: Path) -> None:
    graph = Graph.parse(
        "7767517\n12 11\n"
        "pnnx.Input x 0 1 x #x=(2,3)f32\n"
        "pnnx.Attribute n 0 1 a @data=(3)f32 #a=(3)f32\n"
        "pnnx.Attribute n 0 1 b @data=(3)f32 #b=(3)f32\n"
        "prim::Constant c0 0 1 eps value=(3)\n"
        "F.layer_norm f 4 1 x a b eps h eps=1.000000e-5 $input=x $weight=a $bias=b $normalized_shape=eps #h=(2,3)f32\n"
        "prim::Constant c1 0 1 one value=1\n"
        "prim::Constant c2 0 1 two value=2\n"
        "prim::Constant c3 0 1 zero value=0\n"
        "Tensor.slice s 5 1 h one zero two one p $input=h $dim=one $start=zero $end=two $step=one #h=(2,3)f32 "
        "#p=(2,2)f32\n"
        "prim::ListConstruct l 2 1 p x m #p=(2,2)f32 #x=(2,3)f32\n"
        "torch.cat t 2 1 m one y $tensors=m $dim=one #y=(2,5)f32\n"
        "pnnx.Output o 1 0 y #y=(2,5)f32\n"
    )
    for i in (1, 2):
        graph.ops[i].attrs["data"] = Attribute(np.float32([1, -2, 3]) * i)
    x = np.random.default_rng(0).standard_normal((2, 3), np.float32)
    runs_alike(graph, tmp_path, x)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "body",
    [
        "prim::Constant c 0 1 d value=1\ntorch.stack s 3 1 a b d y $dim=d #a=(2,3)f32 #b=(2,3)f32 #y=(2,2,3)f32\n",
        "prim::Constant c 0 1 e value=ij,kj->ik\nprim::ListConstruct l 2 1 a b m\n"
        "torch.einsum s 2 1 e m y #y=(2,2)f32\n",
        "Tensor.slice p 1 1 b v dim=1 end=2 start=1 step=1 $input=b #b=(2,3)f32 #v=(2,1)f32\n"
        "Tensor.copy s 2 1 a v y #a=(2,3)f32 #y=(2,3)f32\n",
        "Tensor.slice_copy s 1 1 a y dim=1 end=2 start=1 step=1 src=0.5 $self=a #a=(2,3)f32 #y=(2,3)f32\n",
        "prim::Constant c 0 1 i value=inf\nTensor.to t 1 1 i v copy=False dtype=torch.float $input=i\n"
        "pnnx.Expression s 2 1 a v y expr=add(@0,@1) #a=(2,3)f32 #y=(2,3)f32\n",
        "Tensor.select r 1 1 a row dim=0 index=1 $input=a #a=(2,3)f32 #row=(3)f32\n"
        "Tensor.slice p 1 1 row v dim=0 end=3 start=1 step=1 $input=row #v=(2)f32\n"
        "Tensor.select q 1 1 b w dim=1 index=0 $input=b #b=(2,3)f32 #w=(2)f32\n"
        "Tensor.copy s 2 1 v w y #y=(2,3)f32\n",
        "pnnx.Expression n 0 1 d expr=None\npnnx.Expression k 0 1 e expr=False\n"
        "pnnx.Expression g 2 1 a b t expr=gt(@0,@1) #a=(2,3)f32 #b=(2,3)f32 #t=(2,3)bool\n"
        "aten::any s 3 1 t d e u #t=(2,3)bool #u=(2,3)bool\npnnx.Expression m 2 1 a u y expr=mul(@0,@1) #y=(2,3)f32\n",
    ],
    ids=["dimension", "equation", "copy", "number into a view", "method of a number", "copy into a view", "truth"],
)
def test_operands_in_the_place_of_parameters_and_writes(body: str, tmp_path: Path) -> None:
    names = {word for line in body.splitlines() for word in line.split()[4:] if "=" not in word} | {"a", "b"}
    graph = Graph.parse(
        f"7767517\n{body.count(chr(10)) + 3} {len(names)}\npnnx.Input in_0 0 1 a #a=(2,3)f32\n"
        f"pnnx.Input in_1 0 1 b #b=(2,3)f32\n{body}pnnx.Output out 1 0 y\n"
    )
    random = np.random.default_rng(0)
    runs_alike(graph, tmp_path, *(random.standard_normal((2, 3), np.float32) for _ in range(2)))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("slots", ["input=-3.5 $condition=m $other=x", "other=2 $condition=m $input=x"])
def test_numbers_of_where(tmp_path: Path, slots: str) -> None:
    graph = Graph.parse(
        "7767517\n4 3\npnnx.Input in_0 0 1 x #x=(2,3)f32\npnnx.Input in_1 0 1 m #m=(2,3)bool\n"
        f"torch.where w 2 1 m x y {slots} #y=(2,3)f32\npnnx.Output out 1 0 y\n"
    )
    mask = np.array([[True, False, True], [False, False, True]])
    runs_alike(graph, tmp_path, np.random.default_rng(0).standard_normal((2, 3), np.float32), mask)


def test_an_index_of_one_element_as_a_number(tmp_path: Path) -> None:
    graph = Graph.parse("""7767517
7 6
pnnx.Input in 0 1 x #x=(2,4)f32
pnnx.Input v 0 1 v #v=(2,1)f32
pnnx.Expression one 0 1 i expr=1 #i=(1)i64
pnnx.Expression list 1 1 i k expr=[None,@0] #i=(1)i64
Tensor.index_put put 3 1 x k v y accumulate=False $input=x $indices=k $values=v #x=(2,4)f32 #y=(2,4)f32
nn.GroupNorm norm 1 1 y z affine=False eps=1.000000e-5 num_groups=2 #y=(2,4)f32 #z=(2,4)f32
pnnx.Output out 1 0 z
""")
    runs_alike(graph, tmp_path, np.arange(8, dtype=np.float32).reshape(2, 4), np.ones((2, 1), np.float32))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("call", "params"),
    [
        ("Tensor.reshape", "shape=()"),
        ("torch.reshape", "shape=()"),
        ("torch.flip", "dims=()"),
        ("torch.amax", "dim=()"),
    ],
)
def test_empty_lists(tmp_path: Path, call: str, params: str) -> None:
    shape, result = ("()", "()") if call == "torch.amax" else ("(1,1)", "()" if "shape" in params else "(1,1)")
    graph = Graph.parse(
        f"7767517\n3 2\npnnx.Input in 0 1 x #x={shape}f32\n{call} op 1 1 x y {params} $input=x "
        f"#x={shape}f32 #y={result}f32\npnnx.Output out 1 0 y\n"
    )
    runs_alike(graph, tmp_path, np.full((1, 1) if shape != "()" else (), 3, np.float32))


RESTORED = {
    "an extreme that kept its axes": ("torch.max", "", "(1,1)f32"),
    "an entry of a list": ("Tensor.select", "dim=1 index=1", "(2,1)f32"),
    "a bound that was rounded towards zero": ("Tensor.slice", f"dim=1 start=-2 end={2**63 - 1} step=1", "(2,3)f32"),
    "a product of all": ("torch.prod", "dim=None keepdim=False", "(1)f32"),
    "a product of all that keeps axes": ("torch.prod", "dim=None keepdim=True", "(1,1)f32"),
    "a product of another type": ("torch.prod", "dim=(0,1) keepdim=True", "(1,1)f64"),
    "a sum of exponentials of all": ("torch.logsumexp", "dim=() keepdim=False", "(1)f32"),
    "a sum of exponentials of all that keeps axes": ("torch.logsumexp", "dim=() keepdim=True", "(1,1)f32"),
}
"""What the notes at operands tell, and lists of no dimensions that stand for all."""


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", RESTORED)
def test_what_notes_tell(tmp_path: Path, name: str) -> None:
    call, params, noted = RESTORED[name]
    graph = Graph.parse(
        f"7767517\n3 2\npnnx.Input in 0 1 x #x=(2,5)f32\n{call} op 1 1 x y {params} $input=x "
        f"#x=(2,5)f32 #y={noted}\npnnx.Output out 1 0 y\n"
    )
    runs_alike(graph, tmp_path, np.random.default_rng(0).standard_normal((2, 5), np.float32))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", LOW_LEVELS)
def test_operators_as_low_levels_write_them(tmp_path: Path, name: str) -> None:
    graph = Graph.parse(LOW_LEVELS[name])
    rng = np.random.default_rng(0)
    shapes = [op.outputs[0].shape or () for op in graph.ops if op.type == "pnnx.Input"]
    runs_alike(graph, tmp_path, *(rng.standard_normal(shape).astype(np.float32) for shape in shapes))


@pytest.mark.parametrize(
    "line, size",
    [
        ("Tensor.expand t 1 1 n a sizes=(5) $input=n", "5"),
        ("Tensor.reshape t 1 1 n a shape=(1,1) $input=n", "1,1"),
        ("torch.unsqueeze t 1 1 n a dim=0 $input=n", "1"),
        ("torch.unsqueeze t 1 1 n a dim=(0,1) $input=n", "1,1"),
        ("torch.sqrt t 1 1 n a $input=n", ""),
        ("torch.sum t 1 1 n a $input=n", ""),
        ("torch.stack t 2 1 n n a dim=0", "2"),
        ("aten::broadcast_tensors t 1 2 l a b", ""),
    ],
)
def test_tensors_without_dimensions_that_are_numbers_in_the_file(line: str, size: str, tmp_path: Path) -> None:
    """So the converter writes them at level 1."""
    unpack = ["prim::ListUnpack u 1 2 t a b"] if "broadcast" in line else []
    ops = [
        "pnnx.Input i 0 1 x #x=(2,3)f32",
        "pnnx.Expression n 1 1 x n expr=log(mul(1.5,size(@0,1)))",
        *(["pnnx.Expression l 0 1 l expr=[5.000000e-01,1.0]"] if unpack else []),
        f"{line.replace('1 2 l a b', '1 1 l t')}" + ("" if unpack else f" #a=({size})f32"),
        *unpack,
        "torch.sum s 1 1 a r $input=a #r=()f32",
        "pnnx.Expression y 2 1 x r y expr=add(@0,@1) #y=(2,3)f32",
        "pnnx.Output o 1 0 y",
    ]
    outputs = sum(int(op.split()[3]) for op in ops)
    graph = Graph.parse("\n".join(["7767517", f"{len(ops)} {outputs}", *ops, ""]))
    runs_alike(graph, tmp_path, np.random.default_rng(0).standard_normal((2, 3), np.float32))


def test_names_that_are_not_ascii(tmp_path: Path) -> None:
    graph = Graph.parse(
        "7767517\n3 2\npnnx.Input in 0 1 x #x=(2,4)f32\n"
        "nn.Linear größe 1 1 x y bias=False in_features=4 out_features=3 @weight=(3,4)f32\npnnx.Output out 1 0 y\n"
    )
    rng = np.random.default_rng(0)
    graph.ops[1].attrs["weight"] = Attribute(rng.random((3, 4), np.float32))
    runs_alike(graph, tmp_path, rng.random((2, 4), np.float32))


@pytest.mark.parametrize(
    "line",
    [
        "F.linear f 2 1 x w y bias=0.5 $input=x $weight=w",
        "F.layer_norm f 1 1 x y bias=0.5 eps=1.0e-05 normalized_shape=(1) weight=2.0 $input=x",
    ],
)
def test_weights_of_one_entry_that_are_numbers_in_the_file(line: str, tmp_path: Path) -> None:
    ops = ["pnnx.Input i 0 1 x #x=(3,1)f32", "pnnx.Attribute w 0 1 w @data=(1,1)f32 #w=(1,1)f32"]
    graph = Graph.parse("\n".join(["7767517", "4 3", *ops, line, "pnnx.Output o 1 0 y", ""]))
    graph.ops[1].attrs["data"] = Attribute(np.float32([[2]]))
    runs_alike(graph, tmp_path, np.float32([[-1], [0], [2]]))


def test_a_split_into_as_many_parts_as_there_are(tmp_path: Path) -> None:
    graph = Graph.parse(
        "7767517\n4 4\npnnx.Input i 0 1 x #x=(2,6)f32\n"
        "torch.split s 1 2 x a b dim=1 $tensor=x #a=(2,3)f32 #b=(2,3)f32\n"
        "pnnx.Expression e 2 1 a b y expr=sub(@0,@1) #y=(2,3)f32\npnnx.Output o 1 0 y\n"
    )
    graph.ops[1].params["split_size_or_sections"] = None
    runs_alike(graph, tmp_path, np.arange(12, dtype=np.float32).reshape(2, 6))
