"""conv_grouped_f32 against numpy: sizes of groups round the vector length, windows, epilogue, NaN."""

from __future__ import annotations

import numpy as np
import pytest
from conv_case import ACTIVATIONS, Case, check, reference, run, tensors

BASE = Case(ic=24, oc=24, groups=6, kernel=(3, 3), pad=(1, 1), gap=1, row_gap=2)


SIZES = [(1, 1), (1, 2), (1, 3), (2, 2), (3, 3), (4, 4), (4, 8), (8, 4), (7, 5), (2, 17), (8, 8), (3, 16)]


@pytest.mark.parametrize("per_group", SIZES)
def test_groups(isa: str, per_group: tuple[int, int]) -> None:
    cg, kg = per_group
    for groups in (1, 2, 3, 5, 8, 13):
        check(isa, 1 + groups % 2, BASE.but(ic=cg * groups, oc=kg * groups, groups=groups, h=5, w=10), "conv_grouped")


@pytest.mark.parametrize("k", [1, 2, 3, 5])
def test_windows(isa: str, k: int) -> None:
    for stride in (1, 2, 3):
        for dilation, pad in [(1, 0), (1, k // 2), (2, 2)]:
            case = BASE.but(kernel=(k, k), stride=(stride, stride), dilation=(dilation, dilation), pad=(pad, pad))
            check(isa, 1 + stride % 2, case.but(n=2, h=11, w=18), "conv_grouped")


@pytest.mark.parametrize("per_group", [(1, 2), (1, 3), (1, 8), (2, 2), (4, 4), (8, 8), (5, 16)])
@pytest.mark.parametrize("k", [3, 5, 7])
def test_wide_windows(isa: str, k: int, per_group: tuple[int, int]) -> None:
    cg, kg = per_group
    for groups, w in [(3, k), (7, 13), (11, 22), (17, 31)]:
        for stride in (1, 2):
            case = BASE.but(ic=cg * groups, oc=kg * groups, groups=groups, kernel=(k, k), pad=(k // 2, k // 2))
            check(isa, 1 + w % 2, case.but(h=k + 2, w=w, stride=(stride, stride)), "conv_grouped")
            edge = case.but(
                h=k + 1, w=w, stride=(stride, stride), pad=(0, 0), gap=0, row_gap=0, guard=True, residual=True
            )
            check(isa, 1, edge, "conv_grouped")


@pytest.mark.parametrize("residual", [False, True])
@pytest.mark.parametrize("act", ACTIVATIONS)
def test_epilogue(isa: str, act: str, residual: bool) -> None:
    case = BASE.but(n=2, h=7, w=10, act=act, a=-0.3, b=0.8, residual=residual)
    check(isa, 2, case, "conv_grouped")
    check(isa, 1, case.but(bias=False, kernel=(2, 2)), "conv_grouped")


def test_many_channels_in_blocks(isa: str) -> None:
    check(isa, 2, BASE.but(ic=1200, oc=1200, groups=300, h=6, w=40), "conv_grouped")
    check(isa, 2, BASE.but(ic=600, oc=1200, groups=150, h=6, w=40), "conv_grouped")


def test_not_a_number_stays_in_its_windows_and_group(isa: str) -> None:
    case = BASE.but(h=9, w=12)
    x, weight, bias, z = tensors(case)
    x[0, 4, 6, 17] = np.nan
    got = run(isa, 1, case, x, weight, bias, z, kernel="conv_grouped")
    np.testing.assert_array_equal(np.isnan(got), np.isnan(reference(case, x, weight, bias, z)))
