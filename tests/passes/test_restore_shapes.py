"""Indices of several dimensions, of which the converter writes the beginning: sizes noted at results tell the rest."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pnnx_fast
from pnnx_fast.passes.restore_shapes import restore_shapes
from pnnx_fast.simplify import simplify

RNG = np.random.default_rng(0)
MASK = """7767517
7 6
pnnx.Input x 0 1 x #x=(1,5)bool
pnnx.Attribute side 0 1 side @data=(1,1,5,1)bool #side=(1,1,5,1)bool
Tensor.index pick 1 1 x keys expr=[[0],[0]] #x=(1,5)bool #keys=(1,1,1,5)bool
pnnx.Expression both 2 1 side keys both expr=and(@0,@1) #both=(1,1,5,5)bool
Tensor.expand wide 1 1 both wide sizes=(1,-1,5,5) $input=both #wide=(1,1,5,5)bool
Tensor.reshape flat 1 1 wide y shape=(5,5) $input=wide #y=(5,5)bool
pnnx.Output o 1 0 y
"""


def picked(given: tuple[int, ...], noted: tuple[int, ...], expr: str) -> str:
    sizes = [",".join(map(str, shape)) for shape in (given, noted)]
    return (
        f"7767517\n3 2\npnnx.Input x 0 1 x #x=({sizes[0]})f32\n"
        f"Tensor.index pick 1 1 x y expr={expr} #x=({sizes[0]})f32 #y=({sizes[1]})f32\npnnx.Output o 1 0 y\n"
    )


@pytest.mark.parametrize(
    "given, noted, expr",
    [
        ((1, 5), (1, 1, 1, 5), "[[0],[0]]"),
        ((2, 5), (2, 1, 1, 5), "[[0,1],[0]]"),
        ((2, 5, 3), (2, 5, 3), "[[0,1],[0]]"),
        ((6, 4), (1, 6, 4), "[[0]]"),
        ((1, 1), (1, 1, 1), "[[0],[0]]"),
    ],
)
@pytest.mark.parametrize("optimize", [True, False])
def test_a_mesh_over_whole_axes_is_a_reshape(
    given: tuple[int, ...], noted: tuple[int, ...], expr: str, optimize: bool
) -> None:
    x = RNG.standard_normal(given).astype(np.float32)
    model = pnnx_fast.Model(pnnx_fast.Graph.parse(picked(given, noted, expr)), optimize=optimize)
    assert np.array_equal(model(x), x.reshape(noted))


@pytest.mark.parametrize(
    "given, noted, expr, key",
    [
        ((2, 5), (2,), "[[0,1],[0]]", ([0, 1], [0])),
        ((5, 4), (1, 4), "[[0]]", ([0],)),
        ((5, 5), (5,), "[[0,1,2,3,4],[0,1,2,3,4]]", (range(5), range(5))),
        ((4, 5), (2, 5), "[[1,0]]", ([1, 0],)),
    ],
)
def test_indices_that_are_all_there_stay(
    given: tuple[int, ...], noted: tuple[int, ...], expr: str, key: tuple[list[int], ...]
) -> None:
    x = RNG.standard_normal(given).astype(np.float32)
    graph = pnnx_fast.Graph.parse(picked(given, noted, expr))
    assert np.array_equal(pnnx_fast.Model(graph)(x), x[tuple(list(k) for k in key)])


@pytest.mark.parametrize(
    "noted, expr, key",
    [
        ((4, 2, 1, 5), "[None,[0,3]]", np.s_[:, [[0], [3]]]),
        ((4, 6, 2, 1, 1), "[None,None,[-1,2]]", np.s_[:, :, [[[-1]], [[2]]]]),
        ((3, 1, 6, 5), "[[3,0,3]]", np.s_[[[3], [0], [3]],]),
        ((2, 1, 5), "[[0,3],[4,2]]", np.s_[[[0], [3]], [[4], [2]]]),
        ((2, 1, 5), "[[0,3],[4]]", np.s_[[[0], [3]], [[4]]]),
        ((2, 1, 6), "[[0,3],None,[4,2]]", np.s_[[[0], [3]], :, [[4], [2]]]),
    ],
)
def test_brackets_come_from_the_noted_shape(
    noted: tuple[int, ...], expr: str, key: tuple[list[int], ...], tmp_path: Path
) -> None:
    x = RNG.standard_normal((4, 6, 5)).astype(np.float32)
    graph = pnnx_fast.Graph.parse(picked(x.shape, noted, expr))
    assert np.array_equal(pnnx_fast.Model(graph)(x), x[key])
    graph.python(tmp_path / "model.py")
    source = (tmp_path / "model.py").read_text()
    assert np.array_equal(eval(source.partition("v_y = ")[2].splitlines()[0], {"v_x": x}), x[key])


@pytest.mark.parametrize(
    "noted, expr",
    [
        ((4, 2, 2, 5), "[None,[0,1]]"),
        ((4, 1, 2, 5), "[None,[0]]"),
        ((2, 2, 5), "[[0,1],[0,1]]"),
        ((1, 2, 5), "[[0],[0,4]]"),
        ((-1, -1, 6), "[[0,2],None,[1]]"),
        ((24, 5), "[[True,True,False,True]]"),
    ],
)
def test_indices_of_which_the_rest_is_lost_are_refused(noted: tuple[int, ...], expr: str, tmp_path: Path) -> None:
    graph = pnnx_fast.Graph.parse(picked((4, 6, 5), noted, expr).replace("-1", "?"))
    with pytest.raises(pnnx_fast.errors.ShapeError, match=r"Tensor\.index pick: .* beginning of these indices"):
        pnnx_fast.Model(graph)
    with pytest.raises(pnnx_fast.errors.ShapeError, match=r"Tensor\.index pick"):
        graph.python(tmp_path / "model.py")


def test_a_list_of_one_index_keeps_the_dimension() -> None:
    text = """7767517
