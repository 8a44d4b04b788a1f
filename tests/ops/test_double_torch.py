"""Operators of float64 keep its accuracy: against PyTorch, to twelve digits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from graph_of_one import run

torch = pytest.importorskip("torch")
F, nn = torch.nn.functional, torch.nn
pytestmark = pytest.mark.torch
RNG = np.random.default_rng(0)


def draw(*shape: int) -> np.ndarray:
    return np.asarray(RNG.standard_normal(shape))


def same(got: Any, want: Any) -> None:
    got = got if isinstance(got, (tuple, list)) else [got]
    want = want if isinstance(want, (tuple, list)) else [want]
    assert len(got) == len(want)
    for g, w in zip(got, want, strict=True):
        w = w.detach().numpy()
        assert (g.dtype, g.shape) == (np.float64, w.shape)
        np.testing.assert_allclose(g, w, rtol=0, atol=1e-12 * max(np.abs(w[np.isfinite(w)]).max(initial=0), 1e-300))


@pytest.mark.parametrize(
    "axes, options",
    [
        (1, {}),
        (1, {"stride": 2, "padding": 3, "dilation": 2}),
        (2, {"stride": (2, 3), "padding": (5, 0), "groups": 2}),
        (2, {"groups": 4, "padding": 1}),
        (2, {"dilation": 3, "bias": False}),
        (3, {"padding": 1, "stride": (1, 2, 1)}),
    ],
)
@pytest.mark.parametrize("last", [True, False])
def test_convolutions(axes: int, options: dict[str, Any], last: bool) -> None:
    layer = getattr(nn, f"Conv{axes}d")(4, 8, 3, **options).double()
    x = draw(2, 4, *[9, 8, 7][:axes])
    weights = {k: v.detach().numpy() for k, v in layer.named_parameters()}
    given = {k: v if isinstance(v, (tuple, bool)) else (v,) * axes for k, v in options.items() if k != "groups"}
    got = run(f"nn.Conv{axes}d", x, weights=weights, last=last, groups=options.get("groups", 1), **given)
    same(got, layer(torch.from_numpy(x)))


@pytest.mark.parametrize(
    "sizes, channels, window, options",
    [
        ((2, 1, 101), 9, (10,), {"stride": 5}),
        ((3, 5, 1), 33, (1,), {}),
        ((1, 33, 40), 150, (3,), {"padding": 2, "dilation": 2}),
        ((2, 3, 23, 21), 17, (7, 5), {"stride": (2, 3), "padding": (3, 2)}),
        ((1, 3, 2, 3), 5, (3, 3), {"padding": 4, "stride": 3}),
        ((2, 130, 6, 7), 20, (3, 3), {"padding": 1}),
        ((1, 70, 9, 5), 70, (3, 3), {"padding": (3, 2), "groups": 70, "dilation": (3, 2), "stride": (1, 2)}),
        ((2, 6, 9, 5), 12, (3, 2), {"padding": 1, "groups": 6}),
        ((2, 12, 8, 8), 30, (3, 3), {"padding": 1, "groups": 3}),
        ((1, 3, 5, 6, 7), 10, (2, 3, 4), {"padding": (1, 0, 3), "dilation": (1, 2, 1)}),
        ((2, 19, 3, 4, 5), 19, (3, 3, 3), {"padding": 1, "groups": 19, "stride": (2, 1, 1)}),
    ],
)
@pytest.mark.parametrize("threads", [1, 2])
def test_convolutions_of_odd_shapes(
    isa: str, threads: int, sizes: tuple[int, ...], channels: int, window: tuple[int, ...], options: dict[str, Any]
) -> None:
    x, c = draw(*sizes), draw(channels)
    w = draw(channels, sizes[1] // options.get("groups", 1), *window)
    x[0, 0, ..., 0], x[-1, -1, ..., -1] = np.nan, np.inf
    kind = f"F.conv{len(window)}d"
    each = {k: v if isinstance(v, tuple) or k == "groups" else (v,) * len(window) for k, v in options.items()}
    got = run(kind, x, w, c, names=["input", "weight", "bias"], isa=isa, threads=threads, **each)
    same(got, getattr(F, kind[2:])(*map(torch.from_numpy, (x, w, c)), **options))


@pytest.mark.parametrize(
    "axes, options",
    [
        (1, {"stride": 2}),
        (1, {"stride": 5, "dilation": 2}),
        (2, {"stride": 2, "padding": 1, "output_padding": 1, "groups": 2}),
        (2, {"stride": 17, "padding": 2}),
        (2, {"padding": 2, "dilation": 2, "groups": 4}),
        (3, {"stride": (1, 2, 3)}),
    ],
)
def test_transposed_convolutions(axes: int, options: dict[str, Any]) -> None:
    layer = getattr(nn, f"ConvTranspose{axes}d")(4, 8, 3, **options).double()
    x = draw(2, 4, *[6, 5, 4][:axes])
    weights = {k: v.detach().numpy() for k, v in layer.named_parameters()}
    got = run(f"nn.ConvTranspose{axes}d", x, weights=weights, **options)
    same(got, layer(torch.from_numpy(x)))


ACTIVATIONS: list[tuple[str, list[float], Callable[[Any], Any]]] = [
    ("relu", [], F.relu),
    ("clip", [-0.5, 0.75], lambda x: x.clamp(-0.5, 0.75)),
    ("leaky_relu", [0.3], lambda x: F.leaky_relu(x, 0.3)),
    ("sigmoid", [], torch.sigmoid),
    ("silu", [], F.silu),
    ("hardswish", [], F.hardswish),
    ("hardsigmoid", [], F.hardsigmoid),
    ("gelu", [], F.gelu),
    ("gelu_tanh", [], lambda x: F.gelu(x, approximate="tanh")),
    ("tanh", [], torch.tanh),
    ("mish", [], F.mish),
]


@pytest.mark.parametrize("name, params, function", ACTIVATIONS)
@pytest.mark.parametrize("late", [True, False])
def test_fused_activations_and_residuals(
    name: str, params: list[float], function: Callable[[Any], Any], late: bool
) -> None:
    x, w, c, z = draw(2, 4, 6, 6), draw(3, 4, 3, 3), draw(3), draw(2, 3, 4, 4)
    fused: dict[str, Any] = {"activation": name, "activation_params": params, "residual_late": late}
    got = run("fused.Conv2d", x, z, names=["input", "residual"], weights={"weight": w, "bias": c}, **fused)
    plain, other = F.conv2d(*map(torch.from_numpy, (x, w, c))), torch.from_numpy(z)
    same(got, function(plain) + other if late else function(plain + other))
    rows, matrix, more = draw(2, 5, 4), draw(3, 4), draw(2, 5, 3)
    weights = {"weight": matrix, "bias": c}
    got = run("fused.Linear", rows, more, names=["input", "residual"], weights=weights, **fused)
    plain, other = F.linear(*map(torch.from_numpy, (rows, matrix, c))), torch.from_numpy(more)
    same(got, function(plain) + other if late else function(plain + other))


def test_gates_and_other_paddings() -> None:
    x, w, gate = draw(1, 4, 6, 6), draw(2, 4, 1, 1), draw(1, 4, 1, 1)
    got = run("fused.Conv2d", x, gate, names=["input", "gate"], weights={"weight": w})
    same(got, F.conv2d(torch.from_numpy(x * gate), torch.from_numpy(w)))
    w = draw(2, 4, 3, 3)
    got = run("nn.Conv2d", x, weights={"weight": w}, padding=[1, 1, 1, 1], padding_mode="reflect")
    same(got, F.conv2d(F.pad(torch.from_numpy(x), (1, 1, 1, 1), "reflect"), torch.from_numpy(w)))


@pytest.mark.parametrize(
    "mask, options",
    [
        (None, {}),
        (None, {"is_causal": True}),
        (draw(5, 7), {}),
        (draw(2, 1, 5, 7) > 0, {"scale": 0.3}),
        (np.where(draw(5, 7) > 0, 0.0, -np.inf), {}),
        (np.zeros((5, 7), bool), {}),
    ],
)
def test_attention(mask: np.ndarray | None, options: dict[str, Any]) -> None:
    q, k, v = draw(2, 3, 5, 4), draw(2, 3, 7, 4), draw(2, 3, 7, 6)
    given = [q, k, v] if mask is None else [q, k, v, mask]
    got = run("F.scaled_dot_product_attention", *given, names=["query", "key", "value", "attn_mask"], **options)
    same(got, F.scaled_dot_product_attention(*map(torch.from_numpy, given), **options))


def test_attention_without_heads() -> None:
    x = np.empty((1, 0, 3, 4))
    assert run("F.scaled_dot_product_attention", x, x, x).shape == (1, 0, 3, 4)


def test_attention_with_shared_heads() -> None:
    given = [draw(2, 6, 5, 4), draw(2, 2, 7, 4), draw(2, 2, 7, 4)]
    got = run("F.scaled_dot_product_attention", *given, names=["query", "key", "value"], enable_gqa=True)
    same(got, F.scaled_dot_product_attention(*map(torch.from_numpy, given), enable_gqa=True))


@pytest.mark.parametrize("extra", [{}, {"add_bias_kv": True, "add_zero_attn": True}, {"batch_first": True}])
@pytest.mark.parametrize("masked", [True, False])
def test_attention_layers(extra: dict[str, Any], masked: bool) -> None:
    layer = nn.MultiheadAttention(8, 2, **extra).double()
    x, mask = draw(5, 3, 8), np.triu(np.ones((5, 5), bool), 1) if not extra.get("batch_first") else None
    given = [x] if mask is None or not masked else [x, mask]
    weights = {k: v.detach().numpy() for k, v in layer.named_parameters()}
    got = run(
        "nn.MultiheadAttention", *given, names=["query", "attn_mask"], weights=weights, outputs=2, embed_dim=8,
        num_heads=2, **extra,
    )  # fmt: skip
    t = torch.from_numpy(x)
    same(got, layer(t, t, t, attn_mask=None if len(given) == 1 else torch.from_numpy(mask)))


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"num_layers": 2, "bidirectional": True},
        {"batch_first": True, "bias": False},
        {"proj_size": 2, "bidirectional": True},
        {"nonlinearity": "relu"},
    ],
)
@pytest.mark.parametrize("started", [True, False])
def test_recurrent_layers(kind: str, options: dict[str, Any], started: bool) -> None:
    if ("proj_size" in options and kind != "LSTM") or ("nonlinearity" in options and kind != "RNN"):
        pytest.skip("of another layer")
    layer = getattr(nn, kind)(4, 5, **options).double()
    x = draw(6, 3, 4)
    lead = ((2 if options.get("bidirectional") else 1) * options.get("num_layers", 1), 6 if "bias" in options else 3)
    states = [draw(*lead, options.get("proj_size", 5)), draw(*lead, 5)][: 2 if kind == "LSTM" else 1]
    weights = {k: v.detach().numpy() for k, v in layer.named_parameters()}
    count = 3 if kind == "LSTM" else 2
    got = run(
        f"nn.{kind}", x, *(states if started else []), weights=weights, outputs=count, input_size=4, hidden_size=5,
        **options,
    )  # fmt: skip
    given = [torch.from_numpy(s) for s in states]
    y, last = layer(torch.from_numpy(x), *([tuple(given) if count == 3 else given[0]] if started else []))
    same(got, [y, *last] if count == 3 else [y, last])


@pytest.mark.parametrize("axes, mode", [*((n, m) for n in (2, 3) for m in ("nearest", "bilinear")), (2, "bicubic")])
@pytest.mark.parametrize("border", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("corners", [True, False])
def test_samples_of_images(axes: int, mode: str, border: str, corners: bool) -> None:
    x, grid = draw(2, 3, *[5, 6, 7][:axes]), RNG.uniform(-1.6, 1.6, (2, *[4, 5, 3][:axes], axes))
    grid[0, 0, 0] = 1e12
    if mode != "nearest":
        grid[0, 1, 0, ..., 0] = np.nan
    named = {"mode": mode, "padding_mode": border, "align_corners": corners}
    same(run("F.grid_sample", x, grid, **named), F.grid_sample(torch.from_numpy(x), torch.from_numpy(grid), **named))


@pytest.mark.parametrize("name", ["exp", "expm1", "tanh", "log", "log1p"])
def test_exponentials_to_the_last_places(isa: str, name: str) -> None:
    rng = np.random.default_rng(1)
    x = np.concatenate([rng.uniform(-750, 715, 3000), rng.uniform(-2, 2, 3000), np.exp(rng.uniform(-740, 709, 3000))])
    x = np.concatenate([x, -x[6000:], [0.0, -0.0, np.inf, -np.inf, np.nan, 5e-324, 1e-310, -1.0, 1.0, 709.78, -745.1]])
    with np.errstate(all="ignore"):
        want = getattr(np, name)(x.astype(np.longdouble)).astype(np.float64)
    got = run(f"torch.{name}", x, isa=isa)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
    finite = np.isfinite(want)
    np.testing.assert_array_equal(got[~finite], want[~finite])
    assert (np.abs(got[finite] - want[finite]) <= 3 * np.spacing(np.abs(want[finite]))).all()
