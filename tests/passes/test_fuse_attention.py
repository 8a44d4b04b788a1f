"""Attention in pieces becomes one operator however it is written, and results stay those of the pieces."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pnnx_fast
from pnnx_fast import passes
from pnnx_fast.edit import infer_shapes
from pnnx_fast.errors import ShapeError
from pnnx_fast.passes.fuse_attention import fuse_attention

Array = np.ndarray[Any, Any]

HEADS = "q=(4,3,5,8)f32 k=(4,3,7,8)f32 v=(4,3,7,6)f32"
SWAP = "torch.transpose t 1 1 k kt dim0=2 dim1=3 $input=k"
SCORES = f"{SWAP} | torch.matmul m 2 1 q kt s $input=q $other=kt"
PLAIN = SCORES.replace(" s ", " e ", 1)
END = "F.softmax f 1 1 e p dim=-1 $input=e | torch.matmul n 2 1 p v y $input=p $other=v"
BEND = "F.softmax f 1 1 e p dim=2 $input=e | torch.bmm n 2 1 p v y $input=p $mat2=v"
THREE = "q=(12,5,8)f32 k=(12,7,8)f32 v=(12,7,6)f32"
BATCHED = "torch.transpose t 1 1 k kt dim0=1 dim1=2 $input=k | torch.bmm m 2 1 q kt s $input=q $mat2=kt"
"""Both products of operands with one leading size, the batches and heads together."""


def expression(text: str, inputs: str, output: str) -> str:
    names = inputs.split()
    return f"pnnx.Expression {output}_ {len(names)} 1 {inputs} {output} expr={text}"


def windows(view: str, back: str) -> list[str]:
    """Scores with one mask added as they are and another one in a view of them."""
    return [
        SCORES,
        expression("add(@0,@1)", "s a", "d"),
        f"Tensor.reshape x 1 1 d d5 shape=({view})",
        expression("add(@0,@1)", "d5 c", "e5"),
        f"Tensor.reshape z 1 1 e5 e shape=({back})",
        END,
    ]


FUSED = {
    "scale and mask": (
        f"{HEADS} a=(4,1,5,7)f32",
        [SCORES, expression("add(mul(@0,0.25),@1)", "s a", "e"), END],
    ),
    "mask first in the sum": (f"{HEADS} a=(5,7)f32", [SCORES, expression("add(@0,div(@1,2.0))", "a s", "e"), END]),
    "scaled queries": (
        HEADS,
        [expression("mul(@0,0.5)", "q", "u"), SWAP, "torch.matmul m 2 1 u kt e $input=u $other=kt", END],
    ),
    "scaled columns of keys": (
        HEADS,
        [SWAP, expression("div(@0,3.0)", "kt", "u"), "torch.matmul m 2 1 q u e $input=q $other=u", END],
    ),
    "mask of a computation": (
        f"{HEADS} a=(4,1,1,7)i64",
        [SCORES, expression("add(mul(@0,0.25),mul(sub(1,@1),-1e+09))", "s a", "e"), END],
    ),
    "bool mask in the sum": (f"{HEADS} a=(5,7)bool", [SCORES, expression("add(@0,@1)", "s a", "e"), END]),
    "filled": (
        f"{HEADS} a=(4,1,5,7)bool",
        [SCORES, "Tensor.masked_fill g 2 1 s a e $input=s $mask=a value=-inf", END],
    ),
    "where": (f"{HEADS} a=(4,1,5,7)bool", [SCORES, expression("where(@0,mul(@1,0.5),-inf)", "a s", "e"), END]),
    "where not": (f"{HEADS} a=(4,1,5,7)bool", [SCORES, expression("where(@0,-1e+30,@1)", "a s", "e"), END]),
    "filled with a small number": (
        f"{HEADS} a=(4,1,5,7)bool",
        [SCORES, "Tensor.masked_fill g 2 1 s a e $input=s $mask=a value=-1.0", END],
    ),
    "filled with a number that scores count beside": (
        f"{HEADS} a=(4,1,1,7)bool",
        [
            SCORES,
            expression("div(@0,2.5)", "s", "d"),
            "Tensor.masked_fill g 2 1 d a e $input=d $mask=a value=-1e+09",
            END,
        ],
    ),
    "filled where a number is zero": (
        f"{HEADS} a=(4,1,5,7)i64",
        [SCORES, expression("where(eq(@1,0),-10000.0,mul(@0,0.3))", "s a", "e"), END],
    ),
    "filled where a mask is not": (
        f"{HEADS} a=(5,1)bool",
        [SCORES, expression("where(@0,@1,-1e+09)", "a s", "e"), END],
    ),
    "filled by a constant": (
        f"{HEADS} @a=(5,7)f32",
        [SCORES, expression("where(gt(@0,0.5),-1e+09,@1)", "a s", "e"), END],
    ),
    "filled before another mask": (
        f"{HEADS} a=(4,1,5,7)bool c=(5,7)f32",
        [SCORES, expression("add(where(@1,-1e+30,@0),@2)", "s a c", "e"), END],
    ),
    "two sums of masks": (
        f"{HEADS} a=(3,5,7)f32 c=(4,1,1,7)f32",
        [SCORES, expression("add(@0,@1)", "s a", "d"), expression("add(@0,@1)", "d c", "e"), END],
    ),
    "scores of positions": (
        f"{HEADS} a=(4,3,5,2)f32 c=(2,7)f32",
        [SCORES, "torch.matmul r 2 1 a c b $input=a $other=c", expression("mul(add(@0,@1),1.0)", "s b", "e"), END],
    ),
    "keys permuted in one step": (
        "q=(4,3,5,8)f32 k=(4,7,3,8)f32 v=(4,3,7,6)f32",
        ["Tensor.permute t 1 1 k kt dims=(0,2,3,1) $input=k", "torch.matmul m 2 1 q kt e $input=q $other=kt", END],
    ),
    "keys in columns": (
        "q=(4,3,5,8)f32 k=(4,3,8,7)f32 v=(4,3,7,6)f32 a=(4,1,1,7)f32",
        ["torch.matmul m 2 1 q k s $input=q $other=k", expression("sub(@0,mul(@1,1e+06))", "s a", "e"), END],
    ),
    "values in columns": (
        "q=(4,3,8,5)f32 k=(4,3,8,7)f32 v=(4,3,6,7)f32",
        [
            "torch.transpose u 1 1 q qt dim0=2 dim1=3 $input=q | torch.matmul m 2 1 qt k s $input=qt $other=k",
            expression("mul(@0,0.25)", "s", "e"),
            "F.softmax f 1 1 e p dim=-1 $input=e | torch.transpose w 1 1 p pt dim0=-2 dim1=-1 $input=p",
            "torch.matmul n 2 1 v pt y $input=v $other=pt",
        ],
    ),
    "shared keys": ("q=(4,3,5,8)f32 k=(4,1,7,8)f32 v=(1,3,7,6)f32", [PLAIN, END]),
    "equations": (
        HEADS,
        [
            "torch.einsum m 2 1 q k s equation=bhid,bhjd->bhij",
            expression("mul(@0,0.125)", "s", "e"),
            "nn.Softmax f 1 1 e p dim=-1",
            "torch.einsum n 2 1 p v y equation=bhij,bhjd->bhid",
        ],
    ),
    "batches of heads": (THREE, [BATCHED, expression("mul(@0,0.25)", "s", "e"), BEND]),
    "batches of heads with a mask of the batch": (
        f"{THREE} a=(4,1,1,7)f32",
        [
            BATCHED,
            "Tensor.reshape x 1 1 s s4 shape=(4,3,5,7)",
            expression("add(@0,@1)", "s4 a", "e4"),
            "Tensor.reshape z 1 1 e4 e shape=(12,5,7)",
            BEND,
        ],
    ),
    "difference of bytes": (f"{HEADS} a=(5,7)u8", [SCORES, expression("sub(@0,@1)", "s a", "e"), END]),
    "two of bool": (f"{HEADS} a=(5,7)bool c=(7)bool", [SCORES, expression("add(add(@0,@1),@2)", "s a c", "e"), END]),
    "constant of one dimension": (f"{HEADS} @a=(7)f32", [SCORES, expression("add(@0,@1)", "s a", "e"), END]),
    "heads in two parts": (
        "h=(4,5,6,8)f32 k=(4,6,7,8)f32 v=(4,6,7,6)f32 a=(2,5,7)f32",
        [
            "Tensor.permute w 1 1 h q dims=(0,2,1,3) $input=h",
            SCORES,
            "Tensor.reshape x 1 1 s s5 shape=(4,3,2,5,7)",
            expression("add(@0,@1)", "s5 a", "e5"),
            "Tensor.reshape z 1 1 e5 e shape=(4,6,5,7)",
            END,
        ],
    ),
    "windows": (f"{HEADS} a=(3,5,7)f32 @c=(1,2,1,5,7)f32", windows("-1,2,3,5,7", "-1,3,5,7")),
    "windows with all constant": (
        f"{HEADS} @a=(3,5,7)f32 @c=(1,2,1,5,7)f32",
        windows("2,2,3,5,7", "4,3,5,7"),
    ),
}

KEPT = {
    "filled behind another mask": (
        f"{HEADS} a=(4,1,5,7)bool c=(5,7)f32",
        [SCORES, expression("where(@1,-1e+30,add(@0,@2))", "s a c", "e"), END],
    ),
    "factor below the mask": (
        f"{HEADS} a=(5,7)f32",
        [SCORES, expression("add(@0,@1)", "s a", "d"), expression("mul(@0,2.0)", "d", "e"), END],
    ),
    "factor around the mask": (f"{HEADS} a=(5,7)f32", [SCORES, expression("mul(add(@0,@1),2.0)", "s a", "e"), END]),
    "filled with a number beside another mask": (
        f"{HEADS} a=(4,1,5,7)bool c=(5,7)f32",
        [SCORES, expression("add(where(@1,-1e+09,@0),@2)", "s a c", "e"), END],
    ),
    "filled with a number in a view": (
        f"{HEADS} a=(5,7)bool",
        [
            SCORES,
            "Tensor.reshape x 1 1 s s5 shape=(2,2,3,5,7)",
            expression("where(@1,-1e+09,@0)", "s5 a", "e5"),
            "Tensor.reshape z 1 1 e5 e shape=(4,3,5,7)",
            END,
        ],
    ),
    "filled with a tensor": (
        f"{HEADS} a=(5,7)bool c=(1)f32",
        [SCORES, expression("where(@1,@2,@0)", "s a c", "e"), END],
    ),
    "filled twice": (
        f"{HEADS} a=(5,7)bool c=(5,7)bool",
        [SCORES, expression("where(@0,-1e+30,where(@1,-inf,@2))", "a c s", "e"), END],
    ),
    "a number added": (HEADS, [SCORES, expression("add(@0,2.0)", "s", "e"), END]),
    "another function": (HEADS, [SCORES, expression("relu(@0)", "s", "e"), END]),
    "divided by the scores": (HEADS, [SCORES, expression("div(2.0,@0)", "s", "e"), END]),
    "softmax over queries": (HEADS, [PLAIN, END.replace("dim=-1", "dim=2")]),
    "scores read twice": (HEADS, [PLAIN, END.replace(" y ", " w "), expression("neg(@0)", "e", "y")]),
    "long queries": (
        "q=(12,5,300)f32 k=(12,7,300)f32 v=(12,7,6)f32",
        [BATCHED.replace(" s ", " e "), BEND],
    ),
    "double": (HEADS.replace("f32", "f64"), [PLAIN, END]),
}


def build(operands: str, lines: list[str]) -> pnnx_fast.Graph:
    """A graph of operator lines; operands are inputs, or constants where their name begins with @."""
    body: list[str] = []
    rng = np.random.default_rng(3)
    constants: dict[str, Array] = {}
    for word in operands.split():
        name, shape = word.split("=")
        if name.startswith("@"):
            sizes = tuple(int(n) for n in shape[1 : shape.index(")")].split(","))
            constants[name[1:]] = rng.standard_normal(sizes).astype(np.float32)
            body.append(f"pnnx.Attribute {name[1:]}_ 0 1 {name[1:]} @data={shape} #{name[1:]}={shape}")
        else:
            body.append(f"pnnx.Input {name}_in 0 1 {name} #{name}={shape}")
    body += [line for text in lines for line in text.split(" | ")] + ["pnnx.Output out 1 0 y"]
    names = {word for line in body for word in line.split()[4:] if "=" not in word}
    graph = pnnx_fast.Graph.parse(f"7767517\n{len(body)} {len(names)}\n" + "\n".join(body) + "\n")
    for name, data in constants.items():
        operand = graph.get_operand(name)
        assert operand is not None
        assert operand.producer is not None
        operand.producer.attrs["data"] = pnnx_fast.Attribute(data)
    infer_shapes(graph)
    return graph


def arrays_of(model: pnnx_fast.Model) -> list[Array]:
    rng = np.random.default_rng(1)
    return [
        (rng.standard_normal(x.shape) if np.dtype(x.dtype).kind == "f" else rng.integers(0, 2, x.shape)).astype(x.dtype)
        for x in model.inputs
    ]


def run(graph: pnnx_fast.Graph, monkeypatch: pytest.MonkeyPatch, isa: str | None = None) -> tuple[Array, Array]:
    """Results with the pass, and of the pieces."""
    fused = pnnx_fast.Model(graph, isa=isa, num_threads=2)
    arrays = arrays_of(fused)
    rest = {name: row for name, row in passes.PASSES.items() if name != "fuse_attention"}
    monkeypatch.setattr(passes, "PASSES", rest)
    return fused(*arrays), pnnx_fast.Model(graph, num_threads=2)(*arrays)


@pytest.mark.parametrize("name", FUSED)
def test_pieces_become_one(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = build(*FUSED[name])
    copy = graph.copy()
    assert fuse_attention(copy)
    types = [op.type for op in copy.ops]
    assert types.count("fused.Attention") == 1
    assert not {"F.softmax", "nn.Softmax", "torch.bmm"}.intersection(types)
    got, want = run(graph, monkeypatch)
    np.testing.assert_allclose(got, want, rtol=0, atol=2e-6 * float(np.nanmax(np.abs(want))))


@pytest.mark.parametrize("name", KEPT)
def test_others_stay(name: str) -> None:
    graph = build(*KEPT[name])
    assert not fuse_attention(graph)
    assert "fused.Attention" not in [op.type for op in graph.ops]


def test_queries_without_keys_are_nan(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = build(f"{HEADS} a=(5,7)bool", [SCORES, expression("where(@0,-inf,@1)", "a s", "e"), END])
    model = pnnx_fast.Model(graph)
    q, k, v, hidden = arrays_of(model)
    hidden[:] = False
    hidden[2] = True
    y = model(q, k, v, hidden)
    assert np.isnan(y[:, :, 2]).all()
    assert np.isfinite(np.delete(y, 2, 2)).all()


@pytest.mark.parametrize("filling", ["-1e+09", "-10000.0", "0.0", "7.0", "inf", "nan"])
@pytest.mark.parametrize("isa", ["generic", None])
def test_what_a_filling_hides_has_no_part(filling: str, isa: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither scores that are no numbers, nor others where all of a row are filled."""
    graph = build(f"{HEADS} a=(4,1,5,7)bool", [SCORES, expression(f"where(@0,{filling},@1)", "a s", "e"), END])
    assert fuse_attention(graph.copy())
    model = pnnx_fast.Model(graph, isa=isa)
    q, k, v, hidden = arrays_of(model)
    hidden[:, :, 2] = True
    q[0, 0, 2] = np.nan
    k[1, 1, 3], hidden[1, :, :, 3] = np.inf, True
    monkeypatch.setattr(passes, "PASSES", {n: row for n, row in passes.PASSES.items() if n != "fuse_attention"})
    want = pnnx_fast.Model(graph)(q, k, v, hidden)
    for few in (slice(0, 5), slice(2, 3), slice(1, 3)):
        got = model(q[:, :, few], k, v, hidden[:, :, few])
        np.testing.assert_allclose(got, want[:, :, few], rtol=0, atol=1e-5)


def test_other_sizes_of_a_view_are_an_error() -> None:
    graph = build(*FUSED["windows with all constant"])
    model = pnnx_fast.Model(graph)
    q, k, v = arrays_of(model)
    with pytest.raises(ShapeError):
        model(q[:2], k[:2], v[:2])


def test_windows_of_another_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = build(*FUSED["windows"])
    fused = pnnx_fast.Model(graph)
    q, k, v, a = (np.concatenate([x, x]) if i < 3 else x for i, x in enumerate(arrays_of(fused)))
    monkeypatch.setattr(passes, "PASSES", {n: row for n, row in passes.PASSES.items() if n != "fuse_attention"})
    np.testing.assert_allclose(fused(q, k, v, a), pnnx_fast.Model(graph)(q, k, v, a), rtol=0, atol=1e-5)
