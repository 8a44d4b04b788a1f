"""Single operators at sizes that models have, for operators.py: a function or module of PyTorch and its inputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

__all__ = ["Case", "cases"]


class Case(NamedTuple):
    """What is called with which tensors."""

    family: str
    function: Callable[..., Any]
    inputs: tuple[Tensor, ...]


class _First(nn.Module):
    """A module whose first result counts."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, x: Tensor) -> Any:
        return self.module(x)[0]


def _normal(*shape: int) -> Tensor:
    return torch.randn(shape)


def _uniform(*shape: int) -> Tensor:
    return torch.rand(shape)


def _index(bound: int, *shape: int) -> Tensor:
    return torch.randint(0, bound, shape)


def cases() -> dict[str, Case]:
    """All cases by name; seeded, so that every call gives the same."""
    torch.manual_seed(0)
    families = {
        "element-wise": _elementwise(),
        "reductions": _reductions(),
        "normalisation": _normalisation(),
        "pooling": _pooling(),
        "resizing": _resizing(),
        "layout": _layout(),
        "indices": _indices(),
        "products": _products(),
        "convolutions": _convolutions(),
        "attention and recurrence": _sequences(),
        "signals": _signals(),
    }
    return {
        name: Case(family, function, tuple(inputs))
        for family, found in families.items()
        for name, (function, *inputs) in found.items()
    }


_Cases = dict[str, tuple[Any, ...]]


def _elementwise() -> _Cases:
    x, y, z = (_normal(1, 64, 112, 112) for _ in range(3))
    one: dict[str, Callable[[Tensor], Tensor]] = {
        "relu": F.relu, "gelu": F.gelu, "silu": F.silu, "hardswish": F.hardswish, "mish": F.mish, "elu": F.elu,
        "softplus": F.softplus, "sigmoid": torch.sigmoid, "tanh": torch.tanh, "exp": torch.exp, "sin": torch.sin,
        "erf": torch.erf, "atan": torch.atan, "floor": torch.floor, "frac": torch.frac, "nan_to_num": torch.nan_to_num,
        "log1p of abs": lambda a: torch.log1p(torch.abs(a)), "rsqrt": lambda a: torch.rsqrt(a * a + 1),
        "cube": lambda a: a**3, "power 1.7": lambda a: torch.abs(a) ** 1.7, "fmod": lambda a: torch.fmod(a, 0.7),
        "clamp": lambda a: torch.clamp(a, -1, 1), "leaky_relu": lambda a: F.leaky_relu(a, 0.1),
        "isnan": torch.isnan, "to int64": lambda a: a.to(torch.int64), "glu": lambda a: F.glu(a, 1),
        "masked_fill": lambda a: a.masked_fill(a > 1, 0.0), "diff": lambda a: a.diff(),
    }  # fmt: skip
    more: _Cases = {
        "add": (torch.add, x, y),
        "add to channels": (torch.add, x, _normal(1, 64, 1, 1)),
        "multiply rows": (torch.mul, x, _normal(112)),
        "outer difference": (lambda a, b: a[:, None] - b[None], _normal(1000), _normal(1000)),
        "where": (lambda a, b: torch.where(a > 0, a, b), x, y),
        "maximum": (torch.maximum, x, y),
        "atan2": (torch.atan2, x, y),
        "lerp": (lambda a, b: torch.lerp(a, b, 0.3), x, y),
        "addcmul": (lambda a, b, c: torch.addcmul(a, b, c, value=0.5), x, y, z),
        "add int64": (torch.add, _index(9, 1000, 1000), _index(9, 1000, 1000)),
        "equal int64": (torch.eq, _index(9, 1000, 1000), _index(9, 1000, 1000)),
        "prelu": (nn.PReLU(64), x),
    }
    return {name: (function, x) for name, function in one.items()} | more


