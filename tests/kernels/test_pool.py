"""Pooling kernels against windows taken one by one in numpy."""

from __future__ import annotations

import functools
import itertools
from typing import Any

import numpy as np
import pytest
from guard import guarded
from strides import elements

from pnnx_fast._types import Array
from pnnx_fast.runtime.kernel import call

AXES = 3


def window(case: dict[str, Any], axis: int, o: int, size: int) -> tuple[range, int]:
    """Input positions of output position ``o``, and the extent that counts padding."""
    if "output" in case:
        n = case["output"][axis]
        begin, end = o * size // n, -(-(o + 1) * size // n)
        return range(begin, end), end - begin
    k, s, p, d = (case.get(key, default)[axis] for key, default in DEFAULTS)
    start = o * s - p
    inside = [i for i in range(start, start + (k - 1) * d + 1, d) if 0 <= i < size]
    return range(inside[0], inside[-1] + 1, d), min(start + k, size + p) - start


DEFAULTS = [("window", (1, 1, 1)), ("stride", (1, 1, 1)), ("pad", (0, 0, 0)), ("dilation", (1, 1, 1))]


def output_size(case: dict[str, Any], axis: int, size: int) -> int:
    if "output" in case:
        return int(case["output"][axis])
    k, s, p, d = (case.get(key, default)[axis] for key, default in DEFAULTS)
    if "ceil" not in case:
        return int((size + 2 * p - d * (k - 1) - 1) // s + 1)
    n = int(-(-(size + 2 * p - d * (k - 1) - 1) // s) + 1)
    return n - ((n - 1) * s >= size + p)


def reference(mode: str, case: dict[str, Any], x: Array) -> tuple[Array, Array]:
    n, c = x.shape[:2]
    sizes = [output_size(case, axis, x.shape[2 + axis]) for axis in range(AXES)]
    y, index = np.empty((n, c, *sizes)), np.zeros((n, c, *sizes), np.int64)
    for place in itertools.product(*map(range, sizes)):
        spans = [window(case, axis, o, x.shape[2 + axis]) for axis, o in enumerate(place)]
        part = x[np.ix_(range(n), range(c), *(list(s) for s, _ in spans))].astype(np.float64).reshape(n, c, -1)
        count = np.prod([extent for _, extent in spans]) if case.get("include_pad") else part.shape[-1]
        if mode == "max":
            y[(..., *place)] = part.max(-1)
            inner = np.array(list(itertools.product(*(s for s, _ in spans))))
            flat = np.ravel_multi_index(inner.T, x.shape[2:])
            index[(..., *place)] = flat[part.argmax(-1)]
        elif mode == "avg":
            y[(..., *place)] = part.sum(-1) / (case.get("divisor") or count)
        else:
            whole = np.prod(case["window"])
            y[(..., *place)] = (np.sum(part ** case["norm"], -1) / count * whole) ** (1 / case["norm"])
    return y, index


def run(isa: str, mode: str, case: dict[str, Any], x: Array, threads: int, last: bool, indices: bool = False) -> Any:
    n, c = x.shape[:2]
    sizes = [output_size(case, axis, x.shape[2 + axis]) for axis in range(AXES)]
    if last:
        # A pixel stride larger than the number of channels on both sides.
        x = np.pad(np.moveaxis(x, 1, -1), [(0, 0)] * 4 + [(0, 3)])[..., :c].transpose(0, 4, 1, 2, 3)
        frame = np.full((n, *sizes, c + 2), -7, "f4")
        y = frame[..., :c].transpose(0, 4, 1, 2, 3)
    else:
        x, y = guarded(np.ascontiguousarray(x)), guarded(np.empty((n, c, *sizes), "f4"))
        frame = y[:0]
    index = np.full(y.shape, -1, np.int64) if indices else None
    if indices and last and c > 5:  # as channels-last as the rest, or plain
        index = np.moveaxis(np.full((n, *sizes, c), -1, np.int64), -1, 1)
    lists = {key: case.get(key, default) for key, default in DEFAULTS}
    call(
        isa, f"{mode}_pool", threads, x=x, y=y, index=index, n=n, c=c, isize=x.shape[2:], osize=sizes, xs=elements(x),
        ys=elements(y), js=elements(index), adaptive="output" in case,
        include_pad=case.get("include_pad", False), divisor=case.get("divisor", 0), norm=case.get("norm", 0), **lists,
    )  # fmt: skip
    if last:
        assert (frame[..., c:] == -7).all()
    return (y, index) if indices else y


CASES: dict[str, dict[str, Any]] = {
    "3x3 s2 p1": {"size": (1, 13, 14), "window": (1, 3, 3), "stride": (1, 2, 2), "pad": (0, 1, 1)},
    "2x2": {"size": (1, 8, 9), "window": (1, 2, 2), "stride": (1, 2, 2)},
    "5x5 s1 p2": {"size": (1, 11, 9), "window": (1, 5, 5), "pad": (0, 2, 2)},
    "ceil": {"size": (1, 9, 8), "window": (1, 3, 3), "stride": (1, 2, 2), "ceil": True, "include_pad": True},
    "ceil, pad": {"size": (1, 7, 8), "window": (1, 3, 2), "stride": (1, 2, 2), "pad": (0, 1, 1), "ceil": True},
    "dilated": {"size": (1, 12, 13), "window": (1, 3, 2), "stride": (1, 2, 1), "pad": (0, 1, 1), "dilation": (1, 2, 3)},
    "3-d": {"size": (5, 6, 7), "window": (3, 2, 3), "stride": (2, 2, 1), "pad": (1, 1, 1), "include_pad": True},
    "1-d": {"size": (1, 1, 50), "window": (1, 1, 4), "stride": (1, 1, 3), "pad": (0, 0, 2)},
    "adaptive": {"size": (1, 10, 7), "output": (1, 4, 3)},
    "adaptive up": {"size": (2, 3, 4), "output": (3, 5, 4)},
    "global": {"size": (1, 7, 6), "output": (1, 1, 1)},
    "divisor": {"size": (1, 6, 6), "window": (1, 3, 3), "pad": (0, 1, 1), "divisor": 5},
}


# Lines that are cut into parts, of one vector, and short ones.
LINES: dict[str, dict[str, Any]] = {
    "3 s1": {"size": (1, 2, 603), "window": (1, 2, 3), "pad": (0, 1, 1)},
    "3 s2": {"size": (1, 3, 1201), "window": (1, 3, 3), "stride": (1, 2, 2), "pad": (0, 1, 1), "ceil": True},
    "4 s16": {"size": (2, 1, 4100), "window": (2, 1, 4), "stride": (1, 1, 16), "pad": (0, 0, 2), "include_pad": True},
    "900": {"size": (1, 1, 2100), "window": (1, 1, 900), "stride": (1, 1, 64), "pad": (0, 0, 450)},
    "far": {"size": (1, 2, 3), "window": (1, 2, 3), "stride": (1, 1, 2), "pad": (0, 1, 1), "ceil": True},
    "16": {"size": (1, 17, 16), "window": (1, 3, 3), "pad": (0, 1, 1)},
    "adaptive": {"size": (1, 20, 75), "output": (1, 3, 4)},
    "adaptive, many": {"size": (2, 3, 1203), "output": (1, 2, 600)},
    "adaptive, longest": {"size": (1, 2, 4096), "output": (1, 1, 7)},
    "adaptive, too long": {"size": (1, 2, 4097), "output": (1, 2, 5)},
    "apart": {"size": (1, 9, 100), "window": (1, 4, 20), "stride": (1, 4, 12), "pad": (0, 1, 9), "include_pad": True},
    "apart, ceil": {"size": (1, 8, 66), "window": (1, 4, 32), "stride": (1, 4, 32), "ceil": True},
}


@pytest.mark.parametrize("name", LINES)
@pytest.mark.parametrize("mode", ["max", "avg"])
def test_lines(isa: str, name: str, mode: str) -> None:
    case = LINES[name]
    x = np.random.default_rng(5).standard_normal((2, 3, *case["size"])).astype("f4")
    x[0, 1, 0, -1, -1] = np.nan
    want, where = reference(mode, case, x)
    for threads in (1, 2):
        np.testing.assert_allclose(run(isa, mode, case, x, threads, False), want, 1e-5, 2e-6)
    if mode == "max":
        y, index = run(isa, mode, case, x, 2, False, indices=True)
        np.testing.assert_array_equal(index, where)
        np.testing.assert_array_equal(y, want.astype("f4"))


@functools.lru_cache
def example(mode: str, name: str, channels: int) -> tuple[Array, Array, Array]:
    x = np.random.default_rng(1).standard_normal((2, channels, *CASES[name]["size"])).astype("f4")
    return x, *reference(mode, CASES[name], x)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("channels", [1, 3, 16, 37, 130])
@pytest.mark.parametrize("mode", ["max", "avg"])
def test_pool(isa: str, name: str, channels: int, mode: str) -> None:
    case = CASES[name]
    if mode == "avg" and "dilation" in case:
        pytest.skip("averages are not dilated")
    x, want, where = example(mode, name, channels)
    for last in (True, False):
        for threads in (1, 2) if channels == 37 else (1,):
            np.testing.assert_allclose(run(isa, mode, case, x, threads, last), want, 2e-6, 2e-6)
        if mode == "max" and channels < 40:
            for threads in (1, 2):
                y, index = run(isa, mode, case, x, threads, last, indices=True)
                np.testing.assert_array_equal(index, where)
                np.testing.assert_allclose(y, want, 1e-6)


@pytest.mark.parametrize("norm", [1.0, 2.0, 3.0])
@pytest.mark.parametrize("channels", [1, 20, 70])
def test_power_average(isa: str, norm: float, channels: int) -> None:
    case = {"window": (1, 3, 2), "stride": (1, 2, 2), "norm": norm, "include_pad": True, "ceil": True}
    x = np.random.default_rng(2).uniform(0.1, 2, (2, channels, 1, 8, 8)).astype("f4")
    want, _ = reference("lp", case, x)
    for last in (True, False):
        np.testing.assert_allclose(run(isa, "lp", case, x, 2, last), want, 1e-5)


@pytest.mark.parametrize("kernel", [3, 5])
def test_nan_and_infinity_win(isa: str, kernel: int) -> None:
    x = np.random.default_rng(3).standard_normal((1, 19, 1, 9, 9)).astype("f4")
    x[0, 3, 0, 4, 4], x[0, 5, 0, 2, 2], x[0, 18, 0, 0, 0] = np.nan, np.inf, np.nan
    x[0, 7] = -np.inf
    pad = kernel // 2
    case = {"window": (1, kernel, kernel), "pad": (0, pad, pad)}
    want, _ = reference("max", case, x)
    for last in (True, False):
        np.testing.assert_array_equal(run(isa, "max", case, x, 1, last), want.astype("f4"))


@pytest.mark.parametrize("step", [1, 2, 3])
@pytest.mark.parametrize("channels", [1, 5, 37])
def test_places_of_equal_values(isa: str, step: int, channels: int) -> None:
    """The first of equal values, -inf as much as others, but of NaN the last."""
    rng = np.random.default_rng(6)
    values = np.array([-np.inf, -np.inf, -np.inf, 0, -0.0, 1, 1, np.inf, np.nan], "f4")
    x = rng.choice(values, (2, channels, 3, 11, 41), p=[0.26, 0.26, 0.26, 0.06, 0.06, 0.03, 0.03, 0.02, 0.02])
    case = {"window": (2, 3, 3), "stride": (1, 2, step), "pad": (1, 1, 1)}
    _, where = reference("max", case, np.where(np.isnan(x), -np.inf, x).astype("f4"))
    # Of a window with NaN the last place that has one.
    late, at = reference("max", case, np.where(np.isnan(x), np.arange(x[0, 0].size).reshape(x.shape[2:]), -1.0))
    want, _ = reference("max", case, x)
    where = np.where(late >= 0, at, where)
    for last in (True, False):
        y, index = run(isa, "max", case, x, 2, last, indices=True)
        np.testing.assert_array_equal(y, want.astype("f4"))
        np.testing.assert_array_equal(index, where)


def test_large_sums_stay_accurate(isa: str) -> None:
    x = np.random.default_rng(4).uniform(0, 1, (1, 8, 1, 300, 300)).astype("f4")
    want = x.mean((2, 3, 4), dtype="f8")[..., None, None, None]
    np.testing.assert_allclose(run(isa, "avg", {"output": (1, 1, 1)}, x, 1, True), want, 1e-6)


@pytest.mark.parametrize("mode", ["max", "avg", "lp"])
@pytest.mark.parametrize("channels", [3, 8, 21, 40, 600, 1027])
@pytest.mark.parametrize("threads", [1, 3])
def test_large_windows_of_many_channels(isa: str, mode: str, channels: int, threads: int) -> None:
    """Several vectors of channels go together, in blocks, whatever the length of lines modulo four."""
    x = np.random.default_rng(channels).normal(size=(2, channels, 1, 9, 10)).astype("f4")
    case = {"window": (1, 9, 9), "norm": 2.0} if mode == "lp" else {"output": (1, 1, 1)}
    want = reference(mode, case, x)[0]
    np.testing.assert_allclose(run(isa, mode, case, x, threads, True), want, 2e-6, 1e-6)


@pytest.mark.parametrize("channels", [5, 70])
def test_nan_wins_anywhere_in_a_large_window(isa: str, channels: int) -> None:
    x = np.zeros((1, channels, 1, 9, 11), "f4")
    places = np.arange(channels) * 17 % 99
    x.reshape(channels, 99)[np.arange(channels), places] = np.nan
    x[:, 3] = -np.inf
    got = run(isa, "max", {"output": (1, 1, 1)}, x, 1, True).reshape(-1)
    assert np.isnan(np.delete(got, 3)).all()
    assert got[3] == -np.inf
