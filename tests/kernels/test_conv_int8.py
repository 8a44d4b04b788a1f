"""The kernels conv_int8 and conv_depthwise_int8 against integers of numpy: equal on every ISA level and team."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import conv_case
import numpy as np
import pytest
from conv_case import ACTIVATIONS, CODES, sums
from guard import guarded
from numpy.typing import NDArray

from pnnx_fast.runtime.kernel import call, plan

Array = NDArray[Any]
EARLY = ("none", "relu", "clip", "leaky_relu")


@dataclass(frozen=True)
class Case(conv_case.Case):
    """A convolution of int8; x_scale: of an input in float32, y_scale: of a result in int8."""

    x_scale: float = 0.0
    y_scale: float = 0.0


def rounded(x: Array) -> Array:
    """Halves away from zero, -127 to 127."""
    return np.clip(np.trunc(x + np.copysign(0.5, x.astype(np.float64))), -127, 127).astype(np.int8)


def reference(case: Case, x: Array, weight: Array, scale: Array, bias: Array | None, z: Array) -> Array:
    x = rounded(x * np.float32(case.x_scale)) if case.x_scale else x
    v = sums(case, x, weight).astype(np.float32) * scale
    v = v if bias is None else v + bias
    v = v + z if case.residual and not case.late else v
    v = ACTIVATIONS[case.act](v, np.float32(case.a), np.float32(case.b))
    v = v + z if case.residual and case.late else v
    return rounded(v * np.float32(case.y_scale)) if case.y_scale else v


def placed(x: Array, gap: int) -> tuple[Array, Array, tuple[int, int, int]]:
    """Storage that ends with the tensor, a view of the tensor in it, and the strides of image, row and pixel."""
    n, h, w, c = x.shape
    step = c + gap
    base = guarded(np.full(max(0, n * h * w * step - gap), 77, x.dtype))
    size = x.dtype.itemsize
    view = np.lib.stride_tricks.as_strided(base, x.shape, [v * size for v in (h * w * step, w * step, step, 1)])
    view[...] = x
    return base, view, (h * w * step, w * step, step)


def inputs(case: Case) -> tuple[Array, Array, Array, Array | None, Array]:
    rng = np.random.default_rng(case.ic * 1000 + case.oc)
    shape = (case.n, case.h, case.w, case.ic)
    if case.x_scale:
        x: Array = (rng.standard_normal(shape) * 60 / case.x_scale).astype(np.float32)
    else:
        x = rng.integers(-128, 128, shape).astype(np.int8)
    weight = rng.integers(-128, 128, (case.oc, case.ic // case.groups, *case.kernel)).astype(np.int8)
    scale = (rng.random(case.oc) / 1000).astype(np.float32)
    bias = rng.standard_normal(case.oc).astype(np.float32) if case.bias else None
    z = rng.standard_normal((case.n, *case.out, case.oc)).astype(np.float32)
    return x, weight, scale, bias, z


def check(isa: str, threads: int, case: Case, kernel: str = "conv") -> None:
    """Run a case, compare, and look for writes between the pixels."""
    x, weight, scale, bias, z = inputs(case)
    want = reference(case, x, weight, scale, bias, z)
    xbase, _, xs = placed(x, case.gap)
    zbase, _, zs = placed(z, case.gap)
    ybase, yview, ys = placed(np.zeros_like(want), case.gap)
    strides = {
        t + a: s for t, v in (("x", xs), ("y", ys), ("z", zs)) for a, s in zip(("sn", "sh", "sw"), v, strict=True)
    }
    size = {"ic": case.ic, "oc": case.oc, "kh": case.kernel[0], "kw": case.kernel[1], "groups": case.groups}
    values = {
        "n": case.n, "ih": case.h, "iw": case.w, "oh": case.out[0], "ow": case.out[1], **size, **strides,
        "stride_h": case.stride[0], "stride_w": case.stride[1], "pad_h": case.pad[0], "pad_w": case.pad[1],
        "dil_h": case.dilation[0], "dil_w": case.dilation[1], "z_late": int(case.late), "act": CODES[case.act],
        "act_a": case.a, "act_b": case.b, "variant": 0, "x_scale": case.x_scale, "y_scale": case.y_scale,
    }  # fmt: skip
    memory = {"x": xbase, "y": ybase, "z": zbase if case.residual else None, "bias": bias, "scale": scale}
    _, packed_bytes, scratch_bytes, *_ = plan(isa, f"{kernel}_int8", threads, **memory, **values)
    packed, scratch = guarded(np.full(packed_bytes, 99, np.int8)), guarded(np.full(scratch_bytes, 99, np.int8))
    call(isa, f"{kernel}_int8_pack", threads, x=guarded(weight), y=packed, **size, variant=0)
    call(isa, f"{kernel}_int8", threads, **memory, w=packed, scratch=scratch, **values)
    np.testing.assert_array_equal(yview, want, err_msg=str(case))
    yview[...] = 77
    assert (ybase == 77).all(), "wrote outside of the output"


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_columns(isa: str, threads: int) -> None:
    for oc in [*range(1, 20), 31, 32, 33, 47, 48, 49, 64, 65, 79, 96, 112, 130, 145, 200]:
        check(isa, threads, Case(h=1, w=13, ic=5, oc=oc, y_scale=9.0 * (oc % 2)))


@pytest.mark.parametrize("oc", [5, 16, 24, 40, 64])
def test_rows(isa: str, oc: int) -> None:
    for w in [*range(1, 28), 47, 48, 49, 97, 200]:
        check(isa, 1, Case(h=1, w=w, ic=7, oc=oc))
        check(isa, 3, Case(h=1, w=w, ic=7, oc=oc, gap=3, y_scale=8.0))


@pytest.mark.parametrize("x_scale", [0.0, 33.0])
def test_channels(isa: str, x_scale: float) -> None:
    for ic in [*range(1, 20), 31, 33, 63, 64, 65, 100, 127, 129]:
        check(isa, 2, Case(h=3, w=5, ic=ic, oc=20, x_scale=x_scale))
        check(isa, 1, Case(h=3, w=5, ic=ic, oc=20, kernel=(3, 3), pad=(1, 1), x_scale=x_scale, gap=1))


@pytest.mark.parametrize("kernel", [(1, 1), (3, 3), (2, 2), (1, 3), (5, 1), (7, 7)])
@pytest.mark.parametrize("stride", [(1, 1), (2, 2), (1, 3)])
def test_windows(isa: str, kernel: tuple[int, int], stride: tuple[int, int]) -> None:
    for threads, (pad, dilation, gap, n) in enumerate(
        itertools.product([(0, 0), (1, 2), (3, 3)], [(1, 1), (2, 1)], [0, 5], [1, 3])
    ):
        case = Case(n=n, h=15, w=14, ic=6, oc=18, kernel=kernel, stride=stride, pad=pad, dilation=dilation, gap=gap)
        check(isa, 1 + threads % 3, case)


def test_picture(isa: str) -> None:
    check(isa, 2, Case(h=33, w=35, ic=3, oc=32, kernel=(3, 3), stride=(2, 2), pad=(1, 1), act="relu", y_scale=5.0))
    check(isa, 2, Case(h=33, w=35, ic=3, oc=64, kernel=(7, 7), stride=(2, 2), pad=(3, 3), x_scale=20.0))


def test_padding_wider_than_the_image(isa: str) -> None:
    check(isa, 1, Case(h=2, w=3, ic=3, oc=9, kernel=(3, 3), pad=(6, 7)))
    check(isa, 2, Case(h=1, w=1, ic=40, oc=70, kernel=(3, 3), pad=(1, 1)))


@pytest.mark.parametrize("kernel", ["conv", "conv_depthwise"])
@pytest.mark.parametrize("residual", [None, "early", "late"])
@pytest.mark.parametrize("act", EARLY)
def test_epilogue(isa: str, kernel: str, act: str, residual: str | None) -> None:
    case = Case(h=7, w=5, ic=37, oc=37, kernel=(3, 3), pad=(1, 1), act=act, a=-0.25, b=0.75)
    case = case.but(residual=residual is not None, late=residual == "late", groups=37 if kernel != "conv" else 1)
    for y_scale in (0.0, 12.0, -12.0):
        check(isa, 2, case.but(y_scale=y_scale), kernel)
        check(isa, 1, case.but(y_scale=y_scale, bias=False, gap=2), kernel)


@pytest.mark.parametrize("bounds", [(0.0, 6.0), (0.5, 0.75), (-9.0, -8.0), (3.0, -5.0), (30.0, 40.0)])
def test_bounds_beyond_those_of_int8(isa: str, bounds: tuple[float, float]) -> None:
    case = Case(h=7, w=5, ic=37, oc=21, act="clip", a=bounds[0], b=bounds[1], y_scale=19.0)
    check(isa, 1, case)
    check(isa, 2, case.but(residual=True))


@pytest.mark.parametrize("groups", [2, 3, 6])
def test_groups(isa: str, groups: int) -> None:
    for oc in (groups, 6 * groups, 20 * groups):
        check(isa, 2, Case(h=6, w=9, ic=5 * groups, oc=oc, groups=groups, kernel=(3, 3), pad=(1, 1)))


def test_deep_sums_with_the_largest_numbers(isa: str) -> None:
    check(isa, 2, Case(h=1, w=3, ic=25088, oc=70))
    case = Case(h=1, w=1, ic=130000, oc=2, bias=False)
    x, weight = np.full((1, 1, 1, 130000), -128, np.int8), np.full((2, 130000, 1, 1), -128, np.int8)
    assert sums(case, x, weight).max() == 130000 * 128 * 128


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("stride", [(1, 1), (2, 2), (3, 1)])
@pytest.mark.parametrize("kernel", [(3, 3), (5, 5), (1, 3), (2, 4)])
def test_depthwise(isa: str, kernel: tuple[int, int], stride: tuple[int, int], threads: int) -> None:
    for c, (pad, dilation, gap) in zip(
        itertools.cycle([1, 3, 8, 16, 17, 40, 300]),
        itertools.product([(0, 0), (1, 1), (2, 3)], [(1, 1), (2, 2)], [0, 3]),
        strict=False,
    ):
        for w in (9, 14, 33):
            case = Case(n=2, h=11, w=w, ic=c, oc=c, groups=c, kernel=kernel, stride=stride, pad=pad, gap=gap)
            check(isa, threads, case.but(dilation=dilation, y_scale=4.0 * (w % 2)), "conv_depthwise")


def test_depthwise_of_one_pixel(isa: str) -> None:
    check(isa, 2, Case(h=1, w=1, ic=20, oc=20, groups=20, kernel=(3, 3), pad=(1, 1)), "conv_depthwise")
    check(isa, 1, Case(h=1, w=2, ic=9, oc=9, groups=9, kernel=(3, 3), pad=(5, 6)), "conv_depthwise")