def _reductions() -> _Cases:
    x, small = _normal(1, 64, 112, 112), _normal(1, 64, 64, 64)
    along: dict[str, Callable[[Tensor, int], Any]] = {
        "sum": lambda a, d: a.sum(d), "amax": lambda a, d: a.amax(d), "argmax": lambda a, d: a.argmax(d),
        "prod": lambda a, d: a.prod(d), "norm": lambda a, d: torch.norm(a, 2, d), "std": lambda a, d: a.std(d),
        "logsumexp": lambda a, d: a.logsumexp(d), "cumsum": lambda a, d: a.cumsum(d),
    }  # fmt: skip
    sorting: dict[str, Callable[[Tensor, int], Any]] = {
        "sort": lambda a, d: a.sort(d), "topk": lambda a, d: a.topk(5, d), "median": lambda a, d: a.median(d),
    }  # fmt: skip

    def fixed(function: Callable[[Tensor, int], Any], dim: int) -> Callable[[Tensor], Any]:
        return lambda a: function(a, dim)

    found: _Cases = {f"{name}, dim {dim}": (fixed(f, dim), x) for name, f in along.items() for dim in (1, -1)}
    found |= {f"{name}, dim {dim}": (fixed(f, dim), small) for name, f in sorting.items() for dim in (1, -1)}
    return found | {
        "sum of all": (torch.sum, x),
        "mean of planes": (lambda a: a.mean((2, 3)), x),
        "variance of planes": (lambda a: a.var((2, 3)), x),
        "max of groups": (lambda a: a.view(1, 16, 4, 112, 112).amax(2), x),
        "any": (lambda a: (a > 3).any(1), x),
        "topk of 100000": (lambda a: a.topk(10), _normal(1, 100000)),
    }


def _normalisation() -> _Cases:
    x, rows = _normal(1, 64, 112, 112), _normal(8, 128, 768)
    return {
        "layer_norm": (nn.LayerNorm(768), rows),
        "rms_norm": (nn.RMSNorm(768), rows),
        "group_norm": (nn.GroupNorm(32, 64), x),
        "batch_norm": (nn.BatchNorm2d(64), x),
        "instance_norm": (nn.InstanceNorm2d(64, affine=True), x),
        "local_response_norm": (nn.LocalResponseNorm(5), x),
        "normalize channels": (lambda a: F.normalize(a, dim=1), x),
        "softmax of channels": (lambda a: a.softmax(1), x),
        "softmax of rows": (lambda a: a.softmax(-1), x),
        "softmax of 10": (lambda a: a.softmax(-1), _normal(10000, 10)),
        "log_softmax": (lambda a: a.log_softmax(-1), x),
    }


def _pooling() -> _Cases:
    x, deep, video = _normal(1, 64, 112, 112), _normal(1, 256, 56, 56), _normal(1, 32, 16, 56, 56)
    return {
        "max 2x2": (nn.MaxPool2d(2), x),
        "max 3x3 stride 2": (nn.MaxPool2d(3, 2, 1), x),
        "max 5x5": (nn.MaxPool2d(5, 1, 2), deep),
        "max with places": (nn.MaxPool2d(2, return_indices=True), x),
        "average 2x2": (nn.AvgPool2d(2), x),
        "average 3x3": (nn.AvgPool2d(3, 1, 1), x),
        "adaptive average 7": (nn.AdaptiveAvgPool2d(7), _normal(1, 256, 30, 30)),
        "adaptive max 7": (nn.AdaptiveMaxPool2d(7), _normal(1, 256, 30, 30)),
        "global average": (nn.AdaptiveAvgPool2d(1), x),
        "max 3-d": (nn.MaxPool3d(2), video),
        "average 1-d": (nn.AvgPool1d(2), _normal(8, 64, 4096)),
    }


def _resizing() -> _Cases:
    x, deep, picture = _normal(1, 64, 112, 112), _normal(1, 256, 56, 56), _normal(1, 3, 240, 333)
    grid = _uniform(1, 112, 112, 2) * 2 - 1
    found: _Cases = {}
    for mode in ("nearest", "bilinear", "bicubic"):
        found[f"{mode} x2"] = (lambda a, m=mode: F.interpolate(a, scale_factor=2.0, mode=m), deep)
        found[f"{mode} of a picture"] = (lambda a, m=mode: F.interpolate(a, size=(480, 640), mode=m), picture)
    for mode in ("nearest", "bilinear"):
        found[f"grid_sample {mode}"] = (lambda a, g, m=mode: F.grid_sample(a, g, mode=m, align_corners=False), x, grid)
    return found | {
        "antialiased": (lambda a: F.interpolate(a, size=(112, 112), mode="bilinear", antialias=True), picture),
        "trilinear x2": (lambda a: F.interpolate(a, scale_factor=2.0, mode="trilinear"), _normal(1, 16, 16, 28, 28)),
        "nearest 1-d": (lambda a: F.interpolate(a, scale_factor=2.0), _normal(8, 64, 2048)),
    }


