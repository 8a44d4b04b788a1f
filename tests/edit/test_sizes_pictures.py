"""Sizes that tracing has fixed vary again: what a graph gives is what the same model traced at those sizes gives."""

from __future__ import annotations

import numpy as np
import pytest

from pnnx_fast import Attribute, Graph, Model
from pnnx_fast.errors import ShapeError

RNG = np.random.default_rng(0)


WEIGHTS = "@in_proj_weight=(24,8)f32 @in_proj_bias=(24)f32 @out_proj.weight=(8,8)f32 @out_proj.bias=(8)f32"


def traced(template: str, sizes: dict[str, int], constants: dict[str, np.ndarray] | None = None) -> Graph:
    """A graph whose sizes are written as ``{h}``, ``{2*h}`` …"""
    lines = [eval(f"f{line.strip()!r}", {}, sizes) for line in template.strip().splitlines()]
    graph = Graph.parse("\n".join(["7767517", f"{len(lines)} 0", *lines, ""]))
    for op in graph.ops:
        if op.name in (constants or {}):
            op.attrs["data"] = Attribute(constants[op.name])
        else:
            op.attrs = {k: Attribute(np.random.default_rng(1).random(a.shape, np.float32)) for k, a in op.attrs.items()}
    return graph


def check(template: str, axes: dict[str, tuple[int, ...]] | None, old: dict[str, int], new: dict[str, int]) -> None:
    graph = traced(template, old)
    assert graph.make_dynamic(axes) == []
    for sizes in (old, new):
        wanted = Model(traced(template, sizes))
        arrays = [RNG.standard_normal(x.shape).astype(np.float32) for x in wanted.inputs]
        np.testing.assert_allclose(Model(graph)(*arrays), wanted(*arrays), rtol=1e-5, atol=1e-6)


POOLED = """
pnnx.Input in 0 1 x #x=(1,2,{h},{w})f32
nn.AdaptiveAvgPool2d pool 1 1 x a output_size=({k},{k}) #a=(1,2,{k},{k})f32
{op} up 1 1 a b size=({h},{w}) mode=bilinear align_corners={corners}{more} $input=a #b=(1,2,{h},{w})f32
torch.cat cat 2 1 x b y dim=1
pnnx.Output out 1 0 y
"""


@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("op", ["F.interpolate", "F.upsample"])
def test_what_was_pooled_returns_to_the_size_that_it_came_from(k: int, op: str) -> None:
    more = " recompute_scale_factor=None" if op == "F.interpolate" else ""
    template = POOLED.replace("{op}", op).replace("{more}", more).replace("{corners}", str(k == 1))
    check(template, {"x": (2, 3)}, {"h": 6, "w": 9, "k": k}, {"h": 11, "w": 8, "k": k})


@pytest.mark.parametrize("op", ["F.upsample_nearest", "F.upsample_bilinear"])
@pytest.mark.parametrize("join", ["torch.cat join 2 1 u b y dim=1", "pnnx.Expression join 2 1 u b y expr=add(@0,@1)"])
def test_a_branch_is_resized_to_what_it_is_joined_with(join: str, op: str) -> None:
    """A size that happens to be a multiple was that of the other branch all the same."""
    template = f"""
        pnnx.Input in 0 1 x #x=(1,2,{{h}},{{w}})f32
        F.avg_pool2d half 1 1 x a kernel_size=(3,3) stride=(2,2) padding=(1,1) ceil_mode=False count_include_pad=True
        F.relu other 1 1 a b #b=(1,2,{{(h+1)//2}},{{(w+1)//2}})f32
        F.avg_pool2d quarter 1 1 a c kernel_size=(3,3) stride=(2,2) padding=(1,1) ceil_mode=False count_include_pad=True
        {op} up 1 1 c d size=({{(h+1)//2}},{{(w+1)//2}}) $input=c #d=(1,2,{{(h+1)//2}},{{(w+1)//2}})f32
        F.relu layer 1 1 d u #u=(1,2,{{(h+1)//2}},{{(w+1)//2}})f32
        {join}
        pnnx.Output out 1 0 y
    """
    check(template, {"x": (2, 3)}, {"h": 8, "w": 16}, {"h": 13, "w": 11})


