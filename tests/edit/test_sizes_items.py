"""Numbers of the items of a batch, among indices and in reshapes, when the batch varies."""

from __future__ import annotations

import numpy as np
import pytest
from test_sizes_pictures import RNG, traced

from pnnx_fast import Model


@pytest.mark.parametrize("listed", ["pnnx.Expression e 2 1 k z l expr=[@0,@1]", "prim::ListConstruct e 2 1 k z l"])
@pytest.mark.parametrize("n", [1, 2])
def test_each_item_takes_rows_of_its_own(n: int, listed: str) -> None:
    template = f"""
        pnnx.Input in 0 1 x #x=({{n}},5,4)f32
        pnnx.Attribute k 0 1 k @data=({{n}},3,2)i64
        pnnx.Input in2 0 1 z #z=({{n}},3,2)i64
        {listed}
        Tensor.index i 2 1 x l y $input=x $expr=l
        pnnx.Output out 1 0 y
    """
    numbers = np.broadcast_to(np.arange(n)[:, None, None], (n, 3, 2)).copy()
    graph = traced(template, {"n": n}, {"k": numbers})
    assert graph.make_dynamic() == []
    for m in (n, 4):
        x, z = RNG.random((m, 5, 4), np.float32), RNG.integers(0, 5, (m, 3, 2))
        np.testing.assert_array_equal(Model(graph)(x, z), x[np.arange(m)[:, None, None], z])


def test_each_item_takes_its_last_row() -> None:
    template = """
        pnnx.Input in 0 1 x #x=({n},5,4)f32
        pnnx.Attribute k 0 1 k @data=({n})i64
        pnnx.Input in2 0 1 z #z=({n})i64
        pnnx.Expression e 2 1 k z l expr=[@0,sub(@1,1)]
        Tensor.index i 2 1 x l y $input=x $expr=l
        pnnx.Output out 1 0 y
    """
    graph = traced(template, {"n": 1}, {"k": np.arange(1)})
    assert graph.make_dynamic() == []
    x, z = RNG.random((3, 5, 4), np.float32), np.array([1, 5, 3])
    np.testing.assert_array_equal(Model(graph)(x, z), x[np.arange(3), z - 1])


def test_numbers_of_items_in_the_operator_are_named() -> None:
    template = """
        pnnx.Input in 0 1 x #x=({n},5,4)f32
        Tensor.index i 1 1 x y expr=[[0],[0]]
        pnnx.Output out 1 0 y
    """
    assert traced(template, {"n": 1}, {}).make_dynamic() == ["i"]


def test_codes_of_items_are_put_apart() -> None:
    template = """
        pnnx.Input in 0 1 x #x=({n},16,4)f32
        Tensor.reshape r 1 1 x f shape=(16,4)
        torch.argmax a 1 1 f c dim=1 keepdim=False
        Tensor.reshape s 1 1 c y shape=(1,16)
        pnnx.Output out 1 0 y
    """
    graph = traced(template, {"n": 1}, {})
    assert graph.make_dynamic() == []
    x = RNG.random((3, 16, 4), np.float32)
    np.testing.assert_array_equal(Model(graph)(x), x.argmax(2))


def test_items_that_nothing_counts_are_named() -> None:
    template = """
        pnnx.Input in 0 1 x #x=(3,5,4)f32
        pnnx.Attribute k 0 1 k @data=(2,2)i64
        pnnx.Attribute z 0 1 z @data=(2,2)i64
        pnnx.Expression e 2 1 k z l expr=[@0,@1]
        Tensor.index i 2 1 x l y $input=x $expr=l
        pnnx.Output out 1 0 y
    """
    graph = traced(template, {}, {"k": np.int64([[0, 1], [2, 0]]), "z": np.zeros((2, 2), np.int64)})
    assert graph.make_dynamic() == ["i"]