def _layout() -> _Cases:
    x, deep = _normal(1, 64, 112, 112), _normal(1, 256, 56, 56)
    return {
        "to channels last": (lambda a: a.permute(0, 2, 3, 1).contiguous(), x),
        "from channels last": (lambda a: a.permute(0, 3, 1, 2).contiguous(), _normal(1, 112, 112, 64)),
        "heads": (lambda a: a.reshape(8, 128, 12, 64).transpose(1, 2).contiguous(), _normal(8, 128, 768)),
        "transpose": (lambda a: a.t().contiguous(), _normal(1024, 1024)),
        "every other": (lambda a: a[:, :, ::2, ::2].contiguous(), x),
        "flip": (lambda a: a.flip(-1), x),
        "roll": (lambda a: a.roll(3, -1), x),
        "cat": (lambda a, b: torch.cat((a, b), 1), x, _normal(1, 64, 112, 112)),
        "stack": (lambda a, b: torch.stack((a, b), -1), x, _normal(1, 64, 112, 112)),
        "repeat": (lambda a: a.repeat(1, 2, 2, 2), _normal(1, 64, 56, 56)),
        "pad": (lambda a: F.pad(a, (2, 3, 1, 2)), x),
        "pad reflected": (lambda a: F.pad(a, (2, 3, 1, 2), mode="reflect"), x),
        "pixel_shuffle": (nn.PixelShuffle(2), deep),
        "channel_shuffle": (nn.ChannelShuffle(4), x),
        "unfold": (nn.Unfold(3, 1, 1), _normal(1, 64, 56, 56)),
        "fold": (nn.Fold((56, 56), 3, 1, 1), _normal(1, 576, 3136)),
        "tril": (torch.tril, _normal(12, 512, 512)),
    }


def _indices() -> _Cases:
    table, rows = _normal(1000, 64), _normal(4000, 64)
    return {
        "gather": (lambda a, i: a.gather(1, i), _normal(512, 512), _index(512, 512, 512)),
        "index_select": (lambda a, i: a.index_select(1, i), _normal(64, 512, 64), _index(512, 256)),
        "index": (lambda a, i: a[i], _normal(3000, 256), _index(3000, 1024)),
        "embedding": (nn.Embedding(10000, 256), _index(10000, 8, 128)),
        "embedding_bag": (nn.EmbeddingBag(10000, 64, mode="sum"), _index(10000, 64, 20)),
        "scatter_add": (lambda a, i, s: a.scatter_add(0, i, s), table, _index(1000, 4000, 64), rows),
        "index_add": (lambda a, i, s: a.index_add(0, i, s), table, _index(1000, 4000), rows),
        "one_hot": (lambda i: F.one_hot(i, 100), _index(100, 4096)),
        "nonzero": (lambda a: torch.nonzero(a > 1), _normal(500, 500)),
        "searchsorted": (torch.searchsorted, torch.arange(1000.0), _uniform(64, 1000) * 1000),
    }


def _products() -> _Cases:
    return {
        "matmul 512": (torch.matmul, _normal(512, 512), _normal(512, 512)),
        "12 heads": (torch.matmul, _normal(12, 128, 64), _normal(12, 64, 128)),
        "2000 of 8x8": (torch.matmul, _normal(2000, 8, 8), _normal(2000, 8, 8)),
        "5000 of 3x3": (torch.matmul, _normal(5000, 3, 3), _normal(5000, 3, 4)),
        "matrix by vector": (torch.matmul, _normal(2000, 2000), _normal(2000)),
        "row by matrix": (torch.matmul, _normal(1, 2000), _normal(2000, 2000)),
        "dot": (torch.matmul, _normal(100000), _normal(100000)),
        "linear, 1 row": (nn.Linear(768, 3072), _normal(1, 768)),
        "linear, 128 rows": (nn.Linear(768, 768), _normal(128, 768)),
        "linear of 33": (nn.Linear(33, 77), _normal(5000, 33)),
        "bilinear": (nn.Bilinear(32, 32, 16), _normal(100, 32), _normal(100, 32)),
        "einsum": (lambda a, b: torch.einsum("bhid,bhjd->bhij", a, b), _normal(2, 8, 128, 64), _normal(2, 8, 128, 64)),
        "cdist": (torch.cdist, _normal(500, 64), _normal(400, 64)),
        "cosine_similarity": (lambda a, b: F.cosine_similarity(a, b, -1), _normal(8, 128, 768), _normal(8, 128, 768)),
    }


