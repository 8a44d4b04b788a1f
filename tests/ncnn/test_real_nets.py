"""Trained nets with recorded results, and the nets of ncnn's collection with zero weights."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pnnx_fast import ncnn
from pnnx_fast.formats.ncnn_param import read_text
from pnnx_fast.formats.ncnn_param_bin import read_binary, write_binary

TRAINED = ["squeezenet_v1.1", "nanodet_m", "mnet.25-opt", "scrfd_500m-opt2", "PP_OCRv5_mobile_det.ncnn"]


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", TRAINED)
def test_trained(data_path: Path, name: str, threads: int) -> None:
    folder = data_path / "models"
    expected = np.load(folder / f"{name}.expected.npz")
    net = ncnn.Net()
    net.opt.num_threads = threads
    assert net.load_param(str(folder / f"{name}.param")) == 0
    assert net.load_model(str(folder / f"{name}.bin")) == 0
    for _ in range(2):
        ex = net.create_extractor()
        ex.input(net.input_names()[0], ncnn.Mat(expected["input"]))
        for key in (k for k in expected.files if k.startswith("out")):
            code, mat = ex.extract(key.removeprefix("out:"))
            assert code == 0
            wanted = expected[key]
            error = np.abs(mat.numpy().reshape(wanted.shape) - wanted).max() / np.abs(wanted).max()
            assert error < 2e-3


def test_trained_from_binary_parameters(data_path: Path) -> None:
    folder = data_path / "models"
    expected = np.load(folder / "squeezenet_v1.1.expected.npz")
    net = ncnn.Net()
    assert net.load_param_bin(str(folder / "squeezenet_v1.1.param.bin")) == 0
    assert net.load_model(str(folder / "squeezenet_v1.1.bin")) == 0
    ex = net.create_extractor()
    ex.input(net.input_indexes()[0], ncnn.Mat(expected["input"]))
    code, mat = ex.extract(net.output_indexes()[0])
    assert code == 0
    np.testing.assert_allclose(mat.numpy().reshape(-1), expected["out:prob"].reshape(-1), atol=2e-3)


class Focus(ncnn.Layer):
    """Every other pixel as a channel: the layer that YOLOv5's applications bring along."""

    def __init__(self) -> None:
        super().__init__()
        self.one_blob_only = True

    def forward(self, bottom_blob: Any, top_blob: Any, opt: Any) -> int:
        x = bottom_blob.numpy()
        top_blob.clone_from(ncnn.Mat(np.concatenate([x[:, i::2, j::2] for j in (0, 1) for i in (0, 1)])))
        return 0


SMALL = ["blazeface", "mobilenetv2_ssdlite_voc", "nanodet-g", "shufflenet_v2_x0.5", "yolo11n_pose.ncnn", "yolov5s_6.0"]


@pytest.mark.parametrize("name", SMALL)
def test_zero_weights_give_the_known_shapes(data_path: Path, name: str) -> None:
    folder = data_path / "ncnn_params"
    shapes = json.loads((folder / "shapes.json").read_text())[f"{name}.param"]
    net = ncnn.Net()
    net.register_custom_layer("YoloV5Focus", Focus)
    assert net.load_param(str(folder / f"{name}.param")) == 0
    assert net.load_model(ncnn.DataReaderFromEmpty()) == 0
    ex = net.create_extractor()
    for key, shape in shapes["inputs"].items():
        ex.input(key, ncnn.Mat(np.zeros(shape, np.float32)))
    for key, shape in shapes["outputs"].items():
        code, mat = ex.extract(key)
        assert code == 0
        assert list(mat.numpy().shape) == shape


def test_all_nets_load_and_survive_binary(data_path: Path) -> None:
    paths = sorted((data_path / "ncnn_params").glob("*.param"))
    assert paths
    with warnings.catch_warnings():
        warnings.simplefilter("error", ncnn.NcnnWarning)
        for path in paths:
            net = ncnn.Net()
            net.register_custom_layer("YoloV5Focus", Focus)
            assert net.load_param(str(path)) == 0, path
            param = read_text(path.read_bytes())
            if any(layer.type == "YoloV5Focus" for layer in param.layers):
                continue
            again = read_binary(write_binary(param))
            assert [layer.tops for layer in again.layers] == [layer.tops for layer in param.layers]
