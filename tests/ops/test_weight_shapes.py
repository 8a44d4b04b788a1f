"""A weight whose shape contradicts the parameters of its module is an error that names the operator."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from graph_of_one import run

import pnnx_fast
from pnnx_fast import errors

_CONV = {"in_channels": 4, "out_channels": 6, "stride": (1, 1), "padding": (0, 0), "dilation": (1, 1)}
_RNN = {"input_size": 4, "hidden_size": 3, "num_layers": 1, "bias": True, "batch_first": True, "bidirectional": False}
_HEADS = {"embed_dim": 4, "num_heads": 2, "bias": True, "batch_first": True}
_ATTENTION = {"in_proj_weight": (12, 4), "in_proj_bias": (12,), "out_proj.weight": (4, 4), "out_proj.bias": (4,)}
_PARTS = {"q_proj_weight": (4, 4), "k_proj_weight": (4, 3), "v_proj_weight": (4, 5), "in_proj_bias": (12,)}
_PARTS |= {"out_proj.weight": (4, 4), "out_proj.bias": (4,)}


def _gates(gates: int) -> dict[str, tuple[int, ...]]:
    return {
        "weight_ih_l0": (3 * gates, 4),
        "weight_hh_l0": (3 * gates, 3),
        "bias_ih_l0": (3 * gates,),
        "bias_hh_l0": (3 * gates,),
    }


CASES: list[tuple[str, dict[str, Any], dict[str, tuple[int, ...]], list[tuple[int, ...]]]] = [
    ("nn.Linear", {"in_features": 4, "out_features": 6, "bias": True}, {"weight": (6, 4), "bias": (6,)}, [(2, 4)]),
    ("nn.Embedding", {"num_embeddings": 8, "embedding_dim": 6}, {"weight": (8, 6)}, [(2,)]),
    ("nn.PReLU", {"num_parameters": 4}, {"weight": (4,)}, [(2, 4, 3)]),
    ("nn.GroupNorm", {"num_groups": 2, "num_channels": 4, "eps": 1e-5, "affine": True},
     {"weight": (4,), "bias": (4,)}, [(2, 4, 3)]),
    ("nn.LayerNorm", {"normalized_shape": (4, 3), "eps": 1e-5, "elementwise_affine": True},
     {"weight": (4, 3), "bias": (4, 3)}, [(2, 4, 3)]),
    ("nn.RMSNorm", {"normalized_shape": (3,), "eps": 1e-5, "elementwise_affine": True}, {"weight": (3,)}, [(2, 3)]),
    ("nn.BatchNorm1d", {"num_features": 4, "eps": 1e-5, "affine": True},
     dict.fromkeys(("weight", "bias", "running_mean", "running_var"), (4,)), [(2, 4, 3)]),
    ("nn.InstanceNorm2d", {"num_features": 4, "eps": 1e-5, "affine": True},
     {"weight": (4,), "bias": (4,)}, [(2, 4, 3, 3)]),
    ("nn.Conv2d", {**_CONV, "kernel_size": (3, 2), "groups": 2, "bias": True},
     {"weight": (6, 2, 3, 2), "bias": (6,)}, [(1, 4, 5, 5)]),
    ("nn.ConvTranspose2d", {**_CONV, "kernel_size": (3, 2), "groups": 2, "bias": True, "output_padding": (0, 0)},
     {"weight": (4, 3, 3, 2), "bias": (6,)}, [(1, 4, 5, 5)]),
    ("nn.LSTM", _RNN, _gates(4), [(2, 3, 4)]),
    ("nn.GRU", _RNN, _gates(3), [(2, 3, 4)]),
    ("nn.RNN", _RNN, _gates(1), [(2, 3, 4)]),
    ("nn.MultiheadAttention", {**_HEADS, "add_bias_kv": True},
     {**_ATTENTION, "bias_k": (1, 1, 4), "bias_v": (1, 1, 4)}, [(2, 3, 4)]),
    ("nn.MultiheadAttention", {**_HEADS, "kdim": 3, "vdim": 5}, _PARTS, [(2, 3, 4), (2, 3, 3), (2, 3, 5)]),
]  # fmt: skip


def _zeros(shapes: dict[str, tuple[int, ...]]) -> dict[str, Any]:
    return {name: np.zeros(shape, np.float32) for name, shape in shapes.items()}


@pytest.mark.parametrize(("kind", "params", "shapes", "sizes"), CASES)
def test_every_dimension_of_every_weight(
    kind: str, params: dict[str, Any], shapes: dict[str, tuple[int, ...]], sizes: list[tuple[int, ...]]
) -> None:
    inputs = [np.zeros(size, np.int64 if kind == "nn.Embedding" else np.float32) for size in sizes]
    run(kind, *inputs, weights=_zeros(shapes), **params)
    for name, shape in shapes.items():
        longer = [(*shape[:i], shape[i] + 1, *shape[i + 1 :]) for i in range(len(shape))]
        doubled = [(*shape[:i], shape[i] * 2, *shape[i + 1 :]) for i in range(len(shape))]
        for wrong in (*longer, *doubled, (1, *shape)):
            with pytest.raises(errors.ShapeError, match=kind):
                run(kind, *inputs, weights=_zeros({**shapes, name: wrong}), **params)


def test_weights_of_layers_that_are_not_there() -> None:
    more = {name.replace("l0", "l1"): shape for name, shape in _gates(4).items()} | {"weight_ih_l1": (12, 3)}
    x = np.zeros((2, 3, 4), np.float32)
    with pytest.raises(errors.ParameterError, match=r"nn\.LSTM.*num_layers|nn\.LSTM.*other layers"):
        run("nn.LSTM", x, weights=_zeros({**_gates(4), **more}), **_RNN)
    without = {name: shape for name, shape in _gates(4).items() if name != "bias_ih_l0"}
    with pytest.raises(errors.ParameterError, match=r"nn\.LSTM"):
        run("nn.LSTM", x, weights=_zeros(without), **_RNN)


def test_validation_tells_all_of_them() -> None:
    graph = pnnx_fast.Graph()
    x, y = graph.new_operand("x"), graph.new_operand("y")
    graph.new_operator("pnnx.Input", "in", outputs=[x])
    attrs = {
        "weight": pnnx_fast.Attribute(np.zeros((3, 5), np.float32)),
        "bias": pnnx_fast.Attribute(np.zeros(4, np.float32)),
    }
    params = {"in_features": 4, "out_features": 3, "bias": True}
    graph.new_operator("nn.Linear", "layer", inputs=[x], outputs=[y], params=params, attrs=attrs)
    graph.new_operator("pnnx.Output", "out", inputs=[y])
    with pytest.raises(errors.GraphError, match=r"weight has shape \(3, 5\)[\s\S]*bias has shape \(4,\)"):
        graph.validate()


@pytest.mark.parametrize(
    "kind, params, weights, shapes", [c for c in CASES if "Norm" in c[0]], ids=lambda v: str(v)[:16]
)
def test_missing_weights_of_norms(
    kind: str, params: dict[str, Any], weights: dict[str, tuple[int, ...]], shapes: list[tuple[int, ...]]
) -> None:
    left = _zeros({name: shape for name, shape in weights.items() if name != "weight"})
    x = np.ones(shapes[0], np.float32)
    with pytest.raises(errors.ParameterError, match="weight' is missing"):
        run(kind, x, weights=left, **params)
    key = "affine" if "affine" in params else "elementwise_affine"
    if "Batch" not in kind:
        run(kind, x, **{**params, key: False})
