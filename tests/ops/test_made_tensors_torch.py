"""Tensors made of numbers, and joined or cut where something is empty, against PyTorch."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from graph_of_one import call, run

import pnnx_fast
from pnnx_fast.errors import ParameterError, ShapeError

torch = pytest.importorskip("torch")


def same(got: Any, want: Any) -> None:
    assert got.dtype == want.numpy().dtype
    np.testing.assert_array_equal(got, want.numpy())


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int32", "int64", "float32"])
@pytest.mark.parametrize(
    "bounds", [(0, 9, 2.5), (0.5, 4.5, 1.5), (0.1, -7.9, -4.0), (0, 9.9, 1), (3, 3.5, 1), (-3, 3, 1), (0, 4, 2)]
)
def test_a_range_of_integers_has_whole_bounds(bounds: tuple[float, float, float], dtype: str) -> None:
    start, end, step = bounds
    want = torch.arange(start, end, step, dtype=getattr(torch, dtype))
    same(run("torch.arange", start=start, end=end, step=step, dtype=f"torch.{dtype}"), want)


def test_steps_of_small_integers_may_round_to_zero() -> None:
    want = torch.arange(0.5, 3, 0.7, dtype=torch.int8)
    same(run("torch.arange", start=0.5, end=3, step=0.7, dtype="torch.int8"), want)


@pytest.mark.parametrize("bounds", [(0, 5, 0.3), (5, 0, 1), (0.0, "inf", 1), ("nan", 3, 1), (0.9, 5, -1)])
def test_ranges_without_steps_or_ends_are_refused(bounds: tuple[Any, Any, Any]) -> None:
    start, end, step = bounds
    with pytest.raises((RuntimeError, ValueError)):
        torch.arange(float(start), float(end), float(step), dtype=torch.int64)
    with pytest.raises(ParameterError, match=r"step|range"):
        run("torch.arange", start=start, end=end, step=step, dtype="torch.long")


NUMBERS = [
    -5,
    255,
    -255,
    300,
    -256,
    1.5,
    255.7,
    -0.5,
    -129,
    128,
    float("inf"),
    float("nan"),
    1e20,
    True,
    1 + 2j,
    1 + 0j,
]


@pytest.mark.parametrize("value", NUMBERS, ids=str)
@pytest.mark.parametrize("dtype", ["uint8", "int8", "int32", "int64", "float32", "bool"])
def test_numbers_fit_into_the_type_or_are_refused(value: Any, dtype: str) -> None:
    kind = getattr(torch, dtype)
    text = f"{value.real:g}+{value.imag:g}j" if isinstance(value, complex) else str(value)
    given = text if isinstance(value, complex) or value in (float("inf"), 1e20) or value != value else value
    code = {"uint8": 0, "int8": 1, "int32": 3, "int64": 4, "float32": 6, "bool": 11}[dtype]
    calls = [lambda: run("torch.full", size=[2], fill_value=given, dtype=f"torch.{dtype}")]
    if not isinstance(given, str):
        calls.append(lambda: call("aten::scalar_tensor", (value, code, None, None, None), 1))
        calls.append(lambda: run("F.pad", np.ones(2, torch.ones(1).to(kind).numpy().dtype), pad=[0, 1], value=value)[2])
    try:
        want = torch.full((2,), value, dtype=kind)
    except RuntimeError:
        for refused in calls:
            with pytest.raises(ParameterError, match="cannot be"):
                refused()
        return
    for made in calls:
        got = np.asarray(made())
        assert got.dtype == want.numpy().dtype
        np.testing.assert_array_equal(got, want.numpy()[: got.size].reshape(got.shape))


@pytest.mark.parametrize("empty, dtype", [("f4", "i8"), ("f8", "f4"), ("i8", "i4"), ("i4", "f2")])
@pytest.mark.parametrize("shape, dim", [((3,), 0), ((2, 3), 1)])
def test_empty_tensors_count_for_the_type_of_what_is_joined(empty: str, dtype: str, shape: Any, dim: int) -> None:
    parts = [np.zeros(0, empty), np.ones(shape, dtype), np.ones(shape, dtype)]
    same(run("torch.cat", *parts, dim=dim), torch.cat([torch.from_numpy(p) for p in parts], dim))


def test_a_number_alone_is_its_own_reverse() -> None:
    for dims in ([0], [-1], []):
        same(call("aten::flip", (np.float32(3).reshape(()), dims), 1), torch.flip(torch.tensor(3.0), dims))


@pytest.mark.parametrize("kind", ["aten::chunk", "aten::unsafe_chunk"])
def test_nothing_is_cut_into_as_many_parts_as_are_asked_for(kind: str) -> None:
    got = call(kind, (np.zeros((2, 0, 3), "f4"), 3, 1), 1, {})
    assert [part.shape for part in got] == [part.shape for part in torch.zeros(2, 0, 3).chunk(3, 1)]
    with pytest.raises(ParameterError, match="sections"):
        call(kind, (np.zeros((2, 0, 3), "f4"), 10**9, 1), 1)


def test_repeat_names_every_dimension_but_tile_need_not() -> None:
    x = np.ones((2, 3), "f4")
    with pytest.raises(ShapeError, match="each dimension"):
        run("Tensor.repeat", x, sizes=[2])
    same(run("torch.tile", x, dims=[2]), torch.from_numpy(x).tile((2,)))


@pytest.mark.parametrize("noted", ["i64", "f32"])
def test_numbers_that_python_rounds_make_integers(noted: str) -> None:
    graph = pnnx_fast.Graph.parse(
        "7767517\n7 6\npnnx.Input in 0 1 x #x=(?,3)f32\npnnx.Expression e 1 1 x a expr=ceil(mul(size(@0,0),0.4))\n"
        "pnnx.Expression l 1 1 x b expr=[ceil(mul(size(@0,0),0.4))]\n"
        f"torch.arange r 1 1 a c dtype=None $end=a #c=(?){noted}\n"
        f"torch.full f 2 1 b a d dtype=None $size=b $fill_value=a #d=(?){noted}\n"
        "pnnx.Output o0 1 0 c\npnnx.Output o1 1 0 d\n"
    )
    model, dtype = pnnx_fast.Model(graph), torch.int64 if noted == "i64" else torch.float32
    for n in (8, 12):
        m = math.ceil(n * 0.4)
        line, filled = model(np.zeros((n, 3), np.float32))
        same(line, torch.arange(m, dtype=dtype))
        same(filled, torch.full([m], m, dtype=dtype))


@pytest.mark.parametrize(("fill", "dtype"), [("2", "int64"), ("2.0", "int64"), ("2.5", "float32")])
def test_only_whole_numbers_become_the_integers_that_are_noted(fill: str, dtype: str) -> None:
    graph = pnnx_fast.Graph.parse(
        f"7767517\n2 1\ntorch.full f 0 1 x size=(2) fill_value={fill} dtype=None #x=(2)i64\npnnx.Output o 1 0 x\n"
    )
    same(pnnx_fast.Model(graph)(), torch.full([2], float(fill), dtype=getattr(torch, dtype)))