def test_what_nothing_is_joined_with_is_resized_to_the_picture_that_it_was_made_of() -> None:
    template = """
        pnnx.Input in 0 1 x #x=(1,2,{h},{w})f32
        F.avg_pool2d small 1 1 x a kernel_size=(3,3) stride=(4,4) padding=(1,1) ceil_mode=False count_include_pad=True
        F.upsample up 1 1 a y size=({h},{w}) mode=bilinear align_corners=False $input=a
        pnnx.Output out 1 0 y
    """
    check(template, {"x": (2, 3)}, {"h": 8, "w": 16}, {"h": 13, "w": 11})


def test_blocks_are_put_together_to_the_picture_that_they_were_cut_from() -> None:
    blocks = "kernel_size=(3,3) stride=(2,2) padding=(1,1) dilation=(1,1)"
    template = f"""
        pnnx.Input in 0 1 x #x=(1,2,{{h}},{{w}})f32
        F.unfold cut 1 1 x a {blocks} $input=x
        F.fold join 1 1 a y output_size=({{h}},{{w}}) {blocks} $input=a
        pnnx.Output out 1 0 y
    """
    check(template, {"x": (0, 2, 3)}, {"h": 8, "w": 12}, {"h": 13, "w": 9})


def test_as_many_blocks_as_places_of_a_block_are_no_picture() -> None:
    """Patches of 2 x 2 as MobileViT takes them apart: 4 places, 4 patches."""
    blocks = "kernel_size=(2,2) stride=(2,2) padding=(0,0) dilation=(1,1)"
    template = f"""
        pnnx.Input in 0 1 x #x=(1,3,{{h}},{{w}})f32
        F.unfold cut 1 1 x a {blocks} $input=x
        Tensor.reshape apart 1 1 a b shape=(1,3,4,{{h*w//4}}) $input=a
        torch.cumsum sum 1 1 b c dim=3 $input=b
        Tensor.reshape flat 1 1 c d shape=(1,12,{{h*w//4}}) $input=c
        F.fold join 1 1 d y output_size=({{h}},{{w}}) {blocks} $input=d
        pnnx.Output out 1 0 y
    """
    check(
        template,
        {"x": (0, 2, 3)},
        {"h": 4, "w": 4},
        {"h": 6, "w": 8},
    )


@pytest.mark.parametrize(
    "line",
    [
        "aten::avg_pool2d pool 7 1 x k k p no no none y",
        "aten::avg_pool2d pool 7 1 x k s p no no none y",
        "aten::max_pool2d pool 6 1 x k k p one no y",
    ],
)
def test_windows_that_are_given_by_position_cover_the_whole_picture(line: str) -> None:
    template = f"""
        pnnx.Input in 0 1 x #x=(1,2,{{h}},{{w}})f32
        pnnx.Expression k 0 1 k expr=[{{h}},{{w}}]
        pnnx.Expression s 0 1 s expr=[]
        pnnx.Expression p 0 1 p expr=[0,0]
        pnnx.Expression one 0 1 one expr=[1,1]
        pnnx.Expression no 0 1 no expr=False
        pnnx.Expression none 0 1 none expr=None
        {line}
        pnnx.Output out 1 0 y
    """
    check(template, {"x": (0, 2, 3)}, {"h": 6, "w": 9}, {"h": 11, "w": 8})


@pytest.mark.parametrize("kind", ["aten::scatter", "torch.scatter_add", "aten::scatter_reduce"])
@pytest.mark.parametrize("axes", [(0,), (0, 1)])
def test_zeros_that_are_written_into_are_as_many_as_what_is_written(axes: tuple[int, ...], kind: str) -> None:
    """Gates of experts: the best few of their weights, and zeros elsewhere."""
    place = {
        "aten::scatter": "4 1 z one i s y",
        "aten::scatter_reduce": "6 1 z one i s sum yes y",
        "torch.scatter_add": "3 1 z i s y dim=1 $input=z $index=i $src=s",
    }
    template = f"""
        pnnx.Input in 0 1 x #x=({{n}},{{m}},4)f32
        torch.topk best 1 2 x s i dim=1 k=2 largest=True sorted=True $input=x
        pnnx.Attribute zeros 0 1 z @data=({{n}},{{m}},4)f32
        pnnx.Expression one 0 1 one expr=1
        pnnx.Expression sum 0 1 sum expr=sum
        pnnx.Expression yes 0 1 yes expr=True
        {kind} write {place[kind]}
        pnnx.Output out 1 0 y
    """

    def make(n: int, m: int) -> Graph:
        return traced(template, {"n": n, "m": m}, {"zeros": np.zeros((n, m, 4), np.float32)})

    graph = make(1, 5)
    assert graph.make_dynamic({"x": axes}) == []
    for n, m in ((1, 5), (3, 7 if 1 in axes else 5)):
        x = RNG.standard_normal((n, m, 4)).astype(np.float32)
        np.testing.assert_array_equal(Model(graph)(x), Model(make(n, m))(x))


