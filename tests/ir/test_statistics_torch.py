"""Statistics against the figures that PNNX's converter prints for the same graph."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from pnnx_fast.ir import Graph
from pnnx_fast.ir.statistics import format_count

torch = pytest.importorskip("torch")
pnnx = pytest.importorskip("pnnx")
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

pytestmark = [pytest.mark.torch, pytest.mark.slow]


class Several(nn.Module):
    """Several modules and functions on one input."""

    def __init__(self, *parts: Callable[..., object]) -> None:
        super().__init__()
        self.parts = list(parts)
        self.modules_ = nn.ModuleList(p for p in parts if isinstance(p, nn.Module))

    def forward(self, x, y):
        results = []
        for part in self.parts:
            result = part(x) if isinstance(part, nn.Module) or part.__code__.co_argcount == 1 else part(x, y)
            results += result if isinstance(result, (tuple, list)) else [result]
        return tuple(results)


IMAGE, ROWS = (2, 8, 12, 10), (2, 6, 16)
W = torch.rand(12, 4, 3, 3)

CASES = {
    "convolution": (
        IMAGE,
        [
            nn.Conv2d(8, 12, 3, padding=1, groups=2),
            nn.Conv2d(8, 12, (3, 1), bias=False),
            nn.ConvTranspose2d(8, 6, 3, stride=2),
            lambda x: F.conv2d(x, W, None, 2, groups=2),
        ],
    ),
    "pooling": (
        IMAGE,
        [
            nn.AvgPool2d(3, 2),
            nn.MaxPool2d((2, 3)),
            nn.AdaptiveAvgPool2d((5, 3)),
            nn.AdaptiveMaxPool2d((5, 3)),
            lambda x: F.max_pool2d(x, 2, return_indices=True),
            lambda x: F.lp_pool2d(x, 2.0, 3),
            lambda x: F.adaptive_avg_pool2d(x, 1),
        ],
    ),
    "normalization": (
        IMAGE,
        [
            nn.BatchNorm2d(8),
            nn.BatchNorm2d(8, affine=False),
            nn.InstanceNorm2d(8),
            nn.InstanceNorm2d(8, affine=True),
            nn.GroupNorm(4, 8),
            nn.LayerNorm((12, 10)),
            nn.LayerNorm(10, elementwise_affine=False),
            nn.RMSNorm(10),
            lambda x: F.normalize(x),
            lambda x: F.normalize(x, p=1.0, dim=2),
            lambda x: F.local_response_norm(x, 5),
            lambda x: F.layer_norm(x, (10,)),
            lambda x: F.instance_norm(x),
        ],
    ),
    "activations": (
        IMAGE,
        [
            *(nn.ReLU(), nn.ReLU6(), nn.LeakyReLU(0.1), nn.PReLU(8), nn.ELU(), nn.Hardsigmoid(), nn.Hardswish()),
            *(nn.Mish(), nn.Softplus(), nn.Sigmoid(), nn.SiLU(), nn.Tanh(), nn.GELU(), nn.GLU(1), nn.Softmax(1)),
            *(nn.LogSoftmax(2), nn.Softsign(), nn.Threshold(0.1, 0.2)),
        ],
    ),
    "upsample": (
        IMAGE,
        [nn.Upsample(scale_factor=2.0, mode=mode) for mode in ("nearest", "bilinear", "bicubic")]
        + [lambda x: F.interpolate(x, size=(7, 5)), lambda x: F.interpolate(x[:, :, 0], size=5, mode="linear")],
    ),
    "matrices": (
        ROWS,
        [
            nn.Linear(16, 5),
            nn.Linear(16, 5, bias=False),
            lambda x, y: torch.matmul(x, y.transpose(1, 2)),
            lambda x, y: torch.bmm(x, y.transpose(1, 2)),
            lambda x, y: torch.baddbmm(torch.bmm(x, y.transpose(1, 2)), x, y.transpose(1, 2), alpha=2.0, beta=0.5),
            lambda x, y: F.scaled_dot_product_attention(x[:, None], y[:, None], y[:, None]),
            lambda x, y: F.pairwise_distance(x, y),
        ],
    ),
    "sequences": (
        ROWS,
        [
            *(nn.RNN(16, 7), nn.LSTM(16, 7, 2, bidirectional=True, batch_first=True), nn.GRU(16, 7, bias=False)),
            *(nn.LSTM(16, 8, proj_size=3),),
        ],
    ),
    "elementwise": (
        IMAGE,
        [
            lambda x, y: x + y * torch.sqrt(torch.abs(x) + 1),
            lambda x, y: torch.maximum(x, y) ** 2 / x.size(2),
            lambda x, y: torch.ge(x, y),
            lambda x: torch.clamp(x, 0.1, 0.5),
            lambda x: torch.sum(x, dim=1),
            lambda x: torch.mean(x, dim=(2, 3)),
            lambda x: torch.norm(x, dim=1),
            lambda x: torch.var(x, dim=1),
            lambda x: torch.std(x, dim=1),
            lambda x: torch.logsumexp(x, dim=1),
            lambda x: torch.cumsum(x, dim=1),
            lambda x: torch.amax(x, dim=1),
        ],
    ),
    "moving": (
        IMAGE,
        [
            lambda x, y: torch.cat((x, y), 1),
            lambda x: x.permute(0, 2, 3, 1),
            lambda x: F.pad(x, (1, 2)),
            lambda x: F.unfold(x, 3),
            lambda x: F.fold(F.unfold(x, 3), (12, 10), 3),
            lambda x: F.pixel_shuffle(x, 2),
            lambda x: torch.flip(x, (2,)),
            lambda x: x[:, 1:3].clone(),
        ],
    ),
}


def converted(folder: Path, model: nn.Module, inputs: tuple[object, ...]) -> tuple[Graph, dict[str, str]]:
    torch.jit.trace(model.eval(), inputs, check_trace=False).save(str(folder / "m.pt"))
    shapes = ",".join(str(list(x.shape)).replace(" ", "") for x in inputs)
    subprocess.run([pnnx.EXEC_PATH, "m.pt", f"inputshape={shapes}"], cwd=folder, check=True, capture_output=True)
    head = (folder / "m_pnnx.py").read_text()[:2000]
    found = re.findall(r"^# (model inputshape|FLOPS|memory OPS) = (\S+)$", head, re.MULTILINE)
    if not found:
        pytest.skip("this pnnx prints no statistics")
    return Graph.load(folder / "m.pnnx.param"), dict(found)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.filterwarnings("ignore")
def test_figures_of_the_converter(name: str, tmp_path: Path) -> None:
    shape, parts = CASES[name]
    torch.manual_seed(0)
    graph, printed = converted(tmp_path, Several(*parts), (torch.rand(shape), torch.rand(shape)))
    found = graph.statistics()
    assert found.input_shapes == printed["model inputshape"]
    ours = format_count(found.flops), format_count(found.memory_operations)
    assert ours == (printed["FLOPS"], printed["memory OPS"])


@pytest.mark.filterwarnings("ignore")
def test_attention_layers(tmp_path: Path) -> None:
    class Attention(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.own = nn.MultiheadAttention(16, 4, batch_first=True)
            self.cross = nn.MultiheadAttention(16, 4, kdim=8, vdim=8, add_bias_kv=True)
            self.words = nn.Embedding(10, 16)

        def forward(self, x, y, words):
            x = x + self.words(words)
            a, _ = self.own(x, x, x)
            b, _ = self.cross(x, y, y)
            return a, b

    inputs = (torch.rand(2, 6, 16), torch.rand(5, 6, 8), torch.arange(6)[None])
    torch.jit.trace(Attention().eval(), inputs, check_trace=False).save(str(tmp_path / "m.pt"))
    shapes = "inputshape=[2,6,16]f32,[5,6,8]f32,[1,6]i64"
    subprocess.run([pnnx.EXEC_PATH, "m.pt", shapes], cwd=tmp_path, check=True, capture_output=True)
    head = (tmp_path / "m_pnnx.py").read_text()[:2000]
    printed = dict(re.findall(r"^# (FLOPS|memory OPS) = (\S+)$", head, re.MULTILINE))
    found = Graph.load(tmp_path / "m.pnnx.param").statistics()
    assert printed == {
        "FLOPS": format_count(found.flops),
        "memory OPS": format_count(found.memory_operations),
    }
