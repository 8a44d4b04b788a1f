"""Whole models: finding and binding weights, sources of every kind, saving that never leaves half a file."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import pnnx_fast
from pnnx_fast.errors import CycleError, FormatError, GraphError, ParameterError
from pnnx_fast.formats.store_zip import StoreZipReader, StoreZipWriter
from pnnx_fast.ir import Attribute, Graph, Operator

TEXT = b"""7767517
3 2
pnnx.Input               in0                      0 1 0 #0=(1,4)f32
nn.Linear                fc                       1 1 0 1 @bias=(2)f32 @weight=(2,4)f32 #0=(1,4)f32 #1=(1,2)f32
pnnx.Output              out0                     1 0 1 #1=(1,2)f32
"""
WEIGHT = np.arange(8, dtype=np.float32).reshape(2, 4)
BIAS = np.float32([-1, 1])


def weights(layout: str = "zip64", **entries: object) -> bytes:
    """An archive with the weights of TEXT; a keyword replaces one, None leaves it out."""
    file = io.BytesIO()
    with StoreZipWriter(file, layout=layout) as writer:  # type: ignore[arg-type]
        for name, data in ({"fc_bias": BIAS, "fc_weight": WEIGHT} | entries).items():
            if data is not None:
                writer.write(name.replace("_", "."), data)  # type: ignore[arg-type]
    return file.getvalue()


@pytest.fixture
def model(tmp_path: Path) -> Path:
    (tmp_path / "m.pnnx.param").write_bytes(TEXT)
    (tmp_path / "m.pnnx.bin").write_bytes(weights())
    return tmp_path / "m.pnnx.param"


def check(graph: Graph) -> None:
    attrs = graph.ops[1].attrs
    np.testing.assert_array_equal(attrs["weight"].numpy(), WEIGHT)
    np.testing.assert_array_equal(attrs["bias"].numpy(), BIAS)
    graph.validate()


def test_sources(model: Path) -> None:
    data = weights()
    check(Graph.load(model))
    check(Graph.load(str(model)))
    check(Graph.load(model.parent))
    check(Graph.load(model, data))
    check(Graph.load(TEXT, data))
    check(Graph.load(memoryview(TEXT), bytearray(data)))
    check(Graph.load(io.BytesIO(TEXT), io.BytesIO(data)))
    check(Graph.load(io.StringIO(TEXT.decode()), data))
    check(Graph.load(TEXT, model.with_suffix(".bin")))
    with open(model, "rb") as param, open(model.with_suffix(".bin"), "rb") as bin:
        check(Graph.load(param, bin))


def test_weights_are_views_of_the_mapped_file(model: Path) -> None:
    graph = Graph.load(model)
    array = graph.ops[1].attrs["weight"].numpy()
    assert not array.flags.owndata
    assert not array.flags.writeable
    del graph
    np.testing.assert_array_equal(array, WEIGHT)


def test_directories(tmp_path: Path, model: Path) -> None:
    (tmp_path / "m.ncnn.param").write_bytes(b"")
    check(Graph.load(tmp_path))
    (tmp_path / "n.pnnx.param").write_bytes(TEXT)
    with pytest.raises(FormatError, match=r"one .pnnx.param file in the directory, found m.pnnx.param, n.pnnx.param"):
        Graph.load(tmp_path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(FormatError, match="found none"):
        Graph.load(tmp_path / "empty")


def test_files_that_are_missing(model: Path, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Graph.load(tmp_path / "nothing.pnnx.param")
    model.with_suffix(".bin").unlink()
    with pytest.raises(FileNotFoundError, match=r"m.pnnx.bin: weights of .*m.pnnx.param not found"):
        Graph.load(model)
    with pytest.raises(FormatError, match=r"<memory>:4:\d+: weight fc.bias has no data, because no .bin was given"):
        Graph.load(TEXT)


@pytest.mark.parametrize(
    "param, message",
    [
        (3, "param is a path, bytes or a file object with the .param file, not int"),
        (None, "not NoneType"),
        (Graph(), "not Graph"),
        (TEXT.decode(), r"param is text, not a path: give text.encode\(\)"),
    ],
    ids=["int", "None", "graph", "text"],
)
def test_what_is_no_source(param: object, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        Graph.load(param, weights())


def test_weights_open_as_text(model: Path) -> None:
    with open(model.with_suffix(".bin"), encoding="latin-1") as file, pytest.raises(TypeError, match="mode 'rb'"):
        Graph.load(model, file)


def test_text_as_bytes_is_not_parsed() -> None:
    with pytest.raises(TypeError, match="as a str, not bytes"):
        Graph.parse(TEXT)  # type: ignore[arg-type]


def test_models_of_ncnn_are_told_apart(tmp_path: Path) -> None:
    (tmp_path / "net.param").write_bytes(b"7767517\n2 2\nInput in 0 1 x\nReLU act 1 1 x y 0=0.1\n")
    with pytest.raises(FormatError, match=r"net.param: this is a model of ncnn, which pnnx_fast.ncnn.Net loads"):
        Graph.load(tmp_path / "net.param")


@pytest.mark.parametrize(
    "name, content, reason",
    [
        ("net.pt", b"PK\3\4 and so on", "this is a zip archive; .*7767517. Convert this model with pnnx first"),
        ("net.onnx", b"\x08\x07pytorch", "expected the magic number .*. Convert this model with pnnx first"),
        ("net.param", b"\x08\x07pytorch", "expected the magic number 7767517, found '[^']*'"),
    ],
)
def test_models_that_are_not_converted_yet_are_told_apart(
    tmp_path: Path, name: str, content: bytes, reason: str
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(FormatError, match=f"{name}.*: {reason}$"):
        Graph.load(tmp_path / name)


def test_no_weights_need_no_file(tmp_path: Path) -> None:
    text = b"7767517\n1 1\npnnx.Input               in0                      0 1 0\n"
    assert len(Graph.load(text).ops) == 1
    (tmp_path / "m.pnnx.param").write_bytes(text)
    graph = Graph.load(tmp_path / "m.pnnx.param")
    graph.save(tmp_path / "n.pnnx.param")
    assert (tmp_path / "n.pnnx.bin").read_bytes()[:4] == b"PK\6\6"
    assert Graph.load(tmp_path / "n.pnnx.param").ops[0].name == "in0"


@pytest.mark.parametrize(
    "data, reason",
    [
        (weights(fc_weight=None), "4:72: weight fc.weight is missing in the .bin data"),
        (weights(fc_weight=WEIGHT[:1]), "4:72: weight fc.weight has 16 bytes in the .bin data, its shape needs 32"),
        (weights(fc_bias=b""), "4:59: weight fc.bias has 0 bytes in the .bin data, its shape needs 8"),
        (
            weights().replace(WEIGHT.tobytes(), (WEIGHT + 1).tobytes()),
            "4:72: weight fc.weight cannot be read: <memory> at byte 148: the CRC-32 of entry 'fc.weight' is 0x",
        ),
    ],
    ids=["missing", "short", "empty", "crc"],
)
def test_weights_that_do_not_fit(data: bytes, reason: str) -> None:
    with pytest.raises(FormatError) as caught:
        Graph.load(TEXT, data)
    assert str(caught.value).startswith("<memory>:" + reason)
    assert caught.value.line == 4


def test_errors_name_both_files(model: Path) -> None:
    model.with_suffix(".bin").write_bytes(weights(fc_bias=None))
    with pytest.raises(FormatError) as caught:
        Graph.load(model)
    assert str(caught.value) == f"{model}:4:59: weight fc.bias is missing in {model.with_suffix('.bin')}"


def test_verification_can_be_switched_off() -> None:
    data = weights().replace(WEIGHT.tobytes(), (WEIGHT + 1).tobytes())
    graph = Graph.load(TEXT, data, verify=False)
    np.testing.assert_array_equal(graph.ops[1].attrs["weight"].numpy(), WEIGHT + 1)


@pytest.mark.parametrize("names", [("a", "b.c", "a.b", "c"), ("a", "b", "a", "b")])
def test_two_weights_of_one_name(names: tuple[str, ...]) -> None:
    weight = f"{names[0]}.{names[1]}"
    text = "7767517\n2 0\nA {} 0 0 @{}=(2)f32\nA {} 0 0 @{}=(2)f32\n".format(*names)
    file = io.BytesIO()
    with StoreZipWriter(file, duplicates=True) as writer:
        writer.write(weight, BIAS)
        writer.write(weight, BIAS)
    graph = Graph.load(text.encode(), file.getvalue())
    graph.validate()
    again = io.BytesIO()
    graph.save(io.BytesIO(), again)
    assert again.getvalue() == file.getvalue()
    graph.ops[1].attrs[names[3]] = Attribute(BIAS + 1)
    with pytest.raises(GraphError, match=f"two different weights are called {weight}"):
        graph.save(io.BytesIO(), io.BytesIO())
    with pytest.raises(GraphError, match=f"another weight is called {weight}, too"):
        graph.validate()


@pytest.mark.parametrize(
    "text", ["@data=(2)f32|@data=(2)f32", "@data=(2)f32|@data=(1)f32", "@data=(1)f32|@data=(2)f32"]
)
def test_constants_of_one_name_have_an_entry_each(text: str) -> None:
    lines = [f"pnnx.Attribute norm 0 1 c{i} {data} #c{i}={data[6:]}" for i, data in enumerate(text.split("|"))]
    sizes = [int(data[7]) for data in text.split("|")]
    content = "\n".join(["7767517", "5 4", "pnnx.Input in 0 1 x #x=(2)f32", *lines]) + "\n"
    content += "pnnx.Expression e 3 1 x c0 c1 y expr=add(mul(@0,@1),@2) #y=(2)f32\npnnx.Output out 1 0 y\n"
    held = [np.arange(size, dtype=np.float32) + 3 * i + 1 for i, size in enumerate(sizes)]
    file = io.BytesIO()
    with StoreZipWriter(file, duplicates=True) as writer:
        for data in held:
            writer.write("norm.data", data)
    graph = Graph.load(content.encode(), file.getvalue())
    graph.validate()
    x = np.array([2, 5], np.float32)
    np.testing.assert_array_equal(pnnx_fast.Model(graph)(x), x * held[0] + held[1])
    again = io.BytesIO()
    graph.save(io.BytesIO(), again)
    assert again.getvalue() == file.getvalue()
    damaged = bytearray(file.getvalue())
    with StoreZipReader(bytes(damaged)) as reader:
        assert reader.count("norm.data") == 2
        assert [reader.size("norm.data", i) for i in (0, 1, -1)] == [4 * size for size in (*sizes, sizes[-1])]
    damaged[bytes(damaged).index(held[0].tobytes())] ^= 1
    with pytest.raises(FormatError, match="CRC-32"):
        Graph.load(content.encode(), bytes(damaged))


def test_two_weights_of_one_name_and_different_shape() -> None:
    text = b"7767517\n2 0\nA a 0 0 @b=(2)f32\nA a 0 0 @b=(1,2)f32\n"
    file = io.BytesIO()
    with StoreZipWriter(file) as writer:
        writer.write("a.b", BIAS)
    with pytest.raises(FormatError) as caught:
        Graph.load(text, file.getvalue())
    reason = "weight a.b has the name of a weight above, but not its shape (2)f32"
    assert str(caught.value) == f"<memory>:4:9: {reason}"


def test_zero_sized_weights_may_be_missing() -> None:
    text = b"7767517\n1 0\nA a 0 0 @e=(0,3)i64 @n=()null\n"
    graph = Graph.load(text, weights())
    assert graph.ops[0].attrs["e"].numpy().shape == (0, 3)
    assert graph.ops[0].attrs["n"].dtype is None
    out = io.BytesIO()
    graph.save(io.BytesIO(), out)
    assert StoreZipReader(out.getvalue()).names() == ["a.e", "a.n"]


@pytest.mark.parametrize("layout", ["zip64", "zip32"])
def test_saving_gives_the_same_bytes(tmp_path: Path, layout: str) -> None:
    data = weights(layout)
    graph = Graph.load(TEXT, data)
    graph.save(tmp_path / "a.pnnx.param")
    assert (tmp_path / "a.pnnx.param").read_bytes() == TEXT
    assert (tmp_path / "a.pnnx.bin").read_bytes() == data
    param, bin = io.BytesIO(), io.BytesIO()
    graph.copy().save(param, bin)
    assert (param.getvalue(), bin.getvalue()) == (TEXT, data)


def test_more_weights_than_the_narrow_layout_has_numbers_for() -> None:
    graph = Graph()
    graph.store_layout = "zip32"
    bias = Attribute(BIAS)
    graph.new_operator("mine.Many", "op", attrs={f"w{i}": bias for i in range(65535)})
    out = io.BytesIO()
    graph.save(io.BytesIO(), out)
    reader = StoreZipReader(out.getvalue())
    assert (len(reader), reader.layout) == (65535, "zip64")


def test_files_that_take_less_than_they_are_given(model: Path) -> None:
    class Slow(io.BytesIO):
        def write(self, data: object) -> int:
            return super().write(memoryview(data)[:100])  # type: ignore[call-overload,no-any-return]

    param, bin = Slow(), Slow()
    Graph.load(model).save(param, bin)
    assert (param.getvalue(), bin.getvalue()) == (TEXT, weights())


def test_names_of_saved_files(model: Path, tmp_path: Path) -> None:
    graph = Graph.load(model)
    graph.save(str(tmp_path / "x"))
    graph.save(tmp_path / "y.param", tmp_path / "z")
    assert {p.name for p in tmp_path.iterdir()} == {"m.pnnx.param", "m.pnnx.bin", "x", "x.bin", "y.param", "z"}
    with pytest.raises(TypeError, match="needs bin"):
        graph.save(io.BytesIO())


def test_a_model_may_be_saved_over_its_own_files(model: Path) -> None:
    graph = Graph.load(model)
    graph.ops[1].attrs["bias"] = Attribute(BIAS * 2)
    graph.save(model)
    np.testing.assert_array_equal(graph.ops[1].attrs["weight"].numpy(), WEIGHT)
    again = Graph.load(model)
    np.testing.assert_array_equal(again.ops[1].attrs["bias"].numpy(), BIAS * 2)
    np.testing.assert_array_equal(again.ops[1].attrs["weight"].numpy(), WEIGHT)


def damage_text(graph: Graph) -> None:
    graph.ops[1].name = "a b"


def damage_size(graph: Graph) -> None:
    graph.ops[1].attrs["weight"].shape = (2, 5)


@pytest.mark.parametrize("damage", [damage_text, damage_size])
def test_a_failed_save_leaves_the_old_files(model: Path, damage) -> None:
    before = {p: p.read_bytes() for p in model.parent.iterdir()}
    graph = Graph.load(model)
    damage(graph)
    with pytest.raises(GraphError):
        graph.save(model)
    assert {p: p.read_bytes() for p in model.parent.iterdir()} == before


@pytest.mark.parametrize("place, name", [(StoreZipWriter, "write"), (os, "fsync")])
def test_no_space_leaves_the_old_files(model: Path, monkeypatch: pytest.MonkeyPatch, place: object, name: str) -> None:
    before = {p: p.read_bytes() for p in model.parent.iterdir()}
    graph = Graph.load(model)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(place, name, full)
    with pytest.raises(OSError, match="No space"):
        graph.save(model)
    assert {p: p.read_bytes() for p in model.parent.iterdir()} == before


def test_weights_that_cannot_be_replaced_leave_both_old_files(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = {p: p.read_bytes() for p in model.parent.iterdir()}
    graph = Graph.load(model)
    graph.ops[1].params["bias"] = False
    real = os.replace

    def held(old: str, new: str) -> None:
        if new.endswith(".bin"):
            raise PermissionError(13, "The file is in use")
        real(old, new)

    monkeypatch.setattr(os, "replace", held)
    with pytest.raises(PermissionError, match="in use"):
        graph.save(model)
    assert {p: p.read_bytes() for p in model.parent.iterdir()} == before


def test_both_files_of_a_model_cannot_be_one(model: Path, tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="two files cannot both be"):
        Graph.load(model).save(tmp_path / "one", str(tmp_path / "one"))
    assert not (tmp_path / "one").exists()


def test_operators_are_written_behind_those_whose_results_they_take(tmp_path: Path) -> None:
    graph = Graph.parse("7767517\n3 2\npnnx.Input in 0 1 x #x=(2)f32\nF.relu r 1 1 x y\npnnx.Output out 1 0 y\n")
    y, z, made = graph.operand("y"), graph.new_operand("z"), graph.new_operand("made")
    graph.new_operator("pnnx.Expression", "sum", inputs=[y, made], outputs=[z], params={"expr": "add(@0,@1)"})
    constant = Attribute(np.float32([3, 4]))
    graph.new_operator("pnnx.Attribute", "constant", outputs=[made], attrs={"data": constant})
    graph.operator("out").set_input(0, z)
    order = [op.name for op in graph.ops]
    graph.validate()
    graph.save(tmp_path / "m.pnnx.param")
    assert [op.name for op in graph.ops] == order == ["in", "r", "out", "sum", "constant"]
    again = Graph.load(tmp_path / "m.pnnx.param")
    assert [op.name for op in again.ops] == ["in", "r", "constant", "sum", "out"]
    x = np.float32([-1, 1])
    np.testing.assert_array_equal(pnnx_fast.Model(again)(x), [3, 5])
    np.testing.assert_array_equal(pnnx_fast.Model(again)(x), pnnx_fast.Model(graph)(x))


def test_what_has_no_order_is_not_written(tmp_path: Path) -> None:
    graph = Graph.parse("7767517\n3 2\npnnx.Input in 0 1 x\nF.relu r 1 1 x y\npnnx.Output out 1 0 y\n")
    foreign = Operator("F.relu", "elsewhere")
    foreign.add_output(graph.new_operand("z"))
    graph.operator("r").set_input(0, graph.operand("z"))
    with pytest.raises(GraphError, match="operator r: input 'z' is not an output of any operator before it"):
        graph.save(tmp_path / "m.pnnx.param")
    graph.operator("r").set_input(0, graph.operand("y"))
    with pytest.raises(CycleError):
        graph.save(tmp_path / "m.pnnx.param")
    assert not list(tmp_path.iterdir())


def test_graphs_load_themselves_without_the_formats_being_imported(model: Path) -> None:
    code = f"from pnnx_fast.ir import Graph; print(len(Graph.load({str(model)!r}).ops))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "3\n"


def test_importing_the_graph_imports_no_format() -> None:
    code = "import sys, pnnx_fast.ir; print([m for m in sys.modules if m.startswith('pnnx_fast.formats')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_conformance_models_come_back(data_path: Path, tmp_path: Path) -> None:
    files = sorted(data_path.rglob("*.pnnx.param"))
    for file in files:
        graph = Graph.load(file)
        graph.validate()
        param, bin = io.BytesIO(), io.BytesIO()
        graph.save(param, bin)
        assert param.getvalue() == file.read_bytes(), file
        assert bin.getvalue() == file.with_suffix(".bin").read_bytes(), file
    assert len(files) > 300 or not os.environ.get("PNNX_FAST_DATA")
