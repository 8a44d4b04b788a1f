"""ncnn.utils, and the classes of the ncnn package's own model zoo run on ours, with models that are at hand."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pnnx_fast.ncnn import utils
from pnnx_fast.ncnn.utils import functional, objects

ZOO = """
import importlib, importlib.util, pathlib, sys, types
import numpy as np
engine, models, name, picture, target = sys.argv[1:]
root = pathlib.Path(importlib.util.find_spec("ncnn").submodule_search_locations[0])
sys.modules["ncnn"] = importlib.import_module(engine)
for part in ("utils.objects", "utils.functional"):
    if engine != "ncnn":
        sys.modules["ncnn.utils"] = importlib.import_module(engine + ".utils")
        sys.modules["ncnn." + part] = importlib.import_module(engine + "." + part)
# The package of the zoo without its list, which imports what downloads.
zoo = sys.modules["ncnn.model_zoo"] = types.ModuleType("ncnn.model_zoo")
zoo.__path__ = [str(root / "model_zoo")]
store = sys.modules["ncnn.model_zoo.model_store"] = types.ModuleType("ncnn.model_zoo.model_store")
store.get_model_file = lambda file: str(pathlib.Path(models) / file)
module, kind = name.split(".")
made = getattr(importlib.import_module("ncnn.model_zoo." + module), kind)()
for option in ("fp16_storage", "fp16_packed", "fp16_arithmetic", "bf16_storage"):
    assert hasattr(made.net.opt, "use_" + option)
found = made(np.load(picture))
if isinstance(found, list):
    found = np.array([[x.prob, x.rect.x, x.rect.y, x.rect.w, x.rect.h] for x in found])
np.save(target, found)
"""


def run(engine: str, data: Path, name: str, folder: Path) -> Any:
    target = folder / f"{engine}.npy"
    words = [sys.executable, "-c", ZOO, engine, str(data / "models"), name, str(folder / "picture.npy"), str(target)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, cwd=folder, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return np.load(target)


@pytest.mark.parametrize("name", ["squeezenet.SqueezeNet", "retinaface.RetinaFace"])
def test_classes_of_the_zoo(name: str, data_path: Path, tmp_path: Path) -> None:
    pytest.importorskip("ncnn", minversion="1.0")
    image = pytest.importorskip("PIL.Image")
    picture = image.open(data_path / "models" / ("zidane.jpg" if "retina" in name else "bus.jpg")).convert("RGB")
    picture.thumbnail((480, 480))
    np.save(tmp_path / "picture.npy", np.ascontiguousarray(np.asarray(picture)[..., ::-1]))
    theirs, ours = (run(engine, data_path, name, tmp_path) for engine in ("ncnn", "pnnx_fast.ncnn"))
    assert theirs.shape == ours.shape
    assert theirs.size
    # The package stores in half precision by default.
    np.testing.assert_allclose(ours, theirs, rtol=0.02, atol=0.02 * np.abs(theirs).max())


def test_boxes() -> None:
    corners = np.array([[0, 0, 4, 2], [1, 1, 5, 7]], np.float32)
    middle = functional.xyxy2xywh(corners)
    assert middle.tolist() == [[2, 1, 4, 2], [3, 4, 4, 6]]
    np.testing.assert_array_equal(functional.xywh2xyxy(middle), corners)
    assert functional.area_of(corners[:, :2], corners[:, 2:]).tolist() == [8, 24]
    assert functional.iou_of(corners, corners[:1])[1] == pytest.approx(3 / 29, abs=1e-5)
    assert functional.make_grid(3, 2)[0, 1, 2].tolist() == [2, 1]


def test_suppression() -> None:
    boxes = np.array([[0, 0, 10, 10], [1, 1, 10, 10], [20, 20, 30, 30], [0, 0, 10, 9]], np.float32)
    scores = np.array([0.6, 0.9, 0.3, 0.8])
    assert functional.nms(boxes, scores, 0.5) == [1, 2]
    assert functional.nms(boxes, scores, 0.95) == [1, 3, 0, 2]
    assert functional.nms(boxes, scores, 0.95, top_k=2) == [1, 3]
    assert functional.nms(boxes, scores, 0.5, candidate_size=1) == [1]
    assert functional.nms(boxes[:0], scores[:0], 0.5) == []


def test_values() -> None:
    x = np.array([[1.0, 2, 3], [1000, 0, 0]])
    np.testing.assert_allclose(functional.softmax(x).sum(-1), 1)
    assert x[0, 0] == 1
    assert functional.sigmoid(np.array([0.0, 1000, -1000])).tolist() == [0.5, 1, 0]


def test_records_and_checks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert objects.Rect(0, 0, 4, 4).intersection_area(objects.Rect(2, 3, 5, 5)) == 2
    assert objects.Rect(0, 0, 1, 1).intersection_area(objects.Rect(5, 5, 1, 1)) == 0
    assert utils.Detect_Object(1, 0.5, 1, 2, 3, 4).rect.area() == 12
    assert (utils.Face_Object().landmark, utils.KeyPoint().p.x, utils.Size(2, 3).h) == ([], 0.0, 3)
    path = tmp_path / "x"
    path.write_bytes(b"abc")
    assert utils.check_sha1(path, hashlib.sha1(b"abc").hexdigest()[:10])
    assert not utils.check_sha1(path, "00")
    utils.print_topk(np.float32([0.25, 0.5, 0]), 2)
    assert capsys.readouterr().out == "1=0.500000\n0=0.250000\n"
