"""Modules with weights in one and three dimensions, rare families and random ones, against PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from graph_of_one import call, run

import pnnx_fast
from pnnx_fast.errors import ParameterError, ShapeError

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore::UserWarning")]
F = torch.nn.functional


def real(*shape: int, seed: int = 0) -> np.ndarray:
    return np.asarray(np.random.default_rng(seed).standard_normal(shape), np.float32)


def close(got: Any, want: Any) -> None:
    want = want.detach().numpy()
    assert np.shape(got) == want.shape
    assert np.asarray(got).dtype == want.dtype
    np.testing.assert_allclose(got, want, 0, 1e-4 * np.abs(want).max(initial=0))


MODULES = {
    "nn.Conv1d": ("2 4 9", {"in_channels": 4, "out_channels": 6, "kernel_size": 3, "groups": 2, "padding": 1}),
    "nn.Conv3d": ("2 4 5 6 7", {"in_channels": 4, "out_channels": 3, "kernel_size": (1, 3, 2), "stride": (1, 2, 1)}),
    "nn.ConvTranspose1d": ("2 4 9", {"in_channels": 4, "out_channels": 6, "kernel_size": 4, "stride": 2, "padding": 1}),
    "nn.ConvTranspose3d": ("2 4 3 4 5", {"in_channels": 4, "out_channels": 2, "kernel_size": 2, "stride": (1, 2, 2)}),
    "nn.BatchNorm1d": ("2 4 9", {"num_features": 4, "eps": 1e-3}),
    "nn.BatchNorm3d": ("2 4 3 4 5", {"num_features": 4}),
    "nn.InstanceNorm1d": ("2 4 9", {"num_features": 4, "affine": True}),
    "nn.InstanceNorm3d": ("2 4 3 4 5", {"num_features": 4}),
}
FUSED = {"nn.Conv1d": "fused.Conv1d", "nn.ConvTranspose1d": "fused.ConvTranspose1d"}
FUSED |= {"nn.ConvTranspose3d": "fused.ConvTranspose3d"}


@pytest.mark.parametrize("kind", MODULES)
def test_modules_with_weights(kind: str) -> None:
    torch.manual_seed(0)
    dims, params = MODULES[kind]
    module = getattr(torch.nn, kind[3:])(**params).eval()
    if "BatchNorm" in kind:
        module.running_mean.normal_()
        module.running_var.uniform_(0.5, 2)
    weights = {k: v.numpy() for k, v in module.state_dict().items() if k != "num_batches_tracked"}
    x = real(*map(int, dims.split()))
    flags = {"bias": True} if "Conv" in kind else {}
    inputs = [x] if "BatchNorm" in kind else [x, x[0]]
    for given in inputs:
        want = module(torch.from_numpy(given))
        close(run(kind, given, weights=weights, **params, **flags), want)
        if kind in FUSED:
            got = run(FUSED[kind], given, weights=weights, activation="relu", **params, **flags)
            close(got, want.relu())
        if kind == "nn.BatchNorm3d":
            got = run("fused.BatchNorm2d", x[:, :, 0], weights=weights, activation="relu", **params)
            close(got, module(torch.from_numpy(x))[:, :, 0].relu())


@pytest.mark.parametrize("n", [1, 3])
def test_functional_convolutions(n: int) -> None:
    kinds = {1: ("F.conv1d", "F.conv_transpose1d"), 3: ("F.conv3d", "F.conv_transpose3d")}[n]
    x, bias = real(2, 4, *[6] * n), real(4, seed=2)
    weight = real(4, 4, *[3] * n, seed=1)
    for kind in kinds:
        want = getattr(F, kind[2:])(*map(torch.from_numpy, (x, weight, bias)), stride=2, padding=1)
        close(run(kind, x, weight, bias, names=("input", "weight", "bias"), stride=2, padding=1), want)


@pytest.mark.parametrize(
    ("kind", "n"), [("F.max_unpool1d", 1), ("nn.MaxUnpool1d", 1), ("F.max_unpool3d", 3), ("nn.MaxUnpool3d", 3)]
)
def test_unpooling(kind: str, n: int) -> None:
    x = torch.from_numpy(real(2, 3, *[6] * n))
    y, places = getattr(F, f"max_pool{n}d")(x, 2, return_indices=True)
    got = run(kind, y.numpy(), places.numpy(), kernel_size=2)
    close(got, getattr(F, f"max_unpool{n}d")(y, places, 2))


DROPOUTS = ["nn.AlphaDropout", "nn.Dropout1d", "nn.Dropout2d", "nn.Dropout3d", "nn.FeatureAlphaDropout"]
RANDOM = [
    "F.dropout",
    "F.dropout1d",
    "F.dropout2d",
    "F.dropout3d",
    "F.dropoutnd",
    "F.alpha_dropout",
    "F.feature_alpha_dropout",
]


def test_dropout() -> None:
    x = np.ones((64, 32, 3, 3), np.float32)
    for kind in DROPOUTS:
        close(run(kind, x, p=0.3), torch.from_numpy(x))
    for kind in RANDOM:
        close(run(kind, x, p=0.3, training=False), torch.from_numpy(x))
        y = run(kind, x, p=0.3, training=True)
        kept = (y == y.max()).mean()
        assert abs(kept - 0.7) < 0.1
        if "alpha" not in kind:
            assert y.max() == pytest.approx(1 / 0.7)


def test_random_and_empty() -> None:
    x = np.zeros((50, 40), np.float32)
    for kind in ("torch.empty", "Tensor.new_empty", "torch.empty_like"):
        given = () if kind == "torch.empty" else (x,)
        params = {} if kind == "torch.empty_like" else {"size": (50, 40)}
        assert run(kind, *given, **params).shape == (50, 40)
    for values in (run("torch.randn_like", x), run("torch.normal", mean=0.0, std=1.0, size=(50, 40))):
        assert abs(values.mean()) < 0.2
        assert abs(values.std() - 1) < 0.2


def test_quantised() -> None:
    x = real(2, 4, 6, 6) * 3
    t = torch.quantize_per_tensor(torch.from_numpy(x), 0.05, 100, torch.quint8)
    q = run("nn.quantized.Quantize", x, scale=0.05, zero_point=100)
    close(q, t.dequantize())
    close(run("torch.quantize_per_tensor", x, scale=0.05, zero_point=-3, dtype="torch.qint8"),
          torch.quantize_per_tensor(torch.from_numpy(x), 0.05, -3, torch.qint8).dequantize())  # fmt: skip
    for kind in ("nn.quantized.DeQuantize", "torch.dequantize"):
        close(run(kind, q), t.dequantize())
    w, bias = np.round(real(3, 4, 1, 1, seed=1) * 8) / 8, real(3, seed=2)
    real_y = F.conv2d(torch.from_numpy(q), torch.from_numpy(w), torch.from_numpy(bias))
    for kind in ("nn.quantized.Conv2d", "nn.intrinsic.quantized.ConvReLU2d"):
        want = real_y.relu() if "ReLU" in kind else real_y
        for zero in (0, 64, 128):
            got = run(kind, q, weights={"weight": w, "bias": bias}, scale=0.1, zero_point=zero)
            assert np.abs(got - want.numpy().clip(-0.1 * zero, 0.1 * (255 - zero))).max() <= 0.0501
    real_z = F.linear(torch.from_numpy(q), torch.ones(3, 6) / 4)
    for kind in ("nn.quantized.Linear", "nn.intrinsic.quantized.LinearReLU"):
        want = real_z.relu() if "ReLU" in kind else real_z
        for zero in (0, 64, 128):
            got = run(kind, q, weights={"weight": np.ones((3, 6), "f4") / 4}, scale=0.1, zero_point=zero)
            assert np.abs(got - want.numpy().clip(-0.1 * zero, 0.1 * (255 - zero))).max() <= 0.0501
    got = run("nn.quantized.cat", q, q, dim=1, scale=0.05, zero_point=100)
    close(got, torch.cat([t.dequantize()] * 2, 1))


def test_spectrogram_there_and_back() -> None:
    x, window = real(2, 200), np.hanning(33)[:32].astype("f4")
    params = {"n_fft": 32, "hop_length": 8, "win_length": 32}
    spectrum = torch.stft(torch.from_numpy(x), window=torch.from_numpy(window), return_complex=True, **params)
    kind = "torchaudio.functional.spectrogram"
    close(run(kind, x, window, power=None, normalized=False, **params), spectrum)
    close(run(kind, x, window, power=2.0, normalized=False, **params), spectrum.abs() ** 2)
    root = torch.from_numpy(window).pow(2).sum().sqrt()
    close(run(kind, x, window, power=1.0, normalized=True, **params), spectrum.abs() / root)
    back = run(
        "torchaudio.functional.inverse_spectrogram", spectrum.numpy(), window, length=200, normalized=False, **params
    )
    close(back, torch.from_numpy(x))


@pytest.mark.parametrize("length", [12, 11])
def test_frames_aligned_to_the_window(length: int) -> None:
    x, window = real(2, 100), np.hanning(length + 1)[:length].astype("f4")
    params = {"n_fft": 16, "hop_length": 4, "win_length": length, "return_complex": True, "align_to_window": True}
    want = torch.stft(torch.from_numpy(x), window=torch.from_numpy(window), center=False, **params)
    close(run("torch.stft", x, window, center=False, **params), want)
    with pytest.raises(ParameterError, match="without center"):
        run("torch.stft", x, window, **params)


def test_vision() -> None:
    try:
        import torchvision.ops as ops
    except (ImportError, RuntimeError):
        pytest.skip("torchvision does not import here")
    x, offset, mask = real(2, 4, 7, 7), real(2, 18, 7, 7, seed=1), np.abs(real(2, 9, 7, 7, seed=2))
    w, bias = real(3, 4, 3, 3, seed=3), real(3, seed=4)
    want = ops.deform_conv2d(*map(torch.from_numpy, (x, offset, w, bias)), padding=1, mask=torch.from_numpy(mask))
    close(run("torchvision.ops.DeformConv2d", x, offset, mask, weights={"weight": w, "bias": bias}, padding=1), want)
    boxes = np.array([[0, 1, 1, 5, 6], [1, 0, 0, 3, 2.5]], np.float32)
    for kind in ("torchvision.ops.RoIAlign", "torchvision.ops.roi_align"):
        params = {"output_size": (3, 2), "spatial_scale": 0.5, "sampling_ratio": 2, "aligned": True}
        close(run(kind, x, boxes, **params), ops.roi_align(torch.from_numpy(x), torch.from_numpy(boxes), **params))


def test_tuples_and_lists() -> None:
    x = real(4, 5)
    graph = pnnx_fast.Graph()
    a, both, first, second, again, third, size, cut = (graph.new_operand(n) for n in "abcdefgh")
    graph.new_operator("pnnx.Input", "in", outputs=[a])
    graph.new_operator("prim::TupleConstruct", "t", inputs=[a, a], outputs=[both])
    graph.new_operator("prim::TupleUnpack", "u", inputs=[both], outputs=[first, second])
    graph.new_operator("prim::ListUnpack", "l", inputs=[both], outputs=[again, third])
    graph.new_operator("Tensor.size", "s", inputs=[a], outputs=[size], params={"dim": 0})
    graph.new_operator("pnnx.SliceIndexes", "i", inputs=[size], outputs=[cut], params={"indexes": ("@0", "2")})
    for i, operand in enumerate((first, second, again, third)):
        graph.new_operator("pnnx.Output", f"o{i}", inputs=[operand])
    assert all(np.array_equal(y, x) for y in pnnx_fast.Model(graph)(x))


TUPLE = """7767517
6 5
pnnx.Input in 0 1 x #x=(4,5)f32
pnnx.Expression twice 1 1 x d expr=mul(@0,2) #d=(4,5)f32
prim::TupleConstruct t 2 1 x d both
pnnx.Expression i 0 1 i expr=INDEX
prim::TupleIndex e 2 1 both i y #y=(4,5)f32
pnnx.Output out 1 0 y
"""


@pytest.mark.parametrize(("index", "factor"), [(0, 1), (1, 2), (-1, 2), (-2, 1)])
def test_entries_of_tuples(index: int, factor: int) -> None:
    x = real(4, 5)
    for kind in ("prim::TupleIndex", "aten::__getitem__"):
        graph = pnnx_fast.Graph.parse(TUPLE.replace("INDEX", str(index)).replace("prim::TupleIndex", kind))
        np.testing.assert_array_equal(pnnx_fast.Model(graph)(x), factor * x)


@pytest.mark.parametrize("index", [2, -3])
def test_entries_outside_of_tuples_are_refused(index: int) -> None:
    with pytest.raises(ShapeError, match="outside"):
        pnnx_fast.Model(pnnx_fast.Graph.parse(TUPLE.replace("INDEX", str(index))))(real(4, 5))


@pytest.mark.parametrize(("kind", "count"), [("prim::TupleIndex", 1), ("prim::TupleUnpack", 2)])
def test_tensors_are_no_tuples(kind: str, count: int) -> None:
    arguments = (real(2, 3), 0) if kind == "prim::TupleIndex" else (real(2, 3),)
    with pytest.raises((ParameterError, ShapeError), match=r"no tuple|as many outputs"):
        call(kind, arguments, count)


def test_dictionaries() -> None:
    graph = pnnx_fast.Graph.parse(
        "7767517\n6 5\npnnx.Input in 0 1 x #x=(2)f32\npnnx.Expression a 0 1 a expr=one\n"
        "pnnx.Expression b 0 1 b expr=two\npnnx.Expression c 1 1 x y expr=neg(@0)\n"
        "prim::DictConstruct d 4 1 a x b y z\npnnx.Output out 1 0 z\n"
    )
    x = real(2)
    assert [y.tolist() for y in pnnx_fast.Model(graph)(x)] == [x.tolist(), (-x).tolist()]


def test_orders_of_polynomials_are_limited() -> None:
    for order in (1e9, np.array([2, 1e9], np.float32)):
        with pytest.raises(ParameterError, match="orders above"):
            call("aten::special_legendre_polynomial_p", (real(2), order), 1)
