"""Convolutions of integers against PyTorch: every digit, and what is left of sums that are too large."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from graph_of_one import call, run

from pnnx_fast.errors import ParameterError, ShapeError

torch = pytest.importorskip("torch")
F = torch.nn.functional

SIZES = {1: (19,), 2: (9, 8), 3: (5, 6, 4)}
KERNELS = {1: (4,), 2: (3, 2), 3: (2, 3, 4)}
NAMES = ["input", "weight", "bias"]


def whole(*shape: int, dtype: str) -> np.ndarray:
    """Numbers of all sizes that the type has."""
    limits = np.iinfo(dtype)
    return np.random.default_rng(sum(shape)).integers(limits.min, limits.max, shape, dtype)


def check(kind: str, arrays: list[np.ndarray], want: Any, **params: Any) -> None:
    """Compare the function, with weights as inputs, and the module."""
    module = kind.replace("F.conv", "nn.Conv").replace("_transpose", "Transpose")
    weights = dict(zip(NAMES[1:], arrays[1:], strict=True))
    for got in (
        run(kind, *arrays, names=NAMES, **params),
        run(module, arrays[0], weights=weights, last=True, **params),
    ):
        assert got.dtype == want.numpy().dtype
        np.testing.assert_array_equal(got, want.numpy())


@pytest.mark.parametrize("axes", [1, 2, 3])
@pytest.mark.parametrize(
    "dtype, params",
    [
        *((dtype, {"stride": 2, "padding": 3, "groups": 2}) for dtype in ("u1", "i1", "i2", "i4", "i8")),
        ("i4", {}),
        ("i8", {"dilation": 2, "padding": 2}),
    ],
)
def test_every_digit_is_right(axes: int, dtype: str, params: dict[str, Any]) -> None:
    arrays = [
        whole(2, 4, *SIZES[axes], dtype=dtype),
        whole(6, 4 // params.get("groups", 1), *KERNELS[axes], dtype=dtype),
        whole(6, dtype=dtype),
    ]
    want = getattr(F, f"conv{axes}d")(*map(torch.from_numpy, arrays), **params)
    check(f"F.conv{axes}d", arrays, want, **params)


@pytest.mark.parametrize("axes", [1, 2, 3])
@pytest.mark.parametrize(
    "params",
    [
        {},
        {"stride": 2, "padding": 1, "output_padding": 1},
        {"dilation": 2, "padding": 3, "groups": 2},
        {"stride": 20, "output_padding": 3},
    ],
)
def test_every_digit_of_transposed_ones_is_right(axes: int, params: dict[str, Any]) -> None:
    arrays = [
        whole(2, 4, *SIZES[axes], dtype="i8"),
        whole(4, 3, *KERNELS[axes], dtype="i8"),
        whole(3 * params.get("groups", 1), dtype="i8"),
    ]
    want = getattr(F, f"conv_transpose{axes}d")(*map(torch.from_numpy, arrays), **params)
    check(f"F.conv_transpose{axes}d", arrays, want, **params)


def test_lines_with_channels_last_are_exact() -> None:
    arrays = [whole(9, 2, 3, dtype="i8"), whole(4, 3, 5, dtype="i8"), whole(5, dtype="i8")]
    want = torch.conv_tbc(*map(torch.from_numpy, arrays), 1)
    np.testing.assert_array_equal(call("aten::conv_tbc", (*arrays, 1), 1), want.numpy())


def test_padding_needs_no_memory() -> None:
    x, weight = np.array([[[5, 6, 7]]]), np.array([[[2, 3]]])
    far = 10**12
    got = run("F.conv1d", x, weight, names=NAMES[:2], padding=far, stride=far, dilation=far)
    assert got.tolist() == [[[5 * 3, 5 * 2]]]


@pytest.mark.parametrize("activation, params", [("none", []), ("relu", []), ("clip", [0.0, 6.0])])
def test_residual_and_activation_are_of_integers(activation: str, params: list[float]) -> None:
    x, z, weight = (whole(*shape, dtype="i4") for shape in ((1, 3, 5, 5), (1, 4, 4, 4), (4, 3, 2, 2)))
    y = F.conv2d(torch.from_numpy(x), torch.from_numpy(weight)) + torch.from_numpy(z)
    want = {"none": y, "relu": F.relu(y), "clip": y.clamp(0, 6)}[activation]
    extra = {"activation": activation, "activation_params": params}
    got = run("fused.Conv2d", x, z, names=["input", "residual"], weights={"weight": weight}, **extra)
    assert got.dtype == np.int32
    np.testing.assert_array_equal(got, want.numpy())


def test_a_linear_layer_with_an_activation_is_exact() -> None:
    x, weight, bias = whole(3, 5, dtype="i8"), whole(4, 5, dtype="i8"), whole(4, dtype="i8")
    got = run("fused.Linear", x, weights={"weight": weight, "bias": bias}, activation="relu")
    want = torch.from_numpy(x) @ torch.from_numpy(weight).T + torch.from_numpy(bias)
    np.testing.assert_array_equal(got, F.relu(want).numpy())


def test_activations_that_make_floats_are_refused() -> None:
    x, weight = whole(1, 3, 5, 5, dtype="i4"), whole(4, 3, 2, 2, dtype="i4")
    with pytest.raises(ParameterError, match="floats of integers"):
        run("fused.Conv2d", x, weights={"weight": weight}, activation="sigmoid")


@pytest.mark.parametrize(
    "kind, types",
    [
        *(("F.conv2d", types) for types in ("i1 f2 f2", "f4 i8 f4", "f4 f4 i8", "i4 i8 i4", "? ? ?")),
        *(("F.conv_transpose2d", types) for types in ("i1 f2 f2", "f4 i8 f4", "? ? ?")),
    ],
)
def test_other_mixtures_of_types_are_refused(kind: str, types: str) -> None:
    shapes = ((1, 2, 3, 3), (2, 2, 2, 2), (2,))
    arrays = [np.ones(shape, dtype) for shape, dtype in zip(shapes, types.split(), strict=True)]
    with pytest.raises(RuntimeError):
        getattr(F, kind[2:])(*map(torch.from_numpy, arrays))
    with pytest.raises(ShapeError, match=r"one type|truth values"):
        run(kind, *arrays, names=NAMES)
