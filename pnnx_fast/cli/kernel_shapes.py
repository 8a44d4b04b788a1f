"""Shapes of single operators for the kernel benchmark: how they are written, and those of well-known models."""

from __future__ import annotations

import argparse
import math
import re
from dataclasses import dataclass

__all__ = ["GROUPS", "OPTIONS", "Shape", "of_groups", "parse"]

OPTIONS = {
    "conv": {"oc": 0, "k": 3, "s": 1, "p": -1, "g": 1, "d": 1, "n": 1},
    "transposed": {"oc": 0, "k": 2, "s": 2, "p": 0, "g": 1, "n": 1},
    "linear": {"oc": 0},
    "matmul": {"n": 0},
    "attention": {"keys": 0},
    "layer_norm": {},
    "softmax": {},
    "gelu": {},
    "max_pool": {"k": 3, "s": 2, "p": 1, "n": 1},
}
"""Options of each kind; 0 of oc, n and keys stands for as many as there are inputs, -1 of p for a window that fits."""

_RANKS = {"conv": 3, "transposed": 3, "max_pool": 3, "linear": 2, "matmul": 3, "attention": 3}
"""Sizes before the options: channels x height x width; rows x features; batch x rows x depth; heads x rows x width."""


@dataclass(frozen=True)
class Shape:
    """One operator: `sizes` of its input, and options."""

    kind: str
    sizes: tuple[int, ...]
    options: dict[str, int]
    text: str

    @property
    def multiplies(self) -> bool:
        """Whether multiplications are the work; otherwise memory traffic is."""
        return self.kind in ("conv", "transposed", "linear", "matmul", "attention")

    def __getitem__(self, option: str) -> int:
        return self.options[option]


def parse(text: str) -> Shape:
    """Shape written as ``kind:sizes,option=value,…``, such as ``conv:64x56x56,oc=128,k=3,s=2``.

    Raises
    ------
    argparse.ArgumentTypeError
        It is not one.
    """
    head, *words = text.split(",")
    match = re.fullmatch(r"(\w+):(\d+(?:x\d+)*)", head)
    if match is None or match[1] not in OPTIONS:
        raise argparse.ArgumentTypeError(f"{text!r} is not KIND:SIZES,OPTION=…; kinds: {', '.join(OPTIONS)}")
    kind, sizes = match[1], tuple(map(int, match[2].split("x")))
    options = dict(OPTIONS[kind])
    for word in words:
        name, _, value = word.partition("=")
        if name not in options or not value.isdecimal():
            raise argparse.ArgumentTypeError(f"{text!r}: options of {kind} are {', '.join(options) or 'none'}")
        options[name] = int(value)
    if min(sizes) < 1 or len(sizes) != _RANKS.get(kind, len(sizes)):
        raise argparse.ArgumentTypeError(f"{text!r}: {kind} takes {_RANKS.get(kind, 'some')} positive sizes")
    _complete(kind, sizes, options)
    if any(value < 1 for name, value in options.items() if name != "p"):
        raise argparse.ArgumentTypeError(f"{text!r}: options must be positive")
    if math.prod(sizes) * max(options.values(), default=1) > 1 << 34:
        raise argparse.ArgumentTypeError(f"{text!r} is too large")
    return Shape(kind, sizes, options, text)


def _complete(kind: str, sizes: tuple[int, ...], options: dict[str, int]) -> None:
    """Fill in the options that follow from others."""
    if kind in ("conv", "transposed"):
        options["oc"] = options["oc"] or sizes[0]
        if sizes[0] % options["g"] or options["oc"] % options["g"]:
            raise argparse.ArgumentTypeError("groups must divide the channels")
    if kind == "conv" and options["p"] < 0:
        options["p"] = options["d"] * (options["k"] - 1) // 2
    if kind == "linear":
        options["oc"] = options["oc"] or sizes[1]
    if kind == "matmul":
        options["n"] = options["n"] or sizes[1]
    if kind == "attention":
        options["keys"] = options["keys"] or sizes[1]


