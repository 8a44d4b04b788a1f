"""conv_winograd_f32 against numpy: sizes round tiles, chunks and panels, padding, epilogue, rounding error, NaN."""

from __future__ import annotations

import numpy as np
import pytest
from conv_case import ACTIVATIONS, Case, check, reference, run, tensors

BASE = Case(ic=7, oc=19, gap=1, row_gap=2)
FORMS = {
    "F(2,3)": BASE.but(kernel=(3, 3), pad=(1, 1), variant=2),
    "F(4,3)": BASE.but(kernel=(3, 3), pad=(1, 1), variant=4),
    "F(2,3) in pairs": BASE.but(kernel=(3, 3), pad=(1, 1), variant=34),
    "F(4,3) in pairs": BASE.but(kernel=(3, 3), pad=(1, 1), variant=36),
    "F(6,3)": BASE.but(kernel=(3, 3), pad=(1, 1), variant=6, error=10.0),
    "F(4,3) across": BASE.but(kernel=(1, 3), pad=(0, 1)),
    "F(4,5) down": BASE.but(kernel=(5, 1), pad=(2, 0), error=2.0),
    "F(4,7) across": BASE.but(kernel=(1, 7), pad=(0, 3), error=4.0),
    "F(4,7) down": BASE.but(kernel=(7, 1), pad=(3, 0), error=4.0),
    "F(2,3) stride 2": BASE.but(kernel=(3, 3), pad=(1, 1), stride=(2, 2), variant=18),
    "F(4,3) stride 2": BASE.but(kernel=(3, 3), pad=(1, 1), stride=(2, 2), variant=20),
    "F(2,5)": BASE.but(kernel=(5, 5), pad=(2, 2), variant=2),
}
forms = pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)


@forms
@pytest.mark.parametrize("pad", [(0, 0), (1, 1), (2, 1), (5, 9)])
def test_sizes(isa: str, form: Case, pad: tuple[int, int]) -> None:
    for h in [1, 3, 4, 5, 11]:
        for w in [1, 4, 7, 18]:
            if h + 2 * pad[0] >= form.kernel[0] and w + 2 * pad[1] >= form.kernel[1]:
                check(isa, 1 + w % 2, form.but(h=h, w=w, pad=pad, n=1 + h % 2), "conv_winograd")


@forms
def test_channels(isa: str, form: Case) -> None:
    for ic, oc in [(1, 1), (3, 64), (16, 16), (17, 33), (32, 48), (33, 80), (40, 112), (64, 7), (100, 130)]:
        check(isa, 1 + oc % 2, form.but(h=9, w=10, ic=ic, oc=oc), "conv_winograd")


@forms
def test_few_channels(isa: str, form: Case) -> None:
    for ic, oc in [(3, 4), (3, 8), (8, 7), (8, 16), (16, 16), (13, 32), (32, 20), (31, 9)]:
        for h in (22, 41, 43):
            check(isa, 1 + h % 2, form.but(h=h, w=42, ic=ic, oc=oc), "conv_winograd")


@forms
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_chunks(isa: str, threads: int, form: Case) -> None:
    check(isa, threads, form.but(n=3, h=45, w=37, ic=20, oc=70), "conv_winograd")
    check(isa, threads, form.but(n=1, h=30, w=31, ic=70, oc=150), "conv_winograd")


@forms
@pytest.mark.parametrize("chunks", [0, 1, 5, 1000])
def test_any_number_of_chunks_gives_the_same_sums(isa: str, chunks: int, form: Case) -> None:
    """A plan for more threads than a run has may ask for any number."""
    case = form.but(h=18, w=17, ic=20, oc=70)
    data = tensors(case)
    for threads in (1, 2, 3):
        got = run(isa, threads, case, *data, kernel="conv_winograd", chunks=chunks)
        np.testing.assert_array_equal(got, run(isa, 2, case, *data, kernel="conv_winograd"))


@pytest.mark.parametrize("variant", [34, 36])
@pytest.mark.parametrize("left", [-100, -60, 60, 100])
def test_ranges_of_products_in_pairs(isa: str, variant: int, left: int) -> None:
    """Tiles whose squares leave the range of floats are as near as others, and tiles of zeros are exact."""
    case = BASE.but(h=12, w=13, ic=40, kernel=(3, 3), pad=(1, 1), variant=variant, bias=False)
    x, weight, _, _ = tensors(case)
    x[:, :8] = 0.0
    x = np.ldexp(x, left).astype(np.float32)
    want = reference(case, x, weight, None, None)
    got = run(isa, 1, case, x, weight, None, None, kernel="conv_winograd")
    np.testing.assert_allclose(got, want, rtol=0, atol=1e-5 * np.abs(want).max())
    assert not got[:, :4].any()


