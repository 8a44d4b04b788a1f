"""Areas, statistics of rows, signs, masks and complex arithmetic, made of steps of others, against PyTorch."""

from __future__ import annotations

from typing import Any

import graph_of_one
import numpy as np
import pytest
from graph_of_one import run
from test_composed_torch import LEFT, ODD, RIGHT, check, compare, real, t

import pnnx_fast
from pnnx_fast.errors import IndexRangeError, ParameterError, PnnxFastError, ShapeError
from pnnx_fast.ops.order_functions import mode as by_numpy

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.filterwarnings("ignore")


def call(name: str, values: tuple[Any, ...]) -> Any:
    return graph_of_one.call(name, values, 1)


def pairs(*shape: int, seed: int = 0, dtype: str = "c8") -> np.ndarray:
    return (real("f8", *shape, seed=seed) + 1j * real("f8", *shape, seed=seed + 1)).astype(dtype)


COMPLEX_EXPRESSIONS = [
    "mul(@0,@1)", "add(@0,@1)", "sub(@0,@1)", "mul(@0,add(@0,@1))", "square(@0)", "neg(mul(@1,@0))", "abs(mul(@0,@1))",
    "real(mul(@0,@1))", "imag(sub(@0,@1))", "mul(@0,2.5)", "mul(0.5,mul(@0,@1))", "div(@0,4)", "add(@0,1)", "abs(@0)",
    "sub(1,@0)", "complex(real(@0),imag(@1))", "complex(real(@0),neg(imag(@0)))", "mul(real(@0),@1)",
    "mul(mul(add(@0,@1),sub(@0,@1)),mul(@0,@1))",
]  # fmt: skip


def by_torch(text: str, *values: Any) -> Any:
    names = {name: getattr(torch, name) for name in ("mul", "add", "sub", "square", "neg", "abs", "div", "complex")}
    names |= {"real": lambda x: x.real if x.is_complex() else x, "imag": lambda x: x.imag}
    names["sub"] = lambda x, y: x - y
    names["mul"], names["add"] = (lambda x, y: x * y), (lambda x, y: x + y)
    for i in range(len(values)):
        text = text.replace(f"@{i}", f"x{i}")
    return eval(text, names | {f"x{i}": t(v) for i, v in enumerate(values)})


@pytest.mark.parametrize("dtype", ["c8", "c16"])
@pytest.mark.parametrize("text", COMPLEX_EXPRESSIONS)
def test_complex_expressions(text: str, dtype: str) -> None:
    x = pairs(3, 4, 5, dtype=dtype)
    for y in (pairs(3, 4, 5, seed=2, dtype=dtype), pairs(4, 1, seed=2, dtype=dtype), pairs(5, seed=2, dtype=dtype)):
        for left, right in ((x, y), (y, x), (x[:0], y[:1]), (np.swapaxes(x, 0, 1)[:1, :1], y)):
            given = tuple(np.ascontiguousarray(v) for v in (left, right))[: 2 if "@1" in text else 1]
            compare(run("pnnx.Expression", *given, expr=text), by_torch(text, *given))


def test_complex_beside_real() -> None:
    x, y = pairs(6, 7), real("f4", 6, 7)
    for other in (y, y[0], np.array(3, "f4"), np.array(3.0), np.arange(7), y > 0):
        for text in ("mul(@0,@1)", "add(@1,@0)", "sub(@0,@1)"):
            if text[:3] == "sub" and other.dtype == bool:
                continue
            compare(run("pnnx.Expression", x, other, expr=text), by_torch(text, x, other))


def test_what_is_infinite_in_one_part() -> None:
    x, y = (LEFT + 1j * 0).astype("c8"), np.empty(len(LEFT), "c8")
    x.real, x.imag, y.real, y.imag = LEFT, RIGHT, RIGHT[::-1], LEFT
    for text in ("mul(@0,@1)", "add(@0,@1)", "mul(@0,2.0)", "mul(@0,real(@1))", "abs(@0)"):
        for count in (3, len(x)):
            compare(run("pnnx.Expression", x[:count], y[:count], expr=text), by_torch(text, x[:count], y[:count]))


@pytest.mark.parametrize("dtype", ["c8", "c16"])
def test_conjugates_and_polar(dtype: str) -> None:
    x = pairs(3, 4, dtype=dtype)
    for name in ("conj", "_conj", "conj_physical", "adjoint", "mH"):
        if name != "mH":
            check(name, x)
    size, angle = real(f"f{x.dtype.itemsize // 2}", 3, 4), real(f"f{x.dtype.itemsize // 2}", 4, seed=1)
    check("polar", size, np.broadcast_to(angle, size.shape).copy())
    compare(run("torch.complex", size, np.ascontiguousarray(size[::-1])), torch.complex(t(size), t(size[::-1].copy())))


