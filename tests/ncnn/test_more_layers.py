"""Layers of which the answers are easy to write down, and those that only quantised or odd nets have."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from nets import load, param, run, tagged

from pnnx_fast import ncnn
from pnnx_fast.expression.types import round_to_bfloat16
from pnnx_fast.formats.ncnn_bin import write_weight
from pnnx_fast.formats.ncnn_types import LAYER_TYPES
from pnnx_fast.ncnn.layers import find

X = np.random.default_rng(2).normal(size=(3, 4, 5)).astype(np.float32)


def one(layer: str, x: Any = X, weights: bytes = b"") -> Any:
    kind, params = layer.split(" ", 1) if " " in layer else (layer, "")
    return run(load(param("Input i 0 1 a", f"{kind} l 1 1 a b {params}"), weights), "b", a=x)


def test_every_type_of_ncnn_is_there() -> None:
    assert len(LAYER_TYPES) == 110
    assert [name for name in LAYER_TYPES if find(name) is None] == []


def test_memory_data_and_split() -> None:
    text = param("MemoryData m 0 1 a 0=3 1=2", "Split s 1 2 a b c", "ReLU r 1 1 b d")
    net = load(text, np.float32([-2, -1, 0, 1, 2, 3]).tobytes())
    assert run(net, "d").tolist() == [[0, 0, 0], [1, 2, 3]]
    assert run(net, "c").tolist() == [[-2, -1, 0], [1, 2, 3]]
    half = write_weight(np.arange(6, dtype=np.float32), "fp16")
    assert run(load(param("MemoryData m 0 1 a 0=6 21=0"), half), "a").tolist() == list(range(6))


def test_a_logarithm_to_odd_bases() -> None:
    """Factors that are infinite or no numbers stay what they are."""
    x = np.float32([0.5, 1.0, 3.0])
    np.testing.assert_array_equal(one("Log 0=1.0", x), np.float32([-np.inf, np.nan, np.inf]))
    assert np.isnan(one("Log 0=-2.0", x)).all()


def test_instance_norm_of_a_matrix_has_one_channel() -> None:
    weights = np.float32([2, 9, 9, 9, -1, 9, 9, 9]).tobytes()
    x = X[0]
    want = (x - x.mean()) / np.sqrt(x.var() + 0.001) * 2 - 1
    np.testing.assert_allclose(one("InstanceNorm 0=4 1=0.001", x, weights), want, rtol=0, atol=1e-5)


def test_integers_in_memory_data_offset_indices() -> None:
    table = np.arange(12, dtype=np.float32).reshape(6, 2)
    text = param("Input i 0 1 a", "MemoryData m 0 1 b 0=2", "BinaryOp o 2 1 a b c", "Embed e 1 1 c d 0=2 1=6 3=12")
    net = load(text, np.int32([1, 3]).tobytes() + bytes(4) + table.tobytes())
    assert run(net, "d", a=np.int32([0, 2])).tolist() == table[[1, 5]].tolist()


@pytest.mark.parametrize(
    ("line", "order"),
    [
        ("Flip f 1 1 a b -23300=1,0", [2, 3, 1, 5]),
        ("Padding f 1 1 a b 2=1", [0, 5, 1, 3, 2]),
        ("Padding f 1 1 a b 3=2 5=4", [5, 1, 3, 2, 4, 4]),
        ("Padding f 1 1 a b 2=1 4=1", [5, 5, 1, 3, 2]),
        ("Dropout f 1 1 a b", [5, 1, 3, 2]),
        ("ShuffleChannel f 1 1 a b 0=1", [5, 1, 3, 2]),
    ],
)
def test_integers_that_are_moved_stay_integers(line: str, order: list[int]) -> None:
    net = load(
        param("Input i 0 1 a", line, "Embed e 1 1 b c 0=1 1=10 3=10"), bytes(4) + np.arange(10.0, dtype="f4").tobytes()
    )
    assert run(net, "c", a=np.int32([5, 1, 3, 2])).ravel().tolist() == order


def test_a_crop_to_the_width_of_a_vector() -> None:
    net = load(param("Input i 0 1 a", "Input j 0 1 b", "Crop c 2 1 a b c 0=1 1=2"))
    x = np.arange(30, dtype=np.float32).reshape(5, 6)
    assert run(net, "c", a=x, b=np.zeros(3, np.float32)).tolist() == [[13, 14, 15]]


def test_lines_are_resized_whatever_the_height() -> None:
    net = load(param("Input i 0 1 a", "Interp r 1 1 a b 0=2 1=0.5 2=0.5"))
    assert run(net, "b", a=np.arange(8, dtype=np.float32)[None]).tolist() == [[0.5, 2.5, 4.5, 6.5]]


def test_casts_to_bfloat16_round() -> None:
    net = load(param("Input i 0 1 a", "Cast r 1 1 a b 0=1 1=4", "Cast s 1 1 b c 0=4 1=1"))
    x = np.float32([3.859, 1.2345, -0.777])
    assert run(net, "c", a=x).tolist() == round_to_bfloat16(x).tolist()


def test_zeros_of_either_sign_in_memory_data_are_floats() -> None:
    got = run(load(param("MemoryData m 0 1 a 0=2", "Sigmoid s 1 1 a b"), np.float32([-0.0, 0.0]).tobytes()), "b")
    assert got.tolist() == [0.5, 0.5]


@pytest.mark.parametrize("given", [False, True])
def test_bytes_are_a_mask_of_attention(given: bool) -> None:
    mask = np.tril(np.ones((1, 4, 4), np.int8))
    inputs = [f"Input i{n} 0 1 {n}" for n in "qkv"]
    source = "Input m 0 1 m" if given else "MemoryData m 0 1 m 0=4 1=4 2=1 21=3"
    text = param(*inputs, source, "SDPA s 4 1 q k v m y 5=1 6=0.5")
    net = load(text, b"" if given else mask.tobytes())
    arrays = {"m": mask} if given else {}
    q, k, v = np.random.default_rng(0).standard_normal((3, 2, 4, 3), np.float32)
    score = np.exp(q @ k.transpose(0, 2, 1) * 0.5) * mask
    want = score / score.sum(2, keepdims=True) @ v
    np.testing.assert_allclose(run(net, "y", q=q, k=k, v=v, **arrays), want, rtol=1e-4)
    assert run(net, "m", **arrays).tolist() == mask.tolist()


def test_arg_max() -> None:
    values = one("ArgMax 0=0 1=2", X[0, 0])
    order = np.argsort(-X[0, 0])[:2]
    assert values.tolist() == [order.tolist()]
    both = one("ArgMax 0=1 1=2", X[0, 0])
    np.testing.assert_allclose(both[0], X[0, 0][order])


def test_spatial_pyramid() -> None:
    x = X[:, :4, :4]
    found = one("SPP 0=0 1=2", x)
    parts = [x.max((1, 2)), x.reshape(3, 2, 2, 2, 2).max((2, 4)).reshape(-1)]
    np.testing.assert_array_equal(found, np.concatenate(parts))
    means = one("SPP 0=1 1=1", x)
    np.testing.assert_allclose(means, x.mean((1, 2)), atol=1e-6)


def test_means_of_windows_over_the_end_count_what_pytorch_counts() -> None:
    """Borders that are asked for count, the rest of the last window does not; ncnn counts both."""
    x = np.arange(1, 5, dtype=np.float32).reshape(1, 1, 4)
    assert one("Pooling 0=1 1=1 11=1 2=2 12=1 6=1", x).tolist() == [[[1, 3, 0]]]
    assert one("Pooling 0=1 1=3 11=1 2=2 12=1 6=1", x).tolist() == [[[2, 3.5]]]
    assert one("Pooling 0=1 1=3 11=1 2=2 12=1 3=1 13=0 6=1", x).tolist() == [[[1, 3, 2]]]
    assert one("Pooling 0=1 1=3 11=1 2=2 12=1 3=1 14=0 13=0 15=0 6=1", x).tolist() == [[[1, 3]]]
    odd = one("Pooling 0=1 1=3 11=1 2=3 12=1 3=1 14=0 13=0 15=0 6=1", x)
    np.testing.assert_allclose(odd, [[[1, 3.5]]], rtol=1e-6)


def test_quantised_values_there_and_back() -> None:
    scales = np.float32([10, 20, 30])
    text = param("Input i 0 1 a", "Quantize q 1 1 a b 0=3", "Dequantize d 1 1 b c 0=3 1=3")
    weights = scales.tobytes() + (1 / scales).tobytes() + np.float32([1, 2, 3]).tobytes()
    net = load(text, weights)
    wanted = np.clip(np.trunc(X * scales[:, None, None] + np.copysign(0.5, X)), -127, 127)
    found = run(net, "c", a=X)
    np.testing.assert_allclose(found, wanted / scales[:, None, None] + np.float32([1, 2, 3])[:, None, None], atol=1e-5)


def test_requantised_values() -> None:
    text = param("Input i 0 1 a", "Requantize r 1 1 a b 0=1 1=1 2=0 3=1")
    net = load(text, np.float32([0.5, 4]).tobytes())
    x = np.float32([-8, 1, 3, 99])
    ex = net.create_extractor()
    ex.input("a", ncnn.Mat(x))
    assert ex.extract("b", 1)[1].numpy().tolist() == [0, 2, 6, 127]


@pytest.mark.parametrize(
    ("layer", "x", "function"),
    [
        ("Noop", X, lambda x: x),
        ("DeepCopy", X, lambda x: x),
        ("Packing 0=4", X, lambda x: x),
        ("Flatten", X, lambda x: x.reshape(-1)),
        ("AbsVal", X, np.abs),
        ("Permute 0=1", X, lambda x: x.transpose(0, 2, 1)),
        ("ShuffleChannel 0=3", X, lambda x: x),
        ("Reshape 0=-1 1=3", X, lambda x: x.reshape(3, 20)),
        ("Reduction 0=0 1=1", X, lambda x: np.float32([x.sum()])),
        ("Reduction 0=3 1=0 -23303=0 4=1 5=1", X, lambda x: x),
        ("Reduction 0=6 1=0 -23303=0 4=0 5=1", X, lambda x: x),
        ("Reduction 0=2 1=0 -23303=0 2=2.0 5=1", X, lambda x: 2 * x**2),
    ],
)
def test_simple_ones(layer: str, x: Any, function: Any) -> None:
    np.testing.assert_allclose(one(layer, x), function(x), atol=1e-4)


def test_sizes_that_do_not_fit_warn_and_give_what_shape_ncnn_gives() -> None:
    with pytest.warns(ncnn.NcnnWarning, match="values are taken"):
        assert one("Reshape 0=4 1=3 2=2").shape == (2, 3, 4)
    assert one("Reshape 0=5").shape == (60,)
    two = load(param("Input i 0 1 a", "Input j 0 1 b", "BinaryOp o 2 1 a b c 0=0"))
    with pytest.warns(ncnn.NcnnWarning, match="do not broadcast"):
        found = run(two, "c", a=X, b=X[:2])
    np.testing.assert_array_equal(found, np.concatenate([2 * X[:2], X[2:]]))
    joined = load(param("Input i 0 1 a", "Input j 0 1 b", "Concat o 2 1 a b c 0=0"))
    assert run(joined, "c", a=X, b=X.reshape(3, 2, 10)).shape == (6, 4, 5)


@pytest.mark.parametrize(
    "layer",
    [
        "Reshape", "Slice -23300=2,-233,-233 1=7", "Permute 0=99", "Pooling 0=5", "Pooling 1=0",
        "Interp 0=2 3=-4 4=-4", "Crop -23309=1,9 -23310=1,3 -23311=1,0", "Concat 0=9", "Convolution 0=2 1=9 6=486",
        "Gemm 3=1 5=1", "InnerProduct 0=3 2=7", "MultiHeadAttention 0=7 1=2 2=49", "GroupNorm 0=2 1=3",
        "Reduction 0=99", "UnaryOp 0=99", "BinaryOp 0=99 1=1", "PixelShuffle 0=0", "Tile -23302=1,-1",
    ],
)  # fmt: skip
def test_mistakes_give_codes(layer: str) -> None:
    """Either loading or running says no; nothing raises."""
    with pytest.warns(ncnn.NcnnWarning):
        assert code_of(layer) < 0


def code_of(layer: str) -> int:
    """The first code that is not 0."""
    kind, _, params = layer.partition(" ")
    net = ncnn.Net()
    code = net.load_param_mem(param("Input i 0 1 a", f"{kind} l 1 1 a b {params}"))
    code = code or net.load_model(ncnn.DataReaderFromEmpty())
    ex = net.create_extractor()
    return code or ex.input("a", ncnn.Mat(X)) or int(ex.extract("b")[0])


@pytest.mark.parametrize(
    ("params", "extra"), [("1=2 18=1", (1, 1)), ("1=2 3=2 18=3 19=2", (2, 3)), ("1=2 18=2 19=0", (0, 2))]
)
def test_deconvolution_pads_its_output_beyond_the_stride(params: str, extra: tuple[int, int]) -> None:
    """What is added behind holds the bias alone, as activated."""
    weights = tagged(np.random.default_rng(1).normal(size=3 * 2 * 4)) + np.float32([-1.5, 2]).tobytes()
    plain = " ".join(word for word in params.split() if word[:2] not in ("18", "19"))
    whole = one(f"Deconvolution 0=2 5=1 6=24 9=1 {params}", X, weights)
    short = one(f"Deconvolution 0=2 5=1 6=24 9=1 {plain}", X, weights)
    want = np.pad(short, ((0, 0), (0, extra[0]), (0, extra[1])))
    for side in (np.s_[1, short.shape[1] :, :], np.s_[1, :, short.shape[2] :]):
        want[side] = 2
    np.testing.assert_allclose(whole, want, rtol=0, atol=1e-6)


def test_a_window_of_nothing_makes_no_numbers() -> None:
    net = load(param("Input in 0 1 a", "Spectrogram s 1 1 a b 0=8 1=2 3=1 4=1 7=2"))
    assert not np.isfinite(run(net, "b", a=np.ones(16, np.float32))).any()


@pytest.mark.parametrize(("mode", "before"), [(-233, (0, 0, 0)), (-234, (0, 1, 1))])
def test_same_borders_of_three_axes_have_the_odd_depth_behind(mode: int, before: tuple[int, ...]) -> None:
    x = np.random.default_rng(3).normal(size=(1, 3, 4, 5)).astype(np.float32)
    padded = np.pad(x[0], [(b, 1 - b) for b in before])
    windows = np.lib.stride_tricks.sliding_window_view(padded, (2, 2, 2))
    ones = tagged(np.ones(8))
    for kind in ("Convolution3D", "ConvolutionDepthWise3D"):
        found = one(f"{kind} 0=1 1=2 4={mode} 6=8 7=1", x, ones)
        np.testing.assert_allclose(found[0], windows.sum((3, 4, 5)), atol=1e-5)
    lowest = np.pad(x[0], [(b, 1 - b) for b in before], constant_values=-np.inf)
    highest = np.lib.stride_tricks.sliding_window_view(lowest, (2, 2, 2)).max((3, 4, 5))
    np.testing.assert_array_equal(one(f"Pooling3D 0=0 1=2 5={2 if mode == -233 else 3}", x)[0], highest)


@pytest.mark.torch
@pytest.mark.parametrize("shape", [(3, 4, 5), (4, 5)])
@pytest.mark.parametrize("scales", [(1.2, 1.1), (1.0, 1.1), (1.2, 1.0), (1.0, 1.0), (1.2, 1.3)])
@pytest.mark.parametrize("mode", ["nearest", "bilinear", "bicubic"])
@pytest.mark.parametrize("corners", [False, True])
def test_a_scale_moves_bicubic_positions_even_where_the_size_stays(
    shape: tuple[int, ...], scales: tuple[float, float], mode: str, corners: bool
) -> None:
    torch = pytest.importorskip("torch")
    x = X.reshape(-1)[: np.prod(shape)].reshape(shape)
    more = {} if mode == "nearest" else {"align_corners": corners}
    flat = len(shape) == 2
    given = torch.from_numpy(x[:, None] if flat else x)[None]
    factors = (1.0, scales[1]) if flat else scales
    wanted = torch.nn.functional.interpolate(
        given, scale_factor=factors, mode=mode, recompute_scale_factor=False, **more
    )[0].numpy()
    kind = ["nearest", "bilinear", "bicubic"].index(mode) + 1
    found = one(f"Interp 0={kind} 1={scales[0]} 2={scales[1]} 6={corners:d}", x)
    np.testing.assert_allclose(found, wanted[:, 0] if flat else wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("shape", [(5,), (4, 5), (3, 4, 5), (2, 3, 4, 5)])
def test_statistics_are_those_of_channels_of_which_vectors_and_matrices_have_one(shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(3).normal(size=shape).astype(np.float32)
    channels = x.reshape(shape[0] if len(shape) > 2 else 1, -1)
    mean, deviation = channels.mean(1), channels.std(1)
    np.testing.assert_allclose(one("StatisticsPooling 0=0", x), mean, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(one("StatisticsPooling 0=1", x), np.concatenate([mean, deviation]), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    ("shape", "repeats"), [((5,), (2, 3)), ((4, 5), (2, 1, 3)), ((3, 4, 5), (1, 2, 1, 1)), ((2, 3, 4, 5), (2, 1))]
)
def test_repetitions_of_new_dimensions_stand_in_front(shape: tuple[int, ...], repeats: tuple[int, ...]) -> None:
    x = np.random.default_rng(3).normal(size=shape).astype(np.float32)
    numbers = ",".join(map(str, repeats))
    np.testing.assert_array_equal(one(f"Tile -23302={len(repeats)},{numbers}", x), np.tile(x, repeats))


@pytest.mark.parametrize("shape, size", [((3, 4, 5), 60), ((4, 5), 20), ((5,), 7)])
def test_norms_of_whole_blobs_are_those_of_all_but_the_first_dimension(shape: tuple[int, ...], size: int) -> None:
    x = np.random.default_rng(3).normal(size=shape).astype(np.float32)
    scale, bias = np.random.default_rng(4).normal(size=(2, size)).astype(np.float32)
    last = (-2, -1) if len(shape) == 3 else (-1,)
    within = shape[-len(last) :]
    s, b = (v[: np.prod(within)].reshape(within) for v in (scale, bias))
    centred = x - x.mean(last, keepdims=True)
    wanted = centred / np.sqrt((centred**2).mean(last, keepdims=True) + 1e-3) * s + b
    given = one(f"LayerNorm 0={size} 2=1", x, scale.tobytes() + bias.tobytes())
    np.testing.assert_allclose(given, wanted, rtol=1e-4, atol=1e-5)
    wanted = x / np.sqrt((x**2).mean(last, keepdims=True) + 1e-3) * s
    np.testing.assert_allclose(one(f"RMSNorm 0={size} 2=1", x, scale.tobytes()), wanted, rtol=1e-4, atol=1e-5)


def test_weights_of_norms_must_be_enough() -> None:
    with pytest.warns(ncnn.NcnnWarning, match="normalised dimensions"), pytest.raises(AssertionError):
        one("LayerNorm 0=7 2=0")


def test_a_vector_is_one_channel_to_quantisers() -> None:
    x, scales = np.float32([1, -2, 3]), np.float32([10, 20, 30])
    assert one("Quantize 0=3", x, scales.tobytes()).tolist() == [10, -20, 30]
    bias = np.float32([1, 2, 3]).tobytes()
    assert one("Dequantize 0=3 1=3", x, scales.tobytes() + bias).tolist() == [11, -19, 31]


@pytest.mark.parametrize("length", [4, 8, 21])
def test_an_lstm_may_project_to_more_values_than_it_has_units(length: int) -> None:
    generator, units, wide = np.random.default_rng(length), 3, length + 1
    x, parts = generator.normal(size=(6, 5)).astype(np.float32), [(4, units, 5), (4, units), (4, units, length)]
    arrays = [generator.normal(size=shape).astype(np.float32) for shape in parts]
    project = generator.normal(size=(length, units)).astype(np.float32)

    def net(hidden: int) -> Any:
        more = hidden - units  # that compute zeros
        padded = [np.pad(a, [(0, 0), (0, more), (0, 0)][: a.ndim]) for a in arrays]
        weights = b"".join(tagged(a) for a in (*padded, np.pad(project, [(0, 0), (0, more)])))
        return one(f"LSTM 0={length} 1={4 * hidden * 5} 3={hidden}", x, weights)

    np.testing.assert_allclose(net(units), net(wide), rtol=1e-5, atol=1e-6)


def test_a_convolution_of_a_vector_has_no_borders() -> None:
    """It is an inner product in ncnn, whatever its parameters say of padding."""
    weight = np.arange(6, dtype=np.float32).reshape(2, 3)
    got = one("Convolution 0=2 1=1 4=1 6=6", np.float32([1, 2, 3]), tagged(weight))
    assert got.tolist() == [8, 26]


@pytest.mark.parametrize("shape", [(6,), (6, 5), (6, 2, 3, 4)])
def test_responses_are_normalised_over_the_first_dimension(shape: tuple[int, ...]) -> None:
    """As in PyTorch, whatever the number of dimensions."""
    x = np.random.default_rng(3).normal(size=shape).astype(np.float32)
    layer = "LRN 1=3 2=0.4 3=0.6 4=1.2"
    np.testing.assert_allclose(one(layer, x), one(layer, x.reshape(6, -1, 1)).reshape(shape), rtol=1e-6)


def mean_of_uncovered(x: Any, upper: bool, before: tuple[int, int], after: tuple[int, int]) -> Any:
    """Means of windows of 3x3, each second one, over what own paddings leave of an input with "same" borders."""
    borders, mask = [(0, 0)], np.ones(())
    for size, b, a in zip(x.shape[1:], before, after, strict=True):
        total = max(0, 3 + (size - 1) // 2 * 2 - size)
        borders.append((total // 2, total - total // 2) if upper else (total - total // 2, total // 2))
        places = np.arange(size + total)
        mask = mask[..., None] * ((places >= b) & (places < size + total - a))
    windows = [
        np.lib.stride_tricks.sliding_window_view(v, (3, 3), (-2, -1))[..., ::2, ::2, :, :].sum((-2, -1))
        for v in (np.pad(x, borders) * mask, mask)
    ]
    with np.errstate(all="ignore"):
        return windows[0] / windows[1]


@pytest.mark.parametrize("mode", [2, 3])
@pytest.mark.parametrize(
    "pads", [(2, 2, 2, 2), (0, 0, 2, 2), (2, -233, -233, -233), (1, 1, 1, 1), (3, 1, 2, 4), (0, 0, 9, 9)]
)
def test_averages_with_same_borders_leave_out_what_own_paddings_cover(mode: int, pads: tuple[int, ...]) -> None:
    """So does the ncnn package."""
    x = np.random.default_rng(0).standard_normal((4, 9, 10)).astype(np.float32)
    left, right, top, bottom = pads
    got = one(f"Pooling 0=1 1=3 2=2 5={mode} 3={left} 14={right} 13={top} 15={bottom}", x)
    np.testing.assert_allclose(got, mean_of_uncovered(x, mode == 2, (top, left), (bottom, right)), 1e-4, 1e-5)


def test_infinities_make_no_warnings() -> None:
    """Tests treat warnings of numpy as errors."""
    assert np.isnan(one("InverseSpectrogram 0=8 1=1 2=4 3=8 4=1 5=0", np.full((5, 6, 2), np.inf, np.float32))).any()


@pytest.mark.parametrize(
    ("boxes", "kept"),
    [
        ([[0, 0, 4, 4], [1, 1, 4, 4], [5, 5, 8, 8]], [0, 2]),
        ([[0, 0, 0, 0], [5, 5, 5, 5], [9, 9, 9, 9]], [0]),
        ([[0, 0, 0, 1], [5, 0, 5, 1], [9, 0, 9, 2]], [0]),
        ([[0, 0, 4, 4], [1, 1, 1, 3], [2, 0, 2, 2]], [0, 1]),
        ([[0, 0, 4, 4], [np.nan, 1, 1, 3], [np.nan, 0, 2, 2]], [0]),
        ([[-1e38, -1e38, 1e38, 1e38], [-1e38, -1e38, 1e38, 1e38], [0, 0, 2, 2]], [0, 2]),
    ],
)
def test_of_boxes_without_an_area_the_best_is_kept(boxes: list[list[float]], kept: list[int]) -> None:
    """What the ncnn package keeps; shares that are no numbers count as overlaps there."""
    inputs = [f"Input i{n} 0 1 {n}" for n in "abc"]
    net = load(param(*inputs, "DetectionOutput d 3 1 a b c y 0=2 1=0.45 2=9 3=9 4=0.25"))
    scores = np.float32([0, 0.9, 0, 0.8, 0, 0.7])
    prior = np.stack([np.float32(boxes).reshape(-1), np.full(12, 0.1, np.float32)])
    found = run(net, "y", a=np.zeros(12, np.float32), b=scores, c=prior)
    np.testing.assert_array_equal(found[:, 1], scores[1::2][kept])


def test_boxes_without_an_area_in_a_detector_that_keeps_them() -> None:
    x = np.zeros((8, 2, 3), np.float32)
    x[2:4], x[4:6] = -300, 5
    params = "0=3 1=1 2=0.3 3=0.45 -23304=2,1.0,1.5"
    assert len(one(f"YoloDetectionOutput {params}", x)) == 1
    assert len(one(f"Yolov3DetectionOutput {params} -23305=1,0.0 -23306=1,32.0", x)) == 6


def test_padding_of_vectors_and_matrices_has_one_value() -> None:
    values = np.float32([8, 9, 7]).tobytes()
    assert one("Padding 2=1 5=0.5 6=3", X, values)[:, 0, 0].tolist() == [8, 9, 7]
    assert one("Padding 2=1 5=0.5 6=3", X[0], values)[:, 0].tolist() == [0.5] * 4
    assert one("Padding 2=1 5=0.5 6=3", X[0, 0], values)[0] == 0.5


def test_what_depends_on_sizes_alone_keeps_to_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PNNX_FAST_MEMORY_LIMIT", "64M")
    load(param("Input i 0 1 b0", *(f"Spectrogram s{i} 1 1 b{i} b{i + 1} 0=1048576" for i in range(50))))
    with pytest.warns(ncnn.NcnnWarning, match="a frame of 1048577 values"):
        assert ncnn.Net().load_param_mem(param("Input i 0 1 a", "Spectrogram s 1 1 a b 0=1048577")) == -1
    ratios = ",".join(["1.0"] * 1000)
    net = load(param("Input i 0 1 a", f"PriorBox p 1 1 a b -23300=1,2.0 -23302=1000,{ratios} 9=300 10=300"))
    ex = net.create_extractor()
    ex.input("a", ncnn.Mat(np.zeros((1, 80, 80), np.float32)))
    with pytest.warns(ncnn.NcnnWarning, match="of memory are needed"):
        assert ex.extract("b")[0] == -100
