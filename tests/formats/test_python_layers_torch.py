"""Generated modules with several results: attention and recurrent layers, as files of all levels have them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from generated import arrays_of, module, runs_alike, torch

from pnnx_fast import Attribute, Graph, Model, Operator


def _give_attention_weights(op: Operator, rng: np.random.Generator) -> None:
    """Weights of an attention over eight features."""
    for key, shape in {
        "in_proj_bias": (24,), "in_proj_weight": (24, 8), "out_proj.bias": (8,), "out_proj.weight": (8, 8),
    }.items():  # fmt: skip
        op.attrs[key] = Attribute(rng.standard_normal(shape, np.float32))


@pytest.mark.filterwarnings("ignore")
def test_a_mask_in_front_of_attention_whose_name_a_value_has(tmp_path: Path) -> None:
    graph = Graph.parse(
        "7767517\n6 5\npnnx.Input a 0 1 q #q=(5,1,8)f32\npnnx.Input b 0 1 k #k=(4,1,8)f32\n"
        "pnnx.Input c 0 1 v #v=(4,1,8)f32\npnnx.Input d 0 1 m #m=(2,5,4)bool\n"
        "nn.MultiheadAttention t 4 1 m q k v y add_bias_kv=False add_zero_attn=False bias=True embed_dim=8 kdim=8 "
        "num_heads=2 vdim=8 @in_proj_bias=(24)f32 @in_proj_weight=(24,8)f32 @out_proj.bias=(8)f32 "
        "@out_proj.weight=(8,8)f32 $attn_mask=v #m=(2,5,4)bool #v=(4,1,8)f32 #y=(5,1,8)f32\n"
        "pnnx.Output out 1 0 y\n"
    )
    rng = np.random.default_rng(0)
    attention = next(op for op in graph.ops if op.name == "t")
    _give_attention_weights(attention, rng)
    arrays = [rng.standard_normal((n, 1, 8), np.float32) for n in (5, 4, 4)]
    mask = rng.random((2, 5, 4)) > 0.5
    mask[..., 0] = False
    assert "attn_mask=v_m" in runs_alike(graph, tmp_path, *arrays, mask)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("simple", [False, True])
@pytest.mark.parametrize("outputs", ["y w", "w y", "w", "t"])
def test_weights_of_all_heads(outputs: str, simple: bool, tmp_path: Path) -> None:
    """Files of the lowest level have a tuple for them."""
    notes = "".join(f" #{k}={v}" for k, v in {"y": "(5,1,8)f32", "w": "(1,2,5,5)f32"}.items() if k in outputs)
    unpack = "prim::TupleUnpack u 1 2 t y w #y=(5,1,8)f32 #w=(1,2,5,5)f32\n" if outputs == "t" else ""
    graph = Graph.parse(
        f"7767517\n{3 + bool(unpack)} {4 if unpack else len(outputs.split()) + 1}\npnnx.Input a 0 1 q #q=(5,1,8)f32\n"
        f"nn.MultiheadAttention t 1 {len(outputs.split())} q {outputs} bias=True embed_dim=8 kdim=8 num_heads=2 vdim=8 "
        f"#q=(5,1,8)f32{notes}\n{unpack}pnnx.Output out 1 0 w\n"
    )
    rng = np.random.default_rng(0)
    _give_attention_weights(graph.ops[1], rng)
    if simple:
        graph.simplify()
    assert "average_attn_weights=False" in runs_alike(graph, tmp_path, rng.standard_normal((5, 1, 8), np.float32))


@pytest.mark.filterwarnings("ignore")
def test_keys_with_the_position_of_the_query_that_the_file_names_once(tmp_path: Path) -> None:
    graph = Graph.parse(
        "7767517\n5 4\npnnx.Input a 0 1 x #x=(5,1,8)f32\npnnx.Input b 0 1 p #p=(5,1,8)f32\n"
        "pnnx.Expression e 2 1 x p q expr=add(@0,@1) #q=(5,1,8)f32\n"
        "nn.MultiheadAttention t 2 1 q x y bias=True embed_dim=8 kdim=8 num_heads=2 vdim=8 #y=(5,1,8)f32\n"
        "pnnx.Output out 1 0 y\n"
    )
    rng = np.random.default_rng(0)
    _give_attention_weights(graph.ops[3], rng)
    arrays = [rng.standard_normal((5, 1, 8), np.float32) for _ in range(2)]
    assert "(v_q, v_q, v_x, " in runs_alike(graph, tmp_path, *arrays)


ATTENTION = "embed_dim=6 num_heads=2 kdim=6 vdim=6 bias=False batch_first=True @in_proj_weight=(18,6)f32"
HANDED_OUT = {
    "nn.GRU": ("input_size=6 hidden_size=4 num_layers=1 bias=False", (("ih", 12, 6), ("hh", 12, 4)), "h y"),
    "nn.RNN": ("input_size=6 hidden_size=4 num_layers=1 bias=False", (("ih", 4, 6), ("hh", 4, 4)), "y h"),
    "nn.LSTM": (
        "input_size=6 hidden_size=4 num_layers=1 bias=False proj_size=3",
        (("ih", 16, 6), ("hh", 16, 3), ("hr", 3, 4)),
        "c h y",
    ),
}
"""Modules with weights and the order of their results in a tuple."""


@pytest.mark.filterwarnings("ignore:LSTM with projections")
@pytest.mark.parametrize("kind", [*HANDED_OUT, "nn.MultiheadAttention"])
def test_modules_that_hand_out_tuples_in_the_order_of_use(tmp_path: Path, kind: str) -> None:
    out = 3 if kind == "nn.LSTM" else 4
    shapes = {"y": f"(5,2,{out})", "h": f"(1,2,{out})", "c": "(1,2,4)"}
    if kind in HANDED_OUT:
        fields, sizes, names = HANDED_OUT[kind]
        fields += "".join(f" @weight_{key}_l0=({m},{n})f32" for key, m, n in sizes)
    else:
        fields, names = f"{ATTENTION} @out_proj.weight=(6,6)f32", "h y"
        shapes = {"y": "(5,2,6)", "h": "(5,2,2)"}
    outputs = names.split()
    lines = [
        "pnnx.Input in 0 1 x #x=(5,2,6)f32",
        f"{kind} m 1 1 x t {fields}",
        f"prim::TupleUnpack u 1 {len(outputs)} t {names} {' '.join(f'#{n}={shapes[n]}f32' for n in outputs)}",
        f"prim::TupleConstruct c {len(outputs)} 1 {names} r",
        "pnnx.Output out 1 0 r",
    ]
    graph = Graph.parse("\n".join(["7767517", f"{len(lines)} {len(outputs) + 3}", *lines, ""]))
    rng = np.random.default_rng(0)
    layer = graph.ops[1]
    layer.attrs = {key: Attribute(rng.random(a.shape, np.float32)) for key, a in layer.attrs.items()}
    x = rng.standard_normal((5, 2, 6)).astype(np.float32)
    graph.python(tmp_path / "m.py")
    with torch.no_grad():
        got = arrays_of(module(tmp_path / "m.py")["Model"]().eval()(torch.from_numpy(x)))
    for a, b in zip(got, arrays_of(Model(graph, num_threads=1)(x)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
