"""Models: inputs by name, and programs that are compiled ahead."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pnnx_fast
from pnnx_fast.demo import model_path
from pnnx_fast.errors import LimitError, ParameterError, ShapeError

MASKED = """7767517
4 3
pnnx.Input      a   0 1 x #x=(?,2)f32
pnnx.Input      b   0 1 mask #mask=(2)f32
pnnx.Expression e   2 1 x mask y expr=mul(@0,@1)
pnnx.Output     out 1 0 y
"""
X, MASK = np.float32([[2, 3], [4, 5]]), np.float32([1, 0])


def made(text: str = MASKED) -> pnnx_fast.Model:
    return pnnx_fast.Model(pnnx_fast.Graph.parse(text), 1)


@pytest.fixture
def model() -> pnnx_fast.Model:
    return made()


def test_inputs_by_name_follow_those_by_position(model: pnnx_fast.Model) -> None:
    for _ in range(2):  # the second time with the program of the first
        for got in (model(X, mask=MASK), model(mask=MASK, x=X), model.run({"mask": MASK, "x": X})["y"]):
            np.testing.assert_array_equal(got, X * MASK)
    np.testing.assert_array_equal(model(X.tolist(), mask=[1, 0]), X * MASK)
    np.testing.assert_array_equal(model.results(X, mask=MASK)[0], X * MASK)
    assert model.work(X, mask=MASK) == model.work(X, MASK)
    assert model.profile(X, mask=MASK, repeat=1).steps
    assert model.timed(X, mask=MASK)[1]


@pytest.mark.parametrize("name", ["0", "self", "arrays", "named", "inputs", "shapes"])
def test_an_input_may_have_any_name(name: str) -> None:
    model = made(f"7767517\n3 2\npnnx.Input a 0 1 {name} #{name}=(2)f32\nF.relu r 1 1 {name} y\npnnx.Output o 1 0 y\n")
    np.testing.assert_array_equal(model(**{name: MASK}), MASK)
    assert model.work(**{name: MASK}) == model.work(MASK)
    model.warm_up(**{name: (5,)})


@pytest.mark.parametrize(
    "arrays, named, message",
    [
        ([X], {"maks": MASK}, "there is no input 'maks'; did you mean 'mask'?"),
        ([X], {"other": MASK}, "there is no input 'other'; the inputs are 'x', 'mask'"),
        ([X], {"x": X}, "input 'x' is given by position and by name"),
        ([X, MASK], {"mask": MASK}, "input 'mask' is given by position and by name"),
        ([], {"x": X}, "input 'mask' is missing; the inputs are 'x', 'mask'"),
        ([X], {}, "wrong number of inputs 'x', 'mask': expected 2, got 1"),
        ([X, X, X], {"mask": MASK}, "wrong number of inputs 'x', 'mask': expected 2, got 3"),
        ([{"x": X, "mask": MASK}], {}, "arrays by name are given as model(**arrays) or model.run(arrays)"),
        ([], {"x": X, "mask": None}, "no array: NoneType holds no numbers (operand mask)"),
    ],
)
def test_errors_about_names_tell_what_there_is(
    model: pnnx_fast.Model, arrays: list[np.ndarray], named: dict[str, Any], message: str
) -> None:
    model(X, MASK)
    with pytest.raises(ShapeError) as caught:
        model(*arrays, **named)
    assert str(caught.value) == message


def test_many_names_are_listed_in_part() -> None:
    lines = [f"pnnx.Input i{i} 0 1 x{i} #x{i}=(2)f32" for i in range(20)]
    model = made("\n".join(["7767517", "21 20", *lines, "pnnx.Output o 1 0 x0", ""]))
    with pytest.raises(ShapeError, match=r"wrong number of inputs 'x0', .*, 'x7', …: expected 20, got 0"):
        model()


def test_keys_of_a_mapping_that_are_no_texts(model: pnnx_fast.Model) -> None:
    with pytest.raises(ShapeError, match="there is no input 0; the inputs are 'x', 'mask'"):
        model.run({0: X, "mask": MASK})  # type: ignore[dict-item]


LISTED = """7767517
5 4
pnnx.Input           a   0 1 x #x=(?,2)f32
pnnx.Input           b   0 1 mask #mask=(2)f32
pnnx.Expression      e   2 1 x mask n expr=[mul(@0,@1),@1]
prim::TupleConstruct t   2 1 x n y
pnnx.Output          out 1 0 y
"""


@pytest.mark.parametrize("optimize", [True, False])
def test_outputs_in_lists_go_by_name(optimize: bool) -> None:
    model = pnnx_fast.Model(pnnx_fast.Graph.parse(LISTED), 1, optimize=optimize)
    assert [info.name for info in model.outputs] == ["x", "n.0", "mask"]
    whole, [product, mask] = model(X, MASK)
    found = model.run({"x": X, "mask": MASK})
    assert list(found) == ["x", "n.0", "mask"]
    for got, wanted in zip(found.values(), (whole, product, mask), strict=True):
        np.testing.assert_array_equal(got, wanted)
    np.testing.assert_array_equal(product, X * MASK)
    assert list(model.run({"x": X, "mask": MASK}, iter(["mask", "n.0"]))) == ["mask", "n.0"]
    with pytest.raises(ShapeError, match=r"there is no output 'other'; the outputs are 'x', 'n\.0', 'mask'"):
        model.run({"x": X, "mask": MASK}, ["other"])


def test_outputs_in_lists_of_a_model_from_the_cache(tmp_path: Path) -> None:
    (tmp_path / "m.pnnx.param").write_text(LISTED, "utf-8")
    for _ in range(2):
        model = pnnx_fast.load(tmp_path, cache=tmp_path / "programs")
        assert list(model.run({"x": X, "mask": MASK})) == ["x", "n.0", "mask"]


def test_a_list_of_which_the_graph_does_not_tell_the_length_is_one_output() -> None:
    model = made(
        "7767517\n6 5\npnnx.Input a 0 1 x #x=(2,2)f32\nprim::Constant n 0 1 n value=2\n"
        "prim::Constant d 0 1 d value=0\naten::chunk c 3 1 x n d y\n"
        "prim::TupleConstruct t 2 1 y x z\npnnx.Output o 1 0 z\n"
    )
    assert [info.name for info in model.outputs] == ["y", "x"]
    found = model.run({"x": X})
    np.testing.assert_array_equal(found["x"], X)
    np.testing.assert_array_equal(found["y"], [X[:1], X[1:]])
    assert list(model.run({"x": X}, ["y"])) == ["y"]


def test_an_input_may_have_the_name_of_the_number_of_timed_runs() -> None:
    model = made("7767517\n3 2\npnnx.Input a 0 1 repeat #repeat=(2)f32\nF.relu r 1 1 repeat y\npnnx.Output o 1 0 y\n")
    assert model.profile(repeat=MASK).steps
    assert model.profile(MASK, repeat=2).steps


@pytest.mark.parametrize("repeat", [0, 1.5, "2", MASK])
def test_numbers_of_timed_runs_that_are_none(model: pnnx_fast.Model, repeat: Any) -> None:
    with pytest.raises(ParameterError, match="repeat must be a whole number of at least 1"):
        model.profile(X, MASK, repeat=repeat)


@pytest.mark.parametrize(
    "shapes, named",
    [
        ([(2, 2)], {}),  # the noted shape of the mask
        ([[2, 2], [2]], {}),
        ([], {"x": (2, 2)}),
        ([X], {"mask": (2,)}),
        ([X.astype(np.float16), MASK], {}),
    ],
)
def test_a_program_that_is_compiled_ahead_is_the_one_of_the_call(
    model: pnnx_fast.Model, shapes: list[Any], named: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    model.warm_up(*shapes, **named)
    monkeypatch.setattr(type(model), "_make", None)
    np.testing.assert_array_equal(model(X, MASK), X * MASK)


@pytest.mark.parametrize(
    "shapes, named, error, message",
    [
        ([], {}, ShapeError, r"does not note all sizes of input x: float32\[\?, 2\]; give its shape"),
        ([(2, 1.5)], {}, ShapeError, "needs a shape of whole numbers"),
        ([(2, -1)], {}, ShapeError, "needs a shape of whole numbers"),
        ([(2, 2, 2)], {}, ShapeError, "wrong number of dimensions of input 'x'"),
        ([(2, 2)] * 3, {}, ShapeError, "wrong number of inputs 'x', 'mask': expected 2, got 3"),
        ([(2, 2)], {"maks": (2,)}, ShapeError, "did you mean 'mask'"),
        ([(1 << 50, 2)], {}, LimitError, "input x: .* of memory are needed"),
        ([2], {}, ShapeError, "wrong number of dimensions"),
    ],
)
def test_shapes_that_cannot_be_compiled_for(
    model: pnnx_fast.Model, shapes: list[Any], named: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        model.warm_up(*shapes, **named)


def test_shapes_that_the_file_does_not_note_are_given() -> None:
    model = made("7767517\n3 2\npnnx.Input a 0 1 x\nF.relu r 1 1 x y\npnnx.Output o 1 0 y\n")
    with pytest.raises(ShapeError, match=r"does not note all sizes of input x: .*; give its shape"):
        model.warm_up()
    model.warm_up((2,))
    np.testing.assert_array_equal(model(MASK), MASK)


def test_what_is_compiled_ahead_fills_the_folder_of_programs(tmp_path: Path) -> None:
    pnnx_fast.load(model_path(), cache=tmp_path).warm_up((3, 1, 8, 8))
    assert len(list(tmp_path.glob("*.pfc"))) == 2
