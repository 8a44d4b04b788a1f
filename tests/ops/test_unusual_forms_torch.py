"""Legal but unusual calls, by position as converters write them, against PyTorch: factors that are complex, exponents
beyond the range of floats, starts that models compute, tensors without entries, sums of truth values.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from graph_of_one import call, run

from pnnx_fast.errors import ParameterError, ShapeError

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore::UserWarning")]

RNG = np.random.default_rng(0)
X = RNG.standard_normal((3, 4)).astype("f4")
C = (RNG.standard_normal((4, 4)) + 1j * RNG.standard_normal((4, 4))).astype("c8")
WHOLE = np.int64([200, -200, 0, 1 << 12])
TRUTH = RNG.random((3, 4)) > 0.5
NOTHING = X[:0]
BELOW = np.array([-0.5, -1, -1.5, -20.25, -1000.3, -0.0, -np.inf, np.nan, np.inf, -1e-3, 0.49, 3, 1e5])
FAR = np.array([-20000.25, -1e6 - 0.25])


def plus(x: Any, y: Any, factor: Any) -> Any:
    return torch.add(x, y, alpha=factor)


ROWS: list[tuple[str, tuple[Any, ...], Any]] = [
    ("ldexp", (np.float32([1e-30, 1e30, 0, np.inf]), WHOLE), torch.ldexp),
    ("ldexp", (np.float64([1e-300, 1e300, np.nan, 0]), WHOLE * 5), torch.ldexp),
    ("ldexp", (np.float16([1e-4, 3]), np.int32([20, -3])), torch.ldexp),
    ("ldexp", (np.int64([3, -5]), np.int64([-3, 200])), torch.ldexp),
    ("ldexp", (X, np.float32([0.5, 3, -1, 300])), torch.ldexp),
    ("ldexp", (C, np.int64([1, -2, 3, 0])), torch.ldexp),
    ("ldexp", (C, C), torch.ldexp),
    ("dist", (X, np.int64([[1], [2], [3]])), torch.dist),
    ("median", (NOTHING,), torch.median),
    ("nanmedian", (NOTHING,), torch.nanmedian),
    ("type_as", (C, np.float64([1])), lambda a, b: a.type_as(b)),
    ("type_as", (np.float32([-1.5, 300.7, 70000]), np.uint8([0])), lambda a, b: a.type_as(b)),
    ("type_as", (C, TRUTH), lambda a, b: a.type_as(b)),
    ("vander", (TRUTH[0], 3), torch.vander),
    ("vander", (np.int32([2, 3]),), torch.vander),
    *[("add", (TRUTH, other, factor), plus) for other in (TRUTH[::-1], True, 2, 1.5) for factor in (2, 0, -1)],
    ("add", (np.int32([1, 2, 3, 4]), TRUTH, 3), plus),
    ("add", (np.uint8([1, 2, 3, 4]), TRUTH, 255), plus),
    ("add", (np.float64([1, 2, 3]), WHOLE[:3], 0.1), plus),
    ("sub", (np.float64([1, 2, 3]), WHOLE[:3], 0.1), lambda a, b, c: torch.sub(a, b, alpha=c)),
    ("rsub", (WHOLE[:3], np.float64([1, 2, 3]), 0.1), lambda a, b, c: torch.rsub(a, b, alpha=c)),
    *[("polygamma", (n, BELOW.astype(kind)), torch.polygamma) for n in (0, 1, 2, 3, 10) for kind in ("f4", "f8")],
    *[("polygamma", (n, FAR), torch.polygamma) for n in (1, 2, 3)],
    ("polygamma", (1, WHOLE), torch.polygamma),
    *[("special_zeta", (np.full_like(BELOW, s), BELOW), torch.special.zeta) for s in (1, 2, 2.5, 3)],
]


def same(got: Any, want: Any) -> None:
    got, want = (v if isinstance(v, tuple) else (v,) for v in (got, want))
    for y, z in zip(got, want, strict=True):
        assert np.asarray(y).dtype == z.numpy().dtype
        np.testing.assert_allclose(y, z.numpy(), 1e-4, 1e-5, strict=True)


def tensors(values: tuple[Any, ...]) -> list[Any]:
    return [torch.from_numpy(np.array(v)) if isinstance(v, np.ndarray) else v for v in values]


@pytest.mark.parametrize(("kind", "values", "oracle"), ROWS, ids=lambda v: v if isinstance(v, str) else "")
def test_matches_torch(kind: str, values: tuple[Any, ...], oracle: Any) -> None:
    same(call(f"aten::{kind}", values, 1), oracle(*tensors(values)))


@pytest.mark.parametrize("dim", [0, 1])
def test_modes_of_no_lines(dim: int) -> None:
    x = np.zeros((3, 4, 0), np.float32)
    same(tuple(call("aten::mode", (x, dim, True), 2)), tuple(torch.mode(torch.from_numpy(x), dim, True)))
    same(tuple(call("aten::mode", (x, dim, False), 2)), tuple(torch.mode(torch.from_numpy(x), dim)))


def test_quotients_of_truth_values_are_whole() -> None:
    want = torch.div(torch.from_numpy(TRUTH), 2, rounding_mode="trunc")
    same(call("aten::div", (TRUTH, 2, "trunc"), 1), want)


def test_sums_of_small_integers_and_truth_values() -> None:
    for x in (TRUTH, TRUTH.astype("i1")):
        for equation in ("ij->j", "ij->ji", "...j->j"):
            want = torch.einsum(equation, torch.from_numpy(x))
            same(run("torch.einsum", x, equation=equation), want)


@pytest.mark.parametrize("alpha, beta", [(1 + 2j, 2 - 1j), (2, 0), (0.5, 1j)])
def test_complex_factors_of_products(alpha: complex, beta: complex) -> None:
    t, batch = torch.from_numpy(C), C[None]
    factors = {"alpha": alpha, "beta": beta}
    same(run("torch.addmm", C, C, C, **factors), torch.addmm(t, t, t, **factors))
    same(run("torch.baddbmm", batch, batch, batch, **factors), torch.baddbmm(t[None], t[None], t[None], **factors))
    same(call("aten::addmv", (C[0], C, C[1], beta, alpha), 1), torch.addmv(t[0], t, t[1], **factors))


def test_complex_factors_of_real_products_are_refused() -> None:
    with pytest.raises(ParameterError, match="must be real"):
        run("torch.addmm", X[:, :3], X[:, :3], X[:, :3], alpha=1j)


@pytest.mark.parametrize("start", [1, -3, 2])
def test_a_range_from_a_computed_start(start: int) -> None:
    names = ("input", "start")
    for index in (np.int64(start), np.int32([start])):
        got = run("torch.narrow", X, np.asarray(index), names=names, dim=-1, length=2)
        same(got, torch.narrow(torch.from_numpy(X), -1, start, 2))
    with pytest.raises(ShapeError, match="outside of the dimension"):
        run("torch.narrow", X, np.asarray(3), names=names, dim=-1, length=2)
    with pytest.raises(ShapeError, match="one integer"):
        run("torch.narrow", X, np.float32(1), names=names, dim=-1, length=2)
    with pytest.raises(ShapeError, match="outside of the dimension"):
        run("torch.narrow", X, np.asarray(0), names=names, dim=-1, length=5)


@pytest.mark.parametrize("stride, dilation", [(2, 1), ((3, 2), (1, 2)), ((1, 2), 1)])
def test_same_padding_with_strides_is_that_of_onnx(stride: Any, dilation: Any) -> None:
    """The smaller half of an odd padding is in front; there are as many outputs as strides in the input."""
    x, w = RNG.standard_normal((2, 3, 7, 8)).astype("f4"), RNG.standard_normal((4, 3, 3, 2)).astype("f4")
    steps, skips = (v if isinstance(v, tuple) else (v, v) for v in (stride, dilation))
    sides = []
    for n, k, s, d in zip(x.shape[2:], w.shape[2:], steps, skips, strict=True):
        total = max((-(-n // s) - 1) * s + d * (k - 1) + 1 - n, 0)
        sides = [total // 2, total - total // 2, *sides]
    padded = torch.nn.functional.pad(torch.from_numpy(x), sides)
    want = torch.nn.functional.conv2d(padded, torch.from_numpy(w), stride=stride, dilation=dilation)
    weights = {"weight": w}
    params = {"in_channels": 3, "out_channels": 4, "kernel_size": (3, 2), "bias": False, "padding": "same"}
    same(run("nn.Conv2d", x, weights=weights, stride=stride, dilation=dilation, **params), want)


@pytest.mark.parametrize("start, end, step", [(3, 0, -1), (-1, -99, -1), (None, None, -2), (1, 3, -1), (3, 1, -3)])
def test_slices_of_onnx_go_backwards(start: int | None, end: int | None, step: int) -> None:
    bounds = {"start": start, "end": end, "step": step}
    got = run("Tensor.slice", X, dim=1, **{k: v for k, v in bounds.items() if v is not None})
    np.testing.assert_array_equal(got, X[:, start:end:step], strict=True)
    with pytest.raises(ParameterError, match="not be zero"):
        run("Tensor.slice", X, dim=1, step=0)


def test_splits_of_onnx_into_as_many_parts_as_there_are() -> None:
    for axis, count, whole in ((1, 2, X), (0, 2, X), (1, 4, X)):
        got = run("torch.split", whole, names=("tensor",), outputs=count, dim=axis, split_size_or_sections=None)
        for y, z in zip(got, torch.chunk(torch.from_numpy(whole), count, axis), strict=True):
            same(y, z)