@pytest.mark.parametrize("kind", ["avg", "max"])
def test_a_window_over_the_whole_picture_covers_any(kind: str) -> None:
    more = "count_include_pad=True divisor_override=None" if kind == "avg" else "dilation=(1,1) return_indices=False"
    template = f"""
        pnnx.Input in 0 1 x #x=(1,2,{{h}},{{w}})f32
        F.{kind}_pool2d pool 1 1 x a kernel_size=({{h}},{{w}}) stride=({{h}},{{w}}) padding=(0,0) ceil_mode=False {more}
        pnnx.Expression e 2 1 x a y expr=mul(@0,sigmoid(@1))
        pnnx.Output out 1 0 y
    """
    check(template, {"x": (2, 3)}, {"h": 6, "w": 9}, {"h": 11, "w": 8})


def test_a_window_that_the_model_gives_stays() -> None:
    template = """
        pnnx.Input in 0 1 x #x=(1,2,{h},{w})f32
        F.avg_pool2d pool 1 1 x y kernel_size=(3,3) stride=(1,1) padding=(0,0) ceil_mode=False count_include_pad=True
        pnnx.Output out 1 0 y
    """
    check(template, {"x": (2, 3)}, {"h": 6, "w": 9}, {"h": 11, "w": 8})


@pytest.mark.parametrize("one", [True, False])
def test_slices_as_long_as_the_input_follow_it(one: bool) -> None:
    fields = "dim=3 start=2 end={w+2} step=1" if one else (
        "dims=(2,3) starts=(0,2) ends=({h},{w+2}) steps=(1,1) selects=(2147483647,2147483647)"
    )  # fmt: skip
    template = f"""
        pnnx.Input in 0 1 x #x=(1,2,{{h}},{{w}})f32
        F.pad pad 1 1 x a mode=constant pad=(2,2,{"0,0" if one else "2,2"}) value=None $input=x
        Tensor.slice slice 1 1 a b {fields} $input=a
        pnnx.Expression e 2 1 x b y expr=mul(@0,@1)
        pnnx.Output out 1 0 y
    """
    check(template, {"x": (2, 3)}, {"h": 6, "w": 9}, {"h": 11, "w": 8})


@pytest.mark.parametrize("start", [2, 4])
def test_ranges_as_long_as_the_input_follow_it(start: int) -> None:
    template = f"""
        pnnx.Input in 0 1 x #x=(1,2,{{h}},{{w}})f32
        F.pad pad 1 1 x a mode=constant pad=(2,2,{start},{start}) value=None $input=x
        torch.narrow rows 1 1 a b dim=2 start={start} length={{h}} $input=a
        torch.narrow columns 1 1 b c dim=-1 start=2 length={{w}} $input=b
        pnnx.Expression e 2 1 x c y expr=mul(@0,@1)
        pnnx.Output out 1 0 y
    """
    check(template, {"x": (2, 3)}, {"h": 7, "w": 9}, {"h": 11, "w": 8})


def test_ranges_that_cut_nothing_follow_the_picture_that_came_first() -> None:
    pool = "kernel_size=(2,1) stride=(2,1) padding=(0,0) dilation=(1,1) ceil_mode=True return_indices=False"
    template = f"""
        pnnx.Input in 0 1 x #x=(1,2,{{h}},7)f32
        F.max_pool2d p 1 1 x a {pool}
        F.interpolate u 1 1 a b align_corners=False mode=bilinear recompute_scale_factor=False scale_factor=(2.0,1.0)
        torch.narrow n 1 1 b y dim=2 start=0 length={{h}} $input=b
        pnnx.Output out 1 0 y
    """
    check(template, {"x": (2,)}, {"h": 6}, {"h": 9})


