"""Parts of what varies: slices, pools, spectra, places in it, and constants beside it. They follow, or are named."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from test_sizes_numbers import RNG, follows, traced

from pnnx_fast import Attribute, Model
from pnnx_fast.errors import PnnxFastError, ShapeError

HEAD = "pnnx.Input in 0 1 x #x=({b},2,{h},{w})f32\n"
TAIL = "\npnnx.Output out 1 0 y"
OLD, NEW = {"b": 1, "h": 8, "w": 12}, {"b": 3, "h": 10, "w": 14}

FOLLOWING = {
    "a crop of what was enlarged": """
        F.interpolate up 1 1 x a mode=nearest scale_factor=(4.0,4.0) $input=x
        Tensor.slice rows 1 1 a c dim=2 start=0 end={3*h} step=1 $input=a
        Tensor.slice columns 1 1 c y dim=3 start=0 end={3*w} step=1 $input=c
    """,
    "a spectrum of pictures": """
        torch.fft.rfft2 there 1 1 x a dim=(-2,-1) norm=backward $input=x
        torch.fft.irfft2 back 1 1 a y s=({h},{w}) dim=(-2,-1) norm=backward $input=a
    """,
    "a spectrum of axes": """
        torch.fft.rfftn there 1 1 x a dim=(2,3) norm=ortho $input=x
        torch.fft.irfftn back 1 1 a y s=({h},{w}) dim=(2,3) norm=ortho $input=a
    """,
    "a pool to the size of another branch": """
        F.interpolate up 1 1 x a mode=nearest scale_factor=(3.0,3.0) $input=x
        F.adaptive_avg_pool2d pool 1 1 a c output_size=({h},{w}) $input=a #c=({b},2,{h},{w})f32
        pnnx.Expression sum 2 1 x c y expr=add(@0,@1)
    """,
    "a broadcast to sizes": """
        torch.mean mean 1 1 x a dim=(2,3) keepdim=True $input=x
        pnnx.Expression sizes 0 1 s expr=[{b},2,{h},{w}]
        aten::broadcast_to wide 2 1 a s c
        pnnx.Expression sum 2 1 x c y expr=add(@0,@1)
    """,
}  # fmt: skip


@pytest.mark.parametrize("name", FOLLOWING)
def test_parts_follow_what_they_are_parts_of(name: str) -> None:
    body = "\n".join(line.strip() for line in FOLLOWING[name].strip().splitlines())
    follows(HEAD + body + TAIL, (0, 2, 3), OLD, NEW)


@pytest.mark.parametrize(
    "line",
    [
        "Tensor.slice op 1 1 x y dims=(2) starts=(0) ends=(7) steps=(1) selects=(2147483647) $input=x",
        "Tensor.slice op 1 1 x y dims=(3) starts=(9) ends=(12) steps=(1) selects=(2147483647) $input=x",
        "Tensor.slice op 1 1 x y dims=(3) starts=(4) ends=(5) steps=(1) selects=(2147483647) $input=x",
        "F.adaptive_max_pool2d op 1 1 x y output_size=(4,6) return_indices=False $input=x",
        "F.avg_pool2d op 1 1 x y kernel_size=(4,6) stride=(4,6) padding=(0,0) ceil_mode=False $input=x",
        "torch.index_select op 2 1 x k y dim=3 $input=x $index=k",
        "Tensor.index op 1 1 x y expr=[None,None,None,[0,2,4,6,8,10]] $input=x",
        "pnnx.Expression op 1 1 x y expr=sub(@0,2.0794415416798357)",
    ],
)  # fmt: skip
def test_parts_of_nobody_knows_what_are_named(line: str) -> None:
    template = HEAD.format(**OLD) + f"pnnx.Attribute k 0 1 k @data=(4)i64 #k=(4)i64\n{line}\npnnx.Output out 2 0 y k"
    assert traced(template, lambda: {"k": np.array([0, 3, 7, 11])}).make_dynamic({"x": (2, 3)}) == ["op"]


@pytest.mark.parametrize(
    "line",
    [
        "Tensor.slice op 1 1 x y dims=(2) starts=(0) ends=(1) steps=(1) selects=(2147483647) $input=x",
        "Tensor.slice op 1 1 x y dims=(2) starts=(1) ends=(2147483647) steps=(1) selects=(2147483647) $input=x",
        "Tensor.slice op 1 1 x y dims=(2) starts=(-3) ends=(2147483647) steps=(1) selects=(2147483647) $input=x",
        "F.adaptive_max_pool2d op 1 1 x y output_size=(4,4) return_indices=False $input=x",
        "F.adaptive_avg_pool2d op 1 1 x y output_size=(1,6) $input=x",
        "Tensor.index op 1 1 x y expr=[None,None,None,[0,2]] $input=x",
        "pnnx.Expression op 1 1 x y expr=sub(@0,2.0)",
    ],
)
def test_parts_of_a_size_of_the_model_are_not_named(line: str) -> None:
    assert traced(HEAD.format(**OLD) + line + TAIL, None).make_dynamic({"x": (2, 3)}) == []


def test_a_grid_of_the_size_of_a_picture_is_named() -> None:
    template = """
        pnnx.Input in 0 1 x #x=(1,2,8,12)f32
        pnnx.Attribute grid 0 1 g @data=(1,8,12,2)f32 #g=(1,8,12,2)f32
        F.grid_sample op 2 1 x g y mode=bilinear padding_mode=zeros align_corners=False $input=x $grid=g
        pnnx.Output out 1 0 y
    """
    graph = traced(template, lambda: {"grid": np.zeros((1, 8, 12, 2), np.float32)})
    assert graph.make_dynamic({"x": (2, 3)}) == ["op"]


def test_square_pictures_grow_alike() -> None:
    template = """
        pnnx.Input in 0 1 x #x=(1,3,{h},{w})f32
        pnnx.Input in2 0 1 z #z=(1,3,{h},{w})f32
        pnnx.Expression sum 2 1 x z y expr=add(@0,@1)
        pnnx.Output out 1 0 y
    """
    graph = traced(template, None, h=16, w=16)
    assert graph.make_dynamic({"x": (2, 3), "z": (2, 3)}) == []
    assert graph.operand("y").shape == (1, 3, -1, -1)


GATHERED = {
    "a batch behind": ("{n},{b},4,5", "{n},{b},4,3", 3),
    "a batch in front": ("{b},4,5", "{b},4,3", 2),
    "columns": ("{b},4,{n}", "{b},2,{n}", 1),
}


@pytest.mark.parametrize("name", GATHERED)
def test_constant_places_are_as_many_as_what_they_are_gathered_from(name: str) -> None:
    shape, index, dim = GATHERED[name]
    template = f"""
        pnnx.Input in 0 1 x #x=({shape})f32
        pnnx.Attribute k 0 1 k @data=({index})i64 #k=({index})i64
        torch.gather op 2 1 x k y dim={dim} $input=x $index=k #y=({index})f32
        pnnx.Output out 1 0 y
    """

    def places(b: int, n: int) -> dict[str, np.ndarray]:
        sizes = eval(index.format(b=b, n=n))
        line = np.arange(sizes[dim]).reshape([-1 if i == dim else 1 for i in range(len(sizes))])
        return {"k": np.broadcast_to(line[..., ::-1] if dim else line, sizes).copy()}

    axes = tuple(i for i, size in enumerate(shape.split(",")) if "{" in size)
    follows(template, axes, {"b": 1, "n": 6}, {"b": 3, "n": 7}, constants=places)


@pytest.mark.parametrize("batch", [2, 3])
def test_a_constant_keeps_the_axes_that_it_alone_has(batch: int) -> None:
    template = """
        pnnx.Input in 0 1 x #x=({b},1)f32
        pnnx.Attribute ones 0 1 k @data=({b},3)f32 #k=({b},3)f32
        pnnx.Expression product 2 1 x k y expr=mul(@0,@1)
        pnnx.Output out 1 0 y
    """
    follows(template, (0,), {"b": batch}, {"b": 5}, constants=lambda b: {"ones": np.ones((b, 3), np.float32)})


@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("first", [True, False])
def test_first_states_have_a_row_for_every_item(batch: int, first: bool) -> None:
    shape = "{b},4,3" if first else "4,{b},3"
    template = f"""
        pnnx.Input in 0 1 x #x=({shape})f32
        pnnx.Attribute zeros 0 1 k @data=(1,{{b}},5)f32 #k=(1,{{b}},5)f32
        nn.GRU gru 2 2 x k y z batch_first={first} bias=False bidirectional=False hidden_size=5 input_size=3 num_layers=1 @weight_hh_l0=(15,5)f32 @weight_ih_l0=(15,3)f32 $input=x $hx=k
        pnnx.Output out 2 0 y z
    """  # noqa: E501

    def zeros(b: int) -> dict[str, np.ndarray]:
        return {"zeros": np.zeros((1, b, 5), np.float32)}

    graph, wanted = (traced(template, zeros, b=b) for b in (batch, 4))
    for op in (graph.operator("gru"), wanted.operator("gru")):
        op.attrs = {k: Attribute(np.random.default_rng(1).random(a.shape, np.float32)) for k, a in op.attrs.items()}
    assert graph.make_dynamic({"x": (1 - first,)}) == []
    x = RNG.standard_normal(Model(wanted).inputs[0].shape).astype(np.float32)
    for got, want in zip(Model(graph)(x), Model(wanted)(x), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


SUMMED: Callable[..., dict[str, np.ndarray]] = lambda b: {"c": np.full((b, 2, 4), np.nan, np.float32)}  # noqa: E731


def test_what_is_multiplied_by_nothing_needs_no_size() -> None:
    template = """
        pnnx.Input in 0 1 x #x=({b},2,3)f32
        pnnx.Attribute c 0 1 c @data=({b},2,4)f32 #c=({b},2,4)f32
        pnnx.Input in2 0 1 z #z=({b},3,4)f32
        torch.baddbmm op 3 1 c x z y alpha=1 beta=0 $input=c $batch1=x $batch2=z
        pnnx.Output out 1 0 y
    """
    graph = traced(template, SUMMED, b=2)
    assert graph.make_dynamic({"x": (0,), "z": (0,)}) == []
    x, z = RNG.random((5, 2, 3), np.float32), RNG.random((5, 3, 4), np.float32)
    np.testing.assert_allclose(Model(graph)(x, z), x @ z, rtol=1e-5)


@pytest.mark.parametrize("batch", [1, 2])
def test_a_batch_is_cut_off_with_what_is_left_behind(batch: int) -> None:
    template = """
        pnnx.Input in 0 1 x #x=({b},6,4)f32
        torch.flatten flat 1 1 x a start_dim=0 end_dim=1 $input=x
        Tensor.unflatten apart 1 1 a c dim=0 sizes=({b},-1) $input=a
        torch.sum sum 1 1 c y dim=(1) keepdim=False $input=c
        pnnx.Output out 1 0 y
    """
    follows(template, (0,), {"b": batch}, {"b": 3})


JOINED = """
    pnnx.Input in 0 1 x #x=({b},{m},3)f32
    pnnx.Input in2 0 1 z #z=({b},{n},3)f32
    torch.cat join 2 1 x z a dim=1 $inputs=x
    F.relu layer 1 1 a c $input=a
    {cut}
    pnnx.Output out 2 0 p q
