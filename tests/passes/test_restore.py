"""Passes that say what the converter left unsaid: writes into views, roles of outputs, lost result types."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pnnx_fast
from pnnx_fast import passes
from pnnx_fast.ir.notes import recurrent_roles

RNG = np.random.default_rng(0)


def operator(graph: pnnx_fast.Graph, name: str) -> pnnx_fast.Operator:
    return next(op for op in graph.ops if op.name == name)


def graph_of(text: str, **weights: np.ndarray) -> pnnx_fast.Graph:
    lines = text.strip().splitlines()
    graph = pnnx_fast.Graph.parse("\n".join(["7767517", f"{len(lines)} {len(lines)}", *lines]) + "\n")
    for key, value in weights.items():
        name, _, attribute = key.partition("__")
        operator(graph, name).attrs[attribute] = pnnx_fast.Attribute(value)
    return graph


WRITE = """
pnnx.Input x 0 1 x #x=(3,4)f32
pnnx.Expression c0 0 1 i expr=1
pnnx.Expression c1 0 1 zero expr=0
Tensor.select row 3 1 x zero i view $input=x $dim=zero $index=i #view=(4)f32
pnnx.Expression twice 1 1 view new expr=mul(@0,2) #new=(4)f32
Tensor.copy copy 2 1 view new y $self=view $src=new #view=(4)f32 #new=(4)f32 #y=(3,4)f32
pnnx.Output o 1 0 y
"""


@pytest.mark.parametrize("optimize", [True, False])
def test_a_write_into_a_view_gives_the_whole_tensor(optimize: bool) -> None:
    x = RNG.standard_normal((3, 4)).astype(np.float32)
    want = x.copy()
    want[1] *= 2
    model = pnnx_fast.Model(graph_of(WRITE), optimize=optimize)
    assert {"fused.Dense", "fused.WriteView"} <= {op.type for op in model.graph.ops}
    np.testing.assert_array_equal(model(x), want)
    np.testing.assert_array_equal(model(x), want)


def test_a_write_of_what_the_file_does_not_tell_is_named() -> None:
    with pytest.raises(pnnx_fast.errors.ParameterError, match="the file does not tell what is written"):
        pnnx_fast.Model(graph_of(WRITE.replace("1 1 view new expr=mul(@0,2)", "0 1 new expr=None")))(
            RNG.random((3, 4), np.float32)
        )


def test_a_write_into_a_part_whose_copy_the_converter_dropped_leaves_the_rest_as_it_was() -> None:
    text = """
