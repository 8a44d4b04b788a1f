"""Sizes that tracing has fixed vary again: what each kind of operator needs for it, and what is said when it cannot."""

from __future__ import annotations

import numpy as np
import pytest

from pnnx_fast import Attribute, Graph, Model
from pnnx_fast.errors import ParameterError, ShapeError


def rand(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def graph(*lines: str, **constants: np.ndarray) -> Graph:
    made = Graph.parse("\n".join(["7767517", f"{len(lines)} 0", *lines, ""]))
    for op in made.ops:
        if op.name in constants:
            op.attrs["data"] = Attribute(constants[op.name])
        else:
            op.attrs = {key: Attribute(rand(*attr.shape)) for key, attr in op.attrs.items()}
    made.infer_shapes()
    return made


def test_a_token_beside_a_batch_is_expanded() -> None:
    token = rand(1, 1, 8)
    g = graph(
        "pnnx.Input in 0 1 x #x=(1,5,8)f32",
        "pnnx.Attribute token 0 1 t @data=(1,1,8)f32",
        "torch.cat c 2 1 t x y dim=1",
        "pnnx.Output out 1 0 y",
        token=token,
    )
    assert g.make_dynamic() == []
    assert g.get_operand("y").shape == (-1, 6, 8)
    x = rand(3, 5, 8)
    np.testing.assert_array_equal(Model(g)(x), np.concatenate([np.repeat(token, 3, 0), x], 1))


def test_a_mask_of_windows_repeats_with_the_batch_only() -> None:
    def make() -> Graph:
        return graph(
            "pnnx.Input in 0 1 x #x=(1,4,2,8)f32",
            "Tensor.reshape r 1 1 x a shape=(4,2,8) $input=x",
            "pnnx.Attribute mask 0 1 m @data=(8,2,2)f32",
            "nn.MultiheadAttention att 2 1 a m y add_bias_kv=False add_zero_attn=False batch_first=True bias=False "
            "embed_dim=8 kdim=8 num_heads=2 vdim=8 @in_proj_weight=(24,8)f32 @out_proj.weight=(8,8)f32 "
            "$input=a $attn_mask=m",
            "pnnx.Output out 1 0 y",
            mask=rand(8, 2, 2),
        )

    one, g = Model(make(), num_threads=1), make()
    assert g.make_dynamic() == []
    x = rand(3, 4, 2, 8)
    wanted = np.concatenate([one(x[i : i + 1]) for i in range(3)])
    np.testing.assert_allclose(Model(g, num_threads=1)(x), wanted, rtol=1e-4, atol=1e-5)
    with pytest.raises(ShapeError, match="att: its mask m was computed for 4 windows, 12 are needed"):
        make().make_dynamic({"x": (1,)})


def test_a_grid_made_for_one_picture_repeats_with_the_batch_only() -> None:
    # As in correlation volumes, whose pixels are rows of a batch that share one grid of displacements.
    def make() -> Graph:
        return graph(
            "pnnx.Input in 0 1 x #x=(1,4,5,6)f32",
            "Tensor.reshape r 1 1 x a shape=(4,1,5,6) $input=x",
            "pnnx.Attribute grid 0 1 g @data=(4,3,3,2)f32",
            "F.grid_sample s 2 1 a g y align_corners=True mode=bilinear padding_mode=zeros $input=a $grid=g",
            "pnnx.Output out 1 0 y",
            grid=rand(4, 3, 3, 2),
        )

    one, g, three = Model(make(), num_threads=1), make(), make()
    assert g.make_dynamic() == []
    assert three.change_batch(3) == []
    x = rand(3, 4, 5, 6)
    wanted = np.concatenate([one(x[i : i + 1]) for i in range(3)])
    for changed in (g, three):
        np.testing.assert_array_equal(Model(changed, num_threads=1)(x), wanted)
    with pytest.raises(ShapeError, match="the constant grid"):
        make().make_dynamic({"x": (1,)})


def anchors(sizes: list[tuple[int, int]], strides: list[int]) -> tuple[np.ndarray, np.ndarray]:
    cells = [np.stack(np.meshgrid(np.arange(w) + 0.5, np.arange(h) + 0.5)).reshape(2, -1) for h, w in sizes]
    steps = [np.full(h * w, s) for (h, w), s in zip(sizes, strides, strict=True)]
    return np.concatenate(cells, 1)[None].astype(np.float32), np.concatenate(steps)[None].astype(np.float32)


def test_anchors_of_a_detector_follow_the_size_of_the_picture() -> None:
    points, strides = anchors([(8, 8), (4, 4)], [8, 16])
    g = graph(
        "pnnx.Input in 0 1 x #x=(1,2,8,8)f32",
        "F.avg_pool2d p 1 1 x h kernel_size=(2,2) stride=(2,2) padding=(0,0) ceil_mode=False count_include_pad=True "
        "divisor_override=None $input=x",
        "Tensor.reshape a 1 1 x b shape=(1,2,64) $input=x",
        "Tensor.reshape c 1 1 h d shape=(1,2,16) $input=h",
        "torch.cat e 2 1 b d f dim=-1",
        "pnnx.Attribute points 0 1 q @data=(1,2,80)f32",
        "pnnx.Attribute strides 0 1 s @data=(1,80)f32",
        "pnnx.Expression m 3 1 f q s y expr=mul(add(@0,@1),@2)",
        "pnnx.Output out 1 0 y",
        points=points,
        strides=strides,
    )
    assert g.make_dynamic({"x": (0, 2, 3)}) == []
    x = rand(2, 2, 12, 6)
    half = x.reshape(2, 2, 6, 2, 3, 2).mean((3, 5))
    flat = np.concatenate([x.reshape(2, 2, -1), half.reshape(2, 2, -1)], 2)
    points, strides = anchors([(12, 6), (6, 3)], [8, 16])
    np.testing.assert_allclose(Model(g)(x), (flat + points) * strides, rtol=1e-5)


def test_a_reshape_takes_sizes_from_the_operand_that_had_them() -> None:
    g = graph(
        "pnnx.Input in 0 1 x #x=(1,3,4,4)f32",
        "Tensor.reshape a 1 1 x b shape=(1,3,16) $input=x",
        "F.softmax s 1 1 b c dim=2 $input=b",
        "Tensor.reshape d 1 1 c e shape=(1,3,4,4) $input=c",
        "pnnx.Expression m 2 1 x e y expr=add(@0,@1)",
        "pnnx.Output out 1 0 y",
    )
    assert g.make_dynamic({"x": (0, 2, 3)}) == []
    assert Model(g)(rand(2, 3, 5, 7)).shape == (2, 3, 5, 7)


def test_rows_and_columns_that_join_the_batch_leave_it_again() -> None:
    g = graph(
        "pnnx.Input in 0 1 x #x=(1,4,4,3)f32",
        "Tensor.permute p 1 1 x xt dims=(0,2,1,3) $input=x",
        "Tensor.reshape a 1 1 xt columns shape=(4,4,3) $input=xt",
        "torch.cumsum c 1 1 columns ca dim=1 $input=columns",
        "Tensor.reshape b 1 1 ca cb shape=(1,4,4,3) $input=ca",
        "Tensor.permute q 1 1 cb down dims=(0,2,1,3) $input=cb",
        "Tensor.reshape d 1 1 x rows shape=(4,4,3) $input=x",
        "torch.cumsum r 1 1 rows ra dim=1 $input=rows",
        "Tensor.reshape e 1 1 ra across shape=(1,4,4,3) $input=ra",
        "torch.cat m 2 1 down across y dim=-1",
        "pnnx.Output out 1 0 y",
    )
    assert g.make_dynamic({"x": (0, 1, 2)}) == []
    x = rand(2, 5, 7, 3)
    np.testing.assert_allclose(Model(g)(x), np.concatenate([x.cumsum(1), x.cumsum(2)], 3), rtol=1e-5)


def test_what_nothing_tells_stays_fixed_and_is_named() -> None:
    g = graph(
        "pnnx.Input in 0 1 x #x=(1,4,4)f32",
        "Tensor.reshape a 1 1 x b shape=(16) $input=x",
        "Tensor.reshape d 1 1 b y shape=(2,8) $input=b",
        "pnnx.Output out 1 0 y",
    )
    with pytest.raises(ShapeError, match="reshape d"):
        g.make_dynamic({"x": (1, 2)})
    assert g.ops[1].params["shape"].value == [16]


@pytest.mark.parametrize(
    ("line", "shape"),
    [
        ("Tensor.unflatten u 1 1 x y dim=1 sizes=(1,6) $input=x", (1, 1, 12, 5)),
        ("F.upsample u 1 1 x y size=(12,10) mode=nearest align_corners=None scale_factor=None $input=x", None),
        ("Tensor.expand u 1 1 x y sizes=(7,1,6,5) $input=x", (7, 1, 12, 5)),
    ],
)
def test_other_operators_that_hold_sizes(line: str, shape: tuple[int, ...] | None) -> None:
    image = shape is None
    g = graph(
        f"pnnx.Input in 0 1 x #x={'(1,2,6,5)' if image else '(1,6,5)'}f32",
        line,
        "pnnx.Output out 1 0 y",
    )
    assert g.make_dynamic({"x": (2,) if image else (1,)}) == []
    x = rand(1, 2, 12, 5) if image else rand(1, 12, 5)
    assert Model(g)(x).shape == (shape or (1, 2, 24, 10))


def test_statistics_of_groups_are_expanded_along_a_batch_of_one() -> None:
    g = graph(
        "pnnx.Input in 0 1 x #x=(1,6,5,4)f32",
        "Tensor.reshape r 1 1 x a shape=(1,2,3,5,4) $input=x",
        "torch.mean m 1 1 a b dim=(2,3,4) keepdim=True $input=a",
        "Tensor.expand e 1 1 b c sizes=(1,2,3,5,4) $input=b",
        "Tensor.reshape s 1 1 c y shape=(1,6,5,4) $input=c",
        "pnnx.Output out 1 0 y",
    )
    assert g.make_dynamic() == []
    x = rand(3, 6, 5, 4)
    wanted = np.broadcast_to(x.reshape(3, 2, 60).mean(2)[:, :, None], (3, 2, 60)).reshape(x.shape)
    np.testing.assert_allclose(Model(g)(x), wanted, rtol=1e-4, atol=1e-5)


def test_modules_that_carry_their_weight_twice() -> None:
    def make() -> Graph:
        return graph(
            "pnnx.Input in 0 1 x #x=(1,4,6,6)f32",
            "pnnx.Attribute w 0 1 w @data=(4,1,3,3)f32",
            "nn.Conv2d c 2 1 w x y bias=False dilation=(1,1) groups=4 in_channels=4 kernel_size=(3,3) out_channels=4 "
            "padding=(1,1) padding_mode=zeros stride=(1,1) @weight=(4,1,3,3)f32",
            "pnnx.Output out 1 0 y",
            w=rand(4, 1, 3, 3),
        )

    g = make()
    assert g.get_operand("y").shape == (1, 4, 6, 6)
    assert len(next(op for op in g.ops if op.name == "c").inputs) == 2
    assert g.make_dynamic() == []
    assert g.get_operand("y").shape == (-1, 4, 6, 6)
    x = rand(3, 4, 6, 6)
    np.testing.assert_allclose(Model(g)(x)[1:2], Model(make())(x[1:2]), rtol=1e-5, atol=1e-6)


def test_an_expansion_to_the_batch_and_a_pyramid() -> None:
    g = graph(
        "pnnx.Input in 0 1 x #x=(3,2,8,8)f32",
        "pnnx.Attribute q 0 1 q @data=(1,2,8,8)f32",
        "Tensor.expand e 1 1 q w sizes=(3,2,8,8) $input=q",
        "pnnx.Expression a 2 1 x w y expr=add(@0,@1)",
        "pnnx.Output out 1 0 y",
        q=rand(1, 2, 8, 8),
    )
    assert g.make_dynamic() == []
    assert Model(g)(rand(5, 2, 8, 8)).shape == (5, 2, 8, 8)
    g = graph(
        "pnnx.Input in 0 1 x #x=(1,2,9,9)f32",
        "nn.MaxPool2d p 1 1 x a kernel_size=(2,2) stride=(2,2) padding=(0,0) dilation=(1,1) ceil_mode=False "
        "return_indices=False",
        "F.upsample u 1 1 a b size=(9,9) mode=nearest align_corners=None scale_factor=None $input=a",
        "pnnx.Expression m 2 1 x b y expr=add(@0,@1)",
        "pnnx.Output out 1 0 y",
    )
    assert g.make_dynamic({"x": (2, 3)}) == []
    assert Model(g)(rand(1, 2, 15, 11)).shape == (1, 2, 15, 11)


def test_constants_that_repeat_shrink_and_others_are_named() -> None:
    def make(data: np.ndarray) -> Graph:
        return graph(
            "pnnx.Input in 0 1 x #x=(3,4)f32",
            "pnnx.Attribute k 0 1 k @data=(3,4)f32",
            "pnnx.Expression e 2 1 x k y expr=mul(@0,@1)",
            "pnnx.Output out 1 0 y",
            k=data,
        )

    row = rand(1, 4)
    g = make(np.repeat(row, 3, 0))
    assert g.make_dynamic() == []
    x = rand(5, 4)
    np.testing.assert_array_equal(Model(g)(x), x * row)
    with pytest.raises(ShapeError, match=r"Expression e: .* the constant k \(3, 4\) does not vary"):
        make(rand(3, 4)).make_dynamic()


def test_windows_that_a_constant_tells_apart_leave_the_batch_to_the_axis_before() -> None:
    g = graph(
        "pnnx.Input in 0 1 x #x=(1,4,3,2)f32",
        "Tensor.reshape a 1 1 x windows shape=(4,3,2) $input=x",
        "Tensor.reshape b 1 1 windows apart shape=(1,4,3,2) $input=windows",
        "pnnx.Attribute mask 0 1 m @data=(1,4,1,2)f32",
        "pnnx.Expression e 2 1 apart m masked expr=add(@0,@1)",
        "Tensor.reshape c 1 1 masked y shape=(4,3,2) $input=masked",
        "pnnx.Output out 1 0 y",
        mask=rand(1, 4, 1, 2),
    )
    assert g.make_dynamic() == []
    x = rand(3, 4, 3, 2)
    np.testing.assert_array_equal(Model(g)(x), (x + rand(1, 4, 1, 2)).reshape(12, 3, 2))


def test_the_batch_is_the_axis_that_inputs_share() -> None:
    lines = (
        "pnnx.Input in_0 0 1 x #x=(3,4)f32",
        "pnnx.Input in_1 0 1 w #w=(2,4)f32",
        "F.linear l 2 1 x w y bias=None $input=x $weight=w",
        "pnnx.Output out 1 0 y",
    )
    g = graph(*lines)
    assert g.make_dynamic() == []
    assert [g.get_operand(n).shape for n in "xwy"] == [(-1, 4), (2, 4), (-1, 2)]
    g = graph(*lines)
    assert g.change_batch(5) == []
    assert [g.get_operand(n).shape for n in "xwy"] == [(5, 4), (2, 4), (5, 2)]


def test_a_batch_that_varies_can_be_set() -> None:
    lines = (
        "pnnx.Input in_0 0 1 x #x=(1,4)f32",
        "pnnx.Input in_1 0 1 w #w=(1,4)f32",
        "torch.cat c 2 1 x w y dim=1",
        "Tensor.reshape r 1 1 y z shape=(1,4,2) $input=y",
        "pnnx.Output out 1 0 z",
    )
    g = graph(*lines)
    assert g.make_dynamic() == []
    assert g.change_batch(3) == []
    assert [g.operand(n).shape for n in "xwz"] == [(3, 4), (3, 4), (3, 4, 2)]
    assert Model(g)(rand(3, 4), rand(3, 4)).shape == (3, 4, 2)
    g = graph(*lines)
    g.operand("w").shape = (-1, 4)
    assert g.change_batch(3) == []
    assert [g.operand(n).shape for n in "xwz"] == [(3, 4), (3, 4), (3, 4, 2)]


def test_sizes_that_are_not_noted_can_be_given() -> None:
    def make() -> Graph:
        g = graph("pnnx.Input in 0 1 x #x=(1,4,6)f32", "Tensor.reshape r 1 1 x y shape=(1,24)", "pnnx.Output out 1 0 y")
        g.operand("x").shape = (-1, 4, -1)
        return g

    g = make()
    for change in (lambda: g.change_batch(3), g.make_dynamic, g.infer_shapes):
        with pytest.raises(ParameterError, match=r"sizes of input x are known; give them, as in shapes=\{'x': "):
            change()
    assert g.change_batch(3, shapes={"x": (1, 4, 6)}) == []
    assert [g.operand(n).shape for n in "xy"] == [(3, 4, 6), (3, 24)]
    g = make()
    assert g.make_dynamic(shapes={"x": (1, 4, 6)}) == []
    assert [g.operand(n).shape for n in "xy"] == [(-1, 4, 6), (-1, 24)]
    with pytest.raises(ParameterError, match="there is no input 'q'"):
        make().change_batch(3, shapes={"x": (1, 4, 6), "q": (1,)})


def test_equal_sizes_of_several_inputs_grow_together() -> None:
    g = graph(
        "pnnx.Input in_0 0 1 x #x=(3,4,5)f32",
        "pnnx.Input in_1 0 1 m #m=(4,4)f32",
        "torch.transpose t 1 1 x u dim0=1 dim1=2 $input=x",
        "torch.matmul s 2 1 x u w $input=x $other=u",
        "pnnx.Expression e 2 1 w m y expr=add(@0,@1)",
        "pnnx.Output out 1 0 y",
    )
    assert g.make_dynamic({"x": (0, 1), "m": (0, 1)}) == []
    assert Model(g)(rand(2, 7, 5), rand(7, 7)).shape == (2, 7, 7)


def test_types_that_numpy_lacks_stay_as_noted() -> None:
    g = Graph.parse(
        """7767517
3 2
pnnx.Input in 0 1 x #x=(2,3)bf16
F.relu r 1 1 x y #y=(2,3)bf16
pnnx.Output out 1 0 y
"""
    )
    g.infer_shapes({"x": (4, 3)})
    assert [(x.shape, x.dtype) for x in g.operands] == [((4, 3), "bf16")] * 2


def test_inputs_without_dimensions_have_a_size() -> None:
    g = Graph.parse(
        """7767517
3 2
pnnx.Input in 0 1 x #x=()i64
torch.unsqueeze u 1 1 x y dim=0
pnnx.Output out 1 0 y
"""
    )
    g.infer_shapes()
    assert [(x.shape, x.dtype) for x in g.operands] == [((), "i64"), ((1,), "i64")]


@pytest.mark.parametrize(
    "cut",
    [
        "torch.tensor_split s 1 2 c a b dim=0 indices=(1)",
        "torch.tensor_split s 1 2 c a b dim=0 indices=(-1)",
        "torch.split s 1 2 c a b dim=0 split_size_or_sections=(1,1)",
    ],
)
def test_batches_that_were_joined_are_taken_apart_where_one_ends(cut: str) -> None:
    model = graph(
        "pnnx.Input in 0 1 x #x=(1,3)f32",
        "pnnx.Expression double 1 1 x d expr=mul(@0,2)",
        "torch.cat join 2 1 x d c dim=0 #c=(2,3)f32",
        f"{cut} #a=(1,3)f32 #b=(1,3)f32",
        "pnnx.Expression e 2 1 a b y expr=sub(@1,mul(@0,3))",
        "pnnx.Output out 1 0 y",
    )
    assert model.make_dynamic() == []
    x = rand(4, 3)
    np.testing.assert_allclose(Model(model)(x), -x, rtol=1e-6, atol=1e-6)


def test_a_row_that_is_cut_off_a_batch_is_named() -> None:
    model = graph(
        "pnnx.Input in 0 1 x #x=(4,3)f32",
        "torch.tensor_split op 1 2 x a b dim=0 indices=(2)",
        "pnnx.Output out 2 0 a b",
    )
    assert model.make_dynamic() == ["op"]


@pytest.mark.parametrize(
    "operator", ["Tensor.repeat e 1 1 y z sizes=(1,2,1)", "Tensor.expand e 1 1 y z sizes=(-1,2,-1)"]
)
def test_repeats_as_many_as_the_batch_stay(operator: str) -> None:
    graph = Graph.parse(
        "7767517\n4 3\npnnx.Input i 0 1 x #x=(2,5)f32\ntorch.unsqueeze u 1 1 x y dim=1 #y=(2,1,5)f32\n"
        f"{operator} #z=(2,2,5)f32\npnnx.Output o 1 0 z\n"
    )
    graph.change_batch(3)
    x = np.random.default_rng(0).standard_normal((3, 5)).astype(np.float32)
    np.testing.assert_array_equal(Model(graph)(x), np.stack([x, x], 1))


def test_what_depends_on_no_data_is_inferred_behind_what_does() -> None:
    g = Graph.parse(
        "7767517\n6 5\npnnx.Input a 0 1 m #m=(3,5)bool\n"
        "torch.sum s 1 1 m x dim=(-1) keepdim=False $input=m #x=(3)i32\n"
        "torch.nonzero n 1 1 m z $input=m as_tuple=False #z=(15,2)i64\n"
        "torch.cumsum c 1 1 x y dim=0 $input=x #y=(3)i32\npnnx.Output o 1 0 y\npnnx.Output p 1 0 z\n"
    )
    mask = np.ones((3, 5), bool)
    want = Model(g)(mask)
    g.infer_shapes()
    assert [(g.operand(n).shape, g.operand(n).dtype) for n in "xyz"] == [
        ((3,), "i32"),
        ((3,), "i32"),
        ((-1, -1), "i64"),
    ]
    for a, b in zip(Model(g)(mask), want, strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)
