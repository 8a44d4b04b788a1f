"""Concatenation without copies: parts are written in place and results do not change."""

from __future__ import annotations

import numpy as np
import pytest

import pnnx_fast

HEAD = "7767517\n{ops} {operands}\npnnx.Input in 0 1 x #x=(1,8,4,4)f32\n"

# name -> (operators, copies that remain, numpy reference)
GRAPHS = {
    "two parts": ("F.relu a 1 1 x a\nF.silu b 1 1 x b\ntorch.cat c 2 1 a b y dim=1\n", 0),
    "an input cannot be placed": ("F.relu a 1 1 x a\ntorch.cat c 2 1 a x y dim=1\n", 1),
    "nested": (
        "F.relu a 1 1 x a\nF.silu b 1 1 x b\ntorch.cat c 2 1 a b m dim=1\n"
        "F.tanh d 1 1 x d\ntorch.cat e 2 1 d m y dim=1\n",
        0,
    ),
    "growing": (
        "F.relu a 1 1 x a\nF.silu b 1 1 x b\ntorch.cat c 2 1 a b m dim=1\nF.tanh t 1 1 m t\n"
        "torch.cat d 3 1 a b t n dim=1\nF.sigmoid s 1 1 n s\ntorch.cat e 4 1 a b t s y dim=1\n",
        0,
    ),
    "split and joined again": (
        "F.relu a 1 1 x a\ntorch.chunk c 1 2 a p q chunks=2 dim=1\nF.silu b 1 1 q b\ntorch.cat d 3 1 p q b y dim=1\n",
        0,
    ),
    "the same part twice": ("F.relu a 1 1 x a\ntorch.cat c 2 1 a a y dim=1\n", 1),
    "rows": ("F.relu a 1 1 x a\nF.silu b 1 1 x b\ntorch.cat c 2 1 a b y dim=0\n", 0),
}


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("batch", [1, 2])
def test_copies(name: str, batch: int) -> None:
    body, copies = GRAPHS[name]
    count = body.count("\n") + 2
    text = HEAD.format(ops=count, operands=count) + body + "pnnx.Output out 1 0 y\n"
    graph = pnnx_fast.Graph.parse(text)
    x = np.random.default_rng(0).standard_normal((batch, 8, 4, 4)).astype(np.float32)
    model = pnnx_fast.Model(graph, 1, optimize=False)
    kernels = [s.kernel for s in model.profile(x).steps]
    if batch == 1 or name == "rows":
        assert sum(k.startswith("copy") for k in kernels) == copies
    np.testing.assert_allclose(model(x), reference(body, x), rtol=0, atol=2e-6)


FUNCTIONS = {
    "F.relu": lambda a: np.maximum(a, 0),
    "F.silu": lambda a: a / (1 + np.exp(-a)),
    "F.tanh": np.tanh,
    "F.sigmoid": lambda a: 1 / (1 + np.exp(-a)),
}


def reference(body: str, x: np.ndarray) -> np.ndarray:
    """Evaluate the few operators of these graphs with numpy."""
    values = {"x": x}
    for line in body.splitlines():
        kind, _, n, m, *rest = line.split()
        ins, outs = rest[: int(n)], rest[int(n) : int(n) + int(m)]
        arrays = [values[i] for i in ins]
        if kind == "torch.cat":
            values[outs[0]] = np.concatenate(arrays, int(rest[-1].removeprefix("dim=")))
        elif kind == "torch.chunk":
            values.update(zip(outs, np.split(arrays[0], 2, 1), strict=True))
        else:
            values[outs[0]] = FUNCTIONS[kind](arrays[0])
    return values["y"]


def test_empty_vectors_among_parts() -> None:
    graph = pnnx_fast.Graph.parse(
        "7767517\n6 5\npnnx.Input in_0 0 1 e #e=(0)f32\npnnx.Input in_1 0 1 x #x=(1,4,3)f32\n"
        "F.relu a 1 1 x a $input=x #a=(1,4,3)f32\nF.relu6 b 1 1 x b $input=x #b=(1,4,3)f32\n"
        "torch.cat c 4 1 a e b x y dim=-2 #y=(1,12,3)f32\npnnx.Output out 1 0 y\n"
    )
    x = np.random.default_rng(0).standard_normal((1, 4, 3), np.float32)
    want = np.concatenate([np.maximum(x, 0), np.clip(x, 0, 6), x], 1)
    np.testing.assert_array_equal(pnnx_fast.Model(graph)(np.zeros(0, np.float32), x), want)
