"""PyTorch modules of the zoo, their inputs, and weights through which a signal survives; used by zoo.py only.

No trained weights are needed: they are random, seeded by the model's name. Fresh initialisations make outputs
that hardly depend on the input (biases win over a vanishing signal, heads start as zeros, layer scales hide
blocks), which would make every comparison pass, so `make` replaces what hides the signal.
"""

from __future__ import annotations

import importlib
import io
import itertools
import math
import os
import warnings
import zlib
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr, redirect_stdout, suppress
from functools import partial
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch import library as schemas

from benchmarks.manifest import ModelSpec
from benchmarks.other_models import MODULES

__all__ = ["example", "make", "seed_of"]

Inputs = tuple[Tensor, ...]

_VOCABULARY = 30522
_CALIBRATION_BATCH = 4
_HEAD_SCALE = 0.25
_NORMS = (nn.modules.batchnorm._BatchNorm, nn.LayerNorm, nn.GroupNorm)
_torchvision_schemas: list[object] = []


def seed_of(name: str) -> int:
    """Seed of a model: the same on every machine and in every order of building."""
    return zlib.crc32(name.encode())


def make(spec: ModelSpec) -> nn.Module:
    """The module in eval mode, on the CPU, with weights through which a signal survives."""
    torch.manual_seed(seed_of(spec.base))
    torch.backends.mha.set_fastpath_enabled(False)  # its operator exists in no exported graph
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _make_torchvision_importable()
        module = _MAKERS[spec.maker](spec).eval()
    generator = torch.Generator().manual_seed(seed_of(spec.base) + 1)
    _enliven(module, generator)
    _take_batch_statistics(module, example(spec, _CALIBRATION_BATCH, seed_of(spec.base) + 2))
    return module.eval()


def example(spec: ModelSpec, batch: int, seed: int) -> Inputs:
    """Input arrays of a model: pictures of smooth blobs and noise, token ids, or a smooth series."""
    generator = torch.Generator().manual_seed(seed)
    if "tokens" in spec.sizes:
        return (torch.randint(0, _VOCABULARY, (batch, spec.sizes["tokens"]), generator=generator),)
    if "steps" in spec.sizes:
        return (_series(batch, spec.sizes["steps"], spec.sizes["features"], generator),)
    frames = spec.sizes.get("frames", 1)
    picture = _pictures(batch * frames, spec.sizes["picture"], generator)
    if frames > 1:
        return (picture.view(batch, frames, *picture.shape[1:]).transpose(1, 2).contiguous(),)
    return (picture.sigmoid() if spec.maker == "ultralytics" else picture,)


def _pictures(batch: int, size: int, generator: torch.Generator) -> Tensor:
    coarse = torch.randn(batch, 3, 7, 7, generator=generator)
    blobs = nn.functional.interpolate(coarse, size=(size, size), mode="bicubic", align_corners=False)
    return blobs * 1.2 + 0.15 * torch.randn(batch, 3, size, size, generator=generator)


