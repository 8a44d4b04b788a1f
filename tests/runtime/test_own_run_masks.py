"""Constants that masks were written to in the converter's own run, where masks are true throughout."""

from __future__ import annotations

import warnings
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pnnx_fast

INF = float("inf")
HEAD = """7767517
{count} {count}
pnnx.Input x 0 1 x #x=({batch},4)f32
pnnx.Input m 0 1 m #m=({batch},4)bool
pnnx.Attribute pnnx_fold_c 0 1 c @data=({shape}){dtype} #c=({shape}){dtype}
{lines}
pnnx.Output o 1 0 y
"""
FILL = "Tensor.masked_fill f 2 1 c m y value={value} $input=c $mask=m #c=(2,4)f32 #m=(2,4)bool #y=(2,4)f32"
PUT = "pnnx.Expression l 1 1 m l expr=[@0] #m=(2,4)bool\nTensor.index_put p {n} 1 c l {values} accumulate=False"
EQUAL = PUT.format(n=2, values="y") + " values=1.0 $input=c $indices=l #y=(2,4)f32"
TAKEN = "Tensor.index t 2 1 x l t $input=x $expr=l #x=(2,4)f32 #t=(8)f32\n"
MANY = (
    PUT.replace("\n", "\n" + TAKEN).format(n=3, values="t y") + " $input=c $indices=l $values=t #t=(8)f32 #y=(2,4)f32"
)
MORE = MANY.replace("2 1 x l t $input=x $expr=l #x=(2,4)f32", "2 1 c l k $input=c $expr=l #k=(8)f32").replace(
    "#t=(8)f32\n", "\npnnx.Expression e 1 1 k t expr=add(@0,1) #k=(8)f32 #t=(8)f32\n"
)
TRUTH = "aten::__i{name}__ w 2 1 c m y #c=(2,4)bool #m=(2,4)bool #y=(2,4)bool"
NOT = "torch.logical_not n 1 1 m n $input=m #m=(2,4)bool #n=(2,4)bool\n"
PART = """Tensor.clone k 1 1 c k #c=(2,5)f32 #k=(2,5)f32
Tensor.slice v 1 1 c v dim=1 start=1 end=2147483647 step=1 $input=c #c=(2,5)f32 #v=(2,4)f32
Tensor.masked_fill f 2 1 v m f value=3.0 $input=v $mask=m #v=(2,4)f32 #m=(2,4)bool #f=(2,4)f32
Tensor.slice_copy s 2 1 k f y dim=1 start=1 end=2147483647 step=1 $self=k $src=f #k=(2,5)f32 #f=(2,4)f32 #y=(2,5)f32"""
LENGTHS = """pnnx.Attribute r 0 1 r @data=(1,4)f32 #r=(1,4)f32
torch.ge g 2 1 r x g $input=r $other=x #r=(1,4)f32 #x=(2,4)f32 #g=(2,4)bool
""" + FILL.replace(" m ", " g ").replace("=m", "=g").replace("#m", "#g")
LAYER = """
nn.MultiheadAttention a 2 1 x y z add_bias_kv=False add_zero_attn=False batch_first=True bias=True embed_dim=4 kdim=4 \
num_heads=1 vdim=4 @in_proj_bias=(12)f32 @in_proj_weight=(12,4)f32 @out_proj.bias=(4)f32 @out_proj.weight=(4,4)f32 \
$attn_mask=y #y=({batch},4)f32 #z=({batch},4,4)f32"""
M = np.array([[0, 0, 0, 1], [0, 1, 0, 0]], bool)
X = np.array([[1, 2, 3, 4], [4, 3, 2, 1]], np.float32)


def ask(lines: str, constant: Any, told: bool) -> np.ndarray:
    """The result of a graph with a constant; ``told`` says whether its loading warns."""
    constant = np.asarray(constant)
    dtype = {"f": "f32", "b": "bool"}[constant.dtype.kind]
    shape = ",".join(map(str, constant.shape))
    count = lines.count("\n") + 5
    graph = pnnx_fast.Graph.parse(HEAD.format(count=count, lines=lines, batch=2, shape=shape, dtype=dtype))
    values = {"pnnx_fold_c": constant.astype(dtype.replace("f32", "float32")), "r": np.float32([[0, 1, 2, 3]])}
    for op in graph.ops:
        if op.type == "pnnx.Attribute":
            op.attrs["data"] = pnnx_fast.Attribute(values[op.name])
    with pytest.warns(UserWarning, match="into the constant pnnx_fold_c") if told else nullcontext(warnings):
        warnings.simplefilter("always" if told else "error")
        model = pnnx_fast.Model(graph)
    return np.asarray(model(X, M))