pnnx.Input x 0 1 x #x=(2,6)f32
Tensor.slice half 1 1 x half dim=1 end=4 start=0 step=1 $input=x #half=(2,4)f32
Tensor.slice part 1 1 half part dim=1 end=4 start=2 step=1 $input=half #part=(2,2)f32
pnnx.Expression twice 1 1 part new expr=mul(@0,2) #new=(2,2)f32
Tensor.copy copy 2 1 part new y $self=part $src=new #y=(2,4)f32
pnnx.Output o 1 0 y
"""
    x = RNG.standard_normal((2, 6)).astype(np.float32)
    want = x[:, :4].copy()
    want[:, 2:] *= 2
    np.testing.assert_array_equal(pnnx_fast.Model(graph_of(text))(x), want)


def test_a_write_into_a_view_of_a_strided_tensor() -> None:
    text = WRITE.replace("Tensor.select row", "Tensor.permute t 1 1 x xt dims=(1,0) $input=x\nTensor.select row")
    text = text.replace("3 1 x zero i view $input=x", "3 1 xt zero i view $input=xt")
    x = RNG.standard_normal((4, 3)).astype(np.float32)
    want = x.T.copy()
    want[1] *= 2
    text = text.replace("pnnx.Input x 0 1 x #x=(3,4)f32", "pnnx.Input x 0 1 x #x=(4,3)f32")
    np.testing.assert_array_equal(pnnx_fast.Model(graph_of(text))(x), want)


def recurrent(outputs: str, notes: str, **more: object) -> pnnx_fast.Graph:
    names = outputs.split()
    params = " ".join(f"{k}={v}" for k, v in more.items())
    lines = [
        "pnnx.Input x 0 1 x #x=(5,2,4)f32",
        f"nn.LSTM l 1 {len(names)} x {outputs} input_size=4 hidden_size=3 num_layers=1 bias=False {params} {notes}",
        *(f"pnnx.Output o{i} 1 0 {name}" for i, name in enumerate(names)),
    ]
    weights = {f"weight_{k}_l0": np.random.default_rng(1).standard_normal((12, n)) for k, n in (("ih", 4), ("hh", 3))}
    return graph_of("\n".join(lines), **{f"l__{k}": v.astype(np.float32) for k, v in weights.items()})


@pytest.mark.parametrize("noted", [True, False])
def test_indices_of_poolings_that_nobody_reads(noted: bool) -> None:
    """At the lowest level a module has one output: what it returns, or the half of it that is read."""
    window = "kernel_size=(2,2) stride=(2,2) padding=(0,0) dilation=(1,1) ceil_mode=False return_indices=True"
    note, after = (" #p=(1,2,2,2)f32", "F.relu r 1 1 p y") if noted else ("", "prim::TupleUnpack u 1 2 p y i")
    graph = graph_of(f"""
