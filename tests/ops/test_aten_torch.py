"""TorchScript operators with positional arguments, each row called both here and as ``torch.ops.aten``."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from aten_cases import CASES, FIRST_ONLY, LAPACK, C, V, X, expression_arguments, gives_list, real
from aten_layer_cases import LAYERS
from aten_rare_cases import RARE
from graph_of_one import call

import pnnx_fast
from pnnx_fast.ops.aten_tables import EXPRESSIONS

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch

from oracle import ask_aten as oracle  # noqa: E402


def check(case: tuple[Any, ...], want: Any) -> None:
    kind, *values = case
    parts = list(want) if isinstance(want, (tuple, list)) else [want]
    parts = parts[:1] if kind in FIRST_ONLY else parts
    got = call(kind, tuple(values), 1 if gives_list(kind) else len(parts))
    got = list(got) if isinstance(got, (tuple, list)) else [got]
    for g, w in zip(got, parts, strict=True):
        w = w.resolve_conj().numpy() if isinstance(w, torch.Tensor) else np.asarray(w)
        assert np.shape(g) == w.shape
        assert np.asarray(g).dtype == w.dtype
        np.testing.assert_allclose(g, w, 1e-4, 1e-5 * max(1.0, np.abs(w[np.isfinite(w)]).max(initial=0)))


@pytest.mark.parametrize("case", CASES + LAYERS + RARE, ids=lambda c: c[0])
def test_matches_torch(case: tuple[Any, ...]) -> None:
    kind, *values = case
    check(case, oracle(kind, tuple(values)))


@pytest.mark.parametrize("name", [n for n in EXPRESSIONS if n not in ("floordiv", "log_sigmoid")])
def test_expressions_match_torch(name: str) -> None:
    for values in expression_arguments(name):
        check((f"aten::{name}", *values), oracle(f"aten::{name}", values))


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_histograms_of_points(dtype: str) -> None:
    x = real(60, 2).astype(dtype).reshape(3, 20, 2)
    weight = np.abs(real(3, 20, seed=1)).astype(dtype)
    edges = [np.array(e, dtype) for e in ([-1, 0, 0.5, 3], [-2, 2])]
    for bins in ([3, 4], 5, edges):
        for limits in (None, [-1.0, 1.0, -2.0, 0.5]):
            for rest in ((None, False), (weight, True)):
                given = None if bins is edges else limits
                want = oracle("aten::histogramdd", (x, bins, given, *rest))
                hist, found = call("aten::histogramdd", (x, bins, given, *rest), 2)
                for g, w in zip((hist, *found), (want[0], *want[1]), strict=True):
                    assert g.dtype == dtype
                    np.testing.assert_allclose(g, w.numpy(), 1e-4, 1e-5)


@pytest.mark.parametrize("case", LAPACK, ids=lambda c: c[0])
def test_linear_algebra_matches_numpy(case: tuple[Any, ...]) -> None:
    kind, x, *rest = case
    name = kind.removeprefix("aten::linalg_")
    if name == "norm":
        check(case, np.linalg.norm(x.reshape(-1)))
    elif name == "matrix_norm":
        check(case, np.linalg.norm(x, "fro", (-2, -1), True))
    elif name == "solve":
        check(case, np.linalg.solve(x, rest[0]))
    else:
        check(case, getattr(np.linalg, name)(x, *rest))


@pytest.mark.parametrize("upper", [True, False])
@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("unit", [True, False])
def test_triangular_systems(upper: bool, left: bool, unit: bool) -> None:
    rng = np.random.default_rng(0)
    a = rng.standard_normal((2, 1, 5, 5)).astype(np.float32) + 3 * np.eye(5, dtype=np.float32)
    y = rng.standard_normal((1, 3, 5, 4) if left else (1, 3, 4, 5)).astype(np.float32)
    triangle = np.triu(a, 1 if unit else 0) if upper else np.tril(a, -1 if unit else 0)
    inverse = np.linalg.inv(triangle + (np.eye(5, dtype=np.float32) if unit else 0))
    wanted = torch.from_numpy(inverse @ y if left else y @ inverse)
    check(("aten::linalg_solve_triangular", a, y, upper, left, unit), wanted)


@pytest.mark.parametrize("shape", [(7, 3), (3, 7), (4, 4, 4)])
@pytest.mark.parametrize("wrap", [False, True])
def test_diagonals_are_filled(shape: tuple[int, ...], wrap: bool) -> None:
    x = real(*shape)
    check(("aten::fill_diagonal", x, 2.0, wrap), torch.from_numpy(x.copy()).fill_diagonal_(2.0, wrap))


def test_a_singular_triangle_gives_infinity() -> None:
    a, y = np.float32([[0, 0], [1, 2]]), np.float32([[1], [1]])
    assert np.isinf(call("aten::linalg_solve_triangular", (a, y, False), 1)[0, 0])


def test_numbers_pass_through() -> None:
    graph = pnnx_fast.Graph()
    x = graph.new_operand("x")
    graph.new_operator("pnnx.Input", "x", outputs=[x])
    sizes, last, count, number, rank, total, whole_number = (graph.new_operand(f"v{i}") for i in range(7))
    index = graph.new_operand("i")
    graph.new_operator("prim::Constant", "c", outputs=[index], params={"value": 1})
    graph.new_operator("aten::size", "a", inputs=[x], outputs=[sizes])
    graph.new_operator("aten::__getitem__", "b", inputs=[sizes, index], outputs=[last])
    graph.new_operator("prim::NumToTensor", "d", inputs=[last], outputs=[number])
    graph.new_operator("aten::Int", "e", inputs=[number], outputs=[whole_number])
    graph.new_operator("aten::len", "f", inputs=[sizes], outputs=[count])
    graph.new_operator("aten::dim", "g", inputs=[x], outputs=[rank])
    graph.new_operator("aten::numel", "h", inputs=[x], outputs=[total])
    parts = [last, number, whole_number, count, rank, total]
    for i, part in enumerate(parts):
        graph.new_operator("pnnx.Output", f"o{i}", inputs=[part])
    assert [int(v) for v in pnnx_fast.Model(graph)(real(3, 4))] == [4, 4, 4, 2, 2, 12]


@pytest.mark.parametrize("kind", ["aten::where", "aten::nonzero_numpy"])
@pytest.mark.parametrize("constant", [False, True])
def test_places_are_a_list(kind: str, constant: bool) -> None:
    x = np.asarray([[1, 0, 2], [0, 0, 3]], np.float32)
    graph = pnnx_fast.Graph()
    given, places, row, column = (graph.new_operand(name) for name in "xprc")
    if constant:
        graph.new_operator("pnnx.Attribute", "x", outputs=[given], attrs={"data": pnnx_fast.Attribute(x)})
    else:
        graph.new_operator("pnnx.Input", "x", outputs=[given])
    graph.new_operator(kind, "w", inputs=[given], outputs=[places])
    graph.new_operator("prim::ListUnpack", "u", inputs=[places], outputs=[row, column])
    for operand in (row, column):
        graph.new_operator("pnnx.Output", f"o{operand.name}", inputs=[operand])
    got = pnnx_fast.Model(graph)(*[] if constant else [x])
    for g, w in zip(got, torch.where(torch.from_numpy(x)), strict=True):
        np.testing.assert_array_equal(g, w)


def test_sizes_of_tensors_in_the_place_of_lists() -> None:
    graph = pnnx_fast.Graph.parse("""7767517
