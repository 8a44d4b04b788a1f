"""Recurrent kernels against numpy: cells, directions, projection, sizes around vectors and tiles, threads."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from guard import guarded

from pnnx_fast._core.program import ADDERS, ISAS
from pnnx_fast.runtime.kernel import call, plan

GATES = {"lstm_f32": 4, "gru_f32": 3, "rnn_f32": 1}


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def cell(kernel: str, g: np.ndarray, s: np.ndarray, h: np.ndarray, c: np.ndarray, bias: np.ndarray) -> tuple[Any, Any]:
    """One step: g from the input, s = h W_hh^T; both (rows, gates, hidden)."""
    if kernel == "lstm_f32":
        i, f, z, o = np.moveaxis(g + s, 1, 0)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(z)
        return sigmoid(o) * np.tanh(c), c
    if kernel == "gru_f32":
        r, z = sigmoid(g[:, 0] + s[:, 0]), sigmoid(g[:, 1] + s[:, 1])
        n = np.tanh(g[:, 2] + r * (s[:, 2] + bias))
        return (1 - z) * n + z * h, c
    return np.tanh(g[:, 0] + s[:, 0]), c


def rounded(h: np.ndarray) -> np.ndarray:
    """What integers up to 127 with a scale for each row leave of a state."""
    h = h.astype(np.float32)
    scale = np.float32(127) / np.where(h.any(1), np.abs(h).max(1), np.float32(127))[:, None]
    return (np.trunc(h * scale + np.copysign(np.float32(0.5), h)) / scale).astype(np.float64)


class Layer:
    """Random operands of one layer and the numpy result."""

    rounded = False
    """Whether states are rounded to int8 before every step."""
    form = 0
    """How the recurrent weights are packed: for tiles, in wide blocks (of an LSTM), for products in pairs."""

    def __init__(self, kernel: str, dirs: int, steps: int, rows: int, hidden: int, proj: int = 0, state: bool = True):
        rng = np.random.default_rng(hidden)
        self.kernel, self.dirs, self.steps, self.rows, self.hidden = kernel, dirs, steps, rows, hidden
        self.gates, self.out, self.proj = GATES[kernel], proj or hidden, proj

        def draw(*shape: int) -> np.ndarray:
            return guarded(rng.uniform(-1, 1, shape).astype("f4") / np.float32(np.sqrt(shape[-1])))

        self.g = draw(steps, rows, dirs, self.gates, hidden)
        self.w = [draw(self.gates * hidden, self.out) for _ in range(dirs)]
        self.wr = [draw(proj, hidden) if proj else None for _ in range(dirs)]
        self.bias = [draw(hidden) for _ in range(dirs)]
        self.h0 = draw(dirs, rows, self.out) if state else None
        self.c0 = draw(dirs, rows, hidden) if state and kernel == "lstm_f32" else None

    def expected(self) -> tuple[np.ndarray, np.ndarray]:
        y = np.zeros((self.steps, self.rows, self.dirs, self.out))
        cs = np.zeros((self.dirs, self.rows, self.hidden))
        for d in range(self.dirs):
            h = np.zeros((self.rows, self.out)) if self.h0 is None else self.h0[d].astype("f8")
            c = cs[d] if self.c0 is None else self.c0[d].astype("f8")
            for t in range(self.steps)[:: -1 if d else 1]:
                before = rounded(h) if self.rounded else h
                s = (before @ self.w[d].T.astype("f8")).reshape(self.rows, self.gates, self.hidden)
                h, c = cell(self.kernel, self.g[t, :, d], s, h, c, self.bias[d])
                h = h if self.wr[d] is None else h @ self.wr[d].T
                y[t, :, d] = h
            cs[d] = c
        return y, cs

    def pack(self, isa: str, x: np.ndarray | None, gates: int, form: int = 0) -> np.ndarray | None:
        if x is None:
            return None
        fields = {"gates": gates, "units": len(x) // gates, "k": x.shape[1], "rows": 0, "dirs": 1, "variant": form}
        y = guarded(np.empty(plan(isa, "recurrent_pack_f32", **fields)[1], np.uint8))
        call(isa, "recurrent_pack_f32", 2, x=x, y=y, **fields)
        return y

    @staticmethod
    def products(directions: list[np.ndarray], batch_first: bool) -> np.ndarray:
        """Products with the input, directions side by side."""
        g = np.stack(directions, 2)
        return guarded(np.ascontiguousarray(g.swapaxes(0, 1))).swapaxes(0, 1) if batch_first else guarded(g)

    def run(
        self, isa: str, threads: int, batch_first: bool = False, cut: int | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """All steps; with ``cut``, so many in a first call and the rest in a second."""
        shape = (self.steps, self.rows, self.dirs, self.out)
        y = guarded(np.full((shape[1], shape[0], *shape[2:]) if batch_first else shape, np.nan, "f4"))
        y = y.swapaxes(0, 1) if batch_first else y
        c = guarded(np.full((self.dirs, self.rows, self.hidden), np.nan, "f4"))
        w = [self.pack(isa, x, self.gates, self.form) for x in self.w] + [None]
        wr = [self.pack(isa, x, 1) for x in self.wr] + [None]
        bias = [*self.bias, None] if self.gates == 3 else [None, None]
        sizes = {"gates": self.gates, "units": self.hidden, "k": self.out, "rows": self.rows, "dirs": self.dirs}
        room = plan(isa, "recurrent_pack_f32", threads, **sizes, variant=self.form)[2]
        edges = [0, self.steps] if cut is None else [0, cut, self.steps]
        for first, end in itertools.pairwise(edges):
            ends = [slice(first, end), slice(self.steps - end, self.steps - first)]
            part = self.products([self.g[ends[d], :, d] for d in range(self.dirs)], batch_first)
            call(
                isa, self.kernel, threads, gates=part, w=w[0], w_reverse=w[1], wr=wr[0], wr_reverse=wr[1],
                bias=bias[0], bias_reverse=bias[1], h0=self.h0, c0=self.c0, c=c if self.gates == 4 else None, y=y,
                scratch=guarded(np.full(c.size if self.proj else 0, np.nan, "f4")),
                rounded=guarded(np.full(threads * self.rows * self.out, np.nan, "f4")) if self.rounded else None,
                paired=guarded(np.full(room // 4, np.nan, "f4")), first=first, steps=end - first,
                total=self.steps, rows=self.rows, hidden=self.hidden, out=self.out, gst=part.strides[0] // 4,
                gsn=part.strides[1] // 4, yst=y.strides[0] // 4, ysn=y.strides[1] // 4, relu=0, form=self.form,
            )  # fmt: skip
        return y, c

    def check(self, isa: str, threads: int, batch_first: bool = False, cut: int | None = None) -> None:
        y, c = self.run(isa, threads, batch_first, cut)
        want_y, want_c = self.expected()
        np.testing.assert_allclose(y, want_y, rtol=0, atol=2e-6)
        if self.gates == 4:
            np.testing.assert_allclose(c, want_c, rtol=0, atol=3e-6)


@pytest.mark.parametrize("kernel", GATES)
@pytest.mark.parametrize("dirs", [1, 2])
@pytest.mark.parametrize("rows,hidden", [(1, 1), (1, 65), (2, 16), (3, 7), (7, 33), (13, 40)])
def test_cells(isa: str, kernel: str, dirs: int, rows: int, hidden: int) -> None:
    Layer(kernel, dirs, 5, rows, hidden).check(isa, 1)


@pytest.mark.parametrize("kernel", GATES)
@pytest.mark.parametrize("rows", [4, 5, 6, 8, 9, 10, 11, 12, 25])
@pytest.mark.parametrize("threads", [1, 2])
def test_many_rows(isa: str, kernel: str, rows: int, threads: int) -> None:
    """Every height of the tiles that take all gates of some units at once."""
    Layer(kernel, 1, 3, rows, 21).check(isa, threads, batch_first=True, cut=2)


@pytest.mark.parametrize("rows", [*range(1, 13), 25])
@pytest.mark.parametrize("hidden,proj", [(5, 0), (16, 0), (57, 0), (72, 0), (90, 17)])
@pytest.mark.parametrize("dirs,threads", [(1, 1), (1, 3), (2, 2)])
def test_wide_blocks(isa: str, rows: int, hidden: int, proj: int, dirs: int, threads: int) -> None:
    """Blocks of one to three vectors of units, whatever number of rows comes in the end."""
    layer = Layer("lstm_f32", dirs, 3, rows, hidden, proj)
    layer.form = 1
    layer.rounded = (rows, hidden) == (8, 16)  # few states: none lies between two integers
    layer.check(isa, threads, batch_first=True, cut=2)


def test_who_gets_wide_blocks(isa: str) -> None:
    """Only those whose rows come in fours or threes, and only where registers are few."""
    sizes = {"units": 64, "k": 64, "dirs": 1}
    for gates in GATES.values():
        chosen = [plan(isa, "recurrent_pack_f32", gates=gates, rows=rows, **sizes)[0] for rows in range(26)]
        few = gates == 4 and not isa.startswith("avx512")
        assert [r for r, form in enumerate(chosen) if form == 1] == ([4, 7, 8, 11, 15, 16, 19, 20, 23] if few else [])


@pytest.mark.parametrize("kernel", GATES)
@pytest.mark.parametrize("rows", [1, 2, 4, 7, 8, 9, 16, 19])
@pytest.mark.parametrize("hidden,proj", [(32, 0), (96, 0), (64, 9)])
@pytest.mark.parametrize("dirs,threads", [(1, 1), (1, 3), (2, 2)])
def test_pairs(isa: str, kernel: str, rows: int, hidden: int, proj: int, dirs: int, threads: int) -> None:
    """Products in pairs, whatever number of rows comes in the end."""
    layer = Layer(kernel, dirs, 3, rows, hidden, proj if kernel == "lstm_f32" else 0)
    layer.form = 2
    layer.rounded = (rows, hidden) == (8, 32)  # few states: none lies between two integers
    layer.check(isa, threads, batch_first=True, cut=2)


@pytest.mark.parametrize("rows", [2, 8])
def test_pairs_of_states_that_are_not_finite(isa: str, rows: int) -> None:
    """A row of them leaves the bits of the others alone, and is computed as usual; so are rows of zeros."""
    layer = Layer("gru_f32", 1, 1, rows, 64)
    layer.form = 2
    layer.h0[0, -1] = 0
    usual = layer.run(isa, 1)[0]
    layer.h0[0, 1, 3] = np.inf
    with np.errstate(invalid="ignore"):
        got, want = layer.run(isa, 1)[0], layer.expected()[0]
    others = np.arange(rows) != 1
    np.testing.assert_array_equal(got[:, others], usual[:, others])
    np.testing.assert_allclose(got, want, rtol=0, atol=2e-6)


@pytest.mark.parametrize("at", [0, 70])
def test_pairs_of_weights_that_are_not_finite(isa: str, at: int) -> None:
    layer = Layer("gru_f32", 1, 1, 8, 64)
    layer.form = 2
    layer.w[0][at, 1] = np.nan
    np.testing.assert_allclose(layer.run(isa, 1)[0], layer.expected()[0], rtol=0, atol=2e-6)


def test_who_gets_pairs(isa: str) -> None:
    """Rows that fill tiles of eight well enough, where the processor has adders beside its multipliers."""

    def chosen(rows: int, units: int = 64, k: int = 64, threads: int = 1, dirs: int = 1) -> bool:
        sizes = {"rows": rows, "units": units, "k": k, "dirs": dirs}
        return plan(isa, "recurrent_pack_f32", threads, gates=4, **sizes)[0] == 2

    pairs = not isa.startswith(("generic", "avx2")) and (ADDERS or isa.endswith("emulated"))
    filled = [rows for rows in range(1, 26) if rows / -(-rows // 8) >= 5]
    assert [rows for rows in range(26) if chosen(rows)] == (filled if pairs else [])
    assert chosen(16, threads=2) == chosen(8, threads=2, dirs=2) == pairs
    assert not chosen(8, units=48) | chosen(8, k=48) | chosen(18, threads=2)


@pytest.mark.parametrize("kernel", GATES)
@pytest.mark.parametrize("dirs", [1, 2])
@pytest.mark.parametrize("rows,hidden", [(1, 370), (5, 200), (20, 24), (2, 8)])
@pytest.mark.parametrize("threads", [2, 5])
def test_threads(kernel: str, dirs: int, rows: int, hidden: int, threads: int) -> None:
    """Threads share directions, rows or, meeting after every step, the units of wide layers."""
    Layer(kernel, dirs, 3, rows, hidden).check(ISAS[-1], threads)


@pytest.mark.parametrize("kernel", GATES)
@pytest.mark.parametrize("dirs", [1, 2])
def test_no_initial_state_and_batch_first(isa: str, kernel: str, dirs: int) -> None:
    Layer(kernel, dirs, 4, 3, 20, state=False).check(isa, 2, batch_first=True)


@pytest.mark.parametrize("dirs", [1, 2])
@pytest.mark.parametrize("rows,hidden,proj", [(1, 33, 5), (9, 20, 17), (2, 260, 170)])
@pytest.mark.parametrize("threads", [1, 4])
def test_projection(isa: str, dirs: int, rows: int, hidden: int, proj: int, threads: int) -> None:
    Layer("lstm_f32", dirs, 3, rows, hidden, proj).check(isa, threads)


@pytest.mark.parametrize("kernel,proj", [*((kernel, 0) for kernel in GATES), ("lstm_f32", 17)])
@pytest.mark.parametrize("dirs", [1, 2])
@pytest.mark.parametrize("state", [False, True])
def test_steps_in_two_calls(isa: str, kernel: str, proj: int, dirs: int, state: bool) -> None:
    Layer(kernel, dirs, 5, 3, 20, proj, state).check(isa, 2, batch_first=proj == 0, cut=2)


@pytest.mark.parametrize("kernel,proj", [*((kernel, 0) for kernel in GATES), ("lstm_f32", 17)])
@pytest.mark.parametrize("dirs,rows,hidden", [(1, 1, 19), (2, 3, 40), (1, 7, 24), (2, 1, 200)])
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("state", [False, True])
def test_states_rounded_to_int8(
    isa: str, kernel: str, proj: int, dirs: int, rows: int, hidden: int, threads: int, state: bool
) -> None:
    layer = Layer(kernel, dirs, 4, rows, hidden, proj, state)
    layer.rounded = True
    layer.check(isa, threads)


ARGUMENTS = np.concatenate(
    [np.linspace(-w, w, 16 * 600, dtype=np.float64) for w in (0.02, 0.3, 4.0, 40.0, 200.0)]
    + [np.tile(np.float64([0, np.inf, -np.inf, np.nan, 1e-30, -1e-30, 3e38, -3e38]), 20)]
).astype(np.float32)


def step_with(isa: str, kernel: str, gate: int, h: float = 0.0, c: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    """States after one step from such states, where one gate has all of the arguments and others are zero."""
    layer = Layer(kernel, 1, 1, len(ARGUMENTS) // 20, 20)
    for x in (layer.g, *layer.w, *layer.bias):
        x[:] = 0
    layer.h0[:] = h
    if layer.c0 is not None:
        layer.c0[:] = c
    layer.g[0, :, 0, gate] = ARGUMENTS.reshape(-1, 20)
    y, state = layer.run(isa, 1)
    return y.reshape(-1), state.reshape(-1)


def test_errors_of_sigmoid_and_tanh(isa: str) -> None:
    """The bounds that rnn_gates.h states, over the range of arguments; NaN stays NaN."""
    x = ARGUMENTS.astype(np.float64)
    with np.errstate(all="ignore"):
        sigmoids, tangents = 1 / (1 + np.exp(-x)), np.tanh(x)
    got = step_with(isa, "gru_f32", 1, h=1.0)[0]
    np.testing.assert_array_equal(np.isnan(got), np.isnan(x))
    np.testing.assert_allclose(got, sigmoids, rtol=1.3e-6, atol=1e-37)
    usual = np.abs(x) < 20
    np.testing.assert_allclose(got[usual], sigmoids[usual], rtol=5e-7)
    got = step_with(isa, "rnn_f32", 0)[0]
    np.testing.assert_allclose(got, tangents, rtol=2.6e-6, atol=0)
    np.testing.assert_allclose(got, tangents, rtol=0, atol=2.2e-7)


def test_infinite_state_times_a_vanishing_sigmoid(isa: str) -> None:
    """Infinity times what is not a normal number is NaN, times anything else infinity."""
    got = step_with(isa, "lstm_f32", 1, c=np.inf)[1]
    assert np.isnan(got[~(ARGUMENTS > -104)]).all()
    assert np.isinf(got[ARGUMENTS > -87]).all()


@pytest.mark.parametrize("hidden", [71, 129, 200])
@pytest.mark.parametrize("kernel", GATES)
def test_one_row_of_many_units(isa: str, kernel: str, hidden: int) -> None:
    for threads in (1, 2, 3):
        Layer(kernel, 1, 4, 1, hidden).check(isa, threads)


@pytest.mark.parametrize("kernel", GATES)
def test_threads_meet_where_they_share_a_direction(isa: str, kernel: str) -> None:
    w = np.zeros(1, "f4")
    names = ("gates", "wr", "wr_reverse", "bias", "bias_reverse", "h0", "c0", "c", "y", "scratch", "rounded", "paired")
    steps = ("first", "steps", "total", "gst", "gsn", "yst", "ysn", "relu", "form")

    def meets(threads: int, dirs: int, rows: int = 1) -> bool:
        fields = {"w": w, "w_reverse": w if dirs > 1 else None, "rows": rows, "hidden": 256, "out": 256}
        return bool(plan(isa, kernel, threads, **dict.fromkeys(names), **dict.fromkeys(steps, 0), **fields)[0])

    assert all((meets(2, 1), meets(4, 2)))
    assert not any((meets(1, 1), meets(2, 2), meets(3, 2), meets(2, 1, rows=12)))
