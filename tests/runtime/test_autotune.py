"""Autotuning: measured choices are honoured and remembered; damaged files are ignored."""

from __future__ import annotations

import json
import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pnnx_fast import Attribute, Graph, Model
from pnnx_fast.runtime import autotune
from pnnx_fast.runtime.autotune import Tuner

TEXT = """7767517
5 4
pnnx.Input a 0 1 x #x=(1,16,20,20)f32
nn.Conv2d one 1 1 x y in_channels=16 out_channels=32 kernel_size=(3,3) padding=(1,1) bias=True @weight=(32,16,3,3)f32 @bias=(32)f32
nn.Conv2d two 1 1 y z in_channels=32 out_channels=32 kernel_size=(3,3) padding=(1,1) bias=False @weight=(32,32,3,3)f32
pnnx.Expression e 2 1 y z r expr=add(@0,@1)
pnnx.Output o 1 0 r
"""  # noqa: E501


@pytest.fixture
def graph() -> Graph:
    graph = Graph.parse(TEXT)
    rng = np.random.default_rng(0)
    for op in graph.ops:
        for key, attr in op.attrs.items():
            op.attrs[key] = Attribute(rng.standard_normal(attr.shape).astype(np.float32))
    return graph


X = np.random.default_rng(1).standard_normal((1, 16, 20, 20)).astype(np.float32)


def _kernels(model: Model) -> list[str]:
    return [f"{r.kernel} {r.label}" for r in model._program([X]).records() if r.kernel.startswith("conv")]


def _close(a: np.ndarray, b: np.ndarray) -> None:
    assert np.abs(a - b).max() <= 1e-4 * np.abs(b).max()


def test_results_agree_and_the_file_is_used_again(graph: Graph, tmp_path: Path) -> None:
    path = tmp_path / "folder" / "tuning.json"
    expected = Model(graph, 1)(X)
    model = Model(graph, 1, autotune=path)
    _close(model(X), expected)
    assert model.constants.tuner.measured == 2
    document = json.loads(path.read_text("utf-8"))
    assert document["format"] == autotune.FORMAT
    again = Model(graph, 1, autotune=str(path))
    _close(again(X), expected)
    assert again.constants.tuner.measured == 0
    assert _kernels(again) == _kernels(model)
    other = Model(graph, 2, autotune=path)
    _close(other(X), expected)
    assert other.constants.tuner.measured == 2, "another number of threads is measured by itself"
    assert len(json.loads(path.read_text("utf-8"))["choices"]) == 2
    assert [p.name for p in path.parent.iterdir()] == ["tuning.json"]


def test_batches_of_nothing_are_not_measured(graph: Graph, tmp_path: Path) -> None:
    path = tmp_path / "tuning.json"
    assert Model(graph, 1, autotune=path)(X[:0]).shape == (0, 32, 20, 20)
    assert not path.exists()


@pytest.mark.parametrize("row", [["conv_f32", 0], ["conv_winograd_f32", 2], ["conv_winograd_f32", 4]])
def test_the_choice_in_the_file_is_honoured(graph: Graph, tmp_path: Path, row: list[Any]) -> None:
    path = tmp_path / "tuning.json"
    Model(graph, 1, autotune=path)(X)
    document = json.loads(path.read_text("utf-8"))
    for layers in document["choices"].values():
        layers.update(dict.fromkeys(layers, row))
    path.write_text(json.dumps(document), "utf-8")
    model = Model(graph, 1, autotune=path)
    _close(model(X), Model(graph, 1)(X))
    assert model.constants.tuner.measured == 0
    assert {r.kernel for r in model._program([X]).records() if r.kernel.startswith("conv")} == {row[0]}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        '"text"',
        '{"format": 99, "choices": {}}',
        '{"format": 1, "choices": []}',
        '{"format": 1, "choices": {"machine": 3}}',
        '{"format": 1, "choices": {"machine": {"layer": ["conv_f32"]}}}',
        '{"format": 1, "choices": {"machine": {"layer": [1, "conv_f32"]}}}',
        "\x00\xff",
        "[" * 100_000,
    ],
)
def test_damaged_files_are_ignored_with_a_warning(tmp_path: Path, text: str) -> None:
    path = tmp_path / "tuning.json"
    path.write_text(text, "latin-1")
    with pytest.warns(UserWarning, match="ignored the tuning file") as caught:
        assert Tuner(path)._known == {}
    assert caught[0].filename == __file__


