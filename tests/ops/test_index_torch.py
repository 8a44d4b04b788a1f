"""Index operators against PyTorch: tables, gather and scatter, advanced indexing, repetition."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from graph_of_one import call, run

import pnnx_fast
from pnnx_fast.errors import IndexRangeError, ParameterError, ShapeError

torch = pytest.importorskip("torch")


def draw(*shape: int, dtype: str = "f4") -> np.ndarray:
    return (np.random.default_rng(sum(shape)).standard_normal(shape) * 10).astype(dtype)


def integers(high: int, *shape: int, low: int = 0, dtype: str = "i8") -> np.ndarray:
    return np.random.default_rng(high).integers(low, high, shape).astype(dtype)


def same(got: Any, want: Any) -> None:
    want = want.numpy()
    assert got.dtype == want.dtype
    np.testing.assert_array_equal(got, want)


def t(x: np.ndarray) -> Any:
    return torch.from_numpy(x)


# -- tables --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(), (7,), (2, 3), (2, 0)])
@pytest.mark.parametrize("dtype", ["i4", "i8"])
def test_embedding(shape: tuple[int, ...], dtype: str) -> None:
    table, index = draw(11, 5), integers(11, *shape, dtype=dtype)
    want = torch.nn.functional.embedding(t(index), t(table))
    params = {"num_embeddings": 11, "embedding_dim": 5, "sparse": False}
    same(run("nn.Embedding", index, weights={"weight": table}, **params), want)
    same(run("F.embedding", index, table, names=["input", "weight"], scale_grad_by_freq=False, sparse=False), want)


@pytest.mark.parametrize("bad", [-1, 11])
def test_embedding_out_of_range(bad: int) -> None:
    table, index = draw(11, 5), np.array([3, bad, 4])
    message = f"nn.Embedding op: index {bad} is out of range for a dimension of size 11"
    with pytest.raises(IndexRangeError, match=message) as info:
        run("nn.Embedding", index, weights={"weight": table})
    assert isinstance(info.value, IndexError)
    assert (info.value.index, info.value.size) == (bad, 11)
    with pytest.raises(IndexRangeError, match=message):
        run("nn.Embedding", weights={"input": index, "weight": table})


def test_embedding_parameters() -> None:
    with pytest.raises(ParameterError, match="max_norm"):
        run("nn.Embedding", integers(3, 2), weights={"weight": draw(3, 4)}, max_norm=1.0)
    with pytest.raises(ShapeError, match="integers"):
        run("nn.Embedding", draw(2), weights={"weight": draw(3, 4)})


@pytest.mark.parametrize("dim", [0, 1, -1])
@pytest.mark.parametrize("dtype", ["f4", "i8", "?"])
def test_index_select(dim: int, dtype: str) -> None:
    x, index = draw(4, 5, 6, dtype=dtype), integers(4, 9)
    same(
        run("torch.index_select", x, index, names=["input", "index"], dim=dim), torch.index_select(t(x), dim, t(index))
    )
    got = run("torch.index_select", x, names=["input"], weights={"index": index}, dim=dim)
    same(got, torch.index_select(t(x), dim, t(index)))


@pytest.mark.parametrize("places", [[2, 3, 4], [1, 3, 5], [4], [0, 0], [3, 2], [0, 1, 3], [0, 2, 4]])
def test_constant_places_of_index_select(places: list[int]) -> None:
    """Places at equal distances are a slice."""
    x, index = draw(2, 6, 3), np.array(places)
    got = run("torch.index_select", x, names=["input"], weights={"index": index}, dim=1)
    same(got, torch.index_select(t(x), 1, t(index)))
    with pytest.raises(IndexRangeError):
        run("torch.index_select", x, names=["input"], weights={"index": index + 6 - index.max()}, dim=1)


@pytest.mark.parametrize("dim", [0, 1, -1])
@pytest.mark.parametrize("dtype", ["f4", "f8", "i4"])
def test_gather(dim: int, dtype: str) -> None:
    x, index = draw(4, 5, 6, dtype=dtype), integers(4, 3, 4, 5)
    same(run("torch.gather", x, index, names=["input", "index"], dim=dim), torch.gather(t(x), dim, t(index)))


def test_gather_scalar_and_errors() -> None:
    same(run("torch.gather", draw(3), np.array(2), dim=0), torch.gather(t(draw(3)), 0, torch.tensor(2)))
    with pytest.raises(IndexRangeError, match="index 4"):
        run("torch.gather", draw(4, 5), np.full((1, 5), 4), dim=0)
    with pytest.raises(ShapeError, match="index does not fit"):
        run("torch.gather", draw(4, 5), integers(4, 4, 6), dim=0)


@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("dtype", ["f4", "i8"])
def test_scatter_add(dim: int, dtype: str) -> None:
    x, src, index = draw(4, 5, dtype=dtype), draw(9, 8, dtype=dtype), integers(4, 4, 5)
    want = torch.scatter_add(t(x), dim, t(index), t(src))
    got = run("torch.scatter_add", x, index, src, names=["input", "index", "src"], dim=dim)
    np.testing.assert_allclose(got, want.numpy(), rtol=1e-6)
    with pytest.raises(IndexRangeError):
        run("torch.scatter_add", x, index + 3, src, dim=dim)


# -- advanced indexing ---------------------------------------------------------------------------------------------

KEYS: list[tuple[str, Any]] = [
    ("[[2,1],[0,1]]", ([2, 1], [0, 1])),
    ("[None,None,[1,0]]", (slice(None), slice(None), [1, 0])),
    ("[None,[1,-1]]", (slice(None), [1, -1])),
    ("[[True,False,True,True]]", ([True, False, True, True],)),
    ("[[True,False,True,True],None,[2,2,-6]]", ([True, False, True, True], slice(None), [2, 2, -6])),
    ("[None,[0,4],[[1,2],[3,4],[5,0]]]", (slice(None), [[0, 4]] * 3, [[1, 2], [3, 4], [5, 0]])),
    ("[[],None]", ([],)),
    ("[2]", (2,)),
]


@pytest.mark.parametrize("text,key", KEYS)
def test_index_expression(text: str, key: Any) -> None:
    x = draw(4, 5, 6)
    lists = tuple(k if isinstance(k, slice) else torch.tensor(k if k != [] else np.zeros(0, "i8")) for k in key)
    if "[0,4]" in text:
        text = text.replace("[0,4]", "[[0,4]]")
    same(run("Tensor.index", x, expr=text), t(x)[lists])


@pytest.mark.parametrize(
    "text", ["[0.5]", "[[1,2]", "1", '["a"]', "[" * 5000], ids=["float", "open", "number", "text", "deep"]
)
def test_bad_index_expression(text: str) -> None:
    with pytest.raises(ParameterError, match="indices"):
        run("Tensor.index", draw(4, 5), expr=text)


def with_list(kind: str, x: np.ndarray, entries: list[Any], *more: np.ndarray, **params: Any) -> Any:
    """One operator whose second input is a list of tensors."""
    graph = pnnx_fast.Graph()
    arrays = [x, *more, *(e for e in entries if e is not None)]
    operands = [graph.new_operand(f"in{i}") for i in range(len(arrays))]
    for i, operand in enumerate(operands):
        graph.new_operator("pnnx.Input", f"input{i}", outputs=[operand])
    listed, result = graph.new_operand("list"), graph.new_operand("out")
    graph.new_operator("prim::ListConstruct", "list", inputs=operands[1 + len(more) :], outputs=[listed])
    names = ["input", "indices", "values"][: 2 + len(more)]
    wiring = {"inputs": [operands[0], listed, *operands[1 : 1 + len(more)]], "outputs": [result]}
    graph.new_operator(kind, "op", params=params, inputnames=names, **wiring)
    graph.new_operator("pnnx.Output", "output", inputs=[result])
    return pnnx_fast.Model(graph, 1)(*arrays)


def test_index_with_tensors() -> None:
    x, i, j = draw(4, 5, 6), integers(4, 2, 3, low=-4), integers(5, 3, low=-5)
    mask = x[..., 0] > 0
    for entries in ([i], [i, j], [i, j, j], [mask], [x > 0], [x[:, 0, 0] > 0], [np.array(1)]):
        want = t(x)[tuple(map(torch.from_numpy, entries))]
        same(with_list("Tensor.index", x, entries), want)
    for entries in ([i + 8], [i, j + 10]):
        with pytest.raises(IndexRangeError):
            with_list("Tensor.index", x, entries)
    with pytest.raises(ShapeError, match="too many"):
        with_list("Tensor.index", x, [j, j, j, j])


@pytest.mark.parametrize("accumulate", [False, True])
def test_index_put(accumulate: bool) -> None:
    x, i, j = draw(4, 5, 6), np.array([0, -1, 2]), np.array([1, 1, -2])
    for entries, values in (
        ([i], draw(3, 5, 6)),
        ([i, j], draw(6)),
        ([x > 3], draw(1)),
        ([x[..., 0] > 0, j[:1]], draw(1)),
    ):
        keys = tuple(map(torch.from_numpy, entries))
        want = t(x).index_put(keys, t(values), accumulate=accumulate)
        same(with_list("Tensor.index_put", x, entries, values, accumulate=accumulate), want)
        want = t(x).index_put(keys, torch.tensor(4.5), accumulate=accumulate)
        same(with_list("Tensor.index_put", x, entries, values=4.5, accumulate=accumulate), want)
    with pytest.raises(IndexRangeError, match="index 4"):
        with_list("Tensor.index_put", x, [i + 2], values=1.0, accumulate=accumulate)


def test_masked_select() -> None:
    x, mask = draw(3, 1, 5), draw(4, 5) > 0
    same(run("torch.masked_select", x, mask), torch.masked_select(t(x), t(mask)))
    same(run("torch.masked_select", x, mask & False), torch.masked_select(t(x), t(mask & False)))


def test_nonzero() -> None:
    x = draw(3, 4) * (draw(3, 4) > 0)
    for given in (x, x[0], x[0, 0, ...], x[:, :0], x[:0], draw(2, 3, 4) > 0, (draw(2, 1, 3, 4) > 1).astype("i8")):
        same(run("torch.nonzero", given), torch.nonzero(t(given)))


@pytest.mark.parametrize("dim", [None, 0, -1])
@pytest.mark.parametrize("repeats", [0, 3])
def test_repeat_interleave(dim: int | None, repeats: int) -> None:
    x = draw(3, 4)
    same(run("torch.repeat_interleave", x, repeats=repeats, dim=dim), torch.repeat_interleave(t(x), repeats, dim))


@pytest.mark.parametrize("repeats", [2.0, [2.0], [1, 2.0, 0]])
def test_repeat_interleave_by_whole_floats(repeats: Any) -> None:
    x = draw(3, 4)
    counts = torch.tensor(repeats, dtype=torch.int64)
    same(run("torch.repeat_interleave", x, repeats=repeats, dim=0), torch.repeat_interleave(t(x), counts, 0))
    with pytest.raises(ParameterError, match="repeats must be integers"):
        run("torch.repeat_interleave", x, repeats=1.5, dim=0)


def test_repeat_interleave_by_tensor() -> None:
    x, counts = draw(3, 4), np.array([2, 0, 3])
    want = torch.repeat_interleave(t(x), t(counts), 0)
    same(run("torch.repeat_interleave", x, counts, names=["input", "repeats"], dim=0), want)
    same(run("torch.repeat_interleave", x, names=["input"], weights={"repeats": counts}, dim=0), want)


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_repeat_interleave_of_places(dtype: type) -> None:
    counts = np.array([2, 0, 3], dtype)
    same(run("torch.repeat_interleave", counts), torch.repeat_interleave(t(counts)))
    same(call("aten::repeat_interleave", (counts, None), 1), torch.repeat_interleave(t(counts)))
    with pytest.raises(ShapeError, match="a line of integers"):
        run("torch.repeat_interleave", draw(3))


# -- bounds that are data ------------------------------------------------------------------------------------------

BY_DATA = """7767517
{count} {operands}
pnnx.Input in_0 0 1 x #x=(5,4)f32
pnnx.Input in_1 0 1 n
pnnx.Input in_2 0 1 m
torch.sum s 1 1 x total #total=()f32
pnnx.Expression i 1 1 n i0 expr=int(@0)
pnnx.Expression j 1 1 m i1 expr=int(@0)
{lines}
prim::TupleConstruct t 2 1 total y z
pnnx.Output out 1 0 z
"""

FORMS = {
    "selects": (
        "pnnx.SliceIndexes l 2 1 i0 i1 b indexes=(@0,@1)\n"
        "Tensor.slice c 2 1 x b y dims=(0,1) ends=(0,0) starts=(0,0) steps=(0,0) $input=x $selects=b",
        lambda x, n, m: x[n, m],
    ),
    "mixed": (
        "pnnx.SliceIndexes l 1 1 i0 b indexes=(2147483647,@0)\n"
        "Tensor.slice c 2 1 x b y dims=(0,1) ends=(3,0) starts=(1,0) steps=(1,0) $input=x $selects=b",
        lambda x, n, m: x[1:3, n],
    ),
    "range": (
        "Tensor.slice c 3 1 x i0 i1 y dim=0 step=2 $input=x $start=i0 $end=i1",
        lambda x, n, m: x[n:m:2],
    ),
    "select": ("Tensor.select c 2 1 x i1 y dim=1 $input=x $index=i1", lambda x, n, m: x[:, m]),
    "copy": (
        "prim::Constant k 0 1 v value=7\n"
        "Tensor.slice_copy c 3 1 x v i0 y dim=1 select=2147483647 end=3 step=1 $self=x $src=v $start=i0",
        lambda x, n, m: np.concatenate([x[:, :n], np.full_like(x[:, n:3], 7), x[:, max(n, 3) :]], 1),
    ),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("n", "m"), [(0, 3), (1, -1), (2, 2)])
def test_slices_whose_bounds_are_data(form: str, n: int, m: int) -> None:
    lines, want = FORMS[form]
    text = BY_DATA.format(count=9 + lines.count("\n"), operands=9 + lines.count("\n"), lines=lines)
    model = pnnx_fast.Model(pnnx_fast.Graph.parse(text))
    x = draw(5, 4)
    total, got = model(x, np.array(n), np.array(m))
    np.testing.assert_array_equal(got, want(x, n, m))
    assert total.shape == (), "what waits for the bounds keeps its shape"


@pytest.mark.parametrize("n", [5, -6])
def test_selections_by_data_out_of_range(n: int) -> None:
    lines, _ = FORMS["selects"]
    model = pnnx_fast.Model(pnnx_fast.Graph.parse(BY_DATA.format(count=10, operands=10, lines=lines)))
    with pytest.raises(ShapeError, match=r"Tensor\.slice c.*out of range|out of range"):
        model(draw(5, 4), np.array(n), np.array(0))


@pytest.mark.parametrize(("index", "starts"), [([0, 5], [0]), ([-1, 0], [0]), ([0, 1], [0, 2**62]), ([0, 1], [-1])])
def test_bags_beyond_their_table(index: list[int], starts: list[int]) -> None:
    table = np.ones((5, 3), np.float32)
    with pytest.raises(IndexRangeError):
        call("aten::embedding_bag", (table, np.array(index), np.array(starts), False, 0, False, None, True, None), 1)
