"""Batches computed in parts: which graphs allow it, how many rows at once, and that results are those of the rows."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import pnnx_fast
from pnnx_fast.ir import Attribute
from pnnx_fast.ops.registry import operator, scoped, unregister
from pnnx_fast.ops.symbolic import Builder, Tensor
from pnnx_fast.runtime import batches
from pnnx_fast.runtime.batches import best_part, rows_apart
from pnnx_fast.runtime.parts import Parts


def graph_of(*steps: tuple[str, dict[str, Any]]) -> pnnx_fast.Graph:
    """A convolution, then operators one after the other; shapes are not known behind the convolution."""
    graph = pnnx_fast.Graph()
    x, y = graph.new_operand("x"), graph.new_operand("y")
    x.shape, x.dtype = (1, 3, 8, 8), "f32"
    y.shape, y.dtype = (1, 4, 8, 8), "f32"
    graph.new_operator("pnnx.Input", "in", outputs=[x])
    weight = np.random.default_rng(0).standard_normal((4, 3, 3, 3)).astype(np.float32)
    graph.new_operator(
        "nn.Conv2d", "conv", inputs=[x], outputs=[y],
        params={"bias": False, "padding": (1, 1), "kernel_size": (3, 3)}, attrs={"weight": Attribute(weight)},
    )  # fmt: skip
    last = y
    for i, (kind, params) in enumerate(steps):
        out = graph.new_operand(f"z{i}")
        out.shape, out.dtype = (1, 4, 8, 8), "f32"
        inputs = [last, y] if kind in ("torch.cat", "pnnx.Expression") else [last]
        graph.new_operator(kind, f"op{i}", inputs=inputs, outputs=[out], params=params)
        last = out
    graph.new_operator("pnnx.Output", "out", inputs=[last])
    return graph


@pytest.mark.parametrize(
    "step, apart",
    [
        (("nn.ReLU", {}), True),
        (("torch.cat", {"dim": 1}), True),
        (("torch.cat", {"dim": 0}), False),
        (("torch.cat", {"dim": -4}), False),
        (("torch.cat", {"dim": -1}), True),
        (("torch.transpose", {"dim0": 1, "dim1": -1}), True),
        (("torch.transpose", {"dim0": 1, "dim1": -4}), False),
        (("Tensor.reshape", {"shape": (1, 4, 8, 8)}), True),
        (("Tensor.reshape", {"shape": (-1, 4, 8, 8)}), True),
        (("Tensor.reshape", {"shape": (4, 1, 8, 8)}), False),
        (("F.softmax", {"dim": 1}), True),
        (("F.softmax", {"dim": 0}), False),
        (("torch.mean", {"dim": (2, 3), "keepdim": False}), True),
        (("torch.mean", {"dim": (0, 2), "keepdim": False}), False),
        (("torch.mean", {}), False),
        (("torch.flatten", {"start_dim": 1, "end_dim": -1}), True),
        (("torch.flatten", {"start_dim": 0, "end_dim": -1}), False),
        (("Tensor.permute", {"dims": (0, 2, 3, 1)}), True),
        (("Tensor.permute", {"dims": (1, 0, 2, 3)}), False),
        (("nn.LayerNorm", {"normalized_shape": (8, 8)}), True),
        (("nn.LayerNorm", {"normalized_shape": (1, 4, 8, 8)}), False),
        (("pnnx.Expression", {"expr": "add(@0,mul(@1,2))"}), True),
        (("pnnx.Expression", {"expr": "mul(@0,size(@1,0))"}), False),
        (("torch.flip", {"dims": (0,)}), False),
    ],
)
def test_rows_apart(step: tuple[str, dict[str, Any]], apart: bool) -> None:
    assert rows_apart(list(graph_of(step).topological()), 1) is apart


def _joined(
    kind: str, shapes: dict[str, tuple[int, ...]], constants: str = "", **params: Any
) -> list[pnnx_fast.Operator]:
    """An operator whose operands, named by a letter each, are inputs or constants."""
    graph = pnnx_fast.Graph()
    operands = {name: graph.new_operand(name) for name in (*shapes, "out")}
    for name, shape in shapes.items():
        operands[name].shape, operands[name].dtype = shape, "f32"
        attrs = {"data": Attribute(np.ones(shape, np.float32))} if name in constants else {}
        graph.new_operator("pnnx.Attribute" if attrs else "pnnx.Input", name, outputs=[operands[name]], attrs=attrs)
    out = operands.pop("out")
    op = graph.new_operator(kind, "op", inputs=list(operands.values()), outputs=[out], params=params)
    op.inputnames = ["query", "key", "value", "mask"][: len(shapes)] if kind == "fused.Attention" else []
    graph.new_operator("pnnx.Output", "end", inputs=[out])
    return list(graph.topological())


@pytest.mark.parametrize(
    "mask, apart", [(None, True), ((4, 4, 4), True), ((1, 4, 4), True), ((4, 4), False), ((4,), False)]
)
def test_masks_have_rows_where_they_have_all_dimensions(mask: tuple[int, ...] | None, apart: bool) -> None:
    shapes = dict.fromkeys("qkv", (4, 4, 4)) | ({} if mask is None else {"m": mask})
    assert rows_apart(_joined("fused.Attention", shapes), 4) is apart


@pytest.mark.parametrize(
    "rows, constant, apart",
    [((4, 8), (8,), True), ((4, 8), (1, 8), True), ((4, 8), (4, 8), False), ((4, 8), (1, 4, 8), False)],
)
def test_constants_do_not_reach_the_rows(rows: tuple[int, ...], constant: tuple[int, ...], apart: bool) -> None:
    ops = _joined("pnnx.Expression", {"x": rows, "c": constant}, "c", expr="add(@0,@1)")
    assert rows_apart(ops, 4) is apart


def test_statistics_of_the_batch_mix_its_rows() -> None:
    ops = list(graph_of(("nn.BatchNorm2d", {"num_features": 4})).topological())
    assert not rows_apart(ops, 1)
    ops[2].attrs |= {key: Attribute(np.ones(4, np.float32)) for key in ("running_mean", "running_var")}
    assert rows_apart(ops, 1)


@pytest.mark.parametrize("first, apart", [(1, False), (-1, True), (6, True)])
def test_new_shapes_that_join_rows(first: int, apart: bool) -> None:
    """A model noted for one row, or for six, that gets six of them."""
    graph = graph_of(("Tensor.reshape", {"shape": (first, *((-1, 8) if first > 0 else (32, 8)))}))
    for operand in graph.operands:
        assert operand.shape is not None
        operand.shape = (max(first, 1), *operand.shape[1:])
    assert rows_apart(list(graph.topological()), 6) is apart


@pytest.mark.parametrize("joined", [False, True])
def test_what_mixes_rows_is_computed_at_once(joined: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    steps = [("nn.BatchNorm2d", {"num_features": 4})]
    if joined:
        steps = [("Tensor.reshape", {"shape": (1, -1, 8)}), ("F.softmax", {"dim": 1})]
        steps += [("Tensor.reshape", {"shape": (-1, 4, 8, 8)})]
    graph = graph_of(*steps)
    if joined:
        for name in ("z0", "z1"):
            operand = graph.get_operand(name)
            assert operand is not None
            operand.shape = (1, 32, 8)
    x = np.random.default_rng(1).standard_normal((6, 3, 8, 8)).astype(np.float32)
    monkeypatch.setattr(batches, "best_part", lambda steps, rows, *rest: (rows, False))
    whole = pnnx_fast.Model(graph)(x)
    monkeypatch.setattr(batches, "best_part", lambda steps, rows, *rest: (1, False))
    np.testing.assert_array_equal(pnnx_fast.Model(graph)(x), whole)


def test_operators_say_whether_they_keep_rows_apart() -> None:
    """Also a user's own that takes the place of one that does."""

    def centred(b: Builder, input: Tensor) -> Tensor:
        return b.host(lambda x: x - x.mean(0), [input], [(input.shape, input.dtype)])[0]

    ops = list(graph_of(("nn.ReLU", {})).topological())
    assert rows_apart(ops, 6)
    with scoped(centred, "nn.ReLU", native=False):
        assert not rows_apart(ops, 6)
    ops[2].type = "mine.Half"
    operator("mine.Half", native=False, rows=lambda op, rows: len(op.inputs) == 1 and rows > 2)(centred)
    assert (rows_apart(ops, 6), rows_apart(ops, 2)) == (True, False)
    unregister("mine.Half")