pnnx.Input x 0 1 x #x=(1,2,4,4)f32
nn.MaxPool2d pool 1 1 x p {window}{note}
{after}
pnnx.Output o 1 0 y
""")
    x = RNG.random((1, 2, 4, 4), np.float32)
    np.testing.assert_array_equal(pnnx_fast.Model(graph)(x), x.reshape(1, 2, 2, 2, 2, 2).max((3, 5)))


def test_outputs_of_recurrent_layers_are_told_apart_by_their_shapes() -> None:
    x = RNG.standard_normal((5, 2, 4)).astype(np.float32)
    y, h, c = pnnx_fast.Model(recurrent("y h c", "#y=(5,2,3)f32 #h=(1,2,3)f32 #c=(1,2,3)f32"))(x)
    np.testing.assert_array_equal(y[-1], h[0])
    rotated = pnnx_fast.Model(recurrent("h c y", "#y=(5,2,3)f32 #h=(1,2,3)f32 #c=(1,2,3)f32"))(x)
    for got, want in zip(rotated, (h, c, y), strict=True):
        np.testing.assert_array_equal(got, want)
    for got, want in zip(pnnx_fast.Model(recurrent("h c", "#h=(1,2,3)f32 #c=(1,2,3)f32"))(x), (h, c), strict=True):
        np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(pnnx_fast.Model(recurrent("h", "#h=(1,2,3)f32"))(x), h)
    np.testing.assert_array_equal(pnnx_fast.Model(recurrent("y", "#y=(5,2,3)f32"))(x), y)
    marked = recurrent("h c y", "#y=(5,2,3)f32 #h=(1,2,3)f32 #c=(1,2,3)f32", pnnx_rnn_output_swapped=1)
    np.testing.assert_array_equal(pnnx_fast.Model(marked)(x)[2], y)


@pytest.mark.parametrize("length", [5, 1])
@pytest.mark.parametrize("names", ["h c y", "h c"])
def test_states_of_a_sequence_without_a_batch_are_unpacked_in_front(length: int, names: str) -> None:
    outputs = names.split()
    shapes = {"y": f"({length},3)f32", "h": "(1,3)f32", "c": "(1,3)f32"}
    lines = [
        f"pnnx.Input x 0 1 x #x=({length},4)f32",
        "nn.LSTM l 1 1 x t input_size=4 hidden_size=3 num_layers=1 bias=False",
        f"prim::TupleUnpack u 1 {len(outputs)} t {names} " + " ".join(f"#{n}={shapes[n]}" for n in outputs),
        *(f"pnnx.Output o{i} 1 0 {name}" for i, name in enumerate(outputs)),
    ]
    weights = {f"weight_{k}_l0": np.random.default_rng(1).standard_normal((12, n)) for k, n in (("ih", 4), ("hh", 3))}
    graph = graph_of("\n".join(lines), **{f"l__{k}": v.astype(np.float32) for k, v in weights.items()})
    x = RNG.standard_normal((length, 4)).astype(np.float32)
    whole = recurrent("y h c", "#h=(1,2,3)f32")
    wanted = dict(zip("yhc", (v[:, 0] for v in pnnx_fast.Model(whole)(np.stack([x, x], 1))), strict=True))
    for got, name in zip(pnnx_fast.Model(graph)(x), outputs, strict=True):
        np.testing.assert_allclose(got, wanted[name], 1e-5, 1e-6)


@pytest.mark.parametrize("handed_out", [True, False])
@pytest.mark.parametrize("names", ["y c h", "h y c", "c y h", "c h y", "h c y", "c h", "h c"])
def test_states_of_two_sizes_may_be_used_in_any_order(names: str, handed_out: bool) -> None:
    shapes = {"y": "(5,2,2)f32", "h": "(1,2,2)f32", "c": "(1,2,3)f32"}
    sizes = {"ih": (12, 4), "hh": (12, 2), "hr": (2, 3)}
    weights = {f"l__weight_{k}_l0": np.random.default_rng(1).random(n, np.float32) for k, n in sizes.items()}

    def run(names: str, handed_out: bool) -> dict[str, np.ndarray]:
        outputs = names.split()
        notes, count = " ".join(f"#{n}={shapes[n]}" for n in outputs), len(outputs)
        fields = "input_size=4 hidden_size=3 num_layers=1 proj_size=2 bias=False"
        if handed_out:
            lines = [f"nn.LSTM l 1 1 x t {fields}", f"prim::TupleUnpack u 1 {count} t {names} {notes}"]
        else:
            lines = [f"nn.LSTM l 1 {count} x {names} {fields} {notes}"]
        ends = [f"pnnx.Output o{i} 1 0 {name}" for i, name in enumerate(outputs)]
        graph = graph_of("\n".join(["pnnx.Input x 0 1 x #x=(5,2,4)f32", *lines, *ends]), **weights)
        x = np.random.default_rng(2).standard_normal((5, 2, 4)).astype(np.float32)
        return dict(zip(outputs, pnnx_fast.Model(graph)(x), strict=True))

    usual = run("y h c", False)
    for name, got in run(names, handed_out).items():
        np.testing.assert_array_equal(got, usual[name])


def attention(inputs: str, outputs: str, notes: str) -> pnnx_fast.Graph:
    wires, names = inputs.split(), outputs.split()
    rng = np.random.default_rng(2)
    given = {"x": "(5,2,4)f32", "m": "(5,5)bool", "p": "(2,5)bool"}
    notes += "".join(f" #{k}={given[k]}" for k in wires)
    lines = [
        *(f"pnnx.Input i{k} 0 1 {k} #{k}={v}" for k, v in given.items() if k in wires),
        f"nn.MultiheadAttention a {len(wires)} {len(names)} {inputs} {outputs} embed_dim=4 num_heads=2 {notes}",
        *(f"pnnx.Output o{i} 1 0 {name}" for i, name in enumerate(names)),
    ]
    weights = {"in_proj_weight": (12, 4), "in_proj_bias": (12,), "out_proj.weight": (4, 4), "out_proj.bias": (4,)}
    return graph_of("\n".join(lines), **{f"a__{k}": rng.standard_normal(s).astype("f4") for k, s in weights.items()})


@pytest.mark.parametrize(("noted", "sizes"), [("(2,2,5,5)", (2, 2, 5, 5)), ("(2,5,5)", (2, 5, 5))])
def test_weights_of_all_heads_are_told_by_what_a_tuple_holds(noted: str, sizes: tuple[int, ...]) -> None:
    graph = attention("x", "t", "")
    made = [graph.new_operand(name) for name in "yw"]
    made[0].shape, made[1].shape = (5, 2, 4), sizes
    tuple_of_both = graph.get_operand("t")
    assert tuple_of_both is not None
    graph.remove_operator(tuple_of_both.consumers[0])
    graph.new_operator("prim::TupleUnpack", "u", inputs=[tuple_of_both], outputs=made)
    for operand in made:
        graph.new_operator("pnnx.Output", f"o{operand.name}", inputs=[operand])
    x = RNG.standard_normal((5, 2, 4)).astype(np.float32)
    got = pnnx_fast.Model(graph)(x)
    want = pnnx_fast.Model(attention("x", "y w", f"#x=(5,2,4)f32 #y=(5,2,4)f32 #w={noted}f32"))(x)
    assert got[1].shape == sizes
    for g, w in zip(got, want, strict=True):
        np.testing.assert_allclose(g, w, 1e-5, 1e-6)


def test_masks_and_weights_of_attention_find_their_slots() -> None:
    x = RNG.standard_normal((5, 2, 4)).astype(np.float32)
    mask = np.triu(np.ones((5, 5), bool), 1)
    plain = attention("x m", "y w", "$attn_mask=m #y=(5,2,4)f32 #w=(2,5,5)f32")
    y, w = pnnx_fast.Model(plain)(x, mask)
    first = pnnx_fast.Model(attention("m x", "y w", "#y=(5,2,4)f32 #w=(2,5,5)f32"))
    by_name = {i.name: a for i, a in zip(first.inputs, (x, mask), strict=True)}
    for got, want in zip(first(*(by_name[i.name] for i in first.inputs)), (y, w), strict=True):
        np.testing.assert_allclose(got, want, 1e-6)
    alone = pnnx_fast.Model(attention("x m", "w", "$attn_mask=m #w=(2,5,5)f32"))(x, mask)
    np.testing.assert_allclose(alone, w, 1e-6)
    each = pnnx_fast.Model(attention("x m", "w", "$attn_mask=m #w=(2,2,5,5)f32"))(x, mask)
    np.testing.assert_allclose(each.mean(1), w, 1e-5, 1e-6)
    swapped = pnnx_fast.Model(attention("m x", "w y", "#y=(5,2,4)f32 #w=(2,2,5,5)f32"))
    each_first = swapped(*({"m": mask, "x": x}[i.name] for i in swapped.graph.inputs))
    np.testing.assert_allclose(each_first[0], each, 1e-6)
    np.testing.assert_allclose(each_first[1], y, 1e-6)
    hidden = np.zeros((2, 5), bool)
    hidden[:, 3:] = True
    padded = pnnx_fast.Model(attention("x p", "y w", "#y=(5,2,4)f32 #w=(2,5,5)f32"))(x, hidden)
    assert not padded[1][:, :, 3:].any()
    np.testing.assert_allclose(padded[1].sum(-1), 1, 1e-5)
    added = attention("x p", "y w", "$attn_mask=p #y=(5,2,4)f32 #w=(2,5,5)f32")
    for got, want in zip(pnnx_fast.Model(added)(x, hidden), padded, strict=True):
        np.testing.assert_allclose(got, want, 1e-6)


def test_masks_of_a_function_made_a_module_keep_their_meaning() -> None:
    x = RNG.standard_normal((5, 2, 4)).astype(np.float32)
    hidden = np.triu(np.ones((5, 5), bool), 1)
    want = pnnx_fast.Model(attention("x m", "y", "$attn_mask=m #y=(5,2,4)f32"))(x, hidden)
    graph = attention("x m", "y", "$attn_mask=m #y=(5,2,4)f32")
    module, mask = operator(graph, "a"), graph.get_operand("m")
    assert mask is not None
    flat = graph.new_operand("flat")
    wiring = {"inputs": [mask], "inputnames": ["attn_mask"], "outputs": [flat], "params": {"shape": [5, 5]}}
    graph.new_operator_before("Tensor.reshape", "r", module, **wiring)
    module.set_input(1, flat)
    np.testing.assert_array_equal(pnnx_fast.Model(graph)(x, ~hidden), want)


@pytest.mark.parametrize("lead", [(2, 1), (1, 2), (2, 2)])
def test_masks_that_differ_between_rows_keep_them(tmp_path: Path, lead: tuple[int, int]) -> None:
    x = RNG.standard_normal((5, 2, 4)).astype(np.float32)
    seen = np.tril(RNG.random((*lead, 5, 5)) < 0.7) | np.eye(5, dtype=bool)
    hidden = np.broadcast_to(~seen, (2, 2, 5, 5)).reshape(4, 5, 5)
    graph = attention("x m", "y", "$attn_mask=m #y=(5,2,4)f32")
    module, mask = operator(graph, "a"), graph.get_operand("m")
    assert mask is not None
    mask.shape = hidden.shape
    want = pnnx_fast.Model(graph.copy())(x, hidden)
    mask.shape, mask.dtype = seen.shape, "bool"
    flat = graph.new_operand("flat")
    wiring = {"inputs": [mask], "inputnames": ["attn_mask"], "outputs": [flat], "params": {"shape": [5, 5]}}
    graph.new_operator_before("Tensor.reshape", "r", module, **wiring)
    module.set_input(1, flat)
    graph.python(tmp_path / "model.py")
    source = (tmp_path / "model.py").read_text()
    assert "= v_m.expand(2, 2, 5, 5)" in source
    assert ".reshape(4, 5, 5)" in source
    np.testing.assert_array_equal(pnnx_fast.Model(graph)(x, seen), want)


def test_lost_result_types_come_back() -> None:
    text = """
