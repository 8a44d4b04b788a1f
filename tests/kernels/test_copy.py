"""Strided copies and fills against numpy."""

from __future__ import annotations

import numpy as np
import pytest

from pnnx_fast.runtime.kernel import call


@pytest.mark.parametrize("dtype", ["u1", "i2", "f4", "f8", "c16"])
@pytest.mark.parametrize("shape", [(1, 3, 7, 9), (2, 33, 5, 1), (1, 1, 1, 1), (2, 16, 17, 40)])
@pytest.mark.parametrize("threads", [1, 2])
def test_layout_change(isa: str, dtype: str, shape: tuple[int, ...], threads: int) -> None:
    x = np.arange(np.prod(shape), dtype=np.int64).astype(dtype).reshape(shape)
    want = x.transpose(0, 2, 3, 1)
    y = np.empty(want.shape, dtype)
    xs = [s // x.itemsize for s in want.strides]
    ys = [s // x.itemsize for s in y.strides]
    call(isa, "copy", threads, x=x, y=y, itemsize=x.itemsize, rank=4, shape=want.shape, xs=xs, ys=ys)
    np.testing.assert_array_equal(y, want)
