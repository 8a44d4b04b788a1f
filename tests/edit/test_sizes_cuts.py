"""Pictures that are cut into windows or grids: which of the two axes that come of one varies is told, or refused."""

from __future__ import annotations

import numpy as np
import pytest

from pnnx_fast import Attribute, Graph, Model
from pnnx_fast.errors import ShapeError

RNG = np.random.default_rng(0)


def traced(template: str, sizes: dict[str, int]) -> Graph:
    """A graph whose sizes are written as ``{h}``, ``{h//4}`` …, with random weights and constants."""
    lines = [eval(f"f{line.strip()!r}", {}, sizes) for line in template.strip().splitlines()]
    graph = Graph.parse("\n".join(["7767517", f"{len(lines)} 0", *lines, ""]))
    for op in graph.ops:
        op.attrs = {k: Attribute(np.random.default_rng(1).random(a.shape, np.float32)) for k, a in op.attrs.items()}
    graph.infer_shapes()
    return graph


def check(template: str, axes: tuple[int, ...], old: dict[str, int], *new: dict[str, int]) -> None:
    """What a graph gives at other sizes is what the same model traced at those sizes gives."""
    graph = traced(template, old)
    assert graph.make_dynamic({"x": axes}) == []
    for sizes in (old, *new):
        wanted = Model(traced(template, sizes), num_threads=1)
        x = RNG.standard_normal(wanted.inputs[0].shape).astype(np.float32)
        np.testing.assert_allclose(Model(graph, num_threads=1)(x), wanted(x), rtol=1e-4, atol=1e-5)


CUTS = {
    "windows": ("({b},{h//4},4,{w//4},4,2)", "(0,1,3,2,4,5)", "(0,1,3,2,4,5)"),
    "grid": ("({b},4,{h//4},4,{w//4},2)", "(0,2,4,1,3,5)", "(0,3,1,4,2,5)"),
    "patches": ("({b},{h//4},4,{w//4},4,2)", "(0,2,4,1,3,5)", "(0,3,1,4,2,5)"),
}
"""The axes of a cut picture, their order, and the way back, for windows, MaxViT's grid, and MobileViT's patches."""


def cut(kind: str, *between: str) -> str:
    shape, order, back = CUTS[kind]
    head = f"""
        pnnx.Input in 0 1 x #x=({{b}},{{h}},{{w}},2)f32
        Tensor.reshape cut 1 1 x a shape={shape} $input=x
        Tensor.permute order 1 1 a c dims={order} $input=a
    """
    tail = f"""
        Tensor.permute back 1 1 z v dims={back} $input=z
        Tensor.reshape whole 1 1 v y shape=({{b}},{{h}},{{w}},2) $input=v
        pnnx.Output out 1 0 y
    """
    return "\n".join([head.strip(), *between, tail.strip()])