pnnx.Input x 0 1 x #x=(3,4)f32
torch.sum s 1 1 x y dim=(1) keepdim=False $input=x #x=(3,4)f32 #y=(3)f64
pnnx.Output o 1 0 y
"""
    graph = graph_of(text)
    passes.restore(graph)
    assert operator(graph, "s").params["dtype"].value == "torch.double"
    assert pnnx_fast.Model(graph_of(text))(np.ones((3, 4), np.float32)).dtype == np.float64
    kept = graph_of(text.replace("f64", "f32"))
    passes.restore(kept)
    assert "dtype" not in operator(kept, "s").params


def test_quotients_noted_as_integers_are_rounded_down() -> None:
    text = """
    pnnx.Input x 0 1 x #x=(4)i64
    pnnx.Expression e 1 1 x y expr=sub(@0,mul(div(@0,3),2)) #x=(4)i64 #y=(4)i64
    pnnx.Expression f 1 1 x z expr=div(@0,3) #x=(4)i64 #z=(4)f32
    pnnx.Output p 1 0 y
    pnnx.Output q 1 0 z
    """
    x = np.array([7, 5, -4, 0])
    y, z = pnnx_fast.Model(graph_of(text))(x)
    assert y.dtype == np.int64
    np.testing.assert_array_equal(y, x - x // 3 * 2)
    np.testing.assert_allclose(z, x.astype(np.float32) / 3, rtol=1e-6)


@pytest.mark.parametrize(
    ("expression", "want"),
    [
        ("torch.long(mul(div(@0,4),2))", [1, -1, 2, 3, 0]),
        ("mul(gt(div(@0,2),1),@0)", [3, 0, 5, 7, 0]),
        ("where(gt(div(@0,2),1),@0,@1)", [3, 2, 5, 7, 2]),
    ],
)
def test_quotients_on_the_way_to_integers_are_not_rounded(expression: str, want: list[int]) -> None:
    """What fusing joins, when the graph of a model is loaded again, and what people write."""
    text = f"""
    pnnx.Input x 0 1 x #x=(5)i64
    pnnx.Input y 0 1 y #y=(5)i64
    pnnx.Expression e 2 1 x y z expr={expression} #x=(5)i64 #y=(5)i64 #z=(5)i64
    pnnx.Output p 1 0 z
    """
    arrays = np.array([3, -3, 5, 7, 1]), np.full(5, 2)
    assert pnnx_fast.Model(graph_of(text))(*arrays).tolist() == want


@pytest.mark.parametrize(("noted", "dtype"), [("f32", np.float32), ("i64", np.int64), ("bool", np.bool_)])
def test_comparisons_in_place_keep_the_type_of_their_tensor(tmp_path: Path, noted: str, dtype: Any) -> None:
    text = f"""
    pnnx.Input x 0 1 x #x=(2,3){noted}
    pnnx.Input y 0 1 y #y=(2,3){noted}
    torch.lt a 2 1 x y u $input=x $other=y #x=(2,3){noted} #y=(2,3){noted} #u=(2,3){noted}
    torch.ge b 1 1 u v other=1 $input=u #u=(2,3){noted} #v=(2,3)bool
    torch.logical_not c 1 1 x w $input=x #x=(2,3){noted} #w=(2,3){noted}
    pnnx.Output p 3 0 u v w
    """
    x, y = np.asarray([[0, 1, 2], [2, 1, 0]], dtype), np.asarray([[1, 1, 1], [1, 1, 1]], dtype)
    u, v, w = pnnx_fast.Model(graph_of(text))(x, y)
    assert (u.dtype, v.dtype, w.dtype) == (dtype, np.bool_, dtype)
    for got, want in ((u, x < y), (v, x < y), (w, x == 0)):
        np.testing.assert_array_equal(got, want)
    graph_of(text).python(tmp_path / "model.py")
    source = (tmp_path / "model.py").read_text()
    assert source.count(").to(torch.") == (0 if noted == "bool" else 2)


@pytest.mark.parametrize("spelled", ["inf", "-inf", "nan", "-nan", "nan.0", "-nan.0"])
def test_numbers_that_are_none_are_read_as_the_converter_spells_them(spelled: str) -> None:
    text = f"""
    pnnx.Input x 0 1 x #x=(2)f32
    prim::Constant c 0 1 c value={spelled}
    torch.full_like a 2 1 x c u dtype=None $input=x $fill_value=c
    torch.full_like b 1 1 x v dtype=None fill_value={spelled} $input=x
    F.pad p 1 1 x w mode=constant pad=(1,0) value={spelled} $input=x
    aten::fill d 2 1 x c y
    torch.maximum f 2 1 x v z $input=x $other=v
    pnnx.Output o 5 0 u v w y z
    """
    x, number = np.float32([1, 2]), np.float32(spelled.removesuffix(".0"))
    found = pnnx_fast.Model(graph_of(text))(x)
    expected = [np.full(2, number)] * 2 + [np.float32([number, 1, 2]), np.full(2, number), np.maximum(x, number)]
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_array_equal(a, b)


def test_casts_of_sizes_are_whole(tmp_path: Path) -> None:
    text = """
    pnnx.Input x 0 1 x #x=(?,4,?,?)f32
    pnnx.Expression e 1 1 x s expr=[int(torch.int),floor(div(size(@0,2),2.0)),int(torch.int),ceil(div(size(@0,3),2.0))]
    F.interpolate f 2 1 x s y mode=nearest $input=x $size=s #x=(?,4,?,?)f32 #y=(?,4,?,?)f32
    pnnx.Output o 1 0 y
    """
    for shape in ((1, 4, 7, 9), (2, 4, 10, 3)):
        y = pnnx_fast.Model(graph_of(text))(np.zeros(shape, np.float32))
        assert y.shape[2:] == (shape[2] // 2, -(-shape[3] // 2))
    graph_of(text).python(tmp_path / "model.py")
    assert "[int(torch.int)" not in (tmp_path / "model.py").read_text()


def test_sizes_that_were_tensors_on_the_way_are_numbers_again() -> None:
    text = """
    pnnx.Input x 0 1 x #x=(?,4,?,?)f32
    pnnx.Expression a 1 1 x a expr=mul(div(size(@0,3),size(@0,2)),7)
    torch.clamp c 1 1 a c max=8 min=None $input=a
    Tensor.to t 1 1 c t copy=False dtype=torch.int $input=c
    pnnx.Expression e 2 1 x t s expr=[size(@0,2),int(@1)]
    F.interpolate f 2 1 x s y mode=nearest $input=x $size=s #x=(?,4,?,?)f32 #y=(?,4,?,?)f32
    pnnx.Output o 1 0 y
    """
    for (h, w), width in (((12, 16), 8), ((20, 10), 3)):
        assert pnnx_fast.Model(graph_of(text))(np.zeros((1, 4, h, w), np.float32)).shape == (1, 4, h, width)


@pytest.mark.parametrize(("noted", "divide"), [("i64", np.floor_divide), ("f32", np.true_divide)])
def test_quotients_by_sizes_are_rounded_down_whatever_the_sizes_are_of(noted: str, divide: Any) -> None:
    text = f"""
    pnnx.Input x 0 1 x #x=(4)i64
    pnnx.Input h 0 1 h #h=(2,?)f32
    pnnx.Expression e 2 1 x h y expr=div(@0,size(@1,1)) #x=(4)i64 #h=(2,?)f32 #y=(4){noted}
    pnnx.Output p 1 0 y
    """
    x = np.array([7, 5, -4, 0])
    y = pnnx_fast.Model(graph_of(text))(x, np.zeros((2, 3), np.float32))
    assert y.dtype == (np.int64 if noted == "i64" else np.float32)
    np.testing.assert_allclose(y, divide(x, 3), rtol=1e-6)


def test_weights_among_the_inputs_of_a_shared_module_are_dropped() -> None:
    text = """
