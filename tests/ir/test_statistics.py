"""Statistics of graphs: counts by hand, unknown sizes, and the text that PNNX prints."""

from __future__ import annotations

import pytest

from pnnx_fast.ir import Graph
from pnnx_fast.ir.statistics import format_count


def cost(line: str) -> tuple[int, int]:
    """Cost of an operator over x (2,8)f32 and y (2,8)f32."""
    inputs = "pnnx.Input a 0 1 x #x=(2,8)f32\npnnx.Input b 0 1 y #y=(2,8)f32\n"
    row = Graph.parse(f"7767517\n3 3\n{inputs}{line}\n").statistics().operators[0]
    return row.flops, row.memory_operations


@pytest.mark.parametrize(
    "line, flops, moved",
    [
        (
            "nn.Linear l 1 1 x z bias=True in_features=8 out_features=3 @bias=(3)f32 @weight=(3,8)f32 #z=(2,3)f32",
            102,
            49,
        ),
        ("nn.Linear l 1 1 x z bias=False in_features=8 out_features=3 #z=(2,3)f32", 96, 46),
        ("F.relu r 1 1 x z #z=(2,8)f32", 16, 32),
        ("nn.GELU r 1 1 x z #z=(2,8)f32", 160, 32),
        ("pnnx.Expression e 2 1 x y z expr=add(@0,mul(@1,2.0)) #z=(2,8)f32", 32, 48),
        ("pnnx.Expression e 2 1 x y z expr=add(@0,size(@1,0)) #z=(2,8)f32", 16, 32),
        ("pnnx.Expression e 2 1 x y z expr=sqrt(@0) #z=(2,8)f32", 64, 32),
        ("pnnx.Expression e 1 1 x z expr=[size(@0,0),4]", 0, 0),
        ("pnnx.Expression e 0 1 z expr=5", 0, 0),
        ("torch.sum s 1 1 x z dim=(1) #z=(2)f32", 16, 18),
        ("torch.mean s 1 1 x z dim=(1) #z=(2)f32", 18, 18),
        ("torch.norm s 1 1 x z p=inf #z=(1)f32", 32, 17),
        ("torch.norm s 1 1 x z p=fro #z=(1)f32", 36, 17),
        ("torch.norm s 1 1 x z p=3 #z=(1)f32", 100, 17),
        ("Tensor.reshape s 1 1 x z #z=(4,4)f32", 0, 0),
        ("Tensor.index s 1 1 x z #z=(1,8)f32", 0, 24),
        ("torch.cat s 2 1 x y z #z=(4,8)f32", 0, 64),
        ("prim::TupleConstruct s 2 1 x y z #z=(4,8)f32", 0, 0),
        ("models.Custom s 2 1 x y z #z=(4,8)f32", 0, 0),
        ("F.relu r 1 1 x z #z=(?,8)f32", 16, 16),
        ("nn.Conv2d c 1 1 x z #z=(2,8)f32", 0, 0),
        ("nn.LSTM c 1 1 x z hidden_size=None #z=(2,8)f32", 0, 0),
        ("nn.Linear l 0 0", 0, 0),
    ],
)
def test_counts(line: str, flops: int, moved: int) -> None:
    assert cost(line) == (flops, moved)


def test_totals_and_text() -> None:
    stats = Graph.parse(
        """7767517
4 3
pnnx.Input in0 0 1 x #x=(1,3,224,?)f32
pnnx.Input in1 0 1 y
nn.PReLU act 1 1 y z @weight=(8)f32 #y=(1000,8)f32 #z=(1000,8)f32
pnnx.Output out0 1 0 z
"""
    ).statistics()
    assert stats.input_shapes == "[1,3,224,?]f32,[1000,8]f32"
    assert (stats.flops, stats.memory_operations, stats.weights) == (16000, 16008, 8)
    assert [(row.name, row.type, row.weights) for row in stats.operators] == [("act", "nn.PReLU", 8)]
    assert str(stats) == "model inputshape = [1,3,224,?]f32,[1000,8]f32\nFLOPS = 16K\nmemory OPS = 16.008K"


@pytest.mark.parametrize(
    "count, text",
    [
        (0, "0"),
        (999, "999"),
        (1000, "1K"),
        (1999, "1.999K"),
        (1_999_500, "2M"),
        (1_234_500, "1.235M"),
        (12_340_000, "12.34M"),
        (3 * 10**9, "3G"),
        (5 * 10**12, "5T"),
        (7 * 10**15, "7P"),
        (7 * 10**18, "7000P"),
    ],
)
def test_format_count(count: int, text: str) -> None:
    assert format_count(count) == text


def test_every_shared_model_is_counted(data_path) -> None:
    for file in sorted(data_path.rglob("*.pnnx.param")):
        stats = Graph.parse(file.read_text()).statistics()
        assert all(row.flops >= 0 and row.memory_operations >= 0 for row in stats.operators)


def test_costs_by_type() -> None:
    statistics = Graph.parse(
        "7767517\n4 4\npnnx.Input a 0 1 x #x=(2,8)f32\nF.relu r 1 1 x y #y=(2,8)f32\nF.relu s 1 1 y z #z=(2,8)f32\n"
        "nn.GELU g 1 1 z w #w=(2,8)f32\n"
    ).statistics()
    assert statistics.by_type() == {"nn.GELU": (1, 160, 32), "F.relu": (2, 32, 64)}
    assert statistics.table().splitlines()[1].split() == ["nn.GELU", "1", "160", "32"]


def test_layers_without_number_are_counted_at_once() -> None:
    line = "nn.RNN r 1 1 x y input_size=4 hidden_size=4 num_layers="
    text = f"7767517\n2 2\npnnx.Input a 0 1 x #x=(2,3,4)f32\n{line}%d #y=(2,3,4)f32\n"
    one, two, many = (Graph.parse(text % n).statistics().flops for n in (1, 2, 2**62))
    assert many == one + (2**62 - 1) * (two - one)
