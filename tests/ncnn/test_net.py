"""Net: loading, what it tells about layers and blobs, mistakes and their codes."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from nets import CHAIN, chain, load, param, run, tagged

from pnnx_fast import ncnn
from pnnx_fast.errors import FormatError
from pnnx_fast.formats.ncnn_param import read_text
from pnnx_fast.formats.ncnn_param_bin import write_binary

LINEAR = param("Input in 0 1 a", "InnerProduct ip 1 1 a b 0=2 1=1 2=6")
WEIGHTS = tagged([[1, 2, 3], [4, 5, 6]]) + np.float32([0.5, -0.5]).tobytes()


class Reader(ncnn.DataReader):
    """An application's reader."""

    def __init__(self, data: bytes) -> None:
        self.stream = io.BytesIO(data)

    def read(self, buf: Any, size: int) -> int:
        part = self.stream.read(size)
        memoryview(buf)[: len(part)] = part
        return len(part)


@pytest.mark.parametrize("how", ["path", "Path", "bytes", "reader", "memory reader", "file"])
def test_places_to_load_from(how: str, tmp_path: Path) -> None:
    (tmp_path / "x.param").write_text(LINEAR)
    (tmp_path / "x.bin").write_bytes(WEIGHTS)
    make: dict[str, Any] = {
        "path": lambda name, data: str(tmp_path / name),
        "Path": lambda name, data: tmp_path / name,
        "bytes": lambda name, data: data,
        "reader": lambda name, data: Reader(data),
        "memory reader": lambda name, data: ncnn.DataReaderFromMemory(data),
        "file": lambda name, data: io.BytesIO(data),
    }
    net = ncnn.Net()
    assert net.load_param(make[how]("x.param", LINEAR.encode())) == 0
    assert net.load_model(make[how]("x.bin", WEIGHTS)) == 0
    assert run(net, "b", a=np.float32([1, 0, -1])).tolist() == [-1.5, -2.5]


@pytest.mark.parametrize("size", [0, 8, 64])
def test_a_file_of_weights_that_was_changed(size: int, tmp_path: Path) -> None:
    (tmp_path / "x.bin").write_bytes(WEIGHTS)
    net = ncnn.Net()
    net.load_param_mem(LINEAR)
    assert net.load_model(tmp_path / "x.bin") == 0
    os.truncate(tmp_path / "x.bin", size)
    ex = net.create_extractor()
    ex.input("a", ncnn.Mat(np.float32([1, 0, -1])))
    with pytest.warns(ncnn.NcnnWarning, match="was changed after weights were loaded"):
        assert ex.extract("b")[0] == -100


def test_a_layer_whose_weights_were_changed(tmp_path: Path) -> None:
    (tmp_path / "x.bin").write_bytes(WEIGHTS)
    net = ncnn.Net()
    net.load_param_mem(LINEAR)
    net.load_model(tmp_path / "x.bin")
    (tmp_path / "x.bin").write_bytes(b"")
    with pytest.raises(FormatError, match="was changed after weights were loaded"):
        net.layers()[1].forward(ncnn.Mat(np.float32([1, 0, -1])), ncnn.Mat(), net.opt)


def test_memory_and_binary() -> None:
    net = ncnn.Net()
    assert net.load_param_bin(write_binary(read_text(LINEAR.encode()))) == 0
    assert net.load_model_mem(WEIGHTS) == 0
    ex = net.create_extractor()
    assert ex.input(0, ncnn.Mat(np.float32([1, 0, -1]))) == 0
    assert ex.extract(1)[1].numpy().tolist() == [-1.5, -2.5]


def test_zero_weights() -> None:
    net = ncnn.Net()
    assert net.load_param_mem(LINEAR) == 0
    assert net.load_model(ncnn.DataReaderFromEmpty()) == 0
    assert run(net, "b", a=np.ones(3, np.float32)).tolist() == [0, 0]


def test_inputs_outputs_layers_blobs() -> None:
    net = load(param("Input in 0 1 a", "Split s 1 2 a a0 a1", "ReLU r 1 1 a0 b", "Sigmoid t 1 1 a1 c"))
    assert (net.input_names(), net.output_names()) == (["a"], ["b", "c"])
    assert (net.input_indexes(), net.output_indexes()) == ([0], [3, 4])
    assert [(b.name, b.producer, b.consumer) for b in net.blobs()] == [
        ("a", 0, 1), ("a0", 1, 2), ("a1", 1, 3), ("b", 2, -1), ("c", 3, -1),
    ]  # fmt: skip
    layer = net.layers()[1]
    assert (layer.type, layer.name, layer.bottoms, layer.tops) == ("Split", "s", [0], [1, 2])
    assert layer.typeindex == ncnn.layer_to_index("Split")


