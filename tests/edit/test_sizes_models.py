"""Sizes of real networks: a batch gives what its items give alone, where the benchmark models have been made."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from pnnx_fast import Graph, Model
from pnnx_fast.errors import ShapeError

ZOO = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "pnnx_fast" / "zoo"


def load(name: str) -> tuple[Graph, np.ndarray]:
    folder = ZOO / name
    if not (folder / "golden.npz").exists():
        pytest.skip(f"{name} has not been made")
    with np.load(folder / "golden.npz") as golden:
        return Graph.load(folder / "model.pnnx.param"), golden["in0"]


def first(value: object) -> np.ndarray:
    return first(value[0]) if isinstance(value, list | tuple) else np.asarray(value)


@pytest.mark.parametrize("name", ["resnet18", "yolov8n", "vit_b_16", "bert_l6_h384", "swin_t", "yolo11n"])
def test_a_batch_gives_what_its_items_give(name: str) -> None:
    graph, x = load(name)
    alone = Model(graph.copy(), num_threads=2)
    assert graph.make_dynamic() == []
    batch = np.concatenate([x, np.roll(x, 5, -1)])
    got = first(Model(graph, num_threads=2)(batch))
    wanted = np.concatenate([first(alone(item[None])) for item in batch])
    assert np.abs(got - wanted).max() <= 1e-4 * np.abs(wanted).max()


@pytest.mark.parametrize(("name", "result"), [("resnet18", (2, 1000)), ("yolov8n", (2, 84, 1260))])
def test_pictures_of_another_size(name: str, result: tuple[int, ...]) -> None:
    graph, x = load(name)
    assert graph.make_dynamic({op.outputs[0].name: (0, 2, 3) for op in graph.ops if op.type == "pnnx.Input"}) == []
    assert first(Model(graph, num_threads=2)(np.repeat(x[..., :192, :320], 2, 0))).shape == result


@pytest.mark.parametrize(
    ("name", "text"),
    [("swin_t", "attention_1: its mask 8 was computed for 64 windows"), ("vit_b_16", "constant encoder")],
)
def test_what_keeps_the_resolution_fixed_is_named(name: str, text: str) -> None:
    graph, _ = load(name)
    with pytest.raises(ShapeError, match=text):
        graph.make_dynamic({op.outputs[0].name: (2, 3) for op in graph.ops if op.type == "pnnx.Input"})
