"""Concatenation without copies: parts are written in place and results do not change."""

from __future__ import annotations

import numpy as np
import pytest

import pnnx_fast
from pnnx_fast.runtime.concat import DryLowering

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


@pytest.mark.parametrize("kind", ["nn.Conv2d", "nn.ConvTranspose2d", "nn.MaxPool2d"])
@pytest.mark.parametrize("dim", [0, 1])
def test_images_without_a_batch(kind: str, dim: int) -> None:
    graph = pnnx_fast.Graph()
    x, a, b, y = (graph.new_operand(name) for name in "xaby")
    for operand in (x, a, b, y):
        operand.dtype, operand.shape = "f32", (4, 3, 5)
    y.shape = (8, 3, 5) if dim == 0 else (4, 6, 5)
    graph.new_operator("pnnx.Input", "in", outputs=[x])
    for seed, operand in enumerate((a, b)):
        weight = np.random.default_rng(seed).standard_normal((4, 4, 1, 1)).astype(np.float32)
        attrs = {} if kind == "nn.MaxPool2d" else {"weight": pnnx_fast.Attribute(weight)}
        params = {"kernel_size": (1, 1), "stride": (1, 1), "padding": (0, 0)}
        graph.new_operator(kind, f"op{seed}", inputs=[x], outputs=[operand], attrs=attrs, params=params)
    graph.new_operator("torch.cat", "cat", inputs=[a, b], outputs=[y], params={"dim": dim})
    for operand in (y, a, b):
        graph.new_operator("pnnx.Output", f"out_{operand.name}", inputs=[operand])
    data = np.random.default_rng(2).standard_normal((4, 3, 5)).astype(np.float32)
    joined, first, second = pnnx_fast.Model(graph, 1, optimize=False)(data)
    np.testing.assert_array_equal(joined, np.concatenate([first, second], dim))


# type -> (operand beside the input, its shape, parameters, numpy reference)
PLAIN = {
    "torch.matmul": ("other", (5, 1), {}, lambda a, b: a @ b),
    "torch.index_select": ("index", (4,), {"dim": 1}, lambda a, b: a[:, b]),
    "torch.cumsum": (None, (), {"dim": 1}, lambda a, _: a.cumsum(1)),
    "torch.flip": (None, (), {"dims": (1,)}, lambda a, _: a[:, ::-1]),
    "torch.topk": (None, (), {"dim": 1, "k": 3}, lambda a, _: -np.sort(-a, 1)[:, :3]),
}


