"""The choice among convolution kernels: obvious cases on both sides of each border."""

from __future__ import annotations

from typing import Any

import pytest

from pnnx_fast._core.program import ISAS, WINO_PAIRS, codes
from pnnx_fast.ops import _conv_choice
from pnnx_fast.ops._conv_choice import LEVELS, choose


@pytest.fixture(autouse=True)
def without_adders(monkeypatch: pytest.MonkeyPatch) -> None:
    """The choice on a processor with whole vectors whose adders are its multipliers, whatever runs the tests."""
    monkeypatch.setattr(_conv_choice, "ADDERS", False)
    monkeypatch.setattr(_conv_choice, "HALVES", False)


def geometry(ic: int, oc: int, size: int, **changes: Any) -> dict[str, Any]:
    ones = ("n", "stride_h", "stride_w", "dil_h", "dil_w", "groups")
    base = {"ic": ic, "oc": oc, "oh": size, "ow": size, "kh": 3, "kw": 3, **dict.fromkeys(ones, 1)}
    return {**base, **changes}


@pytest.mark.parametrize(
    "fields, kernel, variant",
    [
        (geometry(64, 64, 56), "conv_winograd_f32", 4),
        (geometry(512, 512, 10), "conv_winograd_f32", 2),
        (geometry(96, 96, 3), "conv_f32", -1),
        (geometry(64, 192, 27, kh=5, kw=5), "conv_winograd_f32", 2),
        (geometry(64, 192, 27, kh=5, kw=3), "conv_f32", -1),
        (geometry(64, 192, 27, kh=7, kw=7), "conv_f32", -1),
        (geometry(64, 64, 56, stride_w=2), "conv_f32", -1),
        (geometry(64, 128, 80, stride_h=2, stride_w=2), "conv_winograd_f32", 20),
        (geometry(128, 256, 14, stride_h=2, stride_w=2), "conv_winograd_f32", 18),
        (geometry(256, 512, 7, stride_h=2, stride_w=2), "conv_f32", -1),
        (geometry(256, 256, 20, stride_h=2, stride_w=2), "conv_winograd_f32", 20),
        (geometry(256, 512, 20, stride_h=2, stride_w=2), "conv_winograd_f32", 18),
        (geometry(16, 32, 160, stride_h=2, stride_w=2), "conv_f32", -1),
        (geometry(64, 128, 80, stride_h=2, stride_w=2, dil_w=2), "conv_f32", -1),
        (geometry(64, 128, 80, stride_h=2, stride_w=2, kh=1), "conv_f32", -1),
        (geometry(64, 64, 56, dil_h=2), "conv_f32", -1),
        (geometry(64, 64, 56, kw=1), "conv_winograd_f32", 4),
        (geometry(192, 192, 17, kh=1, kw=7), "conv_winograd_f32", 4),
        (geometry(192, 192, 17, kh=7, kw=1, stride_h=2), "conv_f32", -1),
        (geometry(192, 192, 17, kh=9, kw=1), "conv_f32", -1),
        (geometry(8, 4, 16, kh=1, kw=3), "conv_f32", -1),
        (geometry(64, 64, 56, groups=2), "conv_winograd_f32", 4),
        (geometry(64, 64, 56, groups=64), "conv_depthwise_f32", -1),
        (geometry(64, 192, 56, groups=64), "conv_grouped_f32", -1),
        (geometry(64, 64, 56, groups=8), "conv_grouped_f32", -1),
        (geometry(64, 64, 56, groups=4), "conv_winograd_f32", 4),
        (geometry(96, 96, 56, groups=8, stride_h=2), "conv_f32", -1),
        (geometry(96, 24, 56, groups=8), "conv_grouped_f32", -1),
        (geometry(64, 64, 56, groups=8, kh=7, kw=7), "conv_grouped_f32", -1),
        (geometry(16, 128, 56, groups=16, kh=5, kw=5, stride_h=2, stride_w=2), "conv_grouped_f32", -1),
        (geometry(144, 144, 28, groups=9, stride_h=2, stride_w=2), "conv_f32", -1),
        (geometry(192, 192, 28, groups=8, stride_h=2, stride_w=2), "conv_f32", -1),
        (geometry(192, 192, 28, groups=4, stride_h=2, stride_w=2), "conv_winograd_f32", 20),
        (geometry(128, 128, 28, groups=2, stride_h=2, stride_w=2), "conv_winograd_f32", 20),
    ],
)
def test_choice(fields: dict[str, Any], kernel: str, variant: int) -> None:
    choice = choose("avx512", 1, fields)
    assert (choice.kernel, choice.variant) == (kernel, variant)


