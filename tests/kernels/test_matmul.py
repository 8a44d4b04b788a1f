"""Matrix products of float32 and float64 against numpy: odd sizes, transposed operands, broadcast batches, sums."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from strides import elements

from pnnx_fast.runtime.kernel import call, plan

Array = NDArray[Any]
Type = type[np.floating[Any]]

drawn: list[Type] = [np.float32]
"""The type of random matrices."""


@pytest.fixture(params=[np.float32, np.float64], autouse=True)
def dtype(request: pytest.FixtureRequest) -> Type:
    """Each test runs with either type."""
    drawn[0] = request.param
    return drawn[0]


def product(
    isa: str, threads: int, a: Array, b: Array, c: Array | None = None, alpha: float = 1.0, beta: float = 1.0
) -> Array:
    """Run the kernel on arrays of any strides; operands of lower batch rank are broadcast."""
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    m, k, n = *a.shape[-2:], b.shape[-1]
    y = np.full((*batch, m, n + 3), np.nan, a.dtype)
    a, b = np.broadcast_to(a, (*batch, m, k)), np.broadcast_to(b, (*batch, k, n))
    c = None if c is None else np.broadcast_to(c, (*batch, m, n))
    sa, sb, sy = elements(a), elements(b), elements(y)
    sc = elements(c) if c is not None else [0] * (len(batch) + 2)
    r = len(batch)
    fields: dict[str, Any] = {
        "rank": r,
        "shape": batch,
        "as": sa[:r],
        "bs": sb[:r],
        "cs": sc[:r],
        "ys": sy[:r],
        "m": m,
        "n": n,
        "k": k,
        "am": sa[r],
        "ak": sa[r + 1],
        "bk": sb[r],
        "bn": sb[r + 1],
        "cm": sc[r],
        "cn": sc[r + 1],
        "ym": sy[r],
        "alpha": alpha,
        "beta": beta,
    }
    kernel = f"matmul_f{8 * a.itemsize}"
    scratch = np.empty(plan(isa, kernel, threads, **fields)[2] // a.itemsize + 1, a.dtype)
    call(isa, kernel, threads, a=a, b=b, c=c, y=y, scratch=scratch, **fields)
    assert np.isnan(y[..., n:]).all(), "wrote outside of the output"
    return y[..., :n]


def check(
    isa: str, threads: int, a: Array, b: Array, c: Array | None = None, alpha: float = 1.0, beta: float = 1.0
) -> None:
    want = alpha * (a.astype(float) @ b.astype(float))
    if c is not None:
        want = want + beta * c.astype(float)
    got = product(isa, threads, a, b, c, alpha, beta)
    scale = max(1.0, float(np.abs(want).max())) if want.size else 1.0
    eps = 8 * np.finfo(got.dtype).eps
    np.testing.assert_allclose(got, want, rtol=0, atol=eps * scale * max(2.0, (a.shape[-1] / 64) ** 0.5))


def random(*shape: int) -> Array:
    return np.random.default_rng(len(shape)).standard_normal(shape).astype(drawn[0])


def transposed(x: Array) -> Array:
    """The same values with the last two dimensions stored the other way round."""
    return np.ascontiguousarray(x.swapaxes(-1, -2)).swapaxes(-1, -2)


def apart(x: Array) -> Array:
    """The same values with gaps between all of them."""
    wide = np.full((*x.shape, 2), np.nan, x.dtype)
    wide[..., 0] = x
    return wide[..., 0]


FORMS = {"plain": lambda x: x, "transposed": transposed, "apart": apart}


@pytest.mark.parametrize("form_a", FORMS)
@pytest.mark.parametrize("form_b", FORMS)
def test_sizes(isa: str, form_a: str, form_b: str) -> None:
    sizes = [
        (1, 1, 1),
        (3, 5, 7),
        (13, 17, 33),
        (7, 64, 48),
        (25, 40, 130),
        (1, 33, 20),
        (20, 33, 1),
        (50, 2, 9),
    ]
    for i, (m, k, n) in enumerate(sizes):
        check(isa, 1 + i % 2, FORMS[form_a](random(m, k)), FORMS[form_b](random(k, n)))


@pytest.mark.parametrize("form", FORMS)
def test_depth_in_blocks(isa: str, form: str) -> None:
    for m, k, n in [(131, 2500, 70), (4, 3000, 65), (300, 1100, 16), (310, 300, 7)]:
        check(isa, 2, FORMS[form](random(m, k)), FORMS[form](random(k, n)))


@pytest.mark.parametrize("threads", [1, 2])
def test_vectors(isa: str, threads: int) -> None:
    for k, n in itertools.product([1, 3, 16, 63, 200], [1, 2, 70, 129]):
        check(isa, threads, random(1, k), transposed(random(k, n)))
        check(isa, threads, random(n, k), random(k, 1))
        check(isa, threads, random(2, k), random(k, n))


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("form", FORMS)
def test_few_rows_or_columns(isa: str, threads: int, form: str) -> None:
    shape = FORMS[form]
    for few, k, n in itertools.product([1, 2, 3, 4], [1, 9, 300], [5, 64, 1100]):
        check(isa, threads, random(few, k), shape(random(k, n)))
        check(isa, threads, shape(random(n, k)), random(k, few))
    for few, k, n in [(1, 70000, 1), (2, 9001, 2), (3, 20000, 7), (4, 5000, 65), (1, 40, 5000), (4, 33, 2100)]:
        check(isa, threads, random(few, k), shape(random(k, n)))
        check(isa, threads, shape(random(n, k)), transposed(random(k, few)))
    check(isa, threads, random(3, 1, 700), shape(random(3, 700, 130)))
    check(isa, threads, shape(random(2, 3, 130, 700)), random(700, 1))


@pytest.mark.parametrize("form", FORMS)
def test_few_rows_and_an_added_matrix(isa: str, form: str) -> None:
    for few, k, n in [(1, 70, 33), (1, 9000, 130), (3, 900, 130)]:
        a, b, c = random(few, k), FORMS[form](random(k, n)), random(few, n)
        for alpha, beta in [(1.0, 1.0), (0.5, -2.0)]:
            check(isa, 2, a, b, c, alpha, beta)
            check(isa, 1, b.T, a.T, c.T, alpha, beta)
            check(isa, 1, a, b, c[:, :1], alpha, beta)


def test_pieces_of_long_sums_have_an_order(isa: str) -> None:
    for a, b in [(random(1, 100_003), random(100_003, 1)), (random(2, 5000), random(5000, 40))]:
        want = product(isa, 1, a, b)
        for _ in range(5):
            np.testing.assert_array_equal(product(isa, 3, a, b), want)


@pytest.mark.parametrize("threads", [1, 2])
def test_many_small_products(isa: str, threads: int) -> None:
    for m, k, n in [(3, 3, 4), (5, 8, 8), (6, 20, 16), (2, 1, 33)]:
        check(isa, threads, random(7, 50, m, k), random(50, k, n))
        check(isa, threads, random(7, 50, m, k), transposed(random(7, 1, k, n)), random(50, m, n), 0.5, 1.0)
        check(isa, threads, random(7, 50, m, k), random(50, k, n), random(7, 1, 1, n), 1.0, 3.0)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("size", [(3, 3, 1), (1, 4, 4), (4, 0, 1), (1, 1, 1), (8, 8, 1), (64, 1, 1), (1, 5, 13)])
def test_many_tiny_products_of_vectors(isa: str, threads: int, form: str, size: tuple[int, int, int]) -> None:
    m, k, n = size
    for batch in ((32,), (7, 11), (200,)):
        a, b, c = random(*batch, m, k), random(*batch, k, n), random(*batch[:-1], 1, m, n)
        check(isa, threads, FORMS[form](a), FORMS[form](b))
        check(isa, threads, FORMS[form](a[..., :1, :, :]), b, c, alpha=-0.5, beta=2.0)
        first = product(isa, 1, a, b)
        np.testing.assert_array_equal(first, product(isa, threads, a, b))


@pytest.mark.parametrize("threads", [1, 2])
def test_batches(isa: str, threads: int) -> None:
    check(isa, threads, random(3, 4, 5, 6), random(3, 4, 6, 20))
    check(isa, threads, random(4, 5, 6), random(3, 1, 6, 20))
    check(isa, threads, random(5, 6), random(2, 3, 2, 6, 17))
    check(isa, threads, random(2, 3, 2, 5, 6), transposed(random(6, 17)))


@pytest.mark.parametrize("form_b", FORMS)
def test_added_matrix(isa: str, form_b: str) -> None:
    a, b, c = random(9, 40), FORMS[form_b](random(40, 37)), random(9, 37)
    for alpha, beta in [(1.0, 1.0), (0.5, 1.0), (1.0, -2.0), (2.0, 0.25)]:
        check(isa, 2, a, b, c, alpha, beta)
        check(isa, 1, a, b, transposed(c), alpha, beta)
        check(isa, 1, a, b, c[0], alpha, beta)
        check(isa, 2, a, b, c[:, :1], alpha, beta)
        check(isa, 1, a[:, :1], b[:1, :1], c[:, :1], alpha, beta)


def test_empty_sum(isa: str) -> None:
    check(isa, 1, random(3, 0), random(0, 5))
    check(isa, 1, random(3, 0), random(0, 1))
    check(isa, 2, random(3, 0), random(0, 5), random(3, 5), 1.0, 3.0)
    check(isa, 1, random(30, 0), random(0, 50))
    check(isa, 1, random(1, 0), random(0, 50))


def test_threads_do_not_change_results(isa: str) -> None:
    a, b = random(200, 700), random(700, 300)
    np.testing.assert_array_equal(product(isa, 1, a, b), product(isa, 2, a, b))


def test_not_a_number(isa: str) -> None:
    a, b = random(9, 20), random(20, 40)
    a[3, 4], b[5, 6], b[7, 8] = np.nan, np.inf, np.nan
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(np.isnan(product(isa, 1, a, b)), np.isnan(a @ b))
        for row in (a[3:4], a[4:5]):
            np.testing.assert_array_equal(np.isnan(product(isa, 1, row, b)), np.isnan(row @ b))
            np.testing.assert_array_equal(np.isnan(product(isa, 2, b.T, row.T)), np.isnan(b.T @ row.T))