def test_shape_hints() -> None:
    net = load(param("Input in 0 1 a -23330=4,3,5,4,2", "ReLU r 1 1 a b -23330=5,3,5,4,1,2 31=1"))
    shapes = [(m.dims, m.w, m.h, m.c) for m in (b.shape for b in net.blobs())]
    assert shapes == [(3, 5, 4, 2)] * 2
    assert net.layers()[1].top_shapes[0].w == 5
    assert net.layers()[1].featmask == 1


def test_shape_hints_take_no_memory() -> None:
    net = load(param("Input in 0 1 a", "ReLU r 1 1 a b -23330=4,3,100000,100000,100"))
    hint = net.blobs()[1].shape
    assert (hint.dims, hint.w, hint.h, hint.c) == (3, 100000, 100000, 100)
    assert (hint.shape().w, net.layers()[1].top_shapes[0].c) == (100000, 100)


def test_arguments_that_hold_no_bytes() -> None:
    for load_from, what in (("load_param", "parameters"), ("load_param_bin", "parameters"), ("load_model", "weights")):
        with pytest.raises(TypeError, match=f"{what} come from a path, bytes, .*, not from NoneType"):
            getattr(chain(), load_from)(None)


def test_readers_by_name() -> None:
    net = ncnn.Net()
    assert net.load_param(dr=ncnn.DataReaderFromMemory(LINEAR.encode())) == 0  # type: ignore[call-arg]
    assert net.load_model(dr=ncnn.DataReaderFromMemory(WEIGHTS)) == 0  # type: ignore[call-arg]
    assert net.load_param_bin(dr=write_binary(read_text(LINEAR.encode()))) == 0  # type: ignore[call-arg]
    assert net.set_vulkan_device(vkdev=None) is net.set_vulkan_device(device_index=0)  # type: ignore


def test_loading_again_replaces() -> None:
    net = chain()
    assert net.load_param_mem(LINEAR) == 0
    assert len(net.blobs()) == 2
    assert net.load_model(WEIGHTS) == 0
    assert run(net, "b", a=np.zeros(3, np.float32)).tolist() == [0.5, -0.5]


def test_clear_and_with() -> None:
    with chain() as net:
        assert len(net.layers()) == 3
    assert net.layers() == []
    with pytest.warns(ncnn.NcnnWarning, match="no blob"):
        assert net.create_extractor().extract("b")[0] == -1


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda n: n.load_param("/there/is/no.param"), "No such file"),
        (lambda n: n.load_param_mem("abc"), "."),
        (lambda n: n.load_param_mem("7767517\n1 1\nNoSuchLayer x 0 1 a\n"), r"not exists or registered \(layer 0 x\)"),
        (lambda n: n.load_param_mem(param("Input in 0 1 a", "Convolution c 1 1 a b 0=-4")), "parameter 0"),
        (lambda n: n.load_param_mem(param("Input in 0 1 a", "ReLU c 1 2 a b c")), "takes one blob"),
        (lambda n: n.load_param_mem(param("Input in 0 1 a -23330=3,3,1,1")), "shape hint"),
        (lambda n: n.load_param_mem(param("Input in 0 1 a -23330=4,3,1000000,1000000,10")), "10000000000000 values"),
        (lambda n: n.load_param_mem(param("Input in 0 1 a -23330=4,3,16777215,16777215,16777215")), "values"),
        (lambda n: n.load_param_bin(b"\1\2\3"), "."),
        (lambda n: n.load_model("/there/is/no.bin"), "."),
    ],
)
def test_mistakes(call: Any, message: str) -> None:
    with pytest.warns(ncnn.NcnnWarning, match=message):
        assert call(ncnn.Net()) == -1


@pytest.mark.parametrize(
    ("layer", "least", "params"),
    [
        ("BinaryOp", 2, ""),
        ("MatMul", 2, ""),
        ("Gemm", 2, ""),
        ("GridSample", 2, "0=1 1=1"),
        ("CopyTo", 2, ""),
        ("Crop", 2, "9=1"),
        ("Interp", 2, "0=1 5=1"),
        ("Scale", 2, "0=-233"),
        ("Convolution", 2, "0=2 1=1 19=1"),
        ("Convolution", 3, "0=2 1=1 5=1 19=1"),
        ("Deconvolution", 3, "0=2 1=1 5=1 28=1"),
        ("DeformableConv2D", 2, "0=2 1=1 6=4"),
        ("RotaryEmbed", 3, ""),
        ("SDPA", 6, "5=1 7=1"),
        ("ROIAlign", 2, "0=1 1=1"),
        ("Proposal", 3, ""),
        ("DetectionOutput", 3, "0=2"),
    ],
)
def test_too_few_blobs_are_a_mistake_of_the_file(layer: str, least: int, params: str) -> None:
    def text(count: int) -> str:
        names = [f"x{i}" for i in range(count)]
        return param(*(f"Input {n} 0 1 {n}" for n in names), f"{layer} l {count} 1 {' '.join(names)} y {params}")

    with pytest.warns(ncnn.NcnnWarning, match=f"{layer} l takes {least} blobs, not {least - 1}"):
        assert ncnn.Net().load_param_mem(text(least - 1)) == -1
    assert ncnn.Net().load_param_mem(text(least)) == 0