TOKENS = (
    "Tensor.reshape tokens 1 1 c t shape=({b*h*w//16},16,2) $input=c",
    "torch.transpose turn 1 1 t u dim0=1 dim1=2 $input=t",
    "torch.matmul scores 2 1 t u s $input=t $other=u",
    "F.softmax softmax 1 1 s p dim=-1 $input=s",
    "torch.matmul values 2 1 p t r $input=p $other=t",
    "Tensor.reshape apart 1 1 r z shape=({b},{h//4},{w//4},4,4,2) $input=r",
)
PLACES = (
    "Tensor.reshape tokens 1 1 c t shape=({16*b},{h*w//16},2) $input=c",
    *TOKENS[1:-1],
    "Tensor.reshape apart 1 1 r z shape=({b},4,4,{h//4},{w//4},2) $input=r",
)
BIASED = (
    "Tensor.reshape tokens 1 1 c t shape=({b},{h*w//16},16,2) $input=c",
    "torch.transpose turn 1 1 t u dim0=2 dim1=3 $input=t",
    "torch.matmul scores 2 1 t u s $input=t $other=u",
    "pnnx.Attribute bias 0 1 k @data=(16,16)f32",
    "pnnx.Expression biased 2 1 s k q expr=add(@0,@1)",
    "F.softmax softmax 1 1 q p dim=-1 $input=q",
    "torch.matmul values 2 1 p t r $input=p $other=t",
    "Tensor.reshape apart 1 1 r z shape=({b},{h//4},{w//4},4,4,2) $input=r",
)
FUSED = (
    "Tensor.reshape tokens 1 1 c t shape=({b},{h*w//16},16,2) $input=c",
    "pnnx.Attribute bias 0 1 k @data=(16,16)f32",
    "F.scaled_dot_product_attention attention 4 1 t t t k r dropout_p=0.0 is_causal=False "
    "$query=t $key=t $value=t $attn_mask=k",
    "Tensor.reshape apart 1 1 r z shape=({b},{h//4},{w//4},4,4,2) $input=r",
)
SUMMED = (
    "Tensor.reshape tokens 1 1 c t shape=({b},{h*w//16},16,2) $input=c",
    "pnnx.Attribute bias 0 1 k @data=(16,16)f32",
    "torch.einsum mix 2 1 t k r equation=bnic,ij->bnjc",
    "Tensor.reshape apart 1 1 r z shape=({b},{h//4},{w//4},4,4,2) $input=r",
)
CONVOLVED = (
    "Tensor.reshape tokens 1 1 c t shape=({b*h*w//16},4,4,2) $input=c",
    "Tensor.permute channels 1 1 t u dims=(0,3,1,2) $input=t",
    "nn.Conv2d query 1 1 u e bias=False dilation=(1,1) groups=1 in_channels=2 kernel_size=(1,1) out_channels=2 "
    "padding=(0,0) padding_mode=zeros stride=(1,1) @weight=(2,2,1,1)f32",
    "Tensor.reshape flat 1 1 e f shape=({b*h*w//16},2,16) $input=e",
    "pnnx.Attribute bias 0 1 k @data=(16)f32",
    "pnnx.Expression biased 2 1 f k g expr=add(@0,@1)",
    "torch.transpose turn 1 1 g r dim0=1 dim1=2 $input=g",
    "Tensor.reshape apart 1 1 r z shape=({b},{h//4},{w//4},4,4,2) $input=r",
)
ALONE = ("pnnx.Expression alone 1 1 c z expr=mul(@0,2)",)


@pytest.mark.parametrize("h, w", [(16, 16), (24, 24), (16, 24), (24, 40)])
@pytest.mark.parametrize(
    "kind, between",
    [
        *((kind, between) for between in (BIASED, FUSED, SUMMED, CONVOLVED) for kind in ("windows", "grid")),
        ("windows", TOKENS),
    ],
    ids=[
        *(f"{kind}-{told}" for told in ("bias", "mask", "einsum", "conv") for kind in ("windows", "grid")),
        "windows-batch",
    ],
)
def test_what_follows_tells_windows_from_grids(kind: str, between: tuple[str, ...], h: int, w: int) -> None:
    old = {"b": 1, "h": h, "w": w}
    check(cut(kind, *between), (0, 1, 2), old, {"b": 2, "h": 8, "w": 20}, {"b": 1, "h": 48, "w": 16})
    check(cut(kind, *between), (1,), old, {"b": 1, "h": 32, "w": w})


@pytest.mark.parametrize("h, w", [(16, 16), (16, 24), (24, 40)])
@pytest.mark.parametrize("kind", ["windows", "grid"])
def test_rows_and_columns_in_one_axis_are_laid_out_before_they_are_cut(kind: str, h: int, w: int) -> None:
    """The converter makes one reshape of those that lay tokens out as a picture and cut that into windows."""
    template = cut(kind, *BIASED).replace("cut 1 1 x a", "cut 1 1 f a").replace("$input=x", "$input=f")
    flat = "torch.flatten flat 1 1 x f start_dim=1 end_dim=2 $input=x #f=({b},{h*w},2)f32"
    template = template.replace("f32\n", f"f32\n{flat}\n", 1).replace(
        "y shape=({b},{h},{w},2)", "y shape=({b},{h*w},2)"
    )
    check(template, (0, 1, 2), {"b": 1, "h": h, "w": w}, {"b": 2, "h": 8, "w": 20}, {"b": 1, "h": 48, "w": 16})