@pytest.mark.parametrize("kind", PLAIN)
@pytest.mark.parametrize("tail", [(1,), (1, 1), (1, 1, 1)])
@pytest.mark.parametrize("optimize", [True, False])
def test_results_without_gaps_beside_single_pixels(kind: str, tail: tuple[int, ...], optimize: bool) -> None:
    other, shape, params, reference = PLAIN[kind]
    rng = np.random.default_rng(3)
    a = rng.standard_normal((2, 5, 5) if other == "other" else (2, 5, *tail)).astype(np.float32)
    b = rng.integers(0, 5, shape) if other == "index" else rng.standard_normal(shape).astype(np.float32)
    want = reference(a, b)
    z = rng.standard_normal((2, 3, *want.shape[2:])).astype(np.float32)
    graph = pnnx_fast.Graph()
    names = {name: graph.new_operand(name) for name in "abzkiy"}
    for name in "abz":
        graph.new_operator("pnnx.Input", f"in_{name}", outputs=[names[name]])
    inputs, roles = [names["a"], names["b"]][: 1 + bool(other)], ["input", other][: 1 + bool(other)]
    outputs = [names["k"], names["i"]][: 1 + (kind == "torch.topk")]
    graph.new_operator(kind, "op", inputs=inputs, outputs=outputs, inputnames=roles, params=params)
    graph.new_operator("torch.cat", "cat", inputs=[names["k"], names["z"]], outputs=[names["y"]], params={"dim": 1})
    graph.new_operator("pnnx.Output", "out", inputs=[names["y"]])
    got = pnnx_fast.Model(graph, 1, optimize=optimize)(a, b, z)
    np.testing.assert_allclose(got, np.concatenate([want, z], 1), rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    "view", ["torch.flatten v 1 1 a b start_dim=2 end_dim=-1", "Tensor.permute v 1 1 a b dims=(0,2,3,1)"]
)
@pytest.mark.parametrize("shape", [(1, 3, 8, 8), (1, 4, 18, 64), (2, 3, 16, 128)])
@pytest.mark.parametrize("noted", [True, False])
def test_views_of_what_lies_otherwise_than_assumed(view: str, shape: tuple[int, ...], noted: bool) -> None:
    """Pooling of few channels has its result in PyTorch's order, where most other pictures are channels last."""
    x = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
    made = x.reshape(*shape[:2], shape[2] // 2, 2, shape[3] // 2, 2).max((3, 5))
    part = made.reshape(*shape[:2], -1) if "flatten" in view else made.transpose(0, 2, 3, 1)
    z = np.random.default_rng(2).standard_normal(part.shape).astype(np.float32)
    graph = pnnx_fast.Graph.parse(
        f"7767517\n6 5\npnnx.Input i 0 1 x\npnnx.Input j 0 1 z\nnn.MaxPool2d p 1 1 x a ceil_mode=False "
        f"dilation=(1,1) kernel_size=(2,2) padding=(0,0) return_indices=False stride=(2,2)\n{view}\n"
        "torch.cat c 2 1 b z y dim=2\npnnx.Output out 1 0 y\n"
    )
    for name, array in {"x": x, "a": made, "b": part, "z": z}.items() if noted else ():
        graph.operand(name).shape, graph.operand(name).dtype = array.shape, "f32"
    np.testing.assert_array_equal(pnnx_fast.Model(graph, 1)(x, z), np.concatenate([part, z], 2))


def test_parts_behind_views_are_not_copied() -> None:
    pool = "ceil_mode=False dilation=(1,1) kernel_size=(1,1) padding=(0,0) return_indices=False stride=(1,1)"
    graph = pnnx_fast.Graph.parse(
        f"7767517\n7 6\npnnx.Input i 0 1 x #x=(1,32,4,4)f32\nnn.MaxPool2d p 1 1 x a {pool} #a=(1,32,4,4)f32\n"
        f"nn.MaxPool2d q 1 1 x b {pool} #b=(1,32,4,4)f32\nTensor.reshape r 1 1 a s shape=(1,32,16) #s=(1,32,16)f32\n"
        "Tensor.reshape t 1 1 b u shape=(1,32,16) #u=(1,32,16)f32\ntorch.cat c 2 1 s u y dim=2 #y=(1,32,32)f32\n"
        "pnnx.Output out 1 0 y\n"
    )
    x = np.random.default_rng(0).standard_normal((1, 32, 4, 4)).astype(np.float32)
    model = pnnx_fast.Model(graph, 1, optimize=False)
    assert not [s for s in model.profile(x, repeat=1).steps if s.type == "torch.cat"]
    np.testing.assert_array_equal(model(x), np.concatenate([x.reshape(1, 32, 16)] * 2, 2))


def test_a_place_is_given_away_once() -> None:
    """Operators made of others ask for the result's memory for what they compute on the way, too."""
    graph = pnnx_fast.Graph.parse(
        "7767517\n5 4\npnnx.Input i 0 1 x #x=(3,1)f32\npnnx.Input j 0 1 z #z=(3,1)f32\n"
        "aten::_safe_softmax s 1 1 x a dim=-1 dtype=None $self=x #a=(3,1)f32\n"
        "torch.cat c 2 1 a z y dim=0 #y=(6,1)f32\npnnx.Output out 1 0 y\n"
    )
    x = np.float32([[0.5], [-2], [3]])
    want = np.concatenate([np.ones((3, 1), np.float32), x])
    np.testing.assert_array_equal(pnnx_fast.Model(graph, 1)(x, x), want)


def test_empty_vectors_among_parts() -> None:
    graph = pnnx_fast.Graph.parse(
        "7767517\n6 5\npnnx.Input in_0 0 1 e #e=(0)f32\npnnx.Input in_1 0 1 x #x=(1,4,3)f32\n"
        "F.relu a 1 1 x a $input=x #a=(1,4,3)f32\nF.relu6 b 1 1 x b $input=x #b=(1,4,3)f32\n"
        "torch.cat c 4 1 a e b x y dim=-2 #y=(1,12,3)f32\npnnx.Output out 1 0 y\n"
    )
    x = np.random.default_rng(0).standard_normal((1, 4, 3), np.float32)
    want = np.concatenate([np.maximum(x, 0), np.clip(x, 0, 6), x], 1)
    np.testing.assert_array_equal(pnnx_fast.Model(graph)(np.zeros(0, np.float32), x), want)


SIZES = {
    "conv": (1, 8, 6, 6), "norm": (1, 8, 6, 6), "sum": (1, 8, 6, 6), "pool": (1, 16, 6, 6), "inner": (1, 24, 6, 6),
    "last": (1, 8, 6, 6), "outer": (1, 32, 6, 6), "flat": (1, 1152), "line": (1, 5), "other": (1, 5), "y": (1, 10),
    "shuffle": (1, 8, 6, 6), "wide": (1, 8, 6, 6), "rows": (1, 5),
}  # fmt: skip
"""Shapes of the operands of the network below, for pictures (1, 16, 6, 6)."""


def network(notes: dict[str, tuple[int, ...]]) -> pnnx_fast.Graph:
    """Operators whose results are taken as noted, on the way to concatenations one in another, and in two orders."""
    rng = np.random.default_rng(5)
    made = pnnx_fast.Graph()
    made.new_operator("pnnx.Input", "in", outputs=[made.new_operand("x")])
    made.get_operand("x").dtype, made.get_operand("x").shape = "f32", (1, 16, 6, 6)

    def add(kind: str, inputs: list[str], name: str, weights: dict[str, tuple[int, ...]] | None = None, **more) -> None:
        out = made.new_operand(name)
        if name in notes:
            out.dtype, out.shape = "f32", notes[name]
        attrs = {
            key: pnnx_fast.Attribute(rng.uniform(0.1, 1, shape).astype(np.float32))
            for key, shape in (weights or {}).items()
        }
        ins = [made.get_operand(i) for i in inputs]
        made.new_operator(kind, f"make_{name}", inputs=ins, outputs=[out], attrs=attrs, params=more)

    window = {"kernel_size": (3, 3), "stride": (1, 1), "padding": (1, 1), "dilation": (1, 1)}
    spread = {"out_channels": 8, "groups": 1, "bias": True, **window}
    filters = {"padding_mode": "zeros", **spread}
    add("nn.Conv2d", ["x"], "conv", {"weight": (8, 16, 3, 3), "bias": (8,)}, in_channels=16, **filters)
    stats = {"running_mean": (8,), "running_var": (8,), "weight": (8,), "bias": (8,)}
    add("nn.BatchNorm2d", ["conv"], "norm", stats, num_features=8, eps=1e-5, affine=True)
    add("pnnx.Expression", ["norm", "conv"], "sum", expr="add(@0,mul(@1,2.0))")
    add("nn.MaxPool2d", ["x"], "pool", ceil_mode=False, return_indices=False, **window)
    add("nn.ChannelShuffle", ["sum"], "shuffle", groups=2)
    add("nn.ConvTranspose2d", ["shuffle"], "wide", {"weight": (8, 8, 3, 3), "bias": (8,)}, in_channels=8, **spread)
    add("torch.cat", ["wide", "pool"], "inner", dim=1)
    add("nn.Conv2d", ["inner"], "last", {"weight": (8, 24, 3, 3), "bias": (8,)}, in_channels=24, **filters)
    add("torch.cat", ["last", "inner"], "outer", dim=1)
    add("torch.flatten", ["outer"], "flat", start_dim=1, end_dim=-1)
    dense = {"out_features": 5, "bias": True}
    add("nn.Linear", ["flat"], "line", {"weight": (5, 1152), "bias": (5,)}, in_features=1152, **dense)
    add("nn.Linear", ["flat"], "other", {"weight": (5, 1152), "bias": (5,)}, in_features=1152, **dense)
    add("nn.LayerNorm", ["line"], "rows", {"weight": (5,), "bias": (5,)}, normalized_shape=(5,), eps=1e-5)
    add("torch.cat", ["rows", "other"], "y", dim=1)
    made.new_operator("pnnx.Output", "out", inputs=[made.get_operand("y")])
    return made


def kernels_and_result(notes: dict[str, tuple[int, ...]]) -> tuple[list[str], np.ndarray]:
    x = np.random.default_rng(6).standard_normal((1, 16, 6, 6)).astype(np.float32)
    model = pnnx_fast.Model(network(notes), 1, optimize=False)
    return [s.kernel for s in model.profile(x, repeat=1).steps], model(x)


def test_notes_spare_the_lowering_and_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    lowered: list[str] = []
    call = DryLowering._call
    monkeypatch.setattr(
        DryLowering, "_call", lambda self, op, values: lowered.append(op.type) or call(self, op, values)
    )
    want, result = kernels_and_result({})
    assert lowered.count("nn.Conv2d") == 2
    lowered.clear()
    kernels, same = kernels_and_result(SIZES)
    assert lowered == ["torch.flatten"]
    assert kernels == want
    # The picture for the pooling, the shuffle, and the rows of the linear layers; nothing is copied to be joined.
    assert sum(kernel.startswith("copy") for kernel in kernels) == 3
    np.testing.assert_array_equal(same, result)


@pytest.mark.parametrize("name", SIZES)
@pytest.mark.parametrize("change", ["more", "fewer", "another rank", "nothing", "too many"])
@pytest.mark.filterwarnings("ignore:.*where the file notes")
def test_wrong_notes_change_nothing(name: str, change: str) -> None:
    shape = SIZES[name]
    wrong = {
        "more": (*shape[:-1], shape[-1] + 3),
        "fewer": (shape[0], 2, *shape[2:]),
        "another rank": (*shape, 2),
        "nothing": (0,) * len(shape),
        "too many": (1 << 30,) * len(shape),
    }
    np.testing.assert_array_equal(kernels_and_result({**SIZES, name: wrong[change]})[1], kernels_and_result({})[1])
