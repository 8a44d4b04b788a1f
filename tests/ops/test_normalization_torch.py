"""Normalisation and softmax operators against PyTorch, in plain and channels-last layout, float32 and float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from graph_of_one import run

from pnnx_fast.errors import ShapeError

torch = pytest.importorskip("torch")
F = torch.nn.functional


def sample(*shape: int, dtype: str = "f4", seed: int = 1) -> np.ndarray:
    return np.asarray(np.random.default_rng(seed).standard_normal(shape) * 2 + 1).astype(dtype)


def check(kind: str, x: np.ndarray, want: Any, tolerance: float = 2e-5, **params: Any) -> None:
    for last in (False, True):
        got = run(kind, x, last=last, **params)
        assert got.dtype == want.numpy().dtype
        np.testing.assert_allclose(got, want.numpy(), tolerance, tolerance)


@pytest.mark.parametrize("shape", [(), (5,), (3, 7), (2, 5, 6), (2, 20, 5, 3), (2, 3, 4, 5, 6)])
@pytest.mark.parametrize("dtype", ["f4", "f8", "f2"])
def test_softmax(shape: tuple[int, ...], dtype: str) -> None:
    x = sample(*shape, dtype=dtype)
    t = torch.from_numpy(x)
    for dim in range(-max(len(shape), 1), max(len(shape), 1)):
        tolerance = 2e-3 if dtype == "f2" else 2e-5
        check("F.softmax", x, F.softmax(t, dim), tolerance, dim=dim)
        check("nn.LogSoftmax", x, F.log_softmax(t, dim), tolerance, dim=dim)
        check("nn.Softmin", x, F.softmin(t, dim), tolerance, dim=dim)


def test_softmax_variants() -> None:
    x = sample(2, 4, 5, 3)
    t = torch.from_numpy(x)
    check("nn.Softmax2d", x, F.softmax(t, 1))
    check("nn.Softmax", x, F.softmax(t, 1), dim=None)
    check("F.softmax", x, F.softmax(t, 1, dtype=torch.float64), dim=1, dtype="torch.float64")
    with pytest.raises(ShapeError, match="floating"):
        run("F.softmax", np.arange(3), dim=0)


@pytest.mark.parametrize("shape, dims", [((6,), 1), ((3, 7), 1), ((2, 5, 4, 6), 2), ((2, 5, 4, 6), 3), ((2, 3, 96), 1)])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("affine", [True, False])
def test_layer_and_rms_norm(shape: tuple[int, ...], dims: int, dtype: str, affine: bool) -> None:
    x = sample(*shape, dtype=dtype)
    inner = list(shape[-dims:])
    w, v = sample(*inner, dtype=dtype, seed=2), sample(*inner, dtype=dtype, seed=3)
    weights = {"weight": w, "bias": v} if affine else {}
    given = [torch.from_numpy(a) if affine else None for a in (w, v)]
    want = F.layer_norm(torch.from_numpy(x), inner, *given, 1e-3)
    check("nn.LayerNorm", x, want, weights=weights, normalized_shape=inner, eps=1e-3, elementwise_affine=affine)
    want = F.rms_norm(torch.from_numpy(x), inner, given[0])
    only = {"weight": w} if affine else {}
    check("nn.RMSNorm", x, want, weights=only, normalized_shape=inner, eps=None, elementwise_affine=affine)


def test_layer_norm_of_doubles() -> None:
    """Their accuracy, far from zero and with weights of another type, too; what is not finite stays in its row."""
    x, w, v = sample(5, 4, 6, dtype="f8") + 1e5, sample(4, 6, seed=2), sample(4, 6, dtype="f8", seed=3)
    x[1, 2, 3], x[2, 0, 0] = np.nan, np.inf
    given = [torch.from_numpy(a.astype("f8")) for a in (w, v)]
    want = F.layer_norm(torch.from_numpy(x), [4, 6], *given).numpy()
    got = run("nn.LayerNorm", x, weights={"weight": w, "bias": v}, normalized_shape=[4, 6], elementwise_affine=True)
    np.testing.assert_allclose(got, want, 0, 1e-9)
    x -= 1e5
    want = F.layer_norm(torch.from_numpy(x), [6]).numpy()
    np.testing.assert_allclose(run("F.layer_norm", x, normalized_shape=[6]), want, 0, 1e-13)
    want = F.rms_norm(torch.from_numpy(x), [6], eps=1e-9).numpy()
    np.testing.assert_allclose(run("F.rms_norm", x, normalized_shape=[6], eps=1e-9), want, 0, 1e-13)
    none = run("F.layer_norm", np.zeros((3, 0)), normalized_shape=[0])
    assert none.shape == (3, 0)


def test_layer_norm_with_weights_as_inputs() -> None:
    x, w, v = sample(2, 3, 8), sample(8, seed=2), sample(8, seed=3)
    want = F.layer_norm(*map(torch.from_numpy, (x,)), [8], torch.from_numpy(w), torch.from_numpy(v))
    got = run("F.layer_norm", x, w, v, names=["input", "weight", "bias"], normalized_shape=[8])
    np.testing.assert_allclose(got, want.numpy(), 1e-5, 1e-5)


@pytest.mark.parametrize("shape", [(2, 12), (2, 12, 5), (2, 12, 5, 4), (1, 12, 3, 4, 5), (2, 36, 9, 8)])
@pytest.mark.parametrize("groups", [1, 3, 12])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_group_norm(shape: tuple[int, ...], groups: int, dtype: str) -> None:
    if len(shape) == 2 and groups == 12:
        pytest.skip("PyTorch refuses a single value a group")
    x = sample(*shape, dtype=dtype)
    w, v = sample(shape[1], dtype=dtype, seed=2), sample(shape[1], dtype=dtype, seed=3)
    t = torch.from_numpy(x)
    want = F.group_norm(t, groups, torch.from_numpy(w), torch.from_numpy(v), 1e-4)
    weights = {"weight": w, "bias": v}
    check("nn.GroupNorm", x, want, weights=weights, num_groups=groups, num_channels=shape[1], eps=1e-4, affine=True)
    check("F.group_norm", x, F.group_norm(t, groups), num_groups=groups)


@pytest.mark.parametrize("axes", [1, 2, 3])
@pytest.mark.parametrize("batch", [True, False])
@pytest.mark.parametrize("affine", [True, False])
def test_instance_norm(axes: int, batch: bool, affine: bool) -> None:
    x = sample(*([2] if batch else []), 6, *(5, 4, 3)[:axes])
    module = getattr(torch.nn, f"InstanceNorm{axes}d")(6, affine=affine).eval()
    weights = {}
    if affine:
        weights = {"weight": sample(6, seed=2), "bias": sample(6, seed=3)}
        module.load_state_dict({k: torch.from_numpy(a) for k, a in weights.items()})
    with torch.no_grad():
        want = module(torch.from_numpy(x))
    params = {"num_features": 6, "eps": 1e-5, "affine": affine, "track_running_stats": False}
    got = run(f"nn.InstanceNorm{axes}d", x, weights=weights, **params)
    np.testing.assert_allclose(got, want.numpy(), 2e-5, 2e-5)
    if batch:
        check("F.instance_norm", x, F.instance_norm(torch.from_numpy(x)), eps=1e-5)


def statistics(c: int, dtype: str) -> dict[str, np.ndarray]:
    names = ("running_mean", "running_var", "weight", "bias")
    values = {name: sample(c, dtype=dtype, seed=i) for i, name in enumerate(names)}
    values["running_var"] = np.abs(values["running_var"]) + dtype_one(dtype)
    return values


def dtype_one(dtype: str) -> np.floating[Any]:
    return np.dtype(dtype).type(0.1)


@pytest.mark.parametrize("shape", [(3, 8), (2, 8, 5), (2, 19, 6, 5), (1, 8, 3, 4, 5)])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_batch_norm(shape: tuple[int, ...], dtype: str) -> None:
    x, stats = sample(*shape, dtype=dtype), statistics(shape[1], dtype)
    t = [torch.from_numpy(a) for a in stats.values()]
    axes = max(len(shape) - 2, 1)
    want = F.batch_norm(torch.from_numpy(x), *t, eps=1e-3)
    check(f"nn.BatchNorm{axes}d", x, want, weights=stats, num_features=shape[1], eps=1e-3, affine=True)
    plain = {k: stats[k] for k in ("running_mean", "running_var")}
    check(f"nn.BatchNorm{axes}d", x, F.batch_norm(torch.from_numpy(x), *t[:2]), weights=plain, affine=False)
    names = ["input", *stats]
    got = run("F.batch_norm", x, *stats.values(), names=names, eps=1e-3)
    np.testing.assert_allclose(got, want.numpy(), 2e-5, 2e-5)
    batch = F.batch_norm(torch.from_numpy(x), None, None, training=True)
    np.testing.assert_allclose(run("F.batch_norm", x), batch.numpy(), 2e-5, 2e-5)


def test_tracked_instance_norm_uses_its_statistics() -> None:
    x, stats = sample(2, 6, 5, 4), statistics(6, "f4")
    module = torch.nn.InstanceNorm2d(6, affine=True, track_running_stats=True).eval()
    module.load_state_dict({k: torch.from_numpy(a) for k, a in stats.items()}, strict=False)
    with torch.no_grad():
        want = module(torch.from_numpy(x))
    check("nn.InstanceNorm2d", x, want, weights=stats, num_features=6, affine=True, track_running_stats=True)


@pytest.mark.parametrize("shape", [(2, 7, 5), (2, 20, 6, 5), (1, 7, 3, 4, 5)])
@pytest.mark.parametrize("size", [1, 4, 5])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_local_response_norm(shape: tuple[int, ...], size: int, dtype: str) -> None:
    x = sample(*shape, dtype=dtype)
    params = {"size": size, "alpha": 0.01, "beta": 0.6, "k": 1.5}
    check("nn.LocalResponseNorm", x, F.local_response_norm(torch.from_numpy(x), **params), **params)


@pytest.mark.parametrize("size", [1, 4, 5])
def test_local_response_norm_of_integers(size: int) -> None:
    x = (sample(2, 20, 6, 5) * 10).astype(np.int64)
    params = {"size": size, "alpha": 0.01, "beta": 0.6, "k": 1.5}
    check("nn.LocalResponseNorm", x, F.local_response_norm(torch.from_numpy(x), **params), **params)


@pytest.mark.parametrize("p", [0.0, 1.0, 2.0, 3.5, float("inf")])
@pytest.mark.parametrize("dim", [0, 1, -1, (1, 2)])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_normalize(p: float, dim: Any, dtype: str) -> None:
    x = sample(2, 5, 6, 4, dtype=dtype)
    check("F.normalize", x, F.normalize(torch.from_numpy(x), p, dim, 1e-3), p=p, dim=dim, eps=1e-3)


FUSED = [
    ("relu", [], F.relu), ("clip", [-0.5, 0.7], lambda t: F.hardtanh(t, -0.5, 0.7)), ("silu", [], F.silu),
    ("leaky_relu", [0.2], lambda t: F.leaky_relu(t, 0.2)), ("gelu", [], F.gelu), ("mish", [], F.mish),
    ("gelu_tanh", [], lambda t: F.gelu(t, approximate="tanh")), ("hardswish", [], F.hardswish),
]  # fmt: skip


@pytest.mark.parametrize("name, values, function", FUSED)
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_fused_activations(name: str, values: list[float], function: Any, dtype: str) -> None:
    x, stats = sample(2, 12, 6, 5, dtype=dtype), statistics(12, dtype)
    t = [torch.from_numpy(a) for a in stats.values()]
    act = {"activation": name, "activation_params": values}
    want = function(F.batch_norm(torch.from_numpy(x), *t, eps=1e-3))
    check("fused.BatchNorm2d", x, want, weights=stats, eps=1e-3, **act)
    want = function(F.group_norm(torch.from_numpy(x), 4, *t[2:]))
    check("fused.GroupNorm", x, want, weights={k: stats[k] for k in ("weight", "bias")}, num_groups=4, **act)
    pixel = x[:, :, 0, 0].copy()
    check("fused.GroupNorm", pixel, function(F.group_norm(torch.from_numpy(pixel), 4)), num_groups=4, **act)


def test_empty_inputs() -> None:
    x = np.empty((0, 5, 4), "f4")
    assert run("F.softmax", x, dim=1).shape == x.shape
    assert run("nn.LayerNorm", x, normalized_shape=[4]).shape == x.shape
    assert run("F.group_norm", x, num_groups=5).shape == x.shape


@pytest.mark.parametrize("shape", [(), (5,), (4, 7), (2, 1, 6), (2, 16, 6, 5), (2, 0, 3)])
@pytest.mark.parametrize("p", [0.5, 1.0, 2.0, 3.0, float("inf")])
def test_normalize_values(shape: tuple[int, ...], p: float) -> None:
    x = sample(*shape)
    special = x.copy()
    special.ravel()[1:2] = np.nan
    special.ravel()[2:3] = np.inf
    for values in (x, np.zeros_like(x), np.asarray(x * np.float32(1e-14)), special):
        t = torch.from_numpy(values)
        pairs: list[Any] = [(0, 1)] if len(shape) > 1 and x.size else []
        for dim in [*range(-len(shape), max(len(shape), 1)), *pairs]:
            if x.size or p != float("inf"):
                check("F.normalize", values, F.normalize(t, p, dim), p=p, dim=dim)


@pytest.mark.parametrize("shape", [(2, 4, 5, 5), (2, 4, 9), (2, 4)])
def test_group_norm_whose_scale_overflows(shape: tuple[int, ...]) -> None:
    """Weight over deviation is infinite although both are finite."""
    x = sample(*shape) * np.float32(0.1)
    module = torch.nn.GroupNorm(2, 4)
    with torch.no_grad():
        module.weight[1], module.bias[1] = 3e38, -3e38
        want = module(torch.from_numpy(x))
    weights = {key: value.detach().numpy() for key, value in module.named_parameters()}
    params = {"num_groups": 2, "num_channels": 4, "eps": 1e-5, "affine": True}
    check("nn.GroupNorm", x, want, weights=weights, **params)


def test_rms_norm_of_halves_takes_the_eps_of_its_computation() -> None:
    x = np.float16([[0.01, 0.02]])
    want = F.rms_norm(torch.from_numpy(x), [2]).numpy()
    np.testing.assert_array_equal(run("F.rms_norm", x, normalized_shape=[2]), want)


@pytest.mark.parametrize("dtype", ["f4", "f8", "i8"])
def test_local_response_norm_of_nothing(dtype: str) -> None:
    x = np.ones((2, 0, 3), dtype)
    got = run("F.local_response_norm", x, size=3)
    assert (got.shape, got.dtype) == (x.shape, x.dtype)
