"""Recurrent layers against PyTorch: layers, directions, states, batches, projections, missing biases."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from graph_of_one import run

from pnnx_fast.errors import ParameterError, ShapeError
from pnnx_fast.ir.outputs import flat
from pnnx_fast.ops import recurrent

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.filterwarnings("ignore:LSTM with projections")

OPTIONS: list[dict[str, Any]] = [
    {},
    {"bias": False, "batch_first": True},
    {"bidirectional": True},
    {"num_layers": 3, "batch_first": True},
    {"num_layers": 2, "bidirectional": True, "batch_first": True},
]
KINDS: list[tuple[str, dict[str, Any]]] = [
    ("LSTM", {}),
    ("LSTM", {"proj_size": 4}),
    ("GRU", {}),
    ("RNN", {}),
    ("RNN", {"nonlinearity": "relu"}),
]


def draw(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype("f4")


def make(kind: str, hidden: int = 9, **options: Any) -> tuple[Any, dict[str, np.ndarray], dict[str, Any]]:
    torch.manual_seed(0)
    module = getattr(torch.nn, kind)(5, hidden, **options).eval()
    weights = {k: p.detach().numpy() for k, p in module.named_parameters()}
    params = {"input_size": 5, "hidden_size": hidden, "num_layers": 1, "bias": True, "batch_first": False}
    return module, weights, params | {"bidirectional": False} | options


def arrays_of(value: Any) -> list[np.ndarray]:
    return [x.detach().numpy() for x in flat(value)]


def check_layers(
    kind: str, extra: dict[str, Any], options: dict[str, Any], batched: bool, stateful: bool, items: int = 3
) -> None:
    module, weights, params = make(kind, **options, **extra)
    batch = (items,) if batched else ()
    x = draw(items, 6, 5) if batched and module.batch_first else draw(6, *batch, 5)
    copies = module.num_layers * (2 if module.bidirectional else 1)
    sizes = [module.proj_size or 9, 9] if kind == "LSTM" else [9]
    states = [draw(copies, *batch, n) for n in sizes] if stateful else []
    tensors = [torch.from_numpy(s) for s in states]
    given = [tuple(tensors) if kind == "LSTM" else tensors[0]] if stateful else []
    want = arrays_of(module(torch.from_numpy(x), *given))
    got = run("nn." + kind, x, *states, weights=weights, outputs=len(want), threads=2, **params)
    for g, w in zip(got, want, strict=True):
        assert g.shape == w.shape
        np.testing.assert_allclose(g, w, rtol=0, atol=2e-6)
    alone = run("nn." + kind, x, *states, weights=weights, **params)
    np.testing.assert_array_equal(alone, got[0])


@pytest.mark.parametrize("kind,extra", KINDS)
@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("batched", [True, False])
@pytest.mark.parametrize("stateful", [True, False])
def test_layers(kind: str, extra: dict[str, Any], options: dict[str, Any], batched: bool, stateful: bool) -> None:
    check_layers(kind, extra, options, batched, stateful)


@pytest.mark.parametrize("kind,extra", KINDS)
@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("stateful", [True, False])
def test_batches_of_nothing(kind: str, extra: dict[str, Any], options: dict[str, Any], stateful: bool) -> None:
    check_layers(kind, extra, options, batched=True, stateful=stateful, items=0)


@pytest.mark.parametrize("shape", [(0, 2, 5), (2, 2, 0)])
def test_no_steps_and_no_features_are_refused(shape: tuple[int, ...]) -> None:
    _, weights, params = make("GRU")
    with pytest.raises(ShapeError, match="neither without steps nor features"):
        run("nn.GRU", np.zeros(shape, "f4"), weights=weights, **params)


@pytest.mark.parametrize("kind,extra", KINDS)
@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("rows", [1, 2, 4])
def test_spans(
    kind: str, extra: dict[str, Any], options: dict[str, Any], rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Layers that are computed a few steps at a time."""
    monkeypatch.setattr(recurrent, "SPAN_BYTES", 16)
    monkeypatch.setattr(recurrent, "SPAN_ROWS", rows)
    check_layers(kind, extra, options, batched=rows != 2, stateful=rows == 4)


@pytest.mark.parametrize("kind,extra", [*KINDS, ("LSTM", {"proj_size": 64})])
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_many_rows_of_many_units(kind: str, extra: dict[str, Any], bidirectional: bool, threads: int) -> None:
    """Sizes whose products go in pairs where the processor gains by that."""
    module, weights, params = make(kind, 96, bidirectional=bidirectional, **extra)
    x = draw(5, 15, 5)
    x[:, 3] = 0
    want = arrays_of(module(torch.from_numpy(x)))
    got = run("nn." + kind, x, weights=weights, outputs=len(want), threads=threads, **params)
    for g, w in zip(got, want, strict=True):
        np.testing.assert_allclose(g, w, rtol=0, atol=2e-6)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_one_tensor_as_both_states(options: dict[str, Any]) -> None:
    """The converter names a tensor that serves as both states once."""
    module, weights, params = make("LSTM", **options)
    x, state = draw(3, 3, 5), draw(module.num_layers * (2 if module.bidirectional else 1), 3, 9)
    want = arrays_of(module(torch.from_numpy(x), (torch.from_numpy(state),) * 2))
    got = run("nn.LSTM", x, state, weights=weights, outputs=3, **params)
    for g, w in zip(got, want, strict=True):
        np.testing.assert_allclose(g, w, rtol=0, atol=2e-6)


def test_swapped_outputs() -> None:
    module, weights, params = make("LSTM")
    want = arrays_of(module(torch.from_numpy(draw(6, 2, 5))))
    got = run("nn.LSTM", draw(6, 2, 5), weights=weights, outputs=3, pnnx_rnn_output_swapped=1, **params)
    for g, w in zip(got, [want[1], want[2], want[0]], strict=True):
        np.testing.assert_allclose(g, w, rtol=0, atol=2e-6)


def test_double_precision_goes_through_float() -> None:
    module, weights, params = make("GRU")
    x = draw(6, 2, 5)
    got = run("nn.GRU", x.astype("f8"), weights=weights, **params)
    assert got.dtype == np.float64
    np.testing.assert_allclose(got, module(torch.from_numpy(x))[0].detach().numpy(), rtol=0, atol=2e-6)


def test_errors() -> None:
    _, weights, params = make("GRU")
    with pytest.raises(ShapeError, match="initial state"):
        run("nn.GRU", draw(6, 2, 5), draw(1, 3, 9), weights=weights, **params)
    with pytest.raises(ShapeError, match="weight_ih_l0"):
        run("nn.GRU", draw(6, 2, 4), weights=weights, **params)
    with pytest.raises(ParameterError, match="weight_hh_l0"):
        run("nn.GRU", draw(6, 2, 5), weights={k: v for k, v in weights.items() if "hh" not in k}, **params)
    _, weights, params = make("LSTM")
    names = ["input", "initial_c"]
    with pytest.raises(ParameterError, match="both initial states"):
        run("nn.LSTM", draw(6, 2, 5), draw(1, 2, 9), names=names, weights=weights, **params)
