"""Operators of users that give back nothing, or what is no array, are errors that name the operator."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pnnx_fast import Graph, Model
from pnnx_fast.errors import LimitError, OperatorError, ParameterError, PnnxFastError, ShapeError
from pnnx_fast.ops import registry

TEXT = """7767517
3 2
pnnx.Input in 0 1 x #x={shape}f32
mine.Odd odd 1 1 x y
pnnx.Output out 1 0 y
"""


def _run(function: Any, shape: str = "(3)") -> Any:
    with registry.scoped(function, "mine.Odd"):
        model = Model(Graph.parse(TEXT.format(shape=shape)))
        return model(np.ones((3,) if shape == "(3)" else (), np.float32))


def _of(result: Any, kind: str) -> Any:
    """An operator whose function, numpy step or step of unknown shape gives ``result``."""
    if kind == "value":
        return lambda b, input: result
    if kind == "step":
        return lambda b, input: b.host(lambda x: result, [input], [(input.shape, input.dtype)])[0]
    return lambda b, input: b.dynamic(lambda x: result, [input])


@pytest.mark.parametrize("kind", ["value", "step", "dynamic"])
@pytest.mark.parametrize("shape", ["(3)", "()"])
@pytest.mark.parametrize("result", [None, object(), {"a": 1}, [None], (None,), np.array([None]), np.array(["7"])])
def test_what_is_no_array_is_an_error(kind: str, shape: str, result: Any) -> None:
    with pytest.raises(PnnxFastError, match=r"mine\.Odd odd"):
        _run(_of(result, kind), shape)


@pytest.mark.parametrize("result", ["7", [[1, 2], [3]], (), (1, 2)])
def test_what_does_not_fit_a_numpy_step_is_an_error(result: Any) -> None:
    with pytest.raises(PnnxFastError, match=r"mine\.Odd odd"):
        _run(_of(result, "step"), "()")


def test_steps_of_numpy_cannot_write_to_what_others_read() -> None:
    def doubled(x: Any) -> Any:
        x *= 2
        return x

    with pytest.raises(PnnxFastError, match=r"mine\.Odd odd.*read-only"):
        _run(lambda b, input: b.host(doubled, [input], [(input.shape, input.dtype)])[0])


def test_too_few_results_are_an_error() -> None:
    with pytest.raises(PnnxFastError, match=r"mine\.Odd odd.*fewer results"):
        _run(_of((), "dynamic"))


def test_a_function_that_fails_is_named() -> None:
    def fails(x: Any) -> Any:
        raise KeyError("lost")

    with pytest.raises(PnnxFastError, match=r"mine\.Odd odd.*lost"):
        _run(lambda b, input: b.dynamic(fails, [input]))


@pytest.mark.parametrize("kind", ["lowering", "step", "dynamic"])
def test_what_a_function_raises_is_the_cause(kind: str) -> None:
    def fails(*_: Any) -> Any:
        raise TimeoutError("no camera")

    ways: dict[str, Any] = {
        "lowering": fails,
        "step": lambda b, input: b.host(fails, [input], [(input.shape, input.dtype)])[0],
        "dynamic": lambda b, input: b.dynamic(fails, [input]),
    }
    with pytest.raises(OperatorError, match=r"mine\.Odd odd: its function raised TimeoutError: no camera") as caught:
        _run(ways[kind])
    assert isinstance(caught.value.__cause__, TimeoutError)
    assert caught.value.operator == "mine.Odd odd"


@pytest.mark.parametrize("error", [MemoryError(), ShapeError("too long"), ParameterError("too odd")])
def test_errors_of_this_package_stay_what_they_are(error: Exception) -> None:
    def fails(*_: Any) -> Any:
        raise error

    with pytest.raises(LimitError if isinstance(error, MemoryError) else type(error), match=r"mine\.Odd odd"):
        _run(fails)


@pytest.mark.parametrize("kind", ["step", "dynamic"])
@pytest.mark.parametrize("result", [np.arange(3.0), [0, 1, 2], (np.float32([0, 1, 2]),)])
def test_arrays_and_lists_are_results(kind: str, result: Any) -> None:
    assert np.array_equal(_run(_of(result, kind)), [0, 1, 2])


def test_numbers_are_results() -> None:
    assert _run(_of(7, "value")) == 7
    assert _run(_of(np.float32(7), "dynamic")) == 7
