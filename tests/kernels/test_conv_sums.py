"""Depthwise and grouped convolutions add up the lines of their results; scaled weights stand for a scaled input."""

from __future__ import annotations

import numpy as np
import pytest
from conv_case import Case, aligned, run, tensors

from pnnx_fast.runtime.kernel import call

CASES = {
    "depthwise": Case(n=2, h=7, w=7, ic=37, oc=37, groups=37, kernel=(5, 5), pad=(2, 2), act="silu", gap=3, row_gap=2),
    "long lines": Case(h=9, w=43, ic=19, oc=19, groups=19, kernel=(3, 3), pad=(1, 1), act="relu"),
    "stride": Case(h=12, w=30, ic=600, oc=600, groups=600, kernel=(3, 3), stride=(2, 2), pad=(1, 1), act="hardswish"),
    "any window": Case(h=8, w=9, ic=16, oc=16, groups=16, kernel=(4, 4), residual=True, late=True),
    "groups": Case(n=2, h=9, w=14, ic=48, oc=48, groups=6, kernel=(3, 3), pad=(1, 1), act="relu", residual=True),
    "more outputs": Case(h=6, w=17, ic=6, oc=18, groups=6, kernel=(3, 3), pad=(1, 1)),
}


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("name", CASES)
def test_sums_of_lines(isa: str, name: str, threads: int) -> None:
    case = CASES[name]
    kernel = "conv_depthwise" if case.groups == case.oc == case.ic else "conv_grouped"
    sums = np.full((case.n * case.out[0] + 1, case.oc), np.nan, np.float32)
    y = run(isa, threads, case, *tensors(case), kernel, sums=sums)
    want = y.astype(np.float64).sum(2)
    np.testing.assert_allclose(sums[:-1].reshape(want.shape), want, rtol=0, atol=1e-5 * np.abs(want).max())
    assert np.isnan(sums[-1]).all()


@pytest.mark.parametrize("shape", [(24, 96, 1, 1), (80, 40, 1, 1), (5, 33, 1, 1), (7, 6, 3, 2), (200, 5, 1, 1)])
@pytest.mark.parametrize("variant", [0, 1])
def test_scaled_weights(isa: str, shape: tuple[int, int, int, int], variant: int) -> None:
    oc, ic, kh, kw = shape
    rng = np.random.default_rng(1)
    weight, scale = rng.standard_normal(shape).astype(np.float32), rng.standard_normal(ic).astype(np.float32)
    scale[0] = np.inf
    size = {"oc": oc, "ic": ic, "kh": kh, "kw": kw, "groups": 1, "variant": variant}
    count = oc * ic * kh * kw if variant else -(-oc // 16) * 16 * ic * kh * kw
    plain, got, want = (aligned(count) for _ in range(3))
    call(isa, "conv_pack_f32", 2, x=weight, y=plain, **size)
    call(isa, "conv_scale_f32", 2, x=plain, scale=scale, y=got, **size)
    scaled = weight * scale[:, None, None]
    call(isa, "conv_pack_f32", 1, x=scaled, y=want, **size)
    # Where there are no columns, packed weights are zeros, which infinity makes NaN; nobody reads their sums.
    np.testing.assert_array_equal(np.nan_to_num(got, nan=0.0, posinf=np.inf, neginf=-np.inf), want)
