"""Fused operators give what the pieces give at other sizes than noted, also where an operand that came in is larger."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pnnx_fast
from pnnx_fast.edit import infer_shapes
from pnnx_fast.passes import optimize

Array = np.ndarray[Any, Any]

SUM = "pnnx.Expression sum 2 1 a z s expr=add(@0,@1)"
LAST = SUM.replace("z s", "z y")
CONV = "dilation=(1,1) groups=1 in_channels=4 out_channels=4 kernel_size=(1,1) padding=(0,0) stride=(1,1) bias=True"
LINEAR = "nn.Linear a_ 1 1 x a bias=True in_features=8 out_features=8 @weight=(8,8)f32 @bias=(8)f32"
CONV1 = "nn.Conv1d a_ 1 1 x a in_channels=4 out_channels=4 kernel_size=(1) bias=False @weight=(4,4,1)f32"
CONV2 = f"nn.Conv2d a_ 1 1 x a {CONV} @weight=(4,4,1,1)f32 @bias=(4)f32"
HEADS = "nn.MultiheadAttention a_ 1 1 x a num_heads=2 batch_first=True embed_dim=8 bias=True"
HEADS += " @in_proj_weight=(24,8)f32 @in_proj_bias=(24)f32 @out_proj.weight=(8,8)f32 @out_proj.bias=(8)f32"
GATED = f"F.sigmoid f 1 1 z g $input=z | pnnx.Expression p 2 1 x g s expr=mul(@0,@1) | {CONV2.replace('x a', 's y')}"
ATTENTION = (
    "torch.transpose t 1 1 k kt dim0=2 dim1=3 $input=k | torch.matmul m 2 1 q kt s $input=q $other=kt | "
    "pnnx.Expression e 2 1 s z d expr={} | F.softmax f 1 1 d p dim=-1 $input=d | "
    "torch.matmul n 2 1 p v y $input=p $other=v"
)
ADDED, FILLED = ATTENTION.format("add(mul(@0,0.3),@1)"), ATTENTION.format("where(lt(@1,0.5),-5.0,@0)")
NORM = (
    "torch.mean m1 1 1 x u dim=(1) keepdim=True $input=x | pnnx.Expression d 2 1 x u c expr=pow(sub(@0,@1),2) | "
    "torch.mean m2 1 1 c v dim=(1) keepdim=True $input=c | "
    "pnnx.Expression e 5 1 x u v w b y expr=add(mul(@3,div(sub(@0,@1),sqrt(add(@2,1e-3)))),@4)"
)
QKV = "q=(1,2,{},8) k=(1,2,5,8) v=(1,2,5,7)"

CASES = {
    "linear": ("x=(1,8) z=(1,8)", f"{LINEAR} | {SUM} | F.relu r 1 1 s y", "x=(1,8) z=(4,8)"),
    "linear, activated before": (
        "x=(1,8) z=(1,8)",
        f"{LINEAR} | F.silu i 1 1 a i | {SUM.replace('a z s', 'i z y')}",
        "x=(1,8) z=(4,8)",
    ),
    "linear of a constant": ("@x=(1,5,8) z=(1,5,8)", f"{LINEAR} | {SUM.replace('a z s', 'z a y')}", "z=(3,5,8)"),
    "linear, larger in one way and smaller in another": (
        "x=(1,1,8) z=(1,1,8)",
        f"{LINEAR} | {SUM} | F.hardtanh r 1 1 s y max_val=0.5 min_val=-0.25",
        "x=(1,6,8) z=(2,1,8)",
    ),
    "convolution": ("x=(1,4,1,1) z=(1,4,1,1)", f"{CONV2} | {SUM} | F.gelu r 1 1 s y", "x=(1,4,1,1) z=(2,4,3,5)"),
    "convolution, joined": (
        "x=(1,4,1,1) z=(1,4,1,1)",
        f"{CONV2} | {SUM} | F.relu r 1 1 s r | torch.cat c 2 1 r z y dim=1",
        "x=(1,4,1,3) z=(1,4,2,3)",
    ),
    "convolution of one line": ("x=(1,4,1) z=(1,4,1)", f"{CONV1} | {LAST}", "x=(2,4,1) z=(2,4,7)"),
    "convolution without a batch": ("x=(4,1,1) z=(4,1,1)", f"{CONV2} | {LAST}", "x=(4,1,2) z=(4,6,2)"),
    "attention of several heads": ("x=(1,1,8) z=(1,1,8)", f"{HEADS} | {LAST}", "x=(1,1,8) z=(3,5,8)"),
    "gate of more images": ("x=(1,4,1,1) z=(1,4,1,1)", GATED, "x=(1,4,3,3) z=(2,4,1,1)"),
    "gate of more pixels": ("x=(1,4,1,1) z=(1,4,1,1)", GATED, "x=(1,4,1,1) z=(1,4,3,3)"),
    "mask of more images": (f"{QKV.format(6)} z=(1,1,6,5)", ADDED, f"{QKV.format(6)} z=(3,1,6,5)"),
    "mask of more images than one operand": (
        f"{QKV.format(6)} z=(1,1,6,5)",
        ADDED,
        f"{QKV.format(6).replace('v=(1', 'v=(3')} z=(3,2,6,5)",
    ),
    "mask of more heads": (
        "q=(1,1,6,8) k=(1,1,5,8) v=(1,1,5,7) z=(1,1,6,5)",
        ADDED,
        "q=(1,1,6,8) k=(1,1,5,8) v=(2,1,5,7) z=(1,3,6,5)",
    ),
    "mask of more queries": (f"{QKV.format(1)} z=(1,1,1,5)", ADDED, f"{QKV.format(1)} z=(3,1,6,5)"),
    "mask of more keys": (
        "q=(1,1,6,8) k=(1,1,1,8) v=(1,1,1,7) z=(1,1,6,1)",
        ADDED,
        "q=(1,1,6,8) k=(1,1,1,8) v=(1,1,9,7) z=(1,1,6,9)",
    ),
    "filling of more images": (f"{QKV.format(6)} z=(1,1,6,5)", FILLED, f"{QKV.format(6)} z=(3,2,6,5)"),
    "norm with one number for all channels": ("x=(2,1,3,3) @w=(1,1,1,1) @b=(1,1,1,1)", NORM, "x=(2,5,3,3)"),
    "norm with numbers for more channels": ("x=(2,5,3,3) @w=(1,5,1,1) @b=(5,1,1)", NORM, "x=(2,1,3,3)"),
}


def numbers(shape: str, seed: int = 0) -> Array:
    sizes = [int(n) for n in shape[1:-1].split(",")]
    return np.random.default_rng([seed, *sizes]).standard_normal(sizes).astype(np.float32)


def build(operands: str, lines: str) -> pnnx_fast.Graph:
    """A graph of operator lines; operands are inputs, or constants where their name begins with @."""
    kinds = [word.split("=") for word in operands.split()]
    body = [
        f"pnnx.Attribute {n[1:]}_ 0 1 {n[1:]} @data={s}f32 #{n[1:]}={s}f32" if n[0] == "@" else
        f"pnnx.Input {n}_in 0 1 {n} #{n}={s}f32" for n, s in kinds
    ]  # fmt: skip
    body += [*lines.split(" | "), "pnnx.Output out 1 0 y"]
    graph = pnnx_fast.Graph.parse(f"7767517\n{len(body)} 99\n" + "\n".join(body) + "\n")
    for op in graph.ops:
        for seed, (key, attr) in enumerate(op.attrs.items()):
            op.attrs[key] = pnnx_fast.Attribute(numbers(str(list(attr.shape)), seed))
    infer_shapes(graph)
    return graph


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("isa", ["generic", None])
def test_larger_operands_broadcast_as_those_of_the_pieces(name: str, isa: str | None) -> None:
    noted, lines, sizes = CASES[name]
    graph = build(noted, lines)
    copy = graph.copy()
    optimize(copy)
    assert [op.type for op in copy.ops if op.type.startswith("fused.")]
    fused, pieces = (pnnx_fast.Model(graph, 2, isa=isa, optimize=way) for way in (True, False))
    for given in (noted, sizes):
        arrays = [numbers(word.split("=")[1], seed) for seed, word in enumerate(given.split()) if word[0] != "@"]
        want = pieces(*arrays)
        got = fused(*arrays)
        assert got.shape == want.shape
        np.testing.assert_allclose(got, want, rtol=0, atol=3e-6 * max(1, np.abs(want).max()))


def test_operands_that_do_not_broadcast_are_an_error() -> None:
    noted, lines, _ = CASES["linear"]
    model = pnnx_fast.Model(build(noted, lines))
    with pytest.raises(pnnx_fast.errors.PnnxFastError, match=r"fused\.Linear a_: .*broadcast"):
        model(np.zeros((3, 8), np.float32), np.zeros((4, 8), np.float32))