def _series(batch: int, steps: int, features: int, generator: torch.Generator) -> Tensor:
    coarse = torch.randn(batch, features, max(2, steps // 8), generator=generator)
    smooth = nn.functional.interpolate(coarse, size=steps, mode="linear", align_corners=False)
    noise = 0.15 * torch.randn(batch, steps, features, generator=generator)
    return smooth.transpose(1, 2).contiguous() + noise


# ---- weights ----


def _enliven(module: nn.Module, generator: torch.Generator) -> None:
    """Randomise the affine parameters of norms, and every parameter whose values are all equal."""

    def normal(parameter: Tensor, mean: float, deviation: float) -> None:
        parameter.copy_(mean + deviation * torch.randn(parameter.shape, generator=generator))

    with torch.no_grad():
        of_norms: set[int] = set()
        for part in module.modules():
            if isinstance(part, _NORMS) and part.weight is not None:
                part.weight.copy_(0.8 + 0.4 * torch.rand(part.weight.shape, generator=generator))
                if part.bias is not None:
                    normal(part.bias, 0.0, 0.1)
                of_norms.update((id(part.weight), id(part.bias)))
        for name, parameter in module.named_parameters():
            constant = parameter.numel() > 1 and bool((parameter == parameter.flatten()[0]).all())
            if id(parameter) in of_norms or not constant:
                continue
            if name.endswith("layer_scale"):
                normal(parameter, 0.3, 0.1)
            elif name.endswith("class_token"):
                normal(parameter, 0.0, 0.5)
            elif parameter.ndim > 1:
                normal(parameter, 0.0, 1.0 / math.sqrt(parameter[0].numel()))
            else:
                normal(parameter, 0.0, 0.1)


def _take_batch_statistics(module: nn.Module, inputs: Inputs) -> None:
    """Set the running statistics of batch norms to those of `inputs`."""
    norms = [part for part in module.modules() if isinstance(part, nn.modules.batchnorm._BatchNorm)]
    if not norms:
        return
    momenta = [part.momentum for part in norms]
    for part in norms:
        part.train()
        part.momentum = 1.0
    with torch.no_grad():
        module(*inputs)
    for part, momentum in zip(norms, momenta, strict=True):
        part.eval()
        part.momentum = momentum


# ---- makers ----


def _make_torchvision_importable() -> None:
    """Define what builds of torchvision for other devices lack; ultralytics and transformers import it too.

    Only the schemas of two operators are needed.
    """
    if not _torchvision_schemas:
        library: Any = cast(Any, schemas.Library)("torchvision", "DEF")
        with suppress(RuntimeError):  # builds for the CPU have them
            library.define("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
            library.define("qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        _torchvision_schemas.append(library)


def _torchvision(spec: ModelSpec) -> nn.Module:
    catalogue: Any = importlib.import_module("torchvision.models")
    module: nn.Module = catalogue.get_model(spec.base, weights=None, **spec.sizes.get("options", {}))
    return module


def _timm(spec: ModelSpec) -> nn.Module:
    library: Any = importlib.import_module("timm")
    module: nn.Module = library.create_model(spec.base, exportable=True)
    return module


def _ultralytics(spec: ModelSpec) -> nn.Module:
    os.environ.setdefault("YOLO_OFFLINE", "true")  # making a module needs neither downloads nor usage reports
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        library: Any = importlib.import_module("ultralytics")
        module: Any = library.YOLO(spec.sizes.get("config", f"{spec.base}.yaml")).model
    head = module.model[-1]
    head.export, head.format = True, "ncnn"
    # Random weights give logits far beyond those of trained heads, which would magnify rounding errors.
    with torch.no_grad():
        for branch in (*head.cv2, *head.cv3):
            branch[-1].weight.mul_(_HEAD_SCALE)
    result: nn.Module = module.float()
    return result


class _Bert(nn.Module):
    """Hidden states and pooled output of a BERT encoder, from token ids alone."""

    def __init__(self, encoder: nn.Module) -> None:
        super().__init__()
        self.encoder = encoder

    def forward(self, ids: Tensor) -> Inputs:
        output = self.encoder(ids, return_dict=False)
        return output[0], output[1]


def _bert(spec: ModelSpec) -> nn.Module:
    library: Any = importlib.import_module("transformers")
    config = library.BertConfig(
        vocab_size=_VOCABULARY,
        hidden_size=spec.sizes["width"],
        num_hidden_layers=spec.sizes["layers"],
        num_attention_heads=spec.sizes["heads"],
        intermediate_size=4 * spec.sizes["width"],
        attn_implementation="eager",
    )
    return _Bert(library.BertModel(config))


class _DoubleConvolution(nn.Sequential):
    def __init__(self, channels_in: int, channels: int) -> None:
        super().__init__(
            nn.Conv2d(channels_in, channels, 3, padding=1, bias=False),
            nn.BatchNorm2d(channels),
            nn.ReLU(inplace=True),
            nn.Conv2d(channels, channels, 3, padding=1, bias=False),
            nn.BatchNorm2d(channels),
            nn.ReLU(inplace=True),
        )


class _UNet(nn.Module):
    """U-Net (Ronneberger et al., 2015) with two kinds of transposed convolutions."""

    def __init__(self, widths: Sequence[int] = (32, 64, 128, 256, 512), classes: int = 4) -> None:
        super().__init__()
        pairs = list(itertools.pairwise(widths))
        self.stem = _DoubleConvolution(3, widths[0])
        self.down = nn.ModuleList(_DoubleConvolution(a, b) for a, b in pairs)
        self.pool = nn.MaxPool2d(2)
        self.up = nn.ModuleList(
            nn.ConvTranspose2d(b, a, 2, stride=2) if i % 2 else nn.ConvTranspose2d(b, a, 4, stride=2, padding=1)
            for i, (a, b) in enumerate(reversed(pairs))
        )
        self.merge = nn.ModuleList(_DoubleConvolution(2 * a, a) for a, _ in reversed(pairs))
        self.head = nn.Conv2d(widths[0], classes, 1)

    def forward(self, x: Tensor) -> Tensor:
        kept = [self.stem(x)]
        for block in self.down:
            kept.append(block(self.pool(kept[-1])))
        y = kept.pop()
        for up, merge in zip(self.up, self.merge, strict=True):
            y = merge(torch.cat([kept.pop(), up(y)], dim=1))
        result: Tensor = self.head(y)
        return result


class _Recurrent(nn.Module):
    """Two bidirectional layers and a linear classifier at every step."""

    def __init__(self, layer: type[nn.LSTM | nn.GRU], spec: ModelSpec) -> None:
        super().__init__()
        width = spec.sizes["width"]
        self.layers = layer(spec.sizes["features"], width, num_layers=2, bidirectional=True, batch_first=True)
        self.head = nn.Linear(2 * width, spec.sizes.get("classes", 32))

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.head(self.layers(x)[0])
        return result


def _chain(length: int, width: int) -> nn.Module:
    """Operators so small that a call costs little but what the engine spends around them."""
    if length == 1:
        return nn.ReLU()
    pairs = ((nn.Linear(width, width), nn.LayerNorm(width)) for _ in range(length // 2))
    return nn.Sequential(*itertools.chain.from_iterable(pairs))


_MAKERS: dict[str, Callable[[ModelSpec], nn.Module]] = {
    "torchvision": _torchvision,
    "timm": _timm,
    "ultralytics": _ultralytics,
    "bert": _bert,
    "unet": lambda spec: _UNet(),
    "lstm": partial(_Recurrent, nn.LSTM),
    "gru": partial(_Recurrent, nn.GRU),
    "other": lambda spec: MODULES[spec.base](),
    "chain": lambda spec: _chain(spec.sizes["length"], spec.sizes["features"]),
}