@pytest.mark.parametrize("changes", [{}, {"stride_h": 2, "stride_w": 2}])
def test_groups_of_a_short_vector(changes: dict[str, int]) -> None:
    def kernel(isa: str, fields: dict[str, Any]) -> str:
        return choose(isa, 1, {**fields, **changes}).kernel

    assert kernel("avx2", geometry(64, 64, 28, groups=8)) == "conv_grouped_f32"
    for isa, fields in [
        ("avx2", geometry(64, 128, 28, groups=8)),
        ("avx2", geometry(64, 64, 28, groups=8, dil_w=2)),
        ("generic", geometry(64, 64, 28, groups=8)),
        ("avx512", geometry(128, 128, 28, groups=8)),
    ]:
        assert kernel(isa, fields) != "conv_grouped_f32"


@pytest.mark.parametrize("nthreads", [1, 2])
def test_slow_memory_favours_small_transformed_weights(nthreads: int) -> None:
    assert choose("avx2", nthreads, geometry(512, 512, 7)).variant == 2
    assert choose("avx2", nthreads, geometry(512, 512, 14)).variant == 4


@pytest.mark.parametrize("nthreads", [1, 2])
def test_the_largest_tiles_serve_large_images_of_many_channels(nthreads: int) -> None:
    def variant(isa: str, ic: int, oc: int, size: int, **changes: int) -> int:
        return choose(isa, nthreads, geometry(ic, oc, size, **changes)).variant

    assert variant("avx2", 80, 192, 71) == variant("avx2", 128, 128, 112) == 6
    assert variant("avx2", 64, 64, 224) == variant("avx2", 128, 128, 36) == variant("avx2", 128, 128, 56) == 4
    assert variant("avx2", 128, 128, 112, groups=4) == variant("avx2", 128, 128, 112, n=8, oh=24) == 4
    assert variant("avx512", 128, 128, 112) == variant("generic", 128, 128, 112) == 4


@pytest.mark.parametrize("nthreads", [1, 2])
def test_matrix_tiles_serve_long_sums_of_many_channels(nthreads: int) -> None:
    def kernel(ic: int, oc: int, size: int, k: int = 1, **changes: Any) -> str:
        return choose("amx", nthreads, geometry(ic, oc, size, kh=k, kw=k, **changes)).kernel

    assert kernel(768, 3072, 14) == kernel(512, 128, 28) == kernel(512, 512, 7, k=3) == "conv_split_f32"
    assert kernel(768, 768, 14, oh=1, ow=1) == kernel(32, 64, 112) == kernel(64, 64, 56) == "conv_f32"
    assert kernel(64, 64, 56, k=3) == "conv_winograd_f32"
    assert choose("amx", nthreads, geometry(768, 3072, 14, kh=1, kw=1), constant=False).kernel == "conv_f32"
    assert choose("avx512", nthreads, geometry(768, 3072, 14, kh=1, kw=1)).kernel == "conv_f32"


