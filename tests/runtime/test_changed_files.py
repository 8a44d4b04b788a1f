"""Files of weights that somebody writes to while models and graphs made of them live."""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pnnx_fast
from pnnx_fast import Graph
from pnnx_fast.errors import FormatError, ParameterError
from pnnx_fast.ir.mapped import file_of
from pnnx_fast.ops import registry
from pnnx_fast.runtime.constants import SETTLED

ROWS, WIDTH = 33000, 8
TEXT = f"""7767517
6 5
pnnx.Input in 0 1 i #i=(3)i64
nn.Embedding table 1 1 i x embedding_dim={WIDTH} num_embeddings={ROWS} @weight=({ROWS},{WIDTH})f32 #x=(3,{WIDTH})f32
nn.Linear fc 1 1 x y bias=True in_features={WIDTH} out_features=4 @weight=(4,{WIDTH})f32 @bias=(4)f32 #y=(3,4)f32
pnnx.Attribute c 0 1 c @data=(4)f32 #c=(4)f32
pnnx.Expression sum 2 1 y c z expr=add(@0,@1) #z=(3,4)f32
pnnx.Output out 1 0 z
"""
X = np.array([1, 0, 2])
CHANGED = "was changed after weights were loaded from it"


@pytest.fixture
def model(tmp_path: Path) -> Path:
    graph = Graph.parse(TEXT)
    rng = np.random.default_rng(0)
    for op in graph.ops:
        op.attrs.update({key: rng.standard_normal(attr.shape).astype(np.float32) for key, attr in op.attrs.items()})
    graph.save(tmp_path / "m.pnnx.param")
    return tmp_path / "m.pnnx.param"


def _cut(param: Path) -> None:
    os.truncate(param.with_suffix(".bin"), 0)


def _overwrite(param: Path) -> None:
    """Write another content of the same size into the file, as copying over it does."""
    path = param.with_suffix(".bin")
    before = path.stat()
    with path.open("r+b") as file:
        file.write(bytes(before.st_size))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns + 1_000_000))  # clocks of file systems are coarse


def _replace(param: Path) -> None:
    path = param.with_suffix(".bin")
    new = path.with_suffix(".new")
    new.write_bytes(b"something else")
    new.replace(path)


def _compile(graph: Graph, param: Path) -> None:
    pnnx_fast.Model(graph)


def _save(graph: Graph, param: Path) -> None:
    graph.save(param.with_name("other.pnnx.param"))


USES = (
    _compile,
    _save,
    lambda graph, _: graph.to("fp16"),
    lambda graph, _: pickle.dumps(graph),
    lambda graph, _: graph.diff(graph.copy()),
)


@pytest.mark.parametrize("change", [_cut, _overwrite])
@pytest.mark.parametrize("use", USES)
def test_a_graph_does_not_read_what_was_changed(model: Path, change: Any, use: Any) -> None:
    graph = Graph.load(model).copy()
    change(model)
    with pytest.raises(FormatError, match=CHANGED) as caught:
        use(graph, model)
    assert caught.value.path == str(model.with_suffix(".bin"))


@pytest.mark.parametrize("change", [_replace, lambda param: param.with_suffix(".bin").unlink()])
@pytest.mark.parametrize("use", USES)
def test_another_file_in_its_place_changes_nothing(model: Path, change: Any, use: Any) -> None:
    graph = Graph.load(model)
    change(model)
    use(graph, model)


@pytest.mark.parametrize("change", [_cut, _overwrite])
def test_programs_are_not_made_of_what_was_changed(model: Path, change: Any) -> None:
    made, fresh = pnnx_fast.load(model), pnnx_fast.load(model)
    made(X)
    change(model)
    for call in (lambda: fresh(X), lambda: made(X[:2])):
        with pytest.raises(FormatError, match=CHANGED):
            call()


def test_programs_read_only_large_tables_from_the_file(model: Path) -> None:
    made = pnnx_fast.load(model)
    program: Any = made.program([X])
    held = [buffer.array for buffer in program._used]
    assert [a.nbytes for a in held if file_of(a) is not None] == [ROWS * WIDTH * 4]
    assert ROWS * WIDTH * 4 > SETTLED


def test_small_weights_stay_what_they_were(tmp_path: Path, model: Path) -> None:
    graph = Graph.load(model).extract(["x"], ["z"])
    param = tmp_path / "part.pnnx.param"
    graph.save(param)
    x = np.ones((3, WIDTH), np.float32)
    made = pnnx_fast.load(param)
    expected = made(x)
    _cut(param)
    np.testing.assert_array_equal(made(x), expected)


def test_constants_of_numpy_steps_stay_what_they_were(tmp_path: Path) -> None:
    graph = Graph.parse(
        "7767517\n4 3\npnnx.Input in 0 1 x #x=(4)f32\npnnx.Attribute c 0 1 c @data=(4)f32 #c=(4)f32\n"
        "tests.together t 2 1 x c y #y=(4)f32\npnnx.Output out 1 0 y\n"
    )
    graph.ops[1].attrs["data"] = np.float32([1, 2, 3, 4])
    graph.save(tmp_path / "n.pnnx.param")

    @pnnx_fast.operator("tests.together", native=False)
    def together(b: Any, x: Any, c: Any) -> Any:
        return b.host(lambda x, c: x + c, [x, c], [(x.shape, x.dtype)])[0]

    try:
        made = pnnx_fast.load(tmp_path / "n.pnnx.param")
        x = np.zeros(4, np.float32)
        made(x)
        _cut(tmp_path / "n.pnnx.param")
        assert made(x).tolist() == [1, 2, 3, 4]
    finally:
        registry.unregister("tests.together")


@pytest.mark.parametrize("change", [_overwrite, _replace])
def test_a_folder_of_programs_is_not_mixed_with_another_model(model: Path, change: Any) -> None:
    folder = model.parent / "programs"
    pnnx_fast.load(model, cache=folder)(X)
    made = pnnx_fast.load(model, cache=folder)
    expected = made(X)
    if change is _overwrite:
        param = Graph.load(model)
        param.operator("c").attrs["data"] = np.zeros(4, np.float32)
        param.save(model)
    else:
        Graph.load(model).to("fp16").save(model)
    with pytest.raises(FormatError, match="was changed after the model was loaded"):
        made(X[:2])
    np.testing.assert_array_equal(made(X), expected)


def test_models_keep_the_weights_that_they_were_made_of() -> None:
    graph = Graph.parse(TEXT).extract(["x"], ["y"])
    weight, x = np.zeros((4, WIDTH), np.float32), np.ones((1, WIDTH), np.float32)
    fc = graph.operator("fc")
    fc.attrs["bias"] = np.zeros(4, np.float32)
    models = []
    for _ in range(3):
        weight += 1
        fc.attrs["weight"] = weight
        models.append(pnnx_fast.Model(graph))
    weight[:] = 100
    assert [float(m(x)[0, 0]) for m in models] == [8, 16, 24]


@pytest.mark.parametrize("use", [pnnx_fast.Model, lambda graph: graph.to("fp16")])
def test_weights_without_data_are_named(use: Any) -> None:
    with pytest.raises(ParameterError, match=r"nn\.Linear fc: the weight 'weight' has no data"):
        use(Graph.parse(TEXT).extract(["x"], ["y"]))