def test_a_picture_without_batch_has_no_rows() -> None:
    graph = graph_of(("nn.ReLU", {}))
    for name, shape in (("x", (3, 8, 8)), ("y", (4, 8, 8)), ("z0", (4, 8, 8))):
        operand = graph.get_operand(name)
        assert operand is not None
        operand.shape = shape
    assert not rows_apart(list(graph.topological()), 1)


def steps_of(flops: int, weights: int, others: int) -> list[Any]:
    sizes = [(weights, True), (others, False)]
    tensors = [SimpleNamespace(nbytes=nbytes, is_constant=constant) for nbytes, constant in sizes]
    return [SimpleNamespace(flops=flops, tensors=tensors)]


def test_best_part() -> None:
    assert best_part(steps_of(10**9, 10**5, 10**9), 8, 10**9, 1) == (1, False)
    assert best_part(steps_of(10**7, 10**9, 10**5), 8, 10**5, 1) == (8, False)
    assert best_part(steps_of(10**7, 10**9, 10**5), 8, 10**5, 2) == (8, False)
    assert best_part(steps_of(10**10, 10**5, 10**6), 8, 10**6, 2)[1] is True
    assert best_part(steps_of(10**3, 10**2, 10**3), 8, 10**3, 2)[1] is False
    assert best_part(steps_of(10**5, 0, 10**5), 64, 10**6, 1) == (64, False)
    assert (1 << 40) % best_part(steps_of(10**10, 10**5, 10**6), 1 << 40, 10**6, 1)[0] == 0