8 7
pnnx.Input x 0 1 x #x=(3,4)f32
pnnx.Expression s 1 1 x s expr=@0
pnnx.Expression i 0 1 i expr=-1
aten::__getitem__ g 2 1 s i a
prim::ListUnpack u 1 2 s b c
aten::len l 1 1 s d
pnnx.Expression r 4 1 a b c d y expr=[@0,@1,@2,@3]
pnnx.Output y 1 0 y
""")
    assert list(map(int, pnnx_fast.Model(graph)(real(3, 4)))) == [4, 3, 4, 2]


def test_extremes_of_numbers() -> None:
    graph = pnnx_fast.Graph.parse("""7767517
10 9
pnnx.Input x 0 1 x #x=(3,4)f32
pnnx.Expression a 0 1 a expr=-7
pnnx.Expression b 1 1 x b expr=size(@0,1)
pnnx.Expression l 2 1 x a l expr=[size(@0,0),@1,size(@0,1)]
prim::max m 2 1 a b c
prim::min n 2 1 a b d
prim::max o 1 1 l e
prim::min p 1 1 l f
prim::abs q 1 1 d g
pnnx.Expression r 5 1 c d e f g y expr=[@0,@1,@2,@3,@4]
""")
    graph.new_operator("pnnx.Output", "y", inputs=[graph.ops[-1].outputs[0]])
    assert list(map(int, pnnx_fast.Model(graph)(real(3, 4)))) == [4, -7, 4, -7, 7]


VIEWS = "aten::Float aten::FloatImplicit aten::ScalarImplicit aten::alias aten::detach_"
NUMBERS = {"aten::Int": int, "aten::IntImplicit": int, "aten::Bool": bool, "aten::Float": float}
SHAPES = "aten::empty_like aten::new_empty aten::empty"


@pytest.mark.parametrize("kind", NUMBERS)
@pytest.mark.parametrize("value", [2.75, -2.75, 0.0, 3, True])
def test_numbers_of_another_kind(kind: str, value: float) -> None:
    want = NUMBERS[kind](value)
    graph = pnnx_fast.Graph.parse(
        f"7767517\n3 2\npnnx.Expression c 0 1 c expr={value}\n{kind} n 1 1 c n\npnnx.Output y 1 0 n"
    )
    for got in (call(kind, (np.asarray(value),), 1), pnnx_fast.Model(graph)()):
        assert got == want
        assert np.asarray(got).dtype.kind == np.asarray(want).dtype.kind


def test_a_size_times_a_factor_is_cut_off() -> None:
    graph = pnnx_fast.Graph.parse("""7767517
