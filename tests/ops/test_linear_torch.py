"""Linear layers and matrix products against PyTorch: ranks, broadcasting, views, constants, dtypes, errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from graph_of_one import call, run

import pnnx_fast
from pnnx_fast.errors import ShapeError

torch = pytest.importorskip("torch")
F = torch.nn.functional


def random(*shape: int, dtype: str = "f4") -> np.ndarray:
    rng = np.random.default_rng(sum(shape))
    turned = 1j * rng.standard_normal(shape) if dtype[0] == "c" else 0
    return (rng.standard_normal(shape) * 3 + turned).astype(dtype)


def close(got: Any, want: Any) -> None:
    want = want.numpy()
    assert got.dtype == want.dtype
    assert got.shape == want.shape
    np.testing.assert_allclose(got, want, rtol=0, atol=1e-5 * max(1.0, float(np.abs(want).max())) if want.size else 0)


@pytest.mark.parametrize("shape", [(7,), (1, 7), (9, 7), (2, 3, 7), (2, 3, 4, 5, 7), (2, 0, 7)])
@pytest.mark.parametrize("bias", [True, False])
def test_linear(shape: tuple[int, ...], bias: bool) -> None:
    x, weight, shift = random(*shape), random(21, 7), random(21)
    weights = {"weight": weight, "bias": shift} if bias else {"weight": weight}
    want = F.linear(*(torch.from_numpy(a) for a in (x, *weights.values())))
    close(run("nn.Linear", x, weights=weights, bias=bias, in_features=7, out_features=21), want)
    close(run("F.linear", x, *weights.values(), names=["input", *weights]), want)


@pytest.mark.parametrize("dtype", ["f4", "f2", "f8"])
@pytest.mark.parametrize(
    "shape, bias",
    [
        ((9, 7), (9, 21)), ((9, 7), (1, 21)), ((9, 7), (9, 1)), ((2, 3, 7), (2, 3, 21)), ((2, 3, 7), (3, 21)),
        ((7,), (1, 21)),
    ],
)  # fmt: skip
def test_linear_with_a_bias_for_each_row(shape: tuple[int, ...], bias: tuple[int, ...], dtype: str) -> None:
    """``x @ w.t() + h`` of a recurrent cell by hand comes as a linear function whose bias is ``h``."""
    x, weight, shift = (random(*n).astype(dtype) for n in (shape, (21, 7), bias))
    want = F.linear(*map(torch.from_numpy, (x, weight, shift)))
    got = run("F.linear", x, weight, shift, names=["input", "weight", "bias"])
    assert got.shape == tuple(want.shape)
    assert got.dtype == x.dtype
    np.testing.assert_allclose(got, want.numpy(), rtol=1e-5, atol={"f2": 0.1, "f4": 1e-5, "f8": 1e-12}[dtype])


@pytest.mark.parametrize("dims", [(0, 2, 3, 1), (2, 0, 3, 1), (3, 2, 1, 0)])
@pytest.mark.parametrize("items", [6, 0])
def test_linear_of_a_view(dims: tuple[int, ...], items: int) -> None:
    x = np.ascontiguousarray(random(items, 7, 5, 4).transpose(0, 3, 2, 1))
    weight = random(9, x.transpose(dims).shape[-1])
    graph = pnnx_fast.Graph()
    a, view, other, out = (graph.new_operand(n) for n in "avzy")
    graph.new_operator("pnnx.Input", "i", outputs=[a])
    graph.new_operator("pnnx.Input", "j", outputs=[other])
    graph.new_operator("Tensor.permute", "p", inputs=[a], outputs=[view], params={"dims": list(dims)})
    attrs = {"weight": pnnx_fast.Attribute(weight)}
    wiring = {"inputs": [view, other], "inputnames": ["input", "residual"], "outputs": [out]}
    graph.new_operator("fused.Linear", "l", attrs=attrs, params={"activation": "relu"}, **wiring)
    graph.new_operator("pnnx.Output", "o", inputs=[out])
    z = random(*x.transpose(dims).shape[:3], 9)
    want = F.linear(torch.from_numpy(x).permute(dims), torch.from_numpy(weight)) + torch.from_numpy(z)
    close(pnnx_fast.Model(graph)(x, z), want.relu())


MATMUL = [
    ((13,), (13,)),
    ((14,), (14, 6)),
    ((13,), (7, 13, 4)),
    ((5, 12), (12,)),
    ((6, 3, 7, 14), (14,)),
    ((23, 14), (14, 25)),
    ((4, 5), (10, 5, 40)),
    ((7, 8, 13, 14), (14, 35)),
    ((10, 13, 18), (3, 1, 18, 8)),
    ((8, 1, 23, 11), (1, 5, 11, 9)),
    ((2, 3, 4, 5), (2, 3, 5, 6)),
    ((2, 0, 5), (5, 3)),
    ((2, 4, 0), (0, 3)),
]


@pytest.mark.parametrize("shapes", MATMUL, ids=str)
@pytest.mark.parametrize("dtype", ["f4", "f8", "i8", "c8", "c16"])
def test_matmul(shapes: tuple[tuple[int, ...], tuple[int, ...]], dtype: str) -> None:
    a, c = random(*shapes[0], dtype=dtype), random(*shapes[1], dtype=dtype)
    want = torch.matmul(torch.from_numpy(a), torch.from_numpy(c))
    close(run("torch.matmul", a, c, names=["input", "other"]), want)
    close(run("torch.matmul", a, c, names=["input", "other"], threads=2, last=True), want)
    close(run("torch.matmul", a, names=["input"], weights={"other": c}), want)


@pytest.mark.parametrize("constant", [False, True])
def test_complex_products_into_parts_and_of_views(constant: bool) -> None:
    lines = [
        "pnnx.Input i 0 1 x #x=(3,4,5)c64", "pnnx.Attribute w 0 1 w @data=(6,4)c64 #w=(6,4)c64",
        "pnnx.Input j 0 1 v #v=(6,4)c64", "Tensor.permute p 1 1 x t dims=(2,0,1) $input=x",
        f"Tensor.permute q 1 1 {'w' if constant else 'v'} c dims=(1,0) $input={'w' if constant else 'v'}",
        "torch.matmul m 2 1 t c y $input=t $other=c", "torch.cat k 2 1 y y z dim=1", "pnnx.Output o 1 0 z",
    ]  # fmt: skip
    graph = pnnx_fast.Graph.parse("\n".join(["7767517", "8 7", *lines, ""]))
    x, w = random(3, 4, 5, dtype="c8"), random(6, 4, dtype="c8")
    graph.ops[1].attrs["data"] = pnnx_fast.Attribute(w)
    y = torch.matmul(torch.from_numpy(x).permute(2, 0, 1), torch.from_numpy(w).T)
    close(pnnx_fast.Model(graph)(x, w), torch.cat([y, y], 1))


def test_infinite_complex_entries() -> None:
    a, c = random(3, 4, dtype="c8"), random(4, 2, dtype="c8")
    a[1, 2], c[0, 1] = np.inf, complex(0, -np.inf)
    want = torch.matmul(torch.from_numpy(a), torch.from_numpy(c)).numpy()
    finite = np.isfinite(want)
    for got in (
        run("torch.matmul", a, c, names=["input", "other"]),
        run("torch.matmul", a, names=["input"], weights={"other": c}),
    ):
        np.testing.assert_array_equal(np.isfinite(got), finite)
        np.testing.assert_allclose(got[finite], want[finite], rtol=1e-5)


def test_named_products() -> None:
    a, c, v = random(3, 5, 6), random(3, 6, 4), random(6)
    t = [torch.from_numpy(x) for x in (a, c, v)]
    close(run("torch.bmm", a, c, names=["input", "mat2"]), torch.bmm(t[0], t[1]))
    close(run("torch.mm", a[0], c[0], names=["input", "mat2"]), torch.mm(t[0][0], t[1][0]))
    close(run("torch.mv", a[0], v, names=["input", "vec"]), torch.mv(t[0][0], t[2]))


@pytest.mark.parametrize("shape", [(23,), (13, 1), (1, 23), (13, 23), ()])
@pytest.mark.parametrize("alpha,beta", [(1.0, 1.0), (0.7, 1.4), (2.0, 0.0)])
def test_addmm(shape: tuple[int, ...], alpha: float, beta: float) -> None:
    c, a, w = random(*shape), random(13, 16), random(16, 23)
    c = c if beta else np.full(shape, np.nan, np.float32)
    want = torch.addmm(*(torch.from_numpy(np.asarray(x)) for x in (c, a, w)), alpha=alpha, beta=beta)
    names = ["input", "mat1", "mat2"]
    close(run("torch.addmm", c, a, w, names=names, alpha=alpha, beta=beta), want)
    constant = {"input": np.asarray(c), "mat2": w}
    close(run("torch.addmm", a, names=["mat1"], weights=constant, alpha=alpha, beta=beta), want)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_baddbmm(dtype: str) -> None:
    c, a, w = random(1, 5, 7, dtype=dtype), random(3, 5, 6, dtype=dtype), random(3, 6, 7, dtype=dtype)
    want = torch.baddbmm(*(torch.from_numpy(x) for x in (c, a, w)), alpha=0.5, beta=1.5)
    close(run("torch.baddbmm", c, a, w, names=["input", "batch1", "batch2"], alpha=0.5, beta=1.5), want)


def test_errors() -> None:
    with pytest.raises(ShapeError, match="features"):
        run("nn.Linear", random(2, 3), weights={"weight": random(5, 4)})
    with pytest.raises(ShapeError, match="matrices do not fit"):
        run("torch.matmul", random(2, 3), random(4, 5))
    with pytest.raises(ShapeError, match="broadcast"):
        run("torch.matmul", random(2, 2, 3), random(3, 3, 5))
    with pytest.raises(ShapeError, match="2 dimensions"):
        run("torch.mm", random(2, 2, 3), random(3, 5))
    with pytest.raises(ShapeError, match="batches differ"):
        run("torch.bmm", random(2, 2, 3), random(1, 3, 5))


@pytest.mark.parametrize("dtype, tolerance", [("f2", 1e-2), ("f4", 1e-4), ("f8", 1e-12)])
@pytest.mark.parametrize(
    "first, second",
    [((30, 3), (2, 3)), ((25, 4), (25, 4)), ((2, 26, 5), (2, 7, 5)), ((3, 1, 40, 8), (2, 90, 8)), ((40, 9), (3, 9, 9))],
)
def test_distances_of_rows(first: tuple[int, ...], second: tuple[int, ...], dtype: str, tolerance: float) -> None:
    x, y = random(*first, dtype=dtype), random(*second, dtype=dtype) + np.asarray(1, dtype)
    held = [torch.from_numpy(a.astype("f4") if dtype == "f2" else a) for a in (x, y)]
    for mode, name in enumerate((
        "use_mm_for_euclid_dist_if_necessary", "use_mm_for_euclid_dist", "donot_use_mm_for_euclid_dist"
    )):  # fmt: skip
        got = call("aten::cdist", (x, y, 2.0, mode), 1)
        want = torch.cdist(*held, compute_mode=name).numpy()
        assert got.dtype == x.dtype
        np.testing.assert_allclose(got, want, 0, tolerance * want.max())


@pytest.mark.parametrize("dtype, tolerance", [("f4", 1e-5), ("f8", 1e-12)])
@pytest.mark.parametrize("p", [0.0, 0.5, 1.0, 2.0, 3.0, np.inf])
@pytest.mark.parametrize("length", [1, 5, 32, 33, 70])
def test_other_distances_of_rows(length: int, p: float, dtype: str, tolerance: float) -> None:
    for first, second in (
        ((9, length), (7, length)),
        ((4, 1, 3, length), (2, 6, length)),
        ((1, length), (3, 2, length)),
    ):
        x, y = random(*first, dtype=dtype), random(*second, dtype=dtype) + np.asarray(1, dtype)
        y[..., :1, :1] = x[..., :1, :1].ravel()[0]
        want = torch.cdist(torch.from_numpy(x), torch.from_numpy(y), p).numpy()
        got = call("aten::cdist", (x, y, p, None), 1)
        np.testing.assert_allclose(got, want, 0, tolerance * want.max())


@pytest.mark.parametrize("p", [0.0, 1.0, 3.0])
def test_other_distances_of_rows_that_are_not_finite(p: float) -> None:
    x = random(6, 5)
    x[1, 1], x[2, 0], x[3, 0], x[4, 4] = np.nan, np.inf, -np.inf, np.inf
    held = torch.from_numpy(x)
    np.testing.assert_allclose(call("aten::pdist", (x, p), 1), F.pdist(held, p).numpy(), 1e-5)
    got = call("aten::cdist", (x, x[::2], p, None), 1)
    np.testing.assert_allclose(got, torch.cdist(held, held[::2], p).numpy(), 1e-5)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_distances_of_rows_that_are_equal_empty_or_not_finite(dtype: str) -> None:
    x = random(30, 6, dtype=dtype) / 8
    same = call("aten::cdist", (x, x, 2.0, None), 1)
    assert not np.isnan(same).any()
    assert np.diag(same).max() < (2e-3 if dtype == "f4" else 1e-7)
    x[3, 2], x[4, 1], x[5, 0] = np.nan, np.inf, -np.inf
    y = random(28, 6, dtype=dtype)
    want = torch.cdist(torch.from_numpy(x), torch.from_numpy(y)).numpy()
    got = call("aten::cdist", (x, y, 2.0, None), 1)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
    np.testing.assert_array_equal(np.isinf(got), np.isinf(want))
    for rows, other, length in ((0, 30, 3), (30, 0, 3), (30, 28, 0)):
        x, y = np.zeros((rows, length), dtype), np.zeros((other, length), dtype)
        close(call("aten::cdist", (x, y, 2.0, None), 1), torch.cdist(torch.from_numpy(x), torch.from_numpy(y)))