UNTOLD = {
    **{f"{kind} alone": (kind, ALONE) for kind in CUTS},
    "grid, inner parts join the batch": ("grid", TOKENS),
    "patches, inner parts join the batch": ("patches", PLACES),
}


@pytest.mark.parametrize("name", UNTOLD)
def test_rows_and_columns_have_one_size_of_the_model_in_common(name: str) -> None:
    kind, between = UNTOLD[name]
    check(cut(kind, *between), (0, 1, 2), {"b": 1, "h": 24, "w": 40}, {"b": 2, "h": 8, "w": 20})


@pytest.mark.parametrize("h", [16, 24])
@pytest.mark.parametrize("name", UNTOLD)
def test_what_nothing_tells_from_the_other_is_refused(name: str, h: int) -> None:
    kind, between = UNTOLD[name]
    with pytest.raises(ShapeError, match="reshape cut"):
        traced(cut(kind, *between), {"b": 1, "h": h, "w": h}).make_dynamic({"x": (1, 2)})


def test_a_grid_follows_windows_of_as_many_cells() -> None:
    """The converter makes one reshape of those that put windows together and cut the picture into a grid."""
    template = """
        pnnx.Input in 0 1 x #x=({b},{h},{w},2)f32
        Tensor.reshape cut 1 1 x a shape=({b},{h//4},4,{w//4},4,2) $input=x
        Tensor.permute order 1 1 a c dims=(0,1,3,2,4,5) $input=a
        Tensor.reshape tokens 1 1 c t shape=({b*h*w//16},16,2) $input=c
        torch.cumsum sum 1 1 t s dim=1 $input=t
        Tensor.reshape apart 1 1 s d shape=({b},{h//4},{w//4},4,4,2) $input=s
        Tensor.permute back 1 1 d e dims=(0,1,3,2,4,5) $input=d
        Tensor.reshape again 1 1 e f shape=({b},4,{h//4},4,{w//4},2) $input=e
        Tensor.permute order2 1 1 f g dims=(0,2,4,1,3,5) $input=f
        Tensor.reshape tokens2 1 1 g y shape=({b*h*w//16},16,2) $input=g
        pnnx.Output out 1 0 y
    """
    for h, w in ((16, 24), (24, 16), (24, 40)):
        check(template, (0, 1, 2), {"b": 1, "h": h, "w": w}, {"b": 2, "h": 8, "w": 20}, {"b": 1, "h": 32, "w": 16})


WEIGHED = {
    "patches": """
        pnnx.Input in 0 1 x #x=({b},3,{h},{w})f32
        Tensor.reshape cut 1 1 x a shape=({b},3,{h//4},4,{w//4},4) $input=x
        Tensor.permute order 1 1 a c dims=(0,2,4,3,5,1) $input=a
        Tensor.reshape tokens 1 1 c t shape=({b},{h*w//16},48) $input=c
        nn.Linear embed 1 1 t y bias=False in_features=48 out_features=5 @weight=(5,48)f32
        pnnx.Output out 1 0 y
    """,
    "channels": """
        pnnx.Input in 0 1 x #x=({b},3,{h},{w})f32
        Tensor.reshape cut 1 1 x a shape=({b},3,{h//2},2,{w//2},2) $input=x
        Tensor.permute order 1 1 a c dims=(0,1,3,5,2,4) $input=a
        Tensor.reshape deep 1 1 c d shape=({b},12,{h//2},{w//2}) $input=c
        nn.Conv2d conv 1 1 d y bias=False dilation=(1,1) groups=1 in_channels=12 kernel_size=(1,1) out_channels=4 """
    """padding=(0,0) padding_mode=zeros stride=(1,1) @weight=(4,12,1,1)f32
        pnnx.Output out 1 0 y
    """,
    "chunks": """
        pnnx.Input in 0 1 x #x=({b},{h*w},3)f32
        Tensor.unflatten cut 1 1 x a dim=1 sizes=({h*w//8},8) $input=x
        torch.transpose turn 1 1 a c dim0=2 dim1=3 $input=a
        torch.matmul scores 2 1 a c s $input=a $other=c
        pnnx.Attribute mask 0 1 k @data=(8,8)f32
        pnnx.Expression masked 2 1 s k y expr=add(@0,@1)
        pnnx.Output out 1 0 y
    """,
}


