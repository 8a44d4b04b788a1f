"""Residuals that are added after the activation, in every convolution kernel that takes them."""

from __future__ import annotations

import pytest
from conv_case import ACTIVATIONS, Case, check

CASES = {
    "conv": Case(n=2, h=5, w=7, ic=9, oc=37, kernel=(3, 3), pad=(1, 1), gap=5, residual=True, late=True),
    "conv_depthwise": Case(n=2, h=6, w=9, ic=21, oc=21, groups=21, kernel=(3, 3), pad=(1, 1), residual=True, late=True),
    "conv_grouped": Case(n=2, h=6, w=9, ic=22, oc=44, groups=11, kernel=(3, 3), pad=(1, 1), residual=True, late=True),
    "conv_winograd": Case(n=1, h=9, w=10, ic=8, oc=19, kernel=(3, 3), pad=(1, 1), gap=3, residual=True, late=True),
}


@pytest.mark.parametrize("kernel", CASES)
@pytest.mark.parametrize("act", sorted(ACTIVATIONS))
def test_residual_after_activation(isa: str, kernel: str, act: str) -> None:
    case = CASES[kernel]
    check(isa, 2, case.but(act=act), kernel=kernel)
