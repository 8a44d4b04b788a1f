"""conv_stem_f32 against numpy: few channels in any layout, windows, padding, rows shared between units."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from conv_case import Array, Case, aligned, fields, reference, strided, tensors
from guard import guarded

from pnnx_fast.runtime.kernel import call, plan

LAYOUTS = {
    "plain": (0, 3, 1, 2),
    "channels last": (0, 1, 2, 3),
    "columns last": (0, 2, 3, 1),
}
"""Order in which the dimensions (n, h, w, c) lie in memory."""


def run(
    isa: str, threads: int, case: Case, layout: str, data: tuple[Array, Array, Array | None, Array | None]
) -> Array:
    x, weight, bias, z = data
    order = LAYOUTS[layout]
    base = np.ascontiguousarray(x.transpose(order))
    steps = dict(zip(order, (s // 4 for s in base.strides), strict=True))
    oh, ow = case.out
    ybase, yview, ys = strided(case.n, oh, ow, case.oc, case.gap, case.row_gap)
    zbase, zview, _ = strided(case.n, oh, ow, case.oc, case.gap, case.row_gap)
    if z is not None:
        zview[...] = z
    values = fields(case, (steps[0], steps[1], steps[2]), ys) | {"xsc": steps[3]}
    _, packed_bytes, scratch_bytes, *_ = plan(isa, "conv_stem_f32", threads, **values)
    packed, scratch = aligned(packed_bytes // 4), guarded(np.full(scratch_bytes // 4, np.nan, np.float32))
    size = {"oc": case.oc, "ic": case.ic, "kh": case.kernel[0], "kw": case.kernel[1], "groups": 1, "variant": 0}
    call(isa, "conv_pack_f32", threads, x=weight, y=packed, **size)
    memory = {"x": base, "y": ybase, "z": None if z is None else zbase, "bias": bias, "w": packed, "scratch": scratch}
    call(isa, "conv_stem_f32", threads, **memory, **values)
    got = yview.copy()
    yview[...] = np.nan
    assert np.isnan(ybase).all(), "wrote outside of the output"
    return got


def check(isa: str, threads: int, case: Case, layout: str) -> None:
    data = tensors(case)
    got, want = run(isa, threads, case, layout, data), reference(case, *data)
    depth = case.ic * case.kernel[0] * case.kernel[1]
    atol = 1e-6 * max(1.0, float(np.abs(want).max())) * max(2.0, math.sqrt(depth / 64))
    np.testing.assert_allclose(got, want, rtol=0, atol=atol, err_msg=f"{case} {layout}")


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("ic", [1, 2, 3, 4])
def test_windows(isa: str, layout: str, ic: int) -> None:
    windows = itertools.product([(3, 3), (7, 7), (2, 5)], [(1, 1), (2, 2), (3, 1)], [(0, 0), (3, 2)], [(1, 1), (2, 1)])
    for i, (kernel, stride, pad, dilation) in enumerate(windows):
        case = Case(n=1 + i % 2, h=17, w=13, ic=ic, oc=20, kernel=kernel, stride=stride, pad=pad, dilation=dilation)
        check(
            isa,
            1 + i % 2,
            case.but(gap=i % 3, row_gap=i % 2, residual=i % 5 == 0, act="silu" if i % 3 else "relu"),
            layout,
        )


@pytest.mark.parametrize("layout", LAYOUTS)
def test_sizes(isa: str, layout: str) -> None:
    for oc, w in itertools.product([1, 16, 33, 64, 100], [1, 5, 31, 64]):
        check(isa, 2, Case(h=40, w=w, ic=3, oc=oc, kernel=(3, 3), stride=(2, 2), pad=(1, 1)), layout)


@pytest.mark.parametrize("act", ["none", "hardswish", "silu"])
@pytest.mark.parametrize("late", [False, True])
def test_epilogue_of_short_taps(isa: str, act: str, late: bool) -> None:
    for ic, oc, k, w in itertools.product([1, 3], [7, 24, 40], [(2, 1), (3, 3), (3, 5)], [3, 29, 44]):
        case = Case(h=9, w=w, ic=ic, oc=oc, kernel=k, pad=(1, 1), act=act, residual=late, late=late)
        check(isa, 1, case.but(stride=(2, 2)), "plain")
        check(isa, 2, case.but(residual=True, stride=(1, 3), dilation=(2, 1)), "channels last")


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("act", ["relu", "silu"])
def test_weights_that_no_cache_holds(isa: str, layout: str, act: str) -> None:
    patches = Case(h=83, w=50, ic=3, oc=200, kernel=(16, 16), stride=(16, 16), act=act)
    for threads, case in enumerate([patches, patches.but(n=2, stride=(9, 7)), patches.but(pad=(3, 4))], 1):
        check(isa, threads, case, layout)
        check(isa, threads, case.but(residual=True, late=threads == 2, gap=3, row_gap=5 * (threads == 1)), layout)
    check(isa, 2, patches.but(h=30, w=60, oc=900, kernel=(7, 7), stride=(1, 1), dilation=(2, 1)), layout)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("threads", [1, 3])
def test_long_rows_in_parts(isa: str, layout: str, threads: int) -> None:
    sound = Case(h=1, w=5200, ic=2, oc=12, kernel=(1, 10), stride=(1, 3), pad=(0, 2))
    for case in (sound, sound.but(n=3, w=4000, stride=(1, 1), residual=True, gap=3), sound.but(stride=(1, 5))):
        check(isa, threads, case, layout)
    few = Case(h=6, w=1100, ic=3, oc=9, kernel=(3, 3), pad=(1, 1), act="silu")
    check(isa, threads, few, layout)
    check(isa, threads, few.but(kernel=(5, 2), pad=(4, 600), residual=True, late=True, row_gap=5), layout)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("ic", [1, 4, 5])
def test_windows_behind_each_other(isa: str, layout: str, ic: int) -> None:
    for kw, oc, w in itertools.product([1, 2, 16], [4, 19], [16, 70, 1300]):
        case = Case(n=2, h=4, w=w, ic=ic, oc=oc, kernel=(1, kw), stride=(1, kw), act="gelu" if w == 70 else "relu")
        check(isa, 2, case, layout)
        check(isa, 1, case.but(pad=(1, 2 * kw + 1), residual=True, gap=2, row_gap=3), layout)


def test_padding_wider_than_the_image(isa: str) -> None:
    check(isa, 1, Case(h=2, w=3, ic=3, oc=9, kernel=(3, 3), pad=(6, 7)), "plain")
    check(isa, 2, Case(h=1, w=1, ic=3, oc=70, kernel=(7, 7), pad=(3, 3), stride=(2, 2)), "plain")


@pytest.mark.parametrize("layout", LAYOUTS)
def test_padding_below_zero_crops(isa: str, layout: str) -> None:
    case = Case(h=9, w=12, ic=3, oc=9, kernel=(3, 2), pad=(-2, -3))
    x, weight, bias, z = tensors(case)
    inner = case.but(h=5, w=6, pad=(0, 0))
    want = reference(inner, x[:, 2:7, 3:9], weight, bias, z)
    got = run(isa, 1, case, layout, (x, weight, bias, z))
    np.testing.assert_allclose(got, want, rtol=0, atol=1e-5)


def test_threads_do_not_change_results(isa: str) -> None:
    case = Case(h=50, w=61, ic=3, oc=32, kernel=(3, 3), stride=(2, 2), pad=(1, 1))
    data = tensors(case)
    np.testing.assert_array_equal(run(isa, 1, case, "plain", data), run(isa, 2, case, "plain", data))


def test_parts_do_not_change_results(isa: str) -> None:
    """Pixels of a row that is cut, against the same pixels of a shorter one that is not."""
    case = Case(h=1, w=3000, ic=3, oc=32, kernel=(1, 4))
    x, weight, bias, z = tensors(case)
    short = case.but(w=900)
    whole = run(isa, 2, case, "plain", (x, weight, bias, z))
    np.testing.assert_array_equal(whole[:, :, :897], run(isa, 1, short, "plain", (x[:, :, :900], weight, bias, z)))


def test_parts_of_an_image_need_no_more_memory_between(isa: str) -> None:
    """Strips are run with what was planned for the whole image."""
    case = Case(h=64, w=2048, ic=3, oc=928, kernel=(7, 7), pad=(3, 3))
    values = fields(case, (64 * 2048 * 3, 2048 * 3, 3), (64 * 2048 * 928, 2048 * 928, 928)) | {"xsc": 1}
    whole = plan(isa, "conv_stem_f32", 1, **values)[2]
    for lines in range(1, 65):
        assert plan(isa, "conv_stem_f32", 1, **(values | {"n": 1, "oh": lines}))[2] <= whole