GROUPS: dict[str, tuple[str, ...]] = {
    "vgg16": (
        "conv:3x224x224,oc=64",
        "conv:64x224x224",
        "conv:64x112x112,oc=128",
        "conv:128x112x112",
        "conv:128x56x56,oc=256",
        "conv:256x56x56",
        "conv:256x28x28,oc=512",
        "conv:512x28x28",
        "conv:512x14x14",
        "linear:1x25088,oc=4096",
        "linear:1x4096",
        "linear:1x4096,oc=1000",
    ),
    "resnet50": (
        "conv:3x224x224,oc=64,k=7,s=2",
        "conv:64x56x56,k=1",
        "conv:64x56x56",
        "conv:64x56x56,oc=256,k=1",
        "conv:256x56x56,oc=64,k=1",
        "conv:256x56x56,oc=128,k=1",
        "conv:128x56x56,s=2",
        "conv:128x28x28,oc=512,k=1",
        "conv:256x56x56,oc=512,k=1,s=2",
        "conv:512x28x28,oc=128,k=1",
        "conv:128x28x28",
        "conv:512x28x28,oc=256,k=1",
        "conv:256x28x28,s=2",
        "conv:256x14x14,oc=1024,k=1",
        "conv:512x28x28,oc=1024,k=1,s=2",
        "conv:1024x14x14,oc=256,k=1",
        "conv:256x14x14",
        "conv:1024x14x14,oc=512,k=1",
        "conv:512x14x14,s=2",
        "conv:512x7x7,oc=2048,k=1",
        "conv:1024x14x14,oc=2048,k=1,s=2",
        "conv:2048x7x7,oc=512,k=1",
        "conv:512x7x7",
        "max_pool:64x112x112",
        "linear:1x2048,oc=1000",
    ),
    "mobilenet_v2": (
        "conv:3x224x224,oc=32,s=2",
        "conv:32x112x112,g=32",
        "conv:32x112x112,oc=16,k=1",
        "conv:16x112x112,oc=96,k=1",
        "conv:96x112x112,s=2,g=96",
        "conv:96x56x56,oc=24,k=1",
        "conv:24x56x56,oc=144,k=1",
        "conv:144x56x56,g=144",
        "conv:144x56x56,oc=24,k=1",
        "conv:144x56x56,s=2,g=144",
        "conv:144x28x28,oc=32,k=1",
        "conv:32x28x28,oc=192,k=1",
        "conv:192x28x28,g=192",
        "conv:192x28x28,oc=32,k=1",
        "conv:192x28x28,s=2,g=192",
        "conv:192x14x14,oc=64,k=1",
        "conv:64x14x14,oc=384,k=1",
        "conv:384x14x14,g=384",
        "conv:384x14x14,oc=64,k=1",
        "conv:384x14x14,oc=96,k=1",
        "conv:96x14x14,oc=576,k=1",
        "conv:576x14x14,g=576",
        "conv:576x14x14,oc=96,k=1",
        "conv:576x14x14,s=2,g=576",
        "conv:576x7x7,oc=160,k=1",
        "conv:160x7x7,oc=960,k=1",
        "conv:960x7x7,g=960",
        "conv:960x7x7,oc=160,k=1",
        "conv:960x7x7,oc=320,k=1",
        "conv:320x7x7,oc=1280,k=1",
    ),
    "bert": (
        "linear:128x768",
        "linear:128x768,oc=3072",
        "linear:128x3072,oc=768",
        "attention:12x128x64",
        "matmul:12x128x64,n=128",
        "matmul:12x128x128,n=64",
        "layer_norm:128x768",
        "softmax:12x128x128",
        "gelu:128x3072",
    ),
    "tiles": (  # a depth and number of pixels at which nothing but the tile counts, one width after another
        "conv:256x56x56,oc=64,k=1",
        "conv:256x56x56,oc=48,k=1",
        "conv:256x56x56,oc=32,k=1",
        "conv:256x56x56,oc=16,k=1",
        "conv:256x56x56,oc=8,k=1",
        "conv:256x56x56,oc=4,k=1",
    ),
    "others": (
        "conv:240x28x28,k=5,g=240",
        "conv:120x28x28,k=5,s=2,g=120",
        "conv:96x56x56,k=7,g=96",
        "conv:384x14x14,k=7,g=384",
        "conv:64x28x28,k=5",
        "conv:128x56x56,g=32",
        "conv:104x28x28,g=13",
        "conv:256x28x28,d=2",
        "conv:192x17x17,k=7",
        "conv:64x80x80,oc=128,s=2",
        "transposed:128x32x32,oc=64",
        "transposed:64x28x28,oc=32,k=4,p=1",
        "linear:197x768,oc=3072",
        "attention:12x197x64",
        "attention:8x1024x64",
        "matmul:1x1024x1024",
    ),
}
"""Distinct shapes of models, and kernels that these lack."""


def of_groups(words: str) -> list[Shape]:
    """Shapes of groups separated by commas, or of ``all``, each once.

    Raises
    ------
    ArgumentTypeError
        There is no such group.
    """
    names = list(GROUPS) if words == "all" else words.split(",")
    for name in names:
        if name not in GROUPS:
            raise argparse.ArgumentTypeError(f"no group of shapes {name!r}; there are {', '.join(GROUPS)} and all")
    return [parse(text) for text in dict.fromkeys(text for name in names for text in GROUPS[name])]