@pytest.mark.parametrize("dtype", ["f4", "f8", "i8"])
@pytest.mark.parametrize("name", ["trapezoid", "trapz", "cumulative_trapezoid"])
def test_areas(name: str, dtype: str) -> None:
    y, places = real(dtype, 3, 5, 4), np.cumsum(np.abs(real(dtype, 3, 5, 4, seed=1)), 1)

    def same(y: np.ndarray, *x: np.ndarray, dim: int, **dx: float) -> None:
        want = getattr(torch, name)(t(y), *map(t, x), dim=dim, **dx)
        compare(call(f"aten::{name}", (y, *(x or dx.values()), dim)), want)

    for dim in (0, 1, -1):
        same(y, dim=dim, dx=1.0)
        same(y, dim=dim, dx=0.25)
        line = np.cumsum(np.abs(real(dtype, y.shape[dim], seed=2)))
        same(y, line.astype(dtype), dim=dim)
        same(y, places, dim=dim)
    same(y, np.ascontiguousarray(places[0, :, :1]), dim=1)
    same(y[:, :1], dim=1, dx=2.0)
    if name != "trapezoid" or dtype != "i8":
        same(y[:0], dim=1, dx=1.0)
    if dtype[0] == "f" and name != "cumulative_trapezoid":
        same(np.array([[np.inf, 1, 2], [0, np.inf, 1], [np.nan, 0, 0]], dtype), dim=1, dx=1.0)


@pytest.mark.parametrize("dtype", ["f4", "f8", "f2"])
def test_mean_of_numbers(dtype: str) -> None:
    x = np.where(real("f4", 3, 4, 5) > 1, np.nan, real("f4", 3, 4, 5, seed=1)).astype(dtype)
    x[0, 1] = np.nan
    for dim, keepdim in ((None, False), ([1], True), ([0, -1], False), ([2], False)):
        check("nanmean", x, dim, keepdim)
    check("nanmean", np.array(np.nan, dtype), None)
    check("nanmean", x[:0], [0])


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_covariance(dtype: str) -> None:
    x = real(dtype, 4, 9)
    for correction in (0, 1, 9, 20):
        compare(call("aten::cov", (x, correction, None, None)), torch.cov(t(x), correction=correction))
        compare(call("aten::cov", (x[0], correction, None, None)), torch.cov(t(x[0]), correction=correction))
    compare(call("aten::corrcoef", (x,)), torch.corrcoef(t(x)))
    compare(call("aten::corrcoef", (x[1],)), torch.corrcoef(t(x[1])))
    x[2] = 3
    compare(call("aten::corrcoef", (x,)), torch.corrcoef(t(x)))
    odd = np.stack([ODD.astype(dtype), np.arange(len(ODD), dtype=dtype)])
    compare(call("aten::cov", (odd, 1, None, None)), torch.cov(t(odd)))


@pytest.mark.parametrize("dtype", ["f4", "f8", "f2"])
def test_signs(dtype: str) -> None:
    x, y = LEFT.astype(dtype), RIGHT.astype(dtype)
    got, want = call("aten::copysign", (x, -y)), torch.copysign(t(x), t(-y)).numpy()
    np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(np.signbit(got), np.signbit(want))
    for number in (-0.0, 2, -3.5):
        compare(call("aten::copysign", (x, number)), torch.copysign(t(x), number))
    compare(call("aten::copysign", (np.arange(-3, 3), y[:6])), torch.copysign(torch.arange(-3, 3), t(y[:6])))
    check("heaviside", x, y)
    check("heaviside", real(dtype, 3, 4), np.array(0.5, dtype))


@pytest.mark.parametrize("dtype", ["f4", "f8", "f2", "i8", "?"])
def test_masked_scatter(dtype: str) -> None:
    x, source = real("f4", 3, 4, 5).astype(dtype), real("f4", 6, 10, seed=1).astype(dtype)
    every, some = np.ones((3, 4, 5), bool), real("f4", 3, 4, 5, seed=2) > 0
    for mask in (some, real("f4", 4, 1, seed=3) > 0, np.zeros(5, bool), every):
        compare(call("aten::masked_scatter", (x, mask, source)), torch.masked_scatter(t(x), t(mask), t(source)))
    compare(call("aten::masked_scatter", (x[:0], x[:0] > 0, source)), t(x[:0]))
    compare(call("aten::masked_scatter", (x, np.zeros(5, bool), source[:0])), t(x))
    with pytest.raises(PnnxFastError):
        call("aten::masked_scatter", (x, np.ones((3, 4, 5), bool), source[:2]))


