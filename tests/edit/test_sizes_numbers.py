"""Numbers that tracing computed from sizes: they follow the sizes, or the operator that holds them is named."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from pnnx_fast import Attribute, Graph, Model
from pnnx_fast.errors import ShapeError

RNG = np.random.default_rng(0)

Constants = Callable[..., dict[str, np.ndarray]]


def traced(template: str, constants: Constants | None, **sizes: int) -> Graph:
    """A graph whose sizes are written as ``{h}``, ``{2*h}`` …"""
    lines = [eval(f"f{line.strip()!r}", {}, sizes) for line in template.strip().splitlines()]
    graph = Graph.parse("\n".join(["7767517", f"{len(lines)} 0", *lines, ""]))
    for name, data in (constants(**sizes) if constants else {}).items():
        next(op for op in graph.ops if op.name == name).attrs["data"] = Attribute(data)
    return graph


def follows(
    template: str, axes: tuple[int, ...], old: dict[str, int], *new: dict[str, int], constants: Constants | None = None
) -> None:
    """What a graph gives at other sizes is what the same model traced at those sizes gives."""
    graph = traced(template, constants, **old)
    assert graph.make_dynamic({"x": axes}) == []
    for sizes in (old, *new):
        wanted = Model(traced(template, constants, **sizes))
        arrays = [RNG.standard_normal(x.shape).astype(np.float32) for x in wanted.inputs]
        got, expected = Model(graph)(*arrays), wanted(*arrays)
        for a, b in zip(*((v if isinstance(v, list | tuple) else [v]) for v in (got, expected)), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


PEAKS = """
pnnx.Input in 0 1 x #x=({b},2,{h},{w})f32
Tensor.reshape flat 1 1 x f shape=({b},{2*h*w}) $input=x #f=({b},{2*h*w})f32
torch.topk best 1 2 f s i dim=-1 k=5 largest=True sorted=True $input=f #s=({b},5)f32 #i=({b},5)i64
pnnx.Expression class 1 1 i c expr=floor_divide(@0,{h*w}) #i=({b},5)i64 #c=({b},5)i64
pnnx.Expression cell 1 1 i j expr=remainder(@0,{h*w}) #i=({b},5)i64 #j=({b},5)i64
pnnx.Expression row 1 1 j r expr=floor_divide(@0,{w}) #j=({b},5)i64 #r=({b},5)i64
pnnx.Expression column 1 1 j k expr=remainder(@0,{w}) #j=({b},5)i64 #k=({b},5)i64
pnnx.Expression across 1 1 j p expr=div(remainder(@0,{w}),{w}) #j=({b},5)i64 #p=({b},5)f32
pnnx.Expression down 1 1 j q expr=div(floor_divide(@0,{w}),{h}) #j=({b},5)i64 #q=({b},5)f32
pnnx.Output out 6 0 s c r k p q
"""


@pytest.mark.parametrize(("h", "w"), [(4, 6), (5, 5)])
def test_indices_of_a_picture_are_taken_apart_by_its_size(h: int, w: int) -> None:
    follows(PEAKS, (0, 2, 3), {"b": 1, "h": h, "w": w}, {"b": 2, "h": 3, "w": 8}, {"b": 3, "h": 8, "w": 3})


def test_a_sum_is_divided_by_how_many_there_were() -> None:
    template = """
        pnnx.Input in 0 1 x #x=(2,3,{h},{w})f32
        torch.sum all 1 1 x a dim=(2,3) keepdim=False $input=x #a=(2,3)f32
        pnnx.Expression mean 1 1 a m expr=div(@0,{h*w}) #m=(2,3)f32
        torch.sum rows 1 1 x r dim=(2) keepdim=False $input=x #r=(2,3,{w})f32
        pnnx.Attribute ones 0 1 n @data=(2,1,1)f32 #n=(2,1,1)f32
        pnnx.Expression masked 2 1 r n o expr=div(@0,@1) #o=(2,3,{w})f32
        pnnx.Output out 2 0 m o
    """
    ones = lambda h, w: {"ones": np.full((2, 1, 1), h, np.float32)}  # noqa: E731
    follows(template, (2, 3), {"h": 4, "w": 6}, {"h": 5, "w": 3}, constants=ones)


@pytest.mark.parametrize("b", [1, 2])
def test_a_mean_of_the_items_of_a_batch(b: int) -> None:
    template = """
        pnnx.Input in 0 1 x #x=({b},3)f32
        torch.sum all 1 1 x a dim=(0) keepdim=False $input=x #a=(3)f32
        pnnx.Expression mean 1 1 a m expr=div(@0,{b}) #m=(3)f32
        pnnx.Output out 1 0 m
    """
    follows(template, (0,), {"b": b}, {"b": 4}, {"b": 3})


def test_places_are_counted_and_kept_within_the_picture() -> None:
    template = """
        pnnx.Input in 0 1 x #x=(1,2,{h},{w})f32
        Tensor.to whole 1 1 x i copy=False dtype=torch.long $input=x #i=(1,2,{h},{w})i64
        torch.clamp within 1 1 i j max={w-1} min=0 $input=i #j=(1,2,{h},{w})i64
        pnnx.Expression line 1 1 j k expr=add(mul(@0,{w}),@0) #j=(1,2,{h},{w})i64 #k=(1,2,{h},{w})i64
        pnnx.Output out 1 0 k
    """
    follows(template, (2, 3), {"h": 4, "w": 6}, {"h": 3, "w": 2})


ROWS = """
pnnx.Input in 0 1 x #x=({b},{n},3)f32
torch.topk near 1 2 x s i dim=1 k=2 largest=True sorted=True $input=x #s=({b},2,3)f32 #i=({b},2,3)i64
pnnx.Attribute first 0 1 o @data=({b},1,1)i64 #o=({b},1,1)i64
pnnx.Expression place 2 1 i o p expr=add(@0,@1) #i=({b},2,3)i64 #o=({b},1,1)i64 #p=({b},2,3)i64
Tensor.reshape line 1 1 p q shape=({6*b}) $input=p #p=({b},2,3)i64 #q=({6*b})i64
Tensor.reshape rows 1 1 x r shape=({b*n},3) $input=x #r=({b*n},3)f32
{take}
Tensor.reshape apart 1 1 t y shape=({b},2,3,3) $input=t #t=({6*b},3)f32 #y=({b},2,3,3)f32
pnnx.Output out 1 0 y
"""

TAKES = {
    "index": "pnnx.Expression list 1 1 q l expr=[@0]\nTensor.index take 2 1 r l t $input=r $expr=l",
    "select": "torch.index_select take 2 1 r q t dim=0 $input=r $index=q",
}


@pytest.mark.parametrize("take", TAKES)
@pytest.mark.parametrize("b", [1, 2, 3])
def test_items_in_one_axis_take_rows_of_their_own(b: int, take: str) -> None:
    offsets = lambda b, n: {"first": (np.arange(b) * n).reshape(b, 1, 1)}  # noqa: E731
    template = ROWS.replace("{take}", TAKES[take])
    follows(template, (0,), {"b": b, "n": 5}, {"b": 4, "n": 5}, {"b": 1, "n": 5}, constants=offsets)
    follows(template, (0, 1), {"b": b, "n": 5}, {"b": 4, "n": 7}, {"b": 1, "n": 4}, constants=offsets)


def test_counts_of_items_that_are_multiplied_are_named() -> None:
    text = ROWS.replace("{take}", TAKES["index"]).replace("add(@0,@1)", "add(@0,mul(@1,{n}))")
    graph = traced(text, lambda b, n: {"first": np.zeros((1, 1, 1), np.int64)}, b=1, n=5)
    with pytest.raises(ShapeError, match=r"place: its offsets of items cannot be told"):
        graph.make_dynamic({"x": (0,)})


SPANS: dict[str, Callable[[int], np.ndarray]] = {
    "pixels": lambda n: np.arange(n) * 8.0 + 4,
    "corners": lambda n: np.linspace(-1, 1, n),
    "centres": lambda n: (np.arange(n) + 0.5) / n,
    "symmetric": lambda n: (np.arange(n) * 2 + 1) / n - 1,
    "open": lambda n: np.arange(n) / n,
}


@pytest.mark.parametrize("kind", SPANS)
def test_coordinates_that_span_a_picture_span_any(kind: str) -> None:
    template = """
        pnnx.Input in 0 1 x #x=(1,2,{h},{w})f32
        torch.flatten flat 1 1 x f start_dim=2 end_dim=-1 $input=x #f=(1,2,{h*w})f32
        pnnx.Attribute grid 0 1 g @data=(2,{h*w})f32 #g=(2,{h*w})f32
        pnnx.Expression add 2 1 f g y expr=add(@0,@1) #y=(1,2,{h*w})f32
        pnnx.Output out 1 0 y
    """

    def grid(h: int, w: int) -> dict[str, np.ndarray]:
        rows, columns = np.meshgrid(SPANS[kind](h), SPANS[kind](w), indexing="ij")
        return {"grid": np.stack([columns.ravel(), rows.ravel()]).astype(np.float32)}

    follows(template, (2, 3), {"h": 6, "w": 9}, {"h": 5, "w": 12}, constants=grid)


PICTURES = {
    "grids for every anchor": ("pnnx.Expression use 2 1 x g y expr=add(@0,@1)", "nahwc"),
    "channels": ("torch.cat use 2 1 x g y dim=1", "nchw"),
    "columns only": ("pnnx.Expression use 2 1 x g y expr=mul(@0,@1)", "w"),
    "rows only": ("pnnx.Expression use 2 1 x g y expr=mul(@0,@1)", "h1"),
}


@pytest.mark.parametrize("name", PICTURES)
@pytest.mark.parametrize("kind", SPANS)
def test_coordinates_in_rows_and_columns_span_any_picture(kind: str, name: str) -> None:
    line, axes = PICTURES[name]
    shape = "({n},3,{h},{w},2)" if "a" in axes else "({n},2,{h},{w})"
    sizes = ",".join({"a": "3", "c": "2", "1": "1"}.get(axis, f"{{{axis}}}") for axis in axes)
    template = f"""
        pnnx.Input in 0 1 x #x={shape}f32
        pnnx.Attribute grid 0 1 g @data=({sizes})f32 #g=({sizes})f32
        {line}
        pnnx.Output out 1 0 y
    """

    def grid(n: int, h: int, w: int) -> dict[str, np.ndarray]:
        rows, columns = SPANS[kind](h), SPANS[kind](w)
        data = {
            "nahwc": np.broadcast_to(np.stack(np.meshgrid(columns, rows), -1), (n, 3, h, w, 2)),
            "nchw": np.broadcast_to(np.stack(np.meshgrid(columns, rows)), (n, 2, h, w)),
            "w": columns,
            "h1": rows[:, None],
        }
        return {"grid": data[axes].astype(np.float32)}

    varying = (0, 2, 3)
    follows(template, varying, {"n": 1, "h": 6, "w": 9}, {"n": 3, "h": 5, "w": 12}, constants=grid)


@pytest.mark.parametrize("line", [lambda n: n - 1.0 - np.arange(n), lambda n: np.arange(n) - (n - 1) / 2])
def test_coordinates_that_begin_at_a_size_are_refused(line: Callable[[int], np.ndarray]) -> None:
    template = """
        pnnx.Input in 0 1 x #x=(1,2,{h},{w})f32
        pnnx.Attribute line 0 1 g @data=({w})f32 #g=({w})f32
        pnnx.Expression use 2 1 x g y expr=mul(@0,@1)
        pnnx.Output out 1 0 y
    """
    graph = traced(template, lambda h, w: {"line": line(w).astype(np.float32)}, h=6, w=9)
    with pytest.raises(ShapeError, match="the constant line"):
        graph.make_dynamic({"x": (2, 3)})


@pytest.mark.parametrize(
    "lines",
    [
        "Tensor.repeat op 1 1 a y sizes=(1,1,{h},{w}) $input=a #y=(1,2,{h},{w})f32",
        "Tensor.repeat op 1 1 b y sizes=(1,1,1,{w}) $input=b #y=(1,2,{h},{w})f32",
    ],
)
def test_what_is_repeated_over_the_picture(lines: str) -> None:
    template = f"""
        pnnx.Input in 0 1 x #x=(1,2,{{h}},{{w}})f32
        torch.mean all 1 1 x a dim=(2,3) keepdim=True $input=x #a=(1,2,1,1)f32
        torch.mean row 1 1 x b dim=(3) keepdim=True $input=x #b=(1,2,{{h}},1)f32
        {lines}
        pnnx.Output out 3 0 y a b
    """
    follows(template, (2, 3), {"h": 4, "w": 6}, {"h": 5, "w": 3})


def test_a_spectrum_is_turned_back_into_as_many_samples() -> None:
    template = """
        pnnx.Input in 0 1 x #x=(1,{n},3)f32
        torch.fft.rfft to 1 1 x f dim=1 n=None norm=None $input=x #f=(1,{n//2+1},3)c64
        torch.fft.irfft back 1 1 f y dim=1 n={n} norm=None $input=f #y=(1,{n},3)f32
        pnnx.Output out 1 0 y
    """
    follows(template, (1,), {"n": 8}, {"n": 12}, {"n": 9})


@pytest.mark.parametrize(
    "line",
    [
        "pnnx.Expression op 1 1 x y expr=div(@0,12)",
        "pnnx.Expression op 1 1 x y expr=mul(@0,{1/12**0.5})",
        "pnnx.Expression op 1 1 x y expr=div(@0,96)",
        "pnnx.Expression op 2 1 x c y expr=mul(@0,@1)",
        "torch.clamp op 1 1 x y max=11 min=0 $input=x",
        "torch.roll op 1 1 x y dims=(2,3) shifts=(4,6) $input=x",
        "Tensor.select op 1 1 x y dim=2 index=7 $input=x",
        "Tensor.slice op 1 1 x y dim=2 start=4 end=8 step=1 $input=x",
        "torch.narrow op 1 1 x y dim=2 start=2 length=4 $input=x",
        "torch.narrow op 1 1 x y dim=2 start=5 length=3 $input=x",
        "F.pad op 1 1 x y mode=constant pad=(0,3) value=0 $input=x",
    ],
)
def test_what_may_be_a_size_and_nothing_says_so_is_named(line: str) -> None:
    template = f"""
        pnnx.Input in 0 1 x #x=(1,2,8,12)f32
        pnnx.Attribute size 0 1 c @data=(2,1,1)f32 #c=(2,1,1)f32
        {line}
        pnnx.Output out 2 0 y c
    """
    graph = traced(template, lambda: {"size": np.float32([12, 8]).reshape(2, 1, 1)})
    assert graph.make_dynamic({"x": (2, 3)}) == ["op"]


@pytest.mark.parametrize("expression", ["mul(@0,3)", "pow(@0,12)", "div(@0,0.5)", "add(@0,96)", "div(@0,100)"])
def test_other_numbers_are_of_the_model(expression: str) -> None:
    template = f"""
        pnnx.Input in 0 1 x #x=(1,3,8,12)f32
        pnnx.Expression op 1 1 x y expr={expression}
        pnnx.Output out 1 0 y
    """
    graph = traced(template, None)
    assert graph.make_dynamic({"x": (2, 3)}) == []
    assert str(next(op for op in graph.ops if op.name == "op").params["expr"].value) == expression


@pytest.mark.parametrize(
    "line",
    [
        "Tensor.select op 1 1 x y dim=0 index=0 $input=x",
        "torch.narrow op 1 1 x y dim=0 start=0 length=1 $input=x",
        "Tensor.index_put op 3 1 c l x y accumulate=False $input=c $indices=l $values=x",
        "Tensor.index_put op 3 1 c m x y accumulate=False $input=c $indices=m $values=x",
        "torch.scatter_add op 3 1 c i x y dim=0 $input=c $index=i $src=x",
    ],
)
def test_what_is_taken_or_written_for_one_item_only_is_named(line: str) -> None:
    template = f"""
        pnnx.Input in 0 1 x #x=(1,4)f32
        Tensor.to whole 1 1 x i copy=False dtype=torch.long $input=x #i=(1,4)i64
        pnnx.Attribute zeros 0 1 c @data=(1,4)f32 #c=(1,4)f32
        pnnx.Expression list 1 1 i l expr=[@0]
        prim::ListConstruct low 1 1 i m
        {line}
        pnnx.Output out 4 0 y c l m
    """
    graph = traced(template, lambda: {"zeros": np.zeros((1, 4), np.float32)})
    assert graph.make_dynamic() == ["op"]


def test_a_place_of_an_axis_that_is_named_by_an_input_is_not_taken_for_an_item() -> None:
    template = """
        pnnx.Input in 0 1 x #x=(1,4,3)f32
        pnnx.Expression axis 0 1 a expr=2
        pnnx.Expression place 0 1 p expr=1
        Tensor.select op 3 1 x a p y $input=x $dim=a $index=p
        pnnx.Output out 1 0 y
    """
    assert traced(template, None).make_dynamic() == []


def test_results_along_an_axis_that_varies_are_refused() -> None:
    graph = traced(
        """
        pnnx.Input in 0 1 x #x=(1,4)f32
        torch.unbind op 1 1 x y dim=0 $input=x
        pnnx.Output out 1 0 y
        """,
        None,
    )
    with pytest.raises(ShapeError, match="op: it names 1 results for an axis that varies"):
        graph.make_dynamic()