@pytest.mark.parametrize("n", [1, 2, 3])
def test_ranges_take_joined_batches_apart(n: int) -> None:
    template = """
        pnnx.Input in 0 1 x #x=({n},4)f32
        torch.flip f 1 1 x a dims=(1) $input=x
        torch.cat c 2 1 x a b dim=0
        torch.narrow first 1 1 b d dim=0 start=0 length={n} $input=b
        torch.narrow second 1 1 b e dim=0 start={n} length={n} $input=b
        pnnx.Expression m 2 1 d e y expr=mul(@0,@1)
        pnnx.Output out 1 0 y
    """
    check(template, None, {"n": n}, {"n": 5})


def test_fields_that_are_cut_out_of_channels_stay() -> None:
    """Heads of detectors: anchors and classes lie in one axis, rows and columns vary both."""
    template = """
        pnnx.Input in 0 1 x #x=(1,{h},{w},12)f32
        Tensor.reshape r 1 1 x y shape=(1,{h*w*3},4) $input=x
        pnnx.Output out 1 0 y
    """
    check(template, {"x": (0, 1, 2)}, {"h": 6, "w": 10}, {"h": 11, "w": 8})


def test_writes_into_views_at_low_levels() -> None:
    template = """
        pnnx.Input in 0 1 x #x=({n},4,6)f32
        Tensor.slice v 1 1 x a dim=2 start=0 end=2 step=1 $input=x
        pnnx.Expression e 1 1 a b expr=exp(@0)
        Tensor.copy c 2 1 a b w $self=a $src=b #w=({n},4,6)f32
        Tensor.reshape r 1 1 w y shape=({n},24) $input=w
        pnnx.Output out 1 0 y
    """
    check(template, None, {"n": 1}, {"n": 3})


@pytest.mark.parametrize("n", [1, 2])
def test_rows_that_are_written_into_a_constant(n: int) -> None:
    zeros = np.zeros((n, 4, 6), np.float32)
    graph = traced(
        """
        pnnx.Input in 0 1 x #x=({n},4,3)f32
        pnnx.Attribute k 0 1 k @data=({n},4,6)f32
        Tensor.clone c 1 1 k d
        Tensor.slice_copy s 2 1 d x y dim=2 start=2 end=5 step=1 $self=d $src=x
        pnnx.Output out 1 0 y
        """,
        {"n": n},
        {"k": zeros},
    )
    assert graph.make_dynamic() == []
    x = RNG.standard_normal((3, 4, 3)).astype(np.float32)
    np.testing.assert_array_equal(Model(graph)(x), np.pad(x, ((0, 0), (0, 0), (2, 1))))


def test_a_picture_that_is_sampled_at_places_of_each_item() -> None:
    graph = traced(
        """
        pnnx.Input in 0 1 g #g=(1,3,2,2)f32
        pnnx.Attribute k 0 1 k @data=(1,1,4,4)f32
        F.grid_sample s 2 1 k g y mode=bilinear padding_mode=zeros align_corners=True $input=k $grid=g
        pnnx.Output out 1 0 y
        """,
        {},
        {"k": np.ones((1, 1, 4, 4), np.float32)},
    )
    assert graph.make_dynamic() == []
    np.testing.assert_allclose(Model(graph)(RNG.random((5, 3, 2, 2), np.float32)), np.ones((5, 1, 3, 2)), rtol=1e-6)