def test_what_is_no_file_is_left_alone(graph: Graph, tmp_path: Path) -> None:
    pipe = tmp_path / "tuning"
    os.mkfifo(pipe)
    with pytest.warns(UserWarning, match="not a regular file"):
        Model(graph, autotune=pipe)(np.zeros((1, 16, 8, 8), np.float32))
    assert pipe.is_fifo()


def test_a_kernel_that_does_not_fit_is_measured_again(graph: Graph, tmp_path: Path) -> None:
    path = tmp_path / "tuning.json"
    Model(graph, 1, autotune=path)(X)
    document = json.loads(path.read_text("utf-8"))
    for layers in document["choices"].values():
        layers.update((key, ["conv_depthwise_f32", 7]) for key in list(layers))
    path.write_text(json.dumps(document), "utf-8")
    model = Model(graph, 1, autotune=path)
    _close(model(X), Model(graph, 1)(X))
    assert model.constants.tuner.measured == 2


def test_a_folder_that_cannot_be_written_is_a_warning(graph: Graph, tmp_path: Path) -> None:
    blocker = tmp_path / "file"
    blocker.write_text("no folder", "utf-8")
    with pytest.warns(UserWarning, match="tuning file|cannot write") as caught:
        Model(graph, 1, autotune=blocker / "tuning.json")(X)
    assert {w.filename for w in caught} == {__file__}, "warnings point at the caller"


def test_nothing_unfinished_is_left(graph: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(unfinished: str, _: str) -> None:
        assert Path(unfinished).stat().st_size > 0
        raise OSError("no room")

    monkeypatch.setattr(os, "replace", full)
    with pytest.warns(UserWarning, match="no room"):
        Model(graph, 1, autotune=tmp_path / "tuning.json")(X)
    assert list(tmp_path.iterdir()) == []


def test_the_default_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PNNX_FAST_TUNING", str(tmp_path / "own.json"))
    assert autotune.default_file() == tmp_path / "own.json"
    monkeypatch.delenv("PNNX_FAST_TUNING")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert autotune.default_file() == tmp_path / "pnnx_fast" / "tuning.json"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Tuner()


@pytest.mark.parametrize("padding", [0, 1])
def test_every_candidate_takes_a_gate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, padding: int) -> None:
    gated = Graph.parse(
        "7767517\n6 5\npnnx.Input a 0 1 x #x=(1,16,20,20)f32\npnnx.Input b 0 1 g #g=(1,16,1,1)f32\n"
        "F.sigmoid s 1 1 g t #t=(1,16,1,1)f32\npnnx.Expression e 2 1 x t y expr=mul(@0,@1) #y=(1,16,20,20)f32\n"
        "nn.Conv2d c 1 1 y z in_channels=16 out_channels=8 kernel_size=(1,1) stride=(1,1) dilation=(1,1) groups=1 "
        f"padding=({padding},{padding}) padding_mode=zeros bias=False @weight=(8,16,1,1)f32\npnnx.Output o 1 0 z\n"
    )
    weight = np.random.default_rng(2).standard_normal((8, 16, 1, 1)).astype(np.float32)
    gated.ops[4].attrs["weight"] = Attribute(weight)
    gate = np.linspace(-3, 3, 16, dtype=np.float32).reshape(1, 16, 1, 1)
    want = Model(gated, 1, optimize=False)(X, gate)
    seen: set[str] = set()

    def choose(_: Tuner, work: Any, options: Any, given: Any) -> Any:
        new = [option for option in options if option.kernel not in seen]
        seen.update(option.kernel for option in new[:1])
        return new[0] if new else given

    monkeypatch.setattr(Tuner, "choose", choose)
    for _ in range(4):
        _close(Model(gated, 1, autotune=tmp_path / "t.json")(X, gate), want)
    assert len(seen) > 1 or Model(gated).isa in ("generic", "avx2")