def full(value: float | bool) -> np.ndarray:
    return np.full((2, 4), value)


@pytest.mark.parametrize(
    ("lines", "constant", "want"),
    [
        (FILL.format(value="-inf"), full(-INF), np.where(M, -INF, 0)),
        (MORE, full(2.0), 1 + M),
        (PART, [[7.0, 3, 3, 3, 3]] * 2, np.insert(np.where(M, 3, 7), 0, 7, 1)),
        (LENGTHS.format(value=-1e4), [[0, -1e4, -1e4, -1e4]] * 2, np.where(np.arange(4) >= X, -1e4, 0)),
        (TRUTH.format(name="or"), [[True, False, True, False]] * 2, None),
    ],
    ids=["zeros of a mask", "sums at places of a mask", "a part", "a mask that has both", "what the run does not tell"],
)
def test_what_a_mask_was_written_to_becomes_what_it_was(lines: str, constant: Any, want: Any) -> None:
    got = ask(lines, constant, want is None)
    np.testing.assert_array_equal(got, constant | M if want is None else want)


@pytest.mark.parametrize(
    ("lines", "constant"),
    [
        (FILL.format(value=-3.0), full(-3.0)),
        (FILL.format(value=-3.0), [[-3.0, 1, 1, 1], [1, 1, 1, 1]]),
        (FILL.format(value="-inf"), [[0, 0, 0, -INF], [0, 0, -INF, -INF]]),
        (EQUAL, full(1.0)),
        (MANY, full(1.0)),
        (MANY, full(2.0)),
        (TRUTH.format(name="or"), full(True)),
        (NOT + TRUTH.format(name="and").replace(" m ", " n ").replace("#m", "#n"), full(False)),
    ],
)
def test_what_a_mask_may_have_been_written_to_is_told(lines: str, constant: Any) -> None:
    ask(lines, constant, True)


LATER = np.where(np.triu(np.ones((4, 4)), 1) > 0, -INF, 0)
ROW = """Tensor.select s 1 1 m s dim=0 index=0 $input=m #m=(2,4)bool #s=(4)bool
torch.unsqueeze u 1 1 s u dim=0 $input=s #s=(4)bool #u=(1,4)bool
"""
OVER = "Tensor.masked_fill f 2 1 c {mask} y value={value} $input=c $mask={mask} #c=(4,4)f32 #y=({shape})f32"
WIDE = "Tensor.expand w 1 1 u w sizes=(4,4) $input=u #u=(1,4)bool #w=(4,4)bool\n"
EACH = "torch.unsqueeze e 1 1 m e dim=1 $input=m #m=(2,4)bool #e=(2,1,4)bool\n"
OWN = """pnnx.Expression a 2 1 c u a expr=add(@0,@1) #c=(4,4)f32 #u=(1,4)bool #a=(4,4)f32
torch.eq q 1 1 a q other=1 $input=a #a=(4,4)f32 #q=(4,4)bool
"""


@pytest.mark.parametrize(
    ("lines", "mask"),
    [
        (ROW + OVER.format(mask="u", value="-inf", shape="4,4"), M[0]),
        (ROW + WIDE + OVER.format(mask="w", value="-inf", shape="4,4"), M[0]),
        (EACH + OVER.format(mask="e", value="-inf", shape="2,4,4"), M[:, None]),
        (ROW + OWN + OVER.format(mask="q", value="-inf", shape="4,4"), (LATER == 0) & M[0]),
        (ROW + OVER.format(mask="u", value=-9.0, shape="4,4"), M[0]),
    ],
    ids=["a row for all", "widened", "for each batch", "made of the constant", "another value"],
)
def test_masks_of_attention_that_others_are_written_to_stay(lines: str, mask: np.ndarray) -> None:
    value = -9 if "-9" in lines else -INF
    np.testing.assert_array_equal(ask(lines, LATER, False), np.where(mask, value, LATER))


@pytest.mark.parametrize("name", ["or", "and"])
def test_truths_that_the_run_left_alone_stay(name: str) -> None:
    lines = """torch.{not}_equal g 1 1 x g {key}=1.0 $input=x #x=(2,4)f32 #g=(2,4)bool
aten::__i{name}__ w 2 1 c g y #c=(2,4)bool #g=(2,4)bool #y=(2,4)bool"""
    kind = "torch.ne" if name == "or" else "torch.eq"  # of ones: no truth, or all
    lines = lines.replace("torch.{not}_equal", kind).replace("{key}", "other").format(name=name)
    constant, mask = np.array([[True, False, True, False]] * 2), (X != 1) if name == "or" else (X == 1)
    np.testing.assert_array_equal(ask(lines, constant, False), constant | mask if name == "or" else constant & mask)


