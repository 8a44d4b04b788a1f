"""Masks of the multi-head layer, which files name wrongly or not at all, find their slots."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest

import pnnx_fast

RNG = np.random.default_rng(3)
LAYER = """nn.MultiheadAttention a {count} 1 {given} y add_bias_kv=False add_zero_attn=False batch_first=True \
bias=True embed_dim=8 kdim=8 num_heads=2 vdim=8 @in_proj_bias=(24)f32 @in_proj_weight=(24,8)f32 \
@out_proj.bias=(8)f32 @out_proj.weight=(8,8)f32 {names} #y={x}f32"""
WEIGHTS = {
    "in_proj_bias": (24,),
    "in_proj_weight": (24, 8),
    "out_proj.bias": (8,),
    "out_proj.weight": (8, 8),
}
HELD = {key: RNG.standard_normal(shape).astype(np.float32) for key, shape in WEIGHTS.items()}


def graph(
    given: str, names: str, x: str = "(?,?,8)", m: str = "(?,?)bool", p: str = "(?,?)bool", made: str = ""
) -> str:
    """The text of a layer that takes of x, masks m for positions and p of keys, in the order given."""
    inputs = {"x": f"{x}f32", "m": m, "p": p}
    used = [name for name in "xmp" if name in given.split() or name in made.split()]
    lines = [f"pnnx.Input {name} 0 1 {name} #{name}={inputs[name]}" for name in used]
    count = len(given.split())
    lines += [*made.splitlines(), LAYER.format(count=count, given=given, names=names, x=x), "pnnx.Output o 1 0 y"]
    return f"7767517\n{len(lines)} {len(lines) - 1}\n" + "\n".join(lines) + "\n"


def ask(text: str, **arrays: np.ndarray) -> tuple[np.ndarray, list[str]]:
    """What a layer gives, and of what it warns."""
    parsed = pnnx_fast.Graph.parse(text)
    layer = next(op for op in parsed.ops if op.type == "nn.MultiheadAttention")
    for key, held in HELD.items():
        layer.attrs[key] = pnnx_fast.Attribute(held)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = pnnx_fast.Model(parsed)
        result = model(*(arrays[x.name] for x in model.inputs))
    return np.asarray(result), [str(w.message) for w in caught]


def masks(batch: int, length: int, kind: str) -> tuple[np.ndarray, np.ndarray]:
    """A mask for positions, and one of keys."""
    later = np.triu(np.ones((length, length), bool), 1)
    padding = np.arange(length) >= RNG.integers(1, length, batch)[:, None]
    return (later, padding) if kind == "bool" else tuple(np.where(y, np.float32(-1e4), 0) for y in (later, padding))


@pytest.mark.parametrize("kind", ["bool", "f32"])
@pytest.mark.parametrize("sizes", [(2, 5), (3, 4)])
@pytest.mark.parametrize(
    ("given", "names"),
    [
        ("p x", ""),
        ("m x", ""),
        ("x p", "$attn_mask=p"),
        ("x m", "$attn_mask=m"),
        ("p m x", ""),
        ("x m p", "$attn_mask=p"),
    ],
)
@pytest.mark.parametrize("free", [False, True])
def test_sizes_of_a_call_tell_masks_apart(
    given: str, names: str, sizes: tuple[int, int], kind: str, free: bool
) -> None:
    batch, length = sizes
    m, p = masks(batch, length, kind)
    x = RNG.standard_normal((batch, length, 8)).astype(np.float32)
    dims = (
        ("(?,?,8)", "(?,?)", "(?,?)")
        if free
        else (f"({batch},{length},8)", f"({length},{length})", f"({batch},{length})")
    )
    got, told = ask(graph(given, names, dims[0], dims[1] + kind, dims[2] + kind), x=x, m=m, p=p)
    assert not told
    whole = np.full((batch, length, length), -0.0, np.float32)
    for name, mask in (("m", m), ("p", p[:, None])):
        if name in given.split():
            whole += np.where(mask, np.float32(-1e4), 0) if kind == "bool" else mask
    each = np.repeat(whole, 2, 0)
    text = graph("x m", "$attn_mask=m", dims[0], f"({2 * batch},{length},{length})f32")
    want, _ = ask(text, x=x, m=each)
    np.testing.assert_allclose(got, want, 1e-4, 1e-5)


CANONICAL = """torch.zeros_like z 1 1 p z dtype=torch.float $input=p #p=(?,?)bool #z=(?,?)f32
Tensor.masked_fill f 2 1 z p f value=-inf $input=z $mask=p #z=(?,?)f32 #p=(?,?)bool #f=(?,?)f32"""
LATER = """pnnx.Expression s 1 1 x s expr=[size(@0,1),size(@0,1)] #x=(?,?,8)f32
torch.full u 1 1 s u dtype=None fill_value=-inf $size=s #u=(?,?)f32
pnnx.Expression k 0 1 k expr=1
aten::triu t 2 1 u k f #u=(?,?)f32 #f=(?,?)f32"""


@pytest.mark.parametrize(
    ("made", "given", "names", "slot", "told"),
    [
        ("", "p x", "", "key_padding_mask", True),
        (CANONICAL, "x f", "$attn_mask=f", "key_padding_mask", True),
        (LATER, "x f", "$attn_mask=f", "attn_mask", False),
        (LATER, "x f p", "$attn_mask=p", "both", False),
    ],
)
def test_where_sizes_do_not_tell_what_the_mask_is_made_of_does(
    made: str, given: str, names: str, slot: str, told: bool
) -> None:
    x = RNG.standard_normal((4, 4, 8)).astype(np.float32)
    later, p = masks(4, 4, "bool")
    got, warned = ask(graph(given, names, made=made), x=x, p=p)
    assert ["takes" in text and "which the file does not tell" in text for text in warned] == [True] * told
    whole = {"both": later | p[:, None], "attn_mask": later | (p & False)[:, None], "key_padding_mask": p[:, None]}[
        slot
    ]
    each = np.repeat(np.broadcast_to(whole, (4, 4, 4)), 2, 0)
    want, _ = ask(graph("x m", "$attn_mask=m", "(4,4,8)", "(8,4,4)bool"), x=x, m=each)
    np.testing.assert_allclose(got, want, 1e-4, 1e-5)


def test_python_source_names_both_masks(tmp_path: Path) -> None:
    parsed = pnnx_fast.Graph.parse(graph("p m x", "", "(2,5,8)", "(5,5)bool", "(2,5)bool"))
    layer = next(op for op in parsed.ops if op.type == "nn.MultiheadAttention")
    for key, held in HELD.items():
        layer.attrs[key] = pnnx_fast.Attribute(held)
    parsed.python(tmp_path / "a.py")
    assert "self.a(v_x, v_x, v_x, key_padding_mask=v_p, attn_mask=v_m" in (tmp_path / "a.py").read_text()
