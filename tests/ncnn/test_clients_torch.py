"""Programs written for the ncnn package: scripts that pnnx writes, and ultralytics' own predictor.

Each runs twice in processes of its own, with the package and with ours under its name, unchanged otherwise.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from archives import arrays

torch = pytest.importorskip("torch")
pnnx = pytest.importorskip("pnnx")
pytest.importorskip("ncnn", minversion="1.0")
nn = torch.nn

# Exporters warn about much.
pytestmark = [pytest.mark.torch, pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

# The first argument is the module that stands for ncnn; the rest belongs to the program.
STAND_IN = "import importlib, sys; sys.modules['ncnn'] = importlib.import_module(sys.argv.pop(1))\n"


def run(program: str, folder: Path, engine: str, *arguments: str) -> list[Any]:
    """Arrays that a program saves to the file that its last argument names."""
    target = folder / f"{engine}.npz"
    words = [sys.executable, "-c", STAND_IN + program, engine, *arguments, str(target)]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return list(arrays(target).values())


def compare(program: str, folder: Path, *arguments: str, ordered: bool = True) -> list[Any]:
    """Both engines' arrays are the same, but for the order of rows if that may differ; returns ours."""
    theirs = run(program, folder, "ncnn", *arguments)
    ours = run(program, folder, "pnnx_fast.ncnn", *arguments)
    assert len(ours) == len(theirs) > 0
    for a, b in zip(ours, theirs, strict=True):
        assert a.shape == b.shape
        difference = np.abs(a - b) if ordered else np.abs(a[:, None] - b).max(-1).min(1)
        assert difference.max() <= 2e-3 * max(np.abs(b).max(), 1e-6)
    return ours


class Convolutions(nn.Module):  # type: ignore[misc, name-defined]
    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Conv2d(3, 16, 3, 2, 1)
        self.norm = nn.BatchNorm2d(16)
        self.b = nn.Conv2d(16, 16, 3, 1, 1, groups=16)
        self.up = nn.ConvTranspose2d(16, 8, 2, 2)

    def forward(self, x: Any) -> Any:
        y = nn.functional.hardswish(self.norm(self.a(x)))
        z = y + self.b(y)
        return self.up(z).sigmoid(), z.mean((2, 3))


class Recurrent(nn.Module):  # type: ignore[misc, name-defined]
    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(12, 8, batch_first=True, bidirectional=True)
        self.gru = nn.GRU(16, 6, batch_first=True)

    def forward(self, x: Any) -> Any:
        return self.gru(self.lstm(x)[0])[0]


class Attention(nn.Module):  # type: ignore[misc, name-defined]
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(16)
        self.heads = nn.MultiheadAttention(16, 4, batch_first=True)
        self.out = nn.Linear(16, 10)

    def forward(self, x: Any) -> Any:
        y = self.norm(x)
        return nn.functional.gelu(self.out(x + self.heads(y, y, y)[0])).softmax(-1)


class TwoInputs(nn.Module):  # type: ignore[misc, name-defined]
    def forward(self, a: Any, b: Any) -> Any:
        left, right = torch.cat([a, b], 1).chunk(2, 1)
        return nn.functional.interpolate(left * right.exp(), scale_factor=2.0, mode="bilinear")


SCRIPT = """
import importlib.util, numpy as np
spec = importlib.util.spec_from_file_location("script", sys.argv[1])
script = importlib.util.module_from_spec(spec)
spec.loader.exec_module(script)
made = script.test_inference()
np.savez(sys.argv[2], *(x.numpy() for x in (made if isinstance(made, tuple) else (made,))))
"""


@pytest.mark.parametrize(
    ("make", "shapes"),
    [
        (Convolutions, [(1, 3, 32, 48)]),
        (Recurrent, [(1, 7, 12)]),
        (Attention, [(1, 9, 16)]),
        (TwoInputs, [(1, 4, 10, 12), (1, 4, 10, 12)]),
    ],
)
def test_scripts_of_pnnx(make: Callable[[], Any], shapes: list[tuple[int, ...]], tmp_path: Path) -> None:
    torch.manual_seed(0)
    inputs = tuple(torch.rand(shape) for shape in shapes)
    # PyTorch's fused attention cannot be traced.
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        pnnx.export(make().eval(), str(tmp_path / "net.pt"), inputs, fp16=False)
    finally:
        torch.backends.mha.set_fastpath_enabled(True)
    compare(SCRIPT, tmp_path, str(tmp_path / "net_ncnn.py"))


PREDICT = """
import types
import numpy as np
from ultralytics import YOLO
try:
    import torchvision
except (ImportError, RuntimeError):
    # Its compiled half belongs to another torch; only its suppression of overlaps is needed.
    from ultralytics.utils.nms import TorchNMS
    sys.modules["torchvision"] = types.SimpleNamespace(ops=types.SimpleNamespace(nms=TorchNMS.nms), __spec__=None)
result = YOLO(sys.argv[1], task="detect").predict(
    np.load(sys.argv[2]), imgsz=160, conf=float(sys.argv[3]), max_det=1000, device="cpu", verbose=False
)[0]
np.savez(sys.argv[4], np.column_stack([x.numpy() for x in (result.boxes.xyxy, result.boxes.conf, result.boxes.cls)]))
"""


def test_ultralytics_predicts_the_same_boxes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with np.printoptions():  # those of the importing package would stay
        ultralytics = pytest.importorskip("ultralytics")
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    yolo = ultralytics.YOLO("yolov8n.yaml")
    # Statistics of batch norms from data, so that pictures make a difference.
    yolo.model.train()
    for module in yolo.model.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.momentum = 1.0
    pictures = torch.nn.functional.interpolate(torch.rand(4, 3, 20, 20), size=(160, 160), mode="bicubic").clamp(0, 1)
    with torch.no_grad():
        yolo.model(pictures)
        for branch in yolo.model.model[-1].cv3:
            branch[-1].weight.mul_(0.5)
            branch[-1].bias.fill_(-3.0)
    yolo.model.eval()
    folder = yolo.export(format="ncnn", imgsz=160, verbose=False)
    picture = (pictures[0].permute(1, 2, 0).numpy() * 255).astype(np.uint8)
    np.save(tmp_path / "picture.npy", picture)
    # Boxes whose scores differ by less than rounding come in any order.
    (rows,) = compare(PREDICT, tmp_path, str(folder), str(tmp_path / "picture.npy"), "0.05", ordered=False)
    assert len(rows) > 3
    assert rows[:, 4].std() > 0, rows
