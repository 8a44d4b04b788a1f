"""conv_f32 against numpy: sizes round the edges of tiles and blocks, strides, padding, dilation, epilogue."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from conv_case import ACTIVATIONS, Case, aligned, check, fields, reference, run, tensors

from pnnx_fast.runtime.kernel import call, plan

THREADS = [1, 2]


@pytest.mark.parametrize("threads", THREADS)
def test_columns(isa: str, threads: int) -> None:
    for oc in [
        *range(1, 36),
        47,
        48,
        49,
        63,
        64,
        65,
        79,
        80,
        81,
        95,
        96,
        111,
        112,
        127,
        128,
        130,
        145,
        160,
        200,
    ]:
        check(isa, threads, Case(h=1, w=13, ic=5, oc=oc))


@pytest.mark.parametrize("oc", [5, 16, 24, 40, 64])
def test_rows(isa: str, oc: int) -> None:
    for w in [*range(1, 30), 47, 48, 49, 97]:
        check(isa, 1, Case(h=1, w=w, ic=7, oc=oc))
        check(isa, 2, Case(h=1, w=w, ic=7, oc=oc, gap=3))


@pytest.mark.parametrize("rows", [1, 2, 3, 4])
@pytest.mark.parametrize("oc", [128, 136, 200, 203, 257])
def test_few_rows_of_many_columns(isa: str, rows: int, oc: int) -> None:
    case = Case(h=1, w=rows, ic=37, oc=oc)
    for more in [{}, {"act": "relu", "bias": False}, {"act": "gelu", "residual": True, "late": True, "gap": 3}]:
        check(isa, 1, case.but(**more))
        data = tensors(case.but(**more))
        got = [run(isa, threads, case.but(**more), *data) for threads in (1, 2, 3)]
        np.testing.assert_array_equal(got[0], got[1])
        np.testing.assert_array_equal(got[0], got[2])
    check(isa, 2, case.but(n=rows, w=1, ic=3 * 37, oc=3 * oc, groups=3, residual=True))
    check(isa, 2, case.but(h=7, w=7, kernel=(7, 7 + 1 - rows), ic=6, residual=True, act="silu"))


@pytest.mark.parametrize("threads", THREADS)
def test_channels(isa: str, threads: int) -> None:
    for ic in [1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 64]:
        check(isa, threads, Case(h=3, w=5, ic=ic, oc=20))


@pytest.mark.parametrize("kernel", [(1, 1), (3, 3), (2, 2), (1, 3), (5, 1), (5, 5), (7, 7)])
@pytest.mark.parametrize("stride", [(1, 1), (2, 2), (1, 3)])
def test_windows(isa: str, kernel: tuple[int, int], stride: tuple[int, int]) -> None:
    for threads, (pad, dilation, gap, n) in enumerate(
        itertools.product([(0, 0), (1, 2), (3, 3)], [(1, 1), (2, 1)], [0, 5], [1, 3])
    ):
        case = Case(n=n, h=15, w=14, ic=6, oc=18, kernel=kernel, stride=stride, pad=pad, dilation=dilation)
        check(isa, 1 + threads % 2, case.but(gap=gap, row_gap=2 * gap))


def test_padding_wider_than_the_image(isa: str) -> None:
    check(isa, 1, Case(h=2, w=3, ic=3, oc=9, kernel=(3, 3), pad=(6, 7)))
    check(isa, 2, Case(h=1, w=1, ic=40, oc=70, kernel=(3, 3), pad=(1, 1)))


@pytest.mark.parametrize("residual", [False, True])
@pytest.mark.parametrize("act", ACTIVATIONS)
def test_epilogue(isa: str, act: str, residual: bool) -> None:
    case = Case(h=7, w=5, ic=9, oc=37, kernel=(3, 3), pad=(1, 1), act=act, a=-0.3, b=0.8, residual=residual)
    check(isa, 2, case)
    check(isa, 1, case.but(bias=False, gap=2, row_gap=1))


@pytest.mark.parametrize("groups", [2, 3, 6])
def test_groups(isa: str, groups: int) -> None:
    check(
        isa,
        2,
        Case(n=2, h=6, w=7, ic=12, oc=30, kernel=(3, 3), pad=(1, 1), groups=groups, residual=True, gap=1),
    )


@pytest.mark.parametrize(
    "case",
    [
        Case(h=7, w=7, ic=320, oc=320, groups=40, kernel=(3, 3), pad=(1, 1), act="relu"),
        Case(n=2, h=9, w=8, ic=90, oc=150, groups=30, kernel=(3, 3), pad=(1, 1), stride=(2, 2), act="silu"),
        Case(h=5, w=4, ic=48, oc=24, groups=12, kernel=(3, 2), pad=(1, 0), variant=1),
        Case(h=2, w=3, ic=4200, oc=4200, groups=525, kernel=(3, 3), pad=(1, 1)),
        Case(h=30, w=30, ic=36, oc=36, groups=4, kernel=(1, 1)),
    ],
)
def test_many_groups(isa: str, case: Case) -> None:
    check(isa, 1, case.but(guard=True))
    case = case.but(residual=True, late=case.act == "silu", gap=2, row_gap=3)
    check(isa, 2, case)
    data = tensors(case)
    np.testing.assert_array_equal(run(isa, 1, case, *data), run(isa, 3, case, *data))


@pytest.mark.parametrize("threads", THREADS)
@pytest.mark.parametrize(
    "case",
    [
        Case(h=9, w=9, ic=300, oc=70, kernel=(3, 3), pad=(1, 1)),
        Case(h=1, w=40, ic=5000, oc=65),
        Case(h=1, w=1, ic=9000, oc=130),
        Case(h=3, w=3, ic=4200, oc=20, kernel=(2, 2), pad=(1, 1)),
        Case(h=1, w=130, ic=2000, oc=16, kernel=(1, 9), pad=(0, 4)),
    ],
)
def test_depth_in_blocks(isa: str, threads: int, case: Case) -> None:
    check(isa, threads, case.but(residual=True, act="silu"))


def test_residual_in_place(isa: str) -> None:
    case = Case(h=1, w=40, ic=5000, oc=65)
    data = tensors(case.but(residual=True))
    want = run(isa, 1, case.but(residual=True), *data)
    x, weight, bias, z = data
    assert z is not None
    y = z.copy()
    values = fields(case, (0, 0, case.ic), (0, 0, case.oc))
    _, packed_bytes, *_ = plan(isa, "conv_f32", 1, x=x, z=y, y=y, **values)
    packed = aligned(packed_bytes // 4)
    call(isa, "conv_pack_f32", 1, x=weight, y=packed, oc=case.oc, ic=case.ic, kh=1, kw=1, groups=1, variant=0)
    call(isa, "conv_f32", 1, x=x, w=packed, bias=bias, z=y, y=y, **values)
    np.testing.assert_array_equal(y, want)


def test_threads_do_not_change_results(isa: str) -> None:
    for case in [Case(h=30, w=31, ic=40, oc=90, kernel=(3, 3), pad=(1, 1)), Case(h=1, w=50, ic=3000, oc=100)]:
        data = tensors(case)
        np.testing.assert_array_equal(run(isa, 1, case, *data), run(isa, 2, case, *data))


@pytest.mark.parametrize("threads", [2, 3])
@pytest.mark.parametrize(
    "case",
    [Case(h=1, w=1160, ic=800, oc=200, act="gelu"), Case(h=34, w=36, ic=130, oc=130, kernel=(2, 1), residual=True)],
)
def test_many_rows(isa: str, threads: int, case: Case) -> None:
    data = tensors(case)
    got = run(isa, threads, case, *data)
    np.testing.assert_array_equal(got, run(isa, 1, case, *data))
    np.testing.assert_allclose(got, reference(case, *data), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("act", ACTIVATIONS)
def test_not_a_number_and_infinity(isa: str, act: str) -> None:
    case = Case(h=1, w=9, ic=6, oc=19, act=act, a=0.1, b=0.7)
    x, weight, bias, z = tensors(case)
    x[0, 0, 1, 2], x[0, 0, 3, 0], x[0, 0, 5, 1] = np.nan, np.inf, -np.inf
    with np.errstate(invalid="ignore", over="ignore"):
        want = reference(case, x, weight, bias, z)
    got = run(isa, 1, case, x, weight, bias, z)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


def test_padding_below_zero_crops(isa: str) -> None:
    case = Case(h=9, w=12, ic=7, oc=9, kernel=(3, 2), pad=(-2, -3))
    x, weight, bias, z = tensors(case)
    want = reference(case.but(h=5, w=6, pad=(0, 0)), x[:, 2:7, 3:9], weight, bias, z)
    np.testing.assert_allclose(run(isa, 1, case, x, weight, bias, z), want, rtol=0, atol=1e-5)


def test_padding_below_zero_moves_a_line_of_pixels(isa: str) -> None:
    case = Case(h=1, w=52, ic=16, oc=20, kernel=(1, 1), pad=(0, -2))
    x, weight, bias, z = tensors(case)
    want = reference(case.but(w=48, pad=(0, 0)), x[:, :, 2:50], weight, bias, z)
    np.testing.assert_allclose(run(isa, 1, case, x, weight, bias, z), want, rtol=0, atol=1e-5)


@pytest.mark.parametrize("act", ["none", "relu", "silu"])
def test_few_columns(isa: str, act: str) -> None:
    for oc, ic in itertools.product([1, 2, 3, 4, 5, 6, 7, 8], [16, 19, 300]):
        case = Case(n=2, h=5, w=7, ic=ic, oc=oc, kernel=(3, 3), pad=(1, 1), stride=(1, 2), act=act, variant=1)
        if oc <= (8 if "512" in isa else 4):
            check(isa, 1 + oc % 2, case.but(gap=oc % 3, residual=oc % 2 == 0))
            check(isa, 2, case.but(late=True, residual=True, n=1, bias=False))
            check(isa, 1, case.but(kernel=(1, 1), pad=(0, 0), groups=1))


def test_few_columns_in_groups(isa: str) -> None:
    check(isa, 2, Case(h=9, w=8, ic=48, oc=6, kernel=(3, 3), pad=(1, 1), groups=3, variant=1))


def test_few_columns_of_deep_filters(isa: str) -> None:
    check(isa, 1, Case(h=5, w=9, ic=6000, oc=2, kernel=(1, 7), pad=(0, 3), variant=1, residual=True, act="relu"))
    check(isa, 2, Case(h=8, w=9, ic=40, oc=3, kernel=(7, 7), pad=(3, 3), variant=1))


def test_few_columns_keep_not_a_number_of_neighbours_out(isa: str) -> None:
    case = Case(h=1, w=9, ic=19, oc=2, variant=1)
    x, weight, bias, z = tensors(case)
    x[0, 0, 4] = np.nan
    got = run(isa, 1, case, x, weight, bias, z)
    assert np.isnan(got[0, 0, 4]).all()
    assert not np.isnan(np.delete(got, 4, axis=2)).any()