@pytest.mark.parametrize("nthreads", [1, 2])
def test_pairs_serve_where_adders_work_beside_multipliers(monkeypatch: pytest.MonkeyPatch, nthreads: int) -> None:
    monkeypatch.setattr(_conv_choice, "ADDERS", True)

    def kernel(isa: str, ic: int, oc: int, size: int, k: int = 1, **changes: Any) -> str:
        return choose(isa, nthreads, geometry(ic, oc, size, kh=k, kw=k, **changes)).kernel

    assert kernel("avx512", 768, 3072, 14) == kernel("avx512vnni", 512, 128, 28) == "conv_pairs_f32"
    assert kernel("avx512", 512, 512, 7, k=3, stride_h=2, stride_w=2) == "conv_pairs_f32"
    assert kernel("avx512", 64, 64, 56) == kernel("avx512", 768, 32, 14) == kernel("avx512", 8, 768, 14) == "conv_f32"
    assert kernel("avx512", 80, 480, 14) == "conv_pairs_f32"
    assert kernel("avx512", 80, 480, 14, act=codes("activation")["silu"]) == "conv_f32"
    assert kernel("avx512", 64, 64, 56, k=3) == "conv_winograd_f32"
    assert choose("avx512", nthreads, geometry(64, 64, 56)).variant == 4
    assert choose("avx512", 1, geometry(512, 512, 7)).variant == WINO_PAIRS + 2
    assert choose("avx512", 1, geometry(512, 512, 14)).variant == WINO_PAIRS + 4
    assert choose("avx512", 1, geometry(256, 256, 20)).variant == 4  # blocks of low tiles
    assert kernel("avx2", 768, 3072, 14) == "conv_f32"
    assert choose("avx512", nthreads, geometry(768, 3072, 14, kh=1, kw=1), constant=False).kernel == "conv_f32"


def test_halves_of_vectors_leave_memory_more_time(monkeypatch: pytest.MonkeyPatch) -> None:
    def variant(isa: str, nthreads: int) -> int:
        return choose(isa, nthreads, geometry(512, 512, 12)).variant

    whole = {isa: variant(isa, 2) for isa in LEVELS}
    monkeypatch.setattr(_conv_choice, "HALVES", True)
    assert whole["avx512"] == 2
    assert variant("avx512", 2) == variant("avx512vnni", 2) == 4
    assert all(variant(isa, 2) == whole[isa] for isa in ("generic", "avx2", "amx"))


@pytest.mark.parametrize("nthreads", [1, 2])
def test_many_weights_of_few_pixels_are_three_bytes_each(nthreads: int) -> None:
    def kernel(isa: str, ic: int, oc: int, pixels: int, constant: bool = True, **changes: int) -> str:
        fields = geometry(ic, oc, pixels, oh=1, kh=1, kw=1) | changes
        return choose(isa, nthreads, fields, constant).kernel

    assert kernel("amx", 1280, 1000, 1) == kernel("avx2", 1280, 1000, 3) == "conv_thin_f32"
    assert kernel("amx", 1280, 1000, 4) == kernel("amx", 1280, 1000, 16) == "conv_split_f32"
    assert kernel("avx512vnni", 1280, 1000, 1) == kernel("amx", 768, 768, 1) == kernel("generic", 4096, 4096, 1)
    large = {"avx512": 128 << 20, "avx512vnni": 127 << 20}
    kernels = [choose(isa, nthreads, geometry(1280, 1000, 1, kh=1, kw=1), True, n).kernel for isa, n in large.items()]
    assert kernels == ["conv_thin_f32", "conv_f32"]
    assert kernel("avx2", 4096, 4096, 4) == kernel("avx2", 4096, 4096, 3, constant=False) == "conv_f32"
    assert kernel("avx2", 4096, 4096, 3, pad_w=1) == kernel("avx2", 4096, 4096, 3, iw=2) == "conv_f32"
    assert kernel("avx2", 8192, 8192, 3, groups=2) == kernel("avx2", 4096, 4096, 3, kw=3) == "conv_f32"


def test_weights_that_change_are_not_transformed() -> None:
    assert choose("avx2", 2, geometry(64, 64, 56), constant=False).kernel == "conv_f32"


def test_the_length_of_vectors_is_known_for_every_level() -> None:
    assert set(ISAS) <= set(LEVELS)
    assert "emulated" not in ISAS[-1]
