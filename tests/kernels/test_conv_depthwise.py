"""conv_depthwise_f32 against numpy: windows, channel tails, epilogue, NaN."""

from __future__ import annotations

import numpy as np
import pytest
from conv_case import ACTIVATIONS, Case, check, reference, run, tensors

BASE = Case(ic=19, oc=19, groups=19, gap=1, row_gap=2)


def square(k: int, pad: int, stride: int = 1, dilation: int = 1) -> Case:
    return BASE.but(kernel=(k, k), pad=(pad, pad), stride=(stride, stride), dilation=(dilation, dilation))


@pytest.mark.parametrize("k, pad", [(3, 1), (3, 0), (5, 2), (7, 3), (1, 0), (2, 1), (4, 2)])
def test_windows(isa: str, k: int, pad: int) -> None:
    for stride in (1, 2, 3):
        for dilation in (1, 2):
            for h, w in [(13, 21), (8, 7)]:
                if h + 2 * pad > dilation * (k - 1):
                    check(isa, 1 + h % 2, square(k, pad, stride, dilation).but(h=h, w=w), "conv_depthwise")


@pytest.mark.parametrize("k", [3, 5, 7])
def test_widths(isa: str, k: int) -> None:
    for w in range(k, 26):
        check(isa, 1, square(k, k // 2).but(h=4, w=w), "conv_depthwise")
        check(isa, 1, square(k, k // 2, 2).but(h=9, w=w), "conv_depthwise")


@pytest.mark.parametrize("act", ["none", "clip", "hardswish", "silu"])
def test_runs_of_tiles(isa: str, act: str) -> None:
    """Lines of many tiles, in pairs or not, with what may follow a sum."""
    assert act in ACTIVATIONS
    for h in (1, 2, 3, 6):
        for stride in (1, 2):
            case = square(3, 1, stride).but(h=h, w=61, act=act, a=-0.3, b=0.8, residual=h % 2 == 0)
            check(isa, 1, case, "conv_depthwise")


@pytest.mark.parametrize("k", [(1, 9), (3, 11), (8, 8), (9, 13), (13, 9), (21, 15), (2, 31), (16, 29)])
def test_wide_windows(isa: str, k: tuple[int, int]) -> None:
    """Windows that take several parts of a row, of images that are copied or not, in one band and in several."""
    case = BASE.but(kernel=k)
    for h, w in [(k[0], k[1]), (17, 30), (33, 9)]:
        for pad in [(0, 0), (k[0] // 2, k[1] // 2), (k[0] - 1, k[1] - 1)]:
            if h + 2 * pad[0] >= k[0] and w + 2 * pad[1] >= k[1]:
                check(isa, 1, case.but(h=h, w=w, pad=pad), "conv_depthwise")
    check(isa, 2, case.but(h=40, w=21, n=2, pad=(k[0] // 2, k[1] // 2), stride=(3, 1), residual=True), "conv_depthwise")
    check(isa, 2, case.but(h=80, w=150, ic=3, oc=3, groups=3), "conv_depthwise")


@pytest.mark.parametrize("k", [1, 2, 3, 5, 9])
@pytest.mark.parametrize("dilation", [2, 3, 7])
def test_phases(isa: str, k: int, dilation: int) -> None:
    """Dilated windows, of images that have columns enough for phases and that have not."""
    reach = (k - 1) * dilation + 1
    for w in (reach, reach + 3, 40):
        for pad in (0, 1, reach // 2, reach - 1):
            case = square(k, 0, 1, dilation).but(h=reach + 2, w=w, pad=(pad // 2, pad), residual=True)
            if w + 2 * pad >= reach:
                check(isa, 1 + w % 2, case, "conv_depthwise")


def test_pixels_far_apart(isa: str) -> None:
    case = square(7, 3).but(ic=256, oc=256, groups=256, gap=0, h=12, w=9, n=2)
    check(isa, 2, case, "conv_depthwise")


def test_channels(isa: str) -> None:
    for c in [1, 2, 3, 7, 8, 9, 15, 16, 17, 33, 600]:
        case = square(3, 1).but(ic=c, oc=c, groups=c, h=5, w=10)
        check(isa, 1 + c % 2, case, "conv_depthwise")


@pytest.mark.parametrize(
    "case",
    [
        BASE.but(h=9, w=9, kernel=(1, 5), pad=(0, 2)),
        BASE.but(h=9, w=9, kernel=(5, 1), pad=(2, 0), stride=(2, 1)),
        BASE.but(h=9, w=9, kernel=(3, 3), stride=(1, 2)),
        BASE.but(h=9, w=9, kernel=(3, 3), stride=(3, 1), pad=(1, 1)),
        BASE.but(h=9, w=9, kernel=(3, 3), pad=(4, 9)),
        BASE.but(h=2, w=1, kernel=(7, 7), pad=(3, 3)),
        BASE.but(h=40, w=3, kernel=(3, 3), pad=(1, 1), dilation=(3, 1)),
        BASE.but(h=5, w=90, kernel=(3, 3), pad=(1, 40), dilation=(1, 40)),
    ],
)
def test_odd_windows(isa: str, case: Case) -> None:
    check(isa, 2, case, "conv_depthwise")


@pytest.mark.parametrize("residual", [False, True])
@pytest.mark.parametrize("act", ACTIVATIONS)
def test_epilogue(isa: str, act: str, residual: bool) -> None:
    case = square(3, 1).but(n=3, h=7, w=10, act=act, a=-0.3, b=0.8, residual=residual)
    check(isa, 2, case, "conv_depthwise")
    check(isa, 1, case.but(bias=False, kernel=(2, 2)), "conv_depthwise")


def test_not_a_number_stays_in_its_windows_and_channel(isa: str) -> None:
    case = square(3, 1).but(h=9, w=12)
    x, weight, bias, z = tensors(case)
    x[0, 4, 6, 17] = np.nan
    got = run(isa, 1, case, x, weight, bias, z, kernel="conv_depthwise")
    np.testing.assert_array_equal(np.isnan(got), np.isnan(reference(case, x, weight, bias, z)))


@pytest.mark.parametrize("k", [3, 5, 11])
def test_threads_do_not_change_results(isa: str, k: int) -> None:
    case = square(k, 2).but(n=2, h=21, w=18, ic=70, oc=70, groups=70)
    data = tensors(case)
    np.testing.assert_array_equal(
        run(isa, 1, case, *data, kernel="conv_depthwise"), run(isa, 2, case, *data, kernel="conv_depthwise")
    )


@pytest.mark.parametrize("k", [3, 5])
@pytest.mark.parametrize("n", [1, 2])
def test_few_pixels_of_many_channels(isa: str, k: int, n: int) -> None:
    """Threads take channels of their own; sets of channels that do not divide evenly, and a tail of some."""
    for channels in (523, 640):
        case = square(k, k // 2).but(n=n, h=7, w=7, ic=channels, oc=channels, groups=channels, act="hardswish")
        for threads in (2, 3):
            check(isa, threads, case, "conv_depthwise")
