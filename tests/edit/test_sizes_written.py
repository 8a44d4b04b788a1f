"""Constants that parts of a batch are written into or multiplied by, when its size may vary."""

from __future__ import annotations

import numpy as np
import pytest

import pnnx_fast
from pnnx_fast.errors import ShapeError


def _written(last: float, name: str = "pnnx_fold_y.1") -> pnnx_fast.Graph:
    """Three columns of four are written; rows of the constant differ in the last one, of which something is kept."""
    graph = pnnx_fast.Graph.parse(
        f"7767517\n5 4\npnnx.Input i 0 1 x #x=(2,3)f32\npnnx.Attribute {name} 0 1 c @data=(2,4)f32 #c=(2,4)f32\n"
        "Tensor.clone k 1 1 c d #d=(2,4)f32\n"
        "Tensor.slice_copy w 2 1 d x y dims=(1) starts=(0) ends=(3) steps=(1) selects=(2147483647) $self=d $src=x "
        "#x=(2,3)f32 #y=(2,4)f32\npnnx.Output o 1 0 y\n"
    )
    graph.ops[1].attrs = {"data": pnnx_fast.Attribute(np.array([[1, 2, 3, 4], [1, 2, 3, last]], np.float32))}
    return graph


@pytest.mark.parametrize("last", [4, 4.00001])
def test_rows_that_the_converters_run_rounded_differently_are_one(last: float) -> None:
    graph = _written(last)
    assert graph.make_dynamic() == []
    model = pnnx_fast.Model(graph)
    for batch in (0, 1, 2, 3):
        want = np.tile(np.array([1, 1, 1, 4], np.float32), (batch, 1))
        np.testing.assert_array_equal(model(np.ones((batch, 3), np.float32)), want)


@pytest.mark.parametrize("last, name", [(5, "pnnx_fold_y.1"), (4.00001, "bank")])
def test_other_rows_repeat_for_multiples_of_their_number_only(last: float, name: str) -> None:
    graph = _written(last, name)
    assert graph.make_dynamic() == []
    model = pnnx_fast.Model(graph)
    rows = np.array([[1, 1, 1, 4], [1, 1, 1, last]], np.float32)
    for batch in (0, 2, 4):
        np.testing.assert_array_equal(model(np.ones((batch, 3), np.float32)), np.tile(rows, (batch // 2, 1)))
    for batch in (1, 3, 5):
        with pytest.raises(ShapeError, match=r"Tensor\.repeat w_repeat"):
            model(np.ones((batch, 3), np.float32))


@pytest.mark.parametrize("kind", ["torch.matmul", "torch.bmm"])
@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("order", ["c x", "x c"])
def test_a_matrix_for_every_item_of_a_batch_is_one(kind: str, batch: int, order: str) -> None:
    matrix = np.random.default_rng(0).standard_normal((1, 3, 3)).astype(np.float32)
    graph = pnnx_fast.Graph.parse(
        f"7767517\n4 3\npnnx.Input i 0 1 x #x=({batch},3,3)f32\npnnx.Attribute c 0 1 c @data=({batch},3,3)f32\n"
        f"{kind} m 2 1 {order} y #y=({batch},3,3)f32\npnnx.Output o 1 0 y\n"
    )
    graph.ops[1].attrs = {"data": pnnx_fast.Attribute(np.repeat(matrix, batch, 0))}
    assert graph.make_dynamic() == []
    model = pnnx_fast.Model(graph)
    for size in (1, 2, 5):
        x = np.random.default_rng(1).standard_normal((size, 3, 3)).astype(np.float32)
        want = matrix @ x if order == "c x" else x @ matrix
        np.testing.assert_allclose(model(x), want, atol=1e-5)


def test_matrices_of_their_own_for_the_items_of_a_batch_are_named() -> None:
    graph = pnnx_fast.Graph.parse(
        "7767517\n4 3\npnnx.Input i 0 1 x #x=(2,3,3)f32\npnnx.Attribute c 0 1 c @data=(2,3,3)f32\n"
        "torch.bmm m 2 1 x c y #y=(2,3,3)f32\npnnx.Output o 1 0 y\n"
    )
    graph.ops[1].attrs = {"data": pnnx_fast.Attribute(np.arange(18, dtype=np.float32).reshape(2, 3, 3))}
    with pytest.raises(ShapeError, match="the constant c does not vary"):
        graph.make_dynamic()
