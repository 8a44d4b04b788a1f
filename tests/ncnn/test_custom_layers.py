"""Layers that applications write in Python."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from nets import load, param, run, tagged

from pnnx_fast import ncnn
from pnnx_fast.errors import ShapeError
from pnnx_fast.formats.ncnn_param import read_text
from pnnx_fast.formats.ncnn_param_bin import write_binary
from pnnx_fast.ncnn import Mat


class Scaled(ncnn.Layer):
    """A factor from the parameters and an offset from the weights."""

    log: list[str] = []

    def __init__(self) -> None:
        super().__init__()
        self.one_blob_only = True

    def load_param(self, pd: Any) -> int:
        self.factor = pd.get(0, 1.0)
        self.count = pd.get(1, 0)
        return 0

    def load_model(self, mb: Any) -> int:
        self.offset = mb.load(self.count, 1)
        return 0

    def create_pipeline(self, opt: Any) -> int:
        Scaled.log.append("create")
        return 0

    def destroy_pipeline(self, opt: Any) -> int:
        Scaled.log.append("destroy")
        return 0

    def forward(self, bottom_blob: Any, top_blob: Any, opt: Any) -> int:
        top_blob.clone_from(Mat(bottom_blob.numpy() * self.factor + self.offset.numpy()), opt.blob_allocator)
        return 0


class Doubled(ncnn.Layer):
    """Works in place."""

    def __init__(self) -> None:
        super().__init__()
        self.one_blob_only = True
        self.support_inplace = True

    def forward_inplace(self, bottom_top_blob: Any, opt: Any) -> int:
        bottom_top_blob.numpy()[...] *= 2
        return 0


class SumAndDifference(ncnn.Layer):
    """Two blobs in, two out."""

    def forward(self, bottom_blob: Any, top_blob: Any, opt: Any) -> int:
        a, b = (m.numpy() for m in bottom_blob)
        top_blob[0].clone_from(Mat(a + b))
        top_blob[1] = Mat(a - b).clone()
        return 0


class Failing(ncnn.Layer):
    def __init__(self) -> None:
        super().__init__()
        self.one_blob_only = True

    def forward(self, bottom_blob: Any, top_blob: Any, opt: Any) -> int:
        return -7


def made(text: str, weights: bytes = b"", **types: Any) -> ncnn.Net:
    net = ncnn.Net()
    for name, creator in types.items():
        assert net.register_custom_layer(name, creator, lambda layer: None) == 0
    assert net.load_param_mem(text) == 0
    assert net.load_model(weights) == 0
    return net


def test_parameters_weights_and_pipeline() -> None:
    Scaled.log.clear()
    text = param("Input in 0 1 a", "ReLU r 1 1 a b", "Scaled s 1 1 b c 0=2.5 1=2", "Sigmoid t 1 1 c d")
    net = made(text, np.float32([10, 20]).tobytes(), Scaled=Scaled)
    c, d = run(net, "c", "d", a=np.float32([[1, -2], [2, 0]]))
    assert c.tolist() == [[12.5, 20], [15, 20]]
    assert d.min() > 0.99
    net.clear()
    assert Scaled.log == ["create", "destroy"]


def test_in_place() -> None:
    x = np.float32([1, -2])
    net = made(param("Input in 0 1 a", "Doubled s 1 1 a b", "ReLU r 1 1 b c"), Doubled=Doubled)
    assert run(net, "c", a=x).tolist() == [2, 0]
    assert x.tolist() == [1, -2]


def test_lists_of_blobs() -> None:
    text = param("Input i 0 1 a", "Input j 0 1 b", "SumAndDifference s 2 2 a b c d")
    net = made(text, SumAndDifference=SumAndDifference)
    c, d = run(net, "c", "d", a=np.float32([5, 1]), b=np.float32([2, 2]))
    assert (c.tolist(), d.tolist()) == ([7, 3], [3, -1])


def test_codes_of_layers_become_warnings() -> None:
    net = made(param("Input in 0 1 a", "Failing f 1 1 a b"), Failing=Failing)
    ex = net.create_extractor()
    ex.input("a", Mat(3))
    with pytest.warns(ncnn.NcnnWarning, match="Failing f.*-7|-7.*Failing f"):
        assert ex.extract("b")[0] == -100


def test_exceptions_of_layers_reach_the_application() -> None:
    class Raising(Failing):
        def forward(self, bottom_blob: Any, top_blob: Any, opt: Any) -> int:
            raise KeyError("mine")

    net = made(param("Input in 0 1 a", "Raising f 1 1 a b"), Raising=Raising)
    ex = net.create_extractor()
    ex.input("a", Mat(3))
    with pytest.raises(KeyError, match="mine"):
        ex.extract("b")


def test_a_layer_that_forgets_its_output() -> None:
    class Forgetful(Failing):
        def forward(self, bottom_blob: Any, top_blob: Any, opt: Any) -> int:
            return 0

    net = made(param("Input in 0 1 a", "Forgetful f 1 1 a b"), Forgetful=Forgetful)
    ex = net.create_extractor()
    ex.input("a", Mat(3))
    with pytest.warns(ncnn.NcnnWarning, match="stayed empty"):
        assert ex.extract("b")[0] == -100


def test_built_in_types_may_be_replaced() -> None:
    net = ncnn.Net()
    with pytest.warns(ncnn.NcnnWarning, match="overwrite built-in"):
        assert net.register_custom_layer("ReLU", Doubled) == 0
    net.load_param_mem(param("Input in 0 1 a", "ReLU r 1 1 a b"))
    net.load_model(b"")
    assert run(net, "b", a=np.float32([-1, 3])).tolist() == [-2, 6]


def test_numbers_and_creators() -> None:
    net = ncnn.Net()
    destroyed: list[Any] = []
    net.register_custom_layer("Doubled", Doubled, destroyed.append)
    assert net.custom_layer_to_index("Doubled") == 0
    assert net.custom_layer_to_index("Other") == -1
    net.load_param_mem(param("Input in 0 1 a", "Doubled r 1 1 a b"))
    layer = net.layers()[1]
    assert layer.typeindex == 0x100
    net.clear()
    assert destroyed == [layer]


@pytest.mark.parametrize("type, creator", [(3.5, Doubled), ("Doubled", 3)])
def test_what_makes_no_layers(type: Any, creator: Any) -> None:
    with pytest.raises(TypeError, match="that makes layers"):
        ncnn.Net().register_custom_layer(type, creator)


@pytest.mark.parametrize("number", [-1, 0x200, 0x7FFFFFFF])
def test_numbers_of_no_types(number: int) -> None:
    with pytest.warns(ncnn.NcnnWarning, match=f"layer type {number} is neither below 256 "):
        assert ncnn.Net().register_custom_layer(number, Doubled) == -1


@pytest.mark.parametrize("creator", [lambda: None, dict])
def test_factories_that_give_no_layer(creator: Any) -> None:
    net = ncnn.Net()
    assert net.register_custom_layer("Nothing", creator) == 0
    with pytest.warns(ncnn.NcnnWarning, match=r"layer 1 Nothing n: .* makes no Layer but (NoneType|dict)"):
        assert net.load_param_mem(param("Input in 0 1 a", "Nothing n 1 1 a b")) == -1


def test_types_by_number() -> None:
    net: Any = ncnn.Net()
    assert net.register_custom_layer(index=0x101, creator=Doubled, destroyer=None) == 0
    named = read_text(param("Input in 0 1 a", "Doubled d 1 1 a b").encode())
    assert net.load_param_bin(write_binary(named, ["Other", "Doubled"])) == 0
    assert net.layers()[1].typeindex == 0x101
    with pytest.raises(TypeError, match="several values"):
        net.register_custom_layer(type="Doubled", index=0x101, creator=Doubled)


def test_built_in_layers_take_arguments_by_name() -> None:
    total: Any = ncnn.create_layer("BinaryOp")
    a, b, opt = Mat(np.float32([1, -2])).clone(), Mat(), ncnn.Option()
    assert total.load_param(ncnn.ParamDict()) == 0
    assert total.forward(bottom_blobs=[a, a], top_blobs=[b], opt=opt) == 0
    assert b.numpy().tolist() == [2, -4]
    relu: Any = ncnn.create_layer(index=ncnn.layer_to_index("ReLU"))  # type: ignore[call-arg]
    assert relu.load_param(ncnn.ParamDict()) == 0
    assert relu.forward(bottom_blob=a, top_blob=b, opt=opt) == 0
    assert b.numpy().tolist() == [1, 0]
    assert relu.forward_inplace(bottom_top_blob=a, opt=opt) == 0
    assert a.numpy().tolist() == [1, 0]


def test_many_types() -> None:
    """There is no limit to the number of types."""
    names = [f"Own{i}" for i in range(40)]
    lines = ["Input in 0 1 b0", *(f"{n} l{i} 1 1 b{i} b{i + 1}" for i, n in enumerate(names))]
    net = made(param(*lines), **dict.fromkeys(names, Doubled))
    ex = net.create_extractor()
    ex.input("b0", Mat(np.float32([1])))
    assert ex.extract("b40")[1][0] == 2.0**40


def test_built_in_layers_by_themselves() -> None:
    layer = ncnn.create_layer("InnerProduct")
    assert layer is not None
    pd = ncnn.ParamDict()
    pd.set(0, 2)
    pd.set(2, 6)
    assert layer.load_param(pd) == 0
    assert layer.load_model(ncnn.ModelBinFromMatArray([Mat(np.arange(6, dtype=np.float32))])) == 0
    opt, top = ncnn.Option(), Mat()
    assert layer.create_pipeline(opt) == 0
    assert layer.forward(Mat(np.float32([1, 1, 1])), top, opt) == 0
    assert top.numpy().tolist() == [3, 12]
    relu = ncnn.create_layer(ncnn.layer_to_index("ReLU"))
    assert relu is not None
    relu.load_param(ncnn.ParamDict())
    relu.load_model(ncnn.ModelBinFromMatArray([]))
    without = ncnn.create_layer("Softmax")
    assert without is not None
    assert without.load_param(ncnn.ParamDict()) == 0
    m = Mat(np.float32([0, 0])).clone()
    assert without.forward_inplace(m, opt) == 0
    assert m.numpy().tolist() == [0.5, 0.5]
    missing = ncnn.create_layer("InnerProduct")
    assert missing is not None
    missing.load_param(pd)
    with pytest.raises(ShapeError, match="load_model has not been called"):
        missing.forward(Mat(np.float32([1, 1, 1])), top, opt)
    m = Mat(np.float32([-1, 2])).clone()
    assert relu.forward_inplace(m, opt) == 0
    assert m.numpy().tolist() == [0, 2]
    with pytest.warns(ncnn.NcnnWarning):
        assert ncnn.create_layer("NoSuchLayer") is None
    assert ncnn.layer_to_index("NoSuchLayer") == -1


def test_a_custom_layer_between_weights() -> None:
    text = param(
        "Input in 0 1 a", "InnerProduct p 1 1 a b 0=2 2=4", "Doubled d 1 1 b c", "InnerProduct q 1 1 c e 0=1 2=2"
    )
    net = made(text, tagged([[1, 0], [0, 1]], [[1, 1]]), Doubled=Doubled)
    assert run(net, "e", a=np.float32([3, 4])).tolist() == [14]
    assert run(load(param("Input in 0 1 a")), "a", a=np.float32([3])).tolist() == [3]


class Odd(ncnn.Layer):
    """Leaves what it is told to in place of its top blobs."""

    tops: list[Any] = []

    def forward(self, bottom_blob: Any, top_blob: Any, opt: Any) -> int:
        top_blob[:] = Odd.tops
        return 0


@pytest.mark.parametrize(
    ("tops", "reason"),
    [
        ([Mat(np.float32([1]))], "number of top blobs: expected 2, got 1"),
        ([Mat(np.float32([1])), np.float32([1])], "a top blob stayed empty"),
        ([Mat(np.float32([1])), Mat()], "a top blob stayed empty"),
        ([Mat(np.float32([1])), Mat(3, elemsize=3)], "elements of an unknown type"),
    ],
)
def test_top_blobs_of_another_kind(tops: list[Any], reason: str) -> None:
    net = made(param("Input i 0 1 a", "Odd o 1 2 a b c"), Odd=Odd)
    Odd.tops = tops
    ex = net.create_extractor()
    ex.input("a", Mat(np.float32([1])))
    with pytest.warns(ncnn.NcnnWarning, match=reason):
        assert ex.extract("c")[0] == -100


def test_top_blobs_that_are_packed_or_of_other_types() -> None:
    net = made(param("Input i 0 1 a", "Odd o 1 2 a b c", "ReLU r 1 1 b d", "ReLU s 1 1 c e"), Odd=Odd)
    x = np.arange(-24, 24, dtype=np.float32).reshape(8, 2, 3)
    Odd.tops = [ncnn.convert_packing(Mat(x), 4), Mat(np.uint32([1, 2]))]
    d, e = run(net, "d", "e", a=np.float32([1]))
    np.testing.assert_array_equal(d, np.maximum(x, 0))
    assert e.tolist() == [1, 2]


def test_outputs_are_computed_once() -> None:
    calls = []

    class Counting(Doubled):
        def forward_inplace(self, bottom_top_blob: Any, opt: Any) -> int:
            calls.append(1)
            return super().forward_inplace(bottom_top_blob, opt)

    ex = made(param("Input i 0 1 a", "Counting c 1 1 a b"), Counting=Counting).create_extractor()
    ex.input("a", Mat(np.float32([3])))
    assert [ex.extract("b")[1].numpy().tolist() for _ in range(3)] == [[6]] * 3
    assert len(calls) == 1


@pytest.mark.parametrize("how", ["collected", "loaded anew", "not loaded"])
def test_layers_are_destroyed_with_their_net(how: str) -> None:
    gone = []

    class Refusing(Doubled):
        def load_param(self, pd: Any) -> int:
            if how == "not loaded":
                raise KeyError
            return 0

    net = ncnn.Net()
    net.register_custom_layer("Doubled", Doubled, lambda layer: gone.append(layer.name))
    net.register_custom_layer("Refusing", Refusing, lambda layer: gone.append(layer.name))
    text = param("Input i 0 1 a", "Doubled first 1 1 a b", "Refusing second 1 1 b c")
    if how == "not loaded":
        with pytest.raises(KeyError):
            net.load_param_mem(text)
        assert gone == ["first"]
        assert len(net.layers()) == 0
        return
    assert net.load_param_mem(text) == 0
    if how == "collected":
        del net
    else:
        assert net.load_param_mem(param("Input i 0 1 a")) == 0
    assert gone == ["first", "second"]
