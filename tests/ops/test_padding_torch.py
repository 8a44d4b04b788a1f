"""Padding operators against PyTorch: modes, dtypes, ranks, layouts, cropping."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from graph_of_one import run

from pnnx_fast.errors import ParameterError, ShapeError

torch = pytest.importorskip("torch")
F = torch.nn.functional


def sample(*shape: int, dtype: str = "f4") -> np.ndarray:
    return (np.random.default_rng(1).standard_normal(shape) * 10).astype(dtype)


def check(kind: str, x: np.ndarray, want: Any, **params: Any) -> None:
    for last in (False, True):
        for threads in (1, 2):
            got = run(kind, x, last=last, threads=threads, **params)
            assert got.dtype == want.numpy().dtype
            np.testing.assert_array_equal(got, want.numpy())


@pytest.mark.parametrize("dtype", ["f4", "f8", "f2", "i8", "u1", "?", "c8"])
@pytest.mark.parametrize("sides", [(1, 2), (0, 0, 3, 1), (1, 0, 0, 2, 2, 2), (0, 0, 0, 0, 1, 1, 2, 0), (-1, 2, 1, -2)])
def test_constant(dtype: str, sides: tuple[int, ...]) -> None:
    x = sample(2, 6, 5, 7, dtype=dtype)
    for value in (None, 1, 2.5):
        if isinstance(value, float) and dtype in ("i8", "u1", "?"):
            continue
        check("F.pad", x, F.pad(torch.from_numpy(x), sides, "constant", value), pad=sides, mode="constant", value=value)


CASES = [
    ((3, 11), (2, 1)),
    ((2, 3, 11), (4, 0)),
    ((2, 3, 80), (32, 32)),
    ((2, 3, 80), (40, 41)),
    ((3, 5, 6), (1, 2, 3, 4)),
    ((2, 20, 5, 6), (2, 2, 1, 3)),
    ((2, 4, 5, 6), (-1, 2, 3, -2)),
    ((2, 3, 4, 5, 6), (1, 2, 3, 1, 2, 2)),
    ((4, 4, 5, 6), (0, 1, 0, 0, 1, 0)),
]


@pytest.mark.parametrize("mode", ["reflect", "replicate", "circular"])
@pytest.mark.parametrize("shape, sides", CASES)
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_borders(mode: str, shape: tuple[int, ...], sides: tuple[int, ...], dtype: str) -> None:
    x = sample(*shape, dtype=dtype)
    try:
        want = F.pad(torch.from_numpy(x), sides, mode)
    except (NotImplementedError, RuntimeError) as error:
        pytest.skip(str(error).splitlines()[0])
    check("F.pad", x, want, pad=sides, mode=mode, value=None)


@pytest.mark.parametrize("axes", [1, 2, 3])
@pytest.mark.parametrize("name", ["ConstantPad", "ZeroPad", "ReflectionPad", "ReplicationPad", "CircularPad"])
@pytest.mark.parametrize("batch", [True, False])
def test_modules(axes: int, name: str, batch: bool) -> None:
    x = sample(*([2] if batch else []), 3, *(5, 6, 7)[:axes])
    for padding in (2, list(range(1, 2 * axes + 1))[::-1] if axes < 3 else [1, 2, 0, 1, 2, 3]):
        extra = {"value": 1.5} if name == "ConstantPad" else {}
        module = getattr(torch.nn, f"{name}{axes}d")(padding, *extra.values())
        check(f"nn.{name}{axes}d", x, module(torch.from_numpy(x)), padding=padding, **extra)


def test_crop_and_nothing() -> None:
    x = sample(2, 3, 5, 6)
    check("F.pad", x, F.pad(torch.from_numpy(x), (-2, -1, 0, -3)), pad=(-2, -1, 0, -3))
    check("F.pad", x, torch.from_numpy(x), pad=(0, 0))
    check("F.pad", x, F.pad(torch.from_numpy(x), (1, 1), value=float("-inf")), pad=(1, 1), value="-inf")
    empty = np.empty((2, 0, 3), "f4")
    np.testing.assert_array_equal(run("F.pad", empty, pad=(1, 1, 2, 0), value=3.0), np.full((2, 2, 5), 3, "f4"))


def test_errors() -> None:
    x = sample(2, 3, 4)
    with pytest.raises(ShapeError, match="too large for mode reflect"):
        run("F.pad", x, pad=(4, 0), mode="reflect")
    with pytest.raises(ParameterError, match="mode must be"):
        run("F.pad", x, pad=(4, 0), mode="mirror")
    with pytest.raises(ParameterError, match="pairs"):
        run("F.pad", x, pad=(4, 0, 1))
    with pytest.raises(ShapeError, match="too large for mode circular"):
        run("F.pad", x, pad=(2, -4), mode="circular")


@pytest.mark.parametrize("mode", ["constant", "reflect", "replicate"])
@pytest.mark.parametrize("sides", [(-4, -1), (-5, 4), (4, -5), (-3, 2), (2, -3), (-4, 3), (-2, -2), (-4, 0)])
def test_more_is_cropped_than_there_is(mode: str, sides: tuple[int, int]) -> None:
    x = sample(2, 3, 4)
    try:
        want = F.pad(torch.from_numpy(x), sides, mode)
    except RuntimeError:
        with pytest.raises(ShapeError, match=r"cropped|too large"):
            run("F.pad", x, pad=sides, mode=mode)
    else:
        check("F.pad", x, want, pad=sides, mode=mode)


@pytest.mark.parametrize("mode", ["reflect", "replicate", "circular"])
@pytest.mark.parametrize("ndim, pairs", [(1, 1), (4, 1), (5, 1), (2, 2), (5, 2), (3, 3)])
def test_borders_of_other_ranks_are_refused(mode: str, ndim: int, pairs: int) -> None:
    x = sample(*[3] * ndim)
    with pytest.raises(NotImplementedError):
        F.pad(torch.from_numpy(x), (1, 1) * pairs, mode)
    with pytest.raises(ShapeError, match=f"{pairs} pairs"):
        run("F.pad", x, pad=(1, 1) * pairs, mode=mode)
