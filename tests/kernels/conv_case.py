"""Runs one convolution kernel on a described case, and plain numpy on the same case."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from guard import guarded
from numpy.typing import NDArray

from pnnx_fast._core.program import codes
from pnnx_fast.runtime.kernel import call, plan

Array = NDArray[Any]

_erf = np.vectorize(math.erf, otypes=[float])
CODES = codes("activation")
ACTIVATIONS: dict[str, Callable[[Array, float, float], Array]] = {
    "none": lambda v, a, b: v,
    "relu": lambda v, a, b: np.maximum(v, 0),
    "clip": lambda v, a, b: np.minimum(np.maximum(v, a), b),
    "leaky_relu": lambda v, a, b: np.where(v > 0, v, a * v),
    "sigmoid": lambda v, a, b: 1 / (1 + np.exp(-v)),
    "silu": lambda v, a, b: v / (1 + np.exp(-v)),
    "hardswish": lambda v, a, b: v * np.minimum(np.maximum(v + 3, 0), 6) / 6,
    "hardsigmoid": lambda v, a, b: np.minimum(np.maximum(v + 3, 0), 6) / 6,
    "gelu": lambda v, a, b: 0.5 * v * (1 + _erf(v / math.sqrt(2))),
    "gelu_tanh": lambda v, a, b: 0.5 * v * (1 + np.tanh(math.sqrt(2 / math.pi) * (v + 0.044715 * v**3))),
    "tanh": lambda v, a, b: np.tanh(v),
    "mish": lambda v, a, b: v * np.tanh(np.log1p(np.exp(v))),
}


@dataclass(frozen=True)
class Case:
    """A convolution of a channels-last tensor; gaps are unused floats after each pixel, row or image."""

    n: int = 1
    h: int = 5
    w: int = 6
    ic: int = 4
    oc: int = 8
    kernel: tuple[int, int] = (1, 1)
    stride: tuple[int, int] = (1, 1)
    pad: tuple[int, int] = (0, 0)
    dilation: tuple[int, int] = (1, 1)
    groups: int = 1
    bias: bool = True
    residual: bool = False
    late: bool = False  # the residual is added after the activation
    act: str = "none"
    a: float = 0.0
    b: float = 0.0
    gap: int = 0
    row_gap: int = 0
    variant: int = 0
    guard: bool = False  # memory that must not be touched begins behind the tensors (give no gaps)
    error: float = 1.0  # how much larger than of a plain sum rounding errors may be

    def but(self, **changes: Any) -> Self:
        return replace(self, **changes)

    @property
    def out(self) -> tuple[int, int]:
        size = (self.h, self.w)
        oh, ow = (
            (size[i] + 2 * self.pad[i] - self.dilation[i] * (self.kernel[i] - 1) - 1) // self.stride[i] + 1
            for i in range(2)
        )
        return oh, ow


def aligned(count: int) -> Array:
    """A float32 vector on a cache line."""
    raw = np.zeros(count + 16, np.float32)
    skip = -raw.__array_interface__["data"][0] % 64 // 4
    return raw[skip : skip + count]


def strided(
    n: int, h: int, w: int, c: int, gap: int, row_gap: int, guard: bool = False
) -> tuple[Array, Array, tuple[int, int, int]]:
    """Storage full of NaN, a view of the tensor in it, and the strides of image, row and pixel."""
    xsw = c + gap
    xsh = w * xsw + row_gap
    xsn = h * xsh + 3 * row_gap
    base = np.full(n * xsn, np.nan, np.float32)
    base = guarded(base) if guard else base
    view = np.lib.stride_tricks.as_strided(base, (n, h, w, c), (xsn * 4, xsh * 4, xsw * 4, 4))
    return base, view, (xsn, xsh, xsw)


def sums(case: Case, x: Array, weight: Array) -> Array:
    """The convolution alone in double precision, tap by tap."""
    oh, ow = case.out
    groups, pixels = case.groups, case.n * oh * ow
    padded = np.zeros((case.n, case.h + 2 * case.pad[0], case.w + 2 * case.pad[1], case.ic))
    padded[:, case.pad[0] : case.pad[0] + case.h, case.pad[1] : case.pad[1] + case.w] = x
    # Groups in front: one product of matrices for all of them.
    filters = weight.astype(float).reshape(groups, case.oc // groups, case.ic // groups, *case.kernel).swapaxes(1, 2)
    y = np.zeros((groups, pixels, case.oc // groups))
    for ky in range(case.kernel[0]):
        for kx in range(case.kernel[1]):
            y0, x0 = ky * case.dilation[0], kx * case.dilation[1]
            part = padded[
                :,
                y0 : y0 + oh * case.stride[0] : case.stride[0],
                x0 : x0 + ow * case.stride[1] : case.stride[1],
            ]
            y += part.reshape(pixels, groups, case.ic // groups).swapaxes(0, 1) @ filters[..., ky, kx]
    return y.swapaxes(0, 1).reshape(case.n, oh, ow, case.oc)


def reference(case: Case, x: Array, weight: Array, bias: Array | None, z: Array | None) -> Array:
    """The convolution and what follows it in double precision."""
    y = sums(case, x, weight)
    if bias is not None:
        y = y + bias
    if z is not None and not case.late:
        y = y + z
    with np.errstate(over="ignore", invalid="ignore"):
        y = np.asarray(ACTIVATIONS[case.act](y, case.a, case.b))
    return y + z if z is not None and case.late else y


def fields(case: Case, xs: tuple[int, int, int], ys: tuple[int, int, int]) -> dict[str, Any]:
    """The scalar arguments of the kernel."""
    oh, ow = case.out
    return {
        "n": case.n,
        "ih": case.h,
        "iw": case.w,
        "ic": case.ic,
        "oh": oh,
        "ow": ow,
        "oc": case.oc,
        "groups": case.groups,
        **dict(zip(("xsn", "xsh", "xsw"), xs, strict=True)),
        **dict(zip(("ysn", "ysh", "ysw"), ys, strict=True)),
        **dict(zip(("zsn", "zsh", "zsw"), ys, strict=True)),
        "z_late": int(case.late),
        "kh": case.kernel[0],
        "kw": case.kernel[1],
        "stride_h": case.stride[0],
        "stride_w": case.stride[1],
        "pad_h": case.pad[0],
        "pad_w": case.pad[1],
        "dil_h": case.dilation[0],
        "dil_w": case.dilation[1],
        "act": CODES[case.act],
        "act_a": case.a,
        "act_b": case.b,
        "variant": case.variant,
    }


def tensors(case: Case, seed: int = 0) -> tuple[Array, Array, Array | None, Array | None]:
    """Random x, weight, bias and residual of a case."""
    rng = np.random.default_rng(seed)
    oh, ow = case.out
    shape = (case.oc, case.ic // case.groups, *case.kernel)
    x = rng.standard_normal((case.n, case.h, case.w, case.ic)).astype(np.float32)
    weight = (rng.standard_normal(shape) / math.sqrt(np.prod(shape[1:]))).astype(np.float32)
    bias = rng.standard_normal(case.oc).astype(np.float32) if case.bias else None
    z = rng.standard_normal((case.n, oh, ow, case.oc)).astype(np.float32) if case.residual else None
    return x, weight, bias, z


def run(
    isa: str,
    threads: int,
    case: Case,
    x: Array,
    weight: Array,
    bias: Array | None,
    z: Array | None,
    kernel: str = "conv",
    **more: Any,
) -> Array:
    """Pack the weights, run the kernel on strided copies of the tensors, check that gaps stay untouched.

    ``more``: fields of the kernel beyond those of every convolution, or in place of what its plan chooses.
    """
    oh, ow = case.out
    xbase, xview, xs = strided(case.n, case.h, case.w, case.ic, case.gap, case.row_gap, case.guard)
    ybase, yview, ys = strided(case.n, oh, ow, case.oc, case.gap, case.row_gap, case.guard)
    zbase, zview, _ = strided(case.n, oh, ow, case.oc, case.gap, case.row_gap, case.guard)
    xview[...] = x
    if z is not None:
        zview[...] = z
    values = fields(case, xs, ys)
    if case.guard:
        weight, bias = guarded(weight), None if bias is None else guarded(bias)
    memory = {"x": xbase, "bias": bias, "z": None if z is None else zbase, "y": ybase}
    variant, packed_bytes, scratch_bytes, _, chosen = plan(isa, f"{kernel}_f32", threads, **memory, **values)
    packed = aligned(packed_bytes // 4)
    size = {k: values[k] for k in ("oc", "ic", "kh", "kw", "groups")}
    call(isa, f"{kernel}_pack_f32", threads, x=weight, y=packed, **size, variant=variant)
    scratch = aligned(scratch_bytes // 4 + 1)
    call(isa, f"{kernel}_f32", threads, **memory, w=packed, scratch=scratch, **{**values, **chosen, **more})
    got = yview.copy()
    yview[...] = np.nan
    assert np.isnan(ybase).all(), "wrote outside of the output"
    return got


def check(isa: str, threads: int, case: Case, kernel: str = "conv") -> None:
    """Run a case and compare with the reference, with a tolerance that grows with the depth."""
    data = tensors(case)
    got = run(isa, threads, case, *data, kernel=kernel)
    want = reference(case, *data)
    scale = max(1.0, float(np.abs(want).max())) if want.size else 1.0
    depth = case.ic // case.groups * case.kernel[0] * case.kernel[1]
    tolerance = case.error * 1e-6 * scale * max(2.0, math.sqrt(depth / 64))
    np.testing.assert_allclose(got, want, rtol=0, atol=tolerance, err_msg=str(case))


def check_ranges(isa: str, case: Case, kernel: str, left: int, right: int) -> None:
    """Numbers as large or small as floats can be: inputs times 2^left, weights times 2^right."""
    x, weight, _, _ = tensors(case)
    x = np.ldexp(np.clip(x, -1.9999999, 1.9999999), left).astype(np.float32)
    weight = np.ldexp(weight, right).astype(np.float32)
    want = reference(case, x, weight, None, None)
    got = run(isa, 1, case, x, weight, None, None, kernel=kernel)
    np.testing.assert_allclose(got, want, rtol=0, atol=4e-5 * np.abs(want).max())


def check_special_values(
    isa: str, threads: int, case: Case, kernel: str, x: Array, weight: Array
) -> tuple[Array, Array]:
    """Run a line of pixels: infinity and NaN must be where they belong. Returns results, and what they should be."""
    pixels, columns = case.w, case.oc
    with np.errstate(invalid="ignore"):
        product = x.reshape(pixels, case.ic).astype(float) @ weight.reshape(columns, case.ic).T.astype(float)
    want = product.reshape(1, 1, pixels, columns)
    got = run(isa, threads, case, x, weight, None, None, kernel=kernel)
    finite = np.isfinite(want)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
    np.testing.assert_array_equal(got[~finite], want[~finite].astype(np.float32))
    np.testing.assert_allclose(got[finite], want[finite], rtol=0, atol=5e-5)
    return got, want