def _convolutions() -> _Cases:
    x, small = _normal(1, 64, 56, 56), _normal(1, 64, 28, 28)
    video = _normal(1, 32, 8, 28, 28)
    return {
        "1x1": (nn.Conv2d(64, 64, 1), _normal(1, 64, 112, 112)),
        "3x3": (nn.Conv2d(64, 64, 3, 1, 1), x),
        "3x3 stride 2": (nn.Conv2d(64, 128, 3, 2, 1), x),
        "3x3 dilated": (nn.Conv2d(64, 64, 3, 1, 2, 2), x),
        "5x5": (nn.Conv2d(48, 64, 5, 1, 2), _normal(1, 48, 28, 28)),
        "7x7 of a picture": (nn.Conv2d(3, 64, 7, 2, 3), _normal(1, 3, 224, 224)),
        "patches of a picture": (nn.Conv2d(3, 768, 16, 16), _normal(1, 3, 224, 224)),
        "32 groups": (nn.Conv2d(256, 256, 3, 1, 1, groups=32), _normal(1, 256, 28, 28)),
        "depthwise 3x3": (nn.Conv2d(64, 64, 3, 1, 1, groups=64), _normal(1, 64, 112, 112)),
        "depthwise 7x7": (nn.Conv2d(96, 96, 7, 1, 3, groups=96), _normal(1, 96, 56, 56)),
        "depthwise 31x31": (nn.Conv2d(64, 64, 31, 1, 15, groups=64), x),
        "1-d 7": (nn.Conv1d(80, 512, 7, 1, 3), _normal(1, 80, 200)),
        "1-d of a waveform": (nn.Conv1d(1, 512, 10, 5), _normal(1, 1, 16000)),
        "3-d": (nn.Conv3d(32, 32, 3, 1, 1), video),
        "3-d depthwise": (nn.Conv3d(32, 32, 3, 1, 1, groups=32), video),
        "transposed 4x4 stride 2": (nn.ConvTranspose2d(64, 32, 4, 2, 1), small),
        "transposed depthwise": (nn.ConvTranspose2d(64, 64, 4, 2, 1, groups=64), small),
        "transposed 1-d": (nn.ConvTranspose1d(256, 128, 16, 8, 4), _normal(1, 256, 100)),
        "transposed 3-d": (nn.ConvTranspose3d(32, 16, 3, 2, 1, 1), _normal(1, 32, 8, 14, 14)),
        "with computed weights": (lambda a, w: F.conv2d(a, w, padding=1), small, _normal(64, 64, 3, 3)),
    }


def _sequences() -> _Cases:
    def heads(length: int) -> tuple[Tensor, Tensor, Tensor]:
        return _normal(1, 8, length, 64), _normal(1, 8, 512, 64), _normal(1, 8, 512, 64)

    return {
        "attention": (F.scaled_dot_product_attention, *heads(512)),
        "attention, 1 query": (F.scaled_dot_product_attention, *heads(1)),
        "attention in windows": (F.scaled_dot_product_attention, *(_normal(64, 3, 49, 32) for _ in range(3))),
        "lstm": (_First(nn.LSTM(64, 128, batch_first=True)), _normal(1, 100, 64)),
        "lstm, 64 rows": (_First(nn.LSTM(64, 64, batch_first=True)), _normal(64, 30, 64)),
        "gru": (_First(nn.GRU(64, 128, batch_first=True)), _normal(1, 100, 64)),
        "rnn": (_First(nn.RNN(64, 128, batch_first=True)), _normal(1, 100, 64)),
    }


def _signals() -> _Cases:
    window = torch.hann_window(512)

    def spectrum(x: Tensor) -> Tensor:
        return torch.view_as_real(torch.stft(x, 512, 128, window=window, return_complex=True))

    def wave(x: Tensor) -> Tensor:
        return torch.istft(torch.view_as_complex(x), 512, 128, window=window)

    return {
        "fft of 512": (lambda a: torch.view_as_real(torch.fft.fft(a)), _normal(64, 512)),
        "fft of 509": (lambda a: torch.view_as_real(torch.fft.fft(a)), _normal(32, 509)),
        "rfft2": (lambda a: torch.view_as_real(torch.fft.rfft2(a)), _normal(1, 32, 64, 64)),
        "irfft": (lambda a: torch.fft.irfft(torch.view_as_complex(a)), _normal(64, 257, 2)),
        "stft": (spectrum, _normal(1, 16000)),
        "istft": (wave, _normal(1, 257, 126, 2)),
    }