"""


@pytest.mark.parametrize(
    "cut",
    [
        "torch.split apart 1 2 c p q dim=1 split_size_or_sections=({m},{n}) $tensor=c",
        "torch.tensor_split apart 1 2 c p q dim=1 indices=({m}) $input=c",
    ],
)
@pytest.mark.parametrize("fixed", [False, True])
def test_what_was_joined_is_taken_apart(cut: str, fixed: bool) -> None:
    template = JOINED.replace("{cut}", cut).replace(" $inputs=x", "")
    graph = traced(template, None, b=1, m=5, n=7)
    assert graph.make_dynamic({"x": (0,) if fixed else (0, 1), "z": (0, 1)}) == []
    x, z = (RNG.random((2, 5 if fixed else 4, 3), np.float32), RNG.random((2, 9, 3), np.float32))
    for got, want in zip(Model(graph)(x, z), (x, z), strict=True):
        np.testing.assert_array_equal(got, want)


def test_rows_are_as_many_as_those_that_they_are_joined_with() -> None:
    template = """
        pnnx.Input in 0 1 x #x=({b},4)f32
        pnnx.Input in2 0 1 z #z=({b},6)f32
        torch.flatten flat 1 1 z a start_dim=0 end_dim=-1 $input=z
        torch.unsqueeze each 1 1 a c dim=1 $input=a
        pnnx.Expression both 1 1 c d expr=mul(@0,2.0)
        torch.cat pairs 2 1 c d e dim=-1
        Tensor.reshape rows 1 1 e f shape=({b},12) $input=e #f=({b},12)f32
        torch.cat join 2 1 x f y dim=-1
        pnnx.Output out 1 0 y
    """
    graph = traced(template, None, b=1)
    assert graph.make_dynamic() == []
    x, z = RNG.random((3, 4), np.float32), RNG.random((3, 6), np.float32)
    np.testing.assert_allclose(Model(graph)(x, z), Model(traced(template, None, b=3))(x, z))


def test_what_is_scattered_is_as_large_as_the_places() -> None:
    template = """
        pnnx.Input in 0 1 x #x=(2,{n})i64
        pnnx.Attribute zeros 0 1 k @data=(2,5)f32 #k=(2,5)f32
        pnnx.Attribute ones 0 1 o @data=(2,{n})f32 #o=(2,{n})f32
        torch.scatter_add count 3 1 k x o y dim=1 $input=k $index=x $src=o
        pnnx.Output out 1 0 y
    """

    def constants(n: int) -> dict[str, np.ndarray]:
        return {"zeros": np.zeros((2, 5), np.float32), "ones": np.ones((2, n), np.float32)}

    graph = traced(template, constants, n=7)
    graph.make_dynamic({"x": (1,)})
    x = RNG.integers(0, 5, (2, 9))
    np.testing.assert_array_equal(Model(graph)(x), [np.bincount(line, minlength=5) for line in x])


def test_parts_that_the_graph_does_not_name_are_an_error() -> None:
    template = """
        pnnx.Input in 0 1 x #x=({b},3)f32
        torch.split cut 1 2 x p q dim=0 split_size_or_sections=2 $tensor=x
        pnnx.Expression sum 2 1 p q y expr=add(@0,@1)
        pnnx.Output out 1 0 y
    """
    model = Model(traced(template, None, b=4))
    assert model(np.ones((4, 3), np.float32)).shape == (2, 3)
    with pytest.raises(ShapeError, match="split cut: the operator does not give as many outputs"):
        model(np.ones((6, 3), np.float32))


def test_parts_of_one_size_whose_number_varies_are_refused() -> None:
    template = HEAD + "torch.split op 1 2 x y z dim=2 split_size_or_sections=4 $tensor=x" + TAIL
    with pytest.raises(ShapeError, match="split op: the operator does not give as many outputs"):
        traced(template, None, **OLD).make_dynamic({"x": (2,)})


def test_sizes_that_depend_on_data_leave_the_number_of_dimensions() -> None:
    template = """
        pnnx.Input in 0 1 x #x=({b},4)f32
        pnnx.Expression positive 1 1 x k expr=gt(@0,0) #k=({b},4)bool
        Tensor.index take 2 1 x k y $input=x $expr=k #y=(5)f32
        pnnx.Expression half 1 1 y z expr=mul(@0,0.5) #z=(5)f32
        pnnx.Output out 1 0 z
    """
    graph = traced(template, None, b=3)
    assert graph.make_dynamic() == []
    assert graph.operand("z").shape == (-1,)
    graph.change_batch(2)
    assert graph.operand("z").shape == (-1,)


@pytest.mark.parametrize(
    "line",
    [
        "torch.gather op 1 1 x y dim=0 $input=x",
        "torch.index_select op 2 1 x z y dim=9 $input=x $index=z",
        "F.avg_pool2d op 1 1 x y kernel_size=(0,3) $input=x",
        "F.grid_sample op 1 1 x y mode=bilinear padding_mode=zeros align_corners=False $input=x",
        "torch.fft.irfft2 op 1 1 x y s=(8,12,3) dim=(2,3) $input=x",
        "Tensor.unflatten op 1 1 x y dim=0 sizes=(0,-1) $input=x",
        "torch.tensor_split op 1 1 x y dim=9 indices=(1) $input=x",
        "Tensor.slice op 1 1 x y dims=(2,3) starts=(0) ends=(3) steps=(1) $input=x",
        "Tensor.index op 1 1 x y expr=[None,@7] $input=x",
        "aten::broadcast_to op 1 1 x y",
        "nn.GRU op 2 1 x z y",
    ],
)
@pytest.mark.parametrize("axes", [(0,), (2, 3)])
def test_operators_that_are_wrong_anyway_are_named(line: str, axes: tuple[int, ...]) -> None:
    template = HEAD + f"pnnx.Input in2 0 1 z #z=(4)i64\n{line}" + TAIL
    with pytest.raises(PnnxFastError, match=f"{line.partition(' ')[0]} op: "):
        traced(template, None, **OLD).make_dynamic({"x": axes})
