"""Constants that the converter's own run wrote to become again what they were, where a run like it tells."""

from __future__ import annotations

import warnings
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pnnx_fast
from pnnx_fast.runtime import own_run

HEAD = """7767517
{count} {operands}
pnnx.Input i 0 1 i #i=({n})i64
pnnx.Input x 0 1 x #x=({n})f32
pnnx.Attribute pnnx_fold_c 0 1 c @data=(4)f32 #c=(4)f32
{lines}pnnx.Output o 1 0 y
"""
ADD = "torch.scatter_add {name} 3 1 {c} i x {y} dim=0 $input={c} $index=i $src=x #{c}=(4)f32 #{y}=(4)f32\n"
ONE = ADD.format(name="a", c="c", y="y")
TWO = ADD.format(name="a", c="c", y="b") + ADD.format(name="b", c="b", y="y")
PUT = """prim::ListConstruct l 1 1 i p
Tensor.index_put w 3 1 c p x y accumulate=False $input=c $indices=p $values=x #c=(4)f32 #y=(4)f32
"""
REDUCE = """prim::Constant d 0 1 d value=0
prim::Constant r 0 1 r value=amax
prim::Constant s 0 1 s value=True
aten::scatter_reduce w 6 1 c d i x r s y #c=(4)f32 #y=(4)f32
"""
SLICE = """Tensor.select v 1 1 {c} {v} dim=0 index={k} $input={c} #{c}=(4)f32 #{v}=()f32
Tensor.select u{k} 1 1 x u{k} dim=0 index={k} $input=x #x=(3)f32 #u{k}=()f32
pnnx.Expression e{k} 2 1 {v} u{k} e{k} expr=add(@0,@1) #{v}=()f32 #u{k}=()f32 #e{k}=()f32
Tensor.clone {c}_copy 1 1 {c} {c}_copy #{c}=(4)f32 #{c}_copy=(4)f32
Tensor.slice_copy s{k} 2 1 {c}_copy e{k} {y} dim=0 end=0 select={k} start=0 step=0 $self={c}_copy $src=e{k} \
#{c}_copy=(4)f32 #e{k}=()f32 #{y}=(4)f32
"""
VIEW = """Tensor.clone k 1 1 c k #c=(4)f32 #k=(4)f32
Tensor.slice v 1 1 c v dim=0 end=3 start=0 step=1 $input=c #c=(4)f32 #v=(3)f32
torch.scatter_add w 3 1 v i x b dim=0 $input=v $index=i $src=x #v=(3)f32 #b=(3)f32
Tensor.slice_copy s 2 1 k b y dim=0 end=3 start=0 step=1 $self=k $src=b #k=(4)f32 #b=(3)f32 #y=(4)f32
"""
X = np.array([1, 2, 4], np.float32)


def model(lines: str, constant: list[float], n: str = "3") -> pnnx_fast.Model:
    count = lines.count("\n")
    graph = pnnx_fast.Graph.parse(HEAD.format(count=count + 4, operands=count + 3, n=n, lines=lines))
    made = next(op for op in graph.ops if op.type == "pnnx.Attribute")
    made.attrs["data"] = pnnx_fast.Attribute(np.float32(constant))
    return pnnx_fast.Model(graph)


def ask(lines: str, constant: list[float], places: list[int]) -> np.ndarray:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made = model(lines, constant)
    return np.asarray(made(np.array(places), X))


@pytest.mark.parametrize("base", [0, 1, 0.25])
def test_sums(base: float) -> None:
    got = ask(ONE, [base, base + 3, base, base], [0, 2, 2])
    np.testing.assert_allclose(got, np.float32([1, 0, 6, 0]) + np.float32(base))


@pytest.mark.parametrize("left", [6, 3])
def test_writes_behind_each_other_all_or_the_first_in_place(left: float) -> None:
    np.testing.assert_array_equal(ask(TWO, [0, left, 0, 0], [0, 2, 2]), [2, 0, 12, 0])


