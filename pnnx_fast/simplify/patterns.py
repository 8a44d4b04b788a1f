"""Patterns of several operators that PyTorch has one operator for, as rules of the rewriter."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pnnx_fast.ir import Attributes, Operator
from pnnx_fast.ir.match import Match, Rule
from pnnx_fast.simplify.table import both_orders, pattern, rules

__all__: list[str] = []

rules(
    "fuse_silu",
    5,
    "x sigmoid(x) becomes F.silu.",
    [
        Rule(pattern(f"{sigmoid} s 1 1 x a", line), pattern("F.silu silu 1 1 x y $input=x"))
        for sigmoid in ("F.sigmoid", "nn.Sigmoid")
        for line in both_orders("mul", "e", "x", "a", "y")
    ],
)


# -- Shuffles: reshape, permute, reshape ------------------------------------------------------------------------------

_SHUFFLE = (
    "Tensor.reshape a 1 1 x p shape=%inner",
    "{middle}",
    "Tensor.reshape c 1 1 q y shape=%outer",
)


def _around(middle: str) -> str:
    return pattern(_SHUFFLE[0], middle, _SHUFFLE[2])


def _sizes(match: Match, name: str) -> list[int]:
    """Sizes of a reshape, with the recorded ones in the place of -1 and 0."""
    words = match.value(name)
    x = match.operands["p" if name == "inner" else "y"]
    recorded = x.shape if x.shape is not None and isinstance(words, list) and len(x.shape) == len(words) else None
    if not isinstance(words, list):
        return []
    return [r if w in (-1, 0) else w for w, r in zip(words, recorded or words, strict=True)]


def _is_pixel_shuffle(match: Match) -> bool:
    x, inner, outer = match.operands["x"].shape, _sizes(match, "inner"), _sizes(match, "outer")
    if x is None or len(x) != 4 or len(inner) != 6 or len(outer) != 4:
        return False
    n, c, r, s, h, w = inner
    return r == s and c * r * s == x[1] and (h, w) == x[2:] and outer[1:] == [c, h * r, w * r] and n == x[0]


def _is_pixel_unshuffle(match: Match) -> bool:
    x, inner, outer = match.operands["x"].shape, _sizes(match, "inner"), _sizes(match, "outer")
    if x is None or len(x) != 4 or len(inner) != 6 or len(outer) != 4:
        return False
    n, c, h, r, w, s = inner
    return r == s and (h * r, w * r) == x[2:] and c == x[1] and outer[1:] == [c * r * r, h, w] and n == x[0]


def _is_channel_shuffle(match: Match) -> bool:
    x, inner, outer = match.operands["x"].shape, _sizes(match, "inner"), _sizes(match, "outer")
    if x is None or len(x) != 4 or len(inner) != 5 or len(outer) != 4:
        return False
    return inner[1] * inner[2] == x[1] and list(x[2:]) == inner[3:] == outer[2:] and outer[1] == x[1]


def _factor(place: int, key: str) -> Any:
    def write(match: Match, ops: Mapping[str, Operator]) -> None:
        ops["s"].params[key] = _sizes(match, "inner")[place]

    return write


def _permute(order: str) -> str:
    return f"Tensor.permute b 1 1 p q dims=({order})"


rules(
    "fuse_pixel_shuffle",
    5,
    "Channels moved into pixels become nn.PixelShuffle.",
    [Rule(_around(_permute("0,1,4,2,5,3")), pattern("nn.PixelShuffle s 1 1 x y"), condition=_is_pixel_shuffle,
          write=_factor(2, "upscale_factor"))],
)  # fmt: skip
rules(
    "fuse_pixel_unshuffle",
    5,
    "Pixels moved into channels become nn.PixelUnshuffle.",
    [Rule(_around(_permute("0,1,3,5,2,4")), pattern("nn.PixelUnshuffle s 1 1 x y"), condition=_is_pixel_unshuffle,
          write=_factor(3, "downscale_factor"))],
)  # fmt: skip
rules(
    "fuse_channel_shuffle",
    5,
    "Groups of channels that are interleaved become nn.ChannelShuffle.",
    [
        Rule(_around(middle), pattern("nn.ChannelShuffle s 1 1 x y"), condition=_is_channel_shuffle,
             write=_factor(1, "groups"))
        for middle in (
            _permute("0,2,1,3,4"),
            "torch.transpose b 1 1 p q dim0=1 dim1=2",
            "torch.transpose b 1 1 p q dim0=2 dim1=1",
        )
    ],
)  # fmt: skip


# -- Normalisation ----------------------------------------------------------------------------------------------------


def _are_vectors(*names: str) -> Any:
    """Whether constants are vectors of one length, as a normalisation of the last axis needs them."""

    def check(match: Match) -> bool:
        found = [a for n in names for k, a in match.attrs.items() if k.startswith(f"{n}.")]
        shapes = {a.shape for a in found}
        x = match.operands["x"].shape
        return len(shapes) == 1 and len(next(iter(shapes))) == 1 and (x is None or x[-1] == next(iter(shapes))[0])

    return check


def _normalize(names: Mapping[str, str]) -> Any:
    def write(match: Match, ops: Mapping[str, Operator]) -> None:
        attrs = {key: next(a for k, a in match.attrs.items() if k.startswith(f"{n}.")) for n, key in names.items()}
        op = ops["n"]
        op.attrs = Attributes({key: attr.copy() for key, attr in attrs.items()})
        op.params["elementwise_affine"] = True
        op.params["normalized_shape"] = list(next(iter(attrs.values())).shape)

    return write


_MEANS = ("torch.mean m 1 1 x m dim=(-1) keepdim=True", "torch.mean v 1 1 s v dim=(-1) keepdim=True")


def _layer_norms() -> Iterator[Rule]:
    """(x - mean) / sqrt(variance + eps) w + b over the last axis, as one, two or three expressions."""
    weights = ("pnnx.Attribute w 0 1 w", "pnnx.Attribute b 0 1 b")
    square = "pnnx.Expression q 1 1 d s expr=pow(@0,2)"
    difference = "pnnx.Expression d 2 1 x m d expr=sub(@0,@1)"
    ends = [
        "pnnx.Expression e 4 1 d v w b y expr=add(mul(div(@0,sqrt(add(@1,%eps))),@2),@3)",
        "pnnx.Expression e 4 1 w d v b y expr=add(mul(@0,div(@1,sqrt(add(@2,%eps)))),@3)",
        "pnnx.Expression e 4 1 d v w b y expr=add(mul(mul(@0,rsqrt(add(@1,%eps))),@2),@3)",
        "pnnx.Expression e 4 1 w d v b y expr=add(mul(@0,mul(@1,rsqrt(add(@2,%eps)))),@3)",
    ]
    made = pattern("nn.LayerNorm n 1 1 x y eps=%eps")
    for end in ends:
        lines = (*weights, _MEANS[0], difference, square, _MEANS[1], end)
        yield Rule(pattern(*lines), made, condition=_are_vectors("w", "b"),
                   write=_normalize({"w": "weight", "b": "bias"}))  # fmt: skip
    for end in (
        "pnnx.Expression e 5 1 x m v w b y expr=add(mul(div(sub(@0,@1),sqrt(add(@2,%eps))),@3),@4)",
        "pnnx.Expression e 5 1 w x m v b y expr=add(mul(@0,div(sub(@1,@2),sqrt(add(@3,%eps)))),@4)",
    ):
        whole = (*weights, _MEANS[0], "pnnx.Expression q 2 1 x m s expr=pow(sub(@0,@1),2)", _MEANS[1], end)
        yield Rule(pattern(*whole), made, condition=_are_vectors("w", "b"),
                   write=_normalize({"w": "weight", "b": "bias"}))  # fmt: skip


def _rms_norms() -> Iterator[Rule]:
    """x / sqrt(mean(x²) + eps) w over the last axis."""
    squares = ("pnnx.Expression q 1 1 x s expr=pow(@0,2)", "pnnx.Expression q 1 1 x s expr=mul(@0,@0)",
               "torch.square q 1 1 x s", "pnnx.Expression q 1 1 x s expr=square(@0)")  # fmt: skip
    ends = [
        "pnnx.Expression e 3 1 w x v y expr=mul(@0,mul(@1,rsqrt(add(@2,%eps))))",
        "pnnx.Expression e 3 1 x v w y expr=mul(mul(@0,rsqrt(add(@1,%eps))),@2)",
        "pnnx.Expression e 3 1 w x v y expr=mul(@0,div(@1,sqrt(add(@2,%eps))))",
        "pnnx.Expression e 3 1 x v w y expr=mul(div(@0,sqrt(add(@1,%eps))),@2)",
    ]
    for square in squares:
        for end in ends:
            lines = ("pnnx.Attribute w 0 1 w", square, _MEANS[1], end)
            yield Rule(pattern(*lines), pattern("nn.RMSNorm n 1 1 x y eps=%eps"), condition=_are_vectors("w"),
                       write=_normalize({"w": "weight"}))  # fmt: skip


rules("fuse_layernorm", 5, "Layer normalisation in pieces becomes nn.LayerNorm.", _layer_norms())
rules("fuse_rmsnorm", 5, "Root mean square normalisation in pieces becomes nn.RMSNorm.", _rms_norms())
