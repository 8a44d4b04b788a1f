"""Operands whose types and shapes fit an operator, but not each other, and counts without measure."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from graph_of_one import call, run

from pnnx_fast.errors import LimitError, ParameterError, ShapeError

ROWS = np.random.default_rng(0).standard_normal((40, 5)).astype(np.float32)


@pytest.mark.parametrize("dtype", ["int32", "uint8", "bool", "complex64"])
def test_distances_of_what_is_no_float(dtype: str) -> None:
    for pair in ((ROWS.astype(dtype), ROWS), (ROWS, ROWS.astype(dtype))):
        with pytest.raises(ShapeError, match="cdist takes floats"):
            call("aten::cdist", (*pair, 2.0, None), 1)


@pytest.mark.parametrize("window", ["complex128", "complex64", "float64", "int64"])
def test_windows_of_other_types(window: str) -> None:
    x, hann = ROWS.reshape(1, 200), np.hanning(16).astype(window)
    params = {"n_fft": 16, "hop_length": 4, "win_length": 16, "center": False, "normalized": False}
    got = run("torch.stft", x, hann, names=["input", "window"], onesided=False, return_complex=True, **params)
    frames = np.lib.stride_tricks.sliding_window_view(x, 16, -1)[:, ::4] * hann
    want = np.fft.fft(frames).transpose(0, 2, 1)
    assert got.dtype == (np.complex128 if window in ("complex128", "float64") else np.complex64)
    np.testing.assert_allclose(got, want, atol=1e-4)


@pytest.mark.parametrize("missing", ["bias_k", "bias_v"])
def test_half_of_the_added_rows(missing: str) -> None:
    names = {"in_proj_weight": (12, 4), "in_proj_bias": (12,), "out_proj.weight": (4, 4), "out_proj.bias": (4,)}
    rows = {"bias_k": (1, 1, 4), "bias_v": (1, 1, 4)}
    del rows[missing]
    weights = {key: np.ones(shape, np.float32) for key, shape in (names | rows).items()}
    with pytest.raises(ParameterError, match="bias_k and bias_v come together"):
        run("nn.MultiheadAttention", ROWS[None, :, :4], weights=weights, embed_dim=4, num_heads=2, batch_first=True)


def test_a_sorter_of_another_shape() -> None:
    order = np.zeros((1, 5), np.int64)
    with pytest.raises(ShapeError, match="the sorter has another shape"):
        call("aten::searchsorted", (ROWS, ROWS, False, False, None, order), 1)


@pytest.mark.parametrize("n", [5, 6, 10**6, 2**62])
def test_differences_of_nothing(n: int) -> None:
    got = call("aten::diff", (ROWS, n, -1, None, None), 1)
    assert (got.shape, got.dtype) == ((40, 0), np.float32)


@pytest.mark.parametrize(
    ("kind", "arguments"),
    [
        ("aten::unbind", (0,)),
        ("aten::split", (1, 0)),
        ("aten::chunk", (2**30, 0)),
    ],
)
def test_views_in_countless_parts(kind: str, arguments: tuple[int, ...]) -> None:
    line = np.zeros(1 << 17, np.float32)
    with pytest.raises(ShapeError, match="cut into up to 65536 parts"):
        call(kind, (line, *arguments), 2)


def test_layers_without_number() -> None:
    with pytest.raises(ParameterError, match="1 weights instead of"):
        call("aten::gru", (ROWS[None], ROWS[None, :1], [ROWS], True, 2**40, 0.0, False, False, False), 2)


@pytest.mark.parametrize("kind", ["aten::linalg_svdvals", "aten::pinverse", "aten::linalg_cond", "aten::nuclear_norm"])
def test_spectra_of_infinities(kind: str) -> None:
    x = ROWS.copy()
    x[3, 2] = np.inf
    with pytest.raises(ParameterError, match="have no singular values"):
        call(kind, (x,), 1)


@pytest.mark.parametrize("sizes", [(2**40, 40, 5), (2**62, 40, 5)])
def test_views_that_no_memory_holds(sizes: tuple[int, ...]) -> None:
    with pytest.raises(LimitError, match=r"Tensor\.expand op: a view of shape"):
        run("Tensor.expand", ROWS, sizes=sizes)
    with pytest.raises(LimitError, match=r"torch\.zeros op: a view of shape"):
        run("torch.zeros", size=sizes)


def test_sizes_beside_nothing() -> None:
    with pytest.raises(LimitError):
        run("torch.zeros", size=(0, 2**62))


@pytest.mark.filterwarnings("ignore:.*taken for False")
def test_a_number_that_the_file_does_not_tell() -> None:
    x, mask = np.zeros(3, np.float16), np.array([True, False, True])
    given: dict[str, Any] = {"names": ["input", "indices"], "values": None, "accumulate": False}
    with pytest.raises(ParameterError, match="does not tell the number that is written"):
        run("Tensor.index_put", x, mask, **given)
    assert run("Tensor.index_put", x > 0, mask, **given).tolist() == [False] * 3


FAR = 2**56


@pytest.mark.parametrize(
    "layer",
    [
        {"weight": (8, 1, 3, 1), "padding": (FAR, 0), "dilation": (FAR, 1)},
        {"weight": (8, 1, 3, 1), "padding": (FAR, 0), "stride": (FAR, 1)},
        {"weight": (8, 1, 3, 22), "groups": 8, "padding": (FAR, 11), "dilation": (FAR, 1)},
        {"weight": (8, 1, 1, 1), "groups": 8, "dilation": (1 << 62, 1)},
    ],
    ids=["dilation", "stride", "depthwise", "dilation of one pixel"],
)
def test_windows_beyond_reckoning(layer: dict[str, Any]) -> None:
    shape, groups = layer.pop("weight"), layer.pop("groups", 1)
    weights = {"weight": np.ones(shape, np.float32)}
    with pytest.raises(ParameterError, match="reaches beyond"):
        run("nn.Conv2d", np.ones((1, groups, 8, 16), np.float32), weights=weights, groups=groups, **layer)
    with pytest.raises(ParameterError, match="reaches beyond"):
        run("F.max_pool2d", np.ones((1, 1, 8, 16), np.float32), kernel_size=(2, 2), stride=(FAR, 1))
    with pytest.raises(ParameterError, match="reaches beyond"):
        run("F.max_pool2d", np.ones((1, 1, 8, 16), np.float32), kernel_size=(1, 1), stride=(1, 1), dilation=(FAR, 1))
    with pytest.raises(ParameterError, match="reaches beyond"):
        run("F.unfold", np.ones((1, 1, 8, 16), np.float32), kernel_size=(2, 2), padding=FAR, dilation=FAR)


@pytest.mark.parametrize("groups", [1, 8])
@pytest.mark.parametrize("shape", [(2, 8, 4, 0), (2, 8, 0, 4)])
def test_images_without_pixels(shape: tuple[int, ...], groups: int) -> None:
    weights = {"weight": np.ones((8, 8 // groups, 9, 9), np.float32)}
    with pytest.raises(ShapeError, match="without pixels"):
        run("nn.Conv2d", np.ones(shape, np.float32), weights=weights, groups=groups, padding=(8, 8))


@pytest.mark.parametrize("scale", [1e-30, 1e-45, 5e-324])
@pytest.mark.parametrize("kind", ["nearest2d", "_nearest_exact2d", "bilinear2d", "_bicubic2d_aa", "_bilinear2d_aa"])
def test_scales_that_are_next_to_nothing(kind: str, scale: float) -> None:
    x = np.arange(12, dtype=np.float32).reshape(1, 1, 3, 4) + 1
    corners = [] if "nearest" in kind else [False]
    name = f"aten::{'' if kind.startswith('_') else 'upsample_'}{kind}".replace("::_", "::_upsample_")
    got = call(name, (x, [5, 5], *corners, scale, scale), 1)
    assert got.shape == (1, 1, 5, 5)
    assert kind.endswith("_aa") or np.isin(got, x).all()


@pytest.mark.parametrize("mode", ["replicate", "reflect"])
def test_a_single_number_that_is_padded_and_cut(mode: str) -> None:
    x = np.full((1, 1, 1), 7, np.float32)
    pads = (1, -1) if mode == "replicate" else (0, 0)
    assert run("F.pad", x, pad=pads, mode=mode).tolist() == [[[7]]]


@pytest.mark.parametrize("kind", ["torch.gather", "torch.scatter_add"])
def test_indices_of_many_dimensions(kind: str) -> None:
    x = np.ones((1,) * 9, np.float32)
    given = (x, np.zeros((1,) * 9, np.int64), *([x] if "add" in kind else []))
    names = ["input", "index", "src"][: len(given)]
    with pytest.raises(ShapeError, match="up to 8 dimensions"):
        run(kind, *given, names=names, dim=0)


@pytest.mark.parametrize("size", [4, 9, 16, 64])
@pytest.mark.parametrize("kind", ["nn.MultiheadAttention", "aten::_native_multi_head_attention"])
def test_projections_to_another_width(kind: str, size: int) -> None:
    x, shapes = ROWS[None, :, :4].repeat(2, -1), ((3 * size, 8), (3 * size,), (8, 8), (8,))
    weights = [np.ones(shape, np.float32) for shape in shapes]
    names = ["query", "in_proj_weight", "in_proj_bias", "out_proj_weight", "out_proj_bias"]
    layers = {
        "nn.MultiheadAttention": lambda: run(
            kind, x, *weights, names=names, embed_dim=8, num_heads=2, batch_first=True
        ),
        "aten::_native_multi_head_attention": lambda: call(kind, (x, x, x, 8, 2, *weights, None, False, True, None), 1),
    }
    with pytest.raises(ShapeError, match="a weight does not fit embed_dim"):
        layers[kind]()


@pytest.mark.parametrize(
    "name, shape", [("out_proj_weight", (4, 8)), ("out_proj_weight", (8,)), ("in_proj_bias", (72,))]
)
def test_one_projection_that_does_not_fit(name: str, shape: tuple[int, ...]) -> None:
    shapes = {"in_proj_weight": (24, 8), "in_proj_bias": (24,), "out_proj_weight": (8, 8), "out_proj_bias": (8,)}
    weights = [np.ones(s, np.float32) for s in (shapes | {name: shape}).values()]
    x = ROWS[None, :, :4].repeat(2, -1)
    with pytest.raises(ShapeError, match="a weight does not fit embed_dim"):
        run("nn.MultiheadAttention", x, *weights, names=["query", *shapes], embed_dim=8, num_heads=2, batch_first=True)


@pytest.mark.parametrize(
    ("kind", "arrays", "params"),
    [
        ("int8.Quantize", [(1,) * 9], {"scale": 1.0}),
        ("int8.Quantize", [(), (1,)], {}),
        ("torchvision.ops.RoIAlign", [(4, 4, 4), (1, 5)], {"output_size": 2}),
        ("torchvision.ops.RoIAlign", [(1, 2, 4, 4), (1, 5)], {"output_size": 0}),
        ("torch.quantize_per_tensor", [(4,)], {"scale": (1.0, 2.0), "zero_point": 0}),
        ("torch.quantize_per_tensor", [(4,)], {"scale": 1.0, "zero_point": "inf"}),
        ("F.affine_grid", [(1, 2, 3)], {"size": None}),
    ],
)
def test_complaints_name_what_is_wrong(kind: str, arrays: list[Any], params: dict[str, Any]) -> None:
    with pytest.raises((ShapeError, ParameterError)) as raised:
        run(kind, *(np.ones(shape, np.float32) for shape in arrays), **params)
    assert "cannot be computed" not in str(raised.value)