def test_attention_says_how_many_blobs_it_takes() -> None:
    net = ncnn.Net()
    assert net.load_param_mem(param("Input a 0 1 a", "MultiHeadAttention m 1 1 a b 0=4 2=16 5=1 7=1")) == 0
    assert net.load_model(ncnn.DataReaderFromEmpty()) == 0
    ex = net.create_extractor()
    ex.input("a", ncnn.Mat(np.ones((3, 4), np.float32)))
    with pytest.warns(ncnn.NcnnWarning, match=r"MultiHeadAttention m: blobs of queries.* 1 to 3"):
        assert ex.extract("b")[0] == -100


def test_mistakes_name_the_file(tmp_path: Path) -> None:
    path = tmp_path / "net.param"
    for line, message in (("Odd l 1 1 a b", "layer Odd not"), ("ReLU c 1 2 a b c", "takes one"), ("ReLU", ":4:.*ends")):
        path.write_text(f"7767517\n2 3\nInput in 0 1 a\n{line}")
        with pytest.warns(ncnn.NcnnWarning, match=rf"net\.param.*{message}"):
            assert ncnn.Net().load_param(str(path)) == -1


@pytest.mark.parametrize("size", [0, 3, 20, 30])
def test_weights_that_end_early(size: int) -> None:
    net = ncnn.Net()
    assert net.load_param_mem(LINEAR) == 0
    with pytest.warns(ncnn.NcnnWarning):
        assert net.load_model(WEIGHTS[:size]) < 0


def test_a_net_without_weights_says_so() -> None:
    net = ncnn.Net()
    assert net.load_param_mem(LINEAR) == 0
    ex = net.create_extractor()
    ex.input("a", ncnn.Mat(np.zeros(3, np.float32)))
    with pytest.warns(ncnn.NcnnWarning, match="load_model"):
        assert ex.extract("b")[0] == -100


def test_many_threads_share_a_net() -> None:
    from concurrent.futures import ThreadPoolExecutor

    net = load(LINEAR, WEIGHTS)

    def one(i: int) -> list[float]:
        return run(net, "b", a=np.float32([i, 0, 0])).tolist()  # type: ignore[no-any-return]

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(one, range(50))) == [[i + 0.5, 4 * i - 0.5] for i in range(50)]


def test_text_of_the_chain_has_a_repr() -> None:
    assert repr(chain()) == "<ncnn.Net: 3 layers, 3 blobs>"
    assert CHAIN.startswith("7767517")


def test_operators_that_pnnx_left_over_run() -> None:
    net = load(param("Input in 0 1 a", "torch.sign s 1 1 a b"))
    assert run(net, "b", a=np.float32([-2, 0, 3])).tolist() == [-1, 0, 1]


def test_left_over_operators_whose_parameters_are_lost_are_errors() -> None:
    net = load(param("Input in 0 1 a", "torch.cumsum s 1 1 a b", "ReLU r 1 1 a c"))
    ex = net.create_extractor()
    ex.input("a", ncnn.Mat(np.float32([-2, 0, 3])))
    with pytest.warns(ncnn.NcnnWarning, match=r"torch.cumsum was not converted, .* its dim"):
        assert ex.extract("b")[0] == -100
    assert ex.extract("c")[1].numpy().tolist() == [0, 0, 3]


@pytest.mark.parametrize("heads", [4, 2, 1])
def test_attention_that_is_left_over_is_causal(heads: int) -> None:
    inputs = [f"Input {name} 0 1 {name}" for name in "qkv"]
    net = load(param(*inputs, "F.scaled_dot_product_attention s 3 1 q k v y"))
    q, k, v = np.random.default_rng(0).standard_normal((3, 4, 4, 3), np.float32)
    k, v = (np.repeat(x[:heads], 4 // heads, 0) for x in (k, v))
    score = np.exp(q @ k.transpose(0, 2, 1) / np.sqrt(np.float32(3))) * np.tril(np.ones((4, 4), np.float32))
    want = score / score.sum(2, keepdims=True) @ v
    got = run(net, "y", q=q, k=k[:: 4 // heads], v=v[:: 4 // heads])
    np.testing.assert_allclose(got, want, rtol=1e-4)