5 4
pnnx.Input x 0 1 x #x=(2,3,4)f32
pnnx.Expression n 0 1 n expr=-2 #n=(1)i64
pnnx.Expression l 1 1 n l expr=[None,@0] #n=(1)i64
Tensor.index i 2 1 x l y $input=x $expr=l #x=(2,3,4)f32 #y=(2,1,4)f32
pnnx.Output o 1 0 y
"""
    x = RNG.standard_normal((2, 3, 4)).astype(np.float32)
    assert np.array_equal(pnnx_fast.Model(pnnx_fast.Graph.parse(text))(x), x[:, [-2]])


def test_endless_numbers_are_named() -> None:
    graph = pnnx_fast.Graph.parse(picked((1, 2), (1, 1, 2), f"[[0,{'1' * 5000}]]"))
    with pytest.raises(pnnx_fast.errors.ParameterError, match=r"Tensor\.index pick: cannot read the indices"):
        pnnx_fast.Model(graph)(np.zeros((1, 2), np.float32))


def test_a_mask_of_attention_keeps_its_size_when_simplified() -> None:
    side = np.ones((1, 1, 5, 1), bool)
    graph = pnnx_fast.Graph.parse(MASK)
    next(op for op in graph.ops if op.name == "side").attrs["data"] = pnnx_fast.Attribute(side)
    x = np.array([[True, False, True, True, False]])
    wanted = np.broadcast_to(x, (5, 5))
    assert np.array_equal(pnnx_fast.Model(graph.copy())(x), wanted)
    simplify(graph)
    assert "Tensor.index" not in {op.type for op in graph.ops}
    assert np.array_equal(pnnx_fast.Model(graph)(x), wanted)


@pytest.mark.parametrize(
    "given, noted, sizes",
    [
        ((8, 2, 2), (1, 4, 8), "(1,4,8,8)"),
        ((1, 4, 8, 8), (4, 8, 8), "(4,8,8,-1)"),
        ((64, 2, 4, 2), (1, 16, 8, 8), "(1,16,8,8,2,2)"),
        ((3, 4), (2, 6), "(-1,6,3)"),
        ((3, 4), (2, 6), "(2,6)"),
        ((3, 4), (2, 6, 1), "(2,6,1)"),
    ],
)
@pytest.mark.parametrize("simplified", [True, False])
def test_sizes_left_behind_do_not_count(
    given: tuple[int, ...], noted: tuple[int, ...], sizes: str, simplified: bool
) -> None:
    text = (
        picked(given, noted, "").replace("Tensor.index", "Tensor.reshape").replace("expr=", f"shape={sizes} $input=x")
    )
    graph = pnnx_fast.Graph.parse(text)
    x = RNG.standard_normal(given).astype(np.float32)
    if simplified:
        simplify(graph)
    assert np.array_equal(pnnx_fast.Model(graph)(x), x.reshape(noted))


def test_generated_modules_reshape(tmp_path: Path) -> None:
    pnnx_fast.Graph.parse(picked((2, 5), (2, 1, 5), "[[0,1],[0]]")).python(tmp_path / "model.py")
    assert "v_x.reshape(2, 1, 5)" in (tmp_path / "model.py").read_text()
    text = (
        picked((8, 2, 2), (1, 4, 8), "").replace("Tensor.index", "Tensor.reshape").replace("expr=", "shape=(1,4,8,8)")
    )
    pnnx_fast.Graph.parse(text).python(tmp_path / "model.py")
    assert "v_x.reshape(1, 4, 8)" in (tmp_path / "model.py").read_text()


def test_conversions_in_lists_of_numbers_are_done(tmp_path: Path) -> None:
    graph = pnnx_fast.Graph.parse(
        "7767517\n3 2\npnnx.Input x 0 1 x #x=(1,2,2,2)f32\nF.upsample u 1 1 x y mode=nearest size=(int(4),int(6)) "
        "$input=x #y=(1,2,4,6)f32\npnnx.Output o 1 0 y\n"
    )
    x = RNG.standard_normal((1, 2, 2, 2)).astype(np.float32)
    assert np.array_equal(pnnx_fast.Model(graph)(x), x.repeat(2, axis=2).repeat(3, axis=3))
    graph.python(tmp_path / "model.py")
    assert "size=(4, 6)" in (tmp_path / "model.py").read_text()


def padded(given: str, noted: str, pad: str) -> pnnx_fast.Graph:
    return pnnx_fast.Graph.parse(
        f"7767517\n3 2\npnnx.Input x 0 1 x #x={given}f32\n"
        f"F.pad p 1 1 x y mode=constant pad={pad} value=0.0 $input=x #x={given}f32 #y={noted}f32\npnnx.Output o 1 0 y\n"
    )


@pytest.mark.parametrize(
    "given, noted, pad, widths",
    [
        ("(1,11)", "(1,12)", "(0,-3)", ((0, 0), (0, 1))),
        ("(1,11)", "(1,12)", "(-3,0)", ((0, 0), (1, 0))),
        ("(11,2)", "(12,3)", "(1,0,0,-3)", ((0, 1), (1, 0))),
        ("(5,10)", "(6,16)", "(0,-2,0,-1)", ((0, 1), (0, 6))),
    ],
)
def test_a_padding_up_to_a_multiple_has_the_noted_size(
    given: str, noted: str, pad: str, widths: tuple[tuple[int, int], ...]
) -> None:
    graph = padded(given, noted, pad)
    x = RNG.standard_normal(graph.operands[0].shape or ()).astype(np.float32)
    expected = np.pad(x, widths)
    assert np.array_equal(pnnx_fast.Model(graph.copy())(x), expected)
    simplify(graph)
    assert np.array_equal(pnnx_fast.Model(graph)(x), expected)


@pytest.mark.parametrize(
    "given, noted, pad",
    [("(1,11)", "(1,8)", "(0,-3)"), ("(1,11)", "(1,13)", "(0,-3)"), ("(1,11)", "(1,12)", "(-1,-2)")],
)
def test_a_padding_that_cuts_stays(given: str, noted: str, pad: str) -> None:
    x = RNG.standard_normal((1, 11)).astype(np.float32)
    with nullcontext() if noted == "(1,8)" else pytest.warns(UserWarning, match=r"F\.pad p gives shape \[1, 8\]"):
        assert np.asarray(pnnx_fast.Model(padded(given, noted, pad))(x)).shape == (1, 8)


HALVES = """7767517
9 10
pnnx.Input x 0 1 x #x=(2,4)f32
torch.tensor_split s 1 2 x a b dim=1 indices=(2) #x=(2,4)f32 #a=(2,2)f32 #b=(2,2)f32
pnnx.Expression e 2 1 a b d expr=sub(@0,div(@1,2)) #d=(2,2)f32
Tensor.clone c 1 1 d held #d=(2,2)f32 #held=(2,2)f32
Tensor.slice_copy w 2 1 held d y dim=1 end=2 start=0 step=1 $self=held $src=d #y=(2,4)f32
torch.tensor_split t 1 2 y p q dim=-1 indices=(2) #y=(2,4)f32 #p=(2,2)f32 #q=(2,2)f32
pnnx.Expression f 2 1 q p z expr=add(@0,@1) #z=(2,2)f32
Tensor.slice_copy v 2 1 z z out dim=1 end=2147483647 start=2 step=1 $self=z $src=z #z=(2,2)f32 #out=(2,4)f32
pnnx.Output o 1 0 out
"""
"""``x[:, :2] -= x[:, 2:] / 2; x[:, 2:] += x[:, :2]`` as it is converted."""


@pytest.mark.parametrize("simplified", [False, True])
def test_halves_are_written_into_their_tensor(simplified: bool) -> None:
    graph = pnnx_fast.Graph.parse(HALVES)
    x = RNG.standard_normal((2, 4)).astype(np.float32)
    expected = x.copy()
    expected[:, :2] -= expected[:, 2:] / 2
    expected[:, 2:] += expected[:, :2]
    if simplified:
        simplify(graph)
    np.testing.assert_allclose(pnnx_fast.Model(graph)(x), expected, rtol=1e-6)


def test_generated_modules_write_halves_into_their_tensor(tmp_path: Path) -> None:
    pnnx_fast.Graph.parse(HALVES).python(tmp_path / "model.py")
    text = (tmp_path / "model.py").read_text()
    assert "v_y = v_x.clone()" in text
    assert "v_out = v_y.clone()" in text


@pytest.mark.parametrize(
    "old, new",
    [
        ("end=2 start=0", "end=3 start=1"),
        ("indices=(2)", "sections=2"),
        ("2 1 a b d", "2 1 b a d"),
        ("#x=(2,4)f32 #a=", "#x=(2,5)f32 #a="),
    ],
)
def test_other_writes_keep_the_tensor_that_they_name(old: str, new: str) -> None:
    assert old in HALVES
    graph = pnnx_fast.Graph.parse(HALVES.replace(old, new, 1))
    restore_shapes(graph)
    assert next(op for op in graph.ops if op.name == "w").inputs[0].name == "held"


@pytest.mark.parametrize(
    "kind, number, expected",
    [
        ("torch.where", "torch.int,2", "int32"),
        ("torch.where", "torch.double,-2.5", "float64"),
        ("torch.eq", "torch.long,4", "bool"),
    ],
)
def test_numbers_with_their_dtype(tmp_path: Path, kind: str, number: str, expected: str) -> None:
    inputs, names = ("2 1 m x y", "$condition=m $input=x") if kind == "torch.where" else ("1 1 x y", "$input=x")
    graph = pnnx_fast.Graph.parse(
        f"7767517\n4 3\npnnx.Input a 0 1 m #m=(3)bool\npnnx.Input b 0 1 x #x=(3)i32\n"
        f"{kind} op {inputs} other={number} {names}\npnnx.Output o 1 0 y\n"
    )
    value = float(number.partition(",")[2])
    x, mask = np.array([3, 4, 5], np.int32), np.array([True, False, True])
    y = np.asarray(pnnx_fast.Model(graph)(mask, x))
    assert y.dtype == expected
    assert np.array_equal(y, np.where(mask, x, value) if kind == "torch.where" else x == value)
    graph.python(tmp_path / "model.py")
    dtype, _, text = number.partition(",")
    assert f"torch.tensor({text}, dtype={dtype})" in (tmp_path / "model.py").read_text()


PATCHES = """7767517
3 2
pnnx.Input x 0 1 x #x=(1,3,4,6)f32
nn.PixelShuffle shuffle 1 1 x y upscale_factor=2 #x=(1,3,4,6)f32 #y=(1,3,4,6)f32
pnnx.Output o 1 0 y
"""


@pytest.mark.parametrize("simplified", [True, False])
def test_patches_become_a_picture(tmp_path: Path, simplified: bool) -> None:
    graph = pnnx_fast.Graph.parse(PATCHES)
    graph.python(tmp_path / "model.py")
    assert "= v_x.reshape(1, 12, 2, 3)" in (tmp_path / "model.py").read_text()
    x = RNG.standard_normal((1, 3, 4, 6)).astype(np.float32)
    wanted = x.reshape(1, 3, 2, 2, 2, 3).transpose(0, 1, 4, 2, 5, 3).reshape(1, 3, 4, 6)
    if simplified:
        simplify(graph)
    assert np.array_equal(pnnx_fast.Model(graph)(x), wanted)


@pytest.mark.parametrize("simplified", [True, False])
def test_groups_of_a_batch_become_channels_and_are_shuffled(tmp_path: Path, simplified: bool) -> None:
    """Shuffle attention halves groups that stand in the batch."""
    graph = pnnx_fast.Graph.parse(
        "7767517\n3 2\npnnx.Input x 0 1 x #x=(6,4,2,3)f32\n"
        "nn.ChannelShuffle shuffle 1 1 x y groups=2 #x=(6,4,2,3)f32 #y=(2,12,2,3)f32\npnnx.Output o 1 0 y\n"
    )
    graph.python(tmp_path / "model.py")
    assert "= v_x.reshape(2, 12, 2, 3)" in (tmp_path / "model.py").read_text()
    x = RNG.standard_normal((6, 4, 2, 3)).astype(np.float32)
    if simplified:
        simplify(graph)
    wanted = x.reshape(2, 2, 6, 2, 3).transpose(0, 2, 1, 3, 4).reshape(2, 12, 2, 3)
    assert np.array_equal(pnnx_fast.Model(graph)(x), wanted)


@pytest.mark.parametrize("kind", ["nn.PixelShuffle", "nn.ChannelShuffle"])
def test_a_shuffle_that_fits_stays(kind: str) -> None:
    text = PATCHES.replace("#y=(1,3,4,6)", "#y=(1,3,8,12)").replace("(1,3,4,6)", "(1,12,4,6)")
    if kind == "nn.ChannelShuffle":
        text = text.replace("nn.PixelShuffle", kind).replace("upscale_factor", "groups").replace("3,8,12", "12,4,6")
    graph = pnnx_fast.Graph.parse(text)
    pnnx_fast.passes.restore(graph)
    assert [op.type for op in graph.ops] == ["pnnx.Input", kind, "pnnx.Output"]


def test_converted_bounds_of_a_slice(tmp_path: Path) -> None:
    """A size that was converted to an integer after its value was known is written as ``int(3)``."""
    graph = pnnx_fast.Graph.parse(
        "7767517\n3 2\npnnx.Input a 0 1 x #x=(2,5)f32\nTensor.slice s 1 1 x y dim=1 end=int(3) start=int(1) step=1\n"
        "pnnx.Output o 1 0 y\n"
    )
    x = np.arange(10, dtype=np.float32).reshape(2, 5)
    np.testing.assert_array_equal(pnnx_fast.Model(graph)(x), x[:, 1:3])
    graph.python(tmp_path / "model.py")
    assert "[:, 1:3]" in (tmp_path / "model.py").read_text()


@pytest.mark.parametrize(
    "value, dtype, expected",
    [
        ("255.0", "torch.float", "float32"),
        ("3", "torch.double", "float64"),
        ("3", "None", "int64"),
        ("2.5", "None", "float32"),
    ],
)
def test_tensors_without_dimensions_written_as_numbers(value: str, dtype: str, expected: str) -> None:
    graph = pnnx_fast.Graph.parse(
        f"7767517\n3 2\nprim::Constant c 0 1 c value={value}\nTensor.to t 1 1 c y dtype={dtype}\npnnx.Output o 1 0 y\n"
    )
    found = pnnx_fast.Model(graph)()
    assert (found.dtype, found.shape) == (expected, ())
    assert found == float(value)


@pytest.mark.parametrize(
    "padding, kernel", [("()", "(4)"), ("()", "(2)"), ("(1,1,1,2)", "(4,3)"), ("(0,1,1,1,1,2)", "(4,3,2)")]
)
@pytest.mark.parametrize("mode", ["circular", "reflect", "replicate"])
def test_uneven_paddings_of_convolutions(tmp_path: Path, padding: str, kernel: str, mode: str) -> None:
    torch = pytest.importorskip("torch")
    sizes = tuple(map(int, kernel.strip("()").split(",")))
    n = len(sizes)
    x = RNG.standard_normal((2, 3, 7, 8, 9)[: n + 2]).astype(np.float32)
    ones = ",".join("1" * n)
    graph = pnnx_fast.Graph.parse(
        f"7767517\n3 2\npnnx.Input x 0 1 x #x=({','.join(map(str, x.shape))})f32\n"
        f"nn.Conv{n}d c 1 1 x y bias=True dilation=({ones}) groups=1 in_channels=3 kernel_size={kernel} out_channels=4 "
        f"padding={padding} padding_mode={mode} stride=({ones})\npnnx.Output o 1 0 y\n"
    )
    conv = getattr(torch.nn, f"Conv{n}d")(3, 4, sizes, padding="same", padding_mode=mode)
    graph.ops[1].attrs = {k: pnnx_fast.Attribute(v.detach().numpy()) for k, v in conv.named_parameters()}
    with torch.no_grad():
        wanted = conv(torch.from_numpy(x)).numpy()
    np.testing.assert_allclose(pnnx_fast.Model(graph)(x), wanted, atol=1e-5)
    graph.python(tmp_path / "m.py")
    assert "padding='same'" in (tmp_path / "m.py").read_text()


@pytest.mark.parametrize("count", [1, 2])
def test_axes_in_front_of_an_expression(tmp_path: Path, count: int) -> None:
    """A stack of one result whose size depends on data is left out; the other operand has fewer axes."""
    lead = "1," * count
    graph = pnnx_fast.Graph.parse(
        f"7767517\n4 3\npnnx.Input x 0 1 x #x=(4,2)f32\npnnx.Input s 0 1 s #s=(2)f32\n"
        f"pnnx.Expression e 2 1 x s y expr=div(@0,@1) #x=(4,2)f32 #s=(2)f32 #y=({lead}4,2)f32\npnnx.Output o 1 0 y\n"
    )
    x, s = np.float32([[1, 2], [3, 4], [5, 6], [7, 8]]), np.float32([2, 4])
    wanted = (x / s).reshape(*[1] * count, 4, 2)
    assert np.array_equal(pnnx_fast.Model(graph)(x, s), wanted)
    graph.python(tmp_path / "m.py")
    assert (tmp_path / "m.py").read_text().count("torch.unsqueeze(") == count


def test_axes_that_no_broadcast_explains_stay() -> None:
    graph = pnnx_fast.Graph.parse(
        "7767517\n3 2\npnnx.Input x 0 1 x #x=(4,2)f32\n"
        "pnnx.Expression e 1 1 x y expr=neg(@0) #x=(4,2)f32 #y=(2,4,2)f32\npnnx.Output o 1 0 y\n"
    )
    assert not restore_shapes(graph)


@pytest.mark.parametrize(
    "whole, written, shapes, noted",
    [
        ("bi...,bk...->b...ik", "ij,ik->ijk", [(2, 3, 4), (2, 5, 4)], (2, 4, 3, 5)),
        ("b...d,kd->b...k", "ij,kj->ik", [(2, 3, 7, 4), (5, 4)], (2, 3, 7, 5)),
        ("b...d,d->b...", "ij,j->i", [(2, 3, 4), (4,)], (2, 3)),
        ("...ij,...kj->...ik", "ij,kj->ik", [(2, 3, 4), (2, 5, 4)], (2, 3, 5)),
        ("...i,...i->...", "i,i->", [(2, 3, 4), (2, 3, 4)], (2, 3)),
        ("...ij,jk->...ik", "ij,jk->ik", [(6, 3, 4), (4, 5)], (6, 3, 5)),
        ("b...i,bi->b...", "ij,ij->i", [(2, 1, 4, 3), (2, 3)], (2, 1, 4)),
    ],
)
def test_an_ellipsis_that_was_left_out_stands_where_the_sizes_fit(
    whole: str, written: str, shapes: list[tuple[int, ...]], noted: tuple[int, ...], tmp_path: Path
) -> None:
    torch = pytest.importorskip("torch")
    wired = [f"#v{i}=({','.join(map(str, shape))})f32" for i, shape in enumerate(shapes)]
    lines = [f"pnnx.Input in{i} 0 1 v{i} {note}" for i, note in enumerate(wired)]
    names = " ".join(f"v{i}" for i in range(len(shapes)))
    notes = f"{' '.join(wired)} #y=({','.join(map(str, noted))})f32"
    lines += [f"torch.einsum e {len(shapes)} 1 {names} y equation={written} {notes}", "pnnx.Output o 1 0 y"]
    text = f"7767517\n{len(lines)} {len(shapes) + 1}\n" + "\n".join(lines) + "\n"
    arrays = [RNG.standard_normal(shape).astype(np.float32) for shape in shapes]
    want = torch.einsum(whole, *map(torch.from_numpy, arrays)).numpy()
    assert want.shape == noted
    np.testing.assert_allclose(pnnx_fast.Model(pnnx_fast.Graph.parse(text))(*arrays), want, rtol=1e-5, atol=1e-5)
    graph = pnnx_fast.Graph.parse(text)
    simplify(graph)
    np.testing.assert_allclose(pnnx_fast.Model(graph)(*arrays), want, rtol=1e-5, atol=1e-5)
    pnnx_fast.Graph.parse(text).python(tmp_path / "source.py")
    assert "..." in (tmp_path / "source.py").read_text()


@pytest.mark.parametrize(
    ("dim", "start", "end", "noted", "want"),
    [
        (1, -2, 2147483647, (4, 3), np.s_[:, -3:]),  # -5 // 2, and not its half cut off
        (-1, -2, 2147483647, (4, 2), np.s_[:, -2:]),
        (0, -1, 2147483647, (2, 5), np.s_[-2:]),
        (1, 0, -2, (4, 2), np.s_[:, :-3]),
        (1, 0, -2, (4, 3), np.s_[:, :-2]),
        (1, -2, -1, (4, 1), np.s_[:, -2:-1]),
        (1, -7, 2147483647, (4, 5), np.s_[:]),
        (1, -2, 2147483647, (-1, -1), np.s_[:, -2:]),
    ],
)
def test_bounds_of_slices_are_rounded_down(
    dim: int, start: int, end: int, noted: tuple[int, ...], want: tuple[slice, ...]
) -> None:
    size = ",".join("?" if n < 0 else str(n) for n in noted)
    graph = pnnx_fast.Graph.parse(
        "7767517\n3 2\npnnx.Input x 0 1 x #x=(4,5)f32\n"
        f"Tensor.slice s 1 1 x y dim={dim} start={start} end={end} step=1 $input=x #x=(4,5)f32 #y=({size})f32\n"
        "pnnx.Output o 1 0 y\n"
    )
    x = RNG.standard_normal((4, 5)).astype(np.float32)
    assert np.array_equal(pnnx_fast.Model(graph)(x), x[want])


@pytest.mark.parametrize("kind, function", [("max", np.max), ("min", np.min)])
@pytest.mark.parametrize("noted, kept", [("1,1,1", True), ("", False), ("1,1", None)])
def test_extremes_of_all_elements_keep_axes_that_are_noted(
    kind: str, function: Any, noted: str, kept: bool | None
) -> None:
    x = RNG.standard_normal((2, 3, 4)).astype(np.float32)
    text = f"pnnx.Input i 0 1 x #x=(2,3,4)f32\ntorch.{kind} m 1 1 x y #x=(2,3,4)f32 #y=({noted})f32"
    model = pnnx_fast.Model(pnnx_fast.Graph.parse(f"7767517\n3 2\n{text}\npnnx.Output o 1 0 y\n"))
    with nullcontext() if kept is not None else pytest.warns(UserWarning, match="gives shape"):
        y = model(x)
    np.testing.assert_array_equal(y, function(x, keepdims=bool(kept)), strict=True)
