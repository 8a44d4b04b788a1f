"""Layers of several blobs of which some have a batch: the others serve each image, as in ncnn."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from layer_cases import CASES, Case
from layer_inputs import inputs, text, weights
from nets import load, param

import pnnx_fast.ncnn as ncnn

TYPES = {
    "BinaryOp", "Concat", "Convolution", "Convolution1D", "ConvolutionDepthWise", "CopyTo", "Crop", "DeformableConv2D",
    "Eltwise", "Gemm", "GridSample", "GRU", "Interp", "LSTM", "MatMul", "MultiHeadAttention", "PSROIPooling", "RNN",
    "ROIAlign", "ROIPooling", "RotaryEmbed", "Scale", "SDPA",
}  # fmt: skip
CHOSEN = [case for case in CASES if case.type in TYPES and len(case.shapes) > 1 and case.options == ()]


def outputs(case: Case, arrays: list[Any], batched: set[int]) -> list[Any]:
    net = ncnn.Net()
    assert net.load_param_mem(text(case)) == 0
    assert net.load_model(weights(case)) == 0
    ex = net.create_extractor()
    for i, array in enumerate(arrays):
        ex.input(f"a{i}", ncnn.Mat(array, batch_index=0) if i in batched else ncnn.Mat(array))
    made = []
    for i in range(case.outputs):
        code, mat = ex.extract(f"b{i}")
        assert code == 0
        made.append(np.array(mat.numpy(batch_index=0) if batched else mat.numpy()))
    return made


@pytest.mark.parametrize("case", CHOSEN, ids=lambda case: case.name)
def test_one_blob_with_a_batch(case: Case) -> None:
    arrays = inputs(case)
    for i, array in enumerate(arrays):
        images = np.stack([array, array[..., ::-1] if case.type == "GridSample" else 0.5 * array])
        images = images.astype(array.dtype)
        got = outputs(case, [*arrays[:i], images, *arrays[i + 1 :]], {i})
        for n, image in enumerate(images):
            alone = outputs(case, [*arrays[:i], image, *arrays[i + 1 :]], set())
            for a, b in zip(got, alone, strict=True):
                assert a.shape == (len(images), *b.shape)
                np.testing.assert_allclose(a[n], b, rtol=0, atol=1e-5 * max(1.0, float(np.abs(b).max())))


def test_transposed_convolutions_with_weights_for_each_image() -> None:
    case = Case("Deconvolution", "0=3 3=2 4=1 5=1 28=1", ((2, 3, 4), (2, 3, 3, 3), (3,)))
    arrays = [np.stack([array, 2 * array[::-1]]) for array in inputs(case)]
    got = outputs(case, arrays, {0, 1, 2})[0]
    for i in range(2):
        alone = outputs(case, [np.ascontiguousarray(array[i]) for array in arrays], set())[0]
        np.testing.assert_allclose(got[i], alone, rtol=0, atol=1e-5)


@pytest.mark.parametrize("case", CHOSEN, ids=lambda case: case.name)
def test_other_batches_are_refused(case: Case) -> None:
    net = ncnn.Net()
    assert net.load_param_mem(text(case)) == 0
    assert net.load_model(weights(case)) == 0
    ex = net.create_extractor()
    for i, array in enumerate(inputs(case)):
        ex.input(f"a{i}", ncnn.Mat(np.stack([array] * (3 if i else 2)), batch_index=0))
    with pytest.warns(ncnn.NcnnWarning, match=rf"{case.type} \w+: .*\b2\b.*\b3\b|{case.type} \w+: .*broadcast"):
        assert ex.extract("b0")[0] == -100


@pytest.mark.parametrize("given", [False, True])
@pytest.mark.parametrize("quantised", [0, 2])
@pytest.mark.parametrize(
    "heads, shape", [(2, (2, 1, 3, 4)), (1, (2, 1, 3, 4)), (1, (2, 3, 4)), (4, (2, 3, 4)), (2, (4,))]
)
def test_masks_of_neither_heads_nor_one(heads: int, shape: tuple[int, ...], quantised: int, given: bool) -> None:
    """A batch among the sizes of a mask, as files may hold it, is refused like one among those of keys."""
    mask = np.zeros(shape, np.float32)
    keys = {1: "0", 3: "012", 4: ("0", "1", "11", "2")}[len(shape)]
    sizes = " ".join(f"{key}={n}" for key, n in zip(keys, shape[::-1], strict=True))
    source = "Input m 0 1 m" if given else f"MemoryData m 0 1 m {sizes}"
    lines = *(f"Input i{n} 0 1 {n}" for n in "qkv"), source, f"SDPA attends 4 1 q k v m y 5=1 18={quantised}"
    ex = load(param(*lines), b"" if given else mask.tobytes()).create_extractor()
    for name, length in {"q": 3, "k": 4, "v": 4}.items():
        ex.input(name, ncnn.Mat(np.ones((2, heads, length, 8), np.float32), batch_index=0))
    if given:
        ex.input("m", ncnn.Mat(mask))
    with pytest.warns(ncnn.NcnnWarning, match="SDPA attends: a mask"):
        assert ex.extract("y")[0] == -100