8 7
pnnx.Input x 0 1 x #x=(1,2,7)f32
prim::Constant k 0 1 k value=0.7
Tensor.size s 1 1 x s dim=2
aten::mul m 2 1 s k m
aten::floor f 1 1 m f
aten::Int i 1 1 f i
prim::ListConstruct l 1 1 i l
F.adaptive_avg_pool1d p 2 1 x l y $input=x $output_size=l
""")
    graph.new_operator("pnnx.Output", "y", inputs=[graph.ops[-1].outputs[0]])
    x = real(1, 2, 7)
    want = torch.nn.functional.interpolate(torch.from_numpy(x), scale_factor=0.7, mode="area").numpy()
    np.testing.assert_allclose(pnnx_fast.Model(graph)(x), want, 1e-5, 1e-6)


def test_values_that_pass() -> None:
    for kind in (*VIEWS.split(), "aten::item", "aten::lift_fresh", "aten::resolve_conj", "aten::resolve_neg"):
        assert call(kind, (V[:1],), 1) == V[0]
    for kind in ("aten::adjoint", "aten::mH"):
        np.testing.assert_array_equal(call(kind, (C,), 1), np.conj(C.swapaxes(1, 2)))
    none = (None,) * 5
    for kind, given in zip(SHAPES.split(), ((X, *none), (X, [3, 4, 5], *none[:4]), ([3, 4, 5], *none)), strict=True):
        assert call(kind, given, 1).shape == (3, 4, 5)
    np.testing.assert_allclose(call("aten::vector_norm", (V, 2, [0], False, None), 1), np.linalg.norm(V), 1e-5)
