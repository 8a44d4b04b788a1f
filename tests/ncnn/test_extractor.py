"""Extractor: partial extraction, what is kept, codes for mistakes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from nets import chain, load, param, run, tagged

from pnnx_fast import ncnn
from pnnx_fast.ncnn import Mat, NcnnWarning
from pnnx_fast.ncnn.compiled import Part


def mat(*values: float) -> Mat:
    return Mat(np.float32(values))


def test_names_and_numbers() -> None:
    ex = chain().create_extractor()
    assert ex.input("a", mat(1, -2)) == 0
    assert ex.extract("b")[1].numpy().tolist() == [1, 0]
    assert ex.extract(2)[1].numpy().tolist() == [1, 0]
    target = Mat()
    assert ex.extract("c", target) == 0
    assert target.w == 2
    assert ex.extract("a")[1].numpy().tolist() == [1, -2]


@pytest.mark.parametrize(
    ("call", "code"),
    [
        (lambda ex: ex.extract("zz")[0], -1),
        (lambda ex: ex.extract(99)[0], -1),
        (lambda ex: ex.extract(-1)[0], -1),
        (lambda ex: ex.input("zz", mat(1)), -1),
        (lambda ex: ex.input(99, mat(1)), -1),
        (lambda ex: ex.extract("b")[0], -100),
        (lambda ex: (ex.input("a", Mat()), ex.extract("b")[0])[1], -100),
        (lambda ex: ex.input("a", Mat(3, elemsize=16, elempack=4)), -1),
    ],
)
def test_codes(call: Any, code: int) -> None:
    with pytest.warns(ncnn.NcnnWarning):
        assert call(chain().create_extractor()) == code


def test_warnings_name_valid_blobs_and_point_at_the_caller() -> None:
    with pytest.warns(ncnn.NcnnWarning, match=r"no blob 'zz'; try one of \['c'\]") as caught:
        chain().create_extractor().extract("zz")
    assert caught[0].filename == __file__


def test_wrong_types() -> None:
    ex = chain().create_extractor()
    with pytest.raises(TypeError):
        ex.input("a", np.zeros(3, np.float32))
    with pytest.raises(TypeError, match="create_extractor"):
        ncnn.Extractor()


def test_blobs_in_the_middle_may_be_fed() -> None:
    ex = chain().create_extractor()
    assert ex.input("b", mat(4, -4)) == 0
    assert ex.extract("c")[1].numpy().tolist() == [4, -2]


def test_a_new_input_makes_new_results() -> None:
    ex = chain().create_extractor()
    ex.input("a", mat(1))
    assert ex.extract("c")[1].numpy().tolist() == [1]
    ex.input("a", mat(5))
    assert ex.extract("c")[1].numpy().tolist() == [5]


def test_results_belong_to_the_application() -> None:
    ex = chain().create_extractor()
    ex.input("a", mat(1, 2))
    first = ex.extract("b")[1]
    first.fill(77)
    assert ex.extract("b")[1].numpy().tolist() == [1, 2]
    assert ex.extract("c")[1].numpy().tolist() == [1, 2]


class Counting(ncnn.Layer):
    """Passes values on and counts how often."""

    calls = 0

    def __init__(self) -> None:
        super().__init__()
        self.one_blob_only = True

    def forward(self, bottom_blob: Any, top_blob: Any, opt: Any) -> int:
        Counting.calls += 1
        top_blob.clone_from(bottom_blob)
        return 0


def test_only_what_is_needed_runs_and_nothing_twice() -> None:
    net = ncnn.Net()
    net.register_custom_layer("Counting", Counting)
    net.load_param_mem(
        param("Input in 0 1 a", "Split s 1 2 a a0 a1", "Counting n 1 1 a0 b", "ReLU r 1 1 b c", "ReLU q 1 1 a1 d")
    )
    net.load_model(b"")
    for _ in range(3):
        Counting.calls = 0
        ex = net.create_extractor()
        ex.input("a", mat(1, -1))
        assert ex.extract("d")[1].numpy().tolist() == [1, 0]
        assert Counting.calls == 0
        assert ex.extract("c")[1].numpy().tolist() == [1, 0]
        assert ex.extract("b")[1].numpy().tolist() == [1, -1]
        assert ex.extract("c")[0] == 0
        assert Counting.calls == 1


def test_several_outputs_become_one_run() -> None:
    lines = ["Input in 0 1 a", "InnerProduct ip 1 1 a b 0=2 2=6", "Split s 1 2 b b0 b1"]
    net = load(param(*lines, "ReLU r 1 1 b0 c", "Sigmoid t 1 1 b1 d"), tagged([[1, 2, 3], [-1, -2, -3]]))
    for _ in range(4):
        c, d = run(net, "c", "d", a=np.float32([1, 1, 1]))
        assert c.tolist() == [6, 0]
        np.testing.assert_allclose(d, 1 / (1 + np.exp([-6.0, 6.0])), rtol=1e-5)


def test_shapes_may_change_from_run_to_run() -> None:
    net = chain()
    for shape in ((3,), (2, 3), (2, 3, 4), (2, 3, 4, 5), (7,)) * 2:
        x = np.random.default_rng(0).normal(size=shape).astype(np.float32)
        np.testing.assert_array_equal(run(net, "c", a=x), np.maximum(x, 0))


def test_a_batch_goes_through() -> None:
    x = np.random.default_rng(0).normal(size=(3, 2, 5)).astype(np.float32)
    ex = chain().create_extractor()
    ex.input("a", Mat(x, batch_index=0))
    code, result = ex.extract("b")
    assert (code, result.n) == (0, 3)
    np.testing.assert_array_equal(result.numpy(batch_index=0), np.maximum(x, 0))


def test_settings_are_accepted() -> None:
    with chain().create_extractor() as ex:
        ex.set_light_mode(False)
        ex.set_num_threads(2)
        ex.set_blob_allocator(ncnn.UnlockedPoolAllocator())
        ex.set_workspace_allocator(ncnn.PoolAllocator())
        ex.input("a", mat(1))
        assert ex.extract("c", type=0)[0] == 0
    with pytest.warns(ncnn.NcnnWarning):
        assert ex.input("a", mat(1)) == -1


def test_options_are_those_of_the_time_when_the_extractor_was_made() -> None:
    seen: list[int] = []

    class Curious(ncnn.Layer):
        def __init__(self) -> None:
            super().__init__()
            self.one_blob_only = True

        def forward(self, bottom_blob: Any, top_blob: Any, opt: Any) -> int:
            seen.append(opt.num_threads)
            opt.num_threads = 99
            top_blob.clone_from(bottom_blob)
            return 0

    net = ncnn.Net()
    net.opt.num_threads = 3
    net.register_custom_layer("Curious", Curious)
    net.load_param_mem(param("Input in 0 1 a", "Curious c 1 1 a b"))
    net.load_model(b"")
    first, second, third = (net.create_extractor() for _ in range(3))
    second.set_num_threads(2)
    net.opt.num_threads = 1
    for ex in (first, second, third, net.create_extractor(), third):
        ex.input("a", mat(1))
        assert ex.extract("b")[0] == 0
    assert seen == [3, 2, 3, 1, 3]
    assert net.opt.copy() == net.opt == net.opt.shared()


def test_int8_results_are_floats_unless_asked_for() -> None:
    net = load(param("Input in 0 1 a", "Quantize q 1 1 a b 0=1"), np.float32([10]).tobytes())
    ex = net.create_extractor()
    ex.input("a", mat(1, -2.55, 100))
    assert ex.extract("b")[1].numpy().tolist() == [10, -26, 127]
    whole = ex.extract("b", 1)[1]
    assert (whole.elemsize, whole.numpy().dtype) == (1, np.int8)


def test_unfit_shapes_name_the_layer() -> None:
    net = load(param("Input in 0 1 a", "InnerProduct ip 1 1 a b 0=2 2=6"), tagged(np.zeros(6)))
    ex = net.create_extractor()
    ex.input("a", mat(1, 2, 3, 4))
    with pytest.warns(ncnn.NcnnWarning, match="InnerProduct ip"):
        assert ex.extract("b")[0] == -100


def test_a_blob_that_fails_does_not_take_others_with_it() -> None:
    text = param("Input in 0 1 a", "Split s 1 2 a a0 a1", "ReLU r 1 1 a0 b", "InnerProduct ip 1 1 a1 c 0=2 2=6")
    net = load(text, tagged(np.zeros(6)))
    for size in (3, 4, 3, 4):
        ex = net.create_extractor()
        ex.input("a", Mat(np.ones(size, np.float32)))
        assert ex.extract("b")[0] == 0
        if size == 3:
            assert ex.extract("c")[0] == 0
            continue
        with pytest.warns(ncnn.NcnnWarning):
            assert ex.extract("c")[0] == -100


def test_usual_outputs_take_one_call_run_after_run(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = ["Input in 0 1 a", "Split s 1 3 a a0 a1 a2", "ReLU r 1 1 a0 b", "Sigmoid t 1 1 a1 c", "TanH h 1 1 a2 d"]
    net, calls = load(param(*lines)), list[int]()
    whole = Part.run

    def counted(part: Part, known: Any) -> Any:
        calls.append(1)
        return whole(part, known)

    monkeypatch.setattr(Part, "run", counted)
    for count in (3, 1, 1, 1, 1):
        calls.clear()
        run(net, "b", "c", "d", a=np.float32([1, -1]))
        assert len(calls) == count
    # What is no longer asked for is forgotten in the end.
    for _ in range(40):
        calls.clear()
        run(net, "b", a=np.float32([1, -1]))
        assert len(calls) == 1
    assert run(net, "d", a=np.float32([0, 0])).tolist() == [0, 0]


def test_outputs_of_one_chain_take_one_call(monkeypatch: pytest.MonkeyPatch) -> None:
    net, calls = load(param("Input in 0 1 a", "Slice s 1 2 a b c -23300=2,-233,-233", "ReLU r 1 1 b d")), list[int]()
    whole = Part.run

    def counted(part: Part, known: Any) -> Any:
        calls.append(1)
        return whole(part, known)

    monkeypatch.setattr(Part, "run", counted)
    d, c = run(net, "d", "c", a=np.float32([-1, 2, 3, 4]))
    assert (d.tolist(), c.tolist(), len(calls)) == ([0, 2], [3, 4], 1)


def test_what_is_taken_from_one_run_is_not_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    net, calls = (
        load(param("Input in 0 1 a", "Split s 1 2 a a0 a1", "ReLU r 1 1 a0 b", "Sigmoid t 1 1 a1 c")),
        list[int](),
    )
    whole = Part.run

    def counted(part: Part, known: Any) -> Any:
        calls.append(1)
        return whole(part, known)

    monkeypatch.setattr(Part, "run", counted)
    run(net, "b", "c", a=np.float32([1, -1]))
    for size in (1, 2, 3) * 20:
        calls.clear()
        b, c = run(net, "b", "c", a=np.zeros(size, np.float32))
        assert (b.tolist(), c.tolist()) == ([0] * size, [0.5] * size)
        assert size != 2 or len(calls) == 1


def test_an_extractor_takes_new_inputs_of_other_kinds() -> None:
    net, ex = chain(), chain().create_extractor()
    for _ in range(3):
        for values in (
            np.float32([1, -2]),
            np.float32([[3, -4]]),
            np.int8([5, -6]),
            np.arange(8, dtype=np.float32)[::2],
        ):
            for one in (ex, net.create_extractor()):
                one.input("a", Mat(values))
                for _ in range(2):
                    assert one.extract("c")[1].numpy().tolist() == np.maximum(values, 0).tolist()
        net.create_extractor().set_num_threads(2)


def test_an_extractor_of_a_net_that_was_cleared() -> None:
    net = chain()
    ex = net.create_extractor()
    ex.input("a", mat(1))
    assert ex.extract("c")[0] == 0
    net.clear()
    with pytest.warns(ncnn.NcnnWarning):
        assert ex.extract("c")[0] == -1


def test_blobs_of_one_value_share_no_memory() -> None:
    net = load(param("Input in 0 1 a", "ReLU r 1 1 a b", "Split s 1 2 b c d", "Noop n 1 1 d e"))
    for _ in range(3):
        ex = net.create_extractor()
        ex.input("a", mat(1, 2))
        c, e = ex.extract("c")[1], ex.extract("e")[1]
        c.numpy()[...] = -5
        assert (e.numpy().tolist(), ex.extract("b")[1].numpy().tolist()) == ([1, 2], [1, 2])


def test_inputs_of_other_types() -> None:
    net = chain()
    for dtype in (np.uint16, np.uint32, np.int64, np.float64):
        assert run(net, "c", a=np.array([1, 2], dtype)).tolist() == run(net, "c", a=np.float32([1, 2])).tolist()
    with pytest.warns(NcnnWarning, match="elements of an unknown type"):
        assert net.create_extractor().input("a", Mat(3, elemsize=3)) == -1


def test_layers_alone_take_packed_mats() -> None:
    layer = ncnn.create_layer("Softmax")
    pd = ncnn.ParamDict()
    pd.set(0, -1)
    pd.set(1, 1)
    layer.load_param(pd)
    x = np.arange(48, dtype=np.float32).reshape(8, 2, 3) / 10
    plain, packed = Mat(x.copy()), ncnn.convert_packing(Mat(x), 4)
    for m in (plain, packed):
        assert layer.forward_inplace(m, ncnn.Option()) == 0
    np.testing.assert_array_equal(ncnn.convert_packing(packed, 1).numpy(), plain.numpy())
