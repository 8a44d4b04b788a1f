"""Passes keep results and leave the operators they promise."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import pnnx_fast
from pnnx_fast.errors import PnnxFastError
from pnnx_fast.ir import Attribute, Parameter
from pnnx_fast.passes import optimize


def conv(graph: pnnx_fast.Graph, name: str, x: str, y: str, channels: int, seed: int) -> None:
    """Append a 3x3 convolution that keeps the shape (1, channels, 6, 6)."""
    rng = np.random.default_rng(seed)
    weight = (rng.standard_normal((channels, channels, 3, 3)) / 6).astype(np.float32)
    source = graph.get_operand(x)
    assert source is not None
    out = graph.new_operand(y)
    out.shape, out.dtype = (1, channels, 6, 6), "f32"
    graph.new_operator(
        "nn.Conv2d", name, inputs=[source], outputs=[out],
        params={"bias": True, "padding": (1, 1), "kernel_size": (3, 3)},
        attrs={"weight": Attribute(weight), "bias": Attribute(rng.standard_normal(channels).astype(np.float32))},
    )  # fmt: skip


def step(graph: pnnx_fast.Graph, kind: str, inputs: str, y: str, **params: object) -> None:
    """Append an operator without weights."""
    out = graph.new_operand(y)
    out.shape, out.dtype = (1, 5, 6, 6), "f32"
    operands = [graph.get_operand(name) for name in inputs.split()]
    graph.new_operator(kind, f"{kind} {y}".replace(" ", "_"), inputs=operands, outputs=[out], params=params)


def normalised(graph: pnnx_fast.Graph, x: str, y: str, channels: int) -> None:
    step(graph, "nn.BatchNorm2d", x, y, eps=1e-3, num_features=channels, affine=True)
    rng = np.random.default_rng(7)
    for key in ("weight", "bias", "running_mean", "running_var"):
        graph.ops[-1].attrs[key] = Attribute(rng.uniform(0.5, 1.5, channels).astype(np.float32))


def finish(graph: pnnx_fast.Graph, y: str) -> pnnx_fast.Graph:
    operand = graph.get_operand(y)
    assert operand is not None
    graph.new_operator("pnnx.Output", "out", inputs=[operand])
    return graph


def begin() -> pnnx_fast.Graph:
    graph = pnnx_fast.Graph()
    x = graph.new_operand("x")
    x.shape, x.dtype = (1, 5, 6, 6), "f32"
    graph.new_operator("pnnx.Input", "in", outputs=[x])
    return graph


def activated() -> pnnx_fast.Graph:
    graph = begin()
    conv(graph, "c", "x", "a", 5, 0)
    step(graph, "F.silu", "a", "b")
    return finish(graph, "b")


def residual() -> pnnx_fast.Graph:
    graph = begin()
    conv(graph, "c", "x", "a", 5, 0)
    step(graph, "pnnx.Expression", "x a", "b", expr="add(@0,@1)")
    step(graph, "nn.ReLU", "b", "c")
    return finish(graph, "c")


def late_residual() -> pnnx_fast.Graph:
    graph = begin()
    conv(graph, "c", "x", "a", 5, 0)
    step(graph, "nn.SiLU", "a", "b")
    step(graph, "pnnx.Expression", "x b", "c", expr="add(@0,@1)")
    return finish(graph, "c")


def two_convolutions() -> pnnx_fast.Graph:
    graph = begin()
    conv(graph, "c", "x", "a", 5, 0)
    step(graph, "F.tanh", "x", "t")
    conv(graph, "d", "t", "b", 5, 1)
    step(graph, "pnnx.Expression", "a b", "c", expr="add(@0,@1)")
    step(graph, "F.relu", "c", "d")
    return finish(graph, "d")


def shared() -> pnnx_fast.Graph:
    graph = begin()
    conv(graph, "c", "x", "a", 5, 0)
    step(graph, "nn.SiLU", "a", "b")
    step(graph, "pnnx.Expression", "a b", "c", expr="mul(@0,@1)")
    return finish(graph, "c")


def batch_norm() -> pnnx_fast.Graph:
    graph = begin()
    conv(graph, "c", "x", "a", 5, 0)
    normalised(graph, "a", "b", 5)
    step(graph, "nn.Dropout", "b", "c")
    step(graph, "nn.ReLU6", "c", "d")
    return finish(graph, "d")


def joined(dim: int = 1, other_reader: bool = False) -> pnnx_fast.Graph:
    """Two convolutions side by side, a batch norm of both and an activation."""
    graph = begin()
    conv(graph, "c", "x", "a", 5, 0)
    step(graph, "F.tanh", "x", "t")
    conv(graph, "d", "t", "b", 5, 1)
    step(graph, "torch.cat", "a b", "j", dim=dim)
    graph.ops[-1].outputs[0].shape = (1, 10, 6, 6) if dim % 4 == 1 else (1, 5, 12, 6)
    normalised(graph, "j", "n", 10 if dim % 4 == 1 else 5)
    graph.ops[-1].outputs[0].shape = graph.ops[-2].outputs[0].shape
    step(graph, "nn.SiLU", "n", "y")
    graph.ops[-1].outputs[0].shape = graph.ops[-2].outputs[0].shape
    if other_reader:
        step(graph, "F.relu", "a", "r")
        step(graph, "torch.cat", "y r", "z", dim=1)
        graph.ops[-1].outputs[0].shape = (1, 15, 6, 6)
    return finish(graph, "z" if other_reader else "y")


def joined_lines() -> pnnx_fast.Graph:
    return joined(dim=2)


def joined_from_behind() -> pnnx_fast.Graph:
    return joined(dim=-3)


def joined_with_other_reader() -> pnnx_fast.Graph:
    return joined(other_reader=True)


def pooled() -> pnnx_fast.Graph:
    """A 1x1 convolution to other channels, then averages of pairs of lines."""
    graph = begin()
    rng = np.random.default_rng(8)
    source = graph.get_operand("x")
    assert source is not None
    out = graph.new_operand("a")
    out.shape, out.dtype = (1, 7, 6, 6), "f32"
    graph.new_operator(
        "nn.Conv2d", "c", inputs=[source], outputs=[out], params={"bias": True, "kernel_size": (1, 1)},
        attrs={
            "weight": Attribute(rng.standard_normal((7, 5, 1, 1)).astype(np.float32)),
            "bias": Attribute(rng.standard_normal(7).astype(np.float32)),
        },
    )  # fmt: skip
    step(graph, "nn.AvgPool2d", "a", "b", kernel_size=(3, 2), stride=(2, 1))
    graph.ops[-1].outputs[0].shape = (1, 7, 2, 5)
    step(graph, "nn.ReLU", "b", "d")
    graph.ops[-1].outputs[0].shape = (1, 7, 2, 5)
    return finish(graph, "d")


def pooled_with_padding() -> pnnx_fast.Graph:
    graph = pooled()
    graph.ops[2].params["padding"] = Parameter((1, 0))
    for op in graph.ops[2:4]:
        op.outputs[0].shape = (1, 7, 3, 5)
    return graph


@pytest.mark.parametrize(
    "make, types",
    [
        (activated, ["fused.Conv2d"]),
        (residual, ["fused.Conv2d"]),
        (late_residual, ["fused.Conv2d"]),
        (two_convolutions, ["nn.Conv2d", "F.tanh", "fused.Conv2d"]),
        (shared, ["nn.Conv2d", "pnnx.Expression"]),
        (batch_norm, ["fused.Conv2d"]),
        (joined, ["fused.Conv2d", "F.tanh", "fused.Conv2d", "torch.cat"]),
        (joined_from_behind, ["fused.Conv2d", "F.tanh", "fused.Conv2d", "torch.cat"]),
        (joined_lines, ["nn.Conv2d", "F.tanh", "nn.Conv2d", "torch.cat", "fused.BatchNorm2d"]),
        (
            joined_with_other_reader,
            ["nn.Conv2d", "F.tanh", "nn.Conv2d", "torch.cat", "fused.BatchNorm2d", "F.relu", "torch.cat"],
        ),
        (pooled, ["nn.AvgPool2d", "fused.Conv2d"]),
        (pooled_with_padding, ["nn.Conv2d", "nn.AvgPool2d", "nn.ReLU"]),
    ],
)
def test_fusion(make: object, types: list[str]) -> None:
    graph = make()  # type: ignore[operator]
    x = np.random.default_rng(3).standard_normal((1, 5, 6, 6)).astype(np.float32)
    want = pnnx_fast.Model(graph, optimize=False)(x)
    np.testing.assert_allclose(pnnx_fast.Model(graph)(x), want, rtol=0, atol=3e-6 * np.abs(want).max())
    optimize(graph)
    graph.validate()
    assert [op.type for op in graph.ops[1:-1]] == types


def lines(conv: str, norm: str, sizes: tuple[int, ...] | None) -> pnnx_fast.Graph:
    """A convolution of three channels to eight with windows of one pixel, and a batch norm."""
    graph = pnnx_fast.Graph()
    x, a, y = (graph.new_operand(name) for name in "xay")
    rng = np.random.default_rng(4)
    weights = [rng.uniform(0.5, 1.5, n).astype(np.float32) for n in ((8, 3, *(1,) * int(conv[-2])), 8, 8)]
    keys = ("weight", "running_mean", "running_var")
    weight, *statistics = (Attribute(w) for w in weights)
    graph.new_operator("pnnx.Input", "in", outputs=[x])
    graph.new_operator(conv, "conv", inputs=[x], outputs=[a], attrs={"weight": weight})
    graph.new_operator(norm, "norm", inputs=[a], outputs=[y], attrs=dict(zip(keys[1:], statistics, strict=True)))
    if sizes is not None:
        axis = len(sizes) - 1 - int(conv[-2])
        x.shape, a.shape = sizes, (*sizes[:axis], 8, *sizes[axis + 1 :])
        x.dtype = a.dtype = "f32"
    return finish(graph, "y")


@pytest.mark.parametrize(
    "conv, norm, sizes, folds",
    [
        ("nn.Conv1d", "nn.BatchNorm1d", (2, 3, 8), True),
        ("nn.Conv1d", "nn.BatchNorm1d", (3, 8), False),
        ("nn.Conv2d", "nn.BatchNorm1d", (3, 8, 5), False),
        ("nn.Conv3d", "nn.BatchNorm2d", (3, 8, 5, 2), False),
        ("nn.Conv2d", "nn.BatchNorm2d", (2, 3, 8, 5), True),
        ("nn.Conv1d", "nn.BatchNorm1d", None, True),
        ("nn.Conv2d", "nn.BatchNorm1d", None, False),
    ],
)
def test_batch_norms_fold_where_their_channels_are_those_of_the_layer(
    conv: str, norm: str, sizes: tuple[int, ...] | None, folds: bool
) -> None:
    graph = lines(conv, norm, sizes)
    given = sizes or ((2, 3, 8) if folds else (3, 8, 5))
    x = np.random.default_rng(5).standard_normal(given).astype(np.float32)
    want = pnnx_fast.Model(graph, optimize=False)(x)
    np.testing.assert_allclose(pnnx_fast.Model(graph)(x), want, rtol=0, atol=3e-6 * np.abs(want).max())
    optimize(graph)
    assert [op.type for op in graph.ops[1:-1]] == ([conv] if folds else [conv, norm])


@pytest.mark.parametrize("noted", ["f32", "f16", None])
@pytest.mark.filterwarnings("error")
def test_weights_of_half_precision_are_rounded_once(noted: str | None) -> None:
    """Where activations are float32 the folded weights are, too; extreme statistics overflow without a word."""
    graph = lines("nn.Conv2d", "nn.BatchNorm2d", (2, 3, 8, 5)).to("fp16")
    for name in "xa":
        graph.get_operand(name).dtype = noted  # type: ignore[union-attr]
    statistics = graph.operator("norm").attrs["running_var"].numpy().copy()
    statistics[0] = 0
    graph.operator("norm").attrs["running_var"] = Attribute(statistics)
    x = np.random.default_rng(5).standard_normal((2, 3, 8, 5)).astype(np.float16 if noted == "f16" else np.float32)
    want = pnnx_fast.Model(graph, optimize=False)(x).astype(np.float64)
    got = pnnx_fast.Model(graph)(x)
    np.testing.assert_allclose(got, want, rtol=0, atol=(3e-6 if noted == "f32" else 2e-3) * np.abs(want).max())


def test_a_convolution_without_groups_behind_a_gate() -> None:
    text = """7767517
