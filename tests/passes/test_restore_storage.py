"""Strided views of tensors that are views themselves count in the memory of the tensor that owns it."""

from __future__ import annotations

import numpy as np
import pytest

import pnnx_fast
from pnnx_fast.errors import ParameterError

RNG = np.random.default_rng(0)


def graph_of(text: str) -> pnnx_fast.Graph:
    lines = text.strip().splitlines()
    return pnnx_fast.Graph.parse("\n".join(["7767517", f"{len(lines)} {len(lines)}", *lines]) + "\n")


@pytest.mark.parametrize(
    ("views", "owner"),
    [
        ("Tensor.reshape a 1 1 x v shape=(6,2,4) $input=x #v=(6,2,4)f32", "x"),
        ("torch.transpose a 1 1 x u dim0=0 dim1=1 $input=x #u=(2,6,4)f32 | "
         "Tensor.reshape b 1 1 u v shape=(2,3,2,4) $input=u #v=(2,3,2,4)f32", "x"),
        ("Tensor.permute a 1 1 x u dims=(1,0,2) $input=x #u=(2,6,4)f32 | "
         "Tensor.reshape b 1 1 u v shape=(12,4) $input=u #v=(12,4)f32", "v"),
        ("torch.unsqueeze a 1 1 x u dim=0 $input=x #u=(1,6,2,4)f32 | "
         "torch.transpose b 1 1 u v dim0=3 dim1=1 $input=u #v=(1,4,2,6)f32", "x"),
        ("pnnx.Expression i 0 1 i expr=0 | pnnx.Expression j 0 1 j expr=1 | "
         "torch.transpose a 3 1 x i j u $input=x $dim0=i $dim1=j #u=(2,6,4)f32 | "
         "pnnx.Expression k 0 1 k expr=[2,3,2,4] | Tensor.reshape b 2 1 u k v $input=u $shape=k #v=(2,3,2,4)f32", "x"),
        ("torch.flatten a 1 1 x v start_dim=1 end_dim=2 $input=x", "v"),
    ],
)  # fmt: skip
def test_strided_views_count_in_the_memory_of_the_tensor_that_owns_it(views: str, owner: str) -> None:
    text = f"""
pnnx.Input in 0 1 x #x=(6,2,4)f32
{views.replace(" | ", chr(10))}
torch.as_strided s 1 1 v y size=(3,4) stride=(2,5) storage_offset=1 $input=v
pnnx.Output out 1 0 y
"""
    x = RNG.standard_normal((6, 2, 4), np.float32)
    memory = x.transpose(1, 0, 2).reshape(-1) if "permute" in views else x.reshape(-1)
    model = pnnx_fast.Model(graph_of(text))
    assert model.graph.operator("s").inputs[0].name == owner
    want = np.lib.stride_tricks.as_strided(memory[1:], (3, 4), (8, 20))
    np.testing.assert_array_equal(model(x), want)


@pytest.mark.parametrize(
    "cut, dense",
    [
        ("Tensor.slice s 1 1 x v dim=0 start=2 end=6 step=1 $input=x #v=(4,2,4)f32", True),
        ("Tensor.select s 1 1 x v dim=0 index=2 $input=x #v=(2,4)f32", True),
        ("Tensor.slice s 1 1 x v dim=0 start=2 end=6 step=2 $input=x #v=(2,2,4)f32", False),
        ("Tensor.slice s 1 1 x v dims=(0) starts=(2) ends=(6) steps=(2) $input=x #v=(2,2,4)f32", False),
        ("Tensor.slice s 1 1 x v dim=2 start=0 end=3 step=1 $input=x #v=(6,2,3)f32", False),
        ("Tensor.select s 1 1 x v dim=1 index=1 $input=x #v=(6,4)f32", False),
    ],
)
def test_strided_views_of_slices(cut: str, dense: bool) -> None:
    """Slices that leave gaps are refused: nothing tells where in memory they begin."""
    graph = graph_of(f"""
pnnx.Input in 0 1 x #x=(6,2,4)f32
{cut}
torch.as_strided a 1 1 v y size=(2,3) stride=(1,2) $input=v
pnnx.Output out 1 0 y
""")
    x = RNG.standard_normal((6, 2, 4), np.float32)
    if dense:
        want = np.lib.stride_tricks.as_strided(x.reshape(-1)[16:], (2, 3), (4, 8))
        np.testing.assert_array_equal(pnnx_fast.Model(graph)(x), want)
    else:
        with pytest.raises(ParameterError, match="of a slice"):
            pnnx_fast.Model(graph)
