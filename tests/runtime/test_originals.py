"""Attention whose query heads share those of keys and values reads them where they lie, however they are repeated."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pnnx_fast
from pnnx_fast.edit import infer_shapes

Array = np.ndarray[Any, Any]

TURNED = "Tensor.permute turn_{x} 1 1 given_{x} {x} dims=(0,2,1,3)"
"""Keys or values (batch, heads, rows, columns) of what has rows before heads, as a projection gives them."""
EXPANDED = (
    "torch.unsqueeze wide_{x} 1 1 {x} w_{x} dim=2 | Tensor.expand spread_{x} 1 1 w_{x} s_{x} sizes=(-1,{kv},{n},-1,{d})"
)
REPEATS = {
    "expanded": f"{EXPANDED} | Tensor.reshape join_{{x}} 1 1 s_{{x}} r_{{x}} shape=({{b}},{{heads}},-1,{{d}})",
    "interleaved": "torch.repeat_interleave join_{x} 1 1 {x} r_{x} dim=1 repeats={n}",
    "flattened": f"{EXPANDED} | torch.flatten join_{{x}} 1 1 s_{{x}} r_{{x}} start_dim=1 end_dim=2",
    "one after another": "Tensor.repeat join_{x} 1 1 {x} r_{x} sizes=(1,{n},1,1)",
}
PIECES = (
    "torch.transpose t 1 1 r_k kt dim0=2 dim1=3 | torch.matmul m 2 1 q kt c "
    "| pnnx.Expression e_ {inputs} e expr={score} | F.softmax f 1 1 e p dim=-1 | torch.matmul z 2 1 p r_v y"
)
WHOLE = "F.scaled_dot_product_attention z {sdpa} y dropout_p=0.0 is_causal=False scale=0.5 {names}"


def build(size: tuple[int, ...], how: str, body: str, turned: bool = False, mask: str = "") -> pnnx_fast.Graph:
    b, heads, kv, queries, keys, d = size
    shapes = {"q": (b, heads, queries, d)}
    shapes |= {f"given_{x}" if turned else x: (b, keys, kv, d) if turned else (b, kv, keys, d) for x in "kv"}
    lines = [] if not turned else [TURNED.format(x=x) for x in "kv"]
    for x in "kv":
        lines += REPEATS[how].format(x=x, kv=kv, n=heads // kv, b=b, heads=heads, d=d).split(" | ")
    lines += body.format(
        inputs="2 1 c mask" if mask else "1 1 c",
        score="add(mul(@0,0.5),@1)" if mask else "mul(@0,0.5)",
        sdpa="4 1 q r_k r_v mask" if mask else "3 1 q r_k r_v",
        names="$query=q $key=r_k $value=r_v" + (" $attn_mask=mask" if mask else ""),
    ).split(" | ")
    types = {name: f"({','.join(map(str, shape))})f32" for name, shape in shapes.items()}
    types |= {"mask": mask} if mask else {}
    inputs = [f"pnnx.Input {name}_in 0 1 {name} #{name}={text}" for name, text in types.items()]
    lines = [*inputs, *lines, "pnnx.Output out 1 0 y"]
    names = {word for line in lines for word in line.split()[4:] if "=" not in word}
    graph = pnnx_fast.Graph.parse(f"7767517\n{len(lines)} {len(names)}\n" + "\n".join(lines) + "\n")
    infer_shapes(graph)
    return graph


def draw(model: pnnx_fast.Model, sizes: dict[int, int] | None = None) -> list[Array]:
    rng = np.random.default_rng(1)
    made = [rng.standard_normal([(sizes or {}).get(n, n) for n in x.shape]) for x in model.inputs]
    return [(a > 0 if x.dtype == np.bool_ else a).astype(x.dtype) for a, x in zip(made, model.inputs, strict=True)]


def wanted(how: str, heads: int, q: Array, k: Array, v: Array, *masks: Array) -> Array:
    n = heads // k.shape[1]
    k, v = (np.tile(x, (1, n, 1, 1)) if how == "one after another" else np.repeat(x, n, 1) for x in (k, v))
    s = q.astype("f8") @ k.swapaxes(-1, -2) * 0.5
    for m in masks:
        s = s + (np.where(m, 0, -np.inf) if m.dtype == np.bool_ else m)
    p = np.exp(s - s.max(-1, keepdims=True))
    return np.asarray(p @ v / p.sum(-1, keepdims=True))


def kernels(model: pnnx_fast.Model, arrays: list[Array]) -> list[str]:
    return [step.kernel for step in model.profile(*arrays).steps]


SIZES = [(1, 8, 2, 20, 33, 16), (2, 6, 2, 9, 150, 8), (3, 4, 1, 5, 7, 24), (2, 5, 5, 4, 6, 8), (2, 8, 2, 1, 140, 20)]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("how", REPEATS)
@pytest.mark.parametrize("body", [PIECES, WHOLE], ids=["pieces", "whole"])
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("mask", ["", "(1,1,{0},{1})f32", "(5,1)f32"])
def test_repeated_heads(size: tuple[int, ...], how: str, body: str, turned: bool, mask: str) -> None:
    mask = mask.format(size[3], size[4]).replace("(5,", f"({size[3]},")
    model = pnnx_fast.Model(build(size, how, body, turned, mask), num_threads=2)
    arrays = draw(model)
    q, k, v, *masks = arrays
    k, v = (x.swapaxes(1, 2) if turned else x for x in (k, v))
    np.testing.assert_allclose(model(*arrays), wanted(how, size[1], q, k, v, *masks), rtol=0, atol=1e-5)
    found = kernels(model, arrays)
    assert found.count("attention_f32") == 1
    if how != "one after another" or 1 in (size[2], size[1] // size[2]):
        assert found == ["attention_f32"]


@pytest.mark.parametrize("how", ["expanded", "interleaved"])
def test_other_sizes(how: str) -> None:
    """A model that writes word by word is called with one key more each time."""
    model = pnnx_fast.Model(build((1, 8, 2, 1, 33, 16), how, PIECES, mask="(1,1,1,33)f32"))
    for keys in (1, 2, 34, 300):
        arrays = draw(model, {33: keys})
        np.testing.assert_allclose(model(*arrays), wanted(how, 8, *arrays), rtol=0, atol=1e-5)
        assert kernels(model, arrays) == ["attention_f32"]


def test_mask_of_bool() -> None:
    model = pnnx_fast.Model(build((2, 8, 2, 1, 90, 16), "expanded", WHOLE, mask="(2,8,1,90)bool"))
    arrays = draw(model)
    np.testing.assert_allclose(model(*arrays), wanted("expanded", 8, *arrays), rtol=0, atol=1e-5)


def test_copies_of_another_type_stay() -> None:
    """Strides of complex numbers count pairs."""
    lines = [
        "pnnx.Input q_in 0 1 q #q=(1,1,3,8)f32", "pnnx.Input z_in 0 1 z #z=(1,2,4,2)f32",
        "torch.view_as_complex c 1 1 z c", "torch.unsqueeze w 1 1 c w dim=1",
        "Tensor.expand x 1 1 w x sizes=(1,2,2,4)", "Tensor.reshape j 1 1 x j shape=(1,4,4)",
        "torch.view_as_real p 1 1 j p", "Tensor.reshape r 1 1 p r shape=(1,2,2,8)",
        "Tensor.slice s 1 1 r k dim=1 start=0 end=1 step=1",
        WHOLE.format(sdpa="3 1 q k k", names="$query=q $key=k $value=k"), "pnnx.Output out 1 0 y",
    ]  # fmt: skip
    model = pnnx_fast.Model(pnnx_fast.Graph.parse(f"7767517\n{len(lines)} 10\n" + "\n".join(lines) + "\n"))
    q, z = draw(model)
    k = z.reshape(1, 1, 2, 8)
    np.testing.assert_allclose(model(q, z), wanted("expanded", 1, q, k, k), rtol=0, atol=1e-5)


def test_copies_that_others_read_stay() -> None:
    graph = build((1, 8, 2, 5, 33, 16), "expanded", PIECES, turned=True)
    made = graph.new_operand("more")
    repeated = graph.get_operand("r_k")
    assert repeated is not None
    graph.new_operator("pnnx.Expression", "more", inputs=[repeated], outputs=[made], params={"expr": "mul(@0,2)"})
    graph.new_operator("pnnx.Output", "out2", inputs=[made])
    model = pnnx_fast.Model(graph)
    arrays = draw(model)
    q, k, v = (x if i == 0 else x.swapaxes(1, 2) for i, x in enumerate(arrays))
    y, more = model(*arrays)
    np.testing.assert_allclose(y, wanted("expanded", 8, q, k, v), rtol=0, atol=1e-5)
    np.testing.assert_array_equal(more, 2 * np.repeat(k, 4, 1))
    assert any(name.startswith("copy") for name in kernels(model, arrays))
