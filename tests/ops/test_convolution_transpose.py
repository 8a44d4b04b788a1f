"""Transposed convolution against its definition: every input adds a copy of the filter to the output."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from graph_of_one import run

from pnnx_fast.errors import ParameterError, ShapeError


def scatter(x: np.ndarray, w: np.ndarray, stride: int, padding: int, extra: int, dilation: int) -> np.ndarray:
    """Two dimensions, in double precision."""
    (n, _, h, width), (_, oc, kh, kw) = x.shape, w.shape
    full = np.zeros((n, oc, (h - 1) * stride + dilation * (kh - 1) + 1 + extra,
                     (width - 1) * stride + dilation * (kw - 1) + 1 + extra))  # fmt: skip
    for ky, kx in itertools.product(range(kh), range(kw)):
        y0, x0 = ky * dilation, kx * dilation
        part = np.einsum("nchw,co->nohw", x.astype(float), w[:, :, ky, kx].astype(float))
        full[:, :, y0 : y0 + (h - 1) * stride + 1 : stride, x0 : x0 + (width - 1) * stride + 1 : stride] += part
    return full[:, :, padding : full.shape[2] - padding, padding : full.shape[3] - padding]


@pytest.mark.parametrize("k, stride, padding, extra, dilation", [
    (2, 2, 0, 0, 1), (4, 2, 1, 0, 1), (3, 2, 1, 1, 1), (3, 1, 1, 0, 1), (6, 2, 2, 0, 1), (5, 3, 0, 2, 1),
    (3, 2, 2, 1, 2), (3, 2, 3, 0, 3), (1, 3, 0, 2, 1), (2, 3, 1, 0, 1), (3, 4, 0, 3, 2), (9, 1, 6, 0, 1),
    (3, 17, 1, 4, 1), (5, 40, 0, 7, 9),
])  # fmt: skip
def test_definition(isa: str, k: int, stride: int, padding: int, extra: int, dilation: int) -> None:
    rng = np.random.default_rng(k)
    x = rng.standard_normal((2, 5, 7, 6)).astype(np.float32)
    w = rng.standard_normal((5, 19, k, k)).astype(np.float32)
    bias = rng.standard_normal(19).astype(np.float32)
    want = scatter(x, w, stride, padding, extra, dilation) + bias[:, None, None]
    params = {"stride": stride, "padding": padding, "output_padding": extra, "dilation": dilation}
    got = run("nn.ConvTranspose2d", x, weights={"weight": w, "bias": bias}, isa=isa, threads=2, **params)
    np.testing.assert_allclose(got, want, rtol=0, atol=1e-5 * np.abs(want).max())


def test_activation_reaches_outputs_without_taps() -> None:
    x, w = np.ones((1, 1, 2, 2), np.float32), np.full((1, 1, 1, 1), -3, np.float32)
    weights = {"weight": w, "bias": np.full(1, 2, np.float32)}
    got = run("fused.ConvTranspose2d", x, weights=weights, stride=2, activation="relu")
    np.testing.assert_array_equal(got[0, 0], [[0, 2, 0], [2, 2, 2], [0, 2, 0]])


@pytest.mark.parametrize(
    "params, error",
    [({"output_padding": 2, "stride": 2}, ParameterError), ({"padding": 9}, ShapeError), ({"groups": 2}, ShapeError)],
)
def test_errors(params: dict[str, Any], error: type[Exception]) -> None:
    x, w = np.ones((1, 3, 4, 4), np.float32), np.ones((3, 2, 3, 3), np.float32)
    with pytest.raises(error):
        run("nn.ConvTranspose2d", x, weights={"weight": w}, **params)
