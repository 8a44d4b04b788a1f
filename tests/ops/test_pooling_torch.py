"""Pooling operators against PyTorch: all parameters, dtypes, layouts, inputs with and without a batch dimension."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from graph_of_one import run

import pnnx_fast
from pnnx_fast.errors import IndexRangeError, ParameterError, ShapeError

torch = pytest.importorskip("torch")
F = torch.nn.functional

SIZES = {1: (29,), 2: (13, 12), 3: (7, 6, 9)}


def sample(axes: int, dtype: str = "f4", batch: bool = True) -> np.ndarray:
    shape = (2, 19, *SIZES[axes]) if batch else (19, *SIZES[axes])
    return np.random.default_rng(5).standard_normal(shape).astype(dtype)


def check(kind: str, x: np.ndarray, want: Any, **params: Any) -> None:
    outputs = len(want) if isinstance(want, tuple) else 1
    for last in (False, True) if x.ndim > 3 else (False,):
        got = run(kind, x, outputs=outputs, last=last, **params)
        for g, w in zip(got if outputs > 1 else [got], want if outputs > 1 else [want], strict=True):
            assert g.dtype == w.numpy().dtype
            np.testing.assert_allclose(g, w.numpy(), 1e-5, 1e-5)


MAX = [
    {"kernel_size": 3},
    {"kernel_size": 3, "stride": 2, "padding": 1},
    {"kernel_size": 2, "stride": 2, "ceil_mode": True},
    {"kernel_size": 3, "stride": 2, "padding": 1, "ceil_mode": True, "return_indices": True},
    {"kernel_size": 2, "stride": 1, "padding": 1, "dilation": 2, "return_indices": True},
    {"kernel_size": 5, "stride": 1, "padding": 2},
]


@pytest.mark.parametrize("axes", [1, 2, 3])
@pytest.mark.parametrize("params", MAX, ids=str)
@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("batch", [True, False])
def test_max_pool(axes: int, params: dict[str, Any], dtype: str, batch: bool) -> None:
    x = sample(axes, dtype, batch)
    want = getattr(F, f"max_pool{axes}d")(torch.from_numpy(x), **params)
    check(f"F.max_pool{axes}d", x, want, **params)
    check(f"nn.MaxPool{axes}d", x, want, **params)


AVERAGE = [
    {"kernel_size": 2},
    {"kernel_size": 3, "stride": 2, "padding": 1},
    {"kernel_size": 3, "stride": 2, "padding": 1, "count_include_pad": False},
    {"kernel_size": 3, "stride": 2, "padding": 1, "ceil_mode": True},
    {"kernel_size": 2, "stride": 3, "ceil_mode": True, "count_include_pad": False},
]


@pytest.mark.parametrize("axes", [1, 2, 3])
@pytest.mark.parametrize("params", AVERAGE, ids=str)
@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("batch", [True, False])
def test_avg_pool(axes: int, params: dict[str, Any], dtype: str, batch: bool) -> None:
    x = sample(axes, dtype, batch)
    check(f"F.avg_pool{axes}d", x, getattr(F, f"avg_pool{axes}d")(torch.from_numpy(x), **params), **params)


def test_avg_pool_divisor() -> None:
    x = sample(2)
    params = {"kernel_size": [2, 3], "stride": [1, 2], "padding": [0, 1], "divisor_override": 7}
    check("nn.AvgPool2d", x, F.avg_pool2d(torch.from_numpy(x), **params), **params)


@pytest.mark.parametrize("axes", [1, 2, 3])
@pytest.mark.parametrize("norm", [1.0, 2.0, 3.0, float("inf")])
@pytest.mark.parametrize("ceil", [True, False])
def test_lp_pool(axes: int, norm: float, ceil: bool) -> None:
    x = np.abs(sample(axes))
    params = {"norm_type": norm, "kernel_size": 3, "stride": 2, "ceil_mode": ceil}
    check(f"F.lp_pool{axes}d", x, getattr(F, f"lp_pool{axes}d")(torch.from_numpy(x), **params), **params)


@pytest.mark.parametrize("axes", [1, 2])
@pytest.mark.parametrize("norm", [1, 2, 3, 2.0])
def test_lp_pool_of_integers(axes: int, norm: float) -> None:
    """Averages of whole powers are whole before the root is taken."""
    x = (np.abs(sample(axes)) * 10).astype(np.int64)
    params = {"norm_type": norm, "kernel_size": 3, "stride": 2}
    check(f"F.lp_pool{axes}d", x, getattr(F, f"lp_pool{axes}d")(torch.from_numpy(x), **params), **params)


@pytest.mark.parametrize("dtype", ["i8", "i4", "u1", "?"])
def test_lp_pool_modules_of_integers(dtype: str) -> None:
    """Modules hold their exponent as a float, so that results are floats."""
    x = (np.abs(sample(1)) * 10).astype(dtype)
    check("nn.LPPool1d", x, torch.nn.LPPool1d(3, 3, 2)(torch.from_numpy(x)), norm_type=3, kernel_size=3, stride=2)


@pytest.mark.parametrize("axes", [1, 2, 3])
@pytest.mark.parametrize("size", [1, 4, 10])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("batch", [True, False])
def test_adaptive_pools(axes: int, size: int, dtype: str, batch: bool) -> None:
    x = sample(axes, dtype, batch)
    t = torch.from_numpy(x)
    average = getattr(F, f"adaptive_avg_pool{axes}d")(t, size)
    check(f"F.adaptive_avg_pool{axes}d", x, average, output_size=size)
    largest = getattr(F, f"adaptive_max_pool{axes}d")(t, size, return_indices=True)
    check(f"nn.AdaptiveMaxPool{axes}d", x, largest, output_size=size, return_indices=True)


@pytest.mark.parametrize("size", [[0, 5], [3, 0], [4, 2]])
def test_adaptive_size_zero_keeps_the_size(size: list[int]) -> None:
    x = sample(2)
    want = F.adaptive_avg_pool2d(torch.from_numpy(x), [n or None for n in size])
    check("nn.AdaptiveAvgPool2d", x, want, output_size=size)


def test_adaptive_sizes_may_be_whole_floats() -> None:
    x = sample(2)
    for kind in ("avg", "max"):
        want = getattr(F, f"adaptive_{kind}_pool2d")(torch.from_numpy(x), (3, None))
        for size in ([3.0, None], [np.float32(3).item(), 0]):
            check(f"F.adaptive_{kind}_pool2d", x, want, output_size=size)
    for wrong in ([2.5, 3], [float("nan")], [1, 2, 3], ["a", 1]):
        with pytest.raises(ParameterError, match="output_size"):
            run("F.adaptive_avg_pool2d", x, output_size=wrong)


def test_areas_of_sizes_that_change() -> None:
    graph = pnnx_fast.Graph.parse(
        "7767517\n4 3\npnnx.Input x 0 1 x #x=(1,3,?,?)f32\n"
        "pnnx.Expression e 1 1 x s expr=[floor(mul(torch.float(size(@0,2)),0.5)),"
        "floor(mul(torch.float(size(@0,3)),1.5))]\n"
        "F.adaptive_avg_pool2d p 2 1 x s y $input=x $output_size=s #y=(1,3,?,?)f32\npnnx.Output y 1 0 y\n"
    )
    model = pnnx_fast.Model(graph)
    for size in ((7, 9), (8, 11)):
        x = np.random.default_rng(0).standard_normal((1, 3, *size)).astype("f4")
        want = F.interpolate(torch.from_numpy(x), scale_factor=(0.5, 1.5), mode="area")
        np.testing.assert_allclose(model(x), want.numpy(), 1e-5, 1e-6)


def test_max_unpool() -> None:
    x = sample(2)
    y, index = F.max_pool2d(torch.from_numpy(x), 2, return_indices=True)
    want = F.max_unpool2d(y, index, 2).numpy()
    got = run("nn.MaxUnpool2d", y.numpy(), index.numpy(), kernel_size=[2, 2], stride=[2, 2], padding=[0, 0])
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("place", [-1, 36])
def test_places_outside_are_refused(place: int) -> None:
    index = np.full((1, 1, 3, 3), place)
    with pytest.raises(IndexRangeError):
        run("nn.MaxUnpool2d", np.ones((1, 1, 3, 3), "f4"), index, kernel_size=[2, 2], stride=[2, 2], padding=[0, 0])
    with pytest.raises(ShapeError, match="every entry has a place"):
        run("nn.MaxUnpool2d", np.ones((1, 1, 3, 2), "f4"), index, kernel_size=[2, 2], stride=[2, 2], padding=[0, 0])


def test_errors_name_the_operator() -> None:
    x = sample(2)
    with pytest.raises(ParameterError, match=r"padding.*half"):
        run("F.max_pool2d", x, kernel_size=2, padding=2)
    with pytest.raises(ShapeError, match=r"F\.avg_pool2d op: the window is larger"):
        run("F.avg_pool2d", x, kernel_size=20)
    with pytest.raises(ShapeError, match="needs 3 or 4 dimensions"):
        run("F.max_pool2d", x[0, 0], kernel_size=2)


@pytest.mark.parametrize("kind", ["avg", "max"])
@pytest.mark.parametrize("axes", [1, 2, 3])
@pytest.mark.parametrize("batch", [False, True])
def test_single_pixels_become_several(kind: str, axes: int, batch: bool) -> None:
    name = f"adaptive_{kind}_pool{axes}d"
    x = np.random.default_rng(3).standard_normal((2, 8, *[1] * axes)).astype("f4")[0 if not batch else slice(None)]
    check(f"F.{name}", x, getattr(F, name)(torch.from_numpy(x), [2] * axes), output_size=[2] * axes)


@pytest.mark.parametrize("axes", [1, 2, 3])
@pytest.mark.parametrize("dtype", ["f4", "f8", "f2"])
def test_the_place_of_several_nan_is_the_last(axes: int, dtype: str) -> None:
    x = np.random.default_rng(1).standard_normal((2, 3, *SIZES[axes])).astype(dtype)
    x[np.random.default_rng(2).random(x.shape) < 0.3] = np.nan
    params: dict[str, Any] = {"kernel_size": 3, "stride": 2, "padding": 1, "return_indices": True}
    check(f"F.max_pool{axes}d", x, getattr(F, f"max_pool{axes}d")(torch.from_numpy(x), **params), **params)
    params = {"output_size": 4, "return_indices": True}
    check(
        f"F.adaptive_max_pool{axes}d",
        x,
        getattr(F, f"adaptive_max_pool{axes}d")(torch.from_numpy(x), **params),
        **params,
    )


@pytest.mark.parametrize("dtype", ["f4", "f8", "f2", "i8", "u1"])
@pytest.mark.parametrize("shape", [(2, 1, 5, 1), (2, 3, 1, 1), (0, 3, 6, 6)])
@pytest.mark.parametrize("indices", [False, True])
def test_windows_in_the_padding_and_empty_batches(dtype: str, shape: tuple[int, ...], indices: bool) -> None:
    x = np.ones(shape, dtype)
    params = {"kernel_size": 2, "stride": 3, "padding": 1, "dilation": 2, "ceil_mode": True, "return_indices": indices}
    check("F.max_pool2d", x, F.max_pool2d(torch.from_numpy(x), **params), **params)


@pytest.mark.parametrize("divisor", [None, 3, -3])
def test_averages_of_integers_keep_every_digit(divisor: int | None) -> None:
    x = np.random.default_rng(1).integers(-(2**61), 2**61, (2, 3, 6, 7))
    extra = {} if divisor is None else {"divisor_override": divisor}
    for params in ({"kernel_size": 2, **extra}, {"kernel_size": 3, "padding": 1, "count_include_pad": False, **extra}):
        want = F.avg_pool2d(torch.from_numpy(x), **params).numpy()
        np.testing.assert_array_equal(run("F.avg_pool2d", x, **params), want)