pnnx.Input in 0 1 x #x=(2,3)f32
pnnx.Attribute w 0 1 w @data=(4,3)f32 #w=(4,3)f32
pnnx.Attribute b 0 1 b @data=(4)f32 #b=(4)f32
nn.Linear l 3 1 w b x y bias=True in_features=3 out_features=4 @weight=(4,3)f32 @bias=(4)f32 #y=(2,4)f32
pnnx.Output out 1 0 y
"""
    weight, bias = RNG.standard_normal((4, 3), np.float32), RNG.standard_normal(4, np.float32)
    graph = graph_of(text, w__data=weight, b__data=bias, l__weight=weight, l__bias=bias)
    x = RNG.standard_normal((2, 3), np.float32)
    np.testing.assert_allclose(pnnx_fast.Model(graph)(x), x @ weight.T + bias, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("optimize", [True, False])
def test_a_write_into_a_slice_whose_place_is_computed(optimize: bool) -> None:
    graph = pnnx_fast.Graph.parse(
        """7767517
9 9
pnnx.Input a 0 1 x #x=(4,5)f32
pnnx.Input b 0 1 k #k=()i64
pnnx.Input c 0 1 v #v=(3)f32
prim::Constant d 0 1 one value=1
aten::Int e 1 1 k n
Tensor.slice f 1 1 x s dim=0 start=1 end=4 step=1 $input=x #x=(4,5)f32 #s=(3,5)f32
Tensor.select g 3 1 s one n p $input=s $dim=one $index=n #s=(3,5)f32 #p=(3)f32
Tensor.copy h 2 1 p v y $self=p $src=v #p=(3)f32 #v=(3)f32 #y=(4,5)f32
pnnx.Output o 1 0 y
"""
    )
    model = pnnx_fast.Model(graph, num_threads=1, optimize=optimize)
    x, v = np.arange(20, dtype=np.float32).reshape(4, 5), np.float32([-1, -2, -3])
    for k in (0, 3, -1):
        wanted = x.copy()
        wanted[1:4, k] = v
        np.testing.assert_array_equal(model(x, np.int64(k), v), wanted)


def test_results_keep_their_order_when_shapes_are_inferred() -> None:
    x = RNG.standard_normal((5, 2, 4)).astype(np.float32)
    graph = recurrent("h c y", "#y=(5,2,3)f32 #h=(1,2,3)f32 #c=(1,2,3)f32")
    want = pnnx_fast.Model(graph.copy())(x)
    graph.infer_shapes()
    assert [operand.shape for operand in graph.operands] == [(5, 2, 4), (1, 2, 3), (1, 2, 3), (5, 2, 3)]
    for got, value in zip(pnnx_fast.Model(graph)(x), want, strict=True):
        np.testing.assert_array_equal(got, value)


@pytest.mark.parametrize(
    ("index", "line", "wanted"),
    [
        ("1", "torch.index_select y 2 1 x i y dim=1", [[1.0], [5.0]]),
        ("1", "aten::index_fill y 4 1 x d i v y", [[0, 9, 2, 3], [4, 9, 6, 7]]),
        ("1", "aten::take y 2 1 x i y", [1.0]),
        ("0", "torch.gather y 2 1 t i y dim=0", [3.5]),
    ],
)
def test_constant_tensors_of_one_element(index: str, line: str, wanted: list[float]) -> None:
    graph = graph_of(f"""pnnx.Input in 0 1 x #x=(2,4)f32