def test_kronecker_products_and_convolutions() -> None:
    shapes = [((3, 4), (5, 2)), ((3,), (4, 5)), ((2, 3, 4), (3, 1, 2)), ((), (3,)), ((0, 2), (2, 3)), ((4,), (6,))]
    for left, right in shapes:
        check("kron", real("f4", *left), real("f4", *right, seed=1))
    for dtype, pad in (("f4", 0), ("f4", 2), ("f8", 1)):
        given = real(dtype, 9, 2, 5), real(dtype, 3, 5, 4, seed=1), real(dtype, 4, seed=2)
        compare(call("aten::conv_tbc", (*given, pad)), torch.conv_tbc(*map(t, given), pad))


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("n", [67, 127, 134, 509])
@pytest.mark.parametrize("name", ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"])
def test_lengths_with_large_factors(name: str, n: int, dtype: str) -> None:
    takes_real = name in ("rfft", "ihfft")
    for lines in ((40,), (3, 16), (2,)):
        for size in (n, n - 5, n + 3):
            x = real(dtype, *lines, size) if takes_real else pairs(*lines, size, dtype=f"c{2 * int(dtype[1])}")
            for dim, norm in ((-1, None), (0, "ortho")):
                given = np.ascontiguousarray(np.moveaxis(x, -1, dim))
                got = run(f"torch.fft.{name}", given, n=n, dim=dim, norm=norm)
                want = getattr(torch.fft, name)(t(given), n, dim, norm).resolve_conj().numpy()
                np.testing.assert_allclose(got, want, rtol=0, atol=2e-6 * np.abs(want).max())
    if not takes_real:
        x = real(dtype, 40, n)
        compare(run("torch.fft.fft", x), torch.fft.fft(t(x)))


@pytest.mark.parametrize("n", [67, 134])
def test_spectrograms_of_odd_frames(n: int) -> None:
    x, window = real("f4", 2, 2000), real("f4", n - 4, seed=1)
    for params in ({}, {"onesided": False}, {"normalized": True}, {"hop_length": 20, "win_length": n - 4}):
        shape = window if "win_length" in params else real("f4", n, seed=2)
        given: dict[str, Any] = {"n_fft": n, "return_complex": True, **params}
        got = run("torch.stft", x, shape, names=("input", "window"), **given)
        want = torch.stft(t(x), window=t(shape), **given).numpy()
        np.testing.assert_allclose(got, want, rtol=0, atol=2e-6 * np.abs(want).max())


@pytest.mark.parametrize("constant", [True, False])
@pytest.mark.parametrize("dtype", ["c8", "c16"])
def test_signals_of_spectrograms(dtype: str, constant: bool) -> None:
    shape = np.abs(real("f8", 16)).astype(f"f{np.dtype(dtype).itemsize // 2}") + 1
    for lead, frames in (((2,), 9), ((), 1), ((2,), 30)):
        x = pairs(*lead, 9, frames, dtype=dtype)
        for params in (
            {}, {"hop_length": 16}, {"hop_length": 5}, {"hop_length": 7, "normalized": True}, {"hop_length": 1},
            {"center": False, "hop_length": 3}, {"hop_length": 6, "win_length": 12}, {"hop_length": 4, "length": 30},
        ):  # fmt: skip
            given: dict[str, Any] = {"n_fft": 16, **params}
            for window in (None, shape[: params.get("win_length", 16)]):
                try:
                    want = torch.istft(t(x), window=None if window is None else t(window), **given)
                except RuntimeError:
                    continue
                with np.errstate(all="ignore"):
                    weights = {} if window is None or not constant else {"window": window}
                    beside = () if window is None or constant else (window,)
                    names = ("input", "window")[: 1 + len(beside)]
                    compare(run("torch.istft", x, *beside, names=names, weights=weights, **given), want)


@pytest.mark.parametrize("dtype", ["f4", "f8", "f2"])
@pytest.mark.parametrize("mode", [0, 1, 2])
def test_bags(mode: int, dtype: str) -> None:
    rng = np.random.default_rng(mode)
    for columns in (1, 5, 16, 70, 133):
        table = rng.standard_normal((20, columns)).astype(dtype)
        index = rng.integers(0, 20, 50)
        starts = np.array([0, 0, 7, 7, 20, 49, 50])
        for kind in (np.int64, np.int32):
            for closed, padding in ((False, None), (True, None), (False, 3), (True, -2)):
                factors = [None, rng.standard_normal(50).astype(dtype)] if mode == 0 else [None]
                for scale in factors:
                    given = (table, index.astype(kind), starts.astype(kind), False, mode, False, scale, closed, padding)
                    want = torch.embedding_bag(*(t(v) for v in given[: 8 if padding is None else 9]))[0]
                    compare(graph_of_one.call("aten::embedding_bag", given, 4)[0], want)
    nothing = np.zeros(0, np.int64)
    given = (table, nothing, np.zeros(3, np.int64), False, mode, False, None, False, None)
    compare(graph_of_one.call("aten::embedding_bag", given, 4)[0], torch.zeros(3, 133, dtype=t(table).dtype))


@pytest.mark.parametrize("dtype", ["f4", "f8", "f2", "i8", "i4", "u1"])
def test_modes(dtype: str) -> None:
    rng = np.random.default_rng(0)
    for shape in ((4, 9), (3, 40, 5), (2, 300), (6, 1), (0, 5)):
        x = rng.integers(0, 6, shape).astype(dtype)
        for dim in range(-1, len(shape) - 1):
            for keepdim in (False, True):
                if not x.shape[dim]:
                    continue
                got = graph_of_one.call("aten::mode", (x, dim, keepdim), 2)
                want = torch.mode(t(x), dim, keepdim)
                compare(got[0], want[0])
                if x.shape[dim] <= 16:  # which of many equal entries PyTorch finds depends on its sort
                    compare(got[1], want[1])
                places = got[1] if keepdim else np.expand_dims(got[1], dim)
                np.testing.assert_array_equal(np.take_along_axis(x, places, dim).reshape(got[0].shape), got[0])
    if dtype[0] == "f":
        x = np.where(rng.random((50, 12)) < 0.3, np.nan, rng.integers(-1, 2, (50, 12))).astype(dtype)
        compare(graph_of_one.call("aten::mode", (x, -1, False), 2), tuple(torch.mode(t(x), -1)))
        long = np.tile(x, (1, 5))
        # Many entries PyTorch sorts in an order of its own where NaN is among them.
        for got, want in zip(graph_of_one.call("aten::mode", (long, -1, False), 2), by_numpy(long, -1), strict=True):
            np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("dtype", ["f4", "f8", "i8"])
def test_searches(dtype: str) -> None:
    for n in (0, 1, 2, 3, 7, 8, 100):
        edges = np.sort(real(dtype, n))
        for shape in ((), (1,), (3, 50), (0, 4), (77,)):
            values = real(dtype, *shape, seed=1)
            values = np.where(values > 5, edges[0] if n else 0, values).astype(dtype)
            if dtype[0] == "f" and values.size > 20:
                values.reshape(-1)[:4] = [np.nan, np.inf, -np.inf, edges[-1] if n else 0]
            for right in (False, True):
                for narrow in (False, True):
                    want = torch.bucketize(t(values), t(edges), out_int32=narrow, right=right)
                    compare(call("aten::bucketize", (values, edges, narrow, right)), want)
    rows, values = np.sort(real(dtype, 3, 9), -1), real(dtype, 3, 40, seed=1)
    compare(call("aten::searchsorted", (rows, values, False, True)), torch.searchsorted(t(rows), t(values), right=True))
    mixed = np.take_along_axis(rows, order := np.argsort(real("f4", 3, 9, seed=4), -1), -1)
    sorter = np.argsort(mixed, -1)
    want = torch.searchsorted(t(mixed), t(values), side="left", sorter=t(sorter))
    compare(call("aten::searchsorted", (mixed, values, False, False, "left", sorter)), want)
    assert order.shape == rows.shape


def indexed(x: np.ndarray, entries: list[Any]) -> Any:
    """The entries of an array that indices name, None standing for whole dimensions."""
    graph, operands = pnnx_fast.Graph(), []
    for i, value in enumerate([x, *entries]):
        operands.append(graph.new_operand(f"v{i}"))
        kind, params = ("prim::Constant", {"value": None}) if value is None else ("pnnx.Input", {})
        graph.new_operator(kind, f"o{i}", outputs=[operands[-1]], params=params)
    listed, result = graph.new_operand("list"), graph.new_operand("out")
    graph.new_operator("prim::ListConstruct", "list", inputs=operands[1:], outputs=[listed])
    names = ["input", "indices"]
    graph.new_operator("Tensor.index", "op", inputs=[operands[0], listed], outputs=[result], inputnames=names)
    graph.new_operator("pnnx.Output", "output", inputs=[result])
    return pnnx_fast.Model(graph, 1)(x, *(e for e in entries if e is not None))


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
@pytest.mark.parametrize("right", [False, True])
def test_searches_among_edges_that_end_with_nan(right: bool, dtype: str) -> None:
    """Where NaN stands in an order nobody knows: what is found depends on which edges are looked at."""
    rng = np.random.default_rng(0)
    for n in range(1, 40):
        edges = np.sort(rng.integers(-5, 5, (2, n)).astype(dtype), -1)
        edges[0, rng.integers(0, n) :] = np.nan
        values = np.append(rng.integers(-6, 6, (2, 19)), [[np.nan], [np.inf]], 1).astype(dtype)
        want = torch.searchsorted(t(edges), t(values), right=right)
        compare(call("aten::searchsorted", (edges, values, False, right)), want)
        want = torch.bucketize(t(values), t(edges[0]), right=right)
        compare(call("aten::bucketize", (values, edges[0], False, right)), want)


def test_pairs_of_halves_are_complex_numbers_that_are_held_as_complex64() -> None:
    pairs = real("f4", 3, 5, 2).astype("f2")
    want = torch.view_as_complex(t(pairs)).to(torch.complex64)
    compare(call("aten::view_as_complex", (pairs,)), want)


@pytest.mark.parametrize("dtype", ["f4", "i8"])
def test_indices_around_slices(dtype: str) -> None:
    x, rng = real("f4", 7, 3, 8, 2, 5).astype(dtype), np.random.default_rng(0)
    i, j, k = (rng.integers(-n, n, shape) for n, shape in ((7, (2, 1)), (8, 3), (2, (2, 3))))
    cases: list[tuple[list[Any], Any]] = [
        ([i, None, j], lambda x, i, j: x[i, :, j]),
        ([None, i % 3, None, k], lambda x, i, k: x[:, i, :, k]),
        ([i, None, j, None, k], lambda x, i, j, k: x[i, :, j, :, k]),
        ([i, None, None, k], lambda x, i, k: x[i, :, :, k]),
    ]
    for entries, by in cases:
        given = [e for e in entries if e is not None]
        compare(indexed(x, entries), by(t(x), *map(t, given)))
        with pytest.raises(IndexRangeError):
            indexed(x, [None if e is None else e + 8 for e in entries])


@pytest.mark.parametrize(("scale", "zero"), [(0.1, 3), (0.25, 128), (1e-3, 0), (3.0, 255)])
def test_values_on_grids(scale: float, zero: int) -> None:
    ties = (np.arange(-300, 300) * 0.5 * np.float32(scale)).astype("f4")
    x = np.concatenate([ties, real("f4", 500), np.array([np.inf, -np.inf, 1e30, -0.0], "f4")])
    for kind in (torch.quint8, torch.qint8):
        number = zero if kind is torch.quint8 else zero - 128
        want = torch.quantize_per_tensor(t(x), scale, number, kind).dequantize()
        compare(run("torch.quantize_per_tensor", x, scale=scale, zero_point=number, dtype=str(kind)), want)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("constant", [True, False])
@pytest.mark.parametrize("whole", [True, False])
def test_values_on_grids_of_channels(axis: int, constant: bool, whole: bool) -> None:
    scales = np.array([0.1, 0.25, 1e-3], "f4")
    zeros = np.array([3, 7, 100], "i8") if whole else np.array([3.5, 0.25, 100], "f4")
    x = np.concatenate([(np.arange(-60, 60) * 0.5).astype("f4").reshape(-1, 1) * scales, real("f4", 20, 3)])
    if whole:
        x = np.concatenate([x, np.array([[np.inf, -np.inf, 1e30]], "f4")])
    x = np.ascontiguousarray(x.T if axis == 0 else x)
    given = [v.view(graph_of_one.Weight) if constant else v for v in (scales, zeros)]
    # PyTorch has no other than whole zero points for signed integers.
    for kind, number in ((torch.quint8, 13), (torch.qint8, 12))[: 1 + whole]:
        want = torch.quantize_per_channel(t(x), t(scales), t(zeros), axis, kind).dequantize()
        same = call("aten::quantize_per_channel", (x, *given, axis, number))
        np.testing.assert_array_equal(same, want.numpy())
    with pytest.raises(ShapeError, match="one a channel"):
        call("aten::quantize_per_channel", (x, scales[:2], zeros[:2], axis, 12))
    with pytest.raises(ParameterError, match="quantised dtype"):
        call("aten::quantize_per_channel", (x, scales, zeros, axis, 6))
