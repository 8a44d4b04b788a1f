"""Rows for the comparison with PyTorch: modules with weights, and functions that take several tensors by name.

Data only, in the form of :mod:`operator_cases`; weights of modules are PyTorch's own, from a fixed seed.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from operator_cases import Case

LINE, IMG, CUBE = "f4 2 4 9", "f4 2 4 7 6", "f4 2 4 5 6 4"
SHAPES = {1: LINE, 2: IMG, 3: CUBE}


def layer(kind: str, *inputs: str, **params: Any) -> Case:
    """A module; its positional inputs."""
    return Case(kind, inputs, params)


def named(kind: str, inputs: str, call: Any = None, **params: Any) -> Case:
    """A function; its inputs as "name=dtype dims…; …"."""
    pairs = [part.strip().split("=") for part in inputs.split(";")]
    return Case(kind, tuple(p[1] for p in pairs), params, call, tuple(p[0] for p in pairs))


def _convolutions() -> list[Case]:
    cases = []
    for n, x in SHAPES.items():
        modes = [
            {"kernel_size": 3, "stride": 2, "padding": 1, "groups": 2},
            {"kernel_size": 2, "padding": "same", "bias": False, "dilation": 2},
            {"kernel_size": 3, "padding": "valid", "padding_mode": "zeros"},
            {"kernel_size": 3, "padding": 1, "padding_mode": "circular"},
            {"kernel_size": 3, "padding": 1, "padding_mode": "replicate"},
            {"kernel_size": 3, "padding": 1, "padding_mode": "reflect"},
        ]
        cases += [layer(f"nn.Conv{n}d", x, in_channels=4, out_channels=6, **m) for m in modes]
        cases += [layer(f"nn.Conv{n}d", x.replace("2 4", "4", 1), in_channels=4, out_channels=3, kernel_size=3)]
        turned = [
            {"kernel_size": 3, "stride": 2, "padding": 1, "output_padding": 1},
            {"kernel_size": 2, "groups": 2, "dilation": 2, "bias": False},
        ]
        cases += [layer(f"nn.ConvTranspose{n}d", x, in_channels=4, out_channels=6, **m) for m in turned]
        weight = "f4 6 2" + " 3" * n
        both = f"input={x}; weight={weight}; bias=f4 6"
        cases += [named(f"F.conv{n}d", both, groups=2, stride=2, padding=1, dilation=1)]
        cases += [named(f"F.conv{n}d", f"input={x.replace('f4', 'f8')}; weight={weight.replace('f4', 'f8')}", groups=2)]
        up = "f4 4 3" + " 2" * n
        cases += [named(f"F.conv_transpose{n}d", f"input={x}; weight={up}", stride=2, output_padding=1, groups=2)]
    return cases


def _norms() -> list[Case]:
    cases = []
    for n, x in SHAPES.items():
        cases += [layer(f"nn.BatchNorm{n}d", x, num_features=4, eps=0.01)]
        cases += [layer(f"nn.BatchNorm{n}d", x, num_features=4, affine=False)]
        cases += [layer(f"nn.InstanceNorm{n}d", x, num_features=4, affine=True)]
        cases += [layer(f"nn.InstanceNorm{n}d", x, num_features=4, track_running_stats=True)]
        cases += [named("F.batch_norm", f"input={x}; running_mean=f4 4; running_var=p4 4; weight=f4 4; bias=f4 4")]
        cases += [named("F.instance_norm", f"input={x}", eps=0.01), layer("nn.LocalResponseNorm", x, size=3, k=2.0)]
        cases += [named("F.group_norm", f"input={x}; weight=f4 4; bias=f4 4", num_groups=2)]
    cases += [
        layer("nn.GroupNorm", IMG, num_groups=2, num_channels=4),
        named("F.layer_norm", f"input={LINE}", normalized_shape=(9,)),
    ]
    cases += [layer("nn.LayerNorm", LINE, normalized_shape=(4, 9)), layer("nn.RMSNorm", LINE, normalized_shape=(9,))]
    cases += [layer("nn.LayerNorm", LINE, normalized_shape=(9,), elementwise_affine=False, eps=0.1)]
    for p in (1.0, 2.0, 3.5, float("inf")):
        cases += [
            named("F.normalize", f"input={IMG}", p=p, dim=-1),
            named("F.normalize", f"input={IMG}", p=p, dim=(1, 2)),
        ]
    return cases


def _pads_and_sizes() -> list[Case]:
    cases = []
    for n, x in SHAPES.items():
        pad = (1, 2, 0, 1, 2, 0)[: 2 * n]
        cases += [
            layer(f"nn.{kind}Pad{n}d", x, padding=pad) for kind in ("Reflection", "Replication", "Circular", "Zero")
        ]
        cases += [layer(f"nn.ConstantPad{n}d", x, padding=pad, value=1.5)]
        cases += [named("F.pad", f"input={x}", pad=pad, mode=mode) for mode in ("reflect", "replicate", "circular")]
        cases += [named("F.pad", f"input={x}", pad=(-1, 2, 1), value=0.5)] if n == 0 else []
        cases += [named("F.pad", f"input={x}", pad=(-1, 2, 0, 1), value=0.5)]
        linear = {1: "linear", 2: "bilinear", 3: "trilinear"}[n]
        for mode in ("nearest", "nearest-exact", "area", linear):
            cases += [named("F.interpolate", f"input={x}", size=(5, 8, 3)[:n], mode=mode)]
        cases += [named("F.interpolate", f"input={x}", scale_factor=1.7, mode=linear, align_corners=True)]
        cases += [named("F.upsample", f"input={x}", scale_factor=2, mode="nearest")]
        cases += [layer("nn.Upsample", x, scale_factor=1.5, mode=linear)]
        cases += [named("F.upsample_nearest", f"input={x}", scale_factor=2)]
    cases += [
        named("F.interpolate", f"input={IMG}", size=(3, 9), mode=m, antialias=a)
        for m in ("bicubic",)
        for a in (False, True)
    ]
    cases += [named("F.interpolate", f"input={IMG}", size=(3, 9), mode="bilinear", antialias=True)]
    cases += [
        named("F.upsample_bilinear", f"input={IMG}", size=(9, 5)),
        layer("nn.UpsamplingBilinear2d", IMG, scale_factor=2),
    ]
    cases += [layer("nn.UpsamplingNearest2d", IMG, size=(9, 5))]
    return cases


def _sequences() -> list[Case]:
    cases = []
    x, sizes = "f4 6 2 5", {"input_size": 5, "hidden_size": 4}
    for kind, more in (("LSTM", {"proj_size": 3}), ("GRU", {"bias": False}), ("RNN", {"nonlinearity": "relu"})):
        cases += [layer(f"nn.{kind}", x, **sizes), layer(f"nn.{kind}", x, **sizes, **more)]  # type: ignore[arg-type]
        cases += [layer(f"nn.{kind}", x, **sizes, num_layers=2, bidirectional=True, batch_first=True)]
    heads = {"embed_dim": 6, "num_heads": 2}
    q, k, three = "f4 3 2 6", "f4 4 2 6", ("f4 2 3 6",) * 3
    cases += [
        layer("nn.MultiheadAttention", q, k, k, **heads),
        layer("nn.MultiheadAttention", *three, **heads, batch_first=True),
    ]
    cases += [layer("nn.MultiheadAttention", q, k, k, **heads, add_bias_kv=True, add_zero_attn=True)]
    cases += [layer("nn.MultiheadAttention", q, "f4 4 2 5", "f4 4 2 3", **heads, kdim=5, vdim=3, bias=False)]
    q, k = "f4 2 4 3 6", "f4 2 4 5 6"
    attend = f"query={q}; key={k}; value={k}"
    cases += [
        named("F.scaled_dot_product_attention", attend),
        named("F.scaled_dot_product_attention", attend, scale=0.3),
    ]
    cases += [named("F.scaled_dot_product_attention", attend, is_causal=True)]
    cases += [named("F.scaled_dot_product_attention", attend + "; attn_mask=f4 3 5")]
    grouped = f"query={q}; key=f4 2 2 5 6; value=f4 2 2 5 6"
    cases += [named("F.scaled_dot_product_attention", grouped, enable_gqa=True)]
    cases += [
        layer("nn.Linear", LINE, in_features=9, out_features=5),
        layer("nn.Linear", "f4 9", in_features=9, out_features=5, bias=False),
    ]
    cases += [
        named("F.linear", "input=f4 2 3 4; weight=f4 5 4; bias=f4 5"),
        named("F.linear", "input=f8 4; weight=f8 5 4"),
    ]
    cases += [
        layer("nn.Embedding", "i8 2 3", num_embeddings=8, embedding_dim=4),
        named("F.embedding", "input=i8 3; weight=f4 8 2"),
    ]
    return cases


def _activations() -> list[Case]:
    rows: dict[str, list[dict[str, Any]]] = {
        "CELU": [{}, {"alpha": 0.5}],
        "ELU": [{}, {"alpha": 0.5}],
        "GELU": [{}, {"approximate": "tanh"}],
        "Hardshrink": [{"lambd": 0.3}],
        "Hardtanh": [{}, {"min_val": -0.2, "max_val": 0.3}],
        "LeakyReLU": [{"negative_slope": 0.2}],
        "LogSoftmax": [{"dim": 1}],
        "RReLU": [{}, {"lower": 0.1, "upper": 0.2}],
        "ReLU": [{}],
        "ReLU6": [{}],
        "SiLU": [{}],
        "Softmax": [{"dim": -1}],
        "Softmin": [{"dim": 0}],
        "Softplus": [{"beta": 2.0, "threshold": 1.0}],
        "Softshrink": [{"lambd": 0.3}],
        "Threshold": [{"threshold": 0.1, "value": -1.0}],
        "PReLU": [{"num_parameters": 4}, {}],
        "Identity": [{}],
        "Dropout": [{}],
        "Dropout1d": [{}],
        "Dropout2d": [{}],
        "Dropout3d": [{}],
        "AlphaDropout": [{}],
        "FeatureAlphaDropout": [{}],
    }
    cases = [layer(f"nn.{kind}", LINE, **params) for kind, several in rows.items() for params in several]
    cases += [layer("nn.Softmax2d", IMG), named("F.prelu", "input=f4 2 3 4; weight=f4 3")]
    plain = ("gelu", "leaky_relu", "relu", "sigmoid", "silu", "tanh")
    cases += [named(f"F.{kind}", f"input={x}") for kind in plain for x in (LINE, "f8 3", "f4")]
    cases += [named("F.softmax", f"input={LINE}", dim=d) for d in (0, 1, -1)]
    cases += [named("F.rrelu", f"input={LINE}"), named("F.threshold", f"input={LINE}", threshold=0.1, value=3.0)]
    off = {"training": False, "p": 0.3}
    for kind in ("dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_alpha_dropout"):
        cases += [named(f"F.{kind}", f"input={CUBE if '3' in kind else IMG if '2' in kind else LINE}", **off)]
    return [*cases, named("F.dropoutnd", f"input={LINE}", F.dropout1d, **off)]


def _functions() -> list[Case]:
    x, m = "f4 3 4 5", "f4 4 5"
    cases = [
        named("torch.addmm", "input=f4 5; mat1=f4 3 4; mat2=f4 4 5", alpha=2, beta=0.5),
        named("torch.baddbmm", "input=f4 2 3 5; batch1=f4 2 3 4; batch2=f4 2 4 5", beta=0.5),
        named("torch.bmm", "input=f4 2 3 4; mat2=f4 2 4 5"),
        named("torch.mm", "input=i8 3 4; mat2=i8 4 5"),
        named("torch.mm", "input=f4 3 4; mat2=f4 4 5"),
        named("torch.mv", "input=f4 3 4; vec=f4 4"),
        named("torch.matmul", "input=f4 2 1 3 4; other=f4 3 4 5"),
        named("torch.matmul", "input=f4 4; other=f4 2 4 5"),
        named(
            "torch.einsum",
            f"a={m}; b=f4 3 5",
            lambda a, b, equation: torch.einsum(equation, a, b),
            equation="ij,kj->ik",
        ),
        named("torch.cat", f"a={x}; b=f4 3 2 5", lambda a, b, dim: torch.cat((a, b), dim), dim=1),
        named("torch.gt", f"input={x}; other={m}"),
        named("torch.gather", "input=f4 3 8 2; index=i8 3 2 2", dim=1),
        named("torch.index_select", "input=f4 3 8 2; index=i8 4", dim=1),
        named("torch.scatter_add", "input=f4 3 8; index=i8 3 4; src=f4 3 5", dim=1),
        named("torch.masked_fill", f"input={x}; mask=b1 4 5", value=3.0),
        named(
            "Tensor.masked_fill",
            f"input={x}; mask=b1 4 5",
            lambda input, mask, value: input.masked_fill(mask, value),
            value=3.0,
        ),
        named("torch.masked_select", f"input={x}; mask=b1 4 5"),
        named("torch.nonzero", "input=b1 4 5"),
        named("Tensor.index", "input=f4 8 3; a=i8 2 2", lambda input, a: input[a]),
        named("Tensor.index", "input=f4 2 3", lambda input, expr: input[:, [1, 0]], expr="[None,[1,0]]"),
        named(
            "Tensor.index_put",
            "input=f4 8 3; a=i8 2; values=f4 2 3",
            lambda input, a, values: input.index_put((a,), values),
        ),
        named(
            "F.grid_sample",
            "input=f4 2 3 5 6; grid=u4 2 4 3 2",
            mode="bicubic",
            padding_mode="reflection",
            align_corners=False,
        ),
        named("F.affine_grid", "theta=f4 2 2 3", size=(2, 3, 4, 5), align_corners=False),
        named("F.affine_grid", "theta=f4 2 3 4", size=(2, 3, 4, 5, 2), align_corners=True),
        named("torch.repeat_interleave", f"input={x}", repeats=2, dim=1),
        named("torch.bernoulli", "input=b4 3 4"),
    ]
    for n, image in SHAPES.items():
        pooled = {"kernel_size": 2, "return_indices": True}
        cases += [named(f"F.max_pool{n}d", f"input={image}", getattr(F, f"max_pool{n}d"), **pooled)]
    return cases


def _along_dimensions() -> list[Case]:
    x = "f4 3 4 5"
    reductions: dict[str, list[dict[str, Any]]] = {
        "amax": [{"dim": (0, 2)}],
        "amin": [{"dim": 1, "keepdim": True}],
        "mean": [{}, {"dim": (1, 2)}],
        "sum": [{}, {"dim": 0}],
        "prod": [{}, {"dim": -1}],
        "norm": [{"p": 2, "dim": 1}, {"p": 1, "dim": (0, 1)}],
        "logsumexp": [{"dim": (0, 1)}],
        "cumsum": [{"dim": 1}],
        "cumprod": [{"dim": -1}],
        "argsort": [{"dim": 1}],
        "sort": [{"dim": 0, "descending": True}],
        "topk": [{"k": 2, "dim": 1, "largest": False}],
        "clamp": [{"min": -0.3, "max": 0.2}],
        "chunk": [{"chunks": 2, "dim": 1}],
    }
    cases = [
        named(f"torch.{k}", f"input={v}", **p) for k, ps in reductions.items() for p in ps for v in (x, "f8 3 4 5")
    ]
    cases += [named(f"torch.{k}", "input=i8 3 4 5") for k in ("sum", "prod")]
    views: list[tuple[str, Any, dict[str, Any]]] = [
        ("Tensor.permute", lambda input, dims: input.permute(dims), {"dims": (2, 0, 1)}),
        ("Tensor.slice", lambda input, **_: input[:, 1:4:2], {"dim": 1, "start": 1, "end": 4, "step": 2}),
        (
            "Tensor.slice",
            lambda input, **_: input[1, :, 2:],
            {
                "dims": (0, 1, 2),
                "starts": (0, 0, 2),
                "ends": (0, 2147483647, 2147483647),
                "steps": (0, 1, 1),
                "selects": (1, 2147483647, 2147483647),
            },
        ),
    ]
    return cases + [named(kind, f"input={x}", call, **params) for kind, call, params in views]


LAYERS = [
    *(*_convolutions(), *_norms(), *_pads_and_sizes(), *_sequences()),
    *(*_activations(), *_functions(), *_along_dimensions()),
]
