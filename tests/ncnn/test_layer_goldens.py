"""Every ncnn layer, alone in a net, against what the ncnn package gave (goldens.npz, made by make_goldens.py)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from archives import arrays
from layer_cases import CASES, Case
from layer_inputs import inputs, text, weights

import pnnx_fast.ncnn as ncnn
from pnnx_fast.formats.ncnn_types import LAYER_TYPES

GOLDENS = arrays(Path(__file__).parent / "goldens.npz")
KNOWN = set(GOLDENS)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_layer(case: Case) -> None:
    if f"{case.name} 0" not in KNOWN:
        pytest.skip("ncnn cannot run this case")
    net = ncnn.Net()
    assert net.load_param_mem(text(case)) == 0
    assert net.load_model(weights(case)) == 0
    ex = net.create_extractor()
    for i, array in enumerate(inputs(case)):
        assert ex.input(f"a{i}", ncnn.Mat(array)) == 0
    for i in range(case.outputs):
        code, mat = ex.extract(f"b{i}")
        assert code == 0
        wanted = GOLDENS[f"{case.name} {i}"]
        if not wanted.size:
            assert mat.dims == 0
            continue
        got = mat.numpy()
        assert got.shape == wanted.shape
        scale = max(1.0, float(np.abs(wanted).max()))
        np.testing.assert_allclose(got / scale, wanted / scale, rtol=0, atol=case.tolerance)


def test_there_are_cases_of_nearly_all_types() -> None:
    others = {"Input", "Split", "MemoryData", "ArgMax", "SPP", "Quantize", "Dequantize", "Requantize"}
    assert set(LAYER_TYPES) - others <= {case.type for case in CASES}
