"""Normalisation kernels against numpy: rows, groups of channels, affine maps, in both layouts."""

from __future__ import annotations

import numpy as np
import pytest
from strides import elements

from pnnx_fast._core.program import codes
from pnnx_fast._types import Array
from pnnx_fast.runtime.kernel import call


def padded(shape: tuple[int, ...], gap: int, seed: int = 1) -> Array:
    """Random array whose innermost dimension has a gap behind it."""
    frame = np.random.default_rng(seed).standard_normal((*shape[:-1], shape[-1] + gap)).astype("f4")
    return frame[..., : shape[-1]]


ROWS = [(1, 1), (3, 5), (37, 6), (2, 7, 64), (5, 2, 3, 129), (3, 256), (3, 257), (2, 9000)]


@pytest.mark.parametrize("shape", ROWS)
@pytest.mark.parametrize("rms", [0, 1])
@pytest.mark.parametrize("affine", ["", "w", "wb"])
@pytest.mark.parametrize("residual", ["", "z", "zs"])
def test_row_norm(isa: str, shape: tuple[int, ...], rms: int, affine: str, residual: str) -> None:
    x, z, y = padded(shape, 3), padded(shape, 1, 2), padded(shape, 2)
    rng = np.random.default_rng(3)
    w, b = (rng.standard_normal(shape[-1]).astype("f4") for _ in range(2))
    s = np.empty(shape, "f4") if "s" in residual else None
    outer = slice(0, -1)
    call(
        isa, "row_norm", 2 if len(shape) == 4 else 1, x=x, y=y, w=w if "w" in affine else None, s=s,
        b=b if "b" in affine else None, z=z if residual else None, rank=len(shape) - 1, shape=shape[:-1],
        xs=elements(x, outer), zs=elements(z, outer), ys=elements(y, outer), ss=elements(s, outer),
        n=shape[-1], eps=1e-5, rms=rms,
    )  # fmt: skip
    row = x.astype("f8") + (z if residual else 0)
    centred = row if rms else row - row.mean(-1, keepdims=True)
    want = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5)
    want = want * (w if "w" in affine else 1) + (b if "b" in affine else 0)
    np.testing.assert_allclose(y, want, 2e-6, 4e-6)
    if s is not None:
        np.testing.assert_allclose(s, row, 1e-6, 1e-7)


@pytest.mark.parametrize("n", [5000, 70])
def test_rows_far_from_zero(isa: str, n: int) -> None:
    x = (np.random.default_rng(4).standard_normal((3, n)) + 1000).astype("f4")
    x[2] = 3.1
    y = plain_rows(isa, x, 1e-5)
    exact = x.astype("f8")
    centred = exact - exact.mean(-1, keepdims=True)
    np.testing.assert_allclose(y, centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5), 0, 2e-5)


@pytest.mark.parametrize("size", [1e19, 1e25, 1e33])
@pytest.mark.parametrize("n", [20, 300, 5000])
def test_squares_that_overflow(isa: str, n: int, size: float) -> None:
    """The variance is infinite then, as where PyTorch computes it in vectors."""
    x = (np.random.default_rng(6).uniform(-2, 2, (3, n)) * size).astype("f4")
    assert (plain_rows(isa, x, 1e-5) == 0).all()


def plain_rows(isa: str, x: Array, eps: float) -> Array:
    y = np.empty_like(x)
    rows, n = x.shape
    call(
        isa, "row_norm", x=x, y=y, w=None, b=None, z=None, s=None, rank=1, shape=(rows,), xs=(n,), zs=(), ss=(),
        ys=(n,), n=n, eps=eps, rms=0,
    )  # fmt: skip
    return y


@pytest.mark.parametrize("eps", [1e-5, 1e-45])
def test_rows_that_are_constant_or_not_finite(isa: str, eps: float) -> None:
    x = np.full((20, 40), 3, "f4")
    x[7, 3], x[9, 39] = np.inf, np.nan
    bad = np.isin(np.arange(20), [7, 9])
    y = plain_rows(isa, x, eps)
    assert np.isnan(y[bad]).all()
    assert not y[~bad].any()


def channels(isa: str, kernel: str, x: Array, last: bool, w: Array | None, b: Array | None, **more: float) -> Array:
    """Run a kernel of kind ``channels`` on x (n, c, spatial), given in either layout with gaps."""
    n, c = x.shape[:2]
    if last:
        frame = np.full((n, *x.shape[2:], c + 5), -7, "f4")
        frame[..., :c] = np.moveaxis(x, 1, -1)
        x = np.moveaxis(frame[..., :c], -1, 1)
        y = np.moveaxis(np.full_like(frame, -7)[..., :c], -1, 1)
    else:
        x = np.repeat(x, 2, -1)[..., ::2] if more.pop("strided", 0) else np.ascontiguousarray(x)
        y = np.empty(x.shape, "f4")
    more.pop("strided", 0)
    fields = {"groups": 1, "eps": 0.0, "act": 0, "act_a": 0.0, "act_b": 0.0} | more
    call(
        isa, kernel, int(fields.pop("threads", 1)), x=x, y=y, w=w, b=b, n=n, c=c, rank=x.ndim - 2, shape=x.shape[2:],
        xs=elements(x), ys=elements(y), **fields,
    )  # fmt: skip
    return y


