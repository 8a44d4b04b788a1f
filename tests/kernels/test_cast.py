"""The kernel convert against numpy: all pairs of dtypes, layouts, every half, halves next to ties and subnormals."""

from __future__ import annotations

import numpy as np
import pytest

from pnnx_fast._core.program import codes
from pnnx_fast._types import Array
from pnnx_fast.runtime.kernel import call

TYPES, CODES = ["?", "u1", "i1", "i2", "i4", "i8", "f2", "f4", "f8"], codes("dtype")


def convert(isa: str, x: Array, dtype: str, threads: int = 1) -> Array:
    y = np.empty(x.shape, dtype)
    xs, ys = ([s // a.itemsize for s in a.strides] for a in (x, y))
    types = {"source": CODES[x.dtype.name], "target": CODES[y.dtype.name]}
    call(isa, "convert", threads, x=x, y=y, rank=x.ndim, shape=x.shape, xs=xs, ys=ys, **types)
    return y


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("source", TYPES)
@pytest.mark.parametrize("target", TYPES)
def test_pairs(isa: str, source: str, target: str, threads: int) -> None:
    values = np.random.default_rng(0).integers(-100, 100, (37, 301)) * (1.37 if source[0] == "f" else 1)
    x = values.astype(source)
    for given in (x, x.T, x[:, ::3], x[:0]):
        wide = given.astype("f4") if target == "f2" and source != "f2" else given
        want = (wide.astype("i4") if source[0] == "f" and target in ("u1", "i1", "i2") else wide).astype(target)
        np.testing.assert_array_equal(convert(isa, given, target, threads), want)


@pytest.mark.parametrize("step", [1, 2])
def test_halves(isa: str, step: int) -> None:
    halves = np.repeat(np.arange(65536, dtype=np.uint16).view("f2"), step)[::step]
    with np.errstate(invalid="ignore"):  # AArch64 notes signalling NaN
        want = halves.astype("f4")
    np.testing.assert_array_equal(convert(isa, halves, "f4"), want)
    rng = np.random.default_rng(1)
    bits = rng.integers(0, 2**32, 200003, dtype=np.uint32).view("f4")
    x = np.concatenate([bits, (rng.standard_normal(100001) * 1e-5).astype("f4")])
    with np.errstate(over="ignore", invalid="ignore"):
        np.testing.assert_array_equal(convert(isa, np.repeat(x, step)[::step], "f2"), x.astype("f2"))
