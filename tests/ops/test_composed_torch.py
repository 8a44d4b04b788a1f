"""Operators made of steps of others, over types, odd values and empty tensors, against PyTorch."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from graph_of_one import call

import pnnx_fast
from pnnx_fast.errors import ShapeError

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.filterwarnings("ignore")

ODD = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 2.0, 0.5, -3.5, 1e-30])
LEFT, RIGHT = (np.array(v) for v in zip(*itertools.product(ODD, ODD), strict=True))


def real(dtype: str, *shape: int, seed: int = 0) -> np.ndarray:
    return np.asarray(4 * np.random.default_rng(seed).standard_normal(shape)).astype(dtype)


def t(x: Any) -> Any:
    if isinstance(x, list) and x and isinstance(x[0], np.ndarray):
        return [t(v) for v in x]
    return torch.from_numpy(np.array(x)) if isinstance(x, np.ndarray) else x


def compare(got: Any, want: Any) -> None:
    if isinstance(want, (tuple, list)):
        for g, w in zip(got, want, strict=True):
            compare(g, w)
        return
    want = want.resolve_conj().numpy()
    assert got.dtype == want.dtype
    assert got.shape == want.shape
    size = np.abs(want[np.isfinite(want)]).max(initial=1) if want.dtype.kind in "fc" else 0
    tolerances = {"float16": 2e-3, "float32": 1e-5, "complex64": 1e-5, "float64": 1e-7, "complex128": 1e-7}
    tolerance = tolerances.get(want.dtype.name, 0)
    np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance * size)


def check(name: str, *values: Any, outputs: int = 1, **named: Any) -> None:
    want = getattr(torch.ops.aten, name)(*map(t, values), **named)
    compare(call(f"aten::{name}", (*values, *named.values()), outputs), want)


def test_a_quarter_turn_is_one_copy() -> None:
    graph, x = pnnx_fast.Graph(), real("f4", 40, 30)
    operands = [graph.new_operand(name) for name in ("x", "k", "dims", "y")]
    graph.new_operator("pnnx.Input", "input", outputs=operands[:1])
    for operand, value in zip(operands[1:3], (1, (0, 1)), strict=True):
        graph.new_operator("prim::Constant", operand.name, outputs=[operand], params={"value": value})
    graph.new_operator("aten::rot90", "turn", inputs=operands[:3], outputs=operands[3:])
    graph.new_operator("pnnx.Output", "output", inputs=operands[3:])
    model = pnnx_fast.Model(graph, 1)
    np.testing.assert_array_equal(model(x), np.rot90(x))
    assert [step.kernel for step in model.profile(x).steps] == ["copy"]


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_zeta(dtype: str) -> None:
    s = np.array([[0.5], [1], [1.001], [2], [2.5], [3], [50], [400], [np.nan]], dtype)
    x = np.array([0, -2, -2.5, -31.25, 0.3, 1, 1.00001, 1.5, 30, 1e10, np.inf, np.nan], dtype)
    check("special_zeta", s, x)


@pytest.mark.parametrize("name", ["fmax", "fmin", "logaddexp2", "special_xlog1py", "special_xlogy", "xlogy", "isclose"])
@pytest.mark.parametrize("dtype", ["f4", "f8", "f2", "i8"])
def test_two(name: str, dtype: str) -> None:
    pairs = [(real(dtype, 3, 1, 5), real(dtype, 4, 1, seed=1)), (real(dtype, 0, 3), real(dtype, 1, 3))]
    if dtype[0] == "f":
        pairs.append((LEFT.astype(dtype), RIGHT.astype(dtype)))
    for x, y in pairs:
        if name in ("isclose",):
            for rtol, atol, nan in ((1e-5, 1e-8, False), (0.3, 0.5, True), (0.0, 0.0, True)):
                check(name, x, y, rtol, atol, nan)
        elif not (name == "logaddexp2" and dtype == "i8"):
            check(name, x, y)


@pytest.mark.parametrize(
    "name", ["angle", "isneginf", "isposinf", "sinc", "special_sinc", "special_entr", "special_ndtr"]
)
@pytest.mark.parametrize("dtype", ["f4", "f8", "f2", "i8"])
def test_one(name: str, dtype: str) -> None:
    if dtype == "f2" and name == "angle":
        return  # PyTorch has none
    x = real(dtype, 7, 9)
    check(name, x)
    check(name, x[:0])
    if dtype[0] == "f":
        check(name, ODD.astype(dtype))


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_with_numbers(dtype: str) -> None:
    x = np.abs(real(dtype, 4, 6)) / 20
    for eps in (None, 1e-6, 0.1):
        check("logit", np.concatenate((x.ravel(), ODD.astype(dtype))), eps)
        check("special_logit", x, eps)
    for given in ((None, None, None), (1.5, None, -2.0), (0.0, 7.0, None), (None, 3.0, 4.0)):
        check("nan_to_num", ODD.astype(dtype), *given)
        check("nan_to_num", ODD.astype("f2"), *given)
    check("float_power", x, 2.5)
    check("float_power", np.arange(5), x[:1, :5])
    check("ldexp", x, np.arange(-3, 3))
    check("ldexp", np.arange(6), np.arange(-3, 3))


@pytest.mark.parametrize("name", ["hstack", "atleast_1d", "atleast_2d", "atleast_3d", "block_diag"])
def test_numbers_among_tensors(name: str) -> None:
    """Constants without dimensions, which files have as numbers, count less than tensors."""
    x = real("f4", 3)
    results = 2 if "atleast" in name else 1
    unpack = "prim::ListUnpack u 1 2 r r0 r1\n" if results == 2 else ""
    graph = pnnx_fast.Graph.parse(
        f"7767517\n{3 + results} {1 + 2 * results}\npnnx.Input in 0 1 x\npnnx.Expression e 1 1 x l expr=[1.5,@0]\n"
        f"aten::{name} op 1 1 l r\n{unpack}pnnx.Output o {results} 0 {'r0 r1' if unpack else 'r'}\n"
    )
    operands = torch.tensor(1.5), t(x)
    want = getattr(torch, name)(*operands) if name == "block_diag" else getattr(torch, name)(operands)
    got = pnnx_fast.Model(graph)(x)
    compare(got, want)


@pytest.mark.parametrize("dtype", ["f4", "f8", "f2", "i8", "i4", "i2", "u1", "?", "c8"])
def test_shapes(dtype: str) -> None:
    x, y = real("f4", 2, 3, 4).astype(dtype), real("f4", 2, 3, 4, seed=1).astype(dtype)
    parts = [(x, y), (x[0], y[0]), (x[0, 0], y[0, 0]), (x[0, 0, 0:1].reshape(()), y[0, 0, 0:1].reshape(()))]
    for a, b in parts:
        a, b = np.ascontiguousarray(a).reshape(a.shape), np.ascontiguousarray(b).reshape(b.shape)
        for name in ("hstack", "vstack", "dstack", "column_stack"):
            check(name, [a, b, a])
        for name in ("atleast_1d", "atleast_2d", "atleast_3d", "conj"):
            check(name, a)
        if a.ndim:
            for dim in (None, [0], [-1], list(range(a.ndim))):
                check("fft_fftshift", a, dim)
                check("fft_ifftshift", a, dim)
            for offset in (-2, 0, 1):
                check("diag_embed", a, offset, -2, -1)
                check("diag_embed", a, offset, 0, -1)
                check("diagflat", a, offset)
            check("diag_embed", a, 0, -1, 0)
        if a.ndim > 1:
            check("fliplr", a)
            check("flipud", a)
            for k in range(-1, 5):
                check("rot90", a, k, [0, 1])
                check("rot90", a, k, [-1, 0])
    check("diag_embed", x[:, :0].copy(), 0, -2, -1)
    for name in ("outer", "ger"):
        check(name, x[0, 0].copy(), y[0].ravel())
        check(name, x[0, 0].copy(), y[0, 0, :0].copy())
    check("kron", x[0].copy(), y)
    check("kron", x, y[0, 0].copy())
    if dtype != "?":
        check("linalg_cross", x[:, :, :3].copy(), y[:, :, 1:].copy(), dim=-1)
        check("linalg_cross", x, y[:1].copy(), dim=1)


@pytest.mark.parametrize("dtype", ["f4", "f8", "f2", "i8", "i4", "i2", "u1", "?"])
@pytest.mark.parametrize("dim", [None, 0, -1])
def test_reductions(dtype: str, dim: int | None) -> None:
    x = real(dtype, 5, 6, 70) if dtype != "u1" else real("i8", 5, 6, 70).astype("u1")
    for keepdim in (False, True):
        check("aminmax", x, dim=dim, keepdim=keepdim, outputs=2)
        if dtype[0] == "f":
            dims = None if dim is None else [dim]
            for name, unbiased in itertools.product(("std_mean", "var_mean"), (True, False)):
                compare(
                    call(f"aten::{name}", (x, dims or [0, 1, 2], unbiased, keepdim), 2),
                    getattr(torch, name)(t(x), dims or [0, 1, 2], unbiased=unbiased, keepdim=keepdim),
                )
    check("count_nonzero", x, dim)
    if dtype != "?":
        if dtype[0] == "f":
            check("linalg_vecdot", x, x[:1].copy() // 2, dim=dim or 0)
        check("dot", x[0, 0], x[1, 0].copy())
        check("vdot", x[0, 0], x[1, 0].copy())


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_norms(dtype: str) -> None:
    x, y = real(dtype, 5, 6, 7), real(dtype, 5, 6, 7, seed=1)
    for p in (0.0, 1.0, 2.0, 3.0, np.inf):
        check("dist", x, y, p)
        check("dist", x, y[:1].copy(), p)
        if p:
            check("renorm", x, p, 1, 8.0)
            check("renorm", x, p, -1, 8.0)
    for dim in (0, 1, 2, -1):
        check("norm_except_dim", x, 2, dim)
        check("cosine_similarity", x, y, dim, 1e-8)
        check("cosine_similarity", x, y[:1].copy(), dim, 5.0)
    check("norm_except_dim", x, 1, -1)
    for given in ((None,), (None, [0, 2], True), (3, [1]), (np.inf, [0, 2]), (1, [0, 1]), (2, [0, 1]), ("fro", [0, 1])):
        check("linalg_norm", x, *given)
    check("linalg_norm", x[0, 0], 0.5)
    z = (x + 1j * y).astype(f"c{2 * x.itemsize}")
    for given in ((None,), (None, None, True), (3, [1]), (np.inf, [0, 2])):
        check("linalg_norm", z, *given)
    check("dist", z, z[:1] * 2, 2.0)
    for given in (("fro", [-2, -1], False), ("fro", [0, -1], True), ("nuc", [0, 1], False), (1, [-2, -1], True)):
        order, dims, keep = given
        want = torch.linalg.matrix_norm(t(x), order, dims, keep)
        compare(call("aten::linalg_matrix_norm", (x, order, dims, keep, None), 1), want)


@pytest.mark.parametrize("dtype", ["f4", "f8", "i8", "c8"])
def test_products(dtype: str) -> None:
    x, y = real("f4", 3, 4, 5).astype(dtype), real("f4", 5, 4, 2, seed=1).astype(dtype)
    check("tensordot", x, y, [2, 1], [0, 1])
    check("tensordot", x, y, [-1], [0])
    check("tensordot", x[:, :1].copy(), y, [1], [1])
    check("tensordot", x, y[:, :1].copy(), [1, 2], [1, 0])
    check("tensordot", x, y, [], [])
    compare(call("aten::tensordot", (x, y, None, None), 1), torch.tensordot(t(x), t(y), dims=0))  # as files have it
    check("inner", x, y.transpose(1, 2, 0).copy())
    check("inner", x[0, 0].copy(), x[0, 1].copy())
    check("inner", x, y[0, 0, :1].reshape(()))
    check("inner", x[:, :, :0].copy(), x[0, :, :0].copy())
    check("tensordot", x[:0], y, [2], [0])
    for alpha, beta in ((1, 1), (2, 3)):
        check("addmv", x[0, :, 0].copy(), x[0].copy(), y[:, 0, 0].copy(), beta=beta, alpha=alpha)
        check("addr", x[0].copy(), x[0, :, 0].copy(), y[:, 0, 0].copy(), beta=beta, alpha=alpha)


def test_what_does_not_fit() -> None:
    x = real("f4", 3, 4)
    bad: list[tuple[str, tuple[Any, ...]]] = [
        ("outer", (x, x[0])), ("dot", (x[0], x[0, :3].copy())), ("tensordot", (x, x, [0], [1])),
        ("inner", (x, x[:, :3].copy())), ("rot90", (x, 1, [0, 0])), ("diag_embed", (x, 0, 1, 1)), ("fliplr", (x[0],)),
    ]  # fmt: skip
    for name, values in bad:
        with pytest.raises(ShapeError):
            call(f"aten::{name}", values, 1)


def test_two_results_that_are_joined() -> None:
    """Each result has a place of its own in what joins them."""
    x = real("f4", 3, 5)
    for kind, outputs in (("std_mean", torch.std_mean), ("var_mean", torch.var_mean), ("aminmax", torch.aminmax)):
        graph = pnnx_fast.Graph()
        source = graph.new_operand("x")
        graph.new_operator("pnnx.Input", "in0", outputs=[source])
        numbers = [graph.new_operand(f"n{i}") for i in range(3)]
        values = [1, False] if kind == "aminmax" else [[1], True, False]
        for operand, value in zip(numbers, values, strict=False):
            params = {"value": tuple(value) if isinstance(value, list) else value}
            graph.new_operator("prim::Constant", operand.name + "c", outputs=[operand], params=params)
        pair = [graph.new_operand(name) for name in "ab"]
        graph.new_operator(f"aten::{kind}", "op", inputs=[source, *numbers[: len(values)]], outputs=pair)
        whole = graph.new_operand("y")
        graph.new_operator("torch.cat", "cat", inputs=pair, outputs=[whole], params={"dim": 0})
        graph.new_operator("pnnx.Output", "out0", inputs=[whole])
        want = torch.cat(list(outputs(t(x), dim=1)))
        np.testing.assert_allclose(pnnx_fast.Model(graph, 1)(x), want.numpy(), rtol=1e-5)


@pytest.mark.parametrize("dim", range(-3, 3))
def test_areas_between_points_of_every_rank(dim: int) -> None:
    y, points = real("f4", 3, 4, 5), real("f4", 3, 4, 5, seed=1)
    check("cumulative_trapezoid", y, points, dim=dim)
    check("cumulative_trapezoid", y, points[0, 0, : y.shape[dim]], dim=dim)
    if dim in (1, 2, -1, -2):
        check("cumulative_trapezoid", y, points[0], dim=dim)


def test_single_numbers_are_lines_of_one_entry() -> None:
    x = real("f4")
    check("logcumsumexp", x, 0)
    check("mode", x, -1, outputs=2)
    check("nanmean", x, None)
    check("cosine_similarity", x, real("f4", seed=1), -1)
    check("special_log_ndtr", x)
    check("roll", real("f4", 3, 4), [3], [])


def test_orders_behind_their_argument() -> None:
    x = np.abs(real("f4", 5)) + 1
    compare(call("aten::polygamma", (x, 2), 1), torch.polygamma(2, t(x)))


MIXED = (
    "fmax",
    "fmin",
    "xlogy",
    "special_xlog1py",
    "logaddexp2",
    "gcd",
    "lcm",
    "nextafter",
    "mul",
    "div",
    "float_power",
    "igamma",
    "igammac",
    "special_zeta",
    "inner",
)


@pytest.mark.parametrize("name", MIXED)
def test_tensors_of_two_types_meet_in_one(name: str) -> None:
    odd = np.array([0.5, -0.0, 3, 70, np.inf, np.nan])
    samples = [odd.astype(d) for d in ("f2", "f4", "f8")]
    samples += [np.array([1, 2, 0, 70, 9, 12], d) for d in ("i1", "u1", "i2", "i4", "i8")]
    samples += [np.array([True, False] * 3), np.array([1 + 2j, 3, -1j, 0.5, 2, -1], "c8")]
    for x, y in itertools.product(samples, samples):
        for a, b in ((x, y), (x[3], y), (x, y[3]), (x[3], y[3])):
            a, b = np.asarray(a), np.asarray(b)
            try:
                want = getattr(torch.ops.aten, name)(torch.from_numpy(a.copy()), torch.from_numpy(b.copy()))
            except RuntimeError:
                continue  # PyTorch does not take these
            if want.dtype == torch.complex32:
                continue  # neither does numpy
            got, known = call(f"aten::{name}", (a, b), 1), want.numpy()
            assert (got.dtype, got.shape) == (known.dtype, known.shape)
            exact = 2e-3 if known.dtype == np.float16 else 1e-5
            np.testing.assert_allclose(got, known, exact, exact, err_msg=f"{a.dtype}{a.shape} {b.dtype}{b.shape}")


@pytest.mark.parametrize("types", [*itertools.product(("f4", "f8", "i4", "i8", "i1"), repeat=2)], ids=str)
def test_outer_products_and_angles_of_two_types(types: tuple[str, str]) -> None:
    """What is added in a product counts with all its dimensions, also if it has none."""
    x, y = (real("f4", 4, seed=i).astype(d) for i, d in enumerate(types))
    for added in (np.ones((4, 4), "f4"), np.array(2, "f8"), np.ones(4, "i2")):
        check("addr", added, x, y, beta=2, alpha=3)
    if "f" in types[0] + types[1]:
        check("cosine_similarity", x, y, 0, 1e-8)


def test_angles_of_vectors_whose_lengths_are_not_finite() -> None:
    for size in (1e20, 1e-30, 1e15):
        x = np.full(5, size, "f4")
        check("cosine_similarity", x, x, 0, 1e-8)
        check("cosine_similarity", x, -x[::-1].copy(), 0, 0.0)


def test_numbers_beyond_half_precision() -> None:
    x, large = np.array([0, 1, -2], "f2"), np.array(2**31 - 1, "i4")
    for name in ("mul", "div", "floor_divide"):
        for a, b in ((x, large), (large, x), (large, x[1])):
            a, b = np.asarray(a), np.asarray(b)
            want = getattr(torch.ops.aten, name)(torch.from_numpy(a.copy()), torch.from_numpy(b.copy())).numpy()
            np.testing.assert_array_equal(call(f"aten::{name}", (a, b), 1), want)


def test_angles_of_double_precision() -> None:
    x = np.array([-1.0, 0.0, -0.0, 2.0, np.inf, -np.inf, np.nan])
    np.testing.assert_allclose(call("aten::angle", (x,), 1), torch.angle(torch.from_numpy(x)), 1e-15, 0)