@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize("part", [1, 2, 3])
def test_parts_give_the_rows(part: int, apart: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where a new shape names the number of rows."""
    flat = ("torch.flatten", {"start_dim": 1, "end_dim": -1})
    graph = graph_of(("nn.ReLU", {}), ("torch.cat", {"dim": 1}), ("Tensor.reshape", {"shape": (6, 4, 8, 16)}), flat)
    for operand in graph.operands:
        assert operand.shape is not None
        operand.shape = (6, *operand.shape[1:])
    for operand, shape in zip(graph.operands[-3:], [(6, 8, 8, 8), (6, 4, 8, 16), (6, 512)], strict=True):
        operand.shape = shape
    x = np.random.default_rng(1).standard_normal((6, 3, 8, 8)).astype(np.float32)
    monkeypatch.setattr(batches, "best_part", lambda steps, rows, *rest: (rows, False))
    whole = pnnx_fast.Model(graph)(x)
    monkeypatch.setattr(batches, "best_part", lambda steps, rows, *rest: (min(part, rows), apart))
    model = pnnx_fast.Model(graph, 2)
    np.testing.assert_allclose(model(x), whole, rtol=0, atol=1e-6)
    assert isinstance(model._program([x]), Parts)
    profile = model.profile(x, repeat=1)
    assert len(profile.steps) > 0
    assert profile.seconds > 0


def test_an_error_in_a_part_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "best_part", lambda steps, rows, *rest: (1, True))
    model = pnnx_fast.Model(graph_of(("nn.ReLU", {})), 2)
    x = np.zeros((6, 3, 8, 8), np.float32)
    chain = model._program([x])

    def fail(*rest: Any) -> None:
        raise MemoryError("no arena")

    monkeypatch.setattr(chain.program, "run", fail)
    with pytest.raises(MemoryError, match="no arena"):
        model(x)
