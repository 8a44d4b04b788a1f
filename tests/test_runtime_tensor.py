"""The staged interface's tensor and functions on tensors, and layers with weights."""

from __future__ import annotations

import numpy as np
import pytest

from pnnx_fast.demo import load_digits, model_path
from pnnx_fast.runtime_graph import (
    ParamLayer,
    RuntimeGraph,
    StatusError,
    Tensor,
    tensor_broadcast,
    tensor_clone,
    tensor_create,
    tensor_element_add,
    tensor_element_multiply,
    tensor_is_same,
    tensor_padding,
)


def numbered(*sizes: int) -> Tensor:
    t = Tensor(*sizes)
    t.fill(range(t.size()))
    return t


def test_sizes_and_elements() -> None:
    t = numbered(2, 3, 4)
    assert (t.channels, t.rows, t.cols, t.size(), t.plane_size(), t.empty()) == (2, 3, 4, 24, 12, False)
    assert (t.at(1, 2, 3), t.index(0), t.index(1), t.index(13)) == (23, 0, 4, 16)
    assert t.values()[:5] == [0, 1, 2, 3, 4]
    assert t.values(row_major=False)[:5] == [0, 4, 8, 1, 5]
    assert t.slice(1)[0].tolist() == [12, 13, 14, 15]
    assert [Tensor(*s).raw_shapes() for s in ((5,), (2, 3), (1, 2, 3), (1, 1, 3))] == [(5,), (2, 3), (2, 3), (3,)]
    assert t.matrix_raw_ptr(1) - t.raw_ptr() == 48
    with pytest.raises(IndexError):
        t.index(24)
    with pytest.raises(IndexError):
        t.slice(2)
    with pytest.raises(StatusError):
        Tensor(np.zeros((1, 1, 1, 1)))


def test_memory_is_shared() -> None:
    a = np.zeros((2, 3), np.float32)
    t = Tensor(a)
    t.fill(2)
    assert a.sum() == 12
    t.set_data(np.ones((2, 3), np.float32))
    assert np.asarray(t).shape == (2, 3)
    with pytest.raises(StatusError):
        t.set_data(np.ones(6))


def test_changes(capsys: pytest.CaptureFixture[str]) -> None:
    t = numbered(1, 2, 3)
    t.padding([1, 0, 0, 2], 9)
    assert t.slice(0).tolist() == [[9] * 5, [0, 1, 2, 9, 9], [3, 4, 5, 9, 9]]
    t = numbered(2, 3)
    t.reshape([3, 2])
    assert t.slice(0).tolist() == [[0, 4], [3, 2], [1, 5]]
    t = numbered(2, 3)
    t.review([3, 2])
    assert t.values() == [0, 1, 2, 3, 4, 5]
    t.flatten(row_major=True)
    assert t.raw_shapes() == (6,)
    t.transform(lambda v: -v if v > 3 else v)
    assert t.values() == [0, 1, 2, 3, -4, -5]
    t.show()
    assert "Channel: 0" in capsys.readouterr().out
    t.rand_n(seed=1)
    t.rand_u(2, 3, seed=1)
    assert min(t.values()) >= 2
    t.ones()
    assert sum(t.values()) == 6
    for wrong in ([5], [1, 1, 1, 6]):
        with pytest.raises(StatusError):
            t.reshape(wrong)
    with pytest.raises(StatusError):
        t.fill([1, 2])


def test_functions_on_tensors() -> None:
    a, b = numbered(2, 3, 4), Tensor(np.float32([10, 20]).reshape(2, 1, 1))
    assert tensor_create([2, 3]).raw_shapes() == tensor_create(2, 3).raw_shapes() == (2, 3)
    twin = tensor_clone(a)
    twin.fill(0)
    assert a.at(1, 2, 3) == 23
    assert tensor_is_same(a, tensor_clone(a))
    assert not tensor_is_same(a, twin)
    assert [t.shapes() for t in tensor_broadcast(a, b)] == [(2, 3, 4)] * 2
    np.testing.assert_array_equal(tensor_element_add(a, b).data(), a.data() + b.data())
    assert tensor_element_multiply(a, b, twin) is twin
    assert twin.at(1, 2, 3) == 460
    assert tensor_padding(a, [1, 1, 2, 2]).shapes() == (2, 5, 8)
    with pytest.raises(StatusError):
        tensor_broadcast(a, Tensor(3, 3, 4))
    with pytest.raises(StatusError):
        tensor_element_add(a, b, Tensor(1, 1, 1))


def test_tensors_are_inputs_and_times_are_summed() -> None:
    graph = RuntimeGraph(model_path(), model_path().with_suffix(".bin"))
    graph.build()
    pictures = load_digits().pictures[:2]
    graph.set_inputs("pnnx_input_0", [Tensor(x).data() for x in pictures])
    graph.forward(debug=True)
    assert len(graph.get_outputs("pnnx_output_0")) == 2
    assert list(graph.time_summary().values()) == sorted(graph.time_summary().values(), reverse=True)
    assert "nn.Conv2d" in " ".join(graph.time_summary()) or graph.time_summary()


def test_layers_with_weights() -> None:
    layer = ParamLayer("mine")
    layer.init_weight_param(2, 1, 2, 2)
    layer.set_weights(list(range(8)))
    assert [w.tolist() for w in layer.weights] == [[[[0, 1], [2, 3]]], [[[4, 5], [6, 7]]]]
    layer.init_bias_param(1, 1, 1, 2)
    layer.set_bias([np.ones(2)])
    assert layer.bias[0].tolist() == [1, 1]
    with pytest.raises(StatusError):
        layer.set_weights([1.0])
