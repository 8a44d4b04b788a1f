"""Entries that the converter's text says too little of: truth along no axes, and lists of entries."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pnnx_fast

RNG = np.random.default_rng(0)
TRUTH = "pnnx.Expression none 0 1 none expr=None\npnnx.Expression keep 0 1 keep expr={keep}\n"


@pytest.mark.parametrize("kind", ["any", "all"])
@pytest.mark.parametrize("dtype", ["bool", "u8", "f32"])
@pytest.mark.parametrize("noted, keep", [("(2,3)", "False"), ("(2,3)", "True"), ("()", "False"), ("(1,1)", "True")])
def test_truth_along_no_axes(kind: str, dtype: str, noted: str, keep: str) -> None:
    """Along an empty list of axes each entry is its own truth; the file writes it as None, which means all axes."""
    result = "u8" if dtype == "u8" else "bool"
    text = f"aten::{kind} t 3 1 x none keep y #x=(2,3){dtype} #y={noted}{result}"
    graph = f"7767517\n5 4\npnnx.Input i 0 1 x #x=(2,3){dtype}\n{TRUTH.format(keep=keep)}{text}\npnnx.Output o 1 0 y\n"
    x = np.array([[0, 2, 0], [1, 0, 3]]).astype({"u8": "u1", "f32": "f4"}.get(dtype, dtype))
    y = pnnx_fast.Model(pnnx_fast.Graph.parse(graph))(x)
    whole = x != 0 if noted == "(2,3)" else getattr(np, kind)(x, keepdims=keep == "True")
    np.testing.assert_array_equal(y, np.asarray(whole).astype("u1" if dtype == "u8" else bool), strict=True)


@pytest.mark.parametrize(
    "dim, index, noted, key",
    [
        (1, "(-1,0)", "2,2,4", (slice(None), [-1, 0])),
        (-1, "(2,1,0)", "2,3,3", (..., [2, 1, 0])),
        (0, "1", "1,3,4", [1]),
        (0, "1", "3,4", 1),
        (2, "(1)", "2,3,1", (..., [1])),
    ],
)
def test_lists_of_entries_that_became_a_single_one(dim: int, index: str, noted: str, key: Any) -> None:
    """So the converter writes ONNX's Gather with a list of indices."""
    graph = pnnx_fast.Graph.parse(
        "7767517\n3 2\npnnx.Input i 0 1 x #x=(2,3,4)f32\n"
        f"Tensor.select s 1 1 x y dim={dim} index={index} $input=x #x=(2,3,4)f32 #y=({noted})f32\npnnx.Output o 1 0 y\n"
    )
    x = RNG.standard_normal((2, 3, 4)).astype(np.float32)
    np.testing.assert_array_equal(pnnx_fast.Model(graph)(x), x[key], strict=True)


def test_pairs_of_a_strided_convolution_are_its_padding() -> None:
    """ "same" is PyTorch's without a stride only."""
    graph = pnnx_fast.Graph.parse(
        "7767517\n3 2\npnnx.Input in 0 1 x #x=(1,1,6)f32\n"
        "nn.Conv1d conv 1 1 x y bias=False dilation=(1) groups=1 in_channels=1 kernel_size=(3) out_channels=1 "
        "padding=(1,1) padding_mode=reflect stride=(2) @weight=(1,1,3)f32 #y=(1,1,3)f32\npnnx.Output out 1 0 y\n"
    )
    graph.ops[1].attrs["weight"] = pnnx_fast.Attribute(np.float32([[[1, 2, 4]]]))
    got = pnnx_fast.Model(graph)(np.arange(6, dtype=np.float32).reshape(1, 1, 6))
    assert got.tolist() == [[[5, 17, 31]]]


def test_a_list_of_one_tensor_is_unpacked_to_the_tensor() -> None:
    graph = pnnx_fast.Graph.parse(
        "7767517\n7 6\npnnx.Input a 0 1 x #x=(5,2)f32\npnnx.Input b 0 1 m #m=(5)bool\n"
        "aten::nonzero_numpy n 1 1 m found\nprim::ListUnpack u 1 1 found rows\n"
        "prim::ListConstruct l 1 1 rows list\nTensor.index t 2 1 x list y $input=x $expr=list\npnnx.Output o 1 0 y\n"
    )
    x, mask = np.arange(10, dtype=np.float32).reshape(5, 2), np.array([1, 0, 1, 1, 0], bool)
    np.testing.assert_array_equal(pnnx_fast.Model(graph)(x, mask), x[mask])