@pytest.mark.parametrize("base", [0, -1e9, 3])
def test_replaced_entries(base: float) -> None:
    np.testing.assert_array_equal(ask(PUT, [base, 1, base, base], [0, 2, 3]), np.float32([1, base, 2, 4]))


@pytest.mark.parametrize("base", [-1e30, -7, 0])
def test_extremes(base: float) -> None:
    np.testing.assert_array_equal(ask(REDUCE, [base, 1, base, base], [0, 2, 3]), np.float32([1, base, 2, 4]))


@pytest.mark.parametrize("base", [0, 1])
def test_sums_in_slices(base: float) -> None:
    second = SLICE.format(c="b", v="w", k=2, y="y").replace("select v", "select w")
    lines = SLICE.format(c="c", v="v", k=1, y="b") + second
    got = ask(lines.replace("\\\n", ""), [base, base + 1, base + 1, base], [0, 0, 0])
    np.testing.assert_array_equal(got, np.float32([0, 2, 4, 0]) + np.float32(base))


def test_writes_by_indices_into_a_slice() -> None:
    np.testing.assert_array_equal(ask(VIEW, [0, 3, 0, 0], [0, 2, 2]), [1, 0, 6, 0])


KNOWN = """pnnx.Attribute s 0 1 s @data=(3)f32 #s=(3)f32
torch.scatter_add a 3 1 c i s y dim=0 $input=c $index=i $src=s #c=(4)f32 #i=(3)i64 #s=(3)f32 #y=(4)f32
"""


@pytest.mark.parametrize("base", [0.0, 2.5])
@pytest.mark.parametrize("places", [(0, 0, 2), (3, 1, 0)])
def test_sums_of_a_constant_at_places_of_other_inputs(base: float, places: tuple[int, ...]) -> None:
    """What another run than that of ones added up is known by its sum."""
    added, constant = np.float32([1, 2, 4]), np.full(4, base, np.float32)
    np.add.at(constant, list(places), added)
    graph = pnnx_fast.Graph.parse(HEAD.format(count=6, operands=5, n=3, lines=KNOWN))
    for op in graph.ops:
        if op.type == "pnnx.Attribute":
            op.attrs["data"] = pnnx_fast.Attribute(added if op.name == "s" else constant)
    want = np.full(4, base, np.float32)
    np.add.at(want, [2, 2, 2], added)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        y = pnnx_fast.Model(graph)(np.int64([2, 2, 2]), X)
    np.testing.assert_array_equal(y, want)


@pytest.mark.parametrize("constant", [[0, 2, 0, 0], [0, 3, 1, 0], [7, 8, 9, 10]])
def test_what_no_such_run_explains_stays(constant: list[float]) -> None:
    with pytest.warns(UserWarning, match="writes into the constant pnnx_fold_c"):
        made = model(ONE, constant)
    got = np.asarray(made(np.array([0, 2, 2]), X))
    np.testing.assert_array_equal(got, np.float32(constant) + np.float32([1, 0, 6, 0]))


def test_unknown_sizes_are_told() -> None:
    with pytest.warns(UserWarning, match="writes into the constant pnnx_fold_c"):
        model(ONE, [0, 3, 0, 0], "?")


@pytest.mark.parametrize("limit", ["MOST_NUMBERS", "MOST_OPERATORS", "MOST_BYTES"])
def test_what_would_take_long_is_not_run(limit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_run, limit, -1)
    with pytest.warns(UserWarning, match="writes into the constant pnnx_fold_c"):
        model(ONE, [0, 3, 0, 0])