SHAPES = [(2, 6, 5), (1, 32, 9, 7), (2, 48, 3, 4, 5), (1, 130, 17, 11), (3, 8, 1, 1), (4, 140)]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize("layout", ["plain", "strided", "last"])
def test_group_norm(isa: str, shape: tuple[int, ...], affine: bool, layout: str) -> None:
    rng = np.random.default_rng(5)
    x = (rng.standard_normal(shape) * 2 + 5).astype("f4")
    n, c = shape[:2]
    w, b = (rng.standard_normal(c).astype("f4") if affine else None for _ in range(2))
    for groups in {1, 2, c // 2, c}:
        rows = x.astype("f8").reshape(n, groups, -1)
        centred = rows - rows.mean(-1, keepdims=True)
        want = (centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-3)).reshape(shape)
        if w is not None and b is not None:
            want = want * w.reshape(-1, *[1] * (len(shape) - 2)) + b.reshape(-1, *[1] * (len(shape) - 2))
        for threads in (1, 2):
            got = channels(
                isa, "group_norm", x, layout == "last", w, b, groups=groups, eps=1e-3,
                strided=layout == "strided", threads=threads,
            )  # fmt: skip
            np.testing.assert_allclose(got, want, 1e-5, 1e-5)


@pytest.mark.parametrize("layout", ["plain", "last"])
@pytest.mark.parametrize("space", [(5, 7), (1, 1)])
def test_group_norm_with_infinite_weights(isa: str, layout: str, space: tuple[int, int]) -> None:
    """As a map x scale + shift whose shift is infinite, too: where they cancel out, there is no number."""
    x = np.random.default_rng(7).standard_normal((2, 6, *space)).astype("f4")
    w = np.array([1, np.inf, -np.inf, 0, np.nan, np.inf], "f4")
    rows = x.astype("f8").reshape(2, 2, -1)
    mean, var = (np.repeat(a, 3, 1).reshape(2, 6, 1, 1) for a in (rows.mean(-1), rows.var(-1)))
    with np.errstate(invalid="ignore"):
        scale = w.reshape(6, 1, 1) / np.sqrt(var + 1e-5)
        want = (x * scale - mean * scale).astype("f4")
    got = channels(isa, "group_norm", x, layout == "last", w, np.zeros(6, "f4"), groups=2, eps=1e-5)
    np.testing.assert_allclose(got, want, 1e-4, 1e-4)


@pytest.mark.parametrize("layout", ["plain", "last"])
def test_group_norm_of_outliers(isa: str, layout: str) -> None:
    x = np.random.default_rng(6).standard_normal((1, 16, 70, 70)).astype("f4")
    x[:, :, 0, 0] = 1000
    x[:, 3] += 500
    rows = x.astype("f8").reshape(1, 16, -1)
    centred = rows - rows.mean(-1, keepdims=True)
    want = (centred / np.sqrt((centred**2).mean(-1, keepdims=True))).reshape(x.shape)
    got = channels(isa, "group_norm", x, layout == "last", None, None, groups=16)
    np.testing.assert_allclose(got, want, 1e-5, 2e-5)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("layout", ["plain", "strided", "last"])
def test_channel_affine(isa: str, shape: tuple[int, ...], layout: str) -> None:
    rng = np.random.default_rng(7)
    x = rng.standard_normal(shape).astype("f4")
    w, b = (rng.standard_normal(shape[1]).astype("f4") for _ in range(2))
    tail = [1] * (len(shape) - 2)
    for scale, shift in ((w, b), (w, None), (None, b)):
        want = x * (1 if scale is None else scale.reshape(-1, *tail)) + (
            0 if shift is None else shift.reshape(-1, *tail)
        )
        got = channels(isa, "channel_affine", x, layout == "last", scale, shift, strided=layout == "strided", threads=2)
        np.testing.assert_allclose(got, want, 1e-6, 1e-6)
    y = x * w.reshape(-1, *tail) + b.reshape(-1, *tail)
    for name, want in (
        ("relu", np.maximum(y, 0)),
        ("leaky_relu", np.where(y > 0, y, y * 0.1)),
        ("silu", y / (1 + np.exp(-y))),
    ):
        got = channels(isa, "channel_affine", x, layout == "last", w, b, act=codes("activation")[name], act_a=0.1)
        np.testing.assert_allclose(got, want, 2e-6, 2e-6)