5 5
pnnx.Input a 0 1 x #x=(1,4,5,5)f32
pnnx.Input b 0 1 g #g=(1,4,1,1)f32
pnnx.Expression e 2 1 g x y expr=mul(sigmoid(@0),@1) #g=(1,4,1,1)f32 #x=(1,4,5,5)f32 #y=(1,4,5,5)f32
nn.Conv2d c 1 1 y z bias=False in_channels=4 out_channels=4 kernel_size=(1,1) @weight=(4,4,1,1)f32 #y=(1,4,5,5)f32
pnnx.Output o 1 0 z
"""
    graph = pnnx_fast.Graph.parse(text)
    graph.operator("c").attrs["weight"] = Attribute(np.eye(4, dtype=np.float32).reshape(4, 4, 1, 1))
    x, gate = np.ones((1, 4, 5, 5), np.float32), np.zeros((1, 4, 1, 1), np.float32)
    np.testing.assert_allclose(pnnx_fast.Model(graph)(x, gate), 0.5, rtol=1e-6)


@pytest.mark.parametrize(
    "behind", ["nn.GELU g 1 1 y z approximate=(1,2)", "nn.AvgPool2d g 1 1 y z kernel_size=(2,2) stride=inf"]
)
def test_options_of_other_kinds_are_errors_of_their_operator(behind: str) -> None:
    graph = pnnx_fast.Graph.parse(f"""7767517
