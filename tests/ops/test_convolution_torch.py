"""Convolutions against PyTorch: ranks, padding forms and modes, groups, dtypes, layouts, fused residual, activation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from graph_of_one import run

from pnnx_fast.errors import ParameterError, ShapeError

torch = pytest.importorskip("torch")
F = torch.nn.functional

SIZES = {1: (19,), 2: (13, 12), 3: (6, 7, 5)}
KERNELS = {1: (3,), 2: (3, 2), 3: (2, 3, 3)}


def random(*shape: int, dtype: str = "f4") -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(dtype)


def check(x: np.ndarray, weight: np.ndarray, bias: np.ndarray | None, want: Any, **params: Any) -> None:
    """Compare nn.ConvNd, with the input in both layouts, and F.convNd with weights as inputs."""
    axes = weight.ndim - 2
    weights = {"weight": weight} if bias is None else {"weight": weight, "bias": bias}
    arrays = [x, weight] if bias is None else [x, weight, bias]
    want = want.detach().numpy()
    results = [run(f"nn.Conv{axes}d", x, weights=weights, last=last, **params) for last in (False, True)]
    if "padding_mode" not in params:
        results.append(run(f"F.conv{axes}d", *arrays, names=["input", "weight", "bias"][: len(arrays)], **params))
    for got in results:
        assert got.dtype == want.dtype
        np.testing.assert_allclose(got, want, rtol=0, atol=1e-5 * max(1.0, float(np.abs(want).max())))


WINDOWS = [
    {},
    {"stride": 2, "padding": 1},
    {"padding": "same", "dilation": 2},
    {"padding": "same"},
    {"padding": "valid", "stride": 3},
    {"padding": 3, "dilation": 2, "stride": 2},
]


@pytest.mark.parametrize("axes", [1, 2, 3])
@pytest.mark.parametrize("params", WINDOWS, ids=str)
@pytest.mark.parametrize("groups", [1, 3, 6])
@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel")
def test_windows(axes: int, params: dict[str, Any], groups: int) -> None:
    x, weight, bias = random(2, 6, *SIZES[axes]), random(12, 6 // groups, *KERNELS[axes]), random(12)
    convolve = getattr(F, f"conv{axes}d")
    want = convolve(torch.from_numpy(x), torch.from_numpy(weight), torch.from_numpy(bias), groups=groups, **params)
    check(x, weight, bias, want, groups=groups, **params)


@pytest.mark.parametrize("axes", [1, 2, 3])
def test_unbatched_and_without_bias(axes: int) -> None:
    x, weight = random(4, *SIZES[axes]), random(5, 4, *KERNELS[axes])
    want = getattr(F, f"conv{axes}d")(torch.from_numpy(x), torch.from_numpy(weight), padding=1)
    check(x, weight, None, want, padding=1)


@pytest.mark.parametrize("axes", [1, 2, 3])
@pytest.mark.parametrize("mode", ["reflect", "replicate", "circular"])
def test_padding_modes(axes: int, mode: str) -> None:
    layer = getattr(torch.nn, f"Conv{axes}d")(4, 6, KERNELS[axes], padding=(2, 1, 2)[:axes], padding_mode=mode)
    x = random(2, 4, *SIZES[axes])
    weight, bias = layer.weight.detach().numpy(), layer.bias.detach().numpy()
    check(x, weight, bias, layer(torch.from_numpy(x)), padding=(2, 1, 2)[:axes], padding_mode=mode)


@pytest.mark.parametrize("dtype", ["f8", "f2"])
def test_dtypes(dtype: str) -> None:
    x, weight, bias = random(1, 3, 9, 9, dtype=dtype), random(4, 3, 3, 3, dtype=dtype), random(4, dtype=dtype)
    want = F.conv2d(*(torch.from_numpy(a).double() for a in (x, weight, bias))).numpy()
    got = run("nn.Conv2d", x, weights={"weight": weight, "bias": bias})
    assert got.dtype == x.dtype
    np.testing.assert_allclose(got, want, rtol=0, atol=1e-5 if dtype == "f8" else 2e-2)


@pytest.mark.parametrize("groups", [1, 8])
@pytest.mark.parametrize("kernel", [1, 3])
def test_residual_and_activation(kernel: int, groups: int) -> None:
    x, z = random(2, 8, 10, 11), random(2, 8, 10, 11)
    weight, bias = random(8, 8 // groups, kernel, kernel), random(8)
    params = {"padding": kernel // 2, "groups": groups}
    y = F.conv2d(torch.from_numpy(x), torch.from_numpy(weight), torch.from_numpy(bias), **params)
    want = F.leaky_relu(y + torch.from_numpy(z), 0.2).numpy()
    extra = {"activation": "leaky_relu", "activation_params": [0.2]}
    weights = {"weight": weight, "bias": bias}
    got = run("fused.Conv2d", x, z, names=["input", "residual"], weights=weights, **params, **extra)
    np.testing.assert_allclose(got, want, rtol=0, atol=1e-5)
    same = run("fused.Conv2d", x, weights=weights, **params, **extra)
    np.testing.assert_allclose(same, F.leaky_relu(y, 0.2).numpy(), rtol=0, atol=1e-5)


@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("size", [5, 8])
def test_same_padding_with_strides(stride: int, size: int) -> None:
    """ONNX has strides there, torch has not: an output for each stride, the larger share of zeros behind."""
    x, weight = random(1, 4, size, size), random(6, 4, 3, 3)
    zeros = max((-(-size // stride) - 1) * stride + 3 - size, 0)
    padded = F.pad(torch.from_numpy(x), (zeros // 2, zeros - zeros // 2) * 2)
    want = F.conv2d(padded, torch.from_numpy(weight), stride=stride)
    got = run("nn.Conv2d", x, weights={"weight": weight}, padding="same", stride=stride)
    np.testing.assert_allclose(got, want.numpy(), rtol=0, atol=1e-5)


def test_errors() -> None:
    x, weight = random(1, 4, 5, 5), random(6, 4, 3, 3)
    with pytest.raises(ShapeError, match="channels do not fit"):
        run("nn.Conv2d", x[:, :3], weights={"weight": weight})
    with pytest.raises(ShapeError, match="larger than the padded input"):
        run("nn.Conv2d", x[:, :, :2], weights={"weight": weight})
    with pytest.raises(ShapeError, match="2-d convolution"):
        run("nn.Conv2d", x[0, 0], weights={"weight": weight})
    with pytest.raises(ParameterError, match="stride 1"):
        run("nn.Conv2d", x, weights={"weight": weight}, padding="same", stride=(2, 0))
    with pytest.raises(ParameterError, match="unknown padding"):
        run("nn.Conv2d", x, weights={"weight": weight}, padding="some")