@pytest.mark.parametrize("first", [True, False])
def test_learned_queries_repeat_with_the_batch(first: bool) -> None:
    fields = "num_heads=2 embed_dim=8 kdim=8 vdim=8 bias=True add_bias_kv=False add_zero_attn=False"
    template = f"""
        pnnx.Input in 0 1 x #x=({{n}},7,8)f32
        pnnx.Attribute q 0 1 q @data={"(1,3,8)" if first else "(3,1,8)"}f32
        Tensor.permute p 1 1 x a dims={"(0,1,2)" if first else "(1,0,2)"} $input=x
        nn.MultiheadAttention m 3 1 q a a b {fields} batch_first={first} {WEIGHTS}
        Tensor.permute r 1 1 b y dims={"(0,1,2)" if first else "(1,0,2)"} $input=b
        pnnx.Output out 1 0 y
    """
    graph, one = (traced(template, {"n": 1}) for _ in range(2))
    assert graph.make_dynamic() == []
    x = RNG.standard_normal((3, 7, 8)).astype(np.float32)
    wanted = np.concatenate([Model(one)(row[None]) for row in x])
    np.testing.assert_allclose(Model(graph)(x), wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("size", ["({n},3,{h},{w})", "({n},5,4,4)"])
def test_grids_are_made_for_the_pictures_that_they_sample(size: str) -> None:
    template = f"""
        pnnx.Input in 0 1 x #x=({{n}},3,{{h}},{{w}})f32
        pnnx.Input in2 0 1 t #t=({{n}},2,3)f32
        F.affine_grid a 1 1 t g align_corners=False size={size} $theta=t
        F.grid_sample s 2 1 x g y mode=bilinear padding_mode=zeros align_corners=False $input=x $grid=g
        pnnx.Output out 1 0 y
    """
    check(template, None, {"n": 1, "h": 6, "w": 9}, {"n": 3, "h": 6, "w": 9})
    if "h" in size:
        axes = {"x": (0, 2, 3), "t": (0,)}
        check(template, axes, {"n": 1, "h": 6, "w": 9}, {"n": 2, "h": 5, "w": 12})


def test_statistics_are_spread_over_the_picture_that_they_are_of() -> None:
    template = """
        pnnx.Input in 0 1 x #x=(1,6,{h},{w})f32
        Tensor.reshape r 1 1 x a shape=(1,2,3,{h},{w}) $input=x
        torch.var v 1 1 a b dim=(2,3,4) keepdim=True unbiased=False $input=a
        Tensor.expand e 1 1 b c sizes=(1,2,3,{h},{w}) $input=b
        Tensor.reshape s 1 1 c d shape=(1,6,{h},{w}) $input=c
        pnnx.Expression m 2 1 x d y expr=div(@0,sqrt(@1))
        pnnx.Output out 1 0 y
    """
    check(template, {"x": (0, 2, 3)}, {"h": 6, "w": 9}, {"h": 11, "w": 8})


BATCHED = {
    "a constant that is gathered from": """
        pnnx.Input in 0 1 x #x=({n},6)f32
        pnnx.Attribute k 0 1 k @data=(1,9)f32
        torch.argsort s 1 1 x i descending=False dim=-1 $input=x
        torch.gather g 2 1 k i y dim=1 $input=k $index=i
        pnnx.Output out 1 0 y
    """,
    "rows of a constant that are gathered": """
        pnnx.Input in 0 1 x #x=({n},6)f32
        pnnx.Attribute k 0 1 k @data=(6,4)f32
        torch.argsort s 1 1 x i descending=False dim=-1 $input=x
        Tensor.slice c 1 1 i j dims=(1) starts=(0) ends=(4) steps=(1) selects=(2147483647) $input=i
        torch.gather g 2 1 k j y dim=0 $input=k $index=j
        pnnx.Output out 1 0 y
    """,
    "what is computed from constants beside a batch": """
        pnnx.Input in 0 1 x #x=({n},5,4)f32
        pnnx.Attribute k 0 1 k @data=(1,5,3)f32
        nn.Linear l 1 1 k p bias=False in_features=3 out_features=2 @weight=(2,3)f32
        torch.cat c 2 1 x p y dim=2
        pnnx.Output out 1 0 y
    """,
    "a constant into which steps of a batch are written": """
        pnnx.Input in 0 1 x #x=({n},5)f32
        pnnx.Attribute k 0 1 k @data=(1,4,5)f32
        Tensor.clone l 1 1 k c
        Tensor.slice_copy s 2 1 c x y dim=1 start=0 end=0 step=0 select=2 $self=c $src=x
        pnnx.Output out 1 0 y
    """,
    "a bias of products, with a copy for every head": """
        pnnx.Input in 0 1 x #x=({n},2,4,3)f32
        pnnx.Input jn 0 1 z #z=({n},2,3,4)f32
        pnnx.Attribute k 0 1 k @data=(2,4,4)f32
        Tensor.reshape r 1 1 x a shape=({2*n},4,3) $input=x
        Tensor.reshape s 1 1 z b shape=({2*n},3,4) $input=z
        torch.baddbmm m 3 1 k a b c alpha=1 beta=1 $input=k $batch1=a $batch2=b
        Tensor.reshape t 1 1 c y shape=({n},2,4,4) $input=c
        pnnx.Output out 1 0 y
    """,
    "weights of each item's own, plain": """
        pnnx.Input in 0 1 x #x=({n},3,5,6)f32
        pnnx.Input jn 0 1 w #w=({n},4,3,3,3)f32
        Tensor.reshape r 1 1 x a shape=(1,{3*n},5,6) $input=x
        Tensor.reshape s 1 1 w b shape=({4*n},3,3,3) $input=w
        F.conv2d c 2 1 a b d bias=None stride=(1,1) padding=(1,1) dilation=(1,1) groups={n} $input=a $weight=b
        Tensor.reshape t 1 1 d y shape=({n},4,5,6) $input=d
        pnnx.Output out 1 0 y
    """,
    "weights of each item's own, transpose": """
        pnnx.Input in 0 1 x #x=({n},3,5,6)f32
        pnnx.Input jn 0 1 w #w=({n},3,4,3,3)f32
        Tensor.reshape r 1 1 x a shape=(1,{3*n},5,6) $input=x
        Tensor.reshape s 1 1 w b shape=({3*n},4,3,3) $input=w
        F.conv_transpose2d c 2 1 a b d bias=None stride=(1,1) padding=(1,1) dilation=(1,1) groups={n} $input=a $weight=b
        Tensor.reshape t 1 1 d y shape=({n},4,5,6) $input=d
        pnnx.Output out 1 0 y
    """,
    "a constant in a stack": """
        pnnx.Input in 0 1 x #x=({n},4)f32
        pnnx.Attribute k 0 1 k @data=(1,4)f32
        torch.stack c 2 1 x k y dim=1
        pnnx.Output out 1 0 y
    """,
    "overlapping windows by strides": """
        pnnx.Input in 0 1 x #x=({n},3,8)f32
        torch.as_strided s 1 1 x y size=({n},3,3,4) stride=(24,8,2,1) $input=x
        pnnx.Output out 1 0 y
    """,
}


@pytest.mark.parametrize("name", BATCHED)
def test_what_stood_for_one_item_serves_a_batch(name: str) -> None:
    constants = {"k": np.zeros((2, 4, 4), np.float32)} if "head" in name else None
    graph, one = (traced(BATCHED[name], {"n": 1}, constants) for _ in range(2))
    assert graph.make_dynamic() == []
    arrays = [RNG.standard_normal((3, *x.shape[1:])).astype(np.float32) for x in Model(one).inputs]
    wanted = np.concatenate([Model(one)(*(x[i : i + 1] for x in arrays)) for i in range(3)])
    np.testing.assert_allclose(Model(graph)(*arrays), wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("n", [1, 2])
def test_convolutions_with_weights_of_each_item_follow_the_batch(n: int) -> None:
    template = """
        pnnx.Input in 0 1 x #x=({n},3,5,6)f32
        pnnx.Input jn 0 1 w #w=({n},4,3,3,3)f32
        Tensor.reshape r 1 1 x a shape=(1,-1,5,6) $input=x
        Tensor.reshape s 1 1 w b shape=({4*n},3,3,3) $input=w
        F.conv2d c 2 1 a b d bias=None stride=(1,1) padding=(1,1) dilation=(1,1) groups={n} $input=a $weight=b
        Tensor.reshape t 1 1 d y shape=({n},4,5,6) $input=d
        pnnx.Output out 1 0 y
    """
    check(template.replace("(1,-1,5,6)", "(1,{3*n},5,6)"), None, {"n": 2}, {"n": 5})
    check(template, None, {"n": n}, {"n": 3})


@pytest.mark.parametrize("axis", [0, 1])
def test_strides_across_items_are_refused(axis: int) -> None:
    graph = traced(
        """
        pnnx.Input in 0 1 x #x=(4,1,6)f32
        torch.as_strided s 1 1 x y size=(1,3,2,6) stride=(6,6,6,1) $input=x
        pnnx.Output out 1 0 y
        """,
        {},
    )
    with pytest.raises(ShapeError, match=r"torch\.as_strided s: strides"):
        graph.make_dynamic({"x": (axis,)})
