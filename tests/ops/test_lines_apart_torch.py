"""Lines and frames of very different size beside each other: each is transformed as if it were alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from graph_of_one import run

from pnnx_fast._core.program import ISAS
from pnnx_fast._types import Array

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.parametrize("isa", ISAS)

LENGTHS = [2, 3, 5, 12, 33, 61, 64, 67, 400, 509, 1024]
"""Also those that become convolutions, 67 and 509."""
TOLERANCE = {"f4": 2e-6, "f8": 2e-14}


def sized(dtype: str, lines: int, n: int) -> Array:
    """Numbers of which every line has a size of its own, from 1e-12 to 1e12."""
    rng = np.random.default_rng(n)
    x = rng.standard_normal((lines, n)) * 10 ** rng.uniform(-12, 12, (lines, 1))
    if dtype[0] == "f":
        return x.astype(dtype)
    return (x + 1j * np.roll(x, n // 2, 1)).astype(dtype)


def compare_lines(got: Array, want: Array) -> None:
    tolerance = TOLERANCE["f4" if got.dtype in ("f4", "c8") else "f8"]
    error, size = np.abs(got - want).max(-1), np.abs(want).max(-1)
    assert (error <= tolerance * size).all(), (
        f"of its size line {(error / size).argmax()} is {(error / size).max()} off"
    )


@pytest.mark.parametrize("name", ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"])
def test_lines_of_different_size(isa: str, name: str) -> None:
    takes_real = name in ("rfft", "ihfft")
    for n in LENGTHS:
        for dtype in ("f4", "f8") if takes_real else ("c8", "c16", "f4") if name in ("fft", "ifft") else ("c8", "c16"):
            x = sized(dtype, 35, n // 2 + 1 if name in ("irfft", "hfft") else n)
            want = getattr(np.fft, name)(x.astype("f8" if dtype[0] == "f" else "c16"), n)
            compare_lines(run(f"torch.fft.{name}", x, n=n, isa=isa), want)
            across = run(f"torch.fft.{name}", np.ascontiguousarray(x.T), n=n, dim=0, isa=isa)
            compare_lines(across.T, want)


@pytest.mark.parametrize("n", [16, 25, 67, 400])
def test_quiet_frames_beside_loud_ones(isa: str, n: int) -> None:
    x = np.random.default_rng(n).standard_normal((2, 12 * n)).astype("f4") * np.float32(1e-6)
    x[0, 6 * n], x[1, 7 * n] = 1, np.nan
    window = np.hanning(n + 2)[1:-1].astype("f4")
    params: dict[str, Any] = {"n_fft": n, "hop_length": n // 4, "return_complex": True}
    got = run("torch.stft", x, window, names=("input", "window"), isa=isa, **params)
    wide = (torch.from_numpy(v.astype("f8")) for v in (x, window))
    want = torch.stft(next(wide), window=next(wide), **params).numpy()
    silent = np.isnan(want).any(1)
    assert (np.isnan(got).any(1) == silent).all()
    compare_lines(got.swapaxes(1, 2)[~silent], want.swapaxes(1, 2)[~silent])
    logs = [np.log10(np.abs(v[0]) ** 2 + 1e-20) for v in (got, want)]
    np.testing.assert_allclose(logs[0], logs[1], rtol=0, atol=1e-3 * np.ptp(logs[1]))


@pytest.mark.parametrize("n", [16, 25, 67, 400])
def test_signals_of_quiet_spectra_beside_loud_ones(isa: str, n: int) -> None:
    parts = np.random.default_rng(n).standard_normal((2, 6, n // 2 + 1, 9)) * 10.0 ** np.arange(-9, 9, 3)[:, None, None]
    x = (parts[0] + 1j * parts[1]).astype("c8")
    x[4, :, 4] = np.nan
    params: dict[str, Any] = {"n_fft": n, "hop_length": n // 2}
    got = run("torch.istft", x, isa=isa, **params)
    want = torch.istft(torch.from_numpy(x.astype("c16")), window=torch.ones(n, dtype=torch.float64), **params).numpy()
    assert (np.isnan(got) == np.isnan(want)).all()
    assert 0 < np.isnan(got).sum() <= n
    compare_lines(np.nan_to_num(got), np.nan_to_num(want))
