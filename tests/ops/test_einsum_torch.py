"""torch.einsum against PyTorch: views, sums, products, ellipses, broadcasting, several operands, dtypes, errors."""

from __future__ import annotations

import numpy as np
import pytest
from graph_of_one import run

import pnnx_fast
from pnnx_fast.errors import ParameterError, ShapeError

torch = pytest.importorskip("torch")

CASES = [
    ("ji", (4, 5)),
    ("kjil", (2, 3, 4, 5)),
    ("ii", (4, 4)),
    ("ii->i", (4, 4)),
    ("iji->j", (4, 3, 4)),
    ("ijk->", (3, 2, 5)),
    ("kij->ij", (3, 2, 5)),
    ("klij->ij", (2, 3, 4, 5)),
    ("ij,j->i", (2, 5), (5,)),
    ("k,ijk->ij", (4,), (3, 5, 4)),
    ("i,j->ij", (5,), (4,)),
    ("i,j,k,l->ijkl", (5,), (4,), (3,), (2,)),
    ("ijl,ilk->ijk", (3, 2, 5), (3, 5, 4)),
    ("ik,jkl,il->ij", (2, 5), (3, 5, 4), (2, 4)),
    ("imnj,kmln->ijkl", (2, 3, 5, 7), (11, 3, 17, 5)),
    ("ikjm,ljm->ijkl", (3, 16, 16, 6), (32, 16, 6)),
    ("ij,ij->ij", (3, 4), (3, 4)),
    ("ij,ij->", (3, 4), (3, 4)),
    ("ij,jk", (3, 4), (4, 5)),
    ("b i j , b j k -> b k i", (2, 3, 4), (2, 4, 5)),
    ("...ij,...jk->...ik", (2, 3, 4), (6, 2, 4, 5)),
    ("...ij,jk", (2, 2, 3, 4), (4, 5)),
    ("i...j->j...", (2, 3, 4, 5)),
    ("i...->...", (2, 3, 4)),
    ("bij,bjk->bik", (1, 3, 4), (5, 4, 2)),
    ("ij,jk->ik", (3, 1), (4, 5)),
    ("ij,kl->ik", (3, 4), (2, 5)),
    ("ij,jk->ik", (3, 0), (0, 5)),
]


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("dtype", ["f4", "f8", "i8", "c8", "c16"])
def test_equations(case: tuple, dtype: str) -> None:
    equation, *shapes = case
    rng = np.random.default_rng(0)
    turns = (1, 1 - 2j) if dtype[0] == "c" else (1, 1)
    arrays = [(rng.standard_normal(shape) * 3 * turns[i % 2]).astype(dtype) for i, shape in enumerate(shapes)]
    want = torch.einsum(equation, *(torch.from_numpy(a) for a in arrays)).numpy()
    got = run("torch.einsum", *arrays, equation=equation)
    assert np.asarray(got).shape == want.shape
    assert np.asarray(got).dtype == want.dtype
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-4)


def test_an_ellipsis_that_was_dropped_is_put_back() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((2, 3, 4), np.float32), rng.standard_normal((2, 4, 5), np.float32)
    np.testing.assert_allclose(run("torch.einsum", x, y, equation="ik,kj->ij"), x @ y, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("missing", [1, 2])
def test_commas_of_first_operands_without_dimensions_are_put_back(missing: int) -> None:
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    numbers = [np.float32(3 + i) for i in range(missing)]
    np.testing.assert_array_equal(run("torch.einsum", *numbers, x, equation="ij->ji"), x.T * np.prod(numbers))


@pytest.mark.parametrize("equation", ["b i j, b k j -> b i k", "bij,bkj->bik", "b i j,b k j", " bij , bkj -> bki"])
def test_an_equation_of_low_levels_is_a_string_with_its_spaces(equation: str) -> None:
    text = (
        "7767517\n5 4\npnnx.Input i 0 1 x #x=(2,3,4)f32\npnnx.Input j 0 1 y #y=(2,5,4)f32\n"
        f"pnnx.Expression e 0 1 t expr={equation}\ntorch.einsum s 3 1 t x y z $equation=t\npnnx.Output o 1 0 z\n"
    )
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((2, 3, 4), np.float32), rng.standard_normal((2, 5, 4), np.float32)
    want = torch.einsum(equation, torch.from_numpy(x), torch.from_numpy(y)).numpy()
    np.testing.assert_allclose(pnnx_fast.Model(pnnx_fast.Graph.parse(text))(x, y), want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", ["i1", "u1", "i4", "?"])
@pytest.mark.parametrize(
    "equation, shapes",
    [
        ("ik,j->ij", ((2, 3), (2,))),
        ("ik,j->ij", ((2, 1), (2,))),
        ("ik,j->ij", ((2, 0), (2,))),
        ("ik,kj->ij", ((2, 3), (1, 2))),
        ("ik,kj->ij", ((2, 3), (3, 2))),
        ("ik->i", ((2, 1),)),
        ("i,j->", ((2,), (3,))),
        ("i,j,k->i", ((2,), (2,), (3,))),
        ("i,i,i->", ((2,), (2,), (2,))),
        ("ii,j->j", ((2, 2), (2,))),
    ],
)
def test_sums_over_what_one_operand_has_are_of_64_bits(equation: str, shapes: tuple, dtype: str) -> None:
    arrays = [np.full(shape, 100).astype(dtype) for shape in shapes]
    try:
        want = torch.einsum(equation, *map(torch.from_numpy, arrays)).numpy()
    except (NotImplementedError, RuntimeError) as error:
        pytest.skip(str(error))
    got = np.asarray(run("torch.einsum", *arrays, equation=equation))
    assert got.dtype == want.dtype
    np.testing.assert_array_equal(got, want)


def test_errors() -> None:
    x = np.zeros((2, 3), np.float32)
    with pytest.raises(ParameterError, match="operands"):
        run("torch.einsum", x, equation="ij,jk->ik")
    with pytest.raises(ParameterError, match="of its own"):
        run("torch.einsum", x, equation="ij->k")
    with pytest.raises(ParameterError, match="not a list of labels"):
        run("torch.einsum", x, equation="i1->i")
    with pytest.raises(ShapeError, match="rank"):
        run("torch.einsum", x, equation="ijk->i")
    with pytest.raises(ShapeError, match="several sizes"):
        run("torch.einsum", x, x, equation="ij,ji->i")
