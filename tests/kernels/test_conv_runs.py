"""1x1 convolutions over many pixels, which go through runs of tiles: heights, widths, residuals, late activations."""

from __future__ import annotations

import pytest
from conv_case import Case, check

THREADS = (1, 2)


@pytest.mark.parametrize("threads", THREADS)
@pytest.mark.parametrize("oc", [5, 16, 24, 40, 72, 90, 130])
@pytest.mark.parametrize("pixels", [11, 49, 50, 121])
def test_heights_and_widths(isa: str, threads: int, pixels: int, oc: int) -> None:
    check(isa, threads, Case(h=1, w=pixels, ic=19, oc=oc, act="relu"))


@pytest.mark.parametrize("act", ["none", "clip", "hardswish", "silu"])
@pytest.mark.parametrize(("residual", "late"), [(True, False), (True, True), (False, False)])
def test_epilogues(isa: str, act: str, residual: bool, late: bool) -> None:
    case = Case(h=7, w=9, ic=24, oc=40, act=act, a=-1.0, b=2.0, residual=residual, late=late)
    check(isa, 2, case)
    check(isa, 1, case.but(bias=False))


def test_more_rows_than_stay_close(isa: str) -> None:
    check(isa, 2, Case(h=20, w=40, ic=64, oc=200, residual=True))


def test_pixels_apart(isa: str) -> None:
    check(isa, 2, Case(h=1, w=150, ic=33, oc=48, gap=5, residual=True))


@pytest.mark.parametrize("oc", [7, 24, 37, 90])
@pytest.mark.parametrize("act", ["gelu", "none"])
@pytest.mark.parametrize("residual", [True, False])
def test_late_over_many_tiles(isa: str, oc: int, act: str, residual: bool) -> None:
    """More rows than wait at once, in tiles of two heights, with memory between the rows that is not to be touched."""
    for pixels in (95, 203):
        check(isa, 1, Case(h=1, w=pixels, ic=3, oc=oc, act=act, residual=residual, late=residual, gap=4))