@pytest.mark.parametrize(("batch", "told"), [(2, False), (4, True)])
def test_padding_of_other_inputs_than_ones_is_told_from_masks_of_later_positions(batch: int, told: bool) -> None:
    lines = (FILL.format(value="-inf") + LAYER).replace("(2,4)", "({batch},4)").format(batch=batch)
    text = HEAD.format(count=6, lines=lines, batch=batch, shape=f"{batch},4", dtype="f32").replace("o 1 0 y", "o 1 0 z")
    graph = pnnx_fast.Graph.parse(text.replace(f"#x=({batch},4)", f"#x=({batch},4,4)"))
    for op in graph.ops:
        for key, held in op.attrs.items():
            op.attrs[key] = pnnx_fast.Attribute(np.zeros(held.shape, np.float32))
    constant = next(op for op in graph.ops if op.type == "pnnx.Attribute")
    constant.attrs["data"] = pnnx_fast.Attribute(np.float32([[0, 0, -INF, -INF]] * batch))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = pnnx_fast.Model(graph)
    assert ["into the constant pnnx_fold_c" in str(w.message) for w in caught] == [True] * told
    held = next(op for op in model.graph.ops if op.type == "pnnx.Attribute").attrs["data"].numpy()
    assert np.isinf(held).any() == told


def test_python_source_starts_with_the_zeros_of_a_mask(tmp_path: Path) -> None:
    text = HEAD.format(count=5, lines=FILL.format(value="-inf"), batch=2, shape="2,4", dtype="f32")
    graph = pnnx_fast.Graph.parse(text)
    constant = next(op for op in graph.ops if op.type == "pnnx.Attribute")
    constant.attrs["data"] = pnnx_fast.Attribute(full(-INF).astype(np.float32))
    graph.python(tmp_path / "a.py")
    assert "torch.full((2, 4), 0.0" in (tmp_path / "a.py").read_text()


@pytest.mark.parametrize("level", [1, 2])
def test_a_truth_value_that_the_file_does_not_hold_is_told(level: int) -> None:
    lines = PUT.format(n=2, values="y").replace(" c l ", " g l ") + " values=None $input=g $indices=l #y=(2,4)bool"
    if level == 1:
        lines = "pnnx.Expression n 0 1 n expr=None\n" + lines.replace(" 2 1 g l ", " 3 1 g l n ")
        lines = lines.replace("values=None", "$values=n")
    lines = "torch.gt g 1 1 x g other=2.5 $input=x #x=(2,4)f32 #g=(2,4)bool\n" + lines
    text = HEAD.format(count=lines.count("\n") + 5, lines=lines, batch=2, shape="2,4", dtype="f32")
    with pytest.warns(UserWarning, match=r"index_put p writes a truth value that the file does not tell"):
        pnnx_fast.Model(_with_zeros(pnnx_fast.Graph.parse(text)))


def _with_zeros(graph: pnnx_fast.Graph) -> pnnx_fast.Graph:
    for op in graph.ops:
        op.attrs = {key: np.zeros(attr.shape, np.float32) for key, attr in op.attrs.items()}
    return graph


@pytest.mark.parametrize("gradients", [False, True])
def test_padding_of_a_transformer_of_the_converter_is_as_in_torch(tmp_path: Path, gradients: bool) -> None:
    torch: Any = pytest.importorskip("torch")
    pnnx: Any = pytest.importorskip("pnnx")
    layer = torch.nn.TransformerEncoderLayer(16, 4, 32, batch_first=True)

    class Network(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.layers = torch.nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)

        def forward(self, x: Any, left_out: Any) -> Any:
            return self.layers(x, src_key_padding_mask=left_out > 0)

    network, x = Network().eval(), torch.randn(2, 6, 16)
    left_out = torch.tensor([[0, 0, 0, 0, 1, 1], [0, 0, 1, 1, 1, 1]])
    # Gradients decide over the operators of the trace, and the converter imports the source that it writes.
    with torch.set_grad_enabled(gradients), warnings.catch_warnings(), suppress(SyntaxError):
        warnings.simplefilter("ignore")
        pnnx.export(network, str(tmp_path / "t.pt"), (x, left_out), check_trace=False, fp16=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        got = np.asarray(pnnx_fast.load(tmp_path / "t.pnnx.param")(x.numpy(), left_out.numpy()))
    np.testing.assert_allclose(got, network(x, left_out).detach().numpy(), 1e-4, 1e-4)
