"""Convolutions in three dimensions that are summed over the depth of the filter, against the definition."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import pytest
from graph_of_one import run

import pnnx_fast
from pnnx_fast.ops._conv_parts import planes, runs


def definition(
    x: np.ndarray, w: np.ndarray, groups: int, stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int]
) -> np.ndarray:
    """Double precision, tap by tap."""
    padded = np.pad(x.astype(float), [(0, 0), (0, 0), *((p, p) for p in padding)])
    axes = list(zip(padded.shape[2:], w.shape[2:], stride, dilation, strict=True))
    out = [(n - d * (k - 1) - 1) // s + 1 for n, k, s, d in axes]
    inputs, outputs = w.shape[1], w.shape[0] // groups
    y = np.zeros((x.shape[0], w.shape[0], *out))
    for tap in itertools.product(*map(range, w.shape[2:])):
        window = [slice(t * d, t * d + n * s, s) for t, n, (_, _, s, d) in zip(tap, out, axes, strict=True)]
        part = padded[(slice(None), slice(None), *window)]
        for g in range(groups):
            matrix = w[(slice(g * outputs, (g + 1) * outputs), slice(None), *tap)].astype(float)
            y[:, g * outputs : (g + 1) * outputs] += np.einsum(
                "ncdhw,oc->nodhw", part[:, g * inputs : (g + 1) * inputs], matrix
            )
    return y


@pytest.mark.parametrize(
    "ic, oc, groups, kernel, stride, padding, dilation",
    [
        (20, 20, 20, (3, 3, 3), 1, 1, 1),
        (20, 20, 20, (5, 3, 3), 2, 1, 1),
        (20, 20, 20, (3, 5, 5), 1, 2, 2),
        (24, 24, 6, (3, 3, 3), 1, 1, 1),
        (24, 48, 6, (2, 3, 3), 2, 1, 1),
        (32, 24, 1, (3, 3, 3), 1, 1, 1),
        (32, 24, 1, (3, 3, 3), 1, 0, 1),
        (16, 16, 1, (1, 3, 3), 1, 1, 1),
        (20, 20, 20, (7, 3, 3), 1, 6, 1),
        (20, 20, 20, (3, 3, 3), 2, 4, 3),
        (24, 24, 6, (2, 3, 3), 1, 2, 1),
    ],
)
def test_definition(
    isa: str, ic: int, oc: int, groups: int, kernel: tuple[int, ...], stride: int, padding: int, dilation: int
) -> None:
    rng = np.random.default_rng(ic)
    x = rng.standard_normal((2, ic, 6, 15, 14)).astype(np.float32)
    w = rng.standard_normal((oc, ic // groups, *kernel)).astype(np.float32)
    bias = rng.standard_normal(oc).astype(np.float32)
    want = definition(x, w, groups, [stride] * 3, [padding] * 3, [dilation] * 3) + bias[:, None, None, None]
    want = np.where(want > 0, want, 0.1 * want)
    params = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    weights = {"weight": w, "bias": bias}
    params |= {"activation": "leaky_relu", "activation_params": (0.1,)}
    got = run("fused.Conv3d", x, weights=weights, isa=isa, threads=2, **params)
    np.testing.assert_allclose(got, want, rtol=0, atol=1e-5 * np.abs(want).max())


@pytest.mark.parametrize(
    "ic, oc, groups, depth, stride, padding, dilation",
    [
        (20, 20, 20, 5, 1, 2, 1),
        (20, 20, 20, 3, 2, 1, 1),
        (20, 20, 20, 4, 1, 0, 2),
        (24, 48, 24, 3, 1, 1, 1),
        (32, 24, 1, 3, 1, 1, 1),
        (32, 24, 1, 3, 2, 0, 1),
        (3, 18, 1, 5, 1, 2, 1),
        (1, 5, 1, 2, 1, 0, 3),
    ],
)
@pytest.mark.parametrize("plane", [(7, 9), (1, 5), (6, 1), (1, 1)])
def test_windows_along_the_depth(
    isa: str,
    ic: int,
    oc: int,
    groups: int,
    depth: int,
    stride: int,
    padding: int,
    dilation: int,
    plane: tuple[int, int],
) -> None:
    rng = np.random.default_rng(ic)
    x = rng.standard_normal((2, ic, 9, *plane)).astype(np.float32)
    w = rng.standard_normal((oc, ic // groups, depth, 1, 1)).astype(np.float32)
    params = {"stride": (stride, 1, 1), "padding": (padding, 0, 0), "dilation": (dilation, 1, 1), "groups": groups}
    want = definition(x, w, **params)
    for last in (False, True):
        got = run("nn.Conv3d", x, weights={"weight": w}, isa=isa, threads=2, last=last, **params)
        np.testing.assert_allclose(got, want, rtol=0, atol=1e-5 * np.abs(want).max())
    z = rng.standard_normal(want.shape).astype(np.float32)
    names = ["input", "residual"]
    got = run("fused.Conv3d", x, z, names=names, weights={"weight": w}, isa=isa, threads=2, **params)
    np.testing.assert_allclose(got, want + z, rtol=0, atol=1e-5 * np.abs(want).max())


@pytest.mark.parametrize("ic, columns", [(1, 2), (1, 3), (2, 5), (3, 3), (3, 7), (4, 3), (16, 4)])
@pytest.mark.parametrize("step, before", [(1, 0), (2, 1), (3, 2), (2, 3)])
def test_lines_of_few_channels(isa: str, ic: int, columns: int, step: int, before: int) -> None:
    rng = np.random.default_rng(ic)
    w = rng.standard_normal((18, ic, 3, 2, columns)).astype(np.float32)
    params = {"stride": (1, 2, step), "padding": (1, 0, before), "dilation": (1, 2, 1), "groups": 1}
    for plane in ((7, 9), (5, columns), (3, columns + 1)):
        x = rng.standard_normal((2, ic, 4, *plane)).astype(np.float32)
        want = definition(x, w, **params)
        for last in (False, True):
            got = run("nn.Conv3d", x, weights={"weight": w}, isa=isa, threads=2, last=last, **params)
            np.testing.assert_allclose(got, want, rtol=0, atol=1e-5 * np.abs(want).max())
        got = run("F.conv3d", x, w, names=["input", "weight"], isa=isa, threads=2, **params)
        np.testing.assert_allclose(got, want, rtol=0, atol=1e-5 * np.abs(want).max())
        z = rng.standard_normal(want.shape).astype(np.float32)
        got = run(
            "fused.Conv3d", x, z, names=["input", "residual"], weights={"weight": w}, isa=isa, threads=2,
            activation="relu", **params,
        )  # fmt: skip
        np.testing.assert_allclose(got, np.maximum(want + z, 0), rtol=0, atol=1e-5 * np.abs(want + z).max())


def test_planes_that_meet_the_input() -> None:
    for size, out, stride, before, tap in itertools.product(
        range(1, 6), range(1, 6), (1, 2, 3), range(-2, 4), range(4)
    ):
        want = [o for o in range(out) if 0 <= o * stride - before + tap < size]
        assert list(planes(size, out, stride, before, tap)) == want


def test_runs_of_begun_planes() -> None:
    done = [True, False, False, True, True]
    assert list(runs(range(5), done)) == [(0, 1, True), (1, 2, False), (3, 2, True)]
    assert list(runs(range(0), done)) == []


@pytest.mark.parametrize("padding", [0, 1])
@pytest.mark.parametrize("channels", [1, 2])
def test_pixels_that_do_not_lie_together(channels: int, padding: int) -> None:
    rng = np.random.default_rng(channels)
    x = rng.standard_normal((1, channels, 6, 7, 8, 2)).astype(np.float32)
    w = rng.standard_normal((1, channels, 2, 3, 4)).astype(np.float32)
    graph = pnnx_fast.Graph()
    inputs = [graph.new_operand(name) for name in ("x", "w", "part", "y")]
    for operand in inputs[:2]:
        graph.new_operator("pnnx.Input", f"in_{operand.name}", outputs=[operand])
    params = {"dim": 5, "index": 1}
    graph.new_operator("Tensor.select", "part", inputs=inputs[:1], outputs=inputs[2:3], params=params)
    wiring = {"inputs": [inputs[2], inputs[1]], "outputs": inputs[3:], "inputnames": ["input", "weight"]}
    graph.new_operator("F.conv3d", "conv", **wiring, params={"padding": padding})
    graph.new_operator("pnnx.Output", "out", inputs=inputs[3:])
    want = definition(x[..., 1], w, 1, [1] * 3, [padding] * 3, [1] * 3)
    np.testing.assert_allclose(pnnx_fast.Model(graph)(x, w), want, 1e-4, 1e-4)