def test_many_constants_look_at_each_operator_a_few_times(monkeypatch: pytest.MonkeyPatch) -> None:
    count, lines, last = 40, [], "x"
    for k in range(count):
        lines += [
            f"pnnx.Attribute pnnx_fold_{k} 0 1 c{k} @data=(3)f32 #c{k}=(3)f32",
            f"F.relu r{k} 1 1 {last} r{k} #{last}=(3)f32 #r{k}=(3)f32",
            f"torch.scatter_add a{k} 3 1 c{k} i r{k} a{k} dim=0 $input=c{k} $index=i $src=r{k} #a{k}=(3)f32",
            f"pnnx.Expression m{k} 2 1 a{k} r{k} m{k} expr=mul(add(@0,@1),0.25) #a{k}=(3)f32 #r{k}=(3)f32 #m{k}=(3)f32",
        ]
        last = f"m{k}"
    head = f"7767517\n{len(lines) + 3} {len(lines) + 2}\npnnx.Input i 0 1 i #i=(3)i64\npnnx.Input x 0 1 x #x=(3)f32\n"
    graph = pnnx_fast.Graph.parse(head + "\n".join([*lines, f"pnnx.Output o 1 0 {last}", ""]))
    wanted, traced = X.copy(), np.ones(3, np.float32)
    for op in graph.ops:
        if op.type == "pnnx.Attribute":  # in the converter's run all indices are one
            sums = np.float32([0, traced.sum(), 0])
            op.attrs["data"] = pnnx_fast.Attribute(sums)
            traced = (sums + traced) * np.float32(0.25)
            wanted = (wanted[[0, 2, 1]] + wanted) * np.float32(0.25)
    monkeypatch.setattr(own_run, "MOST_OPERATORS", 10 * len(graph.ops))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        got = pnnx_fast.Model(graph)(np.array([0, 2, 1]), X)
    np.testing.assert_allclose(got, wanted, 1e-5)


def test_a_graph_network_of_the_converter_runs_as_in_torch(tmp_path: Path) -> None:
    torch: Any = pytest.importorskip("torch")
    pnnx: Any = pytest.importorskip("pnnx")

    class Network(torch.nn.Module):  # type: ignore[misc, name-defined]
        def forward(self, x: Any, edges: Any) -> Any:
            start, end = edges[0], edges[1]
            degree = torch.zeros(5).index_add_(0, end, torch.ones(7))
            messages = torch.zeros(5, 3).index_add_(0, end, x[start] / degree[start, None].clamp(min=1))
            best = torch.full((5, 3), -1e9).scatter_reduce_(0, end[:, None].expand(-1, 3), x[start], "amax")
            return messages, best

    x, edges = torch.randn(5, 3), torch.randint(0, 5, (2, 7))
    with suppress(SyntaxError):  # of the source that the converter writes and imports
        pnnx.export(Network(), str(tmp_path / "g.pt"), (x, edges), fp16=False)
    got = pnnx_fast.load(tmp_path / "g.pnnx.param")(x.numpy(), edges.numpy())
    for g, w in zip(got, Network()(x, edges), strict=True):
        np.testing.assert_allclose(g, w.numpy(), 1e-5, 1e-5)


def test_python_source_starts_with_what_the_constants_were(tmp_path: Path) -> None:
    graph = model(ONE, [0.5, 3.5, 0.5, 0.5]).graph.copy()
    next(op for op in graph.ops if op.type == "pnnx.Attribute").attrs["data"] = pnnx_fast.Attribute(
        np.float32([0.5, 3.5, 0.5, 0.5])
    )
    graph.save(tmp_path / "m.pnnx.param")
    graph.python(tmp_path / "a.py")
    graph.python(tmp_path / "b.py", tmp_path / "m.pnnx.bin")
    for name in ("a.py", "b.py"):
        text = (tmp_path / name).read_text()
        assert "self.pnnx_fold_c_data = nn.Parameter(torch.full((4,), 0.5, dtype=torch.float32)" in text
    constant = next(op for op in graph.ops if op.type == "pnnx.Attribute")
    np.testing.assert_array_equal(constant.attrs["data"].numpy(), [0.5, 3.5, 0.5, 0.5])


def test_python_source_of_a_constant_that_nothing_tells_is_warned_of(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        graph = model(ONE, [1, 2, 3, 4]).graph.copy()
    with pytest.warns(UserWarning, match="writes into the constant pnnx_fold_c"):
        graph.python(tmp_path / "a.py")