@pytest.mark.parametrize("name", WEIGHED)
def test_weights_and_masks_tell_which_part_stays(name: str) -> None:
    axes = (0, 1) if name == "chunks" else (0, 2, 3)
    check(WEIGHED[name], axes, {"b": 1, "h": 16, "w": 16}, {"b": 2, "h": 8, "w": 20}, {"b": 1, "h": 4, "w": 32})


@pytest.mark.parametrize("axes", [(0,), (0, 2, 3)])
def test_filters_of_single_channels_leave_the_batch_in_front(axes: tuple[int, ...]) -> None:
    conv = "bias=False dilation=(1,1) padding=(0,0) padding_mode=zeros groups=1"
    template = f"""
        pnnx.Input in 0 1 x #x=({{b}},3,{{h}},{{w}})f32
        Tensor.reshape apart 1 1 x a shape=({{3*b}},1,{{h}},{{w}}) $input=x
        nn.Conv2d haar 1 1 a c {conv} in_channels=1 out_channels=4 kernel_size=(2,2) stride=(2,2) @weight=(4,1,2,2)f32
        Tensor.reshape join 1 1 c d shape=({{b}},12,{{h//2}},{{w//2}}) $input=c
        nn.Conv2d mix 1 1 d y {conv} in_channels=12 out_channels=5 kernel_size=(1,1) stride=(1,1) @weight=(5,12,1,1)f32
        pnnx.Output out 1 0 y
    """
    other = {"h": 6, "w": 10} if len(axes) > 1 else {"h": 8, "w": 12}
    check(template, axes, {"b": 1, "h": 8, "w": 12}, {"b": 3, **other})


def test_a_batch_of_one_is_joined_with_what_stands_before_it_and_taken_out_again() -> None:
    """Three parts of all items are pictures for a while, as in attention with shifted windows."""
    template = """
        pnnx.Input in 0 1 x #x=({b},3,6,4,5)f32
        Tensor.permute lead 1 1 x a dims=(1,0,2,3,4) $input=x
        torch.flatten rows 1 1 a c start_dim=2 end_dim=3 $input=a
        Tensor.reshape pictures 1 1 c d shape=({3*b},6,4,5) $input=c #d=({3*b},6,4,5)f32
        torch.roll turn 1 1 d e dims=(1,2) shifts=(1,2) $input=d #e=({3*b},6,4,5)f32
        Tensor.reshape parts 1 1 e f shape=(3,{b},24,5) $input=e #f=(3,{b},24,5)f32
        torch.unbind three 1 3 f p q r dim=0 $input=f #p=({b},24,5)f32 #q=({b},24,5)f32 #r=({b},24,5)f32
        pnnx.Expression sum 3 1 p q r y expr=add(@0,mul(@1,@2))
        pnnx.Output out 1 0 y
    """
    check(template, (0,), {"b": 1}, {"b": 2})
    check(template, (0,), {"b": 2}, {"b": 3})


@pytest.mark.parametrize(("h", "w"), [(4, 8), (8, 4), (4, 4)])
def test_a_picture_may_be_one_window_high(h: int, w: int) -> None:
    template = cut("windows", *TOKENS)
    if h == w:
        with pytest.raises(ShapeError, match="reshape"):
            traced(template, {"b": 1, "h": h, "w": w}).make_dynamic({"x": (1, 2)})
        return
    check(template, (0, 1, 2), {"b": 1, "h": h, "w": w}, {"b": 2, "h": 8, "w": 20}, {"b": 1, "h": 12, "w": 4})