pnnx.Expression index 0 1 i expr={index} #i=(1)i64
pnnx.Expression data 0 1 t expr=3.5 #t=(1)f32
pnnx.Expression dim 0 1 d expr=1
pnnx.Expression value 0 1 v expr=9.0
{line}
pnnx.Output out 1 0 y""")
    got = pnnx_fast.Model(graph)(np.arange(8, dtype=np.float32).reshape(2, 4))
    np.testing.assert_array_equal(got, wanted)


def test_an_entry_of_a_constant_that_was_written_as_a_number() -> None:
    # As in the gated convolutions of WaveNet, which keep the number of their channels in a tensor.
    text = """7767517
5 4
pnnx.Input     x 0 1 x #x=(1,4,2)f32
Tensor.select  s 0 1 n dim=0 index=0 input=3
pnnx.Expression e 1 1 n m expr=int(@0)
Tensor.slice   c 2 1 x m y dim=1 start=0 step=1 $input=x $end=m
pnnx.Output    o 1 0 y
"""
    x = np.arange(8, dtype=np.float32).reshape(1, 4, 2)
    np.testing.assert_array_equal(pnnx_fast.Model(pnnx_fast.Graph.parse(text))(x), x[:, :3])


@pytest.mark.parametrize(
    ("noted", "roles"), [("(2,?,4)", "h"), ("(?,?,4)", "y"), ("(2,2,4)", "h"), ("(2,?,4) (?,?,4)", "hy")]
)
def test_what_varies_tells_states_from_sequences(noted: str, roles: str) -> None:
    shapes = noted.split()
    given = "(?,?,3)" if "?" in noted else "(2,5,3)"
    names = [f"r{i}" for i in range(len(shapes))]
    notes = " ".join(f"#{name}={shape}f32" for name, shape in zip(names, shapes, strict=True))
    graph = pnnx_fast.Graph.parse(
        f"7767517\n2 3\npnnx.Input i 0 1 x #x={given}f32\n"
        f"nn.GRU g 1 {len(shapes)} x {' '.join(names)} input_size=3 hidden_size=4 num_layers=2 batch_first=True "
        f"bidirectional=False bias=True #x={given}f32 {notes}\n"
    )
    assert recurrent_roles(graph.ops[1]) == roles
