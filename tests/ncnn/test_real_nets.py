"""Trained nets with recorded results, and the nets of ncnn's collection with zero weights."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from archives import arrays

from pnnx_fast import ncnn

TRAINED = ["squeezenet_v1.1", "nanodet_m", "mnet.25-opt", "scrfd_500m-opt2", "PP_OCRv5_mobile_det.ncnn"]


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", TRAINED)
def test_trained(data_path: Path, name: str, threads: int) -> None:
    folder = data_path / "models"
    expected = arrays(folder / f"{name}.expected.npz")
    net = ncnn.Net()
    net.opt.num_threads = threads
    assert net.load_param(str(folder / f"{name}.param")) == 0
    assert net.load_model(str(folder / f"{name}.bin")) == 0
    for _ in range(2):
        ex = net.create_extractor()
        ex.input(net.input_names()[0], ncnn.Mat(expected["input"]))
        for key in (k for k in expected if k.startswith("out")):
            code, mat = ex.extract(key.removeprefix("out:"))
            assert code == 0
            wanted = expected[key]
            error = np.abs(mat.numpy().reshape(wanted.shape) - wanted).max() / np.abs(wanted).max()
            assert error < 2e-3


def test_trained_from_binary_parameters(data_path: Path) -> None:
    folder = data_path / "models"
    expected = arrays(folder / "squeezenet_v1.1.expected.npz")
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


# Inputs for nets that the list does not know; ncnn itself stops at these with zero weights.
OTHERS: dict[str, dict[str, list[int]]] = {
    "FastestDet": {"in0": [3, 352, 352]},
    "PP_OCRv5_mobile_det.ncnn": {"in0": [3, 320, 320]},
    "android_yolov5s": {"images": [3, 320, 320]},
    "assets_nanodet_m": {"input.1": [3, 320, 320]},
    "mnet.25-opt": {"data": [3, 320, 320]},
    "mobilenet_ssd": {"data": [3, 300, 300]},
    "mobilenet_ssd_int8": {"data": [3, 300, 300]},
    "mobilenet_ssd_voc_ncnn": {"data": [3, 300, 300]},
    "mobilenetv3_ssdlite_voc": {"input": [3, 300, 300]},
    "nanodet-m": {"input.1": [3, 320, 320]},
    "nanodet-m-416": {"input.1": [3, 416, 416]},
    "nanodet_m": {"input.1": [3, 320, 320]},
    "pelee": {"data": [3, 304, 304]},
    "scrfd_500m-opt2": {"input.1": [3, 320, 320]},
    "squeezenet_ssd": {"data": [3, 300, 300]},
    "squeezenet_ssd_int8": {"data": [3, 300, 300]},
    "squeezenet_ssd_voc": {"data": [3, 300, 300]},
    "yolo-fastest-1.1": {"data": [3, 320, 320]},
    "yolo-fastestv2": {"input.1": [3, 352, 352]},
    "yolov5s": {"images": [3, 320, 320]},
    "yolov8s_worldv2.ncnn": {"in0": [3, 640, 640]},
}
SMALL = ["blazeface", "mobilenetv2_ssdlite_voc", "nanodet-g", "shufflenet_v2_x0.5", "yolo11n_pose.ncnn", "yolov5s_6.0"]


def zero_net(folder: Path, name: str) -> ncnn.Net:
    net = ncnn.Net()
    net.register_custom_layer("YoloV5Focus", Focus)
    assert net.load_param(str(folder / f"{name}.param")) == 0
    assert net.load_model(ncnn.DataReaderFromEmpty()) == 0
    return net


def check_shapes(folder: Path, name: str) -> None:
    shapes = json.loads((folder / "shapes.json").read_text()).get(f"{name}.param")
    net = zero_net(folder, name)
    ex = net.create_extractor()
    for key, shape in (shapes["inputs"] if shapes else OTHERS[name]).items():
        assert ex.input(key, ncnn.Mat(np.zeros(shape, np.float32))) == 0
    wanted = shapes["outputs"] if shapes else dict.fromkeys(net.output_names())
    for key, shape in wanted.items():
        code, mat = ex.extract(key)
        # A detector that finds nothing gives an empty Mat.
        assert code == 0
        assert shape is None or list(mat.numpy().shape) == shape


@pytest.mark.parametrize("name", SMALL)
def test_zero_weights_give_the_known_shapes(data_path: Path, name: str) -> None:
    check_shapes(data_path / "ncnn_params", name)


@pytest.mark.slow
def test_every_net_runs_and_has_the_known_shapes(data_path: Path) -> None:
    folder = data_path / "ncnn_params"
    known = {p.removesuffix(".param") for p in json.loads((folder / "shapes.json").read_text())}
    for name in sorted(known | set(OTHERS)):
        with warnings.catch_warnings():
            # Some are made for pictures of another size.
            warnings.simplefilter("ignore", ncnn.NcnnWarning)
            check_shapes(folder, name)


def test_all_nets_load(data_path: Path) -> None:
    paths = sorted((data_path / "ncnn_params").glob("*.param"))
    assert len(paths) > 100
    with warnings.catch_warnings():
        warnings.simplefilter("error", ncnn.NcnnWarning)
        for path in paths:
            net = ncnn.Net()
            net.register_custom_layer("YoloV5Focus", Focus)
            assert net.load_param(str(path)) == 0, path