4 3
pnnx.Input a 0 1 x #x=(1,4,5,5)f32
nn.Conv2d c 1 1 x y bias=False in_channels=4 out_channels=4 kernel_size=(1,1) @weight=(4,4,1,1)f32 #y=(1,4,5,5)f32
{behind}
pnnx.Output o 1 0 z
""")
    graph.operator("c").attrs["weight"] = Attribute(np.ones((4, 4, 1, 1), np.float32))
    with pytest.raises(PnnxFastError, match=r"nn\..*Pool2d g|nn\.GELU g"):
        pnnx_fast.Model(graph)(np.ones((1, 4, 5, 5), np.float32))


def test_graphs_after_passes_can_be_dumped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PNNX_FAST_DUMP", str(tmp_path / "dump"))
    pnnx_fast.Model(residual())
    files = sorted((tmp_path / "dump").iterdir())
    assert [file.name for file in files] == ["00_fuse_residual.pnnx.param", "01_fuse_activation.pnnx.param"]
    types = [[op.type for op in pnnx_fast.Graph.parse(file.read_text()).ops[1:-1]] for file in files]
    assert types == [["fused.Conv2d", "nn.ReLU"], ["fused.Conv2d"]]


def test_graphs_after_passes_that_restore_can_be_dumped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PNNX_FAST_DUMP", str(tmp_path))
    total = "torch.sum a 1 1 x y dim=(0) keepdim=False #x=(3)i32 #y=()i32"
    text = f"7767517\n3 2\npnnx.Input in 0 1 x #x=(3)i32\n{total}\npnnx.Output out 1 0 y\n"
    pnnx_fast.Model(pnnx_fast.Graph.parse(text), optimize=False)
    assert [file.name for file in tmp_path.iterdir()] == ["00_restore_dtypes.pnnx.param"]


def test_graphs_after_passes_can_be_saved_and_run(tmp_path: Path) -> None:
    graph, x = residual(), np.random.default_rng(0).standard_normal((1, 5, 6, 6)).astype(np.float32)
    model = pnnx_fast.Model(graph)
    model.graph.save(tmp_path / "fused.pnnx.param")
    again = pnnx_fast.load(tmp_path / "fused.pnnx.param")
    np.testing.assert_array_equal(again(x), model(x))


def test_the_model_copies_the_graph() -> None:
    graph = residual()
    before = str(graph)
    pnnx_fast.Model(graph)
    assert str(graph) == before


def test_averages_of_integers_stay_behind_their_convolution() -> None:
    """Their quotients are cut off, so that the two do not commute."""
    graph = pnnx_fast.Graph.parse(
        "7767517\n4 3\npnnx.Input in 0 1 x #x=(1,2,4,4)i64\n"
        "nn.Conv2d c 1 1 x a bias=False dilation=(1,1) groups=1 in_channels=2 kernel_size=(1,1) out_channels=2 "
        "padding=(0,0) padding_mode=zeros stride=(1,1) @weight=(2,2,1,1)i64 #a=(1,2,4,4)i64\n"
        "nn.AvgPool2d p 1 1 a y ceil_mode=False count_include_pad=True kernel_size=(2,2) padding=(0,0) stride=(2,2) "
        "#y=(1,2,2,2)i64\npnnx.Output out 1 0 y\n"
    )
    rng = np.random.default_rng(0)
    graph.ops[1].attrs["weight"] = pnnx_fast.Attribute(rng.integers(-3, 4, (2, 2, 1, 1)))
    x = rng.integers(0, 9, (1, 2, 4, 4))
    want = pnnx_fast.Model(graph, optimize=False)(x)
    np.testing.assert_array_equal(pnnx_fast.Model(graph)(x), want)
