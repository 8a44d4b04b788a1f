"""conv_affine_f32, a 1x1 convolution whose input is scaled, shifted and activated first, against numpy."""

from __future__ import annotations

import math

import numpy as np
import pytest
from conv_case import ACTIVATIONS, CODES, Array, Case, aligned, fields, reference, strided, tensors

from pnnx_fast.runtime.kernel import call, plan


def run(
    isa: str,
    threads: int,
    case: Case,
    before: str,
    x: Array,
    scale: Array,
    shift: Array | None,
    kernel: str = "conv",
) -> Array:
    """Result of a case whose activation before the sum is ``before``, with parameters -0.5 and 1.5."""
    _, weight, bias, z = tensors(case)
    xbase, xview, xs = strided(case.n, case.h, case.w, case.ic, case.gap, case.row_gap)
    ybase, yview, ys = strided(case.n, *case.out, case.oc, case.gap, case.row_gap)
    zbase, zview, _ = strided(case.n, *case.out, case.oc, case.gap, case.row_gap)
    xview[...] = x
    if z is not None:
        zview[...] = z
    memory = {"x": xbase, "bias": bias, "z": None if z is None else zbase, "y": ybase, "scale": scale, "shift": shift}
    values = {**fields(case, xs, ys), "before": CODES[before], "before_a": -0.5, "before_b": 1.5}
    variant, packed_bytes, scratch_bytes, *_ = plan(isa, f"{kernel}_affine_f32", threads, **memory, **values)
    assert scratch_bytes > 0, "the kernel serves this shape"
    packed, scratch = aligned(packed_bytes // 4), aligned(scratch_bytes // 4)
    size = {k: values[k] for k in ("oc", "ic", "kh", "kw", "groups")}
    call(isa, f"{kernel}_pack_f32", threads, x=weight, y=packed, **size, variant=variant)
    more = {"w": packed, "scratch": scratch, "variant": variant}
    call(isa, f"{kernel}_affine_f32", threads, **{**memory, **values, **more})
    got = yview.copy()
    yview[...] = np.nan
    assert np.isnan(ybase).all(), "wrote outside of the output"
    np.testing.assert_array_equal(xview, x, err_msg="the input has changed")
    return got


def check(isa: str, threads: int, case: Case, before: str = "relu", kernel: str = "conv") -> None:
    rng = np.random.default_rng(7)
    scale, shift = rng.standard_normal((2, case.ic)).astype(np.float32)
    x, weight, bias, z = tensors(case)
    got = run(isa, threads, case, before, x, scale, shift, kernel)
    changed = ACTIVATIONS[before](x.astype(float) * scale + shift, -0.5, 1.5)
    want = reference(case, changed, weight, bias, z)
    tolerance = 1e-6 * max(1.0, float(np.abs(want).max())) * max(2.0, math.sqrt(case.ic / 64))
    np.testing.assert_allclose(got, want, rtol=0, atol=tolerance, err_msg=str(case))


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize(("pixels", "oc"), [(11, 32), (50, 64), (121, 128), (12, 24), (48, 72), (120, 130)])
def test_shapes(isa: str, threads: int, pixels: int, oc: int) -> None:
    check(isa, threads, Case(h=1, w=pixels, ic=19, oc=oc, act="relu"))


@pytest.mark.parametrize("before", sorted(ACTIVATIONS))
def test_activations(isa: str, before: str) -> None:
    check(isa, 2, Case(h=7, w=9, ic=40, oc=48, residual=True), before)


@pytest.mark.parametrize("act", ["relu", "silu"])
def test_residual_and_late_activation(isa: str, act: str) -> None:
    check(isa, 2, Case(h=6, w=8, ic=33, oc=72, act=act, residual=True))
    check(isa, 1, Case(h=6, w=8, ic=33, oc=72, act=act, residual=True, late=True, bias=False))


@pytest.mark.parametrize("threads", [1, 2])
def test_slice_of_a_wider_tensor(isa: str, threads: int) -> None:
    check(isa, threads, Case(n=2, h=14, w=14, ic=160, oc=128, gap=96))


def test_more_blocks_than_one(isa: str) -> None:
    check(isa, 2, Case(h=20, w=40, ic=64, oc=200))


def test_same_bits_with_any_team(isa: str) -> None:
    case = Case(h=9, w=14, ic=200, oc=128)
    rng = np.random.default_rng(7)
    scale, shift = rng.standard_normal((2, case.ic)).astype(np.float32)
    first, *others = (run(isa, n, case, "relu", tensors(case)[0], scale, shift) for n in (1, 2, 3, 2))
    for other in others:
        np.testing.assert_array_equal(first, other)


def test_nan_stays_in_its_pixel(isa: str) -> None:
    case = Case(h=1, w=30, ic=24, oc=32, bias=False)
    x = tensors(case)[0]
    x[0, 0, 7, 3] = np.nan
    got = run(isa, 1, case, "relu", x, np.ones(case.ic, np.float32), np.zeros(case.ic, np.float32))
    np.testing.assert_array_equal(np.isnan(got).any(-1)[0, 0], np.arange(30) == 7)


def test_windows_are_not_served(isa: str) -> None:
    for case in (Case(kernel=(3, 3), pad=(1, 1), ic=32, oc=64), Case(stride=(2, 2), h=8, w=8, ic=32, oc=64)):
        dense = fields(case, (0, case.w * case.ic, case.ic), (0, case.out[1] * case.oc, case.oc))
        more = {"before": 0, "before_a": 0.0, "before_b": 0.0}
        memory = dict.fromkeys(("x", "bias", "z", "y", "scale", "shift", "w", "scratch"))
        assert plan(isa, "conv_affine_f32", 1, **memory, **dense, **more)[2] == 0