@pytest.mark.parametrize("variant", [34, 36])
def test_antisymmetric_tiles_of_products_in_pairs(isa: str, variant: int) -> None:
    """Points of a tile that vanish together do not decide how large it is."""
    case = BASE.but(h=12, w=12, ic=40, kernel=(3, 3), variant=variant, bias=False)
    x, weight, _, _ = tensors(case)
    x[...] = (np.arange(12)[:, None] - np.arange(12))[None, :, :, None] * x[:, :1, :1]
    want = reference(case, x, weight, None, None)
    got = run(isa, 1, case, x, weight, None, None, kernel="conv_winograd")
    np.testing.assert_allclose(got, want, rtol=0, atol=4e-6 * np.abs(want).max())


@pytest.mark.parametrize("variant", [34, 36])
@pytest.mark.parametrize("size", [1e3, 1e9])
def test_large_inputs_of_products_in_pairs(isa: str, variant: int, size: float) -> None:
    """Channels that are large, but have small weights or none, leave the others their digits."""
    case = BASE.but(h=9, w=10, ic=2 * 40, oc=2 * 20, groups=2, kernel=(3, 3), pad=(1, 1), variant=variant, bias=False)
    x, weight, _, _ = tensors(case)
    x[..., 3] *= size
    weight[:20, 3] = 0.0 if size > 1e6 else weight[:20, 3] / size
    want = reference(case, x, weight, None, None)
    got = run(isa, 2, case, x, weight, None, None, kernel="conv_winograd")
    np.testing.assert_allclose(got, want, rtol=0, atol=4e-6 * np.abs(want).max())


def test_images_of_many_megabytes(isa: str) -> None:
    case = FORMS["F(4,3)"].but(n=5, h=130, w=131, ic=17, oc=20, act="relu")
    check(isa, 1, case, "conv_winograd")
    data = tensors(case)
    np.testing.assert_array_equal(*(run(isa, n, case, *data, kernel="conv_winograd") for n in (1, 2)))


@pytest.mark.parametrize("residual", [False, True])
@pytest.mark.parametrize("act", ACTIVATIONS)
def test_epilogue(isa: str, act: str, residual: bool) -> None:
    for form in FORMS.values():
        case = form.but(n=2, h=7, w=10, act=act, a=-0.3, b=0.8, residual=residual)
        check(isa, 2, case, "conv_winograd")
        check(isa, 1, case.but(bias=False), "conv_winograd")


@forms
def test_groups(isa: str, form: Case) -> None:
    for groups, ic, oc in [(2, 10, 38), (3, 51, 75), (7, 7, 14)]:
        case = form.but(n=2, h=9, w=13, ic=ic, oc=oc, groups=groups, residual=True, act="silu")
        check(isa, 1 + groups % 2, case, "conv_winograd")
    check(isa, 2, form.but(h=60, w=70, ic=12, oc=12, groups=2), "conv_winograd")


@forms
@pytest.mark.parametrize("padded", [False, True])
def test_not_a_number_and_infinity_stay_in_their_windows(isa: str, form: Case, padded: bool) -> None:
    case = form.but(n=2, h=14, w=15, ic=5, oc=37, residual=True, pad=form.pad if padded else (0, 0))
    for seed, values in enumerate([[np.nan], [np.inf], [-np.inf], [np.inf, -np.inf, np.nan, np.inf]]):
        x, weight, bias, z = tensors(case)
        rng = np.random.default_rng(seed)
        for value in values:
            x[tuple(rng.integers(0, size) for size in x.shape)] = value
        with np.errstate(invalid="ignore"):
            want = reference(case, x, weight, bias, z)
        got = run(isa, 1, case, x, weight, bias, z, kernel="conv_winograd")
        np.testing.assert_allclose(got, want, rtol=1e-5 * form.error, atol=1e-5 * form.error)


@forms
def test_threads_do_not_change_results(isa: str, form: Case) -> None:
    for case in [form.but(n=2, h=40, w=50, ic=40, oc=90), form.but(h=23, w=25, ic=9, oc=16)]:
        data = tensors(case)
        want = run(isa, 1, case, *data, kernel="conv_winograd")
        for threads in (2, 3, 5):
            np.testing.assert_array_equal(run(isa, threads, case, *data, kernel="conv_winograd"), want)


@pytest.mark.parametrize(("size", "ic", "oc"), [(28, 40, 128), (56, 64, 32), (56, 20, 48), (26, 40, 80), (44, 40, 16)])
def test_equal_shares_of_tiles_do_not_change_results(isa: str, size: int, ic: int, oc: int) -> None:
    case = FORMS["F(4,3)"].but(h=size, w=size, ic=ic, oc=oc)
    data = tensors(case)
    want = run(isa, 1, case, *data, kernel="conv_winograd")
    for threads in (2, 3, 4):
        np.testing.assert_array_equal(run(isa, threads, case, *data, kernel="conv_winograd"), want)


@forms
@pytest.mark.parametrize("ic", [16, 64, 256])
def test_rounding_error(isa: str, form: Case, ic: int) -> None:
    case = form.but(h=24, w=24, ic=ic, oc=32, bias=False)
    data = tensors(case)
    want = reference(case, *data)
    error = np.abs(run(isa, 1, case, *data, kernel="conv_winograd") - want).max() / np.abs(want).max()
    assert error < 4e-6 * form.error
