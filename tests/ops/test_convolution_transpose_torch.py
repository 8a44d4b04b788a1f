"""Transposed convolutions against PyTorch: ranks, groups, dtypes, layouts, weights as inputs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from graph_of_one import run

torch = pytest.importorskip("torch")
F = torch.nn.functional

SIZES = {1: (19,), 2: (9, 8), 3: (5, 6, 4)}
KERNELS = {1: (4,), 2: (3, 2), 3: (2, 3, 4)}
WINDOWS = [
    {},
    {"stride": 2, "padding": 1, "output_padding": 1},
    {"stride": 3, "dilation": 2, "padding": 2},
    {"dilation": 2},
]


def random(*shape: int, dtype: str = "f4") -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(dtype)


@pytest.mark.parametrize("axes", [1, 2, 3])
@pytest.mark.parametrize("params", WINDOWS, ids=str)
@pytest.mark.parametrize("groups, multiple", [(1, 2), (3, 2), (6, 1), (6, 3)])
def test_windows(axes: int, params: dict[str, Any], groups: int, multiple: int) -> None:
    outputs = multiple * groups
    x, weight, bias = random(2, 6, *SIZES[axes]), random(6, multiple, *KERNELS[axes]), random(outputs)
    convolve = getattr(F, f"conv_transpose{axes}d")
    tensors = [torch.from_numpy(a) for a in (x, weight, bias)]
    want = convolve(*tensors, groups=groups, **params).numpy()
    weights = {"weight": weight, "bias": bias}
    results = [
        run(f"nn.ConvTranspose{axes}d", x, weights=weights, groups=groups, last=last, **params)
        for last in (False, True)
    ]
    names = ["input", "weight", "bias"]
    results.append(run(f"F.conv_transpose{axes}d", x, weight, bias, names=names, groups=groups, **params))
    for got in results:
        np.testing.assert_allclose(got, want, rtol=0, atol=1e-5 * max(1.0, float(np.abs(want).max())))


@pytest.mark.parametrize("axes", [1, 2, 3])
def test_unbatched_and_without_bias(axes: int) -> None:
    x, weight = random(4, *SIZES[axes]), random(4, 5, *KERNELS[axes])
    want = getattr(F, f"conv_transpose{axes}d")(torch.from_numpy(x), torch.from_numpy(weight), stride=2)
    got = run(f"nn.ConvTranspose{axes}d", x, weights={"weight": weight}, stride=2)
    np.testing.assert_allclose(got, want, rtol=0, atol=1e-5 * float(want.abs().max()))


def test_lines_of_many_channels() -> None:
    x, weight, bias = random(1, 16, 12), random(16, 20, 2), random(20)
    for padding in range(4):
        want = F.conv_transpose1d(*map(torch.from_numpy, (x, weight, bias)), stride=2, padding=padding)
        got = run("nn.ConvTranspose1d", x, weights={"weight": weight, "bias": bias}, stride=2, padding=padding)
        np.testing.assert_allclose(got, want, rtol=0, atol=1e-5 * float(want.abs().max()))


def test_double() -> None:
    x, weight = random(1, 4, 5, 5, dtype="f8"), random(4, 3, 3, 3, dtype="f8")
    want = F.conv_transpose2d(torch.from_numpy(x), torch.from_numpy(weight), stride=2).numpy()
    got = run("nn.ConvTranspose2d", x, weights={"weight": weight}, stride=2)
    assert got.dtype == np.float64
    np.testing.assert_allclose(got, want, rtol=0, atol=1e-5 * np.abs(want).max())
