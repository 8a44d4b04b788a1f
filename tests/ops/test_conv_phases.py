"""Dilated convolutions over one dimension that run phase by phase, against the definition in double precision."""

from __future__ import annotations

import numpy as np
import pytest
from graph_of_one import run

import pnnx_fast
from pnnx_fast.ops._conv_choice import Choice


@pytest.fixture(autouse=True)
def any_size_pays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small cases are to take the path, too."""

    def winograd(isa: str, nthreads: int, geometry: dict[str, int], constant: bool, model_bytes: int) -> Choice:
        return Choice("conv_winograd_f32", "conv_winograd_pack_f32", 4)

    monkeypatch.setattr("pnnx_fast.ops._conv_parts.choose", winograd)


def definition(x: np.ndarray, w: np.ndarray, padding: int, dilation: int) -> np.ndarray:
    padded = np.pad(x.astype(float), [(0, 0), (0, 0), (padding, padding)])
    length = padded.shape[2] - dilation * (w.shape[2] - 1)
    taps = range(w.shape[2])
    return sum(np.einsum("ncl,oc->nol", padded[:, :, t * dilation :][:, :, :length], w[:, :, t]) for t in taps)


@pytest.mark.parametrize("taps", [3, 5, 7])
@pytest.mark.parametrize(
    "length, dilation, padding",
    [(60, 2, 2), (61, 2, 0), (60, 4, 8), (63, 5, 5), (64, 7, 0), (60, 9, 9), (59, 3, 1), (9, 8, 24)],
)
def test_definition(isa: str, taps: int, length: int, dilation: int, padding: int) -> None:
    rng = np.random.default_rng(length)
    x = rng.standard_normal((2, 24, length)).astype(np.float32)
    w = rng.standard_normal((40, 24, taps)).astype(np.float32)
    bias = rng.standard_normal(40).astype(np.float32)
    want = definition(x, w, padding, dilation) + bias[:, None]
    other = rng.standard_normal(want.shape).astype(np.float32)
    params = {"stride": 1, "padding": padding, "dilation": dilation, "activation": "relu"}
    for arrays, total in (((x,), want), ((x, other), want + other)):
        got = run(
            "fused.Conv1d", *arrays, names=("input", "residual")[: len(arrays)], weights={"weight": w, "bias": bias},
            isa=isa, threads=2, **params,
        )  # fmt: skip
        np.testing.assert_allclose(got, np.maximum(total, 0), rtol=0, atol=1e-5 * np.abs(total).max())


def test_nan_stays_in_its_window(isa: str) -> None:
    rng = np.random.default_rng(1)
    x = rng.standard_normal((1, 16, 50)).astype(np.float32)
    x[0, 3, 20] = np.nan
    w = rng.standard_normal((16, 16, 3)).astype(np.float32)
    got = run("nn.Conv1d", x, weights={"weight": w}, isa=isa, padding=4, dilation=4)
    assert np.flatnonzero(np.isnan(got).any((0, 1))).tolist() == [16, 20, 24]


@pytest.mark.parametrize("length, stride, count", [(512, 1, 1), (514, 1, 2), (512, 2, 0)])
def test_steps(isa: str, length: int, stride: int, count: int) -> None:
    """A dilation that divides the length takes one step, another one two; strides are left alone."""
    graph = pnnx_fast.Graph()
    x, y = graph.new_operand("x"), graph.new_operand("y")
    graph.new_operator("pnnx.Input", "in", outputs=[x])
    weight = {"weight": pnnx_fast.Attribute(np.ones((64, 64, 3), np.float32))}
    params = {"stride": stride, "padding": 4, "dilation": 4}
    graph.new_operator("nn.Conv1d", "c", inputs=[x], outputs=[y], attrs=weight, params=params)
    graph.new_operator("pnnx.Output", "out", inputs=[y])
    profile = str(pnnx_fast.Model(graph, 1, isa=isa).profile(np.ones((1, 64, length), np.float32)))
    assert profile.count("conv_winograd_f32") == count
