"""Data for the comparison of single operators with PyTorch: type, inputs, parameters, sometimes PyTorch's callable.

An input is ``"dtype dims…"``; rows without a callable are resolved by name (``F.x``, ``torch.x``, ``nn.X`` …).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F


class Case(NamedTuple):
    """One operator, called once."""

    kind: str
    inputs: tuple[str, ...]
    params: dict[str, Any]
    call: Callable[..., Any] | None = None
    names: tuple[str, ...] = ()


def row(kind: str, *inputs: str, call: Callable[..., Any] | None = None, **params: Any) -> Case:
    return Case(kind, inputs, params, call)


UNARY = [
    "torch.abs",
    "torch.asinh",
    "torch.atan",
    "torch.ceil",
    "torch.cos",
    "torch.cosh",
    "torch.erf",
    "torch.erfc",
    "torch.exp",
    "torch.exp2",
    "torch.expm1",
    "torch.floor",
    "torch.isfinite",
    "torch.isinf",
    "torch.isnan",
    "torch.logical_not",
    "torch.neg",
    "torch.positive",
    "torch.relu",
    "torch.round",
    "torch.sigmoid",
    "torch.sign",
    "torch.sin",
    "torch.sinh",
    "torch.square",
    "torch.tan",
    "torch.tanh",
    "torch.trunc",
    "torch.acos",
    "torch.asin",
    "torch.atanh",
    "torch.log",
    "torch.log10",
    "torch.log1p",
    "torch.log2",
    "torch.sqrt",
    "torch.rsqrt",
    "torch.reciprocal",
    "torch.lgamma",
    "torch.acosh",
]
ACTIVATIONS = [
    "F.celu",
    "F.elu",
    "F.hardshrink",
    "F.hardsigmoid",
    "F.hardswish",
    "F.hardtanh",
    "F.logsigmoid",
    "F.mish",
    "F.relu6",
    "F.selu",
    "F.softplus",
    "F.softshrink",
    "F.softsign",
    "F.tanhshrink",
    "nn.GLU",
    "nn.Hardsigmoid",
    "nn.Hardswish",
    "nn.LogSigmoid",
    "nn.Mish",
    "nn.SELU",
    "nn.Sigmoid",
    "nn.Softsign",
    "nn.Tanh",
    "nn.Tanhshrink",
    "F.glu",
]
FLOAT_PAIRS = [
    "torch.atan2",
    "torch.eq",
    "torch.floor_divide",
    "torch.fmod",
    "torch.ge",
    "torch.le",
    "torch.logaddexp",
    "torch.logical_and",
    "torch.logical_or",
    "torch.logical_xor",
    "torch.lt",
    "torch.maximum",
    "torch.minimum",
    "torch.ne",
    "torch.remainder",
]
INTEGER_PAIRS = [
    "torch.bitwise_and",
    "torch.bitwise_left_shift",
    "torch.bitwise_or",
    "torch.bitwise_right_shift",
    "torch.bitwise_xor",
    "torch.floor_divide",
    "torch.fmod",
    "torch.remainder",
    "torch.maximum",
    "torch.eq",
    "torch.lt",
]
TRANSFORMS = ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"]
"""Their types: torch.fft.fft torch.fft.fft2 torch.fft.fftn torch.fft.ifft torch.fft.ifft2 torch.fft.ifftn
torch.fft.rfft torch.fft.rfft2 torch.fft.rfftn torch.fft.irfft torch.fft.irfft2 torch.fft.irfftn
torch.fft.hfft torch.fft.hfft2
torch.fft.hfftn torch.fft.ihfft torch.fft.ihfft2 torch.fft.ihfftn ."""


def transforms() -> list[Case]:
    cases = []
    for name in TRANSFORMS:
        kinds = ["f4 3 4 6", "f8 4 6"] if name in ("rfft", "ihfft") else ["c8 3 4 6", "f4 4 6"]
        for x in kinds:
            cases += [row(f"torch.fft.{name}", x), row(f"torch.fft.{name}", x, n=5, dim=-2, norm="ortho")]
            cases += [row(f"torch.fft.{name}2", x), row(f"torch.fft.{name}2", x, s=(3, 5), norm="forward")]
            cases += [
                row(f"torch.fft.{name}n", x),
                row(f"torch.fft.{name}n", x, dim=(0, 1)),
                row(f"torch.fft.{name}n", x, s=(4,)),
            ]
    return cases


def poolings() -> list[Case]:
    # F.adaptive_avg_pool1d F.adaptive_avg_pool3d F.adaptive_max_pool1d F.adaptive_max_pool2d F.adaptive_max_pool3d
    # nn.AdaptiveAvgPool1d nn.AdaptiveAvgPool3d nn.AdaptiveMaxPool1d nn.AdaptiveMaxPool3d
    images = {1: "2 4 9", 2: "2 4 9 8", 3: "2 4 6 7 8"}
    cases = []
    for n, shape in images.items():
        for x in (f"f4 {shape}", f"f4 {shape[2:]}"):
            for style, avg, best in (
                (f"F.adaptive_{{}}_pool{n}d", "avg", "max"),
                (f"nn.Adaptive{{}}Pool{n}d", "Avg", "Max"),
            ):
                cases += [row(style.format(avg), x, output_size=3), row(style.format(best), x, output_size=2)]
            windows: list[dict[str, Any]] = [
                {"kernel_size": 2},
                {"kernel_size": 3, "stride": 2, "padding": 1, "ceil_mode": True},
            ]
            for params in windows:
                cases += [
                    row(f"F.avg_pool{n}d", x, **params),
                    row(f"nn.AvgPool{n}d", x, **params, count_include_pad=False),
                ]
                cases += [row(f"F.max_pool{n}d", x, **params), row(f"nn.MaxPool{n}d", x, **params, dilation=1)]
            cases += [row(f"F.lp_pool{n}d", x.replace("f4", "p4"), norm_type=2, kernel_size=2)]
            cases += [row(f"nn.LPPool{n}d", x.replace("f4", "p4"), norm_type=3, kernel_size=3, stride=2)]
    return cases


X, IMG = "f4 3 4 5", "f4 2 8 6 6"
ARRANGE = [
    row("Tensor.clone", X),
    row("torch.clone", X),
    row("Tensor.expand", "f4 3 1 5", sizes=(2, 3, 4, -1), call=lambda x, sizes: x.expand(sizes)),
    row("Tensor.expand_as", "f4 5", X),
    row("Tensor.reshape", X, shape=(5, -1), call=lambda x, shape: x.reshape(shape)),
    row("Tensor.reshape", "f4 3 4 5", shape=(0, 2, -1), call=lambda x, shape: x.reshape(3, 2, 10)),
    row("Tensor.reshape", "f4 0 4", shape=(2, 0), call=lambda x, shape: x.reshape(shape)),
    row("Tensor.reshape_as", X, "f4 5 12"),
    row("Tensor.select", X, dim=-1, index=-2),
    row("Tensor.unflatten", X, dim=1, sizes=(2, -1)),
    row("torch.flatten", X, start_dim=1),
    row("torch.flatten", "f4"),
    row("torch.flip", X, dims=(0, -1)),
    row("torch.flip", "i8 0 3", dims=(0,)),
    row("torch.narrow", X, dim=-2, start=1, length=2),
    row("torch.roll", X, shifts=(1, -7), dims=(0, 2)),
    row("torch.roll", X, shifts=3),
    row("torch.split", X, split_size_or_sections=3, dim=-1),
    row("torch.split", X, split_size_or_sections=(1, 3), dim=1),
    row("torch.squeeze", "f4 1 3 1"),
    row("torch.squeeze", "f4 1 3 1", dim=-1),
    row("torch.squeeze", "f4 1 3 1", dim=1),
    row("torch.t", "f4 3 4"),
    row("torch.t", "f4 3"),
    row(
        "torch.tensor_split", X, indices=(1, 3), dim=2, call=lambda x, indices, dim: torch.tensor_split(x, indices, dim)
    ),
    row("torch.tensor_split", X, sections=3, dim=1, call=lambda x, sections, dim: torch.tensor_split(x, sections, dim)),
    row("torch.tile", X, dims=(2, 1)),
    row("Tensor.repeat", X, sizes=(2, 1, 1, 3), call=lambda x, sizes: x.repeat(sizes)),
    row("torch.transpose", X, dim0=-1, dim1=0),
    row("torch.unbind", X, dim=-2),
    row("torch.unsqueeze", X, dim=-1),
    row("torch.unsqueeze", "f4", dim=0),
    row("torch.slice_scatter", X, "f4 3 2 5", dim=1, start=1, end=-1),
    row("torch.as_strided", X, size=(2, 3), stride=(1, 4), storage_offset=2),
    row("F.pixel_shuffle", IMG, upscale_factor=2),
    row("nn.PixelShuffle", "f4 8 3 3", upscale_factor=2),
    row("F.pixel_unshuffle", IMG, downscale_factor=2),
    row("nn.PixelUnshuffle", IMG, downscale_factor=3),
    row("nn.ChannelShuffle", IMG, groups=4),
    row("torch.channel_shuffle", IMG, groups=2),
    row("F.channel_shuffle", IMG, groups=2, call=torch.channel_shuffle),
    row("torch.stack", X, X, dim=-1, call=lambda *x, dim: torch.stack(x, dim)),
    row("torch.concat", X, "i8 3 4 5", dim=-1, call=lambda *x, dim: torch.cat(x, dim)),
    row(
        "Tensor.slice_copy",
        X,
        "f4 3 5",
        dim=1,
        select=2,
        start=0,
        end=0,
        step=0,
        call=lambda x, y, **_: torch.select_scatter(x, y, 1, 2),
    ),
    row("F.fold", "f4 2 12 9", output_size=(4, 4), kernel_size=2, call=F.fold),
    row("nn.Fold", "f4 8 16", output_size=(5, 6), kernel_size=(2, 2), stride=(1, 2), padding=(0, 1)),
    row("F.unfold", IMG, kernel_size=(2, 3), dilation=2, padding=1, stride=(1, 2)),
    row("nn.Unfold", "f4 3 5 5", kernel_size=2),
    row("torch.diag", "f4 4", diagonal=-1),
    row("torch.diag", "f4 3 4", diagonal=1),
    row("torch.diag", "f4 4 3", diagonal=-2),
]
TYPES = [
    row("torch.arange", start=2, end=9, step=3),
    row("torch.arange", end=2.5),
    row("torch.zeros", size=(2, 0)),
    row("torch.ones", size=(2, 3)),
    row("torch.full", size=(2,), fill_value=3),
    row("torch.full", size=(), fill_value=2.5),
    row("torch.full_like", "i8 2", fill_value=3),
    row("torch.ones_like", X),
    row("torch.zeros_like", "b1 3"),
    row("Tensor.new_full", X, size=(2,), fill_value=4),
    row("Tensor.new_ones", "i4 2", size=(2, 3)),
    row("Tensor.new_zeros", X, size=(2,)),
    row("Tensor.copy", X, "i8 5", call=lambda x, y: x.clone().copy_(y)),
    row("Tensor.fill", "i8 2 3", "f4", call=lambda x, v: x.clone().fill_(v)),
    row("Tensor.type_as", X, "i8 2"),
    row("Tensor.to", X, dtype="torch.long", call=lambda x, dtype: x.long()),
    row("Tensor.type", X, dtype="torch.double", call=lambda x, dtype: x.double()),
    row("torch.complex", X, X),
    row("torch.real", "c8 3 4"),
    row("torch.imag", "c8 3 4"),
    row("torch.view_as_real", "c8 3 4"),
    row("torch.view_as_complex", "f4 3 2"),
    row("torch.bitwise_not", "i8 3 4"),
    row("torch.bitwise_not", "b1 3"),
    row("torch.where", "b1 3 1", "f4 3 1", "i8 4"),
    row("torch.pow", "p4 3 4", "f4 4", call=torch.pow),
    row("torch.softmax", X, dim=1),
    row("torch.log_softmax", X, dim=-1),
    row("F.log_softmax", X, dim=0),
    row("F.softmin", X, dim=1),
    row("torch.clip", X, min=-0.5, max=0.5, call=torch.clip),
    row("torch.cross", "f4 2 3", "f4 2 3", dim=1),
    row("torch.linalg.cross", "f4 2 3", "f4 1 3", dim=-1),
    row("F.pairwise_distance", "f4 3 5", "f4 5", p=3.0, keepdim=True),
    row("F.pairwise_distance", "i8 3 5", "i8 3 5"),
    row("F.pairwise_distance", "f2 2 3 5", "f2 3 5", p=1.0),
    row("F.pairwise_distance", "c8 3 5", "f8 5", p=0.0),
    row("nn.PairwiseDistance", "f4 3 5", "f4 3 5"),
    row("F.normalize", "c8 3 4"),
    row("F.local_response_norm", IMG, size=3),
    row("F.rms_norm", X, normalized_shape=(5,)),
    row("torch.stft", "f4 2 64", n_fft=16, hop_length=5, return_complex=True, pad_mode="reflect"),
    row("torch.stft", "c8 40", n_fft=8, center=False, onesided=False, return_complex=True),
    row(
        "torch.stft",
        "f4 64",
        "p4 12",
        n_fft=16,
        win_length=12,
        normalized=True,
        return_complex=True,
        call=lambda x, w, **k: torch.stft(x, window=w, **k),
    ),
    row("torch.istft", "c8 2 9 12", "p4 16", n_fft=16, length=40, call=lambda x, w, **k: torch.istft(x, window=w, **k)),
    row(
        "torch.stft",
        "f4 40",
        "p8 16",
        n_fft=16,
        return_complex=True,
        call=lambda x, w, **k: torch.stft(x, window=w, **k),
    ),
    row("torch.istft", "c8 9 12", "p8 16", n_fft=16, call=lambda x, w, **k: torch.istft(x, window=w, **k)),
    row("torch.istft", "c8 9 12", "p4 16", n_fft=16, call=lambda x, w, **k: torch.istft(x, window=w, **k)),
]
_REDUCED = (
    ("torch.max", {"dim": 1}),
    ("torch.min", {"dim": -1, "keepdim": True}),
    ("torch.argmax", {"dim": 0}),
    ("torch.argmin", {}),
    ("torch.std", {"dim": (0, 2)}),
    ("torch.var", {"dim": 1, "keepdim": True}),
    ("torch.linalg.vector_norm", {"ord": 3, "dim": 1}),
    ("Tensor.amax", {"dim": (0, 1)}),
    ("Tensor.amin", {"dim": 2, "keepdim": True}),
    ("Tensor.argmax", {"dim": -1}),
    ("Tensor.argmin", {"dim": 1}),
    ("Tensor.argsort", {"dim": 1, "descending": True}),
    ("Tensor.cumprod", {"dim": 1}),
    ("Tensor.cumsum", {"dim": -1}),
    ("Tensor.logsumexp", {"dim": 1}),
    ("Tensor.max", {"dim": 0}),
    ("Tensor.mean", {"dim": (1, 2)}),
    ("Tensor.min", {}),
    ("Tensor.norm", {"p": 1, "dim": 1}),
    ("Tensor.prod", {"dim": 1}),
    ("Tensor.sort", {"dim": 0}),
    ("Tensor.std", {"dim": 1}),
    ("Tensor.sum", {"dim": (0,), "keepdim": True}),
    ("Tensor.topk", {"k": 2, "dim": 0}),
    ("Tensor.var", {"dim": 2}),
)
REDUCTIONS = [row(kind, x, **params) for kind, params in _REDUCED for x in (X, "f8 3 4 5")]  # type: ignore[arg-type]

CASES = [
    *(
        row(kind, ("u4" if kind in UNARY[28:39] else "q4" if kind == "torch.acosh" else "f4") + dims)
        for kind in UNARY
        for dims in ("", " 2 3 5", " 0 3")
    ),
    *(row(kind, x) for kind in ACTIVATIONS for x in ("f4 2 3 6", "f4 4")),
    *(row(kind, x, y) for kind in FLOAT_PAIRS for x, y in ((X, "f4 4 1"), (X, "f8"), ("f8 5", "f8 3 1"))),
    *(row(kind, x, y) for kind in INTEGER_PAIRS for x, y in (("i8 3 4", "i8 4"), ("i4 3 4", "i8"), ("i4 2", "i4 2"))),
    *transforms(),
    *poolings(),
    *ARRANGE,
    *TYPES,
    *REDUCTIONS,
]
