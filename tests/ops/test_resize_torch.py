"""Resampling and grid sampling against PyTorch: modes, alignment, scale factors, antialiasing, dtypes, layouts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from graph_of_one import run

from pnnx_fast.errors import ParameterError, ShapeError

torch = pytest.importorskip("torch")
F = torch.nn.functional
pytestmark = pytest.mark.filterwarnings(
    "ignore:.*upsample.*", "ignore:.*recompute_scale_factor.*", "ignore:.*affine_grid.*"
)

SIZES = {1: (13,), 2: (9, 14), 3: (5, 6, 7)}


def sample(axes: int, channels: int = 19, dtype: str = "f4") -> np.ndarray:
    return (np.random.default_rng(1).standard_normal((2, channels, *SIZES[axes])) * 50 + 100).astype(dtype)


def check(kind: str, *arrays: np.ndarray, want: Any, exact: bool = False, **params: Any) -> None:
    for last in (False, True):
        got = run(kind, *arrays, last=last, **params)
        assert got.dtype == want.numpy().dtype
        if exact:
            np.testing.assert_array_equal(got, want.numpy())
        else:
            np.testing.assert_allclose(got, want.numpy(), 2e-5, 2e-5 * float(want.abs().max()), err_msg=str(params))


TARGETS: list[dict[str, Any]] = [
    {"size": 7}, {"size": 26}, {"size": 13}, {"size": 1}, {"scale_factor": 2.0}, {"scale_factor": 1.3},
    {"scale_factor": 0.6}, {"scale_factor": 1.07, "recompute_scale_factor": True}, {"scale_factor": 1.05},
]  # fmt: skip
LINEAR = {1: "linear", 2: "bilinear", 3: "trilinear"}


@pytest.mark.parametrize("axes", [1, 2, 3])
@pytest.mark.parametrize("target", TARGETS, ids=str)
@pytest.mark.parametrize("dtype", ["f4", "f8", "u1"])
@pytest.mark.parametrize("mode", ["nearest", "nearest-exact"])
def test_nearest(axes: int, target: dict[str, Any], dtype: str, mode: str) -> None:
    x = sample(axes, dtype=dtype)
    check(
        "F.interpolate",
        x,
        want=F.interpolate(torch.from_numpy(x), mode=mode, **target),
        exact=True,
        mode=mode,
        **target,
    )


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
@pytest.mark.parametrize("size", [(3, 4), (12, 25), (18, 14), (14, 31)])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_antialiased_around_what_is_no_number(mode: str, size: tuple[int, int], dtype: str) -> None:
    """Only places whose taps meet them become infinite or NaN."""
    x = sample(2, dtype=dtype)
    x[:, :, 0, 3], x[:, :, 4, 9], x[:, :, 8, 0] = np.nan, np.inf, -np.inf
    want = F.interpolate(torch.from_numpy(x), size, mode=mode, antialias=True).numpy()
    got = run("F.interpolate", x, size=size, mode=mode, antialias=True)
    np.testing.assert_allclose(got, want, 1e-4, 1e-2, strict=True)


@pytest.mark.parametrize("scale", [1.05, 1.9, 2.05, 2.7, 3.3, 1 / 3, 0.7, 10 / 9, 33 / 32])
@pytest.mark.parametrize("size", [(40, 71), (13, 17)])
def test_nearest_picks_the_same_pixels(scale: float, size: tuple[int, int]) -> None:
    x = np.arange(2 * 5 * size[0] * size[1], dtype="f4").reshape(2, 5, *size)
    for params in ({"scale_factor": scale}, {"scale_factor": scale, "recompute_scale_factor": True}):
        check("F.upsample", x, want=F.interpolate(torch.from_numpy(x), **params), exact=True, mode="nearest", **params)


@pytest.mark.parametrize("axes", [1, 2, 3])
@pytest.mark.parametrize("target", TARGETS, ids=str)
@pytest.mark.parametrize("align", [True, False])
@pytest.mark.parametrize("channels", [1, 3, 19, 70])
def test_linear(axes: int, target: dict[str, Any], align: bool, channels: int) -> None:
    x = sample(axes, channels)
    params = {"mode": LINEAR[axes], "align_corners": align, **target}
    check("nn.Upsample", x, want=F.interpolate(torch.from_numpy(x), **params), **params)


@pytest.mark.parametrize("target", TARGETS, ids=str)
@pytest.mark.parametrize("align", [True, False])
@pytest.mark.parametrize("channels", [3, 19])
@pytest.mark.parametrize("antialias", [True, False])
@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_cubic_and_antialias(target: dict[str, Any], align: bool, channels: int, antialias: bool, mode: str) -> None:
    x = sample(2, channels)
    params = {"mode": mode, "align_corners": align, "antialias": antialias, **target}
    check("F.interpolate", x, want=F.interpolate(torch.from_numpy(x), **params), **params)


@pytest.mark.parametrize("target", [*TARGETS, {"size": (9, 40)}, {"size": (33, 14)}], ids=str)
@pytest.mark.parametrize("channels", [1, 3, 6])
@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
@pytest.mark.parametrize("form", [{}, {"align_corners": True}, {"antialias": True}], ids=str)
def test_bytes(target: dict[str, Any], channels: int, mode: str, form: dict[str, bool]) -> None:
    if channels == 3 and target == {"size": 1}:
        pytest.skip("an assertion inside of PyTorch fails")
    x = np.random.default_rng(2).integers(0, 256, (2, channels, *SIZES[2]), np.uint8)
    want = F.interpolate(torch.from_numpy(x), mode=mode, **target, **form)
    check("F.interpolate", x, want=want, exact=True, mode=mode, **target, **form)


def test_other_types_and_spellings() -> None:
    x = sample(2, dtype="f8")
    t = torch.from_numpy(x)
    want = F.interpolate(t, size=(20, 5), mode="bicubic", align_corners=False)
    check("F.interpolate", x, want=want, size=[20, 5], mode="bicubic", align_corners=False)
    want = F.interpolate(t, scale_factor=(2, 0.5), mode="bilinear", align_corners=True)
    check("nn.UpsamplingBilinear2d", x, want=want, scale_factor=[2.0, 0.5], size=None)
    check("F.upsample_nearest", x, want=F.interpolate(t, size=(4, 5)), size=[4, 5], scale_factor=None)
    check("F.interpolate", x, want=F.interpolate(t, size=(4, 5), mode="area"), size=[4, 5], mode="area")
    wide = np.ones((1, 1, 2, 5000), "f4") * np.arange(5000, dtype="f4")
    want = F.interpolate(torch.from_numpy(wide), size=(3, 7001), mode="bilinear", align_corners=False)
    check("F.interpolate", wide, want=want, size=[3, 7001], mode="bilinear", align_corners=False)


@pytest.mark.parametrize("channels", [1, 3, 20])
@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_strong_reduction(channels: int, mode: str) -> None:
    x = np.random.default_rng(4).standard_normal((1, channels, 300, 211)).astype("f4")
    params = {"size": [3, 2], "mode": mode, "align_corners": False, "antialias": True}
    check("F.interpolate", x, want=F.interpolate(torch.from_numpy(x), **params), **params)


@pytest.mark.parametrize("axes", [1, 2, 3])
@pytest.mark.parametrize("target", [{"size": 0}, {"scale_factor": 0.01}])
def test_areas_may_have_no_pixels(axes: int, target: dict[str, Any]) -> None:
    x = sample(axes)
    got = run("F.interpolate", x, mode="area", **target)
    assert got.shape == F.interpolate(torch.from_numpy(x), mode="area", **target).shape
    with pytest.raises((ParameterError, ShapeError), match=r"integers|no pixels"):
        run("F.interpolate", x, mode="nearest", **target)


def test_errors() -> None:
    x = sample(2)
    with pytest.raises(ParameterError, match="does not exist"):
        run("F.interpolate", x, size=3, mode="linear")
    with pytest.raises(ParameterError, match="either size or scale_factor"):
        run("F.interpolate", x)
    with pytest.raises(ShapeError, match="no pixels"):
        run("F.interpolate", x, scale_factor=0.01)


def grid(axes: int) -> np.ndarray:
    places = np.random.default_rng(2).uniform(-1.6, 1.6, (2, *(4, 5, 6)[:axes], axes)).astype("f4")
    places.reshape(-1)[:6] = [-1, 1, 0, -1, 1, -3.7]
    return places


@pytest.mark.parametrize("axes", [2, 3])
@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
@pytest.mark.parametrize("border", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("align", [True, False])
def test_grid_sample(axes: int, mode: str, border: str, align: bool) -> None:
    if mode == "bicubic" and axes == 3:
        pytest.skip("does not exist")
    for channels in (1, 19):
        x, places = sample(axes, channels), grid(axes)
        params = {"mode": mode, "padding_mode": border, "align_corners": align}
        want = F.grid_sample(torch.from_numpy(x), torch.from_numpy(places), **params)
        check("F.grid_sample", x, places, want=want, **params)


@pytest.mark.parametrize("axes", [2, 3])
@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
@pytest.mark.parametrize("border", ["zeros", "border"])
def test_grid_of_nan_and_infinity(axes: int, mode: str, border: str) -> None:
    if mode == "bicubic" and axes == 3:
        pytest.skip("does not exist")
    x, places = sample(axes, 19), grid(axes)
    places.reshape(-1, axes)[:7, 0] = [np.nan, np.inf, -np.inf, 1e30, -1e30, 3e9, -3e9]
    places.reshape(-1, axes)[7:10, 1] = [np.nan, np.inf, -np.inf]
    params = {"mode": mode, "padding_mode": border, "align_corners": True}
    want = F.grid_sample(torch.from_numpy(x), torch.from_numpy(places), **params)
    got = run("F.grid_sample", x, places, **params)
    np.testing.assert_allclose(got, want.numpy(), 1e-4, 1e-5)


@pytest.mark.parametrize("size", [(2, 3, 5, 6), (2, 3, 1, 4), (2, 1, 4, 5, 6)])
@pytest.mark.parametrize("align", [True, False])
def test_affine_grid(size: tuple[int, ...], align: bool) -> None:
    axes = len(size) - 2
    theta = np.random.default_rng(3).standard_normal((2, axes, axes + 1)).astype("f4")
    want = F.affine_grid(torch.from_numpy(theta), size, align_corners=align)
    got = run("F.affine_grid", theta, size=size, align_corners=align)
    np.testing.assert_allclose(got, want.numpy(), 1e-5, 1e-5)


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact"])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_nearest_steps_are_taken_in_the_type(mode: str, dtype: str) -> None:
    x = np.arange(16, dtype=dtype).reshape(1, 1, 16)
    for scale in (2.7, 1.3, 0.7, 3.1, 0.1 + 0.2):
        want = F.interpolate(torch.from_numpy(x), scale_factor=scale, mode=mode).numpy()
        np.testing.assert_array_equal(run("F.interpolate", x, scale_factor=[scale], mode=mode), want)
